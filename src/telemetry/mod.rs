//! The telemetry for operators: logs, metrics, probes.
//!
//! The pipeline reports to [`events`]; each call writes the log line, counts, and updates the state behind the probes.
//! It takes plain values only: no stage, no type of the pipeline.

pub mod catalogue;
pub mod events;
mod facts;
mod family;
pub mod http;
pub mod jobs;
pub mod labels;
pub mod logging;
pub mod metrics;
pub mod peer;
pub mod recent;
pub mod status;
pub mod tail;
mod throttle;
