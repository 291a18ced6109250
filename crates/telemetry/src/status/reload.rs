//! The state of configuration reloads. After a refusal the previous configuration stays in use, so it is no reason to
//! be unready.

use serde::Serialize;
use serde_json::{Value, json};

use super::answer::{LISTED, age};
use delaybridge_core::clock::Instant;

/// One reason for which a reload was refused. It quotes no secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The file.
    pub file: String,
    /// The line in the file, if it is known.
    pub line: Option<u64>,
    /// The path of the key.
    pub path: String,
    /// The problem.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
}

/// The running configuration and its reloads.
#[derive(Default)]
pub(super) struct Reload {
    /// A hash of the running settings, without secrets.
    hash: String,
    count: u64,
    running: bool,
    /// The last reload; `None` before the first.
    last: Option<Last>,
}

struct Last {
    at: Instant,
    /// The reasons of a refusal; at most [`LISTED`].
    refusals: Vec<Refusal>,
    count: usize,
}

impl Reload {
    /// Records the hash of the running settings.
    pub(super) fn runs(&mut self, hash: &str) {
        hash.clone_into(&mut self.hash);
    }

    /// Returns the hash of the running settings.
    pub(super) fn hash(&self) -> &str {
        &self.hash
    }

    /// Records that a reload begins.
    pub(super) fn begin(&mut self) {
        self.running = true;
    }

    /// Records that a reload has ended; without refusals it succeeded.
    pub(super) fn end(&mut self, refusals: &[Refusal]) {
        let at = Instant::now();
        let count = refusals.len();
        self.last = Some(Last { at, refusals: refusals.iter().take(LISTED).cloned().collect(), count });
        (self.running, self.count) = (false, self.count + 1);
    }

    /// Returns the first reason for which the last reload was refused, and their number.
    pub(super) fn refused(&self) -> Option<(&Refusal, usize)> {
        let last = self.last.as_ref()?;
        Some((last.refusals.first()?, last.count))
    }

    pub(super) fn shown(&self) -> Value {
        let last = self.last.as_ref().map(|Last { at, refusals, count }| {
            json!({
                "successful": refusals.is_empty(),
                "seconds": age(*at),
                "problems": refusals,
                "not_listed": count - refusals.len(),
            })
        });
        json!({ "hash": self.hash, "reloads": self.count, "reloading": self.running, "last_reload": last })
    }
}
