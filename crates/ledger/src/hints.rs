//! Hints of calls for the next ones about large elements: reading costs 5 ms per MB.

use delaybridge_link::Score;

/// Hints of one claim for the next, so that large elements are not read twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    /// Score of the source's head, if that is known to be large.
    pub large_due: Option<Score>,
    /// Score of a head of the retry zset known to be large.
    pub large_retry: Option<Score>,
    /// Size of the largest element met lately; halves with every claim that meets smaller ones.
    largest: usize,
}

impl Hints {
    /// Creates the hints of a claim: scores of heads known to be large, and the size of the largest element.
    pub(super) fn learned(large_due: Option<Score>, large_retry: Option<Score>, largest: usize) -> Self {
        Hints { large_due, large_retry, largest }
    }

    /// Returns the size in bytes of the largest element met lately.
    pub fn largest(&self) -> usize {
        self.largest
    }
}

/// Elements above this are not read again before they are due.
const LARGE: i64 = 16 << 10;

/// Returns the score of a head that is large, for the next call; size -1 means that the script did not look, because
/// the score said that the head is still the large one.
pub fn large_head(score: Option<Score>, size: i64) -> Option<Score> {
    score.filter(|_| !(0..=LARGE).contains(&size))
}
