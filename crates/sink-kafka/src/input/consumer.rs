//! The thread with the client: takes records, and commits the offsets of what is done.
//!
//! While a batch takes long the thread goes on polling, because a member of a group that does not is thrown out. Its partitions
//! are paused then, so that nothing more is fetched.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use rdkafka::Offset;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::KafkaInputSpec;
use super::client::{InputListener, LOOK, TIMEOUT, client};
use super::errors::{FENCED, failure, of_code};
use super::held::{HeldPartitions, RecordEnd, finish, is_held, resume, show, try_again};
use super::others::{begin_other_topics, count_went_back};
use super::partitions::MetTopics;
use super::questions;
use super::reading::Reading;
use super::record::{RecordPlace, arrival};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};
use delaybridge_input::{Arrival, InputEvents};

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
const AGAIN: Duration = Duration::from_secs(1);
/// The same after another process took the place of this static member.
const FENCED_AGAIN: Duration = Duration::from_secs(30);
/// The time that the last offsets have to be committed.
const LAST_COMMIT: Duration = Duration::from_secs(10);

/// Records that are decided together, and where their ends go.
pub(super) struct TakenRecords {
    pub(super) records: Vec<(RecordPlace, Arrival)>,
    pub(super) reply: SyncSender<Vec<RecordEnd>>,
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
                // Two that shut each other out at once would both read nothing.
                let wait = if failure.code == FENCED { FENCED_AGAIN } else { AGAIN };
                let again = Instant::now().after(wait);
                while Instant::now() < again && !stop.is_cancelled() {
                    std::thread::sleep(POLL);
                }
            }
        }
        // The input has ended.
        let _sent = done.send(());
    };
    // Without a thread nothing is consumed, and the answer says so at once.
    let _ = std::thread::Builder::new().name("kafka-input".to_owned()).spawn(work);
    ended
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
    let (ends, ended) = sync_channel(0);
    let consumer = &consumer;
    let topics = &topics[..];
    std::thread::scope(|scope| {
        let asks = std::thread::Builder::new().name("kafka-questions".to_owned());
        let started = asks.spawn_scoped(scope, move || questions::ask(consumer, topics, &ended));
        let result = match started {
            Ok(_) => read(consumer, spec, topics, batches, stop),
            Err(error) => Err(Failure::new(Class::Transient, "client_creation", format!("start a thread: {error}"))),
        };
        // The scope waits for the thread, whose questions end with their time-outs.
        let _ended: SyncSender<()> = ends;
        result
    })
}

/// Takes records and commits what is done until `stop`, or until another client is needed.
fn read(
    consumer: &BaseConsumer<InputListener>,
    spec: &KafkaInputSpec,
    topics: &[&str],
    batches: &mpsc::Sender<TakenRecords>,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let context = consumer.context();
    let events = &context.events;
    let address = &*context.address;
    let mut waiting: Option<OpenBatch> = None;
    let mut held = HeldPartitions::new();
    // Records that came after their partitions were paused.
    let mut rest: VecDeque<(RecordPlace, Arrival)> = VecDeque::new();
    let mut reading = Reading::All;
    let mut looked = Instant::now();
    while !stop.is_cancelled() {
        if let Some(failure) = context.failed.lock().take() {
            return Err(failure);
        }
        if looked.elapsed() >= LOOK {
            for topic in begin_other_topics(consumer, topics)? {
                held.retain(|(name, _), _| *name != topic);
                context.assigned.store(true, Ordering::Relaxed);
            }
            // The client would go on with the password that it was started with. What is not committed comes again.
            if context.refused.load(Ordering::Relaxed) && context.proof.is_outdated(&spec.cluster) {
                return Ok(());
            }
            if let Some(found) = context.found.lock().take() {
                match &found {
                    Reading::Nothing(failure) => events.down(failure),
                    Reading::All if reading == Reading::All => {}
                    found => show(events, address, found, &held),
                }
                reading = found;
            }
            pass_marks(consumer, &held);
            try_again(consumer, &mut held, &mut rest)?;
            looked = Instant::now();
        }
        if let Some(batch) = &mut waiting {
            // A pause throws away what was fetched ahead: only a batch that takes long is worth one.
            match batch.ends.recv_timeout(if batch.paused { Duration::ZERO } else { UNPAUSED }) {
                Ok(ends) => {
                    let went_on = finish(consumer, &batch.places, ends, &mut held);
                    if went_on || !held.is_empty() {
                        show(events, address, &reading, &held);
                    }
                    commit(consumer);
                    if batch.paused {
                        resume(consumer, &held);
                    }
                    waiting = None;
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    if context.assigned.swap(false, Ordering::Relaxed) || !batch.paused {
                        batch.paused = true;
                        pause(consumer);
                    }
                    rest.extend(taken(consumer, spec, SHORT, 1)?);
                    continue;
                }
            }
        }
        let mut records: Vec<_> = rest.drain(..rest.len().min(BATCH)).collect();
        let wait = if records.is_empty() { POLL } else { Duration::ZERO };
        let most = BATCH - records.len();
        records.extend(taken(consumer, spec, wait, most)?);
        let states = &context.states;
        held.retain(|(topic, partition), held| states.term(topic, *partition) == held.term);
        if context.assigned.swap(false, Ordering::Relaxed) {
            resume(consumer, &held);
        }
        records.retain(|(place, _)| !states.is_over(place) && !is_held(&held, &(place.topic.clone(), place.partition)));
        if records.is_empty() {
            commit(consumer);
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
        finish(consumer, &places, ends, &mut held);
    }
    count_went_back(context, &[]);
    commit_all(consumer);
    Ok(())
}

/// Commits what is not confirmed yet, again and again for a while: a group that has just lost its coordinator takes nothing.
fn commit_all(consumer: &BaseConsumer<InputListener>) {
    let begun = Instant::now();
    while !consumer.context().unconfirmed.is_empty() && begun.elapsed() < LAST_COMMIT {
        commit(consumer);
        // The client takes answers in while it is polled; records that come now are read again after the restart.
        let _ = consumer.poll(SHORT);
    }
}

/// Commits places behind the marks of transactions, which are no records: a group that has done all of them would lag for ever.
/// A place is never one of before: librdkafka forgets it at a seek and when an assignment ends (`rd_kafka_toppar_seek`,
/// `rd_kafka_toppar_fetch_stopped` in 2.12). Otherwise records behind the new beginning would be committed unread.
fn pass_marks(consumer: &BaseConsumer<InputListener>, held: &HeldPartitions) {
    let Ok(positions) = consumer.position() else { return };
    let context = consumer.context();
    for of in positions.elements() {
        let Offset::Offset(at) = of.offset() else { continue };
        let partition = (of.topic().to_owned(), of.partition());
        if !held.contains_key(&partition) && context.states.passes(&partition, at) {
            let topic_id = context.met.id(of.topic());
            context.unconfirmed.add(partition, at, topic_id);
        }
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
    let mut records = Vec::new();
    let mut bytes = 0;
    let mut wait = wait;
    while records.len() < most && bytes < BATCH_BYTES {
        match consumer.poll(wait) {
            None => break,
            Some(Ok(message)) => {
                let topic = message.topic();
                let partition = message.partition();
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
                if let Some((code, _)) = consumer.client().fatal_error() {
                    return Err(of_code(&format!("consume {}", context.address), code));
                }
                context.doubts.fetch_add(1, Ordering::Relaxed);
                context.events.down(&failure);
            }
        }
        wait = Duration::ZERO;
    }
    Ok(records)
}

fn pause(consumer: &BaseConsumer<InputListener>) {
    // Without an assignment nothing is fetched anyway.
    if let Ok(all) = consumer.assignment() {
        let _ = consumer.pause(&all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::tests::rig::{PATIENCE, Shared, new_topic, unique};

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
                let _ = consumer.poll(SHORT);
            }
        };
        poll_until("no partition", &|| consumer.context().assigned.load(Ordering::Relaxed));
        let unconfirmed = &consumer.context().unconfirmed;
        unconfirmed.add((topic.clone(), 0), 0, None);
        poll_until("no answer", &|| unconfirmed.is_empty());
    }
}
