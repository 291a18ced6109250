//! Turns of calls that keep Redis busy for long: batches of jobs, and large bodies.
//!
//! A batch is one script, because all of its jobs are added or none, and Redis does nothing else meanwhile: some milliseconds for a
//! thousand jobs, and as long for megabytes. Those of a caller with many connections would wait in Redis one behind the other, and
//! every other call behind all of them. So only as much as the largest batch is under way at a time, and of each caller one waits for
//! that: a small call waits for one script, and a large one for one of each other caller.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::problem::{Problem, ProblemKind};
use super::room::Who;
use delaybridge_jobs::{MAX_BATCH, NewJob};

/// Bytes that keep Redis busy for as long as a job does.
const BYTES_OF_A_JOB: usize = 4 << 10;
/// Weight of a single job that needs no turn.
const LIGHT: usize = 16;
/// The time that a call waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);

/// The heavy calls that may be under way. Clones share it.
#[derive(Debug, Clone)]
pub struct Turns(Arc<SharedTurns>);

#[derive(Debug)]
struct SharedTurns {
    /// The weight of the calls of all callers.
    all: Arc<Semaphore>,
    /// The calls that are under way.
    calls: TaskTracker,
    /// That of each caller that has any.
    callers: Mutex<HashMap<Who, Weak<Semaphore>>>,
}

/// The turn of one call, until it is dropped.
#[derive(Debug)]
struct Turn {
    _all: OwnedSemaphorePermit,
    /// The caller's weight, which lives as long as this.
    _caller: (Arc<Semaphore>, OwnedSemaphorePermit),
}

/// The weight of a call that adds these jobs; `None` for one that needs no turn. A job alone goes together with others of its topic.
pub fn weight(jobs: &[NewJob]) -> Option<usize> {
    let bytes: usize = jobs.iter().map(|job| job.body.len()).sum();
    let weight = jobs.len() + bytes / BYTES_OF_A_JOB;
    (jobs.len() > 1 || weight > LIGHT).then(|| weight.min(MAX_BATCH))
}

impl Default for Turns {
    fn default() -> Self {
        Turns(Arc::new(SharedTurns {
            all: Arc::new(Semaphore::new(MAX_BATCH)),
            calls: TaskTracker::new(),
            callers: Mutex::default(),
        }))
    }
}

impl Turns {
    /// Makes a call of this weight, at most [`MAX_BATCH`], when it is its turn. The turn ends with the call, which goes on if its
    /// client is gone: Redis has it then.
    ///
    /// # Errors
    /// The turn does not come for a while; or the call panicked, a defect of this program.
    pub async fn run<T: Send + 'static>(
        &self,
        who: &Who,
        weight: usize,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Problem> {
        let turn = self.take(who, weight).await?;
        let done = self.0.calls.spawn(async move {
            let done = call.await;
            drop(turn);
            done
        });
        done.await.map_err(|_| {
            Problem::new(ProblemKind::Unexpected, "add the jobs: this program has a defect; its log has the place")
        })
    }

    /// Waits for the turn of a call.
    async fn take(&self, who: &Who, weight: usize) -> Result<Turn, Problem> {
        let weight = u32::try_from(weight).unwrap_or(u32::MAX);
        let caller = self.of(who);
        let turn = async {
            // The semaphores are never closed.
            let of_caller = caller.clone().acquire_many_owned(weight).await.ok()?;
            let of_all = self.0.all.clone().acquire_many_owned(weight).await.ok()?;
            Some((of_caller, of_all))
        };
        match timeout(PATIENCE, turn).await {
            Ok(Some((of_caller, of_all))) => Ok(Turn { _all: of_all, _caller: (caller, of_caller) }),
            Ok(None) | Err(_) => {
                let detail = "add the jobs: batches and large bodies that came before are still under way; nothing was added; send it again";
                Err(Problem::new(ProblemKind::TooMany, detail).retry_after(Duration::from_secs(1)))
            }
        }
    }

    fn of(&self, who: &Who) -> Arc<Semaphore> {
        let mut callers = self.0.callers.lock();
        if let Some(caller) = callers.get(who).and_then(Weak::upgrade) {
            return caller;
        }
        callers.retain(|_, caller| caller.strong_count() > 0);
        let caller = Arc::new(Semaphore::new(MAX_BATCH));
        callers.insert(who.clone(), Arc::downgrade(&caller));
        caller
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(name: &str) -> Who {
        Who::Token(name.into())
    }

    #[test]
    fn small_jobs_have_no_weight() {
        let job = |bytes: usize| NewJob::new(vec![b'x'; bytes]);
        assert_eq!((weight(&[job(60_000)]), weight(&[job(1), job(1)])), (None, Some(2)));
        assert_eq!((weight(&[job(1 << 20)]), weight(&[job(8 << 20)])), (Some(257), Some(MAX_BATCH)));
    }

    #[tokio::test(start_paused = true)]
    async fn another_callers_batch_waits_for_one_of_each_caller() {
        let turns = Turns::default();
        let order = Mutex::new(Vec::new());
        let names = (0..20).map(|_| "greedy").chain(["other"]);
        let (turns, order) = (&turns, &order);
        let batches = names.map(|name| async move {
            let _turn = turns.take(&who(name), MAX_BATCH).await.unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
            order.lock().push(name);
        });
        futures_util::future::join_all(batches).await;
        let order = order.lock().clone();
        assert_eq!(order.iter().position(|name| *name == "other"), Some(1), "{order:?}");
        assert!(turns.0.callers.lock().values().all(|caller| caller.strong_count() == 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_client_is_gone_keeps_its_turn() {
        let turns = Turns::default();
        let who = who("a");
        let call = || turns.run(&who, MAX_BATCH, async { tokio::time::sleep(Duration::from_secs(3)).await });
        let began = tokio::time::Instant::now();
        assert!(timeout(Duration::from_secs(1), call()).await.is_err(), "it is given up");
        call().await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 6, "one after the other");
    }

    #[tokio::test(start_paused = true)]
    async fn small_batches_go_together_and_a_turn_that_does_not_come_is_refused() {
        let turns = Turns::default();
        let mut under_way = Vec::new();
        for _ in 0..10 {
            under_way.push(turns.take(&who("a"), MAX_BATCH / 10).await.unwrap());
        }
        let late = turns.take(&who("b"), MAX_BATCH / 10).await.unwrap_err();
        assert_eq!((late.kind, late.retry_after), (ProblemKind::TooMany, Some(Duration::from_secs(1))));
        under_way.pop();
        assert!(turns.take(&who("b"), MAX_BATCH / 10).await.is_ok());
    }
}
