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

/// The last reload; none until there was one.
#[derive(Default)]
pub(super) struct Reload(Option<Last>);

struct Last {
    at: Instant,
    /// At most [`LISTED`].
    refusals: Vec<Refusal>,
    count: usize,
}

impl Reload {
    pub(super) fn set(&mut self, refusals: &[Refusal]) {
        let (at, count) = (Instant::now(), refusals.len());
        self.0 = Some(Last { at, refusals: refusals.iter().take(LISTED).cloned().collect(), count });
    }

    /// Whether the last one was refused, and for how many reasons.
    pub(super) fn refused(&self) -> Option<(&Refusal, usize)> {
        let last = self.0.as_ref()?;
        Some((last.refusals.first()?, last.count))
    }

    pub(super) fn shown(&self) -> Value {
        match &self.0 {
            None => json!({ "last_reload": Value::Null }),
            Some(Last { at, refusals, count }) => json!({ "last_reload": {
                "successful": refusals.is_empty(),
                "seconds": age(*at),
                "problems": refusals,
                "not_listed": count - refusals.len(),
            } }),
        }
    }
}
