//! Checks whether delivery could work now (`check --live`): connects, logs in, asks for the topics. Nothing is sent or
//! created.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::types::RDKafkaErrorCode as Code;

use super::producer::{self, Defect, Producer};
use super::record;
use super::settings::ProducerPurpose;
use super::topics::{self, TopicAnswer};
use crate::errors;
use crate::tokens::LoginTokens;
use crate::{KafkaDestination, KafkaSpec, NAME};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};
use delaybridge_sink::{Destination, together};

/// Time allowed, after the topics' answer, for a refusal of what an idempotent producer needs: it asks for it at the
/// same time and reports only a refusal.
const REFUSAL: Duration = Duration::from_millis(300);

/// Checks that any broker lets us in, with a client of its own: the producer that delivers can only ask for topics, and
/// such a question may create one. Where every broker refuses, that is the answer; `timeout` is for those that are
/// silent.
pub(super) async fn probe(
    spec: Arc<KafkaSpec>,
    timeout: Duration,
    tokens: Option<Arc<LoginTokens>>,
) -> Result<(), Failure> {
    let brokers = spec.brokers.join(",");
    let start = move || Producer::start(&spec, timeout, ProducerPurpose::Check, Defect::default(), tokens.as_ref());
    let producer = blocking(start).await??;
    let producer = Arc::new(producer);
    let asked = producer.clone();
    if blocking(move || asked.connect_unless_refused(timeout)).await? {
        Ok(())
    } else {
        Err(unreachable(&producer, &brokers))
    }
}

/// Uses a producer of its own: it reads password and certificates again, and its errors do not affect the sink.
pub(super) async fn check(
    spec: Arc<KafkaSpec>,
    timeout: Duration,
    tokens: Option<Arc<LoginTokens>>,
    destinations: &[Destination],
) -> Result<(), Failure> {
    let deadline = Instant::now().after(timeout);
    let brokers = spec.brokers.join(",");
    let start = move || Producer::start(&spec, timeout, ProducerPurpose::Check, Defect::default(), tokens.as_ref());
    let producer = blocking(start).await??;
    let producer = Arc::new(producer);
    // Both are cancel safe; a question left behind ends by its own time-out.
    tokio::select! {
        biased;
        () = producer.health().finished() => {}
        answer = ask_all(&producer, &brokers, destinations, deadline) => {
            answer?;
            if tokio::time::timeout(REFUSAL, producer.health().finished()).await.is_err() {
                return Ok(());
            }
        }
    }
    Err(unreachable(&producer, &brokers))
}

async fn ask_all(
    producer: &Arc<Producer>,
    brokers: &str,
    destinations: &[Destination],
    deadline: Instant,
) -> Result<(), Failure> {
    let left = deadline.since(Instant::now());
    let asked = producer.clone();
    if !blocking(move || asked.connect(left)).await? {
        return Err(unreachable(producer, brokers));
    }
    // A person fixes all of them at once.
    let mut refused: Vec<(Code, Vec<&str>)> = Vec::new();
    for destination in destinations {
        let KafkaDestination { topic, .. } = destination.of_kind(NAME)?;
        let mut refuse = |code: Code| match refused.iter_mut().find(|(other, _)| *other == code) {
            Some((_, topics)) => topics.push(topic),
            None => refused.push((code, vec![topic])),
        };
        if !record::is_topic(topic) {
            refuse(Code::InvalidTopic);
            continue;
        }
        let asked = producer.clone();
        let name = topic.clone();
        let left = deadline.since(Instant::now());
        match blocking(move || topics::ask(&asked, &name, left)).await? {
            TopicAnswer::Fine(_) => {}
            TopicAnswer::Refused(code) => refuse(code),
            TopicAnswer::Silent(_) => return Err(unreachable(producer, brokers)),
        }
    }
    let failures = refused.into_iter().map(|(code, topics)| {
        let topic = if topics.len() == 1 { "topic" } else { "topics" };
        errors::failure(&format!("look up {topic} {}", topics.join(", ")), code)
    });
    together(failures.collect())
}

/// Builds the failure for brokers of which none answers, with the client's reason.
fn unreachable(producer: &Producer, brokers: &str) -> Failure {
    let what = format!("connect to Kafka {brokers}");
    if let Some(trouble) = producer.trouble() {
        return trouble.failure(&what);
    }
    let last = producer.health().last().unwrap_or_else(|| "no broker answered in time".to_owned());
    let text = format!("{what}: {last}; check `brokers`, and that they are up and may be reached from here");
    Failure::new(Class::Transient, Failure::NOT_CONNECTED, text)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    let done = producer::blocking(work).await;
    done.ok_or_else(|| Failure::new(Class::Unknown, "check", "check Kafka: no thread to ask from"))
}
