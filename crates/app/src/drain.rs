//! The ordered shutdown: become unready, stop claiming, let deliveries finish, abandon the rest, write the verdicts.
//!
//! It has two deadlines. Until `abandon`, sinks may answer; after it, elements still at a sink are released. Until
//! `give_up`, verdicts are written; elements left after it come back when their leases expire.
//!
//! `abandon` is at 70 % of `shutdown_timeout`, `give_up` at 90 %. Sinks and connections close after that, the HTTP server
//! last. The exit code reports the remaining elements.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;

use super::exit_codes::{LEFTOVERS, OK};
use delaybridge_core::clock::Instant;
use delaybridge_pipeline::process::Process;
use delaybridge_pipeline::registry::{QueueCounts, QueueRegistry};
use delaybridge_pipeline::watch::holders;

/// The part of `shutdown_timeout` in which sinks may answer.
pub(super) const ABANDON: f64 = 0.7;
/// Time between two lines about what is still in flight.
const PROGRESS: Duration = Duration::from_secs(5);

/// Counts the elements in flight.
pub(super) fn in_flight(all: &[Arc<QueueRegistry>]) -> u64 {
    let held = |registry: &Arc<QueueRegistry>| {
        registry.at_work().iter().map(|(_, queue)| queue.leases.len() as u64).sum::<u64>()
    };
    all.iter().map(held).sum()
}

/// Drains within `timeout` and returns the exit code.
pub(super) async fn run(
    all: &[Arc<QueueRegistry>],
    process: &Process,
    tasks: &mut JoinSet<&'static str>,
    signal: Option<&str>,
    timeout: Duration,
) -> u8 {
    let started = Instant::now();
    let counts = || all.iter().map(|registry| registry.counts()).fold(QueueCounts::default(), QueueCounts::plus);
    let before = counts();
    // The lease keepers run until the end.
    let keepers = all.len();
    process.events.stopping(signal.unwrap_or("a failure"), in_flight(all), timeout);
    process.stopping.cancel();

    // 30 % of the time is reserved: 20 % for releases and verdicts, 10 % for closing what is left.
    let abandon_at = timeout.mul_f64(ABANDON);
    let give_up_at = timeout.mul_f64(0.9);
    let idle = async {
        // Claimers first: a claim in progress brings its elements into the drain.
        while tasks.len() > keepers {
            if tasks.join_next().await.is_none() {
                break;
            }
        }
        process.tasks.close();
        process.tasks.wait().await;
    };
    let mut idle = Box::pin(idle);
    let mut give_up_at = give_up_at;
    let mut next_line = PROGRESS;
    loop {
        let passed = started.elapsed();
        if passed >= abandon_at && !process.abandon.is_cancelled() {
            process.abandon.cancel();
            // Also applies when the machine was suspended past both deadlines: a release is quick and leaves nothing
            // behind.
            give_up_at = give_up_at.max(passed.saturating_add(timeout.mul_f64(0.1)));
        }
        if passed >= give_up_at {
            break;
        }
        let next = if passed >= abandon_at { give_up_at } else { abandon_at.min(next_line.max(passed)) };
        // Biased: completion takes priority. The timer can be dropped at any time; `idle` is only polled.
        tokio::select! {
            biased;
            () = &mut idle => break,
            () = tokio::time::sleep(next.saturating_sub(passed).max(Duration::from_millis(1))) => {}
        }
        if started.elapsed() >= next_line {
            next_line += PROGRESS;
            process.events.draining(in_flight(all), timeout.saturating_sub(started.elapsed()), &holders(all));
        }
    }
    process.abandon.cancel();
    process.give_up.cancel();
    drop(idle);
    // A claimer that is still running waits for the reply to a claim, which may have taken elements. All claimers share
    // one task.
    let claimers = process.claimers.load(Ordering::Relaxed);
    let waiting = tasks.len().saturating_sub(keepers).max(claimers);
    let unknown = process.not_found.load(Ordering::Relaxed) + process.left.count() + waiting as u64;
    for registry in all {
        registry.places().into_iter().filter_map(|place| registry.events(place)).for_each(|events| events.sum_up(true));
    }
    process.events.sum_up(true);
    let left_over = all.iter().map(|registry| registry.left_over()).sum::<u64>() + unknown;
    let now = counts();
    process.events.stopped(now.settled - before.settled, now.released - before.released, left_over);
    if left_over == 0 { OK } else { LEFTOVERS }
}
