//! Lies for the tests of the oracle: each breaks one promise on purpose, so that `tests/chaos` can show that its rules notice.
//!
//! A lie is told between the pipeline and what it talks to: the store of a queue ([`store`]), a sink ([`sink`]), its own
//! configuration ([`spec`]); one of them in its claims. Only debug builds have this module, and tell one lie at a time, by the
//! variable `DELAYBRIDGE_PLANT`. It is no cargo feature: the tests would have to compile everything a second time for it, or
//! build the daemon that all others use with it. `scripts/release/build.sh` looks for the name of the variable in the binary.

mod lie;
mod sink;
mod store;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use self::lie::{Lie, planted};
use self::sink::LyingSink;
use self::store::LyingStore;
use delaybridge_ledger::store::Store;
use delaybridge_model::{Ordered, QueueSpec, RetryPolicy};
use delaybridge_sink::Sink;

/// Returns a store that lies, if this process does. `stopping` ends when the process begins to stop.
pub fn store(store: Arc<dyn Store>, stopping: &CancellationToken) -> Arc<dyn Store> {
    match planted() {
        Some(lie) => Arc::new(LyingStore { store, lie, stopping: stopping.clone() }),
        None => store,
    }
}

/// Returns a sink that lies, if this process does.
pub fn sink(sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
    match planted() {
        Some(lie) => Arc::new(LyingSink { sink, lie }),
        None => sink,
    }
}

/// Returns whether a claim is removed by its name whatever has left it. The one lie that no store can tell: what it
/// breaks is a decision about the claims in hand.
pub fn takes_neighbours_along() -> bool {
    planted() == Some(Lie::NeighbourTakenAlong)
}

/// Returns whether inputs acknowledge messages before Redis has their jobs. Asked where an intake is made, because the
/// pipeline does not know it.
pub fn acknowledges_before_redis() -> bool {
    planted() == Some(Lie::AckBeforeRedis)
}

/// Returns the configuration of a queue, or another one, if this process lies.
pub fn spec(spec: &Arc<QueueSpec>) -> Arc<QueueSpec> {
    let mut other = (**spec).clone();
    match planted() {
        Some(Lie::DeadAtFirstFailure) => other.retry = RetryPolicy { max_attempts: 1, ..*spec.retry }.into(),
        // Where no record has a key, each element has one of its own.
        Some(Lie::OvertakenRetry) => other.order = spec.order.as_ref().map(|_| Ordered::Key(None).into()),
        Some(Lie::WrongRoute) => {
            if let [first, second, ..] = &mut other.to[..] {
                std::mem::swap(&mut first.rules, &mut second.rules);
            }
        }
        _ => return spec.clone(),
    }
    Arc::new(other)
}
