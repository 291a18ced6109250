//! Batching of calls: items that arrive while two calls on a topic are outstanding go together in the next one.
//!
//! An idle topic loses no time: its call goes at once, alone. Under load a call carries the items that arrived during
//! the ones before it, so that the cost of a call (the round trip, the start of the script, the checks of all keys) is
//! paid once. Two calls are outstanding, so that Redis works on one while this process handles the reply to the other.
//!
//! There is no task. All callers of a call share one future, and any of them drives it, so that a caller that
//! disconnects takes nothing from the others. When the last of them is dropped, the call is dropped too.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;

use super::error::JobError;
use super::name::Topic;
use delaybridge_link::BadReply;

/// Maximum number of items in a call.
const MOST: usize = 100;
/// Maximum size of a call, in bytes; a larger item goes alone.
const BYTES: usize = 256 << 10;
/// Maximum number of outstanding calls of a topic while another one waits.
const OUTSTANDING: usize = 2;

type Answers<A> = Arc<Result<Vec<Result<A, JobError>>, JobError>>;
type Call<A> = Shared<BoxFuture<'static, Answers<A>>>;

/// Batched calls of one kind, by topic.
pub(super) struct Together<T, A> {
    lines: Mutex<HashMap<Topic, Line<T, A>>>,
}

/// The unfinished calls of a topic, in the order of their creation. The last one may still be waiting.
struct Line<T, A> {
    /// The number of the next call.
    next: u64,
    calls: VecDeque<Gathered<T, A>>,
}

/// A call and its items.
struct Gathered<T, A> {
    number: u64,
    /// Whether it has not been sent yet, so that items may join.
    open: bool,
    items: Arc<Mutex<Items<T>>>,
    /// Owned by its callers, and by the call that waits for it.
    call: WeakShared<BoxFuture<'static, Answers<A>>>,
}

/// An entry in the line, removed when the call is done or its last caller is dropped.
struct Place<T, A> {
    together: Arc<Together<T, A>>,
    topic: Topic,
    number: u64,
}

impl<T, A> Drop for Place<T, A> {
    fn drop(&mut self) {
        self.together.leave(&self.topic, self.number);
    }
}

struct Items<T> {
    all: Vec<T>,
    bytes: usize,
}

impl<T: Send + 'static, A: Clone + Send + Sync + 'static> Together<T, A> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Together { lines: Mutex::default() })
    }

    /// Sends an item of `bytes` bytes, batched with others of the topic. `send` returns a result for each item, in
    /// order.
    pub(super) async fn call<R>(
        self: &Arc<Self>,
        topic: &Topic,
        item: T,
        bytes: usize,
        send: impl FnOnce(Vec<T>) -> R + Send + 'static,
    ) -> Result<A, JobError>
    where
        R: Future<Output = Result<Vec<Result<A, JobError>>, JobError>> + Send + 'static,
    {
        let (call, place) = self.join(topic, item, bytes, send);
        match &*call.await {
            Ok(answers) => answers.get(place).cloned().unwrap_or_else(|| {
                Err(BadReply { script: "jobs", expected: "an answer for each job of a call" }.into())
            }),
            Err(error) => Err(error.clone()),
        }
    }

    fn join<R>(
        self: &Arc<Self>,
        topic: &Topic,
        item: T,
        bytes: usize,
        send: impl FnOnce(Vec<T>) -> R + Send + 'static,
    ) -> (Call<A>, usize)
    where
        R: Future<Output = Result<Vec<Result<A, JobError>>, JobError>> + Send + 'static,
    {
        let mut lines = self.lines.lock();
        let line = lines.entry(topic.clone()).or_insert_with(|| Line { next: 0, calls: VecDeque::new() });
        let last = line.calls.back().filter(|last| last.open);
        if let Some(last) = last {
            let mut items = last.items.lock();
            let room = items.all.len() < MOST && items.bytes + bytes <= BYTES;
            // A call whose last caller is just being dropped cannot be joined.
            if room && let Some(call) = last.call.upgrade() {
                items.all.push(item);
                items.bytes += bytes;
                return (call, items.all.len() - 1);
            }
        }
        // Waits for the first outstanding call, never for a waiting one: without Redis each call takes a second.
        let waits = last.is_none() && line.calls.len() >= OUTSTANDING;
        let before = line.calls.front().filter(|_| waits).and_then(|first| first.call.upgrade());
        let number = line.next;
        line.next += 1;
        let items = Arc::new(Mutex::new(Items { all: vec![item], bytes }));
        let place = Place { together: self.clone(), topic: topic.clone(), number };
        let taken = items.clone();
        let call = async move {
            if let Some(before) = before {
                before.await;
            }
            place.together.close(&place.topic, number);
            let all = std::mem::take(&mut taken.lock().all);
            let answers = send(all).await;
            drop(place);
            Arc::new(answers)
        };
        let call = call.boxed().shared();
        // Always present, because it was not polled yet.
        if let Some(weak) = call.downgrade() {
            line.calls.push_back(Gathered { number, open: true, items, call: weak });
        }
        (call, 0)
    }

    fn close(&self, topic: &Topic, number: u64) {
        let mut lines = self.lines.lock();
        let calls = lines.get_mut(topic).map(|line| &mut line.calls);
        if let Some(call) = calls.into_iter().flatten().find(|call| call.number == number) {
            call.open = false;
        }
    }
}

impl<T, A> Together<T, A> {
    /// Removes a finished call. A topic without calls is forgotten.
    fn leave(&self, topic: &Topic, number: u64) {
        let mut lines = self.lines.lock();
        let Some(line) = lines.get_mut(topic) else { return };
        line.calls.retain(|call| call.number != number);
        if line.calls.is_empty() {
            lines.remove(topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    fn spawn<T: Send + 'static>(call: impl Future<Output = T> + Send + 'static) -> tokio::task::JoinHandle<T> {
        tokio::runtime::Handle::current().spawn(call)
    }

    fn topic() -> Topic {
        "orders".parse().expect("a topic")
    }

    /// Sends an item that is answered, after ten milliseconds, with the number of the call and its number of items.
    fn ask(
        together: &Arc<Together<u32, (usize, usize)>>,
        calls: &Arc<AtomicUsize>,
        item: u32,
        bytes: usize,
    ) -> impl Future<Output = Result<(usize, usize), JobError>> + use<> {
        let together = together.clone();
        let calls = calls.clone();
        async move {
            let send = move |items: Vec<u32>| async move {
                let number = calls.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(10)).await;
                Ok(items.iter().map(|_| Ok((number, items.len()))).collect())
            };
            together.call(&topic(), item, bytes, send).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_during_a_call_goes_together_in_the_next() {
        let together = Together::new();
        let calls = Arc::default();
        let first = spawn(ask(&together, &calls, 0, 1));
        tokio::time::sleep(Duration::from_millis(1)).await;
        let others: Vec<_> = (1..=250).map(|n| spawn(ask(&together, &calls, n, 1))).collect();
        assert_eq!(first.await.expect("it ends").expect("an answer"), (0, 1), "an idle topic waits for nothing");
        let mut seen = Vec::new();
        for other in others {
            seen.push(other.await.expect("it ends").expect("an answer"));
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.iter().map(|(_, size)| size).sum::<usize>(), 250, "each in one call: {seen:?}");
        assert!(seen.len() <= 6 && seen.iter().all(|(_, size)| *size <= MOST), "{seen:?}");
        assert!(together.lines.lock().is_empty(), "nothing is kept");
    }

    /// A caller that is dropped, even the one that started the call, takes nothing from the others.
    #[tokio::test(start_paused = true)]
    async fn a_caller_that_goes_away_leaves_the_call_to_the_others() {
        let together = Together::new();
        let calls = Arc::default();
        let mut begun = Vec::new();
        for n in 0..2 {
            begun.push(spawn(ask(&together, &calls, n, 1)));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let second = spawn(ask(&together, &calls, 2, 1));
        let third = spawn(ask(&together, &calls, 3, 1));
        tokio::time::sleep(Duration::from_millis(1)).await;
        begun.iter().for_each(tokio::task::JoinHandle::abort);
        second.abort();
        assert_eq!(third.await.expect("it ends").expect("an answer"), (2, 2));
        assert!(together.lines.lock().is_empty(), "nothing is kept");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_callers_is_forgotten() {
        let together = Together::new();
        let calls = Arc::default();
        let all: Vec<_> = (0..5).map(|n| spawn(ask(&together, &calls, n, 1))).collect();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(together.lines.lock()[&topic()].calls.len(), 3, "two are outstanding, the others wait together");
        for caller in all {
            caller.abort();
            drop(caller.await);
        }
        assert!(together.lines.lock().is_empty(), "nothing is kept");
        assert_eq!(ask(&together, &calls, 9, 1).await.expect("an answer").1, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn large_items_go_alone_and_an_error_is_everyone_s() {
        let together = Together::new();
        let calls = Arc::default();
        let first = spawn(ask(&together, &calls, 0, 1));
        tokio::time::sleep(Duration::from_millis(1)).await;
        let large = [1, 2].map(|n| spawn(ask(&together, &calls, n, BYTES)));
        for large in large {
            assert_eq!(large.await.expect("it ends").expect("an answer").1, 1);
        }
        assert!(first.await.expect("it ends").is_ok());
        let refused = together.call(&topic(), 7, 1, |_| async { Err(JobError::Conflict) }).await;
        assert!(matches!(refused, Err(JobError::Conflict)));
    }
}
