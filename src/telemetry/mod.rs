//! What the operator sees: logs, metrics, probes.
//!
//! The pipeline reports to [`events`] what happened; the line in the log, the counter and the state that the probes show
//! all come out of that one call. Knows plain values only: no stage, no pipeline type.

pub mod catalogue;
pub mod events;
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
