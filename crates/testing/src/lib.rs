//! What tests of several crates share, and no release binary has.
//!
//! [`memory`] is a queue and its ledger without a server, on the clock of the test; [`fake`] a sink with scripted answers.
//! [`store`], [`sink`] and [`input`] are the contracts of queues, of sinks and of inputs, as tests that every implementation
//! passes: the in-memory one and the scripts in Redis, the fake sink or input and each kind.

#![allow(async_fn_in_trait, reason = "rigs are used by the tests of their own crate, on one thread")]

pub mod fake;
#[allow(missing_docs, reason = "the name of a clause says what it asks")]
pub mod input;
pub mod memory;
#[allow(missing_docs, reason = "the name of a clause says what it asks")]
pub mod sink;
#[allow(missing_docs, reason = "the name of a clause says what it asks")]
pub mod store;
