//! The ends of records, and the partitions that a refused one holds.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};

use super::client::{InputListener, TIMEOUT};
use super::errors::failure;
use super::reading::Reading;
use super::record::{Partition, RecordPlace, TopicId};
use delaybridge_core::backoff::{Backoff, Jitter};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::Failure;
use delaybridge_input::{Arrival, InputEvents};

/// The waits of a partition whose refused record found no place in the dead-letter topic.
const HELD: Backoff = Backoff::doubling(Duration::from_secs(5), Duration::from_secs(60), Jitter::From(0.8));

#[derive(Debug, PartialEq, Eq)]
pub(super) enum RecordEnd {
    /// Redis or the dead-letter topic has it.
    Done,
    /// The record holds its partition, for this reason.
    Held(String),
    /// The dead-letter topic does not take the record now, for this reason. It holds its partition until it is tried again.
    Unburied(String),
    /// The record is behind one that holds the partition.
    Behind,
}

/// The partitions that a record holds.
pub(super) type HeldPartitions = HashMap<Partition, HeldPartition>;

/// A partition that a record holds.
pub(super) struct HeldPartition {
    pub(super) term: u64,
    pub(super) offset: i64,
    why: String,
    /// The time of the next try; `None` if there is none.
    again: Option<Instant>,
    pub(super) is_tried: bool,
}

/// Returns whether nothing of this partition is taken now.
pub(super) fn is_held(held: &HeldPartitions, partition: &Partition) -> bool {
    held.get(partition).is_some_and(|held| !held.is_tried)
}

/// Notes the offsets behind the last record of each partition that is done without a gap, and what holds a partition. Returns whether a
/// partition that was held goes on.
pub(super) fn finish(
    consumer: &BaseConsumer<InputListener>,
    places: &[RecordPlace],
    ends: Vec<RecordEnd>,
    held: &mut HeldPartitions,
) -> bool {
    let context = consumer.context();
    let mut pause = TopicPartitionList::new();
    let mut went_on = false;
    for (place, end) in places.iter().zip(&ends) {
        // The record of an earlier topic of the name is not there any more.
        let is_gone = context.met.is_other(&place.topic, place.topic_id.as_deref());
        let (RecordEnd::Held(why) | RecordEnd::Unburied(why), false) = (end, is_gone) else {
            let partition = (place.topic.clone(), place.partition);
            let was_tried = held.get(&partition).is_some_and(|held| held.is_tried && held.offset <= place.offset);
            if was_tried && (*end == RecordEnd::Done || is_gone) {
                held.remove(&partition);
                went_on = true;
            }
            continue;
        };
        pause.add_partition(&place.topic, place.partition);
        let at = format!("in topic {} partition {} offset {}", place.topic, place.partition, place.offset);
        let tries = context.tries(place);
        let (why, again) = match end {
            RecordEnd::Unburied(_) => {
                (format!("{why}, {at}"), Some(Instant::now().after(HELD.wait(tries, fastrand::f64()))))
            }
            _ => (format!("{why}, {at}: write `dead_letter_topic: NAME`"), None),
        };
        let here = HeldPartition { term: place.term, offset: place.offset, why, again, is_tried: false };
        held.insert((place.topic.clone(), place.partition), here);
    }
    let lost: HashSet<_> = places.iter().filter(|place| context.states.is_over(place)).collect();
    let is_lost = |topic: &str, partition| lost.iter().any(|at| at.topic == topic && at.partition == partition);
    for ((topic, partition), (next, topic_id)) in next_offsets(places, &ends) {
        if !is_lost(&topic, partition) {
            if !context.met.is_other(&topic, topic_id.as_deref()) {
                context.states.done(&topic, partition, next);
            }
            context.unconfirmed.add((topic, partition), next, topic_id);
        }
    }
    if !held.is_empty() {
        let _ = consumer.pause(&pause);
    }
    went_on
}

/// Shows the state of an input that reads something: held partitions first. One function shows it, because two would take turns and
/// log each turn.
pub(super) fn show(events: &InputEvents, address: &str, reading: &Reading, held: &HeldPartitions) {
    match (why_held(held, reading), reading) {
        // What was under way has ended since.
        (_, Reading::Nothing(_)) => {}
        (Some(why), _) => events.holds(held.len(), &why),
        (None, Reading::Part(problem)) => events.reads_in_part(problem),
        (None, Reading::All) => events.up(address),
    }
}

/// Returns the reasons why partitions are held, and others are not read; `None` if none is held.
fn why_held(held: &HeldPartitions, reading: &Reading) -> Option<String> {
    let why = &held.values().next()?.why;
    Some(if let Reading::Part(problem) = reading { format!("{why}; {problem}") } else { why.clone() })
}

/// Reads partitions again whose refused record is to be tried once more: from this record on.
pub(super) fn try_again(
    consumer: &BaseConsumer<InputListener>,
    held: &mut HeldPartitions,
    rest: &mut VecDeque<(RecordPlace, Arrival)>,
) -> Result<(), Failure> {
    let now = Instant::now();
    let context = consumer.context();
    for ((topic, partition), place) in held.iter_mut() {
        let is_due = !place.is_tried && place.again.is_some_and(|again| again <= now);
        if !is_due || context.states.term(topic, *partition) != place.term {
            continue;
        }
        place.is_tried = true;
        // What came behind it comes again behind it.
        rest.retain(|(other, _)| other.partition != *partition || other.topic != *topic);
        let what = format!("read topic {topic} partition {partition} again from offset {}", place.offset);
        let failed = |error: KafkaError| failure(&what, &error);
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, *partition, Offset::Offset(place.offset)).map_err(failed)?;
        context.states.begins(topic, *partition, Some(place.offset));
        let moved = consumer.seek_partitions(list, TIMEOUT).map_err(failed)?;
        moved.elements().iter().try_for_each(|of| of.error()).map_err(failed)?;
        // All that is to be read is resumed.
        context.assigned.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// Returns the offset to commit for each partition, with the id of its topic: that of the first record that is not
/// done, or the one behind the last.
fn next_offsets(places: &[RecordPlace], ends: &[RecordEnd]) -> HashMap<Partition, (i64, Option<TopicId>)> {
    let mut next = HashMap::new();
    let mut stopped: HashSet<Partition> = HashSet::new();
    for (place, end) in places.iter().zip(ends) {
        let partition = (place.topic.clone(), place.partition);
        if *end != RecordEnd::Done {
            stopped.insert(partition);
        } else if !stopped.contains(&partition) {
            next.insert(partition, (place.offset + 1, place.topic_id.clone()));
        }
    }
    next
}

pub(super) fn resume(consumer: &BaseConsumer<InputListener>, held: &HeldPartitions) {
    let Ok(all) = consumer.assignment() else { return };
    let mut free = TopicPartitionList::new();
    for of in all.elements() {
        if !is_held(held, &(of.topic().to_owned(), of.partition())) {
            free.add_partition(of.topic(), of.partition());
        }
    }
    let _ = consumer.resume(&free);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_partition_and_a_topic_that_is_not_read_are_told_together() {
        let part = Reading::Part("topic b is gone".to_owned());
        let mut held = HeldPartitions::new();
        assert_eq!((why_held(&held, &Reading::All), why_held(&held, &part)), (None, None));
        let here = HeldPartition { term: 1, offset: 7, why: "refused".to_owned(), again: None, is_tried: false };
        held.insert(("a".to_owned(), 0), here);
        assert_eq!(why_held(&held, &Reading::All).as_deref(), Some("refused"));
        assert_eq!(why_held(&held, &part).as_deref(), Some("refused; topic b is gone"));
    }

    #[test]
    fn only_what_is_done_without_a_gap_is_committed() {
        let place =
            |partition, offset| RecordPlace { topic: "t".to_owned(), partition, offset, term: 0, topic_id: None };
        let places = [place(0, 5), place(1, 7), place(0, 6), place(1, 8), place(0, 7), place(2, 1)];
        let held = || RecordEnd::Held("no address".to_owned());
        let ends = [RecordEnd::Done, RecordEnd::Done, held(), RecordEnd::Done, RecordEnd::Done, RecordEnd::Behind];
        let next = next_offsets(&places, &ends);
        assert_eq!(next, HashMap::from([(("t".to_owned(), 0), (6, None)), (("t".to_owned(), 1), (9, None))]));
    }
}
