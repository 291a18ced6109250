//! The runner for the seeds of a random test, on several servers at once; it shows the last steps of a failed one.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;

use super::rig::Rig;

/// The last steps, shared with the report of a failure.
pub type Trace = Arc<Mutex<VecDeque<String>>>;

/// Number of servers and threads: a step waits for Redis half of its time.
const THREADS: u64 = 3;

const STEPS: usize = 30;

/// Reads a number from the environment.
pub fn number(variable: &str) -> Option<u64> {
    Some(std::env::var(variable).ok()?.parse().unwrap_or_else(|e| panic!("read {variable}: {e}")))
}

pub fn note(trace: &Trace, loud: bool, text: String) {
    if loud {
        println!("{text}");
    }
    let mut trace = trace.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if trace.len() >= STEPS {
        trace.pop_front();
    }
    trace.push_back(text);
}

/// The message of a future's panic; `None` without one.
pub async fn panic_of(future: impl Future<Output = ()>) -> Option<String> {
    let reason = AssertUnwindSafe(future).catch_unwind().await.err()?;
    let text = reason.downcast_ref::<String>().cloned();
    Some(text.or_else(|| reason.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
}

/// Calls `run` with every seed, on a rig for each thread: with `usual` many, with those of `DELAYBRIDGE_SEEDS`
/// (`FIRST..END` or a number), or with the one of `DELAYBRIDGE_SEED`.
pub fn all_seeds(
    start: impl AsyncFn() -> Rig + Sync,
    usual: u64,
    run: impl AsyncFn(&mut Rig, u64, Trace, bool) + Sync,
) {
    let one = number("DELAYBRIDGE_SEED");
    let first = one.or(number("DELAYBRIDGE_FIRST_SEED")).unwrap_or(0);
    let end = one.map_or(first + number("DELAYBRIDGE_SEEDS").unwrap_or(usual), |seed| seed + 1);
    let next = AtomicU64::new(first);
    let work = async || {
        let mut rig = start().await;
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            let trace = Trace::default();
            if let Some(reason) = panic_of(run(&mut rig, seed, trace.clone(), one.is_some())).await {
                next.store(end, Ordering::Relaxed);
                let steps = trace.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                let steps: Vec<String> = steps.iter().cloned().collect();
                panic!("seed {seed} failed (DELAYBRIDGE_SEED={seed} replays it):\n{}\n{reason}", steps.join("\n"));
            }
        }
    };
    on_threads((end - first).min(THREADS), work);
}

/// Runs `work` on several threads, each with a runtime of its own.
pub fn on_threads(threads: u64, work: impl AsyncFn() + Sync) {
    std::thread::scope(|scope| {
        let block_on = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(work());
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(block_on)).collect();
        for thread in threads {
            if let Err(reason) = thread.join() {
                std::panic::resume_unwind(reason);
            }
        }
    });
}
