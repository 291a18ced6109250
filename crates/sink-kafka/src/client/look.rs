//! One search for records that earlier attempts may have left: the partition of each key is read from the time of the first
//! attempt to its end, or all partitions of the topic for records without a key.
//!
//! "It is not there" needs the whole range. Whatever keeps a part of it from being read makes the answer a failure.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Headers, Message};
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka::{Offset, TopicPartitionList};

use super::backlog::{BacklogListener, consumer, failure};
use super::partitions::partition;
use crate::tokens::LoginTokens;
use crate::{KafkaSpec, errors};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};
use delaybridge_sink::DeliveryMark;
use delaybridge_sink::headers::MARK;

/// Bytes of records that one search reads. Behind them, nothing is known.
const MOST_BYTES: usize = 64 << 20;
/// The age of the oldest records that are read, by the time of Redis.
const MOST_AGE: Duration = Duration::from_secs(900);
/// The difference that is allowed between the clock of Redis and the time of a record: that of this machine, or the broker's.
const SKEW: Duration = Duration::from_secs(10);
/// One wait for a record.
const POLL: Duration = Duration::from_millis(100);
/// The name of the consumers' group, in which nothing is committed.
const GROUP: &str = "delaybridge-look";
/// The settings of the consumer: what is no part of a transaction is there, whatever others have under way; and an end is reported
/// at once.
const SETTINGS: &[(&str, &str)] = &[("isolation.level", "read_uncommitted"), ("fetch.wait.max.ms", "20")];

/// A record that is looked for.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    topic: Arc<str>,
    key: Option<Vec<u8>>,
    mark: Box<DeliveryMark>,
    /// The time of the oldest record that can be it, in ms.
    from_ms: i64,
}

impl Wanted {
    /// The record of an element, at this time of Redis. `timeout` is the longest that an attempt takes: what is known of the
    /// first one may be its end.
    pub(super) fn new(
        topic: Arc<str>,
        key: Option<Vec<u8>>,
        mark: Box<DeliveryMark>,
        now_ms: i64,
        timeout: Duration,
    ) -> Wanted {
        let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let first = mark.since_ms.saturating_sub(ms(timeout.saturating_mul(2)));
        let from_ms = first.max(now_ms.saturating_sub(ms(MOST_AGE))).saturating_sub(ms(SKEW)).max(0);
        Wanted { topic, key, mark, from_ms }
    }

    /// The partitions that may have the record, of so many. An empty key is none for some clients.
    fn partitions(&self, count: u32) -> Vec<i32> {
        let all = 0..i32::try_from(count).unwrap_or(i32::MAX);
        match self.key.as_deref().filter(|key| !key.is_empty()) {
            Some(key) => i32::try_from(partition(key, count)).into_iter().collect(),
            None => all.collect(),
        }
    }
}

/// The consumer of a search.
pub(super) type SearchConsumer = BaseConsumer<BacklogListener>;

/// The settings of a search.
#[derive(Debug, Clone)]
pub(super) struct RecordSearch {
    pub(super) spec: Arc<KafkaSpec>,
    pub(super) timeout: Duration,
    pub(super) tokens: Option<Arc<LoginTokens>>,
}

/// A part of a topic, while it is read.
#[derive(Debug, Default)]
struct Range {
    from: i64,
    end: i64,
    /// The records that may be there.
    wanted: Vec<usize>,
    is_read: bool,
    /// The reason why it cannot be read: what is found elsewhere is there, and of the rest nothing is known.
    failure: Option<Failure>,
}

/// The ranges to read, by topic and partition.
type Ranges = HashMap<(Arc<str>, i32), Range>;

/// The answers so far; `None` while a range with the record is not read.
type SearchAnswers = Vec<Option<Result<bool, Failure>>>;

impl RecordSearch {
    /// Searches with the consumer of the search before, and leaves it for the next. Blocks for the time-out of the sink at most.
    pub(super) fn run(&self, kept: &mut Option<SearchConsumer>, wanted: &[Wanted]) -> Vec<Result<bool, Failure>> {
        let deadline = Instant::now().after(self.timeout);
        let mut found: SearchAnswers = vec![None; wanted.len()];
        let reader = match kept.take() {
            Some(reader) => Ok(reader),
            None => consumer(&self.spec, GROUP, SETTINGS, self.tokens.as_ref(), self.timeout / 2),
        };
        let end = reader.and_then(|reader| {
            search(&reader, wanted, deadline, &mut found)?;
            // One that has failed may be the reason.
            *kept = Some(reader);
            Ok(())
        });
        let rest = end.err().unwrap_or_else(|| failed("the search has ended before its time".to_owned()));
        found.into_iter().map(|answer| answer.unwrap_or_else(|| Err(rest.clone()))).collect()
    }
}

fn search(
    consumer: &SearchConsumer,
    wanted: &[Wanted],
    deadline: Instant,
    found: &mut SearchAnswers,
) -> Result<(), Failure> {
    let mut ranges = ranges(consumer, wanted, deadline, found);
    bounds(consumer, wanted, &mut ranges, deadline)?;
    settle(&ranges, found);
    // One topic after the other: the event of an end names none.
    let topics: BTreeSet<_> = wanted.iter().map(|one| one.topic.clone()).collect();
    let mut reading = Reading { consumer, wanted, by_element: by_element(wanted), ranges, bytes: 0, deadline };
    topics.iter().try_for_each(|topic| reading.read(topic, found))
}

/// The partitions to read. A topic that cannot be asked for is the failure of its records.
fn ranges(consumer: &SearchConsumer, wanted: &[Wanted], deadline: Instant, found: &mut SearchAnswers) -> Ranges {
    let mut counts: HashMap<Arc<str>, Result<u32, Failure>> = HashMap::new();
    let mut ranges = Ranges::new();
    for (place, one) in wanted.iter().enumerate() {
        let count = counts.entry(one.topic.clone()).or_insert_with(|| partitions(consumer, &one.topic, deadline));
        match count {
            Ok(count) => {
                for partition in one.partitions(*count) {
                    ranges.entry((one.topic.clone(), partition)).or_default().wanted.push(place);
                }
            }
            Err(failure) => found[place] = Some(Err(failure.clone())),
        }
    }
    ranges
}

/// The number of partitions of a topic.
fn partitions(consumer: &SearchConsumer, topic: &str, deadline: Instant) -> Result<u32, Failure> {
    let what = format!("look for records in topic {topic}");
    let asked = consumer.fetch_metadata(Some(topic), deadline.since(Instant::now()));
    let metadata = asked.map_err(|error| failure(&what, &error))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    match found.map(|found| (found.error(), found.partitions().len())) {
        Some((None, count)) if count > 0 => Ok(u32::try_from(count).unwrap_or(u32::MAX)),
        Some((Some(error), _)) => Err(errors::failure(&what, error.into())),
        Some((None, _)) | None => Err(errors::failure(&what, Code::UnknownTopicOrPartition)),
    }
}

/// Asks where each range begins, by the time of its oldest record, and where it ends now.
fn bounds(consumer: &SearchConsumer, wanted: &[Wanted], ranges: &mut Ranges, deadline: Instant) -> Result<(), Failure> {
    for is_end in [false, true] {
        let mut list = TopicPartitionList::new();
        for ((topic, partition), range) in ranges.iter() {
            let from_ms = range.wanted.iter().map(|place| wanted[*place].from_ms).min().unwrap_or_default();
            let at = if is_end { Offset::End } else { Offset::Offset(from_ms) };
            let added = list.add_partition_offset(topic, *partition, at);
            added.map_err(|error| failure("look for records", &error))?;
        }
        let asked = consumer.offsets_for_times(list, deadline.since(Instant::now()));
        let asked = asked.map_err(|error| failure("ask for the offsets of a time", &error))?;
        for element in asked.elements() {
            let what = || format!("ask for the offsets of topic {}", element.topic());
            let Some(range) = ranges.get_mut(&(element.topic().into(), element.partition())) else { continue };
            if let Err(error) = element.error() {
                range.failure = Some(failure(&what(), &error));
                continue;
            }
            match (element.offset(), is_end) {
                (Offset::Offset(offset), false) => range.from = offset,
                (Offset::Offset(offset), true) => range.end = offset,
                // No record is as young.
                (Offset::End, false) => range.from = i64::MAX,
                _ => range.failure = Some(failed(format!("{}: the broker names none", what()))),
            }
        }
    }
    for range in ranges.values_mut() {
        range.is_read = range.failure.is_some() || range.from >= range.end;
    }
    Ok(())
}

/// SearchAnswers for the records whose ranges are all read: they are not there. Where one could not be read, that is not known.
fn settle(ranges: &Ranges, found: &mut SearchAnswers) {
    let mut rest = vec![Some(Ok(false)); found.len()];
    for range in ranges.values() {
        for place in &range.wanted {
            rest[*place] = match (range.is_read, &range.failure, &rest[*place]) {
                (false, ..) | (true, _, None) => None,
                (true, Some(failure), Some(_)) => Some(Err(failure.clone())),
                (true, None, Some(answer)) => Some(answer.clone()),
            };
        }
    }
    for (answer, rest) in found.iter_mut().zip(rest).filter(|(answer, _)| answer.is_none()) {
        *answer = rest;
    }
}

/// The places of records in the order in which they were asked for, by the hashes of their elements.
fn by_element(wanted: &[Wanted]) -> HashMap<u128, Vec<usize>> {
    let mut places: HashMap<u128, Vec<usize>> = HashMap::new();
    for (place, one) in wanted.iter().enumerate() {
        places.entry(one.mark.element).or_default().push(place);
    }
    places
}

/// The reading of the ranges.
struct Reading<'a> {
    consumer: &'a SearchConsumer,
    wanted: &'a [Wanted],
    by_element: HashMap<u128, Vec<usize>>,
    ranges: Ranges,
    bytes: usize,
    deadline: Instant,
}

impl Reading<'_> {
    /// Reads the ranges of a topic until each of its records has an answer.
    fn read(&mut self, topic: &Arc<str>, found: &mut SearchAnswers) -> Result<(), Failure> {
        let what = format!("look for records in topic {topic}");
        self.assign(topic).map_err(|error| failure(&what, &error))?;
        let mut trouble = String::new();
        while self.wanted.iter().zip(&*found).any(|(one, answer)| one.topic == *topic && answer.is_none()) {
            if Instant::now() >= self.deadline {
                return Err(failed(format!("topic {topic} was not read to its end in time{trouble}")));
            }
            if self.bytes > MOST_BYTES {
                let most = MOST_BYTES >> 20;
                return Err(failed(format!("topic {topic} has more than {most} MiB since the first attempt")));
            }
            let ended = match self.consumer.poll(POLL) {
                Some(Ok(message)) if message.topic() == &**topic => {
                    self.bytes += message.payload_len() + message.key_len();
                    self.compare(topic, &message, found);
                    let place = (topic.clone(), message.partition());
                    let is_last = |range: &Range| message.offset() + 1 >= range.end;
                    self.ranges.get(&place).is_some_and(is_last).then_some(message.partition())
                }
                // It was asked for after the end of the range was.
                Some(Err(KafkaError::PartitionEOF(ended))) => Some(ended),
                Some(Err(error)) => {
                    let code = error.rdkafka_error_code();
                    if code.is_some_and(|code| errors::is_about_topic(code) || code == Code::AutoOffsetReset) {
                        return Err(failure(&what, &error));
                    }
                    trouble = format!("; {error}");
                    None
                }
                Some(Ok(_)) | None => None,
            };
            if let Some(range) = ended.and_then(|ended| self.ranges.get_mut(&(topic.clone(), ended))) {
                range.is_read = true;
                settle(&self.ranges, found);
            }
        }
        Ok(())
    }

    fn assign(&self, topic: &Arc<str>) -> Result<(), KafkaError> {
        let mut list = TopicPartitionList::new();
        for ((of, partition), range) in &self.ranges {
            if of == topic && !range.is_read {
                list.add_partition_offset(topic, *partition, Offset::Offset(range.from))?;
            }
        }
        self.consumer.assign(&list)
    }

    /// Notes the records of which this one is a copy.
    fn compare(&self, topic: &Arc<str>, message: &impl Message, found: &mut SearchAnswers) {
        let Some(text) = mark_of(message) else { return };
        let places = element_of(text).and_then(|element| self.by_element.get(&element));
        for place in places.into_iter().flatten() {
            let one = &self.wanted[*place];
            if one.topic == *topic && one.mark.is_copy(text) {
                found[*place] = Some(Ok(true));
            }
        }
    }
}

/// The mark of a record: the first header with its name, which the daemon writes before all that others may have given it.
fn mark_of(message: &impl Message) -> Option<&str> {
    let header = message.headers()?.iter().find(|header| header.key == MARK)?;
    std::str::from_utf8(header.value?).ok()
}

fn element_of(text: &str) -> Option<u128> {
    u128::from_str_radix(text.split_once('.')?.0, 16).ok()
}

fn failed(why: String) -> Failure {
    Failure::new(Class::Transient, "look", format!("look for records: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_sink::{AttemptId, Suspicion};

    fn wanted(key: Option<&str>, since_ms: i64, now_ms: i64) -> Wanted {
        let mark = DeliveryMark { element: 1, attempt: AttemptId(1), suspicion: Suspicion::Anyone, since_ms };
        let key = key.map(|key| key.as_bytes().to_vec());
        Wanted::new("t".into(), key, Box::new(mark), now_ms, Duration::from_secs(10))
    }

    #[test]
    fn a_record_is_looked_for_where_it_can_be() {
        assert_eq!(wanted(Some("21"), 0, 0).partitions(3), [0]);
        for key in [None, Some("")] {
            assert_eq!(wanted(key, 0, 0).partitions(3), [0, 1, 2], "{key:?}");
        }
    }

    #[test]
    fn a_search_begins_before_the_first_attempt_and_not_an_hour_before() {
        let now_ms = 1_800_000_000_000;
        assert_eq!(wanted(None, now_ms - 40_000, now_ms).from_ms, now_ms - 70_000);
        assert_eq!(wanted(None, now_ms - 3_600_000, now_ms).from_ms, now_ms - 910_000);
        assert_eq!(wanted(None, 0, 0).from_ms, 0);
    }

    #[test]
    fn a_record_is_absent_only_if_all_its_partitions_were_read() {
        let range = |is_read| Range { end: 9, wanted: vec![0], is_read, ..Range::default() };
        let mut ranges = Ranges::from([(("t".into(), 0), range(true)), (("t".into(), 1), range(false))]);
        let mut found: SearchAnswers = vec![None];
        settle(&ranges, &mut found);
        assert_eq!(found, [None]);
        ranges.values_mut().for_each(|range| range.is_read = true);
        settle(&ranges, &mut found);
        assert_eq!(found, [Some(Ok(false))]);
        let unread = failed("no leader".to_owned());
        ranges.values_mut().next().expect("two").failure = Some(unread.clone());
        let mut found: SearchAnswers = vec![None];
        settle(&ranges, &mut found);
        assert_eq!(found, [Some(Err(unread))]);
    }
}
