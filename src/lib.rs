//! delaybridge watches Redisson delayed queues in Redis and forwards every element when it falls due.
//!
//! An element passes through these modules in order:
//!
//! ```text
//! source -> claim -> decode -> route -> deliver -> judge -> settle
//! Redis     lease    codec     templates  sink      retry     Redis
//! ```
//!
//! `decode` is the crate `redisson_codecs`. The crate `ops` has the use cases of operators; the crate `cli` parses arguments and
//! prints.
//!
//! `ARCHITECTURE.md` states the invariants; the numbered guarantees (R1 to R9) in comments and tests are defined there.

pub use delaybridge_app as app;
