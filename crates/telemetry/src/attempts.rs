//! What this process saw of an element's earlier attempts: for its dead letter, and for people who ask. Bounded; lost with the
//! process.

use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::sync::Arc;

use delaybridge_core::message::{Class, MessageId};
use parking_lot::Mutex;

/// Attempts kept of one element.
const ATTEMPTS: usize = 10;
/// Elements kept; the oldest are forgotten first.
const ELEMENTS: usize = 2_000;

/// One failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FailedAttempt {
    /// Redis ms.
    pub at_ms: i64,
    /// The sink, or the stage when no sink was reached.
    pub sink: String,
    /// Class of the failure.
    #[serde(serialize_with = "class_name")]
    pub class: Class,
    /// The code of the failure.
    pub code: &'static str,
}

fn class_name<S: serde::Serializer>(class: &Class, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(class.as_str())
}

/// The failed attempts of the elements of all queues that are at work. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Attempts(Arc<Mutex<HashMap<Arc<str>, Shared>>>);

/// The history of a queue, and the number of its holders: a queue that is changed has two for a while.
#[derive(Debug, Default)]
struct Shared {
    history: Arc<AttemptHistory>,
    holders: usize,
}

impl Attempts {
    /// Returns the history of a queue, which lives as long as someone holds it.
    pub fn queue(&self, queue: &Arc<str>) -> QueueAttempts {
        let mut queues = self.0.lock();
        let shared = queues.entry(queue.clone()).or_default();
        shared.holders += 1;
        QueueAttempts { history: shared.history.clone(), queue: queue.clone(), all: self.clone() }
    }

    /// Returns the failed attempts of an element, the oldest first.
    pub fn seen(&self, queue: &str, id: MessageId) -> Vec<FailedAttempt> {
        let history = self.0.lock().get(queue).map(|shared| shared.history.clone());
        history.map_or_else(Vec::new, |history| history.seen(id))
    }
}

/// The history of a queue at work. The last of a queue takes it along: a queue at rest holds no memory for it.
#[derive(Debug)]
pub struct QueueAttempts {
    history: Arc<AttemptHistory>,
    queue: Arc<str>,
    all: Attempts,
}

impl Deref for QueueAttempts {
    type Target = AttemptHistory;

    fn deref(&self) -> &AttemptHistory {
        &self.history
    }
}

impl Drop for QueueAttempts {
    fn drop(&mut self) {
        let mut queues = self.all.0.lock();
        let Some(shared) = queues.get_mut(&self.queue) else { return };
        shared.holders -= 1;
        if shared.holders == 0 {
            queues.remove(&self.queue);
        }
    }
}

/// The failed attempts of one queue's elements.
#[derive(Debug, Default)]
pub struct AttemptHistory(Mutex<AttemptState>);

#[derive(Debug, Default)]
struct AttemptState {
    attempts: HashMap<MessageId, Vec<FailedAttempt>>,
    order: VecDeque<MessageId>,
}

impl AttemptHistory {
    /// Takes note of a failed attempt.
    pub fn note(&self, id: MessageId, attempt: FailedAttempt) {
        let mut state = self.0.lock();
        if !state.attempts.contains_key(&id) {
            state.order.push_back(id);
        }
        let attempts = state.attempts.entry(id).or_default();
        if attempts.len() == ATTEMPTS {
            attempts.remove(0);
        }
        attempts.push(attempt);
        while state.attempts.len() > ELEMENTS {
            let Some(oldest) = state.order.pop_front() else { break };
            state.attempts.remove(&oldest);
        }
    }

    /// Returns the sink of the last failed attempt of an element.
    pub fn last_sink(&self, id: MessageId) -> Option<String> {
        self.0.lock().attempts.get(&id)?.last().map(|attempt| attempt.sink.clone()).filter(|sink| !sink.is_empty())
    }

    fn seen(&self, id: MessageId) -> Vec<FailedAttempt> {
        self.0.lock().attempts.get(&id).cloned().unwrap_or_default()
    }

    /// Returns whether nothing is known of any element.
    pub fn is_empty(&self) -> bool {
        self.0.lock().attempts.is_empty()
    }

    /// Forgets an element that has ended.
    pub fn forget(&self, id: MessageId) {
        // Nearly always there is nothing to forget.
        if !self.0.lock().attempts.is_empty() {
            let _ = self.take(id);
        }
    }

    /// Takes out what is known of an element that has ended.
    pub fn take(&self, id: MessageId) -> Vec<FailedAttempt> {
        let mut state = self.0.lock();
        if state.attempts.is_empty() {
            return Vec::new();
        }
        let attempts = state.attempts.remove(&id);
        if attempts.is_some() {
            state.order.retain(|&other| other != id);
        }
        attempts.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(at_ms: i64) -> FailedAttempt {
        FailedAttempt { at_ms, sink: "s".into(), class: Class::Transient, code: "x" }
    }

    #[test]
    fn a_person_may_ask_while_the_queue_is_at_work() {
        let attempts = Attempts::default();
        let queue = Arc::from("orders");
        let id = MessageId([1; 8]);
        let history = attempts.queue(&queue);
        history.note(id, attempt(7));
        attempts.queue(&queue).note(id, attempt(8));
        let times = || attempts.seen("orders", id).iter().map(|seen| seen.at_ms).collect::<Vec<_>>();
        assert_eq!(times(), [7, 8]);
        assert!(attempts.seen("mails", id).is_empty() && attempts.seen("orders", MessageId([2; 8])).is_empty());
        drop(history);
        assert!(times().is_empty(), "the queue is at rest");
        let before = attempts.queue(&queue);
        let after = attempts.queue(&queue);
        drop(before);
        after.note(id, attempt(9));
        assert_eq!(times(), [9], "a changed queue goes on");
        drop(after);
        assert!(attempts.0.lock().is_empty());
    }

    #[test]
    fn it_keeps_the_last_ten_and_forgets_the_oldest_element() {
        let history = AttemptHistory::default();
        for i in 0..25 {
            history.note(MessageId([1; 8]), attempt(i));
        }
        let kept: Vec<i64> = history.take(MessageId([1; 8])).iter().map(|a| a.at_ms).collect();
        assert_eq!(kept, (15..25).collect::<Vec<_>>());
        assert!(history.take(MessageId([1; 8])).is_empty());
        for i in 0..3_000u64 {
            history.note(MessageId(i.to_be_bytes()), attempt(0));
        }
        assert!(history.take(MessageId(0u64.to_be_bytes())).is_empty());
        assert_eq!(history.take(MessageId(2_999u64.to_be_bytes())).len(), 1);
    }
}
