//! The words that all parts of delaybridge share: what an element is called, how its delivery ends, what time it is.
//!
//! Plain data and pure functions. This crate knows no Redis, no broker and no configuration file, and depends on no other
//! layer. Only [`clock`] asks the operating system for anything.
//!
//! - [`message`]: identity, origin and outcome of an element; [`metric`] and [`codes`]: names of metrics and error codes.
//! - [`clock`]: the one place that reads a clock; [`backoff`]: waits before the next attempt.
//! - [`template`]: texts with holes, filled for each element; [`route`]: body and headers of a message, made of them.
//! - [`json`]: JSON of strangers, as spans of its text; [`log`]: the macros for log lines.

pub mod backoff;
pub mod clock;
pub mod codes;
pub mod json;
pub mod log;
pub mod message;
pub mod metric;
pub mod route;
pub mod template;
