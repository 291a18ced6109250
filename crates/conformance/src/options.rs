//! The options of a run.

use std::ffi::OsString;
use std::time::Duration;

use crate::statements::Number;

/// The options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The producer: a program and its arguments.
    pub command: Vec<OsString>,
    /// The server for the checks, as the producer gets it.
    pub redis_url: String,
    /// The time limit for an answer of the producer.
    pub limit: Duration,
    /// The seed of the random values; one is drawn if there is none.
    pub seed: Option<u64>,
    /// Bytes of the largest payload that is offered.
    pub large: usize,
    /// Look at these statements alone; at all if there are none.
    pub only: Vec<String>,
    /// Also a failover, on servers of the kit's own.
    pub failover: bool,
}

impl Options {
    /// Returns whether the run looks at this statement.
    pub(crate) fn asks_for(&self, number: Number) -> bool {
        self.only.is_empty() || self.only.iter().any(|asked| asked == number)
    }

    /// Returns whether the run looks at any of these statements.
    pub(crate) fn asks_for_any(&self, numbers: &[Number]) -> bool {
        numbers.iter().any(|number| self.asks_for(number))
    }
}
