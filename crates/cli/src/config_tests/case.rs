//! A case: an element, and what is expected of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::element::Given;
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
