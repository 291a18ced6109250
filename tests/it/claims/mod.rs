//! The scripts of claims as keys, compared with a model: random histories on a real Redis with a clock that the test
//! sets, and small tests of single promises.
//!
//! A step is a call of a daemon or an action of others. For each the test computes by the rules what Redis must contain
//! afterwards, and compares all keys. A seed is reproducible: `DELAYBRIDGE_SEED=7 cargo test --test it claims` runs one
//! and prints every step, `DELAYBRIDGE_SEEDS=5000` runs more than usual, from `DELAYBRIDGE_FIRST_SEED` on. (One in some
//! hundred steps depends on Redis's own random numbers: the number of elements within a limit of bytes is determined by
//! `MEMORY USAGE`, which counts the levels of a skip list.)

mod claim;
mod daemon;
mod deletions;
mod directed;
mod directed_list;
mod directed_settle;
mod directed_sweep;
pub mod elements;
mod full;
mod leases;
mod list;
mod missing_rights;
mod operator;
mod outsiders;
mod planted;
pub mod rig;
mod rights;
pub mod runner;
pub mod schedule;
mod snapshot;
pub mod sweeps;
mod takeover;
mod verdicts;
mod world;
mod wrong_types;

use self::rig::Rig;
use self::runner::Trace;

/// Number of histories.
const SEEDS: u64 = 250;

/// Number of histories that a replica follows.
const REPLICATED: u64 = 20;

#[tokio::test]
async fn a_replica_holds_the_same_after_random_histories() {
    let mut rig = Rig::with_replica().await;
    for seed in 0..REPLICATED {
        schedule::run(&mut rig, None, seed, Trace::default(), false).await;
        rig.check_replica().await;
    }
}

#[test]
fn random_histories_keep_every_promise_of_claims() {
    let run = async |rig: &mut Rig, seed, trace: Trace, loud| schedule::run(rig, None, seed, trace, loud).await;
    runner::all_seeds(Rig::start, SEEDS, run);
}
