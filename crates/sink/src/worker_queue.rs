//! Passes elements from the task that waits for their outcomes to the worker that sends them, so that both agree on whether
//! each was sent.
//!
//! An element is *waiting*, then either *sent* (by the worker) or *abandoned* (by its caller), never both: one
//! compare-and-swap decides. So an abandoned element is not sent afterwards, and a time-out can be classified.
//!
//! A batch is one allocation that its caller and the worker share; an element of it is a place there. The worker puts
//! outcomes into the answers of the batch, and the caller is woken by the last.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::{Answers, Outbound};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure, Outcome};

const WAITING: u8 = 0;
const SENT: u8 = 1;
const ABANDONED: u8 = 2;

#[derive(Debug)]
struct SendState(AtomicU8);

impl SendState {
    /// Moves the state out of waiting, and returns whether this caller has done it.
    fn decide(&self, fate: u8) -> bool {
        self.0.compare_exchange(WAITING, fate, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn is(&self, fate: u8) -> bool {
        self.0.load(Ordering::Acquire) == fate
    }
}

/// The elements of one delivery, shared by their caller and the worker.
#[derive(Debug)]
struct WorkBatch {
    kind: &'static str,
    elements: Vec<(Outbound, SendState)>,
    answers: Answers,
}

impl WorkBatch {
    fn fate(&self, place: usize) -> &SendState {
        &self.elements[place].1
    }

    /// Builds the failure of an element that has no outcome: nothing of it was sent (and nothing will be), or it may
    /// have been.
    fn without_outcome(&self, place: usize, not_sent: bool, why: NoOutcome) -> Failure {
        let message = &self.elements[place].0;
        if not_sent && Instant::now() >= message.send_before {
            return Failure::stale();
        }
        let class = if not_sent { Class::Transient } else { Class::Ambiguous };
        let (code, text) = match (why, not_sent) {
            (NoOutcome::Closed, true) => ("closed".into(), "the sink is closed".to_owned()),
            (NoOutcome::Closed, false) => ("closed".into(), "the sink ended before the answer came".to_owned()),
            (NoOutcome::Late(timeout), true) => (Failure::NOT_SENT, format!("not sent within {timeout:?}")),
            (NoOutcome::Late(timeout), false) => ("timeout".into(), format!("no confirmation within {timeout:?}")),
        };
        Failure::new(class, code, format!("deliver to {}, {}: {text}", self.kind, message.destination))
    }
}

/// Why an element has no outcome.
#[derive(Clone, Copy)]
enum NoOutcome {
    /// The worker ended without an answer: it was closed before the element's turn, or it panicked.
    Closed,
    /// The time-out, which is this.
    Late(Duration),
}

/// Abandons the elements that were not sent when the waiting future is dropped.
struct AbandonOnDrop(Arc<WorkBatch>);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        for (_, fate) in &self.0.elements {
            fate.decide(ABANDONED);
        }
    }
}

/// An element in the worker's hands. Dropped without an outcome, it is answered by whether it may have been sent.
#[derive(Debug)]
pub struct WorkItem {
    batch: Arc<WorkBatch>,
    place: usize,
    finished: bool,
}

impl WorkItem {
    /// Returns the element to deliver.
    pub fn message(&self) -> &Outbound {
        &self.batch.elements[self.place].0
    }

    /// Claims the right to send. Must be called right before the first byte may leave; false means that the element
    /// must not be sent, because no caller waits any more or its lease may be over: drop the job.
    pub fn may_send(&self) -> bool {
        Instant::now() < self.message().send_before && self.batch.fate(self.place).decide(SENT)
    }

    /// Passes the outcome to the waiting caller. If that is gone, or has timed out, it has no effect.
    pub fn finish(mut self, outcome: Outcome) {
        self.finished = true;
        self.batch.answers.put(self.place, outcome);
    }
}

impl WorkItem {
    /// Ends the item as [`finish`](WorkItem::finish) does with success, for an element that the destination had
    /// already.
    pub fn finish_known(mut self) {
        self.finished = true;
        self.batch.answers.put_known(self.place);
    }
}

impl Drop for WorkItem {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let fate = self.batch.fate(self.place);
        // An abandoned one is answered by its caller, if that is still there.
        let not_sent = fate.decide(ABANDONED);
        if not_sent || fate.is(SENT) {
            let failure = self.batch.without_outcome(self.place, not_sent, NoOutcome::Closed);
            self.batch.answers.put(self.place, Err(failure));
        }
    }
}

/// The waiting side's end of a bounded queue to one worker.
#[derive(Debug)]
pub struct WorkerQueue {
    kind: &'static str,
    timeout: Duration,
    queue: Mutex<Option<mpsc::Sender<WorkItem>>>,
}

impl WorkerQueue {
    /// Creates a queue of `capacity` elements; deliveries answer within `timeout`.
    pub fn new(kind: &'static str, timeout: Duration, capacity: usize) -> (WorkerQueue, mpsc::Receiver<WorkItem>) {
        let (sender, receiver) = mpsc::channel(capacity);
        (WorkerQueue { kind, timeout, queue: Mutex::new(Some(sender)) }, receiver)
    }

    /// Returns the kind of the sink.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Returns the longest that a delivery takes.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Hands the element over and waits for its outcome.
    pub async fn deliver(&self, message: Outbound) -> Outcome {
        let answers = Answers::new(1);
        self.deliver_all(vec![message], &answers).await;
        answers.take().failed.pop().map_or(Ok(()), |(_, failure)| Err(failure))
    }

    /// Hands the elements over, at once if the queue has room for all of them, and waits for their outcomes. Batches are
    /// handed over in the order of their first polls, as long as none is larger than the queue.
    pub async fn deliver_all(&self, batch: Vec<Outbound>, answers: &Answers) {
        let elements = batch.into_iter().map(|message| (message, SendState(AtomicU8::new(WAITING)))).collect();
        let waiting = AbandonOnDrop(Arc::new(WorkBatch { kind: self.kind, elements, answers: answers.clone() }));
        let batch = &waiting.0;
        let queue = self.queue.lock().clone();
        let exchange = async {
            hand_over(&queue?, batch).await?;
            answers.complete().await;
            Some(())
        };
        let why = match tokio::time::timeout(self.timeout, exchange).await {
            Ok(Some(())) => return,
            Ok(None) => NoOutcome::Closed,
            Err(_) => NoOutcome::Late(self.timeout),
        };
        for place in answers.open() {
            let not_sent = batch.fate(place).decide(ABANDONED);
            answers.put(place, Err(batch.without_outcome(place, not_sent, why)));
        }
    }

    /// Ends when the worker has.
    pub async fn ended(&self) {
        let queue = self.queue.lock().clone();
        if let Some(queue) = queue {
            queue.closed().await;
        }
    }

    /// Counts the elements that the worker has not taken from the queue.
    #[cfg(any(test, feature = "testing"))]
    pub fn waiting(&self) -> usize {
        let queue = self.queue.lock();
        queue.as_ref().map_or(0, |queue| queue.max_capacity() - queue.capacity())
    }

    /// Accepts nothing more; the worker ends after what is in the queue.
    pub fn close(&self) {
        drop(self.queue.lock().take());
    }
}

/// Puts the elements into the queue; `None` if the worker has ended.
async fn hand_over(queue: &mpsc::Sender<WorkItem>, batch: &Arc<WorkBatch>) -> Option<()> {
    let mut places = 0..batch.elements.len();
    while !places.is_empty() {
        let permits = queue.reserve_many(places.len().min(queue.max_capacity())).await.ok()?;
        for (permit, place) in permits.zip(places.by_ref()) {
            permit.send(WorkItem { batch: batch.clone(), place, finished: false });
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::fixtures::{anywhere, outbound};

    fn worker_queue() -> (Arc<WorkerQueue>, mpsc::Receiver<WorkItem>) {
        let (queue, items) = WorkerQueue::new("test", Duration::from_secs(1), 2);
        (Arc::new(queue), items)
    }

    fn message() -> Outbound {
        outbound(1, anywhere(), "x")
    }

    #[tokio::test]
    async fn the_outcome_comes_back() {
        let (queue, mut items) = worker_queue();
        let worker = async {
            let item = items.recv().await.unwrap();
            assert!(item.may_send());
            item.finish(Ok(()));
        };
        assert_eq!(tokio::join!(queue.deliver(message()), worker).0, Ok(()));
    }

    #[tokio::test]
    async fn an_element_with_a_dropped_future_may_not_be_sent() {
        let (queue, mut items) = worker_queue();
        let mut future = Box::pin(queue.deliver(message()));
        assert!(future.as_mut().now_or_never().is_none());
        drop(future);
        assert!(!items.recv().await.unwrap().may_send());
    }

    #[tokio::test]
    async fn an_element_with_an_expired_lease_is_not_sent() {
        let (queue, mut items) = worker_queue();
        let stale = Outbound { send_before: Instant::now(), ..message() };
        let worker = async {
            let item = items.recv().await.unwrap();
            assert!(!item.may_send());
        };
        let failure = tokio::join!(queue.deliver(stale), worker).0.unwrap_err();
        assert!(failure.is_stale());
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_out_before_the_sending_is_transient_and_final() {
        let (queue, mut items) = worker_queue();
        let failure = queue.deliver(message()).await.unwrap_err();
        assert_eq!((failure.class, failure.code), (Class::Transient, "not_sent"));
        assert!(!items.recv().await.unwrap().may_send());
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_out_while_the_queue_is_full_is_transient() {
        let (queue, _jobs) = worker_queue();
        let three = futures_util::future::join_all((0..3).map(|_| queue.deliver(message()))).await;
        assert!(three.iter().all(|outcome| outcome.as_ref().is_err_and(|f| f.class == Class::Transient)), "{three:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_out_after_the_sending_is_ambiguous() {
        let (queue, mut items) = worker_queue();
        let worker = async {
            let item = items.recv().await.unwrap();
            assert!(item.may_send());
            item
        };
        let (outcome, _job) = tokio::join!(queue.deliver(message()), worker);
        let failure = outcome.unwrap_err();
        assert_eq!((failure.class, failure.code), (Class::Ambiguous, "timeout"));
    }

    #[tokio::test]
    async fn a_worker_that_ends_leaves_no_caller_waiting() {
        let (queue, mut items) = worker_queue();
        let worker = async { drop(items.recv().await) };
        let failure = tokio::join!(queue.deliver(message()), worker).0.unwrap_err();
        assert_eq!((failure.class, failure.code), (Class::Transient, "closed"));
        let worker = async { assert!(items.recv().await.unwrap().may_send()) };
        let failure = tokio::join!(queue.deliver(message()), worker).0.unwrap_err();
        assert_eq!((failure.class, failure.code), (Class::Ambiguous, "closed"));
        queue.close();
        let failure = queue.deliver(message()).await.unwrap_err();
        assert_eq!((failure.class, failure.code), (Class::Transient, "closed"));
    }

    fn batch(range: std::ops::Range<u64>) -> Vec<Outbound> {
        range.map(|id| outbound(id, anywhere(), "x")).collect()
    }

    fn wide_queue() -> (WorkerQueue, mpsc::Receiver<WorkItem>) {
        WorkerQueue::new("test", Duration::from_secs(1), 1024)
    }

    #[tokio::test]
    async fn a_batch_is_in_the_queue_after_the_first_poll_and_behind_the_one_before() {
        let (queue, mut items) = wide_queue();
        let first = Answers::new(500);
        let second = Answers::new(500);
        let mut one = Box::pin(queue.deliver_all(batch(0..500), &first));
        let mut two = Box::pin(queue.deliver_all(batch(500..1000), &second));
        assert!(one.as_mut().now_or_never().is_none() && two.as_mut().now_or_never().is_none());
        assert_eq!(queue.waiting(), 1000);
        for id in 0..1000_u64 {
            let item = items.try_recv().unwrap();
            assert_eq!(item.message().id.id.0, id.to_be_bytes());
            assert!(item.may_send());
            item.finish(Ok(()));
        }
        one.await;
        two.await;
        assert_eq!((first.take().confirmed.len(), second.take().confirmed.len()), (500, 500));
    }

    #[tokio::test]
    async fn a_batch_that_is_larger_than_the_queue_is_handed_over_in_parts() {
        let (queue, mut items) = worker_queue();
        let answers = Answers::new(7);
        let worker = async {
            for id in 0..7_u64 {
                let item = items.recv().await.unwrap();
                assert_eq!(item.message().id.id.0, id.to_be_bytes());
                item.finish(Ok(()));
            }
        };
        tokio::join!(queue.deliver_all(batch(0..7), &answers), worker);
        assert_eq!(answers.take().confirmed, [0, 1, 2, 3, 4, 5, 6]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_out_classifies_each_element_of_a_batch_and_is_final() {
        let (queue, mut items) = wide_queue();
        let answers = Answers::new(6);
        let mut messages = batch(0..6);
        messages[5].send_before = Instant::now();
        let worker = async {
            let mut kept = Vec::new();
            for place in 0..6 {
                let item = items.recv().await.unwrap();
                match place {
                    0 => item.finish(Ok(())),
                    1 | 2 => {
                        assert!(item.may_send());
                        kept.push(item);
                    }
                    _ => kept.push(item),
                }
            }
            kept
        };
        let ((), kept) = tokio::join!(queue.deliver_all(messages, &answers), worker);
        let answered = answers.take();
        assert_eq!(answered.confirmed, [0]);
        let classes: Vec<_> = answered.failed.iter().map(|(place, failure)| (*place, failure.class)).collect();
        let expected = [(1, Class::Ambiguous), (2, Class::Ambiguous), (3, Class::Transient), (4, Class::Transient)];
        assert_eq!(classes[..4], expected);
        assert!(answered.failed[4].1.is_stale());
        for item in kept {
            assert!(!item.may_send());
            item.finish(Ok(()));
        }
        assert!(answers.take().is_empty(), "an answer after the time-out counts for nothing");
    }

    #[tokio::test]
    async fn what_a_dropped_batch_has_not_sent_may_not_be_sent() {
        let (queue, mut items) = wide_queue();
        let answers = Answers::new(3);
        let mut future = Box::pin(queue.deliver_all(batch(0..3), &answers));
        assert!(future.as_mut().now_or_never().is_none());
        let sent = items.recv().await.unwrap();
        assert!(sent.may_send());
        drop(future);
        sent.finish(Ok(()));
        assert!(!items.recv().await.unwrap().may_send());
        assert!(!items.recv().await.unwrap().may_send());
    }

    #[tokio::test]
    async fn a_worker_that_ends_answers_the_whole_batch() {
        let (queue, mut items) = wide_queue();
        let answers = Answers::new(3);
        let worker = async {
            assert!(items.recv().await.unwrap().may_send());
            items.close();
            while items.recv().await.is_some() {}
        };
        tokio::join!(queue.deliver_all(batch(0..3), &answers), worker);
        let failed = answers.take().failed;
        let classes: Vec<_> = failed.iter().map(|(_, failure)| (failure.class, failure.code)).collect();
        let closed = (Class::Transient, "closed");
        assert_eq!(classes, [(Class::Ambiguous, "closed"), closed, closed]);
    }
}
