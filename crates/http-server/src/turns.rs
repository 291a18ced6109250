//! Turns of calls that keep Redis busy for long. Only so much of them is under way at a time, and of each caller only its part waits
//! for that: a caller with many connections does not keep the others waiting.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::problem::{Problem, ProblemKind};
use super::shares::{CallerShares, Who};

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
    callers: CallerShares,
}

/// The turn of one call, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    _all: OwnedSemaphorePermit,
    caller: CallerTurn,
}

/// The part of a turn that only calls of the same caller wait for, until it is dropped.
#[derive(Debug)]
pub struct CallerTurn {
    /// The caller's weight, which lives as long as this.
    _weight: (Arc<Semaphore>, OwnedSemaphorePermit),
}

impl Turns {
    /// Creates turns for this much weight of all callers at a time, and this much of each.
    pub fn new(all: usize, each: usize) -> Turns {
        let shared = SharedTurns {
            all: Arc::new(Semaphore::new(all)),
            calls: TaskTracker::new(),
            callers: CallerShares::new(each),
        };
        Turns(Arc::new(shared))
    }

    /// Makes a call of this weight when it is its turn. The turn ends with the call, which goes on if its client is
    /// gone: Redis has it then. `what` is attempted, as in `add the job`.
    ///
    /// # Errors
    /// The turn does not come for a while; or the call panicked, a defect of this program.
    pub async fn run<T: Send + 'static>(
        &self,
        (who, weight, what): (&Who, usize, &str),
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Problem> {
        self.run_and_keep((who, weight, what), call).await.map(|(done, _)| done)
    }

    /// Runs a call in turn; what is made of the result belongs to the turn of the caller, as long as that is kept.
    ///
    /// # Errors
    /// As for [`run`](Turns::run).
    pub async fn run_and_keep<T: Send + 'static>(
        &self,
        (who, weight, what): (&Who, usize, &str),
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<(T, CallerTurn), Problem> {
        let turn = self.take(who, weight, what).await?;
        let done = self.0.calls.spawn(async move {
            let done = call.await;
            (done, turn.caller)
        });
        done.await.map_err(|_| {
            Problem::new(ProblemKind::Unexpected, format!("{what}: this program has a defect; its log has the place"))
        })
    }

    /// Waits for the turn of a call of this weight, at most that of each caller.
    ///
    /// # Errors
    /// It does not come for a while.
    pub async fn take(&self, who: &Who, weight: usize, what: &str) -> Result<Turn, Problem> {
        let weight = u32::try_from(weight.min(self.0.callers.each())).unwrap_or(u32::MAX);
        let caller = self.0.callers.of(who);
        let turn = async {
            // The semaphores are never closed.
            let of_caller = caller.clone().acquire_many_owned(weight).await.ok()?;
            let of_all = self.0.all.clone().acquire_many_owned(weight).await.ok()?;
            Some((of_caller, of_all))
        };
        match timeout(PATIENCE, turn).await {
            Ok(Some((of_caller, of_all))) => {
                Ok(Turn { _all: of_all, caller: CallerTurn { _weight: (caller, of_caller) } })
            }
            Ok(None) | Err(_) => {
                let detail = format!(
                    "{what}: large calls that came before are still under way; nothing was done; send it again"
                );
                Err(Problem::new(ProblemKind::TooMany, detail).retry_after(Duration::from_secs(1)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The weight of the largest call.
    const BATCH: usize = 1_000;

    fn who(name: &str) -> Who {
        Who::Token(name.into())
    }

    #[tokio::test(start_paused = true)]
    async fn another_callers_batch_waits_for_one_of_each_caller() {
        let turns = Turns::new(BATCH, BATCH);
        let order = parking_lot::Mutex::new(Vec::new());
        let names = (0..20).map(|_| "greedy").chain(["other"]);
        let turns = &turns;
        let order = &order;
        let batches = names.map(|name| async move {
            let _turn = turns.take(&who(name), BATCH, "add").await.unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
            order.lock().push(name);
        });
        futures_util::future::join_all(batches).await;
        let order = order.lock().clone();
        assert_eq!(order.iter().position(|name| *name == "other"), Some(1), "{order:?}");
        assert!(!turns.0.callers.known().1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_client_is_gone_keeps_its_turn() {
        let turns = Turns::new(BATCH, BATCH);
        let who = who("a");
        let call = || turns.run((&who, BATCH, "add"), async { tokio::time::sleep(Duration::from_secs(3)).await });
        let began = tokio::time::Instant::now();
        assert!(timeout(Duration::from_secs(1), call()).await.is_err(), "it is given up");
        call().await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 6, "one after the other");
    }

    #[tokio::test(start_paused = true)]
    async fn small_batches_go_together_and_a_turn_that_does_not_come_is_refused() {
        let turns = Turns::new(BATCH, BATCH);
        let mut under_way = Vec::new();
        for _ in 0..10 {
            under_way.push(turns.take(&who("a"), BATCH / 10, "add").await.unwrap());
        }
        let late = turns.take(&who("b"), BATCH / 10, "add").await.unwrap_err();
        assert_eq!((late.kind, late.retry_after), (ProblemKind::TooMany, Some(Duration::from_secs(1))));
        under_way.pop();
        assert!(turns.take(&who("b"), BATCH / 10, "add").await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn of_each_caller_there_is_only_its_part_and_what_it_keeps_is_its_own() {
        let turns = Turns::new(10, 3);
        let mut under_way = Vec::new();
        for _ in 0..3 {
            under_way.push(turns.take(&who("a"), 1, "look").await.unwrap());
        }
        assert!(turns.take(&who("a"), 1, "look").await.is_err());
        let others = turns.take(&who("b"), 1000, "look").await.unwrap();
        assert_eq!(turns.0.all.available_permits(), 4);
        drop((under_way, others));
        let ((), kept) = turns.run_and_keep((&who("a"), 3, "look"), async {}).await.unwrap();
        assert_eq!(turns.0.all.available_permits(), 10, "the others do not wait for what is made of it");
        let refused = turns.take(&who("a"), 1, "look at the jobs").await.unwrap_err();
        assert!(refused.detail.starts_with("look at the jobs: large calls"), "{}", refused.detail);
        drop(kept);
        assert!(turns.take(&who("a"), 1, "look").await.is_ok());
    }
}
