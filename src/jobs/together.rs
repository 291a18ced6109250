//! Calls of several clients in one: what comes while two calls on a topic are outstanding goes together in the next one.
//!
//! An idle topic loses no time by it: its call goes at once, alone. Under load a call carries what has come during the ones before
//! it, so that Redis pays once for what each call costs: the round trip, the start of the script, the checks of all keys. Two are
//! outstanding, so that Redis works on one while this process handles the answer to the other.
//!
//! No task does it. All callers of a call wait for the same future, and any of them drives it: one that goes away takes
//! nothing from the others. With the last of them the call goes, so that nothing is kept.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;

use super::error::JobError;
use super::name::Topic;
use crate::link::BadReply;

/// Most items of one call.
const MOST: usize = 100;
/// Most bytes of one call; a larger item goes alone.
const BYTES: usize = 256 << 10;
/// Most calls of a topic that are outstanding while another one waits.
const OUTSTANDING: usize = 2;

type Answers<A> = Arc<Result<Vec<Result<A, JobError>>, JobError>>;
type Call<A> = Shared<BoxFuture<'static, Answers<A>>>;

/// Calls of one kind, by topic.
pub(super) struct Together<T, A> {
    lines: Mutex<HashMap<Topic, Line<T, A>>>,
}

/// The calls of a topic that are not done, in the order in which they began to gather. The last one may still wait.
struct Line<T, A> {
    /// The number of the next call.
    next: u64,
    calls: VecDeque<Gathered<T, A>>,
}

/// A call, and what is in it.
struct Gathered<T, A> {
    number: u64,
    /// Whether it has not been sent, so that more may join.
    open: bool,
    items: Arc<Mutex<Items<T>>>,
    /// Its callers keep it, and the call that waits for it.
    call: WeakShared<BoxFuture<'static, Answers<A>>>,
}

/// Leaves the line when the call is done, or when its last caller has gone.
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

    /// Sends an item of so many bytes, with others of the topic. `send` answers each in their order.
    ///
    /// # Errors
    ///
    /// That of the item, or of the whole call.
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
            // One whose last caller is just going away is none.
            if room && let Some(call) = last.call.upgrade() {
                items.all.push(item);
                items.bytes += bytes;
                return (call, items.all.len() - 1);
            }
        }
        // Behind the first of those that are outstanding, and never behind another that waits: without a Redis each takes a second.
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
        // It was not polled, so that there is one.
        if let Some(weak) = call.downgrade() {
            line.calls.push_back(Gathered { number, open: true, items, call: weak });
        }
        (call, 0)
    }

    /// From here on nothing joins the call.
    fn close(&self, topic: &Topic, number: u64) {
        let mut lines = self.lines.lock();
        let calls = lines.get_mut(topic).map(|line| &mut line.calls);
        if let Some(call) = calls.into_iter().flatten().find(|call| call.number == number) {
            call.open = false;
        }
    }
}

impl<T, A> Together<T, A> {
    /// The call is over. A topic without calls is forgotten.
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

    /// Answers each item with the number of the call, and how many were in it; takes ten milliseconds.
    fn ask(
        together: &Arc<Together<u32, (usize, usize)>>,
        calls: &Arc<AtomicUsize>,
        item: u32,
        bytes: usize,
    ) -> impl Future<Output = Result<(usize, usize), JobError>> + use<> {
        let (together, calls) = (together.clone(), calls.clone());
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
        let (together, calls) = (Together::new(), Arc::default());
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

    /// One that goes away, also the one that began the call, takes nothing from the others.
    #[tokio::test(start_paused = true)]
    async fn a_caller_that_goes_away_leaves_the_call_to_the_others() {
        let (together, calls) = (Together::new(), Arc::default());
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
        let (together, calls) = (Together::new(), Arc::default());
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
        let (together, calls) = (Together::new(), Arc::default());
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
