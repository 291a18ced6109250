//! The thread with the client: takes records, and commits the offsets of what is done.
//!
//! While a batch takes long the thread goes on polling, because a member of a group that does not is thrown out. Its partitions
//! are paused then, so that nothing more is fetched.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::Message;
use rdkafka::statistics::Statistics;
use rdkafka::types::{RDKafkaErrorCode as Code, RDKafkaRespErr};
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::errors::failure;
use super::offsets::UnconfirmedOffsets;
use super::partitions::{MetTopics, PartitionStates, Step};
use super::reading::{self, Reading};
use super::record::{Partition, RecordPlace, TopicId, arrival};
use super::{KafkaInputSpec, StartFrom, starts};
use crate::client::proof::Proof;
use crate::client::settings::security;
use crate::errors;
use delaybridge_core::backoff::{Backoff, Jitter};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::Failure;
use delaybridge_input::{Arrival, InputEvents, InputReset};

/// Records of one batch.
const BATCH: usize = 500;
/// Bytes of one batch, beside a larger record.
const BATCH_BYTES: usize = 4 << 20;
/// The longest wait for the first record of a batch.
const POLL: Duration = Duration::from_millis(100);
/// The time that a batch may take before its partitions are paused, and the client is polled again.
const UNPAUSED: Duration = Duration::from_secs(1);
/// A shorter wait while a batch is decided.
const SHORT: Duration = Duration::from_millis(5);
/// The wait before the client is made again.
const AGAIN: Duration = Duration::from_secs(2);
/// The time that the last offsets have to be committed.
const LAST_COMMIT: Duration = Duration::from_secs(10);
/// The time-out of questions.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The interval between looks at the partitions and ids of the topics. The client's own, of five minutes, is as long as records of
/// a new partition would wait.
const LOOK: Duration = Duration::from_secs(1);
/// The time-out of a look. Nothing else is done meanwhile.
const LOOK_TIMEOUT: Duration = Duration::from_millis(500);
/// The interval between questions whether the topics can be read at all.
const ASK: Duration = Duration::from_secs(5);
/// The time without a word after which the group takes a member for dead, and gives its partitions to others. A process that was
/// killed and started again at once waits for the end of the former one. Unit tests restart the broker, which beside other load takes
/// longer than that: the group would have nobody left to commit for.
const SESSION: Duration = Duration::from_secs(if cfg!(test) { 45 } else { 10 });
/// The waits of a partition whose refused record found no place in the dead-letter topic.
const HELD: Backoff = Backoff::doubling(Duration::from_secs(5), Duration::from_secs(60), Jitter::From(0.8));

/// The end of a record.
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

/// Records that are decided together, and where their ends go.
pub(super) struct TakenRecords {
    pub(super) records: Vec<(RecordPlace, Arrival)>,
    pub(super) reply: SyncSender<Vec<RecordEnd>>,
}

/// Takes in what the client says.
struct InputListener {
    proof: Proof,
    spec: Arc<KafkaInputSpec>,
    states: PartitionStates,
    met: Arc<MetTopics>,
    /// The id of the cluster; `None` from brokers before Kafka 0.10.1.
    cluster_id: OnceLock<Option<String>>,
    unconfirmed: UnconfirmedOffsets,
    /// Partitions that went on before their expected offset, until a look tells whether their topic is another one.
    went_back: Mutex<Vec<(Partition, i64)>>,
    /// The reason why the partitions that came last are not read.
    failed: Mutex<Option<Failure>>,
    /// The cluster refuses the login.
    refused: AtomicBool,
    /// The client has said something that may mean that nothing is read.
    doubt: AtomicBool,
    /// Nothing is read, whatever the group says.
    silent: AtomicBool,
    /// The refused records that found no place in the dead-letter topic, by their partitions: the offset, and the tries.
    tried: Mutex<HashMap<Partition, (i64, u32)>>,
    stop: CancellationToken,
    /// Whether partitions have come since this was looked at. The client keeps a pause beyond the assignment, and knows none of a
    /// partition that is new.
    assigned: AtomicBool,
    events: InputEvents,
    address: String,
}

impl ClientContext for InputListener {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _config: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        self.proof.oauth_token()
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(target: "librdkafka", ?level, facility, "{message}");
    }

    fn stats(&self, statistics: Statistics) {
        let partitions = statistics.topics.values().flat_map(|topic| topic.partitions.values());
        let lag: i64 = partitions.map(|partition| partition.consumer_lag.max(0)).sum();
        self.events.lag(lag.unsigned_abs());
        let is_silent = self.silent.load(Ordering::Relaxed) || self.doubt.load(Ordering::Relaxed);
        if !is_silent && statistics.cgrp.is_some_and(|group| group.state == "up") {
            self.events.connected(&self.address);
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        // The client connects again to a broker that it has lost; only all of them are an outage.
        let is_outage = [Code::AllBrokersDown, Code::Authentication, Code::Fatal].map(Some);
        let code = error.rdkafka_error_code().map(|code| errors::cause(code, reason));
        if code == Some(Code::Authentication) {
            self.refused.store(true, Ordering::Relaxed);
        }
        if is_outage.contains(&code) {
            self.events.down(&failure(&format!("consume {}: {reason}", self.address), &error));
        }
    }
}

impl InputListener {
    /// Begins to read these partitions, which are all that this member has.
    fn assign(&self, consumer: &BaseConsumer<Self>, list: &mut TopicPartitionList) -> Result<(), Failure> {
        let failed = |error: KafkaError| failure(&format!("consume {}", self.address), &error);
        let begins = starts::begins(consumer, &self.spec, &self.met, list, &self.stop)?;
        for begin in &begins {
            let at = begin.at.map_or(Offset::Beginning, Offset::Offset);
            list.set_partition_offset(&begin.topic, begin.partition, at).map_err(failed)?;
            self.states.begins(&begin.topic, begin.partition, begin.at);
        }
        consumer.assign(list).map_err(failed)?;
        for begin in begins.iter().filter(|begin| begin.is_other) {
            self.events.begins_again(&begin.topic, begin.partition, begin.committed, InputReset::OtherTopic);
        }
        self.assigned.store(true, Ordering::Relaxed);
        self.events.up(&self.address);
        Ok(())
    }

    /// Counts the tries to find a place for a refused record: those before this one.
    fn tries(&self, place: &RecordPlace) -> u32 {
        let mut tried = self.tried.lock();
        let tries = tried.entry((place.topic.clone(), place.partition)).or_insert((place.offset, 0));
        let before = if tries.0 == place.offset { tries.1 } else { 0 };
        *tries = (place.offset, before.saturating_add(1));
        before
    }

    /// Notes a record, and says what was skipped before it. Returns the id of its topic, as far as it is known.
    fn arrived(&self, consumer: &BaseConsumer<Self>, topic: &str, partition: i32, offset: i64) -> Option<TopicId> {
        match self.states.arrived(topic, partition, offset) {
            Step::Next => {}
            Step::Back(expected) => self.went_back.lock().push(((topic.to_owned(), partition), expected)),
            // Offsets that were compacted away, or are marks of transactions, are no gap.
            Step::Over(expected) => {
                let first = delivery_status::first_offset(consumer, topic, partition);
                if let Some(missed) = first.and_then(|first| missed(expected, first, offset)) {
                    self.events.missed(topic, partition, expected, missed);
                }
            }
        }
        self.met.id(topic)
    }
}

/// The number of records that a broker has removed between the expected offset and that of a record, given the first one that it
/// has. A record before that was fetched before others were removed: what is missing in front of it never was a record.
fn missed(expected: i64, first: i64, offset: i64) -> Option<u64> {
    (first > expected && first <= offset).then(|| (first - expected).unsigned_abs())
}

impl ConsumerContext for InputListener {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, what: RDKafkaRespErr, list: &mut TopicPartitionList) {
        if what == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            if let Err(failure) = self.assign(consumer, list) {
                *self.failed.lock() = Some(failure);
                // The group waits for an answer; nothing is read before another client has asked again.
                drop(consumer.assign(&TopicPartitionList::new()));
            }
            return;
        }
        for of in list.elements() {
            let partition = (of.topic().to_owned(), of.partition());
            self.unconfirmed.revoked(&partition);
            self.states.taken_away(&partition);
        }
        drop(consumer.unassign());
    }

    fn commit_callback(&self, result: KafkaResult<()>, offsets: &TopicPartitionList) {
        match result {
            Ok(()) => self.unconfirmed.confirmed(offsets, Instant::now()),
            Err(error) => {
                self.unconfirmed.refused(Instant::now());
                tracing::debug!(%error, "commit offsets");
            }
        }
    }
}

/// Starts the thread. It ends after `stop`, or when nobody takes its batches; the answer comes then.
pub(super) fn start(
    spec: Arc<KafkaInputSpec>,
    address: String,
    events: InputEvents,
    batches: mpsc::Sender<TakenRecords>,
    stop: CancellationToken,
) -> oneshot::Receiver<()> {
    let (done, ended) = oneshot::channel();
    let met = Arc::new(MetTopics::default());
    let work = move || {
        while !stop.is_cancelled() && !batches.is_closed() {
            if let Err(failure) = consume(&spec, &address, &met, &events, &batches, &stop)
                && !stop.is_cancelled()
            {
                events.down(&failure);
                std::thread::sleep(AGAIN.min(Duration::from_secs(1)));
            }
        }
        // The input has ended.
        let _sent = done.send(());
    };
    // Without a thread nothing is consumed, and the answer says so at once.
    drop(std::thread::Builder::new().name("kafka-input".to_owned()).spawn(work));
    ended
}

/// The partitions that a record holds.
type HeldPartitions = HashMap<Partition, HeldPartition>;

/// A partition that a record holds.
struct HeldPartition {
    term: u64,
    /// The offset of the record.
    offset: i64,
    why: String,
    /// The time of the next try; `None` if there is none.
    again: Option<Instant>,
    /// Whether it is tried now.
    is_tried: bool,
}

/// Whether nothing of this partition is taken now.
fn is_held(held: &HeldPartitions, partition: &Partition) -> bool {
    held.get(partition).is_some_and(|held| !held.is_tried)
}

/// A batch that is decided now.
struct OpenBatch {
    places: Vec<RecordPlace>,
    ends: Receiver<Vec<RecordEnd>>,
    paused: bool,
}

fn consume(
    spec: &Arc<KafkaInputSpec>,
    address: &str,
    met: &Arc<MetTopics>,
    events: &InputEvents,
    batches: &mpsc::Sender<TakenRecords>,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let consumer = client(spec, address, met, events, stop)?;
    let topics: Vec<_> = spec.topics.iter().map(String::as_str).collect();
    consumer.subscribe(&topics).map_err(|error| failure(&format!("consume {address}"), &error))?;
    let mut waiting: Option<OpenBatch> = None;
    let mut held = HeldPartitions::new();
    // Records that came after their partitions were paused.
    let mut rest: VecDeque<(RecordPlace, Arrival)> = VecDeque::new();
    let (mut looked, mut asked, mut reading) = (Instant::now(), Instant::now(), Reading::All);
    while !stop.is_cancelled() {
        if let Some(failure) = consumer.context().failed.lock().take() {
            return Err(failure);
        }
        if looked.elapsed() >= LOOK {
            for topic in begin_other_topics(&consumer, &topics)? {
                held.retain(|(name, _), _| *name != topic);
                consumer.context().assigned.store(true, Ordering::Relaxed);
            }
            let context = consumer.context();
            // The client would go on with the password that it was started with. What is not committed comes again.
            if context.refused.load(Ordering::Relaxed) && context.proof.is_outdated(&spec.cluster) {
                return Ok(());
            }
            let in_doubt = context.doubt.load(Ordering::Relaxed) || reading != Reading::All;
            if asked.elapsed() >= ASK || in_doubt {
                if let Some(found) = reading::look(&consumer, &topics, &spec.group, in_doubt) {
                    context.doubt.store(false, Ordering::Relaxed);
                    context.silent.store(matches!(found, Reading::Nothing(_)), Ordering::Relaxed);
                    match &found {
                        Reading::Nothing(failure) => events.down(failure),
                        Reading::All if reading == Reading::All => {}
                        found => show(events, address, found, &held),
                    }
                    reading = found;
                }
                asked = Instant::now();
            }
            try_again(&consumer, &mut held, &mut rest)?;
            looked = Instant::now();
        }
        if let Some(batch) = &mut waiting {
            // A pause throws away what was fetched ahead: only a batch that takes long is worth one.
            match batch.ends.recv_timeout(if batch.paused { Duration::ZERO } else { UNPAUSED }) {
                Ok(ends) => {
                    let went_on = finish(&consumer, &batch.places, ends, &mut held);
                    if went_on || !held.is_empty() {
                        show(events, address, &reading, &held);
                    }
                    commit(&consumer);
                    if batch.paused {
                        resume(&consumer, &held);
                    }
                    waiting = None;
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    if consumer.context().assigned.swap(false, Ordering::Relaxed) || !batch.paused {
                        batch.paused = true;
                        pause(&consumer);
                    }
                    rest.extend(taken(&consumer, spec, SHORT, 1)?);
                    continue;
                }
            }
        }
        let mut records: Vec<_> = rest.drain(..rest.len().min(BATCH)).collect();
        let (wait, most) = (if records.is_empty() { POLL } else { Duration::ZERO }, BATCH - records.len());
        records.extend(taken(&consumer, spec, wait, most)?);
        let states = &consumer.context().states;
        held.retain(|(topic, partition), held| states.term(topic, *partition) == held.term);
        if consumer.context().assigned.swap(false, Ordering::Relaxed) {
            resume(&consumer, &held);
        }
        records.retain(|(place, _)| !states.is_over(place) && !is_held(&held, &(place.topic.clone(), place.partition)));
        if records.is_empty() {
            commit(&consumer);
            continue;
        }
        let (reply, ends) = sync_channel(1);
        let places = records.iter().map(|(place, _)| place.clone()).collect();
        if batches.blocking_send(TakenRecords { records, reply }).is_err() {
            break;
        }
        waiting = Some(OpenBatch { places, ends, paused: false });
    }
    // What is decided by now is committed.
    if let Some(OpenBatch { places, ends, .. }) = waiting
        && let Ok(ends) = ends.recv()
    {
        finish(&consumer, &places, ends, &mut held);
    }
    count_went_back(consumer.context(), &[]);
    commit_all(&consumer);
    Ok(())
}

/// Looks whether topics were made again since the last look, and begins such ones at their beginning: the client would go on at
/// the place in the one before. Returns their names. What was taken from the one before is kept.
fn begin_other_topics(consumer: &BaseConsumer<InputListener>, topics: &[&str]) -> Result<Vec<String>, Failure> {
    let context = consumer.context();
    // An outage is known from other questions.
    let Ok(found) = delivery_status::describe(consumer.client(), topics, LOOK_TIMEOUT) else { return Ok(Vec::new()) };
    let mut others = Vec::new();
    for topic in found {
        let Some(id) = topic.id.as_deref() else { continue };
        context.met.meet(&topic.name, id);
        let what = format!("consume topic {} from its beginning", topic.name);
        let failed = |error: KafkaError| failure(&what, &error);
        let own = consumer.assignment().map_err(failed)?;
        let own: Vec<_> = own.elements_for_topic(&topic.name).iter().map(|of| of.partition()).collect();
        // Without a partition of it, the next assignment decides.
        if own.is_empty() || !context.met.is_other(&topic.name, Some(id)) {
            continue;
        }
        // Its offsets went with the one before. Without any, `latest` would begin at the end once more.
        if context.spec.start == StartFrom::Latest {
            starts::settle(consumer, &context.spec, &topic, Offset::Beginning)?;
        }
        let mut list = TopicPartitionList::new();
        for partition in own {
            list.add_partition_offset(&topic.name, partition, Offset::Beginning).map_err(failed)?;
            context.states.begins(&topic.name, partition, None);
            context.events.begins_again(&topic.name, partition, None, InputReset::OtherTopic);
        }
        let moved = consumer.seek_partitions(list, TIMEOUT).map_err(failed)?;
        moved.elements().iter().try_for_each(|of| of.error()).map_err(failed)?;
        context.met.read(&topic.name, id);
        others.push(topic.name);
    }
    count_went_back(context, &others);
    Ok(others)
}

/// Counts and logs the partitions that went back, except those of these topics, which are counted as other topics.
fn count_went_back(context: &InputListener, others: &[String]) {
    for ((topic, partition), expected) in std::mem::take(&mut *context.went_back.lock()) {
        if !others.contains(&topic) {
            context.events.begins_again(&topic, partition, Some(expected), InputReset::BeyondEnd);
        }
    }
}

/// Commits what is not confirmed yet, again and again for a while: a group that has just lost its coordinator takes nothing.
fn commit_all(consumer: &BaseConsumer<InputListener>) {
    let begun = Instant::now();
    while !consumer.context().unconfirmed.is_empty() && begun.elapsed() < LAST_COMMIT {
        commit(consumer);
        // The client takes answers in while it is polled; records that come now are read again after the restart.
        drop(consumer.poll(SHORT));
    }
}

/// Commits what is not confirmed, unless a commit is under way.
fn commit(consumer: &BaseConsumer<InputListener>) {
    if let Some(offsets) = consumer.context().unconfirmed.to_send(Instant::now())
        && let Err(error) = delivery_status::commit(consumer, &offsets)
    {
        consumer.context().unconfirmed.refused(Instant::now());
        tracing::debug!(%error, "commit offsets");
    }
}

/// Records that are there, after a wait for the first one.
fn taken(
    consumer: &BaseConsumer<InputListener>,
    spec: &KafkaInputSpec,
    wait: Duration,
    most: usize,
) -> Result<Vec<(RecordPlace, Arrival)>, Failure> {
    let (mut records, mut bytes, mut wait) = (Vec::new(), 0, wait);
    while records.len() < most && bytes < BATCH_BYTES {
        match consumer.poll(wait) {
            None => break,
            Some(Ok(message)) => {
                let (topic, partition) = (message.topic(), message.partition());
                let context = consumer.context();
                let topic_id = context.arrived(consumer, topic, partition, message.offset());
                let term = context.states.term(topic, partition);
                // With records there is an answer about the cluster.
                let cluster = context.cluster_id.get_or_init(|| consumer.client().fetch_cluster_id(TIMEOUT));
                let cluster = cluster.as_deref().unwrap_or_default();
                let mut record = arrival(spec, cluster, &message, delivery_status::headers(&message));
                record.0 = RecordPlace { term, topic_id, ..record.0 };
                bytes += record.1.size();
                records.push(record);
            }
            Some(Err(KafkaError::PartitionEOF(_))) => {}
            Some(Err(error)) => {
                let context = consumer.context();
                let failure = failure(&format!("consume {}", context.address), &error);
                // The client goes on by itself, unless a person has to do something or it is broken for good. It says so once.
                if consumer.client().fatal_error().is_some() {
                    return Err(failure);
                }
                context.doubt.store(true, Ordering::Relaxed);
                context.events.down(&failure);
            }
        }
        wait = Duration::ZERO;
    }
    Ok(records)
}

/// Notes the offsets behind the last record of each partition that is done without a gap, and what holds a partition. Returns whether a
/// partition that was held goes on.
fn finish(
    consumer: &BaseConsumer<InputListener>,
    places: &[RecordPlace],
    ends: Vec<RecordEnd>,
    held: &mut HeldPartitions,
) -> bool {
    let context = consumer.context();
    let (mut pause, mut went_on) = (TopicPartitionList::new(), false);
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
            context.unconfirmed.add((topic, partition), next, topic_id);
        }
    }
    if !held.is_empty() {
        drop(consumer.pause(&pause));
    }
    went_on
}

/// Shows the state of an input that reads something: held partitions first. One function shows it, because two would take turns and
/// log each turn.
fn show(events: &InputEvents, address: &str, reading: &Reading, held: &HeldPartitions) {
    match (why_held(held, reading), reading) {
        // What was under way has ended since.
        (_, Reading::Nothing(_)) => {}
        (Some(why), _) => events.holds(held.len(), &why),
        (None, Reading::Part(problem)) => events.reads_in_part(problem),
        (None, Reading::All) => events.up(address),
    }
}

/// The reasons why partitions are held, and others are not read; `None` if none is held.
fn why_held(held: &HeldPartitions, reading: &Reading) -> Option<String> {
    let why = &held.values().next()?.why;
    Some(if let Reading::Part(problem) = reading { format!("{why}; {problem}") } else { why.clone() })
}

/// Reads partitions again whose refused record is to be tried once more: from this record on.
fn try_again(
    consumer: &BaseConsumer<InputListener>,
    held: &mut HeldPartitions,
    rest: &mut VecDeque<(RecordPlace, Arrival)>,
) -> Result<(), Failure> {
    let (now, context) = (Instant::now(), consumer.context());
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

/// The offset to commit for each partition, with the id of its topic: that of the first record that is not done, or the one behind
/// the last.
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

fn pause(consumer: &BaseConsumer<InputListener>) {
    // Without an assignment nothing is fetched anyway.
    if let Ok(all) = consumer.assignment() {
        drop(consumer.pause(&all));
    }
}

fn resume(consumer: &BaseConsumer<InputListener>, held: &HeldPartitions) {
    let Ok(all) = consumer.assignment() else { return };
    let mut free = TopicPartitionList::new();
    for of in all.elements() {
        if !is_held(held, &(of.topic().to_owned(), of.partition())) {
            free.add_partition(of.topic(), of.partition());
        }
    }
    drop(consumer.resume(&free));
}

fn client(
    spec: &Arc<KafkaInputSpec>,
    address: &str,
    met: &Arc<MetTopics>,
    events: &InputEvents,
    stop: &CancellationToken,
) -> Result<BaseConsumer<InputListener>, Failure> {
    let mut config = ClientConfig::new();
    config.set_log_level(RDKafkaLogLevel::Info);
    let kbytes = (spec.prefetch_bytes / 1024).clamp(1, 2_097_151);
    config
        .set("bootstrap.servers", spec.cluster.brokers.join(","))
        .set("client.id", &spec.cluster.client_id)
        .set("group.id", &spec.group)
        .set("session.timeout.ms", SESSION.as_millis().to_string())
        .set("heartbeat.interval.ms", (SESSION / 4).as_millis().to_string())
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        // For places that are out of range: where a partition begins is decided before.
        .set("auto.offset.reset", "earliest")
        .set("topic.metadata.refresh.interval.ms", LOOK.as_millis().to_string())
        // Of its own, the client would forget the topics after three such intervals of an outage.
        .set("metadata.max.age.ms", "900000")
        .set("allow.auto.create.topics", "false")
        .set("queued.max.messages.kbytes", kbytes.to_string())
        .set("statistics.interval.ms", "5000")
        .set("reconnect.backoff.max.ms", "1000")
        .set("socket.keepalive.enable", "true");
    let proof = Proof::now(&spec.cluster, None, TIMEOUT)?;
    security(&mut config, &spec.cluster, proof.password());
    let listener = InputListener {
        proof,
        spec: spec.clone(),
        states: PartitionStates::default(),
        met: met.clone(),
        cluster_id: OnceLock::new(),
        unconfirmed: UnconfirmedOffsets::default(),
        went_back: Mutex::default(),
        failed: Mutex::default(),
        refused: AtomicBool::default(),
        doubt: AtomicBool::default(),
        silent: AtomicBool::default(),
        stop: stop.clone(),
        tried: Mutex::default(),
        assigned: AtomicBool::default(),
        events: events.clone(),
        address: address.to_owned(),
    };
    config.create_with_context(listener).map_err(|error| failure("start a consumer of Kafka", &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::tests::rig::{PATIENCE, Shared, new_topic, unique};

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
    fn the_answer_to_a_commit_arrives() {
        let kafka = Shared::get();
        let topic = new_topic(&kafka);
        let spec = KafkaInputSpec {
            topics: vec![topic.clone()],
            group: unique("group"),
            cluster: Arc::new(crate::client::tests::spec(&kafka.bootstrap())),
            ..super::super::tests::spec()
        };
        let events = delaybridge_testing::input::events();
        let stop = CancellationToken::new();
        let consumer = client(&Arc::new(spec), "kafka", &Arc::default(), &events, &stop).expect("a consumer");
        consumer.subscribe(&[&topic]).expect("subscribe");
        let begun = Instant::now();
        let poll_until = |what: &str, done: &dyn Fn() -> bool| {
            while !done() {
                assert!(begun.elapsed() < PATIENCE, "{what}");
                commit(&consumer);
                drop(consumer.poll(SHORT));
            }
        };
        poll_until("no partition", &|| consumer.context().assigned.load(Ordering::Relaxed));
        let unconfirmed = &consumer.context().unconfirmed;
        unconfirmed.add((topic.clone(), 0), 0, None);
        poll_until("no answer", &|| unconfirmed.is_empty());
    }

    #[test]
    fn only_what_a_broker_has_removed_was_missed() {
        // expected, first that is there, offset of the record
        let rows = [
            (5, 8, 8, Some(3)),
            (5, 8, 9, Some(3)),
            // A mark of a transaction, or a compacted record.
            (5, 0, 7, None),
            (5, 5, 7, None),
            // The record was fetched before those around it were removed.
            (5, 100, 7, None),
            (5, 8, 7, None),
        ];
        for (expected, first, offset, found) in rows {
            assert_eq!(missed(expected, first, offset), found, "{expected} {first} {offset}");
        }
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
