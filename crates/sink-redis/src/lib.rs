//! The `redis` sink: pushes to lists, appends to streams, on a server of its own or the source's.
//!
//! Elements are batched into pipelines by one worker; each has its own answer. `exactly_once` is not here: there push
//! and settle are one script of the source. Runs of elements in order go by themselves (`run`).

mod command;
mod config;
mod errors;
mod once;
mod run;
mod sink;
mod target;
mod worker;

#[cfg(test)]
mod tests;

pub use config::{KIND, RedisSpec};
pub use sink::RedisSink;
pub use target::{KeyTarget, KeyValue, RedisDestination};
