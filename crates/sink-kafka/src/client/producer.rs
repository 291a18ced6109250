//! One producer of librdkafka and the thread that serves it.
//!
//! The thread reads reports, purges what can no longer be delivered, and destroys the producer at its end: that blocks
//! until librdkafka's own threads have ended, which no task may do.
//!
//! librdkafka keeps two things for itself, which only a new producer is without:
//!
//! - every topic that a record was ever made for. Topics that come out of payloads cost memory, each a little, so a producer
//!   that has met too many of them [is over](Producer::is_over), and the next one begins without any;
//! - its own clock for records in the local queue. That is the monotonic one, which stops while the machine
//!   sleeps, unlike that of a lease: a record queued before a suspend may be sent after it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use delivery_status::persistence;
use parking_lot::{Mutex, RwLock};
use rdkafka::ClientContext;
use rdkafka::client::{Client, OAuthToken};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::metadata::Metadata;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext, PurgeConfig};
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::{oneshot, watch};

use super::health::{ConnectionTrouble, ProducerHealth};
use super::known::KnownTopics;
use super::proof::Proof;
use super::record;
use super::reports::ReportTo;
use super::settings::{self, ProducerPurpose};
use crate::KafkaSpec;
use crate::errors::DeliveryReport;
use crate::tokens::LoginTokens;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};
use delaybridge_sink::Outbound;

/// Duration of one round of the thread: nothing is purged or closed faster.
///
/// A little more than whole milliseconds: librdkafka waits for whole ones only, and `poll` asks again and again until what
/// is left of a millisecond is over, which at 50 ms cost an idle producer 1.7 % of a core.
const ROUND: Duration = Duration::from_micros(50_100);
/// The interval between looks for a new password, after a broker has refused the old one.
const LOOK: Duration = Duration::from_secs(1);
/// Time for which a broker certainly knows the last record of a producer: it forgets an idle one after a day by default.
const PROVEN: Duration = Duration::from_secs(3600);
/// Time allowed for the reports of purged records at the close.
const LAST_REPORTS: Duration = Duration::from_secs(1);

/// The receiver of librdkafka's events.
struct ProducerListener {
    health: Arc<ProducerHealth>,
    topics: Arc<KnownTopics>,
    proof: Proof,
    /// The client has asked for a token when there was none, and asks again much later.
    starved: AtomicBool,
}

impl ProducerListener {
    /// Takes in an error of the client that is only the want of a token.
    fn starves(&self, code: Code, tokens: &LoginTokens) {
        match tokens.failure() {
            refused if refused.class == Class::TargetPermanent => self.health.error(code, &refused.message),
            away => self.health.lost(&away.message),
        }
    }
}

impl ClientContext for ProducerListener {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _config: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        let token = self.proof.oauth_token();
        self.starved.store(token.is_err(), Ordering::Release);
        token
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        // Disconnects are not reported to the error callback, only logged.
        if facility == "FAIL" {
            self.health.lost(message);
        }
        // What matters of the rest comes back as a failure, which is logged where it is judged.
        tracing::debug!(target: "librdkafka", ?level, facility, "{}", self.topics.hide(message));
    }

    fn stats_raw(&self, _: &[u8]) {
        // Only a property turns them on.
    }

    fn error(&self, error: KafkaError, reason: &str) {
        match (error.rdkafka_error_code(), self.proof.tokens()) {
            (Some(code @ Code::Authentication), Some(tokens)) if self.starved.load(Ordering::Acquire) => {
                self.starves(code, tokens);
            }
            (Some(code), _) => self.health.error(code, reason),
            (None, _) => {}
        }
    }
}

impl ProducerContext for ProducerListener {
    type DeliveryOpaque = Box<ReportTo>;

    fn delivery(&self, result: &DeliveryResult<'_>, reply: Box<ReportTo>) {
        let report = match result {
            Ok(message) => DeliveryReport { error: None, persistence: persistence(message) },
            Err((error, message)) => {
                let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
                DeliveryReport { error: Some(code), persistence: persistence(message) }
            }
        };
        match *reply {
            // An error means that the caller dropped the delivery and does not wait for it.
            ReportTo::One(waiting) => {
                let _ = waiting.send(report);
            }
            ReportTo::Batch(reports, place) => {
                if report.error.is_none() {
                    self.health.answered();
                }
                reports.put(place, report);
            }
            ReportTo::Run(reports, place) => {
                if report.error.is_none() {
                    self.health.answered();
                }
                reports.put(place, report);
            }
        }
    }
}

/// A record that was not taken into the local queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotQueued(pub(super) Code);

/// A producer. Dropping it ends its thread, and with it what was never sent.
pub(super) struct Producer {
    /// `None` only while it is dropped.
    client: Option<Arc<BaseProducer<ProducerListener>>>,
    health: Arc<ProducerHealth>,
    orders: Arc<Orders>,
    topics: Arc<KnownTopics>,
    /// Partitions whose broker knows this producer, since these times.
    proven: Mutex<HashMap<ProducerLine, Instant>>,
}

/// A partition of a topic.
pub(super) type ProducerLine = (Arc<str>, u32);

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer").field("health", &self.health).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Orders {
    /// Set when the handle is dropped.
    stop: AtomicBool,
    /// Held while the records of a run are queued: what gives up the local queue gives up all of them, or none.
    queueing: RwLock<()>,
    /// Give up the local queue, wait for as long for what is in flight, then say so.
    close: Mutex<Option<(Duration, oneshot::Sender<()>)>>,
}

/// Reports that the thread of a producer has panicked; its sink can do nothing any more.
pub(super) type Defect = Arc<watch::Sender<bool>>;

impl Producer {
    /// Starts a producer; it connects by itself. Reads password and certificates, so it blocks for a moment; for the first token,
    /// until there is one.
    pub(super) fn start(
        spec: &KafkaSpec,
        timeout: Duration,
        purpose: ProducerPurpose,
        defect: Defect,
        tokens: Option<&Arc<LoginTokens>>,
    ) -> Result<Producer, Failure> {
        let proof = Proof::now(spec, tokens, timeout / 2)?;
        let config = settings::settings(spec, timeout, purpose, proof.password());
        let health = Arc::new(ProducerHealth::new());
        let topics = Arc::new(KnownTopics::default());
        let failure = |what: String| {
            let text = format!("start a Kafka producer: {what}");
            Failure::new(Class::TargetPermanent, "client_creation", text)
        };
        let client: BaseProducer<ProducerListener> = config
            .create_with_context(ProducerListener {
                health: health.clone(),
                topics: topics.clone(),
                proof: proof.clone(),
                starved: AtomicBool::new(false),
            })
            .map_err(|error| failure(settings::explain(&error)))?;
        let client = Arc::new(client);
        let orders =
            Arc::new(Orders { stop: AtomicBool::new(false), queueing: RwLock::default(), close: Mutex::default() });
        let login = Login { spec: spec.clone(), proof };
        let thread = Thread { client: client.clone(), health: health.clone(), orders: orders.clone(), defect, login };
        std::thread::Builder::new()
            .name("kafka-producer".to_owned())
            .spawn(move || thread.run())
            .map_err(|error| failure(format!("start its thread: {error}")))?;
        Ok(Producer { client: Some(client), health, orders, topics, proven: Mutex::default() })
    }

    fn client(&self) -> &Arc<BaseProducer<ProducerListener>> {
        self.client.as_ref().expect("a producer has its client until it is dropped")
    }

    fn native(&self) -> &Client<ProducerListener> {
        self.client().client()
    }

    pub(super) fn health(&self) -> &ProducerHealth {
        &self.health
    }

    /// Returns why nothing can be delivered until a person fixes something, or until there is a new producer.
    pub(super) fn trouble(&self) -> Option<ConnectionTrouble> {
        self.health.trouble().or_else(|| {
            let (code, text) = fatal(self.client())?;
            Some(ConnectionTrouble { code, text })
        })
    }

    /// Returns whether the next record is for another producer: this one delivers nothing more, or it knows too many
    /// topics.
    pub(super) fn is_over(&self) -> bool {
        self.health.is_finished() || self.topics.is_full()
    }

    /// Runs `queue` while the local queue is not given up; `None` if it is, or this producer is over.
    pub(super) fn while_queueing<T>(&self, queue: impl FnOnce() -> T) -> Option<T> {
        let _queueing = self.orders.queueing.read();
        (!self.is_over()).then(queue)
    }

    /// Returns whether the broker of a partition knows this producer, so that it refuses a record behind one that is
    /// missing.
    pub(super) fn is_proven(&self, line: &ProducerLine) -> bool {
        self.proven.lock().get(line).is_some_and(|since| since.elapsed() < PROVEN)
    }

    /// Notes partitions with a confirmed record of this producer.
    pub(super) fn prove(&self, lines: impl IntoIterator<Item = ProducerLine>) {
        let now = Instant::now();
        self.proven.lock().extend(lines.into_iter().map(|line| (line, now)));
    }

    /// Puts the element's record into the local queue, in the order of the calls: for this partition, or that of its key. Never
    /// blocks.
    pub(super) fn send(
        &self,
        (topic, partition): (&str, Option<u32>),
        key: Option<&[u8]>,
        message: &Outbound,
        reply: ReportTo,
    ) -> Result<(), NotQueued> {
        if !self.topics.admits(topic) {
            return Err(NotQueued(Code::QueueFull));
        }
        // The pointer of an empty value is not null, so librdkafka writes an empty value and no tombstone.
        let record = BaseRecord {
            topic,
            partition: partition.and_then(|number| number.try_into().ok()),
            payload: record::value(message),
            key,
            timestamp: None,
            headers: Some(record::headers(message)),
            delivery_opaque: Box::new(reply),
        };
        match self.client().send(record) {
            Ok(()) => Ok(()),
            // A topic with a zero byte, which was looked for before.
            Err((error, _)) => Err(NotQueued(error.rdkafka_error_code().unwrap_or(Code::InvalidTopic))),
        }
    }

    /// Asks the brokers for a topic. Blocks.
    pub(super) fn metadata(&self, topic: &str, timeout: Duration) -> Result<Metadata, Code> {
        let asked = self.native().fetch_metadata(Some(topic), timeout);
        asked.map_err(|error| error.rdkafka_error_code().unwrap_or(Code::Fail))
    }

    /// Waits until any broker is connected, unless the producer gives up before. Blocks.
    pub(super) fn connect(&self, timeout: Duration) -> bool {
        self.connect_while(timeout, || !self.health.is_finished())
    }

    /// Waits for a connection, unless no broker can be reached. Blocks.
    pub(super) fn connect_unless_refused(&self, timeout: Duration) -> bool {
        self.connect_while(timeout, || !self.health.is_finished() && !self.health.all_down())
    }

    fn connect_while(&self, timeout: Duration, hopeful: impl Fn() -> bool) -> bool {
        let deadline = Instant::now().after(timeout);
        while Instant::now() < deadline && hopeful() {
            if self.native().fetch_cluster_id(ROUND).is_some() {
                return true;
            }
        }
        false
    }

    /// Gives up the records in the local queue, and those in flight after `flush`. No caller waits for them: they were
    /// answered as timed out, or released, and a broker that is back just now must not get it.
    pub(super) async fn close(&self, flush: Duration) {
        let (done, closed) = oneshot::channel();
        *self.orders.close.lock() = Some((flush, done));
        // A thread that has panicked does not answer.
        let _ = tokio::time::timeout(flush + LAST_REPORTS + LAST_REPORTS, closed).await;
    }
}

/// Returns why librdkafka delivers nothing more; `None` also if a run has ended as it has to, which is nobody's
/// trouble.
fn fatal(client: &BaseProducer<ProducerListener>) -> Option<(Code, String)> {
    client.client().fatal_error().filter(|(code, _)| *code != Code::GaplessGuarantee)
}

impl Drop for Producer {
    fn drop(&mut self) {
        // First the client, so that the thread has the last of it when it sees the order.
        drop(self.client.take());
        self.orders.stop.store(true, Ordering::Release);
    }
}

/// Begins what blocks, on a thread of its own, which the end of the runtime does not wait for: a question to a broker that
/// is silent would hold up the end of the process. `None` if there is no thread, or it panicked.
pub(crate) fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = Option<T>> + Send {
    let (done, result) = oneshot::channel();
    let work = move || {
        // No caller waits any more.
        let _sent = done.send(work());
    };
    // Without a thread the sender is gone.
    let _ = std::thread::Builder::new().name("kafka-ask".to_owned()).spawn(work);
    async { result.await.ok() }
}

/// The login in use.
struct Login {
    spec: KafkaSpec,
    proof: Proof,
}

/// The thread of one producer.
struct Thread {
    client: Arc<BaseProducer<ProducerListener>>,
    health: Arc<ProducerHealth>,
    orders: Arc<Orders>,
    defect: Defect,
    login: Login,
}

impl Drop for Thread {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.defect.send_replace(true);
        }
    }
}

impl Thread {
    fn run(self) {
        let mut looked = Instant::now();
        while !self.orders.stop.load(Ordering::Acquire) {
            self.client.poll(ROUND);
            // The others may accept the old one for long.
            if self.health.is_login_refused() && looked.elapsed() >= LOOK && !self.health.is_finished() {
                looked = Instant::now();
                if self.login.proof.is_outdated(&self.login.spec) {
                    self.health.outdated();
                }
            }
            if self.has_what_the_client_lacks() {
                self.health.outdated();
            }
            if self.health.is_finished() {
                self.give_up();
            }
            let close = self.orders.close.lock().take();
            if let Some((flush, done)) = close {
                self.close(flush);
                let _sent = done.send(());
            }
        }
        // The client's drop purges, waits half a second for reports, and joins librdkafka's threads.
    }

    /// Returns whether there is a token again, for which the client would ask only in ten seconds: a new one asks at
    /// once.
    fn has_what_the_client_lacks(&self) -> bool {
        let starved = self.client.client().context().starved.load(Ordering::Acquire);
        starved && self.login.proof.tokens().is_some_and(|tokens| tokens.current().is_some())
    }

    /// Gives up the local queue, in every round for records queued since: nothing in it will be delivered.
    fn give_up(&self) {
        if let Some((code, text)) = fatal(&self.client) {
            self.health.fatal(code, text);
        }
        if self.client.in_flight_count() > 0 {
            let _alone = self.orders.queueing.write();
            // Not what is in flight: that has an answer on the way, or its connection's end.
            self.client.purge(PurgeConfig::default().queue().non_blocking());
        }
    }

    fn close(&self, flush: Duration) {
        let begun = Instant::now();
        loop {
            // In every round: records in flight on a lost connection return to the queue.
            self.client.purge(PurgeConfig::default().queue());
            if self.client.flush(ROUND).is_ok() {
                return;
            }
            if begun.elapsed() >= flush {
                break;
            }
        }
        self.client.purge(PurgeConfig::default().queue().inflight());
        // What is still unreported then answers by the sink's own time-out.
        let _ = self.client.flush(LAST_REPORTS);
    }
}
