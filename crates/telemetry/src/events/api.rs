//! The events of an HTTP API: that of the job queue, or that of operators.

use std::sync::Arc;
use std::time::Duration;

use delaybridge_core::log::{debug, error, info, warn};

use crate::metrics::api::ApiMetrics;
use crate::peer::Peer;
use crate::throttle::{QUIET, Throttle};
use delaybridge_core::clock::Instant;

/// The events of one API. Cheap to clone.
#[derive(Clone)]
pub struct ApiEvents {
    /// The metrics, for counts without a log line.
    pub metrics: ApiMetrics,
    /// The name of the API in the log.
    what: &'static str,
    quiet: Arc<Quiet>,
}

struct Quiet {
    failures: Throttle,
    strangers: Throttle,
    crowds: Throttle,
    handshakes: Throttle,
}

/// A request that was answered, as the log shows it. Without path and query, which may hold an id or a token.
#[derive(Debug)]
pub struct Answered<'a> {
    /// The name of the endpoint.
    pub route: &'static str,
    /// The status of the response.
    pub status: u16,
    /// The client.
    pub peer: Peer,
    /// The name of the token.
    pub token: &'a str,
    /// The `X-Request-Id` of the response.
    pub request: &'a str,
    /// The problem that the response describes.
    pub problem: Option<&'a str>,
}

impl ApiEvents {
    pub(super) fn new(metrics: ApiMetrics, what: &'static str) -> ApiEvents {
        let quiet = Quiet {
            failures: Throttle::new(QUIET),
            strangers: Throttle::new(QUIET),
            crowds: Throttle::new(QUIET),
            handshakes: Throttle::new(QUIET),
        };
        ApiEvents { metrics, what, quiet: Arc::new(quiet) }
    }

    /// Reports that the API listens on this address, for the owners of tokens, and for people whom a proxy names.
    pub fn listening(&self, address: &impl std::fmt::Display, tls: bool, tokens: Option<usize>, proxy: bool) {
        match tokens {
            Some(tokens) => info!(%address, tls, tokens, proxy, "the {} listens", self.what),
            None if proxy => info!(%address, tls, proxy, "the {} listens", self.what),
            None => {
                info!(%address, tls, "the {} listens, for this machine only: there is no file of tokens", self.what)
            }
        }
    }

    /// Reports that the API cannot go on.
    pub fn failed(&self, problem: &str) {
        error!(problem, "the {} ended", self.what);
    }

    /// Reports that a request was answered.
    pub fn answered(&self, answered: &Answered<'_>) {
        let Answered { route, status, peer, token, request, problem } = *answered;
        let problem = problem.unwrap_or_default();
        debug!(route, status, %peer, token, request, problem, "answered");
        let stranger = matches!(status, 401 | 403);
        let throttle = if stranger { &self.quiet.strangers } else { &self.quiet.failures };
        if (stranger || status >= 500)
            && let Some(left_out) = throttle.admit(Instant::now(), 1)
        {
            warn!(route, status, %peer, token, request, problem, left_out, "refused a request to the {}", self.what);
        }
    }

    /// Reports that the limit of connections is reached: the oldest idle connection is closed, or the next client
    /// waits.
    pub fn crowded(&self, max_connections: usize) {
        if let Some(left_out) = self.quiet.crowds.admit(Instant::now(), 1) {
            warn!(
                max_connections,
                left_out,
                "the {} has all connections that it may have; the oldest idle one ends, or the next client waits",
                self.what
            );
        }
    }

    /// Reports that the listener could not accept a client.
    pub fn not_accepted(&self, error: &std::io::Error) {
        self.metrics.all().not_accepted(self.what, error);
    }

    /// Reports that a TLS handshake with a client failed.
    pub fn handshake_failed(&self, peer: Peer, problem: &str) {
        if let Some(left_out) = self.quiet.handshakes.admit(Instant::now(), 1) {
            warn!(%peer, problem, left_out, "a TLS handshake with a client of the {} failed", self.what);
        }
    }

    /// Reports connections that were still open at the end of the drain.
    pub fn cut_off(&self, connections: usize) {
        warn!(connections, "connections to the {} were cut off at the end of the drain", self.what);
    }

    /// Reports that the tokens file was reloaded after a change.
    pub fn tokens_read(&self, tokens: usize) {
        info!(tokens, "read the tokens file again: it has changed");
    }

    /// Reports that the tokens file cannot be read, or is invalid; the previous tokens stay valid for a while.
    pub fn tokens_refused(&self, problem: &str) {
        error!(
            problem,
            "the tokens file cannot be used; the tokens of before stay valid until it is repaired, for `tokens_max_age` at most"
        );
    }

    /// Reports that the changed certificate cannot be used; the previous one stays.
    pub fn certificate_refused(&self, problem: &str) {
        error!(
            problem,
            "the certificate of the {} cannot be used; the one of before is sent until it is repaired", self.what
        );
    }

    /// Records that the file under this key was looked at; what was read of it was confirmed this long ago.
    pub fn file_seen(&self, key: &'static str, age: Duration) {
        self.metrics.all().file_seen(key, age);
    }

    /// Reports that jobs were put back because their client disconnected before it received them.
    pub fn put_back(&self, jobs: usize) {
        debug!(jobs, "put jobs back whose client was gone before it had them");
    }
}
