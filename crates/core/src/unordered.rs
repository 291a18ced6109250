//! Many futures in one task, in the order in which they end.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

/// Returns the output of the next future that ends; `None` if there is no future. Cancel safe.
///
/// Unlike `FuturesUnordered::next`, it does not wake the task that polls it. That one does when it has polled all of
/// its futures, to
/// let other tasks go first; with a single future, that is at each poll. The runtime then wakes another thread, which
/// finds nothing
/// to do.
pub fn next<F: Future>(futures: &mut FuturesUnordered<F>) -> impl Future<Output = Option<F::Output>> {
    poll_fn(move |cx| match futures.poll_next_unpin(&mut Context::from_waker(Waker::noop())) {
        // A future that was woken meanwhile is found by this poll, as are futures that yield.
        Poll::Pending => futures.poll_next_unpin(cx),
        ended => ended,
    })
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use tokio::sync::oneshot;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Polls once, and returns what is ready and the number of wake-ups so far.
    fn poll<F: Future>(futures: &mut FuturesUnordered<F>, woken: &Arc<Woken>) -> (Poll<Option<F::Output>>, usize) {
        let polled = pin!(next(futures)).poll(&mut Context::from_waker(&woken.clone().into()));
        (polled, woken.0.load(Ordering::Relaxed))
    }

    #[test]
    fn the_task_is_woken_by_a_future_and_not_by_a_poll() {
        let woken = Arc::new(Woken::default());
        let mut futures = FuturesUnordered::new();
        assert_eq!(poll(&mut futures, &woken), (Poll::Ready(None), 0));
        let first = oneshot::channel();
        let second = oneshot::channel();
        futures.push(first.1);
        futures.push(second.1);
        assert_eq!(poll(&mut futures, &woken), (Poll::Pending, 0));
        assert_eq!(poll(&mut futures, &woken), (Poll::Pending, 0));
        second.0.send(2).unwrap();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert_eq!(poll(&mut futures, &woken), (Poll::Ready(Some(Ok(2))), 1));
        assert_eq!(poll(&mut futures, &woken), (Poll::Pending, 1));
        first.0.send(1).unwrap();
        assert_eq!(poll(&mut futures, &woken), (Poll::Ready(Some(Ok(1))), 2));
        assert_eq!(poll(&mut futures, &woken), (Poll::Ready(None), 2));
    }

    #[test]
    fn a_future_that_yields_is_polled_again() {
        let woken = Arc::new(Woken::default());
        let mut futures = FuturesUnordered::new();
        let mut polls = 0;
        futures.push(poll_fn(move |cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            if polls < 4 { Poll::Pending } else { Poll::Ready(polls) }
        }));
        let mut before = 0;
        loop {
            match poll(&mut futures, &woken) {
                (Poll::Ready(ended), _) => break assert_eq!(ended, Some(4)),
                (Poll::Pending, wakes) => {
                    assert!(wakes > std::mem::replace(&mut before, wakes), "it would never be polled again")
                }
            }
        }
    }
}
