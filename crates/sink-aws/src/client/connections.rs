//! The connections of a sink: kept for the next request, looked at before they are used, opened when there is none.

use std::time::Duration;

use parking_lot::Mutex;

use crate::errors;
use delaybridge_core::message::Failure;
use delaybridge_http_client::{HttpConnection, HttpPeer};

/// Time for which an unused connection is kept. Shorter than that of the services and of balancers, so that a request rarely meets a
/// connection that is being closed, which would leave open whether it arrived.
const IDLE: Duration = Duration::from_secs(10);
/// Longest age of a connection: a name may get another address.
const OLDEST: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(super) struct AwsConnections {
    peer: HttpPeer,
    connect_timeout: Duration,
    /// Idle connections, the last used at the end.
    idle: Mutex<Vec<HttpConnection>>,
}

impl AwsConnections {
    pub(super) fn new(peer: HttpPeer, connect_timeout: Duration) -> AwsConnections {
        AwsConnections { peer, connect_timeout, idle: Mutex::default() }
    }

    /// Returns the server, for messages.
    pub(super) fn server(&self) -> String {
        self.peer.origin().to_string()
    }

    /// Returns the host as proofs name it.
    pub(super) fn host(&self) -> String {
        self.peer.origin().authority()
    }

    /// Finds or opens a connection that is ready for a request; with `fresh` a new one. Sends nothing.
    pub(super) async fn acquire(&self, fresh: bool) -> Result<HttpConnection, Failure> {
        while let Some(mut connection) = self.kept() {
            if !fresh && connection.is_fit(OLDEST, IDLE).await {
                return Ok(connection);
            }
        }
        let opened = tokio::time::timeout(self.connect_timeout, HttpConnection::open(&self.peer)).await;
        match opened {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(errors::not_connected(&self.server(), &error)),
            Err(_) => Err(errors::connect_timeout(&self.server(), self.connect_timeout)),
        }
    }

    fn kept(&self) -> Option<HttpConnection> {
        self.idle.lock().pop()
    }

    /// Keeps a connection whose last answer has been read.
    pub(super) fn keep(&self, connection: HttpConnection) {
        self.idle.lock().push(connection);
    }
}
