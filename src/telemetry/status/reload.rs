//! What the board knows of the last reload. The configuration before runs on after a refusal, so it is no reason to be unready.

use serde::Serialize;
use serde_json::{Value, json};

use super::{LISTED, age};
use crate::clock::Instant;

/// One reason for which a reload was refused. It quotes no secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The file.
    pub file: String,
    /// Where in it, if that is known.
    pub line: Option<u64>,
    /// The key.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

/// What is known of the configuration that runs, and of reloads.
#[derive(Default)]
pub(super) struct Reload {
    /// A hash of its settings, without secrets.
    hash: String,
    /// Reloads that are over.
    count: u64,
    running: bool,
    /// None until there was one.
    last: Option<Last>,
}

struct Last {
    at: Instant,
    /// At most [`LISTED`].
    refusals: Vec<Refusal>,
    count: usize,
}

impl Reload {
    /// These settings run from now on.
    pub(super) fn runs(&mut self, hash: &str) {
        hash.clone_into(&mut self.hash);
    }

    /// A reload is under way.
    pub(super) fn begin(&mut self) {
        self.running = true;
    }

    /// It is over.
    pub(super) fn end(&mut self, refusals: &[Refusal]) {
        let (at, count) = (Instant::now(), refusals.len());
        self.last = Some(Last { at, refusals: refusals.iter().take(LISTED).cloned().collect(), count });
        (self.running, self.count) = (false, self.count + 1);
    }

    /// Whether the last one was refused, and for how many reasons.
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
