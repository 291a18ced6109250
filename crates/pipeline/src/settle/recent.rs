//! What this process has delivered lately, so that it notices when Redis has forgotten it: a failover to a replica that
//! lacks the last writes puts delivered elements back to where they were, and they are claimed once more.
//!
//! What was confirmed in the last seconds is noted as hashes. When a reply comes from another history of the server
//! than the one before, those and the elements in flight may come back: one of them that is claimed as if for the first time
//! may have been delivered before. Bounded by count; what is forgotten is delivered all the same, and not announced.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use delaybridge_core::clock::Instant;
use delaybridge_ledger::claims::Element;
use delaybridge_link::History;

/// The time for which a confirmation is noted: longer than a replica lags behind, and than a connection takes to be seen broken.
const LATELY: Duration = Duration::from_secs(15);
/// Confirmations that are so close together are forgotten together.
const TOGETHER: Duration = Duration::from_secs(1);
/// Most elements that are noted of one queue, the latest, and most that are expected back.
const MOST: usize = 8_192;
/// The time for which elements are expected back: they are due, so they come at once, or after those that were due before them.
const EXPECTED: Duration = Duration::from_secs(600);

/// The recent deliveries of one queue.
#[derive(Debug, Default)]
pub struct RecentDeliveries(Mutex<RecentState>);

#[derive(Debug, Default)]
struct RecentState {
    /// The history that the last reply came from.
    history: Option<History>,
    /// The confirmed elements, the oldest first.
    confirmed: VecDeque<u32>,
    /// The times of the confirmations, with the number of elements of each.
    times: VecDeque<(Instant, usize)>,
    /// The elements that a failover may bring back.
    expected: HashSet<u32>,
    /// The time from which they are not expected any more.
    until: Option<Instant>,
}

impl RecentState {
    fn note(&mut self, now: Instant, hash: u32) {
        if self.confirmed.len() == MOST {
            self.forget_first(1);
        }
        self.confirmed.push_back(hash);
        match self.times.back_mut() {
            Some((at, count)) if now.since(*at) < TOGETHER => *count += 1,
            _ => self.times.push_back((now, 1)),
        }
    }

    /// Forgets the oldest ones.
    fn forget_first(&mut self, mut most: usize) {
        while most > 0
            && let Some((_, count)) = self.times.front_mut()
        {
            let some = most.min(*count);
            *count -= some;
            most -= some;
            self.confirmed.drain(..some.min(self.confirmed.len()));
            if *count == 0 {
                self.times.pop_front();
            }
        }
    }

    fn forget(&mut self, now: Instant) {
        while let Some((at, count)) = self.times.front().copied()
            && now.since(at) > LATELY
        {
            self.forget_first(count);
        }
        if self.confirmed.is_empty() {
            (self.confirmed, self.times) = Default::default();
        }
        if self.until.is_some_and(|until| until <= now) {
            (self.expected, self.until) = (HashSet::new(), None);
        }
    }
}

impl RecentDeliveries {
    /// Notes that these elements of a claim were confirmed.
    pub fn confirmed<'a>(&self, now: Instant, elements: impl Iterator<Item = &'a Element>) {
        let mut state = self.0.lock();
        elements.filter_map(hash).for_each(|hash| state.note(now, hash));
        state.forget(now);
    }

    /// Records the history that a reply came from. If the last one came from another, what was confirmed lately and
    /// what is `held` may come back.
    pub fn answered(&self, now: Instant, history: Option<History>, held: impl FnOnce() -> Vec<u32>) {
        let mut state = self.0.lock();
        let before = state.history;
        state.history = history.or(before);
        if before.is_none() || before == state.history {
            return;
        }
        state.forget(now);
        let RecentState { confirmed, expected, until, .. } = &mut *state;
        expected.extend(held().into_iter().chain(confirmed.iter().rev().copied()).take(MOST));
        *until = (!expected.is_empty()).then(|| now.after(EXPECTED));
    }

    /// Returns the number of these elements that were delivered before, as it seems. Each is counted once.
    pub fn met<'a>(&self, elements: impl Iterator<Item = &'a Element>) -> u64 {
        let mut state = self.0.lock();
        if state.expected.is_empty() {
            return 0;
        }
        elements.filter_map(hash).filter(|hash| state.expected.remove(hash)).count() as u64
    }

    /// Returns whether nothing is noted and nothing expected back.
    pub fn is_empty(&self, now: Instant) -> bool {
        let mut state = self.0.lock();
        state.forget(now);
        state.confirmed.is_empty() && state.expected.is_empty()
    }
}

/// Returns the hash of an element of the source: of its bytes, and its score. An entry of ours carries its own history.
/// Among [`MOST`] one in half a million is taken for another one, and announced in vain.
pub fn hash(element: &Element) -> Option<u32> {
    element.header.is_none().then(|| xxh3_64_with_seed(&element.member, element.score_ms as u64) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(n: u8) -> Element {
        Element::bare(vec![n; 16].into(), i64::from(n))
    }

    #[test]
    fn what_was_confirmed_in_another_history_is_met_once() {
        let recent = RecentDeliveries::default();
        let now = Instant::now();
        let history = |epoch| Some(History::of_connection(1, epoch));
        let one = history(1);
        recent.answered(now, one, Vec::new);
        recent.confirmed(now, [element(1), element(2)].iter());
        recent.answered(now, one, || panic!("the same history"));
        assert_eq!(recent.met([element(1)].iter()), 0, "nothing was lost");
        recent.answered(now, None, Vec::new);
        recent.answered(now, history(2), || vec![hash(&element(3)).unwrap()]);
        let again = [element(1), element(2), element(3), element(4)];
        assert_eq!(recent.met(again.iter()), 3);
        assert_eq!(recent.met(again.iter()), 0);
        assert!(!recent.is_empty(now), "what is confirmed now may be lost by the next failover");
        assert!(recent.is_empty(now.after(EXPECTED)));
    }

    #[test]
    fn it_forgets_what_is_old_and_what_is_too_much() {
        let recent = RecentDeliveries::default();
        let now = Instant::now();
        let history = |epoch| Some(History::of_connection(1, epoch));
        recent.answered(now, history(1), Vec::new);
        recent.confirmed(now, [element(1)].iter());
        let later = now.after(LATELY * 2);
        recent.answered(later, history(2), Vec::new);
        assert_eq!(recent.met([element(1)].iter()), 0);
        for _ in 0..1_000 {
            recent.confirmed(later, std::iter::repeat_n(&element(2), 100));
        }
        assert_eq!(recent.0.lock().confirmed.len(), MOST);
        // Another element with the same bytes, due at another time, is another one.
        recent.answered(later, history(3), Vec::new);
        assert_eq!(recent.met([Element::bare(vec![2; 16].into(), 7)].iter()), 0);
        assert_eq!(recent.met([element(2)].iter()), 1);
    }
}
