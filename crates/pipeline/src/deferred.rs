//! A task that starts with its first wake-up.
//!
//! A delivery has nothing to do until its sink answers. A task that is spawned at once is polled only to find that out. For that
//! poll the runtime wakes another of its threads, because the sink's own task is to run as well.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;
use tokio::runtime::Handle;

/// Polls the future here, once, and spawns it on the current runtime when it is woken. If all that it waits for is dropped
/// without waking it, it is dropped as well. Panics outside of a runtime.
pub fn spawn<F: Future<Output = ()> + Send + 'static>(task: F) {
    let deferred = Arc::new(Deferred { runtime: Handle::current(), state: Mutex::new(State::Polled) });
    let mut task = Box::pin(task);
    let waker = Waker::from(deferred.clone());
    if task.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Pending {
        deferred.wait(task);
    }
}

struct Deferred<F> {
    runtime: Handle,
    state: Mutex<State<F>>,
}

enum State<F> {
    /// The first poll is under way.
    Polled,
    /// A wake-up came during the first poll.
    Woken,
    /// The first wake-up has not come. Whatever the future waits for holds a waker, and so this.
    Waiting(Pin<Box<F>>),
    /// The runtime has the future, and polls it at least once from here on.
    Spawned,
}

impl<F: Future<Output = ()> + Send + 'static> Deferred<F> {
    fn wait(&self, task: Pin<Box<F>>) {
        let mut state = self.state.lock();
        if let State::Polled = *state {
            *state = State::Waiting(task);
            return;
        }
        *state = State::Spawned;
        drop(state);
        self.runtime.spawn(task);
    }
}

impl<F: Future<Output = ()> + Send + 'static> Wake for Deferred<F> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Spawned) {
            State::Polled | State::Woken => *state = State::Woken,
            State::Waiting(task) => {
                drop(state);
                self.runtime.spawn(task);
            }
            State::Spawned => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::sync::oneshot;
    use tokio::task::try_id;
    use tokio_util::task::TaskTracker;

    use super::*;

    #[tokio::test]
    async fn a_task_that_waits_is_spawned_with_its_first_wake_up() {
        let (knock, knocked) = oneshot::channel();
        let (tell, told) = oneshot::channel();
        let caller = tokio::spawn(async move {
            spawn(async move {
                let begun_by = try_id();
                knocked.await.unwrap();
                tell.send((begun_by, try_id())).unwrap();
            });
            try_id()
        });
        let caller = caller.await.unwrap();
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 0, "it is no task yet");
        knock.send(()).unwrap();
        let (begun_by, ended_by) = told.await.unwrap();
        assert_eq!(begun_by, caller);
        assert!(ended_by.is_some() && ended_by != caller);
    }

    #[tokio::test]
    async fn a_wake_up_during_the_first_poll_counts() {
        let (tell, told) = oneshot::channel();
        let mut polls = 0;
        spawn(async move {
            poll_fn(|cx| {
                polls += 1;
                cx.waker().wake_by_ref();
                cx.waker().wake_by_ref();
                if polls == 1 { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
            tell.send(polls).unwrap();
        });
        assert_eq!(told.await.unwrap(), 2);
    }

    #[tokio::test]
    async fn it_is_dropped_with_the_last_of_its_wakers() {
        let (held, dropped) = oneshot::channel::<()>();
        let wakers = Arc::new(Mutex::new(Vec::new()));
        let kept = wakers.clone();
        spawn(poll_fn(move |cx| {
            let _ = &held;
            kept.lock().push(cx.waker().clone());
            Poll::Pending
        }));
        let last = std::mem::take(&mut *wakers.lock());
        assert_eq!(last.len(), 1);
        drop(last);
        assert!(dropped.await.is_err(), "it is gone, and no task");
    }

    #[tokio::test]
    async fn one_that_is_ready_at_once_is_never_a_task() {
        let tracker = TaskTracker::new();
        tracker.close();
        spawn(tracker.track_future(async {}));
        tracker.wait().await;
    }
}
