//! The offsets that the group has not confirmed yet. A commit that fails is sent again: after a restart, the records behind it
//! would come once more. One commit is under way at a time. The client keeps those that find no coordinator, and sends them in any
//! order when there is one, so an older offset could be written behind a newer one.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use rdkafka::{Offset, TopicPartitionList};

use super::record::{Partition, TopicId};
use super::starts;
use delaybridge_core::clock::Instant;

/// The wait for the answer to a commit that has none. The client answers before: after `session.timeout.ms` (10 s) without a
/// coordinator, and after `socket.timeout.ms` (60 s) without an answer of it, each of three times.
const LOST: Duration = Duration::from_secs(300);
/// The wait after a commit that was refused. The group may be without a coordinator, or on the way to a new one.
const REFUSED: Duration = Duration::from_millis(200);

/// Offsets that were sent, or are to be sent, until the group has confirmed them.
#[derive(Default)]
pub(super) struct UnconfirmedOffsets(Mutex<SentOffsets>);

#[derive(Default)]
struct SentOffsets {
    /// The offsets, with the ids of the topics that they belong to.
    offsets: HashMap<Partition, (i64, Option<TopicId>)>,
    /// The earliest time of the next commit, while one is under way, or after one that was refused.
    next: Option<Instant>,
}

impl UnconfirmedOffsets {
    /// Adds an offset, in place of an earlier one of its partition.
    pub(super) fn add(&self, partition: Partition, offset: i64, topic_id: Option<TopicId>) {
        self.0.lock().offsets.insert(partition, (offset, topic_id));
    }

    /// Returns the offsets to commit now, which the caller does. `None` without one, and while a commit is under way.
    pub(super) fn to_send(&self, now: Instant) -> Option<TopicPartitionList> {
        let mut sent = self.0.lock();
        if sent.offsets.is_empty() || sent.next.is_some_and(|next| now < next) {
            return None;
        }
        sent.next = Some(now.after(LOST));
        let mut list = TopicPartitionList::with_capacity(sent.offsets.len());
        for ((topic, partition), (offset, topic_id)) in &sent.offsets {
            let mut of = list.add_partition(topic, *partition);
            // Any number is an offset that can be set.
            let _ = of.set_offset(Offset::Offset(*offset));
            if let Some(id) = topic_id {
                of.set_metadata(starts::metadata(id));
            }
        }
        Some(list)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().offsets.is_empty()
    }

    /// Takes in that a commit was refused as a whole.
    pub(super) fn refused(&self, now: Instant) {
        self.0.lock().next = Some(now.after(REFUSED));
    }

    /// Removes offsets that the group has confirmed, beside those that are behind a newer one by now.
    pub(super) fn confirmed(&self, list: &TopicPartitionList, now: Instant) {
        let mut sent = self.0.lock();
        sent.next = None;
        for of in list.elements() {
            let partition = (of.topic().to_owned(), of.partition());
            if of.error().is_err() {
                sent.next = Some(now.after(REFUSED));
            } else if sent.offsets.get(&partition).is_some_and(|(at, _)| of.offset() == Offset::Offset(*at)) {
                sent.offsets.remove(&partition);
            }
        }
    }

    /// Removes the offset of a partition that this member has no longer.
    pub(super) fn revoked(&self, partition: &Partition) {
        self.0.lock().offsets.remove(partition);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_committed_with_the_id_of_its_topic() {
        let unconfirmed = UnconfirmedOffsets::default();
        unconfirmed.add(("t".to_owned(), 0), 5, Some("a".into()));
        unconfirmed.add(("t".to_owned(), 0), 6, Some("b".into()));
        let list = unconfirmed.to_send(Instant::now()).expect("an offset");
        assert_eq!(delivery_status::metadata(&list), [b"topic-id=b"]);
    }

    fn list(offsets: &[(i32, i64)]) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for (partition, offset) in offsets {
            list.add_partition_offset("t", *partition, Offset::Offset(*offset)).expect("an offset");
        }
        list
    }

    fn offsets(list: Option<TopicPartitionList>) -> Vec<(i32, i64)> {
        let list = list.unwrap_or_default();
        let elements = list.elements();
        let pairs = elements.iter().map(|of| (of.partition(), of.offset().to_raw().expect("an offset")));
        let mut pairs: Vec<_> = pairs.collect();
        pairs.sort_unstable();
        pairs
    }

    #[test]
    fn offsets_are_sent_until_they_are_confirmed() {
        let unconfirmed = UnconfirmedOffsets::default();
        let begin = Instant::now();
        assert_eq!(offsets(unconfirmed.to_send(begin)), []);
        unconfirmed.add(("t".to_owned(), 0), 5, None);
        unconfirmed.add(("t".to_owned(), 1), 8, None);
        assert_eq!(offsets(unconfirmed.to_send(begin)), [(0, 5), (1, 8)]);
        unconfirmed.add(("t".to_owned(), 0), 9, None);
        assert_eq!(offsets(unconfirmed.to_send(begin.after(LOST / 2))), [], "the first commit has no answer");
        unconfirmed.confirmed(&list(&[(0, 5), (1, 8)]), begin);
        assert_eq!(offsets(unconfirmed.to_send(begin.after(LOST / 2))), [(0, 9)], "the newer one is not confirmed");
        assert_eq!(offsets(unconfirmed.to_send(begin.after(LOST))), []);
        assert_eq!(offsets(unconfirmed.to_send(begin.after(2 * LOST))), [(0, 9)], "the answer is lost");
        unconfirmed.refused(begin.after(2 * LOST));
        assert_eq!(offsets(unconfirmed.to_send(begin.after(2 * LOST))), []);
        assert_eq!(offsets(unconfirmed.to_send(begin.after(2 * LOST + REFUSED))), [(0, 9)], "a refusal is an answer");
        unconfirmed.revoked(&("t".to_owned(), 0));
        assert!(unconfirmed.is_empty() && unconfirmed.to_send(begin.after(4 * LOST)).is_none());
    }
}
