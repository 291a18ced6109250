//! The claimers of the queues at work: one task for all starts one for each queue that is woken, and puts to rest the
//! queues whose claimers have nothing to do.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Fuse};
use tokio::task::{JoinError, JoinSet};

use crate::active::ActiveQueue;
use crate::claim::{claimer, safety_poll};
use crate::registry::QueueRegistry;

/// While all queues are looked at: so many at a time, so often. What is at work at once then stays small, and ten thousand
/// are looked at within a second.
const LOOKS: usize = 128;
/// See [`LOOKS`].
const PACE: Duration = Duration::from_millis(10);

/// Runs claimers until the process stops. A claimer that does not beat for as long as `stuck` is stuck.
pub async fn run(registry: Arc<QueueRegistry>, stuck: Duration) {
    let process = registry.process().clone();
    let mut claimers = JoinSet::new();
    let start = |claimers: &mut JoinSet<EndedClaimer>, place: usize, queue: Arc<ActiveQueue>| {
        let heartbeat = process.events.status().heartbeat(format!("claimer {}", queue.spec.id), stuck);
        process.claimers.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let claimer = queue.tasks.track_future(claimer::until_rest(queue.clone(), heartbeat, registry.clone()));
        claimers.spawn(claim(place, queue, claimer));
    };
    let mut looking = false;
    let mut pause = Duration::ZERO;
    let mut overdue: Fuse<BoxFuture<'_, ()>> = Fuse::terminated();
    loop {
        let next_look = async {
            while !registry.server().is_up() {
                tokio::time::sleep(PACE).await;
            }
            tokio::time::sleep(pause).await;
        };
        // Order: the end goes first, and what has work before what is only looked at. All of it may be left at any time: a
        // bell that was not heard rings again.
        tokio::select! {
            biased;
            () = process.stopping.cancelled() => break,
            Some(ended) = claimers.join_next(), if !claimers.is_empty() => {
                if let Some((place, queue)) = check(&registry, ended)
                    && !registry.rest(place, &queue)
                {
                    start(&mut claimers, place, queue);
                }
            }
            () = registry.woken() => looking = true,
            () = &mut overdue => {}
            () = next_look, if looking => {
                // What is overdue in the last of thousands does not wait for the looks at the others.
                if pause.is_zero() {
                    let places = registry.to_look_at();
                    if places.len() > LOOKS {
                        overdue = safety_poll::find_overdue(registry.clone(), places, LOOKS, PACE).boxed().fuse();
                    }
                }
                looking = registry.look_at_some(LOOKS);
                pause = if looking { PACE } else { Duration::ZERO };
            }
        }
        for (place, queue) in registry.take_woken() {
            start(&mut claimers, place, queue);
        }
    }
    while let Some(ended) = claimers.join_next().await {
        check(&registry, ended);
    }
}

/// A queue whose claimer has ended, and its place: that may have another queue by now.
type EndedClaimer = (usize, Arc<ActiveQueue>);

/// Wraps a claimer so that its end is counted. Not an async block, which would hold the claimer twice.
fn claim(
    place: usize,
    queue: Arc<ActiveQueue>,
    claimer: impl Future<Output = ()>,
) -> impl Future<Output = EndedClaimer> {
    claimer.map(move |()| {
        queue.process.claimers.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        (place, queue)
    })
}

/// Returns the queue whose claimer has ended. One that panicked ends the process.
fn check(registry: &QueueRegistry, ended: Result<EndedClaimer, JoinError>) -> Option<EndedClaimer> {
    match ended {
        Ok(ended) => Some(ended),
        Err(problem) => {
            registry.process().events.task_ended("claimer", &problem.to_string());
            registry.process().failed.cancel();
            None
        }
    }
}
