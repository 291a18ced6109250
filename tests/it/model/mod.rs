//! The scripts against a model: random histories on a real Redis under a clock that the test sets, and small tests of
//! single promises.
//!
//! A step is a script or something that others do. For each the test works out from the rules what Redis must hold
//! afterwards, and compares all keys. A seed replays exactly: `DELAYBRIDGE_SEED=7 cargo test --test it model` runs one
//! and prints every step, `DELAYBRIDGE_SEEDS=5000` runs more than usual.

mod claims;
mod directed;
mod directed_sweep;
mod full;
mod outsiders;
mod rig;
mod rights;
mod schedule;
mod snapshot;
mod sweeps;
mod verdicts;
mod world;
mod wrong_types;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;

use self::rig::Rig;
use self::world::Trace;

/// How many histories are tried.
const SEEDS: u64 = 500;
/// Servers and threads: a step waits for Redis half of its time.
const THREADS: usize = 3;

fn number(variable: &str) -> Option<u64> {
    Some(std::env::var(variable).ok()?.parse().unwrap_or_else(|e| panic!("read {variable}: {e}")))
}

/// Runs seeds until there are none left or one fails.
async fn work(next: &AtomicU64, end: u64, loud: bool) {
    let mut rig = Rig::start().await;
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return;
        }
        let trace = Trace::default();
        let run = AssertUnwindSafe(schedule::run(&mut rig, seed, trace.clone(), loud)).catch_unwind();
        if let Err(reason) = run.await {
            next.store(end, Ordering::Relaxed);
            let reason = reason
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| reason.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_default();
            let steps: Vec<String> =
                trace.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).iter().cloned().collect();
            panic!("seed {seed} failed (DELAYBRIDGE_SEED={seed} replays it):\n{}\n{reason}", steps.join("\n"));
        }
    }
}

#[test]
fn random_histories_keep_every_promise_of_the_scripts() {
    let one = number("DELAYBRIDGE_SEED");
    let first = one.unwrap_or(0);
    let end = one.map_or(number("DELAYBRIDGE_SEEDS").unwrap_or(SEEDS), |seed| seed + 1);
    let next = AtomicU64::new(first);
    std::thread::scope(|scope| {
        let threads = (end - first).min(THREADS as u64);
        let threads: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    runtime.block_on(work(&next, end, one.is_some()));
                })
            })
            .collect();
        for thread in threads {
            if let Err(reason) = thread.join() {
                std::panic::resume_unwind(reason);
            }
        }
    });
}
