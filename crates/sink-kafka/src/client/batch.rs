//! Delivers a batch: its records go into the local queue in one loop, and the thread that reads the reports gathers their
//! confirmations. The task is woken by the last one, or by a report of a failure.
//!
//! An obstacle takes its element out of the loop, not the neighbours:
//!
//! - The local queue is full, or there is no producer at the moment: this element and all behind it follow in their order,
//!   and so do later batches. See [`RoomWaiters`].
//! - Its topic is in doubt: the brokers are asked once for all elements of the topic.
//! - Its record failed: its outcome is found as that of a single element; see `deliver.rs`.
//!
//! A refused batch is sent again record by record, a few at a time, so that none times out behind the others. A record
//! without a turn in time counts no attempt.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use rdkafka::types::RDKafkaErrorCode as Code;

use super::deliver::RecordDelivery;
use super::producer::Producer;
use super::reports::{BatchReports, ReportTo};
use super::{KafkaSink, record, slot};
use crate::errors::{self, DeliveryReport};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Failure, Outcome};
use delaybridge_core::unordered;
use delaybridge_sink::{Answers, Outbound};

/// Bytes copied into the local queue, after which the time is read again: a lease may end meanwhile.
const COPIED: usize = 1 << 20;

/// Batches that wait until the local queue has room, in the order in which they came. While there is one, no later batch
/// passes it.
#[derive(Debug, Default)]
pub(super) struct RoomWaiters {
    waiting: AtomicUsize,
    /// Fair: the longest waiting is next.
    turn: tokio::sync::Mutex<()>,
}

impl RoomWaiters {
    fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    fn wait(&self) -> RoomWaiter<'_> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        RoomWaiter(self)
    }
}

struct RoomWaiter<'a>(&'a RoomWaiters);

impl Drop for RoomWaiter<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

struct RecordBatch<'a> {
    messages: &'a [Outbound],
    answers: &'a Answers,
    reports: Arc<BatchReports>,
    begun: Instant,
    /// The producer in use at the beginning.
    producer: Option<Arc<Producer>>,
    sent: Mutex<SentRecords>,
}

/// The elements that have a record in a producer.
struct SentRecords {
    /// By place: whether the producer of the beginning has the record.
    at_once: Vec<bool>,
    /// The elements that were queued later, with the producers that have them.
    later: HashMap<usize, Arc<Producer>>,
}

/// Elements that were not queued at once, by their places.
#[derive(Default)]
struct Left {
    /// Behind the first that found no room or no producer, in their order.
    behind: Vec<usize>,
    /// By topic in doubt: the places of the records.
    doubtful: HashMap<Arc<str>, Vec<usize>>,
}

/// The state of a topic before a record is made.
#[derive(Clone, Copy)]
enum TopicFitness {
    Invalid,
    Doubtful,
    Usable,
}

impl<'a> RecordBatch<'a> {
    fn new(messages: &'a [Outbound], answers: &'a Answers, producer: Option<Arc<Producer>>) -> RecordBatch<'a> {
        let reports = BatchReports::new(answers.clone());
        let sent = SentRecords { at_once: vec![false; messages.len()], later: HashMap::new() };
        RecordBatch {
            messages,
            answers,
            reports: Arc::new(reports),
            begun: Instant::now(),
            producer,
            sent: Mutex::new(sent),
        }
    }

    fn record(&self, place: usize, sink: &KafkaSink) -> Result<RecordDelivery<'a>, Failure> {
        RecordDelivery::new(&self.messages[place], self.begun, sink.timeout)
    }

    fn reply(&self, place: usize) -> ReportTo {
        ReportTo::Batch(self.reports.clone(), place)
    }

    fn fail(&self, place: usize, failure: Failure) {
        self.answers.put(place, Err(failure));
    }

    /// Returns the producer that has the element's record.
    fn sent_by(&self, place: usize) -> Option<Arc<Producer>> {
        let sent = self.sent.lock();
        if sent.at_once[place] { self.producer.clone() } else { sent.later.get(&place).cloned() }
    }
}

impl KafkaSink {
    pub(super) async fn deliver_batch(&self, messages: Vec<Outbound>, answers: &Answers) {
        let batch = RecordBatch::new(&messages, answers, self.batches.ready());
        let left = self.send_at_once(&batch);
        let work: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
        if !left.behind.is_empty() {
            // Now, so that a later batch sees it.
            let waiting = self.room.wait();
            work.push(self.follow(&batch, left.behind, waiting).boxed());
        }
        for places in left.doubtful.into_values() {
            work.push(self.ask_and_send(&batch, places).boxed());
        }
        if tokio::time::timeout(self.timeout, self.gather(&batch, work)).await.is_err() {
            for place in answers.open() {
                match batch.record(place, self) {
                    Ok(record) => batch.fail(place, record.late(batch.sent_by(place).is_some(), self.timeout)),
                    Err(failure) => batch.fail(place, failure),
                }
            }
        }
    }

    /// Puts into the local queue what has room at once, in the order of the batch.
    fn send_at_once(&self, batch: &RecordBatch<'_>) -> Left {
        let mut left = Left::default();
        let mut sent = batch.sent.lock();
        let producer = batch.producer.as_ref().filter(|_| !self.room.is_awaited());
        let mut now = batch.begun;
        let mut copied = 0;
        // Elements of one topic mostly come one behind the other.
        let mut last: Option<(&Arc<str>, TopicFitness)> = None;
        for place in 0..batch.messages.len() {
            let record = match batch.record(place, self) {
                Ok(record) => record,
                Err(failure) => {
                    batch.fail(place, failure);
                    continue;
                }
            };
            let topic = match last {
                Some((name, topic)) if name == record.topic => topic,
                _ => self.topic(record.topic),
            };
            last = Some((record.topic, topic));
            match (topic, producer) {
                (TopicFitness::Invalid, _) => batch.fail(place, errors::failure(&record.what(), Code::InvalidTopic)),
                (TopicFitness::Doubtful, _) => left.doubtful.entry(record.topic.clone()).or_default().push(place),
                (TopicFitness::Usable, Some(producer)) if left.behind.is_empty() => {
                    if copied >= COPIED {
                        (now, copied) = (Instant::now(), 0);
                    }
                    copied += batch.messages[place].body.len();
                    let queued = record.may_send(now).map(|()| record.send(producer, batch.reply(place)));
                    match queued {
                        Ok(Ok(())) => sent.at_once[place] = true,
                        Ok(Err(Code::QueueFull | Code::Fatal)) => left.behind.push(place),
                        Ok(Err(code)) => batch.fail(place, self.not_queued(producer, &record, code)),
                        Err(failure) => batch.fail(place, failure),
                    }
                }
                (TopicFitness::Usable, _) => left.behind.push(place),
            }
        }
        left
    }

    fn topic(&self, name: &str) -> TopicFitness {
        if !record::is_topic(name) {
            TopicFitness::Invalid
        } else if self.topics.is_doubtful(name) {
            TopicFitness::Doubtful
        } else {
            TopicFitness::Usable
        }
    }

    /// Puts elements into the local queue in their order, when the batches before have done so.
    async fn follow(&self, batch: &RecordBatch<'_>, places: Vec<usize>, _waiting: RoomWaiter<'_>) {
        let _turn = self.room.turn.lock().await;
        self.send_in_order(batch, places).await;
    }

    /// Asks for a topic in doubt, and queues its elements if the brokers have it.
    async fn ask_and_send(&self, batch: &RecordBatch<'_>, places: Vec<usize>) {
        let asked = async {
            let Some(place) = places.first() else { return Ok(()) };
            let producer = self.batches.get().await?;
            self.ask_first(&producer, &batch.record(*place, self)?).await
        };
        match asked.await {
            Ok(()) => self.send_in_order(batch, places).await,
            Err(failure) => places.into_iter().for_each(|place| batch.fail(place, failure.clone())),
        }
    }

    async fn send_in_order(&self, batch: &RecordBatch<'_>, places: Vec<usize>) {
        let mut full = false;
        for place in places {
            match self.send_next(batch, place, full).await {
                Ok(producer) => {
                    let _ = batch.sent.lock().later.insert(place, producer);
                }
                Err(failure) => {
                    full |= failure.code == errors::name(Code::QueueFull);
                    batch.fail(place, failure);
                }
            }
        }
    }

    /// Puts one element into the local queue. If one before found no room in time, it does not pass that one.
    async fn send_next(&self, batch: &RecordBatch<'_>, place: usize, full: bool) -> Result<Arc<Producer>, Failure> {
        let record = batch.record(place, self)?;
        if full {
            return Err(errors::failure(&record.what(), Code::QueueFull));
        }
        self.queue(&self.batches, &record, batch.begun, || batch.reply(place)).await
    }

    /// Waits for all answers, and finds those to elements whose records failed.
    async fn gather<'b>(&'b self, batch: &'b RecordBatch<'_>, mut work: FuturesUnordered<BoxFuture<'b, ()>>) {
        loop {
            let failed = batch.reports.take_failed();
            for (place, report) in failed {
                work.push(self.look_into(batch, place, report).boxed());
            }
            // All may be left at any time.
            tokio::select! {
                biased;
                () = batch.answers.complete() => return,
                () = batch.reports.failed() => {}
                Some(()) = unordered::next(&mut work), if !work.is_empty() => {}
            }
        }
    }

    async fn look_into(&self, batch: &RecordBatch<'_>, place: usize, report: DeliveryReport) {
        let outcome = AssertUnwindSafe(self.outcome_of(batch, place, report)).catch_unwind();
        match outcome.await {
            Ok(outcome) => batch.answers.put(place, outcome),
            Err(_panic) => batch.answers.put_panic(place),
        }
    }

    async fn outcome_of(&self, batch: &RecordBatch<'_>, place: usize, report: DeliveryReport) -> Outcome {
        let record = batch.record(place, self)?;
        let producer = batch.sent_by(place).ok_or_else(slot::closed)?;
        self.reported(&producer, report, &record).await
    }
}
