//! Reads a topic back. Partitions are read one after the other, by a consumer that assigns them itself: it begins at what
//! its group has committed, and no other member of the group takes part.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Headers, Message};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

use super::proof::Proof;
use super::settings::security;
use crate::tokens::LoginTokens;
use crate::{KafkaSpec, errors};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};
use delaybridge_sink::{Backlog, BacklogMessage};

/// Messages that are handed out together.
const PAGE: usize = 100;
/// Bytes of their bodies, after which no further one is added.
const PAGE_BYTES: usize = 4 << 20;

/// One wait for a message.
const POLL: Duration = Duration::from_millis(200);

/// A topic.
pub struct KafkaBacklog {
    consumer: BaseConsumer<BacklogListener>,
    topic: String,
    timeout: Duration,
    parts: VecDeque<PartitionRest>,
    /// Whether the first of the partitions is assigned.
    assigned: bool,
    total: u64,
}

enum Polled {
    Message(i64, BacklogMessage),
    End,
    Nothing,
}

#[derive(Debug)]
struct PartitionRest {
    partition: i32,
    next: i64,
    end: i64,
}

impl KafkaBacklog {
    /// Asks where the topic ends, and where this group has come to.
    ///
    /// # Errors
    /// No broker answers, the topic is not there, or the user may not read it.
    pub fn open(spec: &KafkaSpec, topic: &str, group: &str, timeout: Duration) -> Result<KafkaBacklog, Failure> {
        let consumer = consumer(spec, group, &[], None, timeout)?;
        let failed = |what: &str, error: &KafkaError| failure(&format!("{what} of topic {topic}"), error);
        let metadata =
            consumer.fetch_metadata(Some(topic), timeout).map_err(|error| failed("ask for the partitions", &error))?;
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        let partitions: Vec<i32> = match found.map(|found| (found.error(), found.partitions())) {
            Some((None, partitions)) if !partitions.is_empty() => partitions.iter().map(|one| one.id()).collect(),
            _ => {
                let what = format!("ask for the partitions of topic {topic}");
                return Err(errors::failure(&what, RDKafkaErrorCode::UnknownTopicOrPartition));
            }
        };
        let mut asked = TopicPartitionList::new();
        for partition in &partitions {
            asked.add_partition(topic, *partition);
        }
        let committed =
            consumer.committed_offsets(asked, timeout).map_err(|error| failed("ask for the offsets", &error))?;
        let mut parts = VecDeque::new();
        for partition in partitions {
            let (low, end) = consumer
                .fetch_watermarks(topic, partition, timeout)
                .map_err(|error| failed("ask for the end", &error))?;
            let next = match committed.find_partition(topic, partition).map(|found| found.offset()) {
                Some(Offset::Offset(offset)) => offset.max(low),
                _ => low,
            };
            if next < end {
                parts.push_back(PartitionRest { partition, next, end });
            }
        }
        let total = parts.iter().map(|part| part.end.abs_diff(part.next)).sum();
        Ok(KafkaBacklog { consumer, topic: topic.to_owned(), timeout, parts, assigned: false, total })
    }

    fn assign(&mut self) -> Result<(), Failure> {
        let Some(part) = self.parts.front() else { return Ok(()) };
        let mut list = TopicPartitionList::new();
        let assigned = list
            .add_partition_offset(&self.topic, part.partition, Offset::Offset(part.next))
            .and_then(|()| self.consumer.assign(&list));
        assigned.map_err(|error| failure(&format!("read topic {}", self.topic), &error))?;
        self.assigned = true;
        Ok(())
    }

    /// Polls the partition for a moment. Messages of the one before are skipped.
    fn poll(&self, partition: i32) -> Result<Polled, Failure> {
        match self.consumer.poll(POLL) {
            Some(Ok(message)) if message.partition() == partition => {
                let offset = message.offset();
                Ok(Polled::Message(offset, returned(&self.topic, partition, offset, &message)))
            }
            Some(Err(KafkaError::PartitionEOF(ended))) if ended == partition => Ok(Polled::End),
            Some(Ok(_) | Err(KafkaError::PartitionEOF(_))) => Ok(Polled::Nothing),
            Some(Err(error)) => Err(failure(&format!("read topic {}", self.topic), &error)),
            None => Ok(Polled::Nothing),
        }
    }

    fn leave(&mut self) {
        self.parts.pop_front();
        self.assigned = false;
    }
}

impl Backlog for KafkaBacklog {
    fn total(&self) -> u64 {
        self.total
    }

    fn next(&mut self) -> Result<Vec<BacklogMessage>, Failure> {
        let mut page: Vec<BacklogMessage> = Vec::new();
        let mut bytes = 0;
        let mut deadline = Instant::now().after(self.timeout);
        while let Some(part) = self.parts.front() {
            let partition = part.partition;
            let end = part.end;
            if part.next >= end {
                self.leave();
                if page.is_empty() {
                    continue;
                }
                break;
            }
            if page.len() >= PAGE || bytes >= PAGE_BYTES {
                break;
            }
            if !self.assigned {
                self.assign()?;
            }
            match self.poll(partition)? {
                Polled::Message(offset, returned) => {
                    deadline = Instant::now().after(self.timeout);
                    // What came after the start is not asked for.
                    if offset < end {
                        bytes += returned.body.len();
                        page.push(returned);
                    }
                    if let Some(part) = self.parts.front_mut() {
                        part.next = offset + 1;
                    }
                }
                // Behind the last message are marks of transactions, or what was compacted.
                Polled::End => {
                    self.leave();
                    if !page.is_empty() {
                        break;
                    }
                }
                Polled::Nothing if Instant::now() >= deadline => {
                    let text = format!(
                        "read topic {}, partition {partition}: no answer within {:?}",
                        self.topic, self.timeout
                    );
                    return Err(Failure::new(Class::Transient, Failure::NOT_CONNECTED, text));
                }
                Polled::Nothing => {}
            }
        }
        Ok(page)
    }

    fn taken(&mut self, message: &BacklogMessage) -> Result<(), Failure> {
        let partition = i32::try_from(message.part).unwrap_or(0);
        let next = i64::try_from(message.number).unwrap_or(i64::MAX);
        let mut list = TopicPartitionList::new();
        let committed = list
            .add_partition_offset(&self.topic, partition, Offset::Offset(next))
            .and_then(|()| self.consumer.commit(&list, CommitMode::Sync));
        committed.map_err(|error| failure(&format!("commit an offset of topic {}", self.topic), &error))
    }
}

fn returned(topic: &str, partition: i32, offset: i64, message: &impl Message) -> BacklogMessage {
    let headers = message.headers().map(|headers| {
        let pair = |header: Header<'_, &[u8]>| {
            (header.key.to_owned(), Bytes::copy_from_slice(header.value.unwrap_or_default()))
        };
        headers.iter().map(pair).collect()
    });
    BacklogMessage {
        place: format!("{topic}[{partition}]@{offset}"),
        part: u64::from(partition.unsigned_abs()),
        number: offset.unsigned_abs() + 1,
        body: Bytes::copy_from_slice(message.payload().unwrap_or_default()),
        headers: headers.unwrap_or_default(),
    }
}

/// Answers the client when it needs a token.
pub(super) struct BacklogListener(Proof);

impl ClientContext for BacklogListener {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _config: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        self.0.oauth_token()
    }
}

impl ConsumerContext for BacklogListener {}

/// Creates a consumer that assigns partitions itself, with these additional settings.
pub(super) fn consumer(
    spec: &KafkaSpec,
    group: &str,
    more: &[(&str, &str)],
    tokens: Option<&Arc<LoginTokens>>,
    timeout: Duration,
) -> Result<BaseConsumer<BacklogListener>, Failure> {
    let mut config = ClientConfig::new();
    config.set_log_level(RDKafkaLogLevel::Emerg);
    config
        .set("bootstrap.servers", spec.brokers.join(","))
        .set("client.id", &spec.client_id)
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("enable.partition.eof", "true")
        .set("auto.offset.reset", "error")
        .set("allow.auto.create.topics", "false");
    for (name, value) in more {
        config.set(*name, *value);
    }
    let proof = Proof::now(spec, tokens, timeout)?;
    security(&mut config, spec, proof.password());
    let consumer: BaseConsumer<_> = config
        .create_with_context(BacklogListener(proof.clone()))
        .map_err(|error| failure("start a consumer of Kafka", &error))?;
    if proof.tokens().is_some() {
        // The client asks for its token here, and connects to nothing before.
        let _ = consumer.poll(POLL);
    }
    Ok(consumer)
}

pub(super) fn failure(what: &str, error: &KafkaError) -> Failure {
    match error.rdkafka_error_code() {
        Some(code) => errors::failure(what, code),
        None => Failure::new(Class::TargetPermanent, "settings", format!("{what}: {error}")),
    }
}
