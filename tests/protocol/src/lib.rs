//! A model of the protocol: producers, Redisson's transfer, daemons that claim, deliver, settle and take over, and a Redis that fails
//! over to an older state. `stateright` explores every order of their steps for two elements and two daemons.
//!
//! The job queue is not part of it, and so neither are priorities: they choose which of the ready jobs a consumer gets first, in one
//! script, and no promise depends on that choice. A queue that delivers a topic claims its jobs by due time, as any elements.
//! `tests/it/jobs/model.rs` has them.
//!
//! It is written from the promises R1, R2, R3 and R9 and from `ARCHITECTURE.md`, and shares no code with the daemon. A [`Hole`] makes
//! one step wrong, and some rule has to notice it.
//!
//! - [`server`] is what Redis holds, with each script as one function.
//! - [`daemon`] is what a process knows: its claims, and what has become of their elements.
//! - [`protocol`] has the steps, the bounds and the rules.

pub mod daemon;
pub mod protocol;
pub mod server;

/// A set of elements: a bit each.
pub type Elements = u8;

/// A step that is done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hole {
    /// A claim is ended by its name although elements have left it to the retries, and is not compared with Redis after a
    /// failover, which may have put them back. Either of the two alone is no hole.
    EndsWholeBlindly,
    /// A verdict names the element only, and not the claim.
    NoFence,
    /// The lease of a claim is removed before its keys.
    LeaseGoesFirst,
    /// A delivery without an answer counts as confirmed.
    UnknownIsSuccess,
    /// A daemon trusts its own clock, which is fast.
    OwnClock,
    /// A takeover keeps the name of the claim.
    KeepsName,
    /// A claim is taken over while its lease runs.
    TakesRunning,
    /// An offer without an answer is sent again without an id.
    OffersBlindly,
    /// A claim without an answer is forgotten, and so is its lease.
    BuriesLostClaim,
    /// A retry is added before its element leaves the claim, in two steps.
    RetriesInTwoSteps,
}

/// Every hole.
pub const HOLES: [Hole; 10] = [
    Hole::EndsWholeBlindly,
    Hole::NoFence,
    Hole::LeaseGoesFirst,
    Hole::UnknownIsSuccess,
    Hole::OwnClock,
    Hole::KeepsName,
    Hole::TakesRunning,
    Hole::OffersBlindly,
    Hole::BuriesLostClaim,
    Hole::RetriesInTwoSteps,
];
