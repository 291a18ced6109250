//! What this process has claimed: from the wake-up of the claimer to the elements that its delivery takes over.
//!
//! A [`Claim`] is one lease and one share of the room for all of its elements ([`record`]). A [`ClaimBatch`] brings them to the
//! sinks ([`batch`]). An element becomes a [`ClaimedElement`] of its own ([`held`]) only where it leaves the common way.

pub mod alarm;
pub mod batch;
pub mod claimer;
pub mod claimers;
pub mod expired;
pub mod held;
pub mod lost;
pub mod outstanding;
pub mod pollers;
pub mod prepare;
pub mod record;
pub mod reply;
pub mod returned;

use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};

pub use self::batch::ClaimBatch;
pub use self::held::{ClaimedElement, ElementState};
pub use self::record::Claim;
use crate::pipeline::process::Process;

/// Whether others may be in flight in this process beside an element.
#[derive(Debug, Clone)]
pub enum Isolation {
    /// They may: shared by all elements of a claim.
    Shared(Arc<OwnedRwLockReadGuard<()>>),
    /// Nothing else is in flight: this element may kill the process.
    Alone(Arc<OwnedRwLockWriteGuard<()>>),
}

impl Isolation {
    /// Waits for it. The last thing to wait for before a claim: who has it waits for Redis and sinks only.
    pub async fn of(process: &Process, alone: bool) -> Isolation {
        let guard = process.isolation.clone();
        match alone {
            true => Isolation::Alone(Arc::new(guard.write_owned().await)),
            false => Isolation::Shared(Arc::new(guard.read_owned().await)),
        }
    }
}
