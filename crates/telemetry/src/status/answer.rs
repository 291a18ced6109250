//! The answers of the probes: the reasons in them, and their bounded lists.

use serde_json::{Map, Value, json};

use delaybridge_core::clock::Instant;

/// Maximum number of queues and sinks that a readiness answer names; the rest is counted.
pub(super) const LISTED: usize = 100;

/// The reason why a queue or a sink is stopped. Reasons with equal codes are equal, even if their texts differ:
/// repeated attempts fail with different messages, which is not news.
#[derive(Clone, Debug, Eq)]
pub struct Reason {
    /// The code that distinguishes reasons.
    pub code: String,
    /// The text for operators.
    pub text: String,
    /// The sink that it concerns, of a hold.
    pub sink: Option<String>,
}

impl PartialEq for Reason {
    fn eq(&self, other: &Reason) -> bool {
        self.code == other.code
    }
}

/// The answer to a probe.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Whether the status is 200, else 503.
    pub ok: bool,
    /// The body.
    pub body: Value,
}

/// Returns the age of a state, in whole seconds.
pub(super) fn age(since: Instant) -> u64 {
    since.elapsed().as_secs()
}

/// The named entries of an answer, at most [`LISTED`].
#[derive(Default)]
pub(super) struct List {
    pub(super) entries: Map<String, Value>,
    pub(super) count: usize,
}

impl List {
    /// Adds an entry, which is built only if it is listed.
    pub(super) fn add(&mut self, name: &str, entry: impl FnOnce() -> Value) {
        self.count += 1;
        if self.count <= LISTED {
            self.entries.insert(name.to_owned(), entry());
        }
    }

    /// Returns the list as JSON, with the numbers of all and of unlisted entries.
    pub(super) fn close(self, total: usize, word: &str) -> Value {
        let unlisted = self.count - self.entries.len();
        json!({ "total": total, word: self.count, "reasons": self.entries, "not_listed": unlisted })
    }
}
