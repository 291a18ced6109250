//! One search for records that earlier attempts may have left: the partition of each key is [read](super::reading) from the time of
//! the first attempt to its end, or all partitions of the topic for records without a key. What was read before is
//! [remembered](super::seen).
//!
//! "It is not there" needs the whole range. Whatever keeps a part of it from being read makes the answer a failure. Each answer is
//! given as soon as it is known, so that a broker that does not answer holds up only what may be there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka::{Offset, TopicPartitionList};

use super::backlog::{consumer, failure};
use super::reading::{self, Reading, SearchConsumer};
use super::search::{Asked, Range, Search, failed};
use super::seen::{SeenMarks, TopicPartition};
use crate::tokens::LoginTokens;
use crate::{KafkaSpec, errors};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::Failure;
use delaybridge_sink::together;

/// The name of the consumers' group, in which nothing is committed.
const GROUP: &str = "delaybridge-look";
/// The settings of the consumer: what is no part of a transaction is there, whatever others have under way; and an end is reported
/// at once.
const SETTINGS: &[(&str, &str)] = &[("isolation.level", "read_uncommitted"), ("fetch.wait.max.ms", "20")];

/// The settings of a search.
#[derive(Debug, Clone)]
pub(super) struct RecordSearch {
    pub(super) spec: Arc<KafkaSpec>,
    pub(super) timeout: Duration,
    pub(super) tokens: Option<Arc<LoginTokens>>,
}

/// The records that a search leaves for the next one.
#[derive(Debug, Default)]
pub(super) struct SearchMemory {
    pub(super) seen: SeenMarks,
    /// The brokers that did not answer: they are asked after all others.
    silent: BTreeSet<i32>,
}

impl RecordSearch {
    /// Searches with the consumer of the search before, and leaves it for the next. Blocks for the time-out of the sink at most.
    pub(super) fn run(&self, kept: &mut Option<SearchConsumer>, memory: &mut SearchMemory, asked: Vec<Asked>) {
        let deadline = Instant::now().after(self.timeout);
        let mut search = Search::new(asked);
        memory.seen.begin();
        search.remember(&memory.seen);
        if search.is_over() {
            return;
        }
        let reader = match kept.take() {
            Some(reader) => Ok(reader),
            None => consumer(&self.spec, GROUP, SETTINGS, self.tokens.as_ref(), self.timeout / 2),
        };
        let end = reader.and_then(|reader| {
            let brokers = find_partitions(&mut search, &reader, deadline);
            bounds(&mut search, &reader, memory, brokers, deadline);
            Reading { consumer: &reader, seen: &mut memory.seen, bytes: 0, deadline }.read(&mut search)?;
            // One that has failed may be the reason.
            if !search.has_failed {
                *kept = Some(reader);
            }
            Ok(())
        });
        search.end(&end.err().unwrap_or_else(|| failed("the search has ended before its time".to_owned())));
    }
}

impl RecordSearch {
    /// Reads the end of each of these topics, where a search has to.
    pub(super) fn check(&self, topics: &[Arc<str>]) -> Result<(), Failure> {
        let deadline = Instant::now().after(self.timeout);
        let consumer = consumer(&self.spec, GROUP, SETTINGS, self.tokens.as_ref(), self.timeout / 2)?;
        let checked = topics.iter().map(|topic| {
            leaders(&consumer, topic, deadline)?;
            reading::read_end(&consumer, topic, deadline)
        });
        together(checked.filter_map(Result::err).collect())
    }
}

/// Finds the partitions that may have the records, by the brokers that lead them.
fn find_partitions(
    search: &mut Search,
    consumer: &SearchConsumer,
    deadline: Instant,
) -> BTreeMap<i32, Vec<TopicPartition>> {
    let mut brokers: BTreeMap<i32, Vec<TopicPartition>> = BTreeMap::new();
    for topic in search.topics() {
        let leaders = leaders(consumer, &topic, deadline);
        search.found(&topic, &leaders);
        for place in search.unread(&topic) {
            let leader = leaders.as_ref().ok().and_then(|leaders| leaders.get(&place.1));
            brokers.entry(leader.copied().unwrap_or(-1)).or_default().push(place);
        }
    }
    brokers
}

fn leaders(consumer: &SearchConsumer, topic: &str, deadline: Instant) -> Result<HashMap<i32, i32>, Failure> {
    let what = format!("look for records in topic {topic}");
    let ask = |part| consumer.fetch_metadata(Some(topic), deadline.since(Instant::now()) / part);
    // Any broker is asked, also one that does not answer any more.
    let asked = ask(4).or_else(|_| ask(2));
    let metadata = asked.map_err(|error| failure(&what, &error))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    match found.map(|found| (found.error(), found.partitions())) {
        Some((None, partitions)) if !partitions.is_empty() => {
            Ok(partitions.iter().map(|one| (one.id(), one.leader())).collect())
        }
        Some((Some(error), _)) => Err(errors::failure(&what, error.into())),
        Some((None, _)) | None => Err(errors::failure(&what, Code::UnknownTopicOrPartition)),
    }
}

/// Asks where each partition ends, and where it begins by the time of its oldest record, if that is not known. Brokers that did not
/// answer before are asked last, so that others do not wait for them.
fn bounds(
    search: &mut Search,
    consumer: &SearchConsumer,
    memory: &mut SearchMemory,
    brokers: BTreeMap<i32, Vec<TopicPartition>>,
    deadline: Instant,
) {
    let mut brokers: Vec<_> = brokers.into_iter().collect();
    brokers.sort_by_key(|(broker, _)| memory.silent.contains(broker));
    let mut left = u32::try_from(brokers.len()).unwrap_or(u32::MAX);
    for (broker, places) in brokers {
        let until = Instant::now().after(deadline.since(Instant::now()) / (left + 1));
        left -= 1;
        // The ends first: a record that comes meanwhile is behind them.
        let answered = ask(search, consumer, &places, until, |_| Some(Offset::End), |range, end| range.end = end)
            .and_then(|()| {
                let seen = &memory.seen;
                places.iter().for_each(|place| {
                    let Some(range) = search.ranges.get_mut(place) else { return };
                    range.from = seen.begins(place, range.from_ms).unwrap_or(-1);
                });
                let unknown = |range: &Range| (range.from < 0).then_some(Offset::Offset(range.from_ms));
                ask(search, consumer, &places, until, unknown, |range, from| range.from = from.min(range.end))
            });
        match answered {
            Ok(()) => {
                memory.silent.remove(&broker);
            }
            Err(failure) => {
                memory.silent.insert(broker);
                places.iter().for_each(|place| search.is_read(place, Err(failure.clone())));
            }
        }
    }
}

/// Asks for an offset in each of these partitions; without a question, nothing is asked.
fn ask(
    search: &mut Search,
    consumer: &SearchConsumer,
    places: &[TopicPartition],
    until: Instant,
    question: impl Fn(&Range) -> Option<Offset>,
    answer: impl Fn(&mut Range, i64),
) -> Result<(), Failure> {
    let mut list = TopicPartitionList::new();
    for place in places {
        let Some(range) = search.ranges.get(place).filter(|range| !range.is_over) else { continue };
        let Some(question) = question(range) else { continue };
        let added = list.add_partition_offset(&place.0, place.1, question);
        added.map_err(|error| failure("look for records", &error))?;
    }
    if list.count() == 0 {
        return Ok(());
    }
    let asked = consumer.offsets_for_times(list, until.since(Instant::now()));
    let asked = asked.map_err(|error| failure("ask for the offsets of a time", &error))?;
    for element in asked.elements() {
        let what = || format!("ask for the offsets of topic {}", element.topic());
        let place: TopicPartition = (element.topic().into(), element.partition());
        let answered = match (element.error(), element.offset()) {
            (Err(error), _) => Err(failure(&what(), &error)),
            (Ok(()), Offset::Offset(offset)) => Ok(offset),
            // No record is as young.
            (Ok(()), Offset::End) => Ok(i64::MAX),
            (Ok(()), _) => Err(failed(format!("{}: the broker names none", what()))),
        };
        match answered {
            Ok(offset) => search.ranges.get_mut(&place).into_iter().for_each(|range| answer(range, offset)),
            Err(failure) => search.is_read(&place, Err(failure)),
        }
    }
    Ok(())
}
