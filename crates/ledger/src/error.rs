//! Errors of calls to the store of a queue, as far as callers act on them.

use std::sync::Arc;

use super::other_prefix::OtherPrefix;
use delaybridge_link::{BadReply, NoAnswer, Shortfall};

/// Why a call to the store of a queue has no result.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Certainly not executed: there was no connection to send it on.
    #[error("not sent: Redis {address} is not connected")]
    NotSent {
        /// `host:port/db`.
        address: Arc<str>,
    },
    /// Sent, or about to be sent, and no answer came: it may have run, may run later, or never.
    #[error("no answer of Redis {address}: {reason}")]
    Unknown {
        /// `host:port/db`.
        address: Arc<str>,
        /// Whether the time expired or the connection was lost.
        reason: NoAnswer,
    },
    /// Not executed, because the keys of the queue are moving from one server to another. Try again soon.
    #[error("Redis answered {code}: {message}")]
    Moving {
        /// Code of the server's answer.
        code: &'static str,
        /// The server's message, without arguments of the command.
        message: String,
    },
    /// Not executed, because the server cannot do it now. It may be able to in a moment, without a change by a person.
    #[error("Redis answered {code}: {message}")]
    Passing {
        /// Code of the server's answer.
        code: &'static str,
        /// The server's message, without arguments of the command.
        message: String,
    },
    /// Not executed, or a script stopped at this error: a key of a wrong type, a missing right. A person has to change
    /// something.
    #[error("Redis answered {code}: {message}")]
    Refused {
        /// Code of the server's answer.
        code: &'static str,
        /// The server's message, without arguments of the command.
        message: String,
    },
    /// Executed, but the answer has another type than the caller asked for: a defect of ours.
    #[error("Redis answered with an unexpected type: {0}")]
    Malformed(String),
    /// Executed, but the answer of a script has an unknown shape.
    #[error(transparent)]
    Reply(#[from] BadReply),
    /// Not executed: the queue is delivered with another prefix of our keys. A person has to change something.
    #[error(transparent)]
    OtherPrefix(#[from] Box<OtherPrefix>),
    /// The claim did not become durable in time: nothing was delivered, and its elements went back.
    #[error("not durable: {shortfall}")]
    NotDurable {
        /// The replicas that were not reached.
        shortfall: Shortfall,
        /// Elements that went back.
        released: u64,
        /// Whether they may have been delivered: the claim took them over, or a failover may have forgotten that they were.
        may_repeat: bool,
    },
}

impl From<OtherPrefix> for StoreError {
    fn from(error: OtherPrefix) -> Self {
        StoreError::OtherPrefix(Box::new(error))
    }
}

impl StoreError {
    /// Returns whether the same call may be answered in a moment, without a change by a person: nothing was sent, there
    /// was no answer, or the server cannot do it now.
    pub fn passes(&self) -> bool {
        match self {
            StoreError::NotSent { .. }
            | StoreError::Unknown { .. }
            | StoreError::Moving { .. }
            | StoreError::Passing { .. }
            | StoreError::NotDurable { .. } => true,
            StoreError::Refused { .. }
            | StoreError::Malformed(_)
            | StoreError::Reply(_)
            | StoreError::OtherPrefix(_) => false,
        }
    }

    /// Returns the server's error code, if the server answered with one.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            StoreError::Moving { code, .. } | StoreError::Passing { code, .. } | StoreError::Refused { code, .. } => {
                Some(code)
            }
            StoreError::NotSent { .. }
            | StoreError::Unknown { .. }
            | StoreError::Malformed(_)
            | StoreError::Reply(_)
            | StoreError::OtherPrefix(_)
            | StoreError::NotDurable { .. } => None,
        }
    }
}
