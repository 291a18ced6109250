//! The marks that searches have read, so that a later one reads only what is new. Pure.
//!
//! Of each partition one range is remembered without a hole: a later search reads what is before it, if its own begins earlier, and
//! what has been added behind it. Without a range, or with another one of the log (it is shorter than what was read), it reads all.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use delaybridge_sink::CopyMark;

/// Marks that one sink remembers: 10 MB. Behind them, partitions that were searched long ago are forgotten.
const MOST_MARKS: usize = 200_000;
/// Partitions that one sink remembers.
const MOST_PARTITIONS: usize = 4_096;

pub(super) type TopicPartition = (Arc<str>, i32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeenMark {
    pub(super) mark: CopyMark,
    pub(super) time_ms: Option<i64>,
}

/// A part of a partition that is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) from: i64,
    /// The offset behind the last record.
    pub(super) to: i64,
    /// Whether it is before the range that was read; else it is behind.
    is_before: bool,
}

/// The range that was read of a partition.
#[derive(Debug, Default)]
struct SeenRange {
    from: i64,
    to: i64,
    /// All records of this time and later are from `from` on; none if that is not known.
    from_ms: Option<i64>,
    marks: VecDeque<SeenMark>,
    /// The last search that needed it.
    used: u64,
}

/// The marks that the searches of a sink have read.
#[derive(Debug, Default)]
pub(super) struct SeenMarks {
    ranges: HashMap<TopicPartition, SeenRange>,
    searches: u64,
}

impl SeenMarks {
    /// Begins a search, and forgets what is beyond the bounds: the partitions that were not needed for the longest time.
    pub(super) fn begin(&mut self) {
        self.forget_beyond(MOST_MARKS, MOST_PARTITIONS);
        self.searches += 1;
    }

    fn forget_beyond(&mut self, most_marks: usize, most_partitions: usize) {
        let mut marks: usize = self.ranges.values().map(|range| range.marks.len()).sum();
        while marks > most_marks || self.ranges.len() > most_partitions {
            let oldest = self.ranges.iter().min_by_key(|(_, range)| range.used).map(|(place, _)| place.clone());
            let Some(range) = oldest.and_then(|oldest| self.ranges.remove(&oldest)) else { return };
            marks -= range.marks.len();
        }
    }

    pub(super) fn of_topic<'a>(&'a self, topic: &'a str) -> impl Iterator<Item = &'a SeenMark> {
        self.ranges.iter().filter(move |((of, _), _)| **of == *topic).flat_map(|(_, range)| &range.marks)
    }

    /// Returns the begin of the range of a partition, if it has all records of this time and later.
    pub(super) fn begins(&self, place: &TopicPartition, from_ms: i64) -> Option<i64> {
        let range = self.ranges.get(place)?;
        (range.from_ms? <= from_ms).then_some(range.from)
    }

    /// Finds the range of a partition that is still to be read, from this offset to this end; one part at a time.
    pub(super) fn gap(&mut self, place: &TopicPartition, from: i64, end: i64) -> Option<Gap> {
        // A range that the log does not reach is one of another log, and one that ends before would leave a hole.
        if self.ranges.get(place).is_some_and(|range| range.to > end || range.to < from) {
            self.ranges.remove(place);
        }
        let gap = match self.ranges.get_mut(place) {
            None => Gap { from, to: end, is_before: false },
            Some(range) => {
                range.used = self.searches;
                if from < range.from {
                    Gap { from, to: range.from, is_before: true }
                } else {
                    Gap { from: range.to, to: end, is_before: false }
                }
            }
        };
        (gap.from < gap.to).then_some(gap)
    }

    /// Remembers what was read of a gap: the marks of all records before `read_to`.
    pub(super) fn add(&mut self, place: &TopicPartition, gap: Gap, read_to: i64, marks: Vec<SeenMark>) {
        let used = self.searches;
        let new = || SeenRange { from: gap.from, to: gap.from, used, ..SeenRange::default() };
        match gap.is_before {
            false => {
                let range = self.ranges.entry(place.clone()).or_insert_with(new);
                if range.to == gap.from {
                    range.to = read_to.min(gap.to);
                    range.marks.extend(marks);
                }
            }
            // A part of it would leave a hole.
            true if read_to >= gap.to => {
                if let Some(range) = self.ranges.get_mut(place).filter(|range| range.from == gap.to) {
                    range.from = gap.from;
                    marks.into_iter().rev().for_each(|mark| range.marks.push_front(mark));
                }
            }
            true => {}
        }
    }

    /// Notes that a partition, which has no [gap](SeenMarks::gap) from here to its end, has no record of this time or later before.
    pub(super) fn is_whole(&mut self, place: &TopicPartition, from: i64, end: i64, from_ms: i64) {
        let used = self.searches;
        let new = || SeenRange { from, to: end, used, ..SeenRange::default() };
        let range = self.ranges.entry(place.clone()).or_insert_with(new);
        if range.from <= from {
            range.from_ms = Some(range.from_ms.map_or(from_ms, |known| known.min(from_ms)));
        }
    }

    /// Forgets a topic whose log is another one now.
    pub(super) fn forget(&mut self, topic: &str) {
        self.ranges.retain(|(of, _), _| **of != *topic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_sink::AttemptId;

    fn place(partition: i32) -> TopicPartition {
        ("t".into(), partition)
    }

    fn mark(element: u128) -> SeenMark {
        SeenMark { mark: CopyMark { element, attempt: AttemptId(1) }, time_ms: None }
    }

    fn marks(range: std::ops::Range<i64>) -> Vec<SeenMark> {
        range.map(|offset| mark(offset.unsigned_abs().into())).collect()
    }

    /// Reads all of a partition from an offset to its end, and returns the parts that were read.
    fn read(seen: &mut SeenMarks, partition: i32, from: i64, end: i64, from_ms: i64) -> Vec<(i64, i64)> {
        seen.begin();
        let mut parts = Vec::new();
        while let Some(gap) = seen.gap(&place(partition), from, end) {
            seen.add(&place(partition), gap, gap.to, marks(gap.from..gap.to));
            parts.push((gap.from, gap.to));
        }
        seen.is_whole(&place(partition), from, end, from_ms);
        parts
    }

    fn elements(seen: &SeenMarks) -> Vec<u128> {
        seen.of_topic("t").map(|seen| seen.mark.element).collect()
    }

    #[test]
    fn only_what_is_before_and_behind_is_read_by_a_later_search() {
        let mut seen = SeenMarks::default();
        assert_eq!(read(&mut seen, 0, 10, 20, 1_000), [(10, 20)]);
        assert_eq!(read(&mut seen, 0, 10, 20, 1_000), []);
        assert_eq!(read(&mut seen, 0, 12, 25, 2_000), [(20, 25)]);
        assert_eq!(read(&mut seen, 0, 5, 30, 500), [(5, 10), (25, 30)]);
        assert_eq!(elements(&seen), (5..30).collect::<Vec<_>>());
        assert_eq!((seen.begins(&place(0), 500), seen.begins(&place(0), 499)), (Some(5), None));
        assert_eq!(seen.begins(&place(1), 500), None);
    }

    #[test]
    fn a_range_with_a_hole_or_of_another_log_is_read_anew() {
        let mut seen = SeenMarks::default();
        read(&mut seen, 0, 10, 20, 1_000);
        assert_eq!(read(&mut seen, 0, 30, 40, 3_000), [(30, 40)], "behind a hole");
        assert_eq!((elements(&seen), seen.begins(&place(0), 1_000)), ((30..40).collect(), None));
        assert_eq!(read(&mut seen, 0, 1, 7, 3_000), [(1, 7)], "the log is shorter than what was read");
        assert_eq!(elements(&seen), (1..7).collect::<Vec<_>>());
        seen.forget("t");
        assert_eq!(elements(&seen), []);
    }

    #[test]
    fn what_was_read_until_a_search_ended_early_is_not_read_again() {
        let mut seen = SeenMarks::default();
        seen.begin();
        let gap = seen.gap(&place(0), 10, 20).expect("all of it");
        seen.add(&place(0), gap, 14, marks(10..14));
        assert_eq!(seen.begins(&place(0), i64::MAX), None, "not all was read");
        assert_eq!(read(&mut seen, 0, 10, 20, 1_000), [(14, 20)]);
        // Of what is before, a part is of no use.
        let gap = seen.gap(&place(0), 5, 20).expect("what is before");
        seen.add(&place(0), gap, 8, marks(5..8));
        assert_eq!(read(&mut seen, 0, 5, 20, 500), [(5, 10)]);
        assert_eq!(elements(&seen), (5..20).collect::<Vec<_>>());
    }

    #[test]
    fn beyond_the_bounds_the_partitions_of_long_ago_are_forgotten() {
        let mut seen = SeenMarks::default();
        for partition in 0..3 {
            read(&mut seen, partition, 0, 10, 1_000);
        }
        read(&mut seen, 0, 0, 11, 1_000);
        seen.forget_beyond(25, 9);
        assert_eq!([0, 1, 2].map(|partition| seen.begins(&place(partition), 1_000)), [Some(0), None, Some(0)]);
        seen.forget_beyond(25, 1);
        assert_eq!([0, 2].map(|partition| seen.begins(&place(partition), 1_000)), [Some(0), None]);
        seen.forget_beyond(10, 1);
        assert_eq!(elements(&seen), []);
    }

    #[test]
    fn an_empty_partition_is_known_to_its_end() {
        let mut seen = SeenMarks::default();
        assert_eq!(read(&mut seen, 0, 7, 7, 1_000), []);
        assert_eq!(read(&mut seen, 0, 7, 9, 2_000), [(7, 9)]);
        assert_eq!(seen.begins(&place(0), 1_000), Some(7));
    }
}
