//! The telemetry for operators: logs, metrics, probes.
//!
//! The pipeline reports to [`events`]; each call writes the log line, counts, and updates the state behind the probes.
//! It takes plain values only: no stage, no type of the pipeline.
//!
//! - [`metrics`] has the families of the [`catalogue`], which documents them; [`labels`] has the values of their labels.
//! - [`status`] is the state behind the probes and the overview.
//! - [`logging`] sets the log up; [`recent`] has the rates of the last minute, [`history`] the last hour and day, [`tail`] the latest events of single elements,
//!   [`attempts`] those that failed.

pub mod attempts;
pub mod catalogue;
mod descriptors;
pub mod events;
mod facts;
mod family;
pub mod history;
pub mod jobs;
pub mod labels;
pub mod logging;
pub mod metrics;
pub mod peer;
pub mod recent;
pub mod status;
pub mod tail;
mod throttle;
