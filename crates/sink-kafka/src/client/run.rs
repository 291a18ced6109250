//! Runs: records of one partition, of which none is written before one that came before it.
//!
//! Their producer is one of its own, so set that it writes no record behind one that failed:
//!
//! - It is idempotent: a broker appends a batch of a partition only behind the batch before it.
//! - One request is under way at a time, and no record times out in the producer. A batch whose failure may pass is sent again before
//!   the next one.
//! - With `enable.gapless.guarantee`, a batch that fails for good ends the producer. One more request may have been made by then, and
//!   is sent: it has a later number, which the broker refuses.
//! - A broker that does not know the producer takes any number. So the first record of a partition goes alone, and the others follow
//!   when it is confirmed.
//! - A purge takes all records of a run that are queued, or none, so that it leaves no end without its beginning.
//!
//! So a producer writes a beginning of its run. When a record fails, or the time is over, the next run has another
//! producer. What the first one still has on the way begins with the first record that is not confirmed, as does what is sent again:
//! whichever comes first, the records are first written in their order.

use std::collections::BTreeMap;
use std::sync::Arc;

use delivery_status::Persistence;
use rdkafka::types::RDKafkaErrorCode as Code;

use super::deliver::RecordDelivery;
use super::producer::{Producer, ProducerLine};
use super::reports::{ReportTo, RunReports};
use super::slot::Slot;
use super::{KafkaSink, record, settings};
use crate::errors::{self, DeliveryReport};
use crate::{KafkaDestination, NAME};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};
use delaybridge_sink::{Answers, Destination, Outbound, behind};

struct OpenRun<'a> {
    messages: &'a [Outbound],
    answers: &'a Answers,
    reports: Arc<RunReports>,
    begun: Instant,
    slot: &'a Slot,
    producer: Arc<Producer>,
    /// The number of records that the producer has: those of the first elements.
    sent: usize,
    confirmed: usize,
    /// The reports of failures, by the places of their elements.
    failed: BTreeMap<usize, DeliveryReport>,
    /// Partitions whose first record has been sent.
    first_of: Vec<ProducerLine>,
}

/// The end of the queueing of records.
enum Queued {
    All,
    /// The next one has to wait until those before it are confirmed.
    UntilConfirmed,
    /// The next one is not taken, for this reason.
    Refused(Failure),
}

impl Drop for OpenRun<'_> {
    /// Ends the producer, unless all that it has is confirmed: it would send the rest whenever a broker is back.
    fn drop(&mut self) {
        if self.confirmed < self.sent {
            self.producer.health().outdated();
        }
        self.slot.drop_ended();
    }
}

impl OpenRun<'_> {
    /// Returns whether each record that was sent has its report.
    fn is_reported(&self) -> bool {
        self.confirmed + self.failed.len() == self.sent
    }

    fn take_reports(&mut self) {
        for (place, report) in self.reports.take() {
            if report.error.is_none() {
                self.confirmed += 1;
                self.answers.put(place, Ok(()));
            } else {
                self.failed.insert(place, report);
            }
        }
    }

    /// Waits until this time for the report of each record, or for a failure.
    async fn first_failure(&mut self, until: Instant) {
        self.wait(until, |run| run.is_reported() || !run.failed.is_empty()).await;
    }

    /// Waits until this time for the report of each record.
    async fn all_reports(&mut self, until: Instant) {
        self.wait(until, OpenRun::is_reported).await;
    }

    async fn wait(&mut self, until: Instant, is_over: impl Fn(&Self) -> bool) {
        let reports = self.reports.clone();
        loop {
            self.take_reports();
            let left = until.since(Instant::now());
            if is_over(self) || tokio::time::timeout(left, reports.changed()).await.is_err() {
                return self.take_reports();
            }
        }
    }
}

impl KafkaSink {
    /// Returns the partition of elements with this destination, if that is certain.
    pub(super) fn line_of(&self, destination: &Destination) -> Option<u32> {
        let KafkaDestination { topic, key } = destination.of_kind(NAME).ok()?;
        if !record::is_topic(topic) || self.topics.is_doubtful(topic) {
            return None;
        }
        self.topics
            .line(topic, key.as_deref().map(str::as_bytes), || self.runs.ready().or_else(|| self.batches.ready()))
    }

    pub(super) async fn deliver_in_order(&self, messages: &[Outbound], answers: &Answers) {
        let begun = Instant::now();
        let producer = match tokio::time::timeout(self.timeout, self.runs.get()).await {
            Ok(Ok(producer)) => producer,
            Ok(Err(failure)) => return stopped(messages, answers, failure),
            Err(_) => {
                let text = format!("send to Kafka: no producer within {:?}", self.timeout);
                return stopped(messages, answers, Failure::new(Class::Transient, Failure::NOT_SENT, text));
            }
        };
        let reports = Arc::default();
        let confirmed = 0;
        let mut run = OpenRun {
            messages,
            answers,
            reports,
            begun,
            slot: &self.runs,
            producer,
            sent: 0,
            confirmed,
            failed: BTreeMap::new(),
            first_of: Vec::new(),
        };
        let until = begun.after(settings::message_timeout(self.timeout));
        let refused = loop {
            let producer = run.producer.clone();
            let queued = producer.while_queueing(|| self.queue_next(&mut run));
            run.reports.expect(run.sent);
            run.first_failure(until).await;
            if run.confirmed == run.sent {
                producer.prove(run.first_of.drain(..));
            }
            match queued {
                Some(Queued::UntilConfirmed) if run.confirmed == run.sent => {}
                Some(Queued::Refused(failure)) => break Some(failure),
                Some(Queued::All | Queued::UntilConfirmed) => break None,
                None => break run.messages.get(run.sent).map(|message| behind(&message.destination)),
            }
        };
        let is_late = !run.is_reported() && run.failed.is_empty();
        if !run.is_reported() {
            // What is not confirmed is taken back, and reported then.
            run.producer.health().outdated();
            run.all_reports(begun.after(self.timeout)).await;
        }
        self.judge(&run, is_late).await;
        if let Some(failure) = refused {
            answers.put(
                run.sent,
                Err(if run.confirmed == run.sent { failure } else { behind(&messages[run.sent].destination) }),
            );
        }
        answers.open().into_iter().for_each(|place| answers.put(place, Err(behind(&messages[place].destination))));
    }

    /// Puts records into the local queue, in their order, from the first that is not there.
    fn queue_next(&self, run: &mut OpenRun<'_>) -> Queued {
        while let Some(message) = run.messages.get(run.sent) {
            let record = match RecordDelivery::new(message, run.begun, self.timeout) {
                Ok(record) if Instant::now() < message.send_before => record,
                Ok(_) => return Queued::Refused(Failure::stale()),
                Err(failure) => return Queued::Refused(failure),
            };
            let Some(partition) = self.line_of(&message.destination) else {
                return Queued::Refused(behind(&message.destination));
            };
            let line = (record.topic.clone(), partition);
            let is_first = !run.producer.is_proven(&line);
            if is_first && run.first_of.contains(&line) {
                return Queued::UntilConfirmed;
            }
            let reply = ReportTo::Run(run.reports.clone(), run.sent);
            match record.send_to(&run.producer, partition, reply) {
                Ok(()) => {
                    run.sent += 1;
                    run.first_of.extend(is_first.then_some(line));
                }
                // The producer ended just now, or does not know a partition that was added.
                Err(code @ (Code::Fatal | Code::UnknownPartition)) => {
                    match code {
                        Code::Fatal => run.producer.health().error(code, ""),
                        _ => self.topics.doubt(record.topic),
                    }
                    return Queued::Refused(behind(&message.destination));
                }
                Err(code) => return Queued::Refused(self.not_queued(&run.producer, &record, code)),
            }
        }
        Queued::All
    }

    /// Answers what was sent and is not confirmed: the first with its reason, those behind it by whether they may be written.
    async fn judge(&self, run: &OpenRun<'_>, is_late: bool) {
        let mut unconfirmed = run.answers.open().into_iter().take_while(|place| *place < run.sent).peekable();
        let error = unconfirmed.peek().and_then(|place| run.failed.get(place)?.error);
        let is_taken_back = is_late && error == Some(Code::PurgeQueue);
        let error = if is_taken_back { Some(Code::MessageTimedOut) } else { error };
        // A batch that was refused for one of its records is sent record by record, as far as nothing of the run is in doubt.
        let is_refused = error.is_some_and(errors::is_about_batch)
            && run.is_reported()
            && run.failed.values().all(|report| report.persistence == Persistence::Not);
        let mut goes_on = true;
        for place in unconfirmed {
            let message = &run.messages[place];
            let record = RecordDelivery::new(message, run.begun, self.timeout);
            let outcome = match (record, run.failed.get(&place)) {
                (Err(failure), _) => Err(failure),
                (Ok(record), None) => Err(record.late(true, self.timeout)),
                // The producer has ended by another run.
                (Ok(_), Some(DeliveryReport { error: Some(Code::PurgeQueue), persistence: Persistence::Not }))
                    if !is_late =>
                {
                    Err(behind(&message.destination))
                }
                (Ok(record), Some(report)) if goes_on => {
                    goes_on = is_refused;
                    self.reported(&run.producer, DeliveryReport { error, ..*report }, &record).await
                }
                (Ok(_), Some(report)) if report.persistence == Persistence::Not => Err(behind(&message.destination)),
                (Ok(record), Some(report)) => errors::judge(&record.what(), *report, message.attempt)
                    .map_err(|failure| Failure { class: Class::Ambiguous, ..failure }),
            };
            goes_on &= outcome.is_ok();
            run.answers.put(place, outcome);
        }
    }
}

/// Answers a run of which nothing was sent.
fn stopped(messages: &[Outbound], answers: &Answers, failure: Failure) {
    for (place, message) in messages.iter().enumerate() {
        let failure = if place == 0 { failure.clone() } else { behind(&message.destination) };
        answers.put(place, Err(failure));
    }
}
