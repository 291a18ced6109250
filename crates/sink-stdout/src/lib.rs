//! The `stdout` sink: one JSON object a line.
//!
//! One thread owns the stream, because a write to a slow reader blocks. A line is confirmed after it was flushed.

mod config;
mod line;
mod sink;

#[cfg(test)]
mod tests;

pub use config::{KIND, StdoutDestination, StdoutSpec};
pub use sink::StdoutSink;
