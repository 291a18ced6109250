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

use crate::bench::Check;

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
