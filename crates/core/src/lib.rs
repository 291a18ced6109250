//! The types that all parts of delaybridge share: the identity of an element, the outcome of its delivery, the time.
//!
//! Plain data and pure functions. This crate does not depend on Redis, brokers or the configuration file, nor on any
//! other layer. Only [`clock`] calls the operating system.
//!
//! - [`message`]: identity, origin and outcome of an element; [`metric`] and [`codes`]: names of metrics, error codes.
//! - [`clock`]: the only reader of clocks; [`backoff`]: the waits before the next attempt.
//! - [`condition`]: tests of elements.
//! - [`template`]: texts with placeholders, filled for each element.
//! - [`carried`]: a broker's message as the body of a job, with its address, headers and properties.
//! - [`forecast`]: the simulation of what falls due against a rate.
//! - [`json`]: untrusted JSON, as spans of its text; [`log`]: the macros for log lines.
//! - [`unordered`]: many futures in one task.

pub mod backoff;
pub mod carried;
pub mod clock;
pub mod codes;
pub mod condition;
pub mod forecast;
pub mod json;
pub mod log;
pub mod message;
pub mod metric;
pub mod template;
pub mod unordered;
