//! One search for records that earlier attempts may have left: the partition of each key is [read](super::reading) from the time of
//! the first attempt to its end, or all partitions of the topic for records without a key. What was read before is
//! [remembered](super::seen).
//!
//! "It is not there" needs the whole range. Whatever keeps a part of it from being read makes the answer a failure. Each answer is
//! given as soon as it is known, so that a broker that does not answer holds up only what may be there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::oneshot;

use super::backlog::{BacklogListener, consumer, failure};
use super::partitions::partition;
use super::reading::{self, Reading};
use super::seen::{SeenMark, SeenMarks, TopicPartition};
use crate::tokens::LoginTokens;
use crate::{KafkaSpec, errors};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};
use delaybridge_sink::{DeliveryMark, together};

/// The age of the oldest records that are read, by the time of Redis.
const MOST_AGE: Duration = Duration::from_secs(900);
/// The difference that is allowed between the clock of Redis and the time of a record: that of this machine, or the broker's.
const SKEW: Duration = Duration::from_secs(10);
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

/// An element that is looked for, and its waiting caller.
pub(super) type Asked = (Wanted, oneshot::Sender<Result<bool, Failure>>);

/// The consumer of a search.
pub(super) type SearchConsumer = BaseConsumer<BacklogListener>;

/// The settings of a search.
#[derive(Debug, Clone)]
pub(super) struct RecordSearch {
    pub(super) spec: Arc<KafkaSpec>,
    pub(super) timeout: Duration,
    pub(super) tokens: Option<Arc<LoginTokens>>,
}

/// What a search leaves for the next one.
#[derive(Debug, Default)]
pub(super) struct SearchMemory {
    pub(super) seen: SeenMarks,
    /// The brokers that did not answer: they are asked after all others.
    silent: BTreeSet<i32>,
}

/// A partition that may have records.
#[derive(Debug)]
pub(super) struct Range {
    /// The offset from which it is read.
    pub(super) from: i64,
    /// The time of the oldest record that can be one of them, in ms.
    pub(super) from_ms: i64,
    /// The offset behind its last record.
    pub(super) end: i64,
    /// The records that may be there.
    wanted: Vec<usize>,
    /// Whether nothing more is to be found out about it.
    is_over: bool,
}

/// The answers of a search, which are sent as soon as they are known, and the partitions that they need.
pub(super) struct Search {
    wanted: Vec<Wanted>,
    replies: Vec<Option<oneshot::Sender<Result<bool, Failure>>>>,
    /// The places of records by the hashes of their elements.
    by_element: HashMap<u128, Vec<usize>>,
    /// The partitions of each that are not read, and why one cannot be.
    left: Vec<(usize, Option<Failure>)>,
    pub(super) ranges: HashMap<TopicPartition, Range>,
    /// Of some record nothing is known.
    has_failed: bool,
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
            let brokers = search.find_partitions(&reader, deadline);
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

impl Search {
    fn new(asked: Vec<Asked>) -> Search {
        let (wanted, replies): (Vec<Wanted>, Vec<_>) = asked.into_iter().map(|(one, reply)| (one, Some(reply))).unzip();
        let mut by_element: HashMap<u128, Vec<usize>> = HashMap::new();
        for (place, one) in wanted.iter().enumerate() {
            by_element.entry(one.mark.element).or_default().push(place);
        }
        let left = vec![(0, None); wanted.len()];
        Search { wanted, replies, by_element, left, ranges: HashMap::new(), has_failed: false }
    }

    /// The topics in which something is still looked for.
    pub(super) fn topics(&self) -> BTreeSet<Arc<str>> {
        let open = self.wanted.iter().zip(&self.replies).filter(|(_, reply)| reply.is_some());
        open.map(|(one, _)| one.topic.clone()).collect()
    }

    /// Whether each record has its answer.
    pub(super) fn is_over(&self) -> bool {
        self.replies.iter().all(Option::is_none)
    }

    fn answer(&mut self, place: usize, answer: Result<bool, Failure>) {
        if let Some(reply) = self.replies[place].take() {
            self.has_failed |= answer.is_err();
            // No caller waits any more.
            let _sent = reply.send(answer);
        }
    }

    /// The answer to all that have none.
    fn end(&mut self, failure: &Failure) {
        (0..self.replies.len()).for_each(|place| self.answer(place, Err(failure.clone())));
    }

    /// Finds what earlier searches have seen.
    fn remember(&mut self, seen: &SeenMarks) {
        for topic in self.topics() {
            seen.of_topic(&topic).for_each(|seen| self.compare(&topic, seen));
        }
    }

    /// Answers for the records of which this one is a copy.
    pub(super) fn compare(&mut self, topic: &str, seen: &SeenMark) {
        let Some(places) = self.by_element.get(&seen.mark.element) else { return };
        let is_one = |place: &usize| {
            let one = &self.wanted[*place];
            let is_old = seen.time_ms.is_some_and(|time_ms| time_ms < one.from_ms);
            *one.topic == *topic && one.mark.recognises(seen.mark) && !is_old
        };
        let found: Vec<usize> = places.iter().copied().filter(is_one).collect();
        found.into_iter().for_each(|place| self.answer(place, Ok(true)));
    }

    /// Takes in that a partition was read to its end, or why it cannot be. What is in none of its partitions is not there; where one
    /// could not be read, that is not known.
    pub(super) fn is_read(&mut self, place: &TopicPartition, read: Result<(), Failure>) {
        let Some(range) = self.ranges.get_mut(place).filter(|range| !range.is_over) else { return };
        range.is_over = true;
        for one in range.wanted.clone() {
            let (left, trouble) = &mut self.left[one];
            *left -= 1;
            if let Err(failure) = &read {
                trouble.get_or_insert_with(|| failure.clone());
            }
            if *left == 0 {
                let answer = trouble.take().map_or(Ok(false), Err);
                self.answer(one, answer);
            }
        }
    }

    /// The partitions of a topic that are still to be read.
    pub(super) fn unread(&self, topic: &str) -> Vec<TopicPartition> {
        let unread = self.ranges.iter().filter(|((of, _), range)| **of == *topic && !range.is_over);
        unread.map(|(place, _)| place.clone()).collect()
    }

    /// Finds the partitions that may have the records, and returns them by the brokers that lead them. A topic that cannot be asked for is
    /// the failure of its records.
    fn find_partitions(&mut self, consumer: &SearchConsumer, deadline: Instant) -> BTreeMap<i32, Vec<TopicPartition>> {
        let mut brokers: BTreeMap<i32, Vec<TopicPartition>> = BTreeMap::new();
        for topic in self.topics() {
            let leaders = leaders(consumer, &topic, deadline);
            for place in 0..self.wanted.len() {
                let one = &self.wanted[place];
                if one.topic != topic || self.replies[place].is_none() {
                    continue;
                }
                let leaders = match &leaders {
                    Ok(leaders) => leaders,
                    Err(failure) => {
                        self.answer(place, Err(failure.clone()));
                        continue;
                    }
                };
                let partitions = one.partitions(u32::try_from(leaders.len()).unwrap_or(u32::MAX));
                self.left[place].0 = partitions.len();
                for partition in partitions {
                    let from_ms = one.from_ms;
                    let new = || Range { from: 0, from_ms, end: 0, wanted: Vec::new(), is_over: false };
                    let range = self.ranges.entry((topic.clone(), partition)).or_insert_with(new);
                    range.from_ms = range.from_ms.min(from_ms);
                    range.wanted.push(place);
                }
            }
            for place in self.unread(&topic) {
                let leader = leaders.as_ref().ok().and_then(|leaders| leaders.get(&place.1));
                brokers.entry(leader.copied().unwrap_or(-1)).or_default().push(place);
            }
        }
        brokers
    }
}

/// The leaders of the partitions of a topic.
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
            Ok(()) => drop(memory.silent.remove(&broker)),
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

pub(super) fn failed(why: String) -> Failure {
    Failure::new(Class::Transient, "look", format!("look for records: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_sink::{AttemptId, CopyMark, Suspicion};

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

    /// A search for one record in two partitions, and its answer.
    fn search() -> (Search, oneshot::Receiver<Result<bool, Failure>>) {
        let (reply, answer) = oneshot::channel();
        let mut search = Search::new(vec![(wanted(None, 1_000_000, 1_000_000), reply)]);
        for partition in 0..2 {
            let range = Range { from: 0, from_ms: 0, end: 9, wanted: vec![0], is_over: false };
            search.ranges.insert(("t".into(), partition), range);
        }
        search.left[0].0 = 2;
        (search, answer)
    }

    #[test]
    fn a_record_is_absent_only_if_all_its_partitions_were_read() {
        let (mut search, mut answer) = search();
        search.is_read(&("t".into(), 0), Ok(()));
        search.is_read(&("t".into(), 0), Ok(()));
        assert!(answer.try_recv().is_err(), "one is not read");
        search.is_read(&("t".into(), 1), Ok(()));
        assert_eq!(answer.try_recv(), Ok(Ok(false)));
    }

    #[test]
    fn nothing_is_known_of_a_record_where_a_partition_cannot_be_read() {
        let unread = failed("no leader".to_owned());
        let (mut search, mut answer) = search();
        search.is_read(&("t".into(), 0), Err(unread.clone()));
        search.is_read(&("t".into(), 1), Ok(()));
        assert_eq!(answer.try_recv(), Ok(Err(unread)));
    }

    #[test]
    fn a_copy_counts_where_the_search_would_have_read_it() {
        let copy = |element, time_ms| {
            let mark = CopyMark { element, attempt: AttemptId(7) };
            SeenMark { mark, time_ms }
        };
        // It begins ten seconds and two time-outs before.
        let rows = [
            ("t", copy(1, None), true),
            ("t", copy(1, Some(970_000)), true),
            ("t", copy(1, Some(969_999)), false),
            ("t", copy(2, None), false),
            ("u", copy(1, None), false),
        ];
        for (topic, seen, expected) in rows {
            let (mut search, mut answer) = search();
            search.compare(topic, &seen);
            assert_eq!(answer.try_recv().is_ok(), expected, "{topic} {seen:?}");
        }
    }
}
