//! Why a call to the store of a queue failed.

use crate::link::{BadReply, LinkError, Shortfall};

/// Why a call to a source or to the ledger did not answer.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The connection, or an error reply of the server.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// An answer of an unknown shape.
    #[error(transparent)]
    Reply(#[from] BadReply),
    /// What was claimed is not durable in time: nothing was delivered, and it went back.
    #[error("not durable: {shortfall}")]
    NotDurable {
        /// What was not reached.
        shortfall: Shortfall,
        /// Elements that went back.
        released: u64,
    },
}

impl SourceError {
    /// Whether the same call may be answered in a moment, without a change by a person: nothing was sent, there was no answer, or
    /// the server cannot do it now.
    pub fn passes(&self) -> bool {
        match self {
            SourceError::NotDurable { .. } => true,
            SourceError::Reply(_) => false,
            SourceError::Link(LinkError::NotSent { .. } | LinkError::Unknown { .. }) => true,
            SourceError::Link(LinkError::Malformed(_)) => false,
            SourceError::Link(LinkError::Server { code, .. }) => matches!(
                *code,
                "LOADING"
                    | "BUSY"
                    | "READONLY"
                    | "MASTERDOWN"
                    | "CLUSTERDOWN"
                    | "MOVED"
                    | "ASK"
                    | "TRYAGAIN"
                    | "NOREPLICAS"
                    | "MISCONF"
            ),
        }
    }
}
