//! The ordered end: unready, stop claiming, let deliveries finish, give up what does not, write the verdicts.
//!
//! Three points in time: until `abandon` sinks may answer; then what is still with them is released; until `give_up`
//! verdicts are written; what is left then comes back by its lease.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::clock::Instant;
use crate::pipeline::process::Process;
use crate::pipeline::seats::{Counts, Seats};
use crate::pipeline::watch::holders;

/// Time between two lines about what is still in flight.
const PROGRESS: Duration = Duration::from_secs(5);

/// Drains within `timeout`; returns the exit code.
pub(super) async fn run(
    all: &[Arc<Seats>],
    process: &Process,
    tasks: &mut JoinSet<&'static str>,
    signal: Option<&str>,
    timeout: Duration,
) -> u8 {
    let started = Instant::now();
    let held = |seats: &Arc<Seats>| seats.at_work().iter().map(|(_, queue)| queue.leases.len() as u64).sum::<u64>();
    let in_flight = || all.iter().map(held).sum::<u64>();
    let counts = || all.iter().map(|seats| seats.counts()).fold(Counts::default(), Counts::plus);
    let before = counts();
    // The lease keepers go on until the end.
    let keepers = all.len();
    process.events.stopping(signal.unwrap_or("a failure"), in_flight(), timeout);
    process.stopping.cancel();

    // A fifth of the time is kept for releasing and for the verdicts, a tenth for closing what is left.
    let (abandon_at, give_up_at) = (timeout.mul_f64(0.7), timeout.mul_f64(0.9));
    let idle = async {
        // Claimers first: a claim that was on its way brings its elements into the drain.
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
            // Also after the machine was suspended over both points: a release is quick, and leaves nothing behind.
            give_up_at = give_up_at.max(passed.saturating_add(timeout.mul_f64(0.1)));
        }
        if passed >= give_up_at {
            break;
        }
        let next = if passed >= abandon_at { give_up_at } else { abandon_at.min(next_line.max(passed)) };
        // Order: done is done. The timer may be left at any time, `idle` is only looked at.
        tokio::select! {
            biased;
            () = &mut idle => break,
            () = tokio::time::sleep(next.saturating_sub(passed).max(Duration::from_millis(1))) => {}
        }
        if started.elapsed() >= next_line {
            next_line += PROGRESS;
            process.events.draining(in_flight(), timeout.saturating_sub(started.elapsed()), &holders(all));
        }
    }
    process.abandon.cancel();
    process.give_up.cancel();
    drop(idle);
    // A claimer that is still here is waiting for the reply of a claim, which may have taken something. They have one task
    // together.
    let claimers = process.claimers.load(Ordering::Relaxed);
    let waiting = tasks.len().saturating_sub(keepers).max(claimers);
    let unknown = process.not_found.load(Ordering::Relaxed) + waiting as u64;
    for seats in all {
        seats.places().into_iter().filter_map(|place| seats.events(place)).for_each(|events| events.sum_up(true));
    }
    process.events.sum_up(true);
    let left_over = in_flight() + unknown;
    let now = counts();
    process.events.stopped(now.settled - before.settled, now.released - before.released, left_over);
    if left_over == 0 { super::OK } else { super::LEFTOVERS }
}
