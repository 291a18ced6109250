//! The sources of elements: one folder for each kind.
//!
//! A queue has two halves in Redis. What lives under `delaybridge:*` is ours and the same for every kind: leases, retries,
//! dead letters, and the scripts that move elements between them ([`delaybridge_ledger`]). Where due elements are, how they
//! are packed, and what else has to go with them belongs to a foreign program; each kind of it is an implementation of
//! [`Source`](delaybridge_ledger::Source).
//! A script is put together from our half and the half of the source.

pub mod competitors;
pub mod config;
pub mod job_pool;
pub mod jobs;
pub mod kinds;
pub mod redisson;
pub mod zset;

pub use self::config::SourceConfig;
pub use self::kinds::{apart, metric_names, recognise, scripts};
