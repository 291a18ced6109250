//! The records that one search looks for, and their answers: each is given as soon as it is known. Pure, but for the replies.
//!
//! "It is not there" needs all of the partitions that may have the record, whole. Whatever keeps a part from being read makes the
//! answer a failure.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::oneshot;

use super::partitions::partition;
use super::seen::{SeenMark, SeenMarks, TopicPartition};
use crate::errors;
use delaybridge_core::message::{Class, Failure};
use delaybridge_sink::DeliveryMark;

/// The age of the oldest records that are read, by the time of Redis.
const MOST_AGE: Duration = Duration::from_secs(900);
/// The difference that is allowed between the clock of Redis and the time of a record: that of this machine, or the broker's.
const SKEW: Duration = Duration::from_secs(10);

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
    /// Creates the search for the record of an element, at this time of Redis. `timeout` is the longest that an attempt
    /// takes: what is known of the first one may be its end.
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

    /// Returns the partitions that may have the record, of so many. An empty key is none for some clients.
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
    pub(super) is_over: bool,
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
    /// Whether nothing is known of some record.
    pub(super) has_failed: bool,
}

impl Search {
    pub(super) fn new(asked: Vec<Asked>) -> Search {
        let (wanted, replies): (Vec<Wanted>, Vec<_>) = asked.into_iter().map(|(one, reply)| (one, Some(reply))).unzip();
        let mut by_element: HashMap<u128, Vec<usize>> = HashMap::new();
        for (place, one) in wanted.iter().enumerate() {
            by_element.entry(one.mark.element).or_default().push(place);
        }
        let left = vec![(0, None); wanted.len()];
        Search { wanted, replies, by_element, left, ranges: HashMap::new(), has_failed: false }
    }

    /// Returns the topics in which something is still looked for.
    pub(super) fn topics(&self) -> BTreeSet<Arc<str>> {
        let open = self.wanted.iter().zip(&self.replies).filter(|(_, reply)| reply.is_some());
        open.map(|(one, _)| one.topic.clone()).collect()
    }

    /// Returns whether each record has its answer.
    pub(super) fn is_over(&self) -> bool {
        self.replies.iter().all(Option::is_none)
    }

    fn answer(&mut self, place: usize, answer: Result<bool, Failure>) {
        if let Some(reply) = self.replies[place].take() {
            let answer = answer.map_err(not_known_yet);
            self.has_failed |= answer.is_err();
            // No caller waits any more.
            let _sent = reply.send(answer);
        }
    }

    /// Gives this answer to all that have none.
    pub(super) fn end(&mut self, failure: &Failure) {
        (0..self.replies.len()).for_each(|place| self.answer(place, Err(failure.clone())));
    }

    /// Finds what earlier searches have seen.
    pub(super) fn remember(&mut self, seen: &SeenMarks) {
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

    pub(super) fn unread(&self, topic: &str) -> Vec<TopicPartition> {
        let unread = self.ranges.iter().filter(|((of, _), range)| **of == *topic && !range.is_over);
        unread.map(|(place, _)| place.clone()).collect()
    }

    /// Takes in the partitions of a topic with the brokers that lead them: where they may have records, they are to be read. A topic
    /// that cannot be asked for is the failure of its records.
    pub(super) fn found(&mut self, topic: &Arc<str>, leaders: &Result<HashMap<i32, i32>, Failure>) {
        for place in 0..self.wanted.len() {
            let one = &self.wanted[place];
            if one.topic != *topic || self.replies[place].is_none() {
                continue;
            }
            let leaders = match leaders {
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
    }
}

/// Builds the failure of a look where a topic or a partition is not known: for some time after a broker has started, it
/// knows less than there is. An element waits for the next look then, for the time that any outage of looks has, also
/// where a send would create the topic.
fn not_known_yet(failure: Failure) -> Failure {
    if failure.code == errors::name(Code::UnknownTopicOrPartition) {
        Failure { class: Class::Transient, ..failure }
    } else {
        failure
    }
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

    /// Returns a search for one record in two partitions, and its answer.
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
    fn a_partition_that_is_not_known_may_be_known_soon_and_a_right_is_not() {
        for (code, class) in [
            (Code::UnknownPartition, Class::Transient),
            (Code::UnknownTopic, Class::Transient),
            (Code::UnknownTopicOrPartition, Class::Transient),
            (Code::TopicAuthorizationFailed, Class::TargetPermanent),
        ] {
            let (mut search, mut answer) = search();
            search.is_read(&("t".into(), 0), Err(errors::failure("ask for offsets", code)));
            search.is_read(&("t".into(), 1), Ok(()));
            let failure = answer.try_recv().expect("an answer").expect_err("a part is not known");
            assert_eq!((failure.class, failure.code), (class, errors::name(code)));
        }
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
