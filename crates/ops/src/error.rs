//! Why an operation failed: a kind for a program, a message for a person.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use delaybridge_ledger::StoreError;

/// An operation that did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The kind of the failure.
    pub kind: ErrorKind,
    /// The attempt, the failure, and what to do.
    pub message: String,
}

/// Kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The arguments or the configuration are wrong.
    Invalid,
    /// The configuration has no queue, sink or topic of this name.
    Unknown,
    /// The named element, letter or job does not exist.
    NotFound,
    /// The state of the queue or of the element forbids it.
    Conflict,
    /// The operation was ended before it was done, by a person or because it took too long. Nothing was changed.
    Ended,
    /// The operation failed while running.
    Failed,
}

impl Error {
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Invalid, message: message.into() }
    }

    pub(super) fn unknown(message: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Unknown, message: message.into() }
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Error { kind: ErrorKind::NotFound, message: message.into() }
    }

    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Conflict, message: message.into() }
    }

    pub(super) fn ended(message: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Ended, message: message.into() }
    }

    pub(super) fn failed(message: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Failed, message: message.into() }
    }
}

/// A queue that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueError {
    /// The queue.
    pub queue: String,
    /// The problem, and what to do where that is known.
    pub message: String,
}

/// Puts what was attempted in front of an error of the source.
pub(super) trait Attempted<T> {
    fn attempt(self, what: &str) -> Result<T, Error>;
}

impl<T, E: Into<StoreError>> Attempted<T> for Result<T, E> {
    fn attempt(self, what: &str) -> Result<T, Error> {
        self.map_err(|error| Error::failed(format!("{what}: {}", explained(&error.into()))))
    }
}

/// Returns the error in words, and what to do where that is known.
pub(super) fn explained(error: &StoreError) -> String {
    let help = match error {
        StoreError::Unknown { .. } => "; check the server and try again",
        StoreError::Refused { code: "NOPERM", .. } => "; `check --live` lists the rights that are missing",
        StoreError::Refused { code: "WRONGKEY" | "WRONGTYPE", .. } => {
            "; is `source.redisson.name` the name of the queue? The key of another program was not changed"
        }
        _ => "",
    };
    format!("{error}{help}")
}

/// Returns whether the command may have run although there is no answer.
pub(super) fn may_have_run(error: &StoreError) -> bool {
    matches!(error, StoreError::Unknown { .. })
}
