//! delaybridge watches Redisson delayed queues in Redis and forwards every element, at the moment it falls due.
//!
//! The path of an element is the list of modules:
//!
//! ```text
//! source -> claim -> decode -> route -> deliver -> judge -> settle
//! Redis     lease    codec     templates  sink      retry     Redis
//! ```
//!
//! `decode` is the crate `redisson_codecs`. `operate` holds what an operator can do; `cli` parses arguments and prints.
//!
//! `ARCHITECTURE.md` states what must stay true; the numbered promises (R1 to R9) that comments and tests name are there.

pub mod codes;
pub mod config;
pub mod json;
pub mod message;
pub mod metric;
#[doc(hidden)]
pub mod plant;
pub(crate) mod settings;
pub mod template;

pub mod api;
pub mod jobs;
pub mod link;
pub mod route;
pub mod sink;
pub mod source;

pub mod backoff;
pub mod clock;
pub mod pipeline;
pub mod reload;
pub mod spans;
pub mod telemetry;

pub mod cases;
pub mod operate;

pub mod admin;

pub mod app;
pub mod cli;
