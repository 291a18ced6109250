//! What brokers know of a topic, asked where it is in doubt.
//!
//! A record for a topic that is gone, or that we may not write to, comes back late and often without a reason. So after
//! one such failure the topic is asked for before the next record, and no record is made while the answer is no.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::Semaphore;

use super::producer::{Producer, blocking};

/// Topics that are remembered as doubtful. More of them come out of payloads, and what is wrong there is each element's
/// own fault.
const DOUBTS: usize = 1000;
/// Questions under way at once; each holds a thread.
const QUESTIONS: usize = 4;

/// What came of asking for a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    /// Records can be sent, as far as a broker knows; with what is noteworthy all the same.
    Fine(Option<String>),
    /// The brokers say why not.
    Refused(Code),
    /// No broker answered in time.
    Silent(Code),
}

type Question = Shared<BoxFuture<'static, Topic>>;

/// The topics of a sink.
#[derive(Debug)]
pub(super) struct Topics {
    doubtful: Mutex<HashSet<Arc<str>>>,
    /// Questions under way: many records ask once.
    questions: Mutex<HashMap<Arc<str>, Question>>,
    permits: Arc<Semaphore>,
}

impl Topics {
    pub(super) fn new() -> Topics {
        Topics { doubtful: Mutex::default(), questions: Mutex::default(), permits: Arc::new(Semaphore::new(QUESTIONS)) }
    }

    fn doubtful(&self) -> MutexGuard<'_, HashSet<Arc<str>>> {
        self.doubtful.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn questions(&self) -> MutexGuard<'_, HashMap<Arc<str>, Question>> {
        self.questions.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Remembers that the topic is to be asked for before the next record.
    pub(super) fn doubt(&self, topic: &Arc<str>) {
        let mut doubtful = self.doubtful();
        if doubtful.len() < DOUBTS {
            doubtful.insert(topic.clone());
        }
    }

    /// Forgets the doubt.
    pub(super) fn trust(&self, topic: &str) {
        self.doubtful().remove(topic);
    }

    /// Whether the topic is to be asked for first.
    pub(super) fn is_doubtful(&self, topic: &str) -> bool {
        let doubtful = self.doubtful();
        !doubtful.is_empty() && doubtful.contains(topic)
    }

    /// Asks for the topic, together with whoever asks for it now. An answer also mends what the client itself
    /// remembers of the topic.
    pub(super) async fn ask(&self, producer: &Arc<Producer>, topic: &Arc<str>, timeout: Duration) -> Topic {
        let question = {
            let mut questions = self.questions();
            let question = || question(producer.clone(), topic.clone(), timeout, self.permits.clone());
            questions.entry(topic.clone()).or_insert_with(question).clone()
        };
        let answer = question.clone().await;
        let mut questions = self.questions();
        if questions.get(topic).is_some_and(|current| current.ptr_eq(&question)) {
            questions.remove(topic);
        }
        answer
    }
}

fn question(producer: Arc<Producer>, topic: Arc<str>, timeout: Duration, permits: Arc<Semaphore>) -> Question {
    let asked = async move {
        // It is never closed.
        let _permit = permits.acquire_owned().await;
        blocking(move || ask(&producer, &topic, timeout)).await.unwrap_or(Topic::Silent(Code::Fail))
    };
    // A task of its own: whoever gives up the wait does not leave the others behind.
    let task = tokio::spawn(asked);
    async move { task.await.unwrap_or(Topic::Silent(Code::Fail)) }.boxed().shared()
}

/// Asks for the topic. Blocks.
pub(super) fn ask(producer: &Producer, topic: &str, timeout: Duration) -> Topic {
    let metadata = match producer.metadata(topic, timeout) {
        Err(code) => return Topic::Silent(code),
        Ok(metadata) => metadata,
    };
    producer.health().answered();
    let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
        return Topic::Refused(Code::UnknownTopicOrPartition);
    };
    if let Some(error) = found.error() {
        return Topic::Refused(error.into());
    }
    let partitions = found.partitions();
    let leaderless = partitions.iter().filter(|partition| partition.leader() < 0).count();
    let behind = partitions.iter().filter(|partition| partition.isr().len() < partition.replicas().len()).count();
    Topic::Fine(match (partitions.len(), leaderless, behind) {
        (_, 0, 0) => None,
        (all, 0, behind) => Some(format!("{behind} of {all} partitions have too few replicas in sync")),
        (all, leaderless, _) => Some(format!("{leaderless} of {all} partitions have no leader")),
    })
}
