//! The task that delivers for a sink: elements and questions go in, and it ends with the sink.

use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::reconnect::Intake;
use crate::worker_queue::WorkerQueue;
use delaybridge_core::message::{Class, Failure};

/// Elements that wait for the task; later ones wait in `deliver`.
const QUEUE: usize = 1024;
/// Questions of checks and probes that wait for the task.
const ASKS: usize = 16;
/// Time allowed for closing, beyond the time-out of the deliveries that it waits for.
const CLOSE: Duration = Duration::from_secs(1);

/// The task of a sink that takes questions `Q` of checks and probes. It is stopped when this is dropped.
pub struct SinkTask<Q> {
    /// The queue of its elements.
    pub items: WorkerQueue,
    asks: mpsc::Sender<Q>,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl<Q> SinkTask<Q> {
    /// Starts the task of a sink of this kind, whose deliveries answer within `timeout`. It ends when its queue is closed and
    /// empty, or by the token.
    pub fn start<F>(
        kind: &'static str,
        timeout: Duration,
        run: impl FnOnce(Intake<Q>, CancellationToken) -> F,
    ) -> SinkTask<Q>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (items, taken) = WorkerQueue::new(kind, timeout, QUEUE);
        let (asks, asked) = mpsc::channel(ASKS);
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(Intake { items: taken, asks: asked, closed: false }, stop.clone()));
        SinkTask { items, asks, stop, task: Mutex::new(Some(task)) }
    }

    /// Asks the task a question, at most for the time-out of the sink. `attempt` says what is attempted with whom.
    ///
    /// # Errors
    /// The task answers with a failure, does not answer in time, or has ended.
    pub async fn ask<A>(
        &self,
        attempt: String,
        question: impl FnOnce(oneshot::Sender<Result<A, Failure>>) -> Q,
    ) -> Result<A, Failure> {
        let (reply, answer) = oneshot::channel();
        let asking = async {
            self.asks.send(question(reply)).await.ok()?;
            answer.await.ok()
        };
        let timeout = self.items.timeout();
        match tokio::time::timeout(timeout, asking).await {
            Ok(Some(reply)) => reply,
            Ok(None) => Err(Failure::new(Class::Transient, "closed", format!("{attempt}: the sink is closed"))),
            Err(_) => {
                let text = format!("{attempt}: no answer within {timeout:?}");
                Err(Failure::new(Class::Transient, Failure::NOT_CONNECTED, text))
            }
        }
    }

    /// Lets the task answer what is in the queue, and ends it.
    pub async fn close(&self) {
        self.items.close();
        let task = self.task.lock().take();
        if let Some(mut task) = task {
            // What is in the queue is answered by then, or has timed out. A panic has answered all deliveries.
            if tokio::time::timeout(self.items.timeout() + CLOSE, &mut task).await.is_err() {
                task.abort();
            }
        }
        self.stop.cancel();
    }
}

impl<Q> fmt::Debug for SinkTask<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkTask").field("items", &self.items).finish_non_exhaustive()
    }
}

impl<Q> Drop for SinkTask<Q> {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{anywhere, outbound};

    const TIMEOUT: Duration = Duration::from_secs(30);

    type Question = oneshot::Sender<Result<u32, Failure>>;

    /// Returns a task that answers every element, and each question with 7.
    fn honest() -> SinkTask<Question> {
        SinkTask::start("fake", TIMEOUT, |mut intake: Intake<Question>, _stop| async move {
            loop {
                tokio::select! {
                                    item = intake.items.recv() => match item {
                                        Some(item) => item.finish(Ok(())),
                                        None => return,
                                    },
                                    Some(question) = intake.asks.recv() => {
                let _ = question.send(Ok(7));
                }
                                }
            }
        })
    }

    /// Returns a task that holds what it gets, and ends by the token alone.
    fn silent() -> SinkTask<Question> {
        SinkTask::start("fake", TIMEOUT, |intake, stop: CancellationToken| async move {
            stop.cancelled().await;
            drop(intake);
        })
    }

    #[tokio::test(start_paused = true)]
    async fn questions_are_answered_within_the_time_out_or_it_is_said_why_not() {
        let task = honest();
        assert_eq!(task.ask("ask the fake".to_owned(), |reply| reply).await, Ok(7));
        task.close().await;
        let closed = task.ask("ask the fake".to_owned(), |reply| reply).await.unwrap_err();
        assert_eq!((closed.code, &*closed.message), ("closed", "ask the fake: the sink is closed"));
        let late = silent().ask("ask the fake".to_owned(), |reply| reply).await.unwrap_err();
        assert_eq!((late.class, &*late.message), (Class::Transient, "ask the fake: no answer within 30s"));
    }

    #[tokio::test(start_paused = true)]
    async fn closing_answers_what_is_in_the_queue_and_waits_for_no_more_than_the_time_out() {
        let task = honest();
        let delivery = task.items.deliver(outbound(1, anywhere(), "x"));
        let (outcome, ()) = tokio::join!(delivery, task.close());
        assert_eq!(outcome, Ok(()));
        let task = silent();
        let before = tokio::time::Instant::now();
        task.close().await;
        assert_eq!(before.elapsed(), TIMEOUT + CLOSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_ends_with_its_sink() {
        let (sender, ended) = oneshot::channel();
        let task = SinkTask::start("fake", TIMEOUT, |_: Intake<Question>, stop: CancellationToken| async move {
            stop.cancelled().await;
            let _ended = sender.send(());
        });
        drop(task);
        assert_eq!(ended.await, Ok(()));
    }
}
