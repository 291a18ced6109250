//! Where the partitions of a member are read from.
//!
//! `start` decides once for a topic: when the group has no committed offset of it. With `latest`, the ends of all partitions are
//! committed then, because a partition without a committed offset is one that was added later: it is read from its beginning. Each
//! commit has the id of the topic beside the offset. With another id, the offset is that of an earlier topic of the same name.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use delivery_status::TopicDescription;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka::{Offset, TopicPartitionList};
use tokio_util::sync::CancellationToken;

use super::errors::{failure, of_code};
use super::partitions::MetTopics;
use super::record::Partition;
use super::{KafkaInputSpec, StartFrom};
use delaybridge_core::message::{Class, Failure};

/// The time-out of a question.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The begin of the metadata of a commit.
const TOPIC_ID: &str = "topic-id=";

pub(super) fn metadata(topic_id: &str) -> String {
    format!("{TOPIC_ID}{topic_id}")
}

/// The place from which a partition is read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Begin {
    pub(super) topic: String,
    pub(super) partition: i32,
    /// The first offset; `None` for the first record that is there.
    pub(super) at: Option<i64>,
    /// Whether the group has read another topic of this name, and the offset that it had committed there.
    pub(super) is_other: bool,
    pub(super) committed: Option<i64>,
}

/// An offset that the group has committed, and the id of the topic that it was committed for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CommittedOffset {
    offset: i64,
    topic_id: Option<String>,
}

type GroupOffsets = HashMap<Partition, CommittedOffset>;

/// Decides from where the partitions of this list are read. Blocks, one question at a time: none is asked after `stop`.
pub(super) fn begins<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    spec: &KafkaInputSpec,
    met: &MetTopics,
    list: &TopicPartitionList,
    stop: &CancellationToken,
) -> Result<Vec<Begin>, Failure> {
    let goes_on = || {
        if stop.is_cancelled() {
            Err(Failure::new(Class::Transient, "closed", "begin to consume: the input stops"))
        } else {
            Ok(())
        }
    };
    let given: Vec<Partition> = list.elements().iter().map(|of| (of.topic().to_owned(), of.partition())).collect();
    let names: BTreeSet<String> = given.iter().map(|(topic, _)| topic.clone()).collect();
    goes_on()?;
    let topics = describe(consumer, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
    goes_on()?;
    let mut offsets = committed(consumer, spec, &topics, &given)?;
    for name in &names {
        // Also of one with offsets: whether they are of this topic is known by its id.
        let Some(topic) = topics.iter().find(|topic| topic.name == *name) else {
            let text = format!("ask for topic {name}: no broker knows it, or it may not be seen");
            return Err(Failure::new(Class::Transient, "UNKNOWN_TOPIC_OR_PARTITION", text));
        };
        let is_new = !offsets.keys().any(|(topic, _)| topic == name);
        // Without an offset `earliest` begins at the beginning again.
        if !is_new || spec.start == StartFrom::Earliest {
            continue;
        }
        let is_other = met.is_other(name, topic.id.as_deref());
        goes_on()?;
        settle(consumer, spec, topic, if is_other { Offset::Beginning } else { Offset::End })?;
        offsets = committed(consumer, spec, &topics, &given)?;
    }
    let id = |name: &str| topics.iter().find(|topic| topic.name == name).and_then(|topic| topic.id.as_deref());
    let begins = given.into_iter().map(|partition| {
        let id = id(&partition.0);
        begin(offsets.get(&partition), id, met.is_other(&partition.0, id), partition)
    });
    let begins = begins.collect();
    for topic in &topics {
        if let Some(id) = &topic.id {
            met.read(&topic.name, id);
        }
    }
    Ok(begins)
}

/// Decides from where a partition is read. `was_other`: this process has read another topic of its name.
fn begin(own: Option<&CommittedOffset>, id: Option<&str>, was_other: bool, (topic, partition): Partition) -> Begin {
    let is_other = match own {
        Some(own) => own.topic_id.as_deref().is_some_and(|of| id.is_some_and(|id| id != of)),
        None => was_other,
    };
    let committed = own.map(|own| own.offset);
    Begin { topic, partition, at: committed.filter(|_| !is_other), is_other, committed }
}

/// Commits these ends of all partitions of a topic that have no committed offset. Another member may do the same: the first one
/// decides.
pub(super) fn settle<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    spec: &KafkaInputSpec,
    topic: &TopicDescription,
    end: Offset,
) -> Result<(), Failure> {
    let what = format!("ask for the first and last offsets of topic {}", topic.name);
    let failed = |error: KafkaError| failure(&what, &error);
    let mut places = TopicPartitionList::new();
    for partition in 0..count(topic.partitions) {
        places.add_partition_offset(&topic.name, partition, end).map_err(failed)?;
    }
    let places = consumer.offsets_for_times(places, TIMEOUT).map_err(failed)?;
    let offsets = committed(consumer, spec, std::slice::from_ref(topic), &[])?;
    let mut first = TopicPartitionList::new();
    for place in places.elements() {
        place.error().map_err(failed)?;
        if offsets.contains_key(&(topic.name.clone(), place.partition())) {
            continue;
        }
        let mut of = first.add_partition(&topic.name, place.partition());
        of.set_offset(place.offset()).map_err(failed)?;
        if let Some(id) = &topic.id {
            of.set_metadata(metadata(id));
        }
    }
    if first.count() == 0 {
        return Ok(());
    }
    let what = format!("commit the first offsets of topic {} for group {}", topic.name, spec.group);
    consumer.commit(&first, CommitMode::Sync).map_err(|error| failure(&what, &error))
}

fn describe<C: ConsumerContext>(consumer: &BaseConsumer<C>, names: &[&str]) -> Result<Vec<TopicDescription>, Failure> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let what = format!("ask for topics {}", names.join(", "));
    match delivery_status::describe(consumer.client(), names, TIMEOUT) {
        Ok(topics) => Ok(topics),
        // A server that knows no ids.
        Err(KafkaError::AdminOp(Code::UnsupportedFeature | Code::UnsupportedVersion)) => {
            names.iter().map(|name| without_id(consumer, name)).collect()
        }
        Err(KafkaError::AdminOp(code)) => Err(of_code(&what, code)),
        Err(error) => Err(failure(&what, &error)),
    }
}

/// Asks for the number of partitions of a topic.
fn without_id<C: ConsumerContext>(consumer: &BaseConsumer<C>, name: &str) -> Result<TopicDescription, Failure> {
    let found = consumer.fetch_metadata(Some(name), TIMEOUT);
    let found = found.map_err(|error| failure(&format!("ask for topic {name}"), &error))?;
    let partitions = found.topics().iter().map(|topic| topic.partitions().len()).sum();
    Ok(TopicDescription { name: name.to_owned(), id: None, partitions })
}

/// Asks for the committed offsets of all partitions of these topics, and of these partitions.
fn committed<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    spec: &KafkaInputSpec,
    topics: &[TopicDescription],
    given: &[Partition],
) -> Result<GroupOffsets, Failure> {
    let what = format!("ask for the offsets of group {}", spec.group);
    let of_topic = |topic: &TopicDescription| {
        let name = topic.name.clone();
        (0..count(topic.partitions)).map(move |partition| (name.clone(), partition))
    };
    let asked: BTreeSet<Partition> = topics.iter().flat_map(of_topic).chain(given.iter().cloned()).collect();
    if asked.is_empty() {
        return Ok(GroupOffsets::new());
    }
    let mut list = TopicPartitionList::with_capacity(asked.len());
    for (topic, partition) in &asked {
        list.add_partition(topic, *partition);
    }
    let found = consumer.committed_offsets(list, TIMEOUT).map_err(|error| failure(&what, &error))?;
    let mut offsets = GroupOffsets::new();
    for (of, metadata) in found.elements().iter().zip(delivery_status::metadata(&found)) {
        of.error().map_err(|error| failure(&what, &error))?;
        if let Offset::Offset(offset) = of.offset() {
            let topic_id = std::str::from_utf8(&metadata).ok().and_then(|text| text.strip_prefix(TOPIC_ID));
            let committed = CommittedOffset { offset, topic_id: topic_id.map(str::to_owned) };
            offsets.insert((of.topic().to_owned(), of.partition()), committed);
        }
    }
    Ok(offsets)
}

fn count(partitions: usize) -> i32 {
    i32::try_from(partitions).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_goes_on_behind_its_offset_and_any_other_begins_at_its_beginning() {
        fn check(own: Option<(i64, Option<&str>)>, id: Option<&str>, was_other: bool, expected: (Option<i64>, bool)) {
            let own = own.map(|(offset, id)| CommittedOffset { offset, topic_id: id.map(str::to_owned) });
            let begin = begin(own.as_ref(), id, was_other, ("t".to_owned(), 3));
            assert_eq!((begin.at, begin.is_other), expected, "{own:?} {id:?} {was_other}");
        }
        check(Some((7, Some("a"))), Some("a"), false, (Some(7), false));
        check(Some((7, Some("a"))), Some("b"), false, (None, true));
        // The offset says more than what this process has met: another member may have gone on.
        check(Some((7, Some("b"))), Some("b"), true, (Some(7), false));
        // An offset of an earlier version, or of a person; a broker without ids.
        check(Some((7, None)), Some("a"), false, (Some(7), false));
        check(Some((7, Some("a"))), None, false, (Some(7), false));
        check(None, Some("a"), false, (None, false));
        check(None, Some("b"), true, (None, true));
    }
}
