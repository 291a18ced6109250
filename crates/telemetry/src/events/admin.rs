//! The events of the operators' API and page.

use delaybridge_core::log::{info, warn};

use super::api::ApiEvents;
use crate::peer::Peer;

/// The events of the operators' API. Cheap to clone.
#[derive(Clone)]
pub struct AdminEvents {
    /// The events of its listener and its requests.
    pub api: ApiEvents,
}

/// A change that an operator made or tried to make, as the log shows it. No payload.
#[derive(Debug)]
pub struct Change<'a> {
    /// The name of the endpoint.
    pub what: &'static str,
    /// The queue or sink.
    pub of: &'a str,
    /// The subject in it: the filter of dead letters, or an element's id.
    pub which: &'a str,
    /// The name of the token, or `local`.
    pub by: &'a str,
    /// The client.
    pub peer: Peer,
    /// The result, or the problem.
    pub result: Result<&'a str, &'a str>,
}

impl AdminEvents {
    pub(super) fn new(api: ApiEvents) -> AdminEvents {
        AdminEvents { api }
    }

    /// Logs who changed what.
    pub fn changed(&self, change: &Change<'_>) {
        let Change { what, of, which, by, peer, result } = *change;
        match result {
            Ok(result) => info!(what, of, which, by, %peer, result, "operator changed something"),
            Err(problem) => warn!(what, of, which, by, %peer, problem, "an operator's change failed"),
        }
    }

    /// Reports that a client that follows the events did not read fast enough.
    pub fn listener_dropped(&self, peer: Peer) {
        warn!(%peer, "a client that follows the events is too slow; its connection is closed");
    }

    /// Reports too many wrong tokens from a client: for a while no token is accepted from there.
    pub fn locked_out(&self, peer: Peer, failures: u32, seconds: u64) {
        warn!(%peer, failures, seconds, "too many wrong tokens for the admin API; no token is accepted from there for a while");
    }
}
