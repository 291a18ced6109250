//! Asks the brokers for topics that are in doubt.
//!
//! A record for a topic that is gone, or that we may not write to, comes back late and often without a reason. So after
//! one such failure the topic is asked for before the next record, and no record is made while the answer is no.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::{Mutex, MutexGuard};
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::Semaphore;

use super::partitions::{PartitionCounts, Partitions};
use super::producer::{Producer, blocking};

/// Topics that are remembered as doubtful. More of them come out of payloads, and what is wrong there is each element's
/// own fault.
const DOUBTS: usize = 1000;
/// The time-out of a question that nobody waits for.
const QUESTION: Duration = Duration::from_secs(5);
/// Questions that may wait for their turn while such a one is added.
const QUEUED_QUESTIONS: usize = 16;
/// Concurrent requests; each holds a thread.
const QUESTIONS: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TopicAnswer {
    /// Records can be sent, as far as a broker knows.
    Fine(TopicHealth),
    /// The brokers refuse, for this reason.
    Refused(Code),
    /// No broker answered in time.
    Silent(Code),
}

/// The state of a topic that records can be sent to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TopicHealth {
    /// A remark on its partitions.
    pub(super) note: Option<String>,
    partitions: u32,
    /// Whether some of them are in trouble, and others are not.
    partly: bool,
}

type Question = Shared<BoxFuture<'static, TopicAnswer>>;

#[derive(Debug)]
pub(super) struct SinkTopics {
    doubtful: Mutex<HashSet<Arc<str>>>,
    /// The open questions: records of a topic share one.
    questions: Arc<Questions>,
    partitions: Arc<Partitions>,
    counts: Arc<PartitionCounts>,
    permits: Arc<Semaphore>,
}

/// Outstanding requests only: each removes itself with its answer, which is current and not for later.
#[derive(Debug, Default)]
struct Questions(Mutex<HashMap<Arc<str>, Question>>);

impl Questions {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Question>> {
        self.0.lock()
    }
}

impl SinkTopics {
    pub(super) fn new() -> SinkTopics {
        SinkTopics {
            doubtful: Mutex::default(),
            questions: Arc::default(),
            partitions: Arc::default(),
            counts: Arc::default(),
            permits: Arc::new(Semaphore::new(QUESTIONS)),
        }
    }

    fn doubtful(&self) -> MutexGuard<'_, HashSet<Arc<str>>> {
        self.doubtful.lock()
    }

    /// Remembers that the topic is to be asked for before the next record.
    pub(super) fn doubt(&self, topic: &Arc<str>) {
        let mut doubtful = self.doubtful();
        if doubtful.len() < DOUBTS {
            doubtful.insert(topic.clone());
        }
        self.counts.doubt(topic);
    }

    pub(super) fn trust(&self, topic: &str) {
        self.doubtful().remove(topic);
    }

    /// Returns the partition of a record with this key, where partitions of the topic differ.
    pub(super) fn partition(&self, topic: &str, key: &[u8]) -> Option<u32> {
        self.partitions.of(topic, key)
    }

    /// Returns the partition of a record with this key. `None` if their number is not known, or is asked for now: by
    /// `producer`.
    pub(super) fn line(
        &self,
        topic: &Arc<str>,
        key: Option<&[u8]>,
        producer: impl FnOnce() -> Option<Arc<Producer>>,
    ) -> Option<u32> {
        let known = self.counts.of(topic, key);
        if self.counts.is_old(topic)
            && self.questions.lock().len() < QUEUED_QUESTIONS
            && let Some(producer) = producer()
        {
            // The first look at it starts a task.
            let _pending = self.ask(&producer, topic, QUESTION).now_or_never();
        }
        known
    }

    /// Returns whether the topic is to be asked for first.
    pub(super) fn is_doubtful(&self, topic: &str) -> bool {
        let doubtful = self.doubtful();
        !doubtful.is_empty() && doubtful.contains(topic)
    }

    /// Asks for the topic, together with all current callers. An answer also corrects what the client itself
    /// remembers of the topic.
    pub(super) async fn ask(&self, producer: &Arc<Producer>, topic: &Arc<str>, timeout: Duration) -> TopicAnswer {
        let question = {
            let mut questions = self.questions.lock();
            let question = || self.question(producer.clone(), topic.clone(), timeout);
            questions.entry(topic.clone()).or_insert_with(question).clone()
        };
        question.await
    }

    fn question(&self, producer: Arc<Producer>, topic: Arc<str>, timeout: Duration) -> Question {
        let questions = self.questions.clone();
        let permits = self.permits.clone();
        let partitions = self.partitions.clone();
        let counts = self.counts.clone();
        let asked = async move {
            // It is never closed.
            let _permit = permits.acquire_owned().await;
            let name = topic.clone();
            let answer = blocking(move || ask(&producer, &name, timeout)).await;
            questions.lock().remove(&topic);
            if let Some(TopicAnswer::Fine(found)) = &answer {
                partitions.note(&topic, found.partly.then_some(found.partitions));
                counts.note(&topic, found.partitions);
            }
            answer.unwrap_or(TopicAnswer::Silent(Code::Fail))
        };
        // A task of its own: a caller that gives up neither strands the others nor leaves an answer to age.
        let task = tokio::spawn(asked);
        async move { task.await.unwrap_or(TopicAnswer::Silent(Code::Fail)) }.boxed().shared()
    }
}

/// Asks for the topic. Blocks.
pub(super) fn ask(producer: &Producer, topic: &str, timeout: Duration) -> TopicAnswer {
    let metadata = match producer.metadata(topic, timeout) {
        Err(code) => return TopicAnswer::Silent(code),
        Ok(metadata) => metadata,
    };
    producer.health().answered();
    let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
        return TopicAnswer::Refused(Code::UnknownTopicOrPartition);
    };
    if let Some(error) = found.error() {
        return TopicAnswer::Refused(error.into());
    }
    let partitions = found.partitions();
    let leaderless = partitions.iter().filter(|partition| partition.leader() < 0).count();
    let behind = partitions.iter().filter(|partition| partition.isr().len() < partition.replicas().len()).count();
    let note = match (partitions.len(), leaderless, behind) {
        (_, 0, 0) => None,
        (all, 0, behind) => Some(format!("{behind} of {all} partitions have too few replicas in sync")),
        (all, leaderless, _) => Some(format!("{leaderless} of {all} partitions have no leader")),
    };
    let troubled = if leaderless > 0 { leaderless } else { behind };
    let partly = troubled > 0 && troubled < partitions.len();
    TopicAnswer::Fine(TopicHealth { note, partitions: u32::try_from(partitions.len()).unwrap_or(0), partly })
}

#[cfg(test)]
mod tests {
    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::DefaultProducerContext;
    use rdkafka::types::RDKafkaRespErr as Error;

    use super::super::producer::Defect;
    use super::super::settings::ProducerPurpose;
    use super::super::tests::spec;
    use super::*;
    use delaybridge_core::clock::Instant;

    const PATIENT: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_late_answer_is_given_to_no_later_caller() {
        let cluster = MockCluster::<DefaultProducerContext>::new(1).unwrap();
        cluster.create_topic("t", 1, 1).unwrap();
        let spec = spec(&cluster.bootstrap_servers());
        let producer =
            Arc::new(Producer::start(&spec, PATIENT, ProducerPurpose::Batches, Defect::default(), None).unwrap());
        let topics = SinkTopics::new();
        let name = Arc::from("t");
        assert_eq!(topics.ask(&producer, &name, PATIENT).now_or_never(), None);
        assert_eq!(topics.questions.lock().len(), 1);
        let begun = Instant::now();
        while !topics.questions.lock().is_empty() {
            assert!(begun.elapsed() < PATIENT, "the question has no end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        cluster.topic_error("t", Error::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED).unwrap();
        let refused = TopicAnswer::Refused(Code::TopicAuthorizationFailed);
        assert_eq!(topics.ask(&producer, &name, PATIENT).await, refused);
    }
}
