//! The state of a link.

use std::sync::Arc;

use super::error::ConnectError;
use super::info::ServerInfo;
use delaybridge_core::clock::Instant;

/// The state of a link.
#[derive(Debug, Clone)]
pub enum LinkState {
    /// There is no connection; the supervisor is trying.
    Connecting {
        /// The start of the outage.
        since: Instant,
        /// The error of the last attempt; `None` until the first attempt of this outage has failed.
        last_error: Option<Arc<ConnectError>>,
    },
    /// Connected to a server that passed the checks.
    Up {
        /// Number of this connection on its link, starting at 1.
        epoch: u64,
        /// `host:port/db` of the server.
        address: Arc<str>,
        /// The server's information at connect.
        info: Arc<ServerInfo>,
    },
}

impl LinkState {
    /// Returns whether commands can be sent.
    pub fn is_up(&self) -> bool {
        matches!(self, LinkState::Up { .. })
    }
}
