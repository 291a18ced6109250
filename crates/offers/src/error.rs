//! Why a call of a producer failed, and whether it may have run.

use redis::{ErrorKind, RedisError};

use crate::offer::Id;

/// A wish that no reader would understand. Nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The due time is before 1970, or later than a sorted set can tell to the millisecond.
    #[error("the due time is not between 0 and 2^53 ms; is it in ms since 1970?")]
    Due,
    /// The id of an empty payload ends with 43 01 or c3 01.
    #[error(
        "an empty payload cannot have an id that ends with 43 01 or c3 01, because readers would take it for another layout"
    )]
    Id,
    /// The prefix is not one of keys.
    #[error("a prefix has up to 64 visible ASCII characters without braces and those of patterns, and ends with `:`")]
    Prefix,
}

/// A failed call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An offer that no queue can hold. Nothing was sent.
    #[error("{what}: {why}")]
    Invalid {
        /// The attempt.
        what: &'static str,
        /// Why not.
        why: Invalid,
    },
    /// Redis refused the call.
    #[error("{what}: Redis refused it: {source}")]
    Refused {
        /// The attempt.
        what: &'static str,
        /// Redis's answer.
        source: RedisError,
    },
    /// The call may have run: its reply was lost. An offer can be repeated: the same request with this id
    /// ([`Request::with_id`](crate::Request::with_id)) changes nothing as long as the element is scheduled, and with an id
    /// that was the caller's from the first attempt on also for ten minutes after.
    #[error("{what}: {source}; it may have run")]
    Unknown {
        /// The attempt.
        what: &'static str,
        /// The ids of the offers, those that were drawn here too.
        ids: Vec<Id>,
        /// The error of the connection.
        source: RedisError,
    },
    /// The system provides no randomness. Nothing was sent.
    #[error("draw a random id: {0}; does the system provide randomness?")]
    NoRandomness(getrandom::Error),
    /// The reply is of another shape than the script's.
    #[error("{what}: unexpected reply of the script; is a proxy between producer and Redis?")]
    Reply {
        /// The attempt.
        what: &'static str,
    },
}

impl Error {
    /// Sorts an error of the client: an answer of the server is a refusal, as is a connection that was not made.
    pub(crate) fn of(what: &'static str, ids: Vec<Id>, source: RedisError) -> Error {
        let answer = matches!(source.kind(), ErrorKind::Server(_) | ErrorKind::Extension);
        if answer || source.is_connection_refusal() {
            return Error::Refused { what, source };
        }
        Error::Unknown { what, ids, source }
    }
}
