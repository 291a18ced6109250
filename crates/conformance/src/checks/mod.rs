//! The checks: each drives the producer through one situation, and looks at what is in Redis afterwards.

mod announce;
mod batch;
mod cancel;
mod clocks;
mod codecs;
mod failover;
mod ids;
mod offers;
mod reschedule;
mod together;
mod wrong_type;

use crate::bench::{Bench, Stop};
use crate::statements::Number;

/// One situation.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// The name of the check, for a failure of all of it.
    pub name: &'static str,
    /// The statements that it looks at.
    pub about: &'static [Number],
    /// Drives it.
    pub run: fn(&mut Bench) -> Result<(), Stop>,
}

/// All checks that need nothing but the server.
pub const CHECKS: &[Check] = &[
    offers::ONE,
    offers::NAMES,
    offers::DUE_TIMES,
    offers::ORDER,
    offers::EQUAL,
    offers::EMPTY,
    offers::ONE_CALL,
    codecs::TEXTS,
    codecs::JSON,
    codecs::LARGE,
    announce::HEADS,
    clocks::PRODUCER,
    clocks::REDIS,
    cancel::BY_HANDLE,
    cancel::BY_VALUE,
    reschedule::MOVE,
    ids::REPEATED,
    ids::LATE,
    batch::BATCH,
    together::TWO,
    wrong_type::SET,
    wrong_type::LIST,
    // What the others left.
    offers::KEYS,
];

pub use failover::FAILOVER;
