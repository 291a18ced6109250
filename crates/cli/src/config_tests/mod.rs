//! Tests of a configuration: the daemon's decisions about elements, found out without any server.
//!
//! A file of cases ([`file`]) names elements and what is expected of them. Each element ([`element`]) takes the way that the daemon
//! takes with one that it claimed: the source opens it, the codec decodes it, the templates are filled, the judge gives its verdict
//! ([`decide`]). Those are the daemon's own functions. What differs from the expectation is the result ([`compare`]).

mod compare;
mod decide;
mod element;
mod file;
mod keys;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

pub use self::compare::Mismatch;
pub use self::element::Given;
pub use self::file::{Suite, read};
use delaybridge_core::message::{About, Class};
use delaybridge_model::QueueSpec;

/// One case.
#[derive(Debug, Clone)]
pub struct Case {
    /// The name.
    pub name: String,
    /// The line of the file on which it begins.
    pub line: u64,
    /// The queue.
    pub queue: Arc<QueueSpec>,
    /// The element.
    pub given: Given,
    /// Attempts that have counted before.
    pub attempts: u32,
    /// Sinks that fail, each with its failure; the others confirm.
    pub fails: Vec<Failing>,
    /// The expected messages and end of the element.
    pub expected: Expected,
}

/// A sink that fails.
#[derive(Debug, Clone)]
pub struct Failing {
    /// The index among the queue's destinations.
    pub place: usize,
    /// The class of the failure.
    pub class: Class,
    /// The part of the sink that the failure is about.
    pub about: About,
    /// Whether the element may have left the process.
    pub sent: bool,
    /// Whether the sink fails for all elements.
    pub outage: bool,
    /// The time for which the destination has refused elements.
    pub lasted: Duration,
    /// Whether the destination has worked before.
    pub worked: bool,
}

/// The expected messages and end of an element. Only given values are compared.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// Every message; `None` if the case says nothing about them.
    pub deliver: Option<Vec<ExpectedMessage>>,
    /// The verdict; `None`: it is delivered.
    pub verdict: Option<ExpectedVerdict>,
}

/// A message as a case describes it.
#[derive(Debug, Clone)]
pub struct ExpectedMessage {
    /// The sink's name.
    pub sink: String,
    /// Destination keys with their values.
    pub destination: Vec<(String, String)>,
    /// Headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Option<ExpectedBody>,
}

/// A body as a case describes it.
#[derive(Debug, Clone)]
pub enum ExpectedBody {
    /// Exactly these bytes.
    Bytes(Bytes),
    /// This JSON value, in any spelling.
    Json(serde_json::Value),
}

/// A verdict as a case describes it.
#[derive(Debug, Clone)]
pub enum ExpectedVerdict {
    /// A dead letter.
    Dead {
        /// The reason.
        reason: Option<&'static str>,
        /// The sink that decides it.
        sink: Option<String>,
        /// The code.
        code: Option<String>,
    },
    /// A hold of the queue.
    Hold {
        /// The sink.
        sink: Option<String>,
        /// The code.
        code: Option<String>,
    },
    /// Another attempt.
    Retry {
        /// The earliest time.
        earliest: Option<Duration>,
        /// The latest time.
        latest: Option<Duration>,
        /// Whether the attempt counts.
        counted: Option<bool>,
    },
    /// A wait that does not count as an attempt.
    Wait,
    /// Removal, because no destination is meant for it.
    Skipped,
}

/// The result of one case.
#[derive(Debug, Clone, Serialize)]
pub struct CaseResult {
    /// The file.
    pub file: String,
    /// The line on which the case begins.
    pub line: u64,
    /// The case.
    pub name: String,
    /// The queue.
    pub queue: String,
    /// Whether everything is as expected.
    pub ok: bool,
    /// Everything that is not as expected.
    pub differences: Vec<Mismatch>,
}

impl Suite {
    /// Decides every case, in the order of the file.
    pub fn run(&self) -> Vec<CaseResult> {
        let outcome = |case: &Case| {
            let differences = compare::compare(case, &decide::decide(case));
            let file = self.file.clone();
            let name = case.name.clone();
            let queue = case.queue.id.to_string();
            CaseResult { file, line: case.line, name, queue, ok: differences.is_empty(), differences }
        };
        self.cases.iter().map(outcome).collect()
    }
}
