//! Why a call of a producer failed, and whether it may have run.

use redis::{ErrorKind, RedisError};

use crate::offer::Id;

/// A failed call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Redis refused the call. Nothing was changed.
    #[error("{what}: Redis refused it: {source}; nothing was changed")]
    Refused {
        /// What was attempted.
        what: &'static str,
        /// Redis's answer.
        source: RedisError,
    },
    /// The call may have run: its reply was lost. With an id of the caller an offer can be repeated safely: same
    /// [`Id`], same payload.
    #[error("{what}: {source}; it may have run")]
    Unknown {
        /// What was attempted.
        what: &'static str,
        /// The id of the offer, also where it was drawn here; `None` if no single offer was concerned.
        id: Option<Id>,
        /// The error of the connection.
        source: RedisError,
    },
    /// The system provides no randomness. Nothing was sent.
    #[error("draw a random id: {0}; does the system provide randomness?")]
    NoRandomness(getrandom::Error),
    /// The reply is of another shape than the script's.
    #[error("{what}: unexpected reply of the script; is a proxy between producer and Redis?")]
    Reply {
        /// What was attempted.
        what: &'static str,
    },
}

impl Error {
    /// Sorts an error of the client: an answer of the server is a refusal, because a script checks before it writes.
    pub(crate) fn of(what: &'static str, id: Option<Id>, source: RedisError) -> Error {
        // An answer, or a failure before anything was sent.
        let answer = matches!(source.kind(), ErrorKind::Server(_) | ErrorKind::Extension);
        if answer || source.is_connection_refusal() {
            return Error::Refused { what, source };
        }
        Error::Unknown { what, id, source }
    }
}
