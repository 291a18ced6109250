//! Delivers one element: its record, the report, and the reason of a report that names none. Elements of a batch come here
//! when a failure is reported; see `batch.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use delivery_status::Persistence;
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::oneshot;

use super::producer::{NotQueued, Producer};
use super::reports::ReportTo;
use super::slot::{self, Slot};
use super::topics::{TopicAnswer, TopicHealth};
use super::{KafkaSink, record, settings};
use crate::errors::{self, DeliveryReport};
use crate::{KafkaDestination, NAME};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure, Outcome};
use delaybridge_sink::Outbound;

/// Time for which an element waits for room in the local queue before it fails with backpressure.
const ROOM_WAIT: Duration = Duration::from_millis(200);
/// The interval between attempts.
const ROOM_ROUND: Duration = Duration::from_millis(20);
/// Longest that a doubtful topic is asked for before its next record.
const ASK: Duration = Duration::from_secs(5);
/// The rest of the time-out at which an answer has to be ready.
const LAST_MOMENT: Duration = Duration::from_millis(50);

// A future is moved and allocated with the room of its longest way: the rare ones are boxed, each element would pay.

/// One outstanding element.
pub(super) struct RecordDelivery<'a> {
    message: &'a Outbound,
    pub(super) topic: &'a Arc<str>,
    key: Option<&'a [u8]>,
    /// The time at which an answer has to be there.
    deadline: Instant,
    /// Time allowed for librdkafka, from the moment that it gets the record.
    limit: Duration,
    /// Whether a record of it was given to librdkafka.
    sent: AtomicBool,
}

impl<'a> RecordDelivery<'a> {
    /// Creates the delivery of an element that was handed over at `begun`.
    pub(super) fn new(message: &'a Outbound, begun: Instant, timeout: Duration) -> Result<RecordDelivery<'a>, Failure> {
        let KafkaDestination { topic, key } = message.destination.of_kind(NAME)?;
        Ok(RecordDelivery {
            message,
            topic,
            key: record::key(message, key.as_deref()),
            deadline: begun.after(timeout),
            limit: settings::message_timeout(timeout),
            sent: AtomicBool::new(false),
        })
    }

    /// Returns the delivery of the record that is sent alone after it, as far as there is time.
    fn alone(&self) -> RecordDelivery<'a> {
        let RecordDelivery { message, topic, key, deadline, limit, sent: _ } = *self;
        RecordDelivery {
            message,
            topic,
            key,
            deadline,
            limit: settings::alone_timeout(limit),
            sent: AtomicBool::new(true),
        }
    }

    /// Returns the name of the attempt in messages.
    pub(super) fn what(&self) -> String {
        format!("send to topic {}", self.topic)
    }

    /// Fails if the record must not be sent any more.
    pub(super) fn may_send(&self, now: Instant) -> Result<(), Failure> {
        if now >= self.message.send_before {
            Err(Failure::stale())
        } else if !self.has_time(now) {
            Err(self.not_sent())
        } else {
            Ok(())
        }
    }

    /// Puts the record into the local queue.
    pub(super) fn send(&self, producer: &Producer, reply: ReportTo) -> Result<(), Code> {
        producer.send((self.topic, None), self.key, self.message, reply).map_err(|NotQueued(code)| code)
    }

    pub(super) fn send_to(&self, producer: &Producer, partition: u32, reply: ReportTo) -> Result<(), Code> {
        let sent = producer.send((self.topic, Some(partition)), self.key, self.message, reply);
        sent.map_err(|NotQueued(code)| code)
    }

    fn left(&self) -> Duration {
        self.deadline.since(Instant::now().after(LAST_MOMENT))
    }

    /// Returns whether librdkafka would give up a record that it gets now before the answer is due. Else it could send
    /// it after the answer.
    fn has_time(&self, now: Instant) -> bool {
        self.deadline.since(now) >= self.limit
    }

    /// Returns the time until there is [too little](RecordDelivery::has_time) left.
    fn time_to_send(&self) -> Duration {
        self.deadline.since(Instant::now()).saturating_sub(self.limit)
    }

    /// Builds the failure of a record without time for its turn after the others of its batch: nothing is known about
    /// it.
    fn behind(&self) -> Failure {
        let text = format!("{}: refused with its batch, whose other records were sent first", self.what());
        Failure::new(Class::Transient, Failure::BEHIND, text)
    }

    fn not_sent(&self) -> Failure {
        Failure::new(
            Class::Transient,
            Failure::NOT_SENT,
            format!("{}: too little time was left to send it", self.what()),
        )
    }

    /// Builds the failure when the time is over, by whether a record was given to librdkafka.
    pub(super) fn late(&self, sent: bool, timeout: Duration) -> Failure {
        if !sent {
            return self.not_sent();
        }
        let text = format!("{}: no confirmation within {timeout:?}", self.what());
        Failure::new(Class::Ambiguous, "timeout", text)
    }
}

impl KafkaSink {
    pub(super) async fn deliver_one(&self, message: Outbound) -> Outcome {
        let record = RecordDelivery::new(&message, Instant::now(), self.timeout)?;
        if !record::is_topic(record.topic) {
            return Err(errors::failure(&record.what(), Code::InvalidTopic));
        }
        match tokio::time::timeout(self.timeout, self.attempt(&record)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(record.late(record.sent.load(Ordering::Relaxed), self.timeout)),
        }
    }

    async fn attempt(&self, record: &RecordDelivery<'_>) -> Outcome {
        let (producer, report) = self.report(&self.batches, record).await?;
        if report.error.is_none() {
            producer.health().answered();
            return Ok(());
        }
        Box::pin(self.reported(&producer, report, record)).await
    }

    /// Decides the outcome of an element whose record the batches' producer reports as failed.
    pub(super) async fn reported(
        &self,
        producer: &Arc<Producer>,
        report: DeliveryReport,
        record: &RecordDelivery<'_>,
    ) -> Outcome {
        let code = report.error.unwrap_or(Code::NoError);
        if !errors::is_about_batch(code) || report.persistence != Persistence::Not {
            return self.outcome(producer, report, record).await;
        }
        // The broker refused the batch, and only one of its records may be the reason.
        producer.health().answered();
        let record = &record.alone();
        let turn = tokio::time::timeout(record.time_to_send(), self.turns.acquire()).await;
        let Ok(Ok(turn)) = turn else { return Err(record.behind()) };
        let alone = Box::pin(self.report(&self.alone, record)).await;
        drop(turn);
        // Without a connection to send it alone, the next attempt has to show whether it is this one. That this one has
        // been sent counts. Without time, nothing is known about it.
        let untold = || Failure { class: Class::Transient, ..errors::failure(&record.what(), code) };
        let (producer, report) = alone.map_err(|failure| match failure.is_unsent() {
            true if failure.code == Failure::NOT_SENT.as_str() => record.behind(),
            true => untold(),
            false => failure,
        })?;
        self.outcome(&producer, report, record).await
    }

    /// Sends the record and waits for its report.
    async fn report(
        &self,
        slot: &Slot,
        record: &RecordDelivery<'_>,
    ) -> Result<(Arc<Producer>, DeliveryReport), Failure> {
        if self.topics.is_doubtful(record.topic) {
            let producer = slot.get().await?;
            Box::pin(self.ask_first(&producer, record)).await?;
        }
        let mut answer = None;
        let reply = || {
            let (reply, report) = oneshot::channel();
            answer = Some(report);
            ReportTo::One(reply)
        };
        let producer = self.queue(slot, record, Instant::now(), reply).await?;
        // A sender that is gone without a word: the producer was destroyed with the record in flight.
        let gone = || Failure { class: Class::Ambiguous, ..slot::closed() };
        let report = answer.ok_or_else(gone)?.await.map_err(|_gone| gone())?;
        Ok((producer, report))
    }

    /// Puts the record into a queue, waiting for room until a little after `since`. Returns the producer that has it.
    pub(super) async fn queue(
        &self,
        slot: &Slot,
        record: &RecordDelivery<'_>,
        since: Instant,
        mut reply: impl FnMut() -> ReportTo,
    ) -> Result<Arc<Producer>, Failure> {
        let mut again = true;
        loop {
            let producer = slot.get().await?;
            record.may_send(Instant::now())?;
            match record.send(&producer, reply()) {
                Ok(()) => {
                    record.sent.store(true, Ordering::Relaxed);
                    return Ok(producer);
                }
                Err(Code::QueueFull) if since.elapsed() < ROOM_WAIT => {
                    Box::pin(tokio::time::sleep(ROOM_ROUND)).await;
                }
                // It has given up since it was taken from the slot; nothing was sent.
                Err(Code::Fatal) if again => {
                    producer.health().error(Code::Fatal, "");
                    again = false;
                }
                Err(code) => return Err(self.not_queued(&producer, record, code)),
            }
        }
    }

    /// Builds the failure of a record that librdkafka does not take.
    pub(super) fn not_queued(&self, producer: &Producer, record: &RecordDelivery<'_>, code: Code) -> Failure {
        if errors::is_about_topic(code) {
            self.topics.doubt(record.topic);
        }
        let trouble = producer.trouble().filter(|_| code == Code::Fatal);
        let failure = || errors::failure(&record.what(), code);
        trouble.map_or_else(failure, |trouble| trouble.failure(&record.what()))
    }

    /// Asks for a topic that was in doubt; no record is made while the brokers refuse it.
    pub(super) async fn ask_first(&self, producer: &Arc<Producer>, record: &RecordDelivery<'_>) -> Result<(), Failure> {
        match self.topics.ask(producer, record.topic, ASK.min(self.timeout / 2)).await {
            TopicAnswer::Fine(_) => {
                self.topics.trust(record.topic);
                Ok(())
            }
            TopicAnswer::Refused(code) => Err(errors::failure(&record.what(), code)),
            TopicAnswer::Silent(code) => Err(match producer.trouble() {
                Some(trouble) => trouble.failure(&record.what()),
                None => {
                    let last = producer.health().last().map(|last| format!("; {last}")).unwrap_or_default();
                    let text = format!("{}: ask for the topic: {code}{last}", record.what());
                    Failure::new(Class::Transient, Failure::NOT_CONNECTED, text)
                }
            }),
        }
    }

    /// Classifies a report; looks for the reason where it names none.
    async fn outcome(&self, producer: &Arc<Producer>, report: DeliveryReport, record: &RecordDelivery<'_>) -> Outcome {
        let Err(failure) = errors::judge(&record.what(), report, record.message.attempt) else {
            producer.health().answered();
            return Ok(());
        };
        let failure = if record.key.is_none() { errors::without_key(failure) } else { failure };
        let code = report.error.unwrap_or(Code::NoError);
        if errors::is_about_topic(code) {
            self.topics.doubt(record.topic);
        }
        if !errors::is_without_reason(code) {
            return Err(failure);
        }
        if let Some(trouble) = producer.trouble() {
            let reason = trouble.failure(&record.what());
            // Where others let us in, it is the trouble of one broker: what that one leads waits, and no queue is held for it.
            let login = matches!(trouble.code, Code::Authentication | Code::SaslAuthenticationFailed);
            let of_one = login && !producer.health().all_down() && !producer.is_over();
            let class = if of_one { Class::Transient } else { reason.class };
            return Err(because(failure, Failure { class, ..reason }));
        }
        if code != Code::MessageTimedOut {
            return Err(failure);
        }
        Err(self.reason_of_silence(producer, failure, record).await)
    }

    /// Finds out why a record timed out, while nothing is known to be wrong with the connections.
    async fn reason_of_silence(
        &self,
        producer: &Arc<Producer>,
        timed_out: Failure,
        record: &RecordDelivery<'_>,
    ) -> Failure {
        let health = producer.health();
        let asked = async {
            if health.all_down() {
                return TopicAnswer::Silent(Code::AllBrokersDown);
            }
            let left = record.left();
            let asked = tokio::time::timeout(left, self.topics.ask(producer, record.topic, left)).await;
            asked.unwrap_or(TopicAnswer::Silent(Code::OperationTimedOut))
        };
        match asked.await {
            TopicAnswer::Refused(code) => {
                self.topics.doubt(record.topic);
                because(timed_out, errors::failure(&record.what(), code))
            }
            TopicAnswer::Fine(TopicHealth { note: None, .. }) => timed_out,
            TopicAnswer::Fine(TopicHealth { note: Some(note), .. }) => noted(timed_out, &note),
            TopicAnswer::Silent(_) => {
                let code = if health.all_down() { errors::name(Code::AllBrokersDown) } else { timed_out.code };
                let last = health.last().unwrap_or_else(|| "no broker answers".to_owned());
                noted(Failure { code, ..timed_out }, &last)
            }
        }
    }
}

/// Puts the reason in the place of the symptom; but what may have been written stays ambiguous, since a retry may be a
/// duplicate.
fn because(symptom: Failure, reason: Failure) -> Failure {
    let class = if symptom.class == Class::Ambiguous { Class::Ambiguous } else { reason.class };
    Failure { class, ..reason }
}

fn noted(failure: Failure, note: &str) -> Failure {
    let told = Failure::new(failure.class, failure.code, format!("{}; {note}", failure.message));
    Failure { about: failure.about, ..told }
}
