//! Lies for the tests of the oracle: each breaks one promise on purpose, so that `tests/chaos` can show that its rules notice.
//!
//! A lie is told between the pipeline and what it talks to: the store of a queue ([`store`]), a sink ([`sink`]), its own
//! configuration ([`spec`]); one of them in its claims. Only debug builds have this module, and tell one lie at a time, by the variable `DELAYBRIDGE_PLANT`.
//! It is no cargo feature: the tests would have to compile everything a second time for it, or build the daemon that all others
//! use with it. `scripts/release/build.sh` looks for the name of the variable in the binary.

mod sink;
mod store;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use self::sink::LyingSink;
use self::store::LyingStore;
use crate::config::{Ordered, QueueSpec, RetryPolicy};
use crate::sink::Sink;
use crate::source::store::Store;

/// A promise that a daemon breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Elements are confirmed before the sink has answered.
    SettleBeforeAck,
    /// An element that goes back undelivered counts as delivered.
    AckOnDrop,
    /// All claims of all daemons have one name.
    ClaimWithoutFence,
    /// Elements are delivered up to 50 ms before they are due.
    Early,
    /// A byte beyond the first 4 KB is another one.
    FlippedByte,
    /// A failed attempt is written as a success.
    SwallowedRetry,
    /// Elements in flight at SIGTERM are left as they are, and not reported.
    ForgottenAtShutdown,
    /// The first counted failure makes a dead letter.
    DeadAtFirstFailure,
    /// Delivered elements are not counted.
    SkippedCounter,
    /// Every delivery says that it is the first attempt.
    DroppedAttempt,
    /// A lease lasts a thousand times as long as it should.
    EndlessLease,
    /// A claim without an answer is made again under another name, and not looked for.
    ResentScript,
    /// In a queue in order, no element waits for another.
    OvertakenRetry,
    /// The last confirmation of a claim removes it by its name whatever has left it, and it is not compared after a failover.
    NeighbourTakenAlong,
}

/// The lies by their names in the variable, as the documentation has them.
const LIES: [(&str, Lie); 14] = [
    ("settle_before_ack", Lie::SettleBeforeAck),
    ("ack_on_drop", Lie::AckOnDrop),
    ("claim_without_fence", Lie::ClaimWithoutFence),
    ("early", Lie::Early),
    ("flipped_byte", Lie::FlippedByte),
    ("swallowed_retry", Lie::SwallowedRetry),
    ("forgotten_at_shutdown", Lie::ForgottenAtShutdown),
    ("dead_at_first_failure", Lie::DeadAtFirstFailure),
    ("skipped_counter", Lie::SkippedCounter),
    ("dropped_attempt", Lie::DroppedAttempt),
    ("endless_lease", Lie::EndlessLease),
    ("resent_script", Lie::ResentScript),
    ("overtaken_retry", Lie::OvertakenRetry),
    ("neighbour_taken_along", Lie::NeighbourTakenAlong),
];

/// The lie that this process tells.
fn planted() -> Option<Lie> {
    static PLANTED: std::sync::LazyLock<Option<Lie>> = std::sync::LazyLock::new(|| {
        let name = std::env::var("DELAYBRIDGE_PLANT").ok()?;
        LIES.into_iter().find_map(|(known, lie)| (known == name).then_some(lie))
    });
    *PLANTED
}

/// A store that lies, if this process does. `stopping` ends when the process begins to stop.
pub fn store(store: Arc<dyn Store>, stopping: &CancellationToken) -> Arc<dyn Store> {
    match planted() {
        Some(lie) => Arc::new(LyingStore { store, lie, stopping: stopping.clone() }),
        None => store,
    }
}

/// A sink that lies, if this process does.
pub fn sink(sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
    match planted() {
        Some(lie) => Arc::new(LyingSink { sink, lie }),
        None => sink,
    }
}

/// Whether a claim is removed by its name whatever has left it. The one lie that no store can tell: what it breaks is a decision
/// about the claims in hand.
pub fn takes_neighbours_along() -> bool {
    planted() == Some(Lie::NeighbourTakenAlong)
}

/// The configuration of a queue, or another one, if this process lies.
pub fn spec(spec: &Arc<QueueSpec>) -> Arc<QueueSpec> {
    let mut other = (**spec).clone();
    match planted() {
        Some(Lie::DeadAtFirstFailure) => other.retry = RetryPolicy { max_attempts: 1, ..*spec.retry }.into(),
        // Where no record has a key, each element has one of its own.
        Some(Lie::OvertakenRetry) => other.order = spec.order.as_ref().map(|_| Ordered::Key(None).into()),
        _ => return spec.clone(),
    }
    Arc::new(other)
}
