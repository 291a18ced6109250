//! How an element passes from the task that waits for its outcome to the worker that sends it, so that both agree on
//! whether it was sent.
//!
//! An element is *waiting*, then either *sent* (by the worker) or *abandoned* (by its caller), never both: one
//! compare-and-swap decides. So an abandoned element is not sent afterwards, and a time-out can be classified.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::clock::Instant;
use crate::message::{Class, Failure, Outcome};
use crate::sink::Outbound;

const WAITING: u8 = 0;
const SENT: u8 = 1;
const ABANDONED: u8 = 2;

#[derive(Debug)]
struct Fate(AtomicU8);

impl Fate {
    /// True if this caller has moved it out of waiting.
    fn decide(&self, fate: u8) -> bool {
        self.0.compare_exchange(WAITING, fate, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Abandons the element when the waiting future is dropped.
struct Waiting(Arc<Fate>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.decide(ABANDONED);
    }
}

/// An element in the worker's hands.
#[derive(Debug)]
pub(super) struct Job {
    /// What to deliver.
    pub(super) message: Outbound,
    fate: Arc<Fate>,
    answer: oneshot::Sender<Outcome>,
}

impl Job {
    /// Must be asked right before the first byte may leave; false means that the element must not be sent, because
    /// no caller waits any more or its lease may be over: drop the job.
    pub(super) fn may_send(&self) -> bool {
        Instant::now() < self.message.send_before && self.fate.decide(SENT)
    }

    /// Passes the outcome to the waiting caller.
    pub(super) fn finish(self, outcome: Outcome) {
        // An error means that the future was dropped after the sending: no caller waits.
        drop(self.answer.send(outcome));
    }
}

/// The waiting side's end of a bounded queue to one worker.
#[derive(Debug)]
pub(super) struct JobQueue {
    kind: &'static str,
    timeout: Duration,
    queue: Mutex<Option<mpsc::Sender<Job>>>,
}

impl JobQueue {
    /// A queue of `capacity` elements; deliveries answer within `timeout`.
    pub(super) fn new(kind: &'static str, timeout: Duration, capacity: usize) -> (JobQueue, mpsc::Receiver<Job>) {
        let (sender, receiver) = mpsc::channel(capacity);
        (JobQueue { kind, timeout, queue: Mutex::new(Some(sender)) }, receiver)
    }

    pub(super) fn kind(&self) -> &'static str {
        self.kind
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Hands the element over and waits for its outcome.
    pub(super) async fn deliver(&self, message: Outbound) -> Outcome {
        let (destination, send_before) = (message.destination.clone(), message.send_before);
        let fate = Arc::new(Fate(AtomicU8::new(WAITING)));
        let waiting = Waiting(fate.clone());
        let (answer, outcome) = oneshot::channel();
        let job = Job { message, fate, answer };
        let queue = self.queue.lock().clone();
        let exchange = async {
            queue?.send(job).await.ok()?;
            outcome.await.ok()
        };
        let answered = tokio::time::timeout(self.timeout, exchange).await;
        let not_sent = waiting.0.decide(ABANDONED);
        match (answered, not_sent) {
            (Ok(Some(outcome)), _) => outcome,
            (_, true) if Instant::now() >= send_before => Err(Failure::stale()),
            // The worker ended without an answer: closed before its turn, or it panicked.
            (Ok(None), true) => Err(Failure::new(
                Class::Transient,
                "closed",
                format!("deliver to {}, {destination}: the sink is closed", self.kind),
            )),
            (Ok(None), false) => Err(Failure::new(
                Class::Ambiguous,
                "closed",
                format!("deliver to {}, {destination}: the sink ended before the answer came", self.kind),
            )),
            (Err(_), true) => Err(Failure::new(
                Class::Transient,
                Failure::NOT_SENT,
                format!("deliver to {}, {destination}: not sent within {:?}", self.kind, self.timeout),
            )),
            (Err(_), false) => Err(Failure::new(
                Class::Ambiguous,
                "timeout",
                format!("deliver to {}, {destination}: no confirmation within {:?}", self.kind, self.timeout),
            )),
        }
    }

    /// Ends when the worker has.
    pub(super) async fn ended(&self) {
        let queue = self.queue.lock().clone();
        if let Some(queue) = queue {
            queue.closed().await;
        }
    }

    /// Elements that the worker has not taken from the queue.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        let queue = self.queue.lock();
        queue.as_ref().map_or(0, |queue| queue.max_capacity() - queue.capacity())
    }

    /// Accepts nothing more; the worker ends after what is in the queue.
    pub(super) fn close(&self) {
        drop(self.queue.lock().take());
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::sink::contract::outbound;

    fn job_queue() -> (Arc<JobQueue>, mpsc::Receiver<Job>) {
        let (queue, jobs) = JobQueue::new("test", Duration::from_secs(1), 2);
        (Arc::new(queue), jobs)
    }

    fn message() -> Outbound {
        outbound(1, crate::sink::Destination::STDOUT, "x")
    }

    #[tokio::test]
    async fn the_outcome_comes_back() {
        let (queue, mut jobs) = job_queue();
        let worker = async {
            let job = jobs.recv().await.unwrap();
            assert!(job.may_send());
            job.finish(Ok(()));
        };
        assert_eq!(tokio::join!(queue.deliver(message()), worker).0, Ok(()));
    }

    #[tokio::test]
    async fn an_element_with_a_dropped_future_may_not_be_sent() {
        let (queue, mut jobs) = job_queue();
        let mut future = Box::pin(queue.deliver(message()));
        assert!(future.as_mut().now_or_never().is_none());
        drop(future);
        assert!(!jobs.recv().await.unwrap().may_send());
    }

    #[tokio::test]
    async fn an_element_with_an_expired_lease_is_not_sent() {
        let (queue, mut jobs) = job_queue();
        let stale = Outbound { send_before: Instant::now(), ..message() };
        let worker = async {
            let job = jobs.recv().await.unwrap();
            assert!(!job.may_send());
        };
        let failure = tokio::join!(queue.deliver(stale), worker).0.unwrap_err();
        assert!(failure.is_stale());
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_out_before_the_sending_is_transient_and_final() {
        let (queue, mut jobs) = job_queue();
        let failure = queue.deliver(message()).await.unwrap_err();
        assert_eq!((failure.class, failure.code), (Class::Transient, "not_sent"));
        assert!(!jobs.recv().await.unwrap().may_send());
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_out_while_the_queue_is_full_is_transient() {
        let (queue, _jobs) = job_queue();
        let three = futures_util::future::join_all((0..3).map(|_| queue.deliver(message()))).await;
        assert!(three.iter().all(|outcome| outcome.as_ref().is_err_and(|f| f.class == Class::Transient)), "{three:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_out_after_the_sending_is_ambiguous() {
        let (queue, mut jobs) = job_queue();
        let worker = async {
            let job = jobs.recv().await.unwrap();
            assert!(job.may_send());
            job
        };
        let (outcome, _job) = tokio::join!(queue.deliver(message()), worker);
        let failure = outcome.unwrap_err();
        assert_eq!((failure.class, failure.code), (Class::Ambiguous, "timeout"));
    }

    #[tokio::test]
    async fn a_worker_that_ends_leaves_no_caller_waiting() {
        let (queue, mut jobs) = job_queue();
        let worker = async { drop(jobs.recv().await) };
        let failure = tokio::join!(queue.deliver(message()), worker).0.unwrap_err();
        assert_eq!((failure.class, failure.code), (Class::Transient, "closed"));
        let worker = async { assert!(jobs.recv().await.unwrap().may_send()) };
        let failure = tokio::join!(queue.deliver(message()), worker).0.unwrap_err();
        assert_eq!((failure.class, failure.code), (Class::Ambiguous, "closed"));
        queue.close();
        let failure = queue.deliver(message()).await.unwrap_err();
        assert_eq!((failure.class, failure.code), (Class::Transient, "closed"));
    }
}
