//! The guard that lets one element be alone in flight.
//!
//! An element may kill the process each time it is delivered. From the third expiry in a row on, a takeover takes one
//! element, and nothing else of the process is in flight beside it. After ten expiries it is a dead letter without another
//! delivery. A retry or a release resets the count.

use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};

use crate::process::Process;

/// Whether others may be in flight in this process beside an element.
#[derive(Debug, Clone)]
pub enum Isolation {
    /// Others may be in flight: shared by all elements of a claim.
    Shared(Arc<OwnedRwLockReadGuard<()>>),
    /// Nothing else is in flight: this element may kill the process.
    Alone(Arc<OwnedRwLockWriteGuard<()>>),
}

impl Isolation {
    /// Waits for the guard. The last wait before a claim: the holder waits for Redis and sinks only.
    pub async fn of(process: &Process, alone: bool) -> Isolation {
        let guard = process.isolation.clone();
        if alone {
            Isolation::Alone(Arc::new(guard.write_owned().await))
        } else {
            Isolation::Shared(Arc::new(guard.read_owned().await))
        }
    }
}
