//! A future that is polled again at once if it was woken by its own poll.
//!
//! A handler that reads a body wakes the connection, and both are in one task. The runtime puts a task that has woken itself
//! behind the others, and wakes another of its threads for it: twice for each request.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Maximum number of polls in a row, so that a future that always wakes itself lets others go first.
const MOST: usize = 3;

/// The poll is under way.
const POLLED: u8 = 0;
/// The future was woken during the poll, which is under way.
const WOKEN: u8 = 1;
/// The poll is over.
const LEFT: u8 = 2;

/// The future, polled again at once if it is woken during a poll, up to three times in a row.
pub struct Repoll<F>(Pin<Box<F>>);

impl<F: Future> Repoll<F> {
    /// Takes the future, which is moved to memory of its own.
    pub fn new(future: F) -> Self {
        Repoll(Box::pin(future))
    }
}

impl<F: Future> Future for Repoll<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let polling = Arc::new(Polling { task: cx.waker().clone(), state: AtomicU8::new(POLLED) });
        let waker = Waker::from(polling.clone());
        for _ in 0..MOST {
            polling.state.store(POLLED, Ordering::Release);
            if let Poll::Ready(output) = self.0.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Poll::Ready(output);
            }
            // From here on, the task is woken.
            if polling.state.swap(LEFT, Ordering::AcqRel) != WOKEN {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

struct Polling {
    task: Waker,
    state: AtomicU8,
}

impl Wake for Polling {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let during = self.state.compare_exchange(POLLED, WOKEN, Ordering::AcqRel, Ordering::Acquire);
        if during == Err(LEFT) {
            self.task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Polls once; returns the wake-ups of the task so far.
    fn poll<F: Future>(future: &mut Repoll<F>, task: &Arc<Task>) -> (Poll<F::Output>, usize) {
        let polled = Pin::new(future).poll(&mut Context::from_waker(&task.clone().into()));
        (polled, task.0.load(Ordering::Relaxed))
    }

    /// Returns a future that wakes itself in all polls but the last, and ends with the number of its polls.
    fn ready_in(last: usize) -> Repoll<impl Future<Output = usize>> {
        let mut polls = 0;
        Repoll::new(poll_fn(move |cx| {
            polls += 1;
            if polls == last {
                return Poll::Ready(polls);
            }
            cx.waker().wake_by_ref();
            cx.waker().wake_by_ref();
            Poll::Pending
        }))
    }

    #[test]
    fn a_future_that_wakes_itself_is_polled_again_without_its_task() {
        let task = Arc::new(Task::default());
        assert_eq!(poll(&mut ready_in(1), &task), (Poll::Ready(1), 0));
        assert_eq!(poll(&mut ready_in(MOST), &task), (Poll::Ready(MOST), 0));
    }

    #[test]
    fn one_that_wakes_itself_for_long_lets_others_go_first() {
        let task = Arc::new(Task::default());
        let mut future = ready_in(2 * MOST + 1);
        assert_eq!(poll(&mut future, &task), (Poll::Pending, 1));
        assert_eq!(poll(&mut future, &task), (Poll::Pending, 2));
        assert_eq!(poll(&mut future, &task), (Poll::Ready(2 * MOST + 1), 2));
    }

    #[test]
    fn a_wake_up_between_polls_is_one_of_the_task() {
        let task = Arc::new(Task::default());
        let kept = Mutex::new(Vec::new());
        let mut future = Repoll::new(poll_fn(|cx| {
            kept.lock().push(cx.waker().clone());
            Poll::<()>::Pending
        }));
        assert_eq!(poll(&mut future, &task), (Poll::Pending, 0));
        kept.lock()[0].wake_by_ref();
        assert_eq!(poll(&mut future, &task), (Poll::Pending, 1));
        // A waker of an earlier poll is as good.
        kept.lock()[0].wake_by_ref();
        assert_eq!(poll(&mut future, &task), (Poll::Pending, 2));
        assert_eq!(kept.lock().len(), 3);
    }
}
