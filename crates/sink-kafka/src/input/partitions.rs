//! What this process knows of the partitions that it reads, and of the ids of their topics.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::record::{Partition, RecordPlace, TopicId};

/// The partitions of one client, those that it has no longer too.
#[derive(Default)]
pub(super) struct PartitionStates(Mutex<HashMap<String, HashMap<i32, PartitionState>>>);

#[derive(Default)]
struct PartitionState {
    /// The number of times that the partition was taken away. A record of an earlier term comes to another member of the group,
    /// or again to this one; its offset is not committed.
    term: u64,
    /// The offset behind the last record, where the next one is expected.
    next: Option<i64>,
    /// The offset behind the last record that came since the partition was begun, and the one up to which all are done.
    arrived: Option<i64>,
    done: Option<i64>,
}

/// The offset of a record, compared with the one that was expected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The expected one, or none was expected.
    Next,
    /// A later one than this, which was expected.
    Over(i64),
    /// An earlier one than this, which was expected.
    Back(i64),
}

impl PartitionStates {
    pub(super) fn term(&self, topic: &str, partition: i32) -> u64 {
        let states = self.0.lock();
        states.get(topic).and_then(|of| of.get(&partition)).map_or(0, |state| state.term)
    }

    /// Returns whether the partition was taken away after this record had come.
    pub(super) fn is_over(&self, place: &RecordPlace) -> bool {
        self.term(&place.topic, place.partition) != place.term
    }

    /// Ends the term of a partition.
    pub(super) fn taken_away(&self, (topic, partition): &Partition) {
        let mut states = self.0.lock();
        let state = states.entry(topic.clone()).or_default().entry(*partition).or_default();
        *state = PartitionState { term: state.term + 1, ..PartitionState::default() };
    }

    /// Notes where a partition is read from now on; `None` for the first record that is there.
    pub(super) fn begins(&self, topic: &str, partition: i32, next: Option<i64>) {
        let mut states = self.0.lock();
        let state = states.entry(topic.to_owned()).or_default().entry(partition).or_default();
        *state = PartitionState { term: state.term, next, arrived: None, done: None };
    }

    /// Notes that all records before this offset are done.
    pub(super) fn done(&self, topic: &str, partition: i32, before: i64) {
        if let Some(state) = self.0.lock().get_mut(topic).and_then(|of| of.get_mut(&partition)) {
            state.done = Some(before);
        }
    }

    /// Returns whether the client has passed what is no record since the last record, up to this place, and all records
    /// before are done. Notes the place.
    pub(super) fn passes(&self, (topic, partition): &Partition, at: i64) -> bool {
        let mut states = self.0.lock();
        let Some(state) = states.get_mut(topic).and_then(|of| of.get_mut(partition)) else { return false };
        let passes = state.arrived == state.done && state.next.is_none_or(|next| at > next);
        if passes {
            *state = PartitionState { term: state.term, next: Some(at), arrived: Some(at), done: Some(at) };
        }
        passes
    }

    /// Notes a record, and compares its offset with the expected one.
    pub(super) fn arrived(&self, topic: &str, partition: i32, offset: i64) -> Step {
        let mut states = self.0.lock();
        let Some(state) = states.get_mut(topic).and_then(|of| of.get_mut(&partition)) else { return Step::Next };
        state.arrived = Some(offset + 1);
        match state.next.replace(offset + 1) {
            Some(expected) if offset > expected => Step::Over(expected),
            Some(expected) if offset < expected => Step::Back(expected),
            _ => Step::Next,
        }
    }
}

/// The topics that this process has met. They outlive a client: the group's offsets go with a topic that is deleted, and then
/// nothing else tells that the group has read another one before.
#[derive(Default)]
pub(super) struct MetTopics(Mutex<HashMap<String, TopicId>>);

impl MetTopics {
    /// Returns the id that this topic had when it was met.
    pub(super) fn id(&self, topic: &str) -> Option<TopicId> {
        self.0.lock().get(topic).cloned()
    }

    /// Returns whether another topic of this name was met.
    pub(super) fn is_other(&self, topic: &str, id: Option<&str>) -> bool {
        self.id(topic).is_some_and(|met| id.is_some_and(|id| *id != *met))
    }

    /// Notes a topic, if none of this name was met before.
    pub(super) fn meet(&self, topic: &str, id: &str) {
        self.0.lock().entry(topic.to_owned()).or_insert_with(|| id.into());
    }

    /// Notes a topic that is read now, in the place of an earlier one of its name.
    pub(super) fn read(&self, topic: &str, id: &str) {
        self.0.lock().insert(topic.to_owned(), id.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_compared_with_the_expected_place() {
        let states = PartitionStates::default();
        assert_eq!(states.arrived("t", 0, 7), Step::Next, "a partition that was not given");
        states.begins("t", 0, Some(5));
        let steps: Vec<_> = [5, 6, 9, 10, 0, 1].into_iter().map(|offset| states.arrived("t", 0, offset)).collect();
        assert_eq!(steps, [Step::Next, Step::Next, Step::Over(7), Step::Next, Step::Back(11), Step::Next]);
        states.begins("t", 0, None);
        assert_eq!(states.arrived("t", 0, 40), Step::Next);
        states.taken_away(&("t".to_owned(), 0));
        assert_eq!((states.term("t", 0), states.term("t", 1)), (1, 0));
        assert_eq!(states.arrived("t", 0, 2), Step::Next);
    }

    #[test]
    fn only_behind_records_that_are_done_marks_are_passed() {
        let states = PartitionStates::default();
        let partition = ("t".to_owned(), 0);
        assert!(!states.passes(&partition, 3), "a partition that was not given");
        states.begins("t", 0, Some(5));
        assert!(!states.passes(&partition, 5) && states.passes(&partition, 6) && !states.passes(&partition, 6));
        states.arrived("t", 0, 6);
        states.arrived("t", 0, 7);
        assert!(!states.passes(&partition, 9));
        states.done("t", 0, 7);
        assert!(!states.passes(&partition, 9), "one is not done");
        states.done("t", 0, 8);
        assert!(states.passes(&partition, 9));
        assert_eq!(states.arrived("t", 0, 9), Step::Next);
        states.taken_away(&partition);
        assert!(states.passes(&partition, 9), "nothing has come, as it seems");
    }

    #[test]
    fn a_topic_of_the_same_name_with_another_id_is_another_one() {
        let met = MetTopics::default();
        assert!(!met.is_other("t", Some("a")));
        met.meet("t", "a");
        met.meet("t", "b");
        assert!(!met.is_other("t", Some("a")) && met.is_other("t", Some("b")));
        assert!(!met.is_other("t", None), "nothing is known");
        met.read("t", "b");
        assert!(met.is_other("t", Some("a")));
    }
}
