//! Checks whether the input could work now (`check --live`): topics, rights, the topic for refused records. Takes, commits and
//! writes nothing.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka::{Offset, TopicPartitionList};

use super::KafkaInputSpec;
use super::errors::{failure, of_code};
use super::may_write::may_write;
use crate::client::proof::Proof;
use crate::client::settings::security;
use crate::{KafkaDestination, KafkaSink, errors};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};
use delaybridge_input::InputCheck;
use delaybridge_sink::{Sink, together};

/// The time-out of one question. The first group of a cluster takes seconds.
const TIMEOUT: Duration = Duration::from_secs(10);
/// One wait for what the client says.
const POLL: Duration = Duration::from_millis(100);
/// The time in which a cluster refuses the group, once it is connected.
const REFUSAL: Duration = Duration::from_secs(1);
/// A partition that no topic has.
const NOWHERE: i32 = i32::MAX;
/// The client's name for log lines about connections that it could not make.
const FAILED: &str = "FAIL";
/// Troubles that do not pass by themselves.
const FOR_A_PERSON: [Code; 4] =
    [Code::GroupAuthorizationFailed, Code::SaslAuthenticationFailed, Code::Authentication, Code::SSL];

/// The receiver of the client's events.
struct CheckListener {
    proof: Proof,
    /// The trouble that a person has to end.
    refusal: Mutex<Option<KafkaError>>,
    /// The last message about a connection.
    words: Mutex<Option<String>>,
}

impl CheckListener {
    fn note(&self, error: KafkaError) {
        self.words.lock().get_or_insert_with(|| error.to_string());
        if is_for_a_person(&error) {
            *self.refusal.lock() = Some(error);
        }
    }
}

fn is_for_a_person(error: &KafkaError) -> bool {
    error.rdkafka_error_code().is_some_and(|code| FOR_A_PERSON.contains(&code))
}

impl ClientContext for CheckListener {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _config: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        self.proof.oauth_token()
    }

    fn error(&self, error: KafkaError, reason: &str) {
        match error.rdkafka_error_code() {
            Some(code) => self.note(KafkaError::Global(errors::cause(code, reason))),
            None => self.note(error),
        }
    }

    fn log(&self, _level: RDKafkaLogLevel, facility: &str, message: &str) {
        if facility == FAILED {
            *self.words.lock() = Some(message.to_owned());
        }
    }
}

impl ConsumerContext for CheckListener {}

type Asker = BaseConsumer<CheckListener>;

/// Asks for everything, and reports everything that is missing.
pub(super) async fn check(spec: Arc<KafkaInputSpec>) -> Result<InputCheck, Failure> {
    let lost = || Failure::new(Class::Transient, "client_creation", "start a consumer of Kafka: no thread to do it");
    let asked = spec.clone();
    let topics = crate::client::blocking(move || ask(&asked)).await.unwrap_or_else(|| Err(lost()))?;
    let mut check = InputCheck::default();
    let mut failures = Vec::new();
    for (topic, partitions) in topics {
        match partitions {
            Ok(1) => check.found.push(format!("topic {topic} with 1 partition")),
            Ok(partitions) => check.found.push(format!("topic {topic} with {partitions} partitions")),
            Err(failure) => failures.push(failure),
        }
    }
    check.found.push(format!("the rights to consume as group {}", spec.group));
    match &spec.dead_letter_topic {
        None => {
            check.drawbacks.push("refused records hold their partition: write `dead_letter_topic: NAME`".to_owned())
        }
        Some(topic) => {
            let letters = KafkaSink::new(spec.cluster.clone(), TIMEOUT);
            let place = KafkaDestination { topic: topic.as_str().into(), key: None }.into();
            let found = letters.check(&[place]).await;
            letters.close().await;
            let cluster = spec.cluster.clone();
            let name = topic.clone();
            let writable = async {
                let asked = crate::client::blocking(move || may_write(&cluster, &name, TIMEOUT)).await;
                asked.unwrap_or_else(|| Err(lost()))
            };
            let found = match found {
                Ok(_) => writable.await,
                Err(failure) => Err(failure),
            };
            match found {
                Ok(()) => check.found.push(format!("topic {topic} for refused records, and the right to write to it")),
                Err(failure) => failures.push(failure),
            }
        }
    }
    together(failures).map(|()| check)
}

/// Each topic with the number of its partitions, or why it cannot be consumed.
type TopicAnswers = Vec<(String, Result<usize, Failure>)>;

fn ask(spec: &KafkaInputSpec) -> Result<TopicAnswers, Failure> {
    let mut config = ClientConfig::new();
    config.set_log_level(RDKafkaLogLevel::Info);
    config
        .set("bootstrap.servers", spec.cluster.brokers.join(","))
        .set("client.id", &spec.cluster.client_id)
        .set("group.id", &spec.group)
        .set("enable.auto.commit", "false")
        .set("allow.auto.create.topics", "false");
    let proof = Proof::now(&spec.cluster, None, TIMEOUT)?;
    security(&mut config, &spec.cluster, proof.password());
    let listener = CheckListener { proof, refusal: Mutex::default(), words: Mutex::default() };
    let consumer: Asker =
        config.create_with_context(listener).map_err(|error| failure("start a consumer of Kafka", &error))?;
    let what = format!("consume topics {} as group {}", spec.topics.join(", "), spec.group);
    connect(spec, &consumer, &what)?;
    Ok(spec.topics.iter().map(|topic| (topic.clone(), partitions(&consumer, topic, &spec.group))).collect())
}

/// Connects, and waits for a refusal of the login or of the group.
fn connect(spec: &KafkaInputSpec, consumer: &Asker, what: &str) -> Result<(), Failure> {
    let deadline = Instant::now().after(TIMEOUT);
    let topic = spec.topics.first().map(String::as_str);
    while consumer.fetch_metadata(topic, POLL * 10).is_err() {
        listen(consumer, POLL, what)?;
        if deadline.since(Instant::now()).is_zero() {
            let last = consumer.context().words.lock().take();
            let last = last.unwrap_or_else(|| format!("no answer within {TIMEOUT:?}"));
            let text = format!("{what}: {last}; check `brokers`, and that they are up and may be reached from here");
            return Err(Failure::new(Class::Transient, Failure::NOT_CONNECTED, text));
        }
    }
    listen(consumer, REFUSAL, what)
}

/// Listens to the client, for a trouble that does not pass.
fn listen(consumer: &Asker, time: Duration, what: &str) -> Result<(), Failure> {
    let deadline = Instant::now().after(time);
    loop {
        if let Some(Err(error)) = consumer.poll(POLL) {
            consumer.context().note(error);
        }
        match consumer.context().refusal.lock().take() {
            Some(error) => return Err(failure(what, &error)),
            None if deadline.since(Instant::now()).is_zero() => return Ok(()),
            None => {}
        }
    }
}

/// Asks for the number of partitions of a topic that may be consumed.
fn partitions(consumer: &Asker, topic: &str, group: &str) -> Result<usize, Failure> {
    let what = format!("consume topic {topic} as group {group}");
    let found = consumer.fetch_metadata(Some(topic), TIMEOUT).map_err(|error| failure(&what, &error))?;
    if let Some(code) = found.topics().iter().find_map(|topic| topic.error()) {
        return Err(of_code(&what, code.into()));
    }
    may_consume(consumer, topic).map_err(|error| failure(&what, &error))?;
    Ok(found.topics().iter().map(|topic| topic.partitions().len()).sum())
}

/// Asks whether the group may commit offsets of the topic, which takes the same rights as consuming it: those of a partition that
/// does not exist. A cluster looks at the rights first, and commits nothing.
pub(super) fn may_consume<C: ConsumerContext>(consumer: &BaseConsumer<C>, topic: &str) -> Result<(), KafkaError> {
    let mut nowhere = TopicPartitionList::new();
    nowhere.add_partition_offset(topic, NOWHERE, Offset::Offset(0))?;
    match consumer.commit(&nowhere, CommitMode::Sync) {
        Ok(()) => Ok(()),
        Err(error) => match error.rdkafka_error_code() {
            Some(Code::UnknownTopicOrPartition | Code::UnknownPartition) => Ok(()),
            _ => Err(error),
        },
    }
}
