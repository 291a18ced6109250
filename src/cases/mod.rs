//! Tests of a configuration: what the daemon would do with an element, found out without any server.
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

pub use self::compare::Difference;
pub use self::element::Given;
pub use self::file::{Suite, read};
use crate::message::{About, Class};
use crate::model::QueueSpec;

/// One case.
#[derive(Debug, Clone)]
pub struct Case {
    /// What it is called.
    pub name: String,
    /// The line of the file that it begins on.
    pub line: u64,
    /// The queue.
    pub queue: Arc<QueueSpec>,
    /// The element.
    pub given: Given,
    /// How many attempts counted before.
    pub attempts: u32,
    /// Sinks that fail, each with its failure; the others confirm.
    pub fails: Vec<Failing>,
    /// What is to become of the element.
    pub expected: Expected,
}

/// A sink that fails.
#[derive(Debug, Clone)]
pub struct Failing {
    /// Its place among the queue's destinations.
    pub place: usize,
    /// How.
    pub class: Class,
    /// What the failure is about.
    pub about: About,
    /// Whether the element may have left the process.
    pub sent: bool,
    /// Nothing else gets through either.
    pub outage: bool,
    /// How long the destination has refused.
    pub lasted: Duration,
    /// Whether it has worked before.
    pub worked: bool,
}

/// What is to become of an element. What is not said is not compared.
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
    /// This value, however it is written.
    Json(serde_json::Value),
}

/// A verdict as a case describes it.
#[derive(Debug, Clone)]
pub enum ExpectedVerdict {
    /// It becomes a dead letter.
    Dead {
        /// The reason.
        reason: Option<&'static str>,
        /// The sink that decides it.
        sink: Option<String>,
        /// The code.
        code: Option<String>,
    },
    /// The queue is held.
    Hold {
        /// The sink.
        sink: Option<String>,
        /// The code.
        code: Option<String>,
    },
    /// It is tried again.
    Retry {
        /// The earliest time.
        earliest: Option<Duration>,
        /// The latest time.
        latest: Option<Duration>,
        /// Whether the attempt counts.
        counted: Option<bool>,
    },
    /// It waits, and nothing counts.
    Wait,
}

/// What came out of one case.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The file.
    pub file: String,
    /// The line that the case begins on.
    pub line: u64,
    /// The case.
    pub name: String,
    /// Its queue.
    pub queue: String,
    /// Whether everything is as expected.
    pub ok: bool,
    /// What is not.
    pub differences: Vec<Difference>,
}

impl Suite {
    /// Decides every case, in the order of the file.
    pub fn run(&self) -> Vec<Outcome> {
        let outcome = |case: &Case| {
            let differences = compare::compare(case, &decide::decide(case));
            let (file, name, queue) = (self.file.clone(), case.name.clone(), case.queue.id.to_string());
            Outcome { file, line: case.line, name, queue, ok: differences.is_empty(), differences }
        };
        self.cases.iter().map(outcome).collect()
    }
}
