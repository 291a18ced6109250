//! The client of an input, and what it says.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::statistics::Statistics;
use rdkafka::types::{RDKafkaErrorCode as Code, RDKafkaRespErr};
use rdkafka::{Offset, TopicPartitionList};
use tokio_util::sync::CancellationToken;

use super::errors::failure;
use super::offsets::UnconfirmedOffsets;
use super::partitions::{MetTopics, PartitionStates, Step};
use super::reading::Reading;
use super::record::{Partition, RecordPlace, TopicId};
use super::{KafkaInputSpec, starts};
use crate::client::proof::Proof;
use crate::client::settings::security;
use crate::errors;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::Failure;
use delaybridge_input::{InputEvents, InputReset};

/// The interval between looks at the partitions and ids of the topics. The client's own, of five minutes, is as long as records of
/// a new partition would wait.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// The time-out of the questions that are asked once.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
/// The time without a word after which the group takes a member for dead, and gives its partitions to others. A process that was
/// killed and started again at once waits for the end of the former one. Unit tests restart the broker, which beside other load takes
/// longer than that: the group would have nobody left to commit for.
const SESSION: Duration = Duration::from_secs(if cfg!(test) { 45 } else { 10 });
/// The same of a static member, which is waited for: Kafka's own default. A process is replaced within that time.
const STATIC_SESSION: Duration = Duration::from_secs(45);

/// The receiver of the client's events.
pub(super) struct InputListener {
    pub(super) proof: Proof,
    pub(super) spec: Arc<KafkaInputSpec>,
    pub(super) states: PartitionStates,
    pub(super) met: Arc<MetTopics>,
    /// The id of the cluster; `None` from brokers before Kafka 0.10.1.
    pub(super) cluster_id: OnceLock<Option<String>>,
    pub(super) unconfirmed: UnconfirmedOffsets,
    /// Partitions that went on before their expected offset, until a look tells whether their topic is another one.
    pub(super) went_back: Mutex<Vec<(Partition, i64)>>,
    /// The reason why the partitions that came last are not read.
    pub(super) failed: Mutex<Option<Failure>>,
    /// The cluster refuses the login.
    pub(super) refused: AtomicBool,
    /// The number of times that the client has said something that may mean that nothing is read, since this was asked.
    pub(super) doubts: AtomicU32,
    /// The last answer about what is read, until it is shown.
    pub(super) found: Mutex<Option<Reading>>,
    /// Nothing is read, whatever the group says.
    pub(super) silent: AtomicBool,
    /// The refused records that found no place in the dead-letter topic, by their partitions: the offset, and the tries.
    tried: Mutex<HashMap<Partition, (i64, u32)>>,
    stop: CancellationToken,
    /// Whether partitions have come since this was looked at. The client keeps a pause beyond the assignment, and knows none of a
    /// partition that is new.
    pub(super) assigned: AtomicBool,
    pub(super) events: InputEvents,
    pub(super) address: String,
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
        let is_silent = self.silent.load(Ordering::Relaxed) || self.doubts.load(Ordering::Relaxed) > 0;
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
    pub(super) fn tries(&self, place: &RecordPlace) -> u32 {
        let mut tried = self.tried.lock();
        let tries = tried.entry((place.topic.clone(), place.partition)).or_insert((place.offset, 0));
        let before = if tries.0 == place.offset { tries.1 } else { 0 };
        *tries = (place.offset, before.saturating_add(1));
        before
    }

    /// Notes a record, and says what was skipped before it. Returns the id of its topic, as far as it is known.
    pub(super) fn arrived(
        &self,
        consumer: &BaseConsumer<Self>,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> Option<TopicId> {
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

/// Returns the number of records that a broker has removed between the expected offset and that of a record, given the
/// first one that it has. A record before that was fetched before others were removed: what is missing in front of it
/// never was a record.
fn missed(expected: i64, first: i64, offset: i64) -> Option<u64> {
    (first > expected && first <= offset).then(|| (first - expected).unsigned_abs())
}

impl ConsumerContext for InputListener {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, what: RDKafkaRespErr, list: &mut TopicPartitionList) {
        if what == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            if let Err(failure) = self.assign(consumer, list) {
                *self.failed.lock() = Some(failure);
                // The group waits for an answer; nothing is read before another client has asked again.
                let _ = consumer.assign(&TopicPartitionList::new());
            }
            return;
        }
        for of in list.elements() {
            let partition = (of.topic().to_owned(), of.partition());
            self.unconfirmed.revoked(&partition);
            self.states.taken_away(&partition);
        }
        let _ = consumer.unassign();
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

pub(super) fn client(
    spec: &Arc<KafkaInputSpec>,
    address: &str,
    met: &Arc<MetTopics>,
    events: &InputEvents,
    stop: &CancellationToken,
) -> Result<BaseConsumer<InputListener>, Failure> {
    let mut config = ClientConfig::new();
    config.set_log_level(RDKafkaLogLevel::Info);
    let session = if spec.group_instance_id.is_some() { STATIC_SESSION } else { SESSION };
    if let Some(id) = &spec.group_instance_id {
        config.set("group.instance.id", id);
    }
    let kbytes = (spec.prefetch_bytes / 1024).clamp(1, 2_097_151);
    config
        .set("bootstrap.servers", spec.cluster.brokers.join(","))
        .set("client.id", &spec.cluster.client_id)
        .set("group.id", &spec.group)
        .set("session.timeout.ms", session.as_millis().to_string())
        .set("heartbeat.interval.ms", (session / 4).min(SESSION / 4).as_millis().to_string())
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
        doubts: AtomicU32::default(),
        found: Mutex::default(),
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
}
