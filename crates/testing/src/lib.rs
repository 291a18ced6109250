//! What tests of several crates share, and no release binary has.
//!
//! [`memory`] is a queue and its ledger without a server, on the clock of the test; [`fake`] a sink with scripted answers.
//! [`store`] and [`sink`] are the contracts of queues and of sinks, as tests that every implementation passes: the in-memory
//! one and the scripts in Redis, the fake sink and each kind.

#![allow(async_fn_in_trait, reason = "rigs are used by the tests of their own crate, on one thread")]

pub mod fake;
pub mod memory;
#[allow(missing_docs, reason = "the name of a clause says what it asks")]
pub mod sink;
#[allow(missing_docs, reason = "the name of a clause says what it asks")]
pub mod store;
