//! The connections of a sink: kept for the next request, checked before they are used, opened when there is none.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Mutex as Turn;

use super::connect::{HttpConnector, OpenedConnection};
use super::connection::{Http1Connection, Http2Connection, ReadyConnection};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::Failure;

/// Time for which an unused connection of HTTP/1.1 is kept. Shorter than the 5 s after which common servers close it, so that
/// a request rarely meets a connection that is being closed, which would leave open whether it arrived.
pub(super) const IDLE_ALONE: Duration = Duration::from_secs(4);
/// The same for HTTP/2, where a server says beforehand that it closes. Shorter than the memory of balancers.
const IDLE_SHARED: Duration = Duration::from_secs(60);
/// Time allowed for an idle connection to become ready; it has nothing left to do.
const READY: Duration = Duration::from_millis(100);

/// The connections of a sink.
#[derive(Debug)]
pub(super) struct Pool {
    connector: HttpConnector,
    state: Mutex<PoolState>,
    /// Taken to open a connection that others may share: one is opened for all waiting deliveries.
    opening: Turn<()>,
}

#[derive(Debug, Default)]
struct PoolState {
    /// Idle connections, the last used at the end.
    idle: Vec<Http1Connection>,
    shared: Option<Arc<Http2Connection>>,
    /// The server is known to offer no HTTP/2.
    alone_only: bool,
    /// The last attempt to open a connection failed then.
    failed: Option<(Instant, Failure)>,
}

impl PoolState {
    /// Notes how an attempt to open a connection has ended.
    fn note(&mut self, failure: Option<&Failure>) {
        self.failed = failure.map(|failure| (Instant::now(), failure.clone()));
    }

    fn failed_since(&self, begun: Instant) -> Option<Failure> {
        let (at, failure) = self.failed.as_ref()?;
        (*at > begun).then(|| failure.clone())
    }
}

/// The pool's offer for a request.
enum PooledConnection {
    Idle(Http1Connection),
    Shared(Arc<Http2Connection>),
    Nothing { may_share: bool },
}

impl Pool {
    pub(super) fn new(connector: HttpConnector) -> Pool {
        Pool { connector, state: Mutex::default(), opening: Turn::new(()) }
    }

    /// Finds or opens a connection that is ready for a request. With `fresh`, not one that has been idle. Sends
    /// nothing.
    pub(super) async fn acquire(&self, fresh: bool) -> Result<ReadyConnection, Failure> {
        loop {
            let opened = match self.find(fresh) {
                PooledConnection::Idle(mut alone) => match tokio::time::timeout(READY, alone.is_ready()).await {
                    Ok(true) => return Ok(ReadyConnection::Alone(alone)),
                    // It has ended, or still writes a body that the server does not read.
                    Ok(false) | Err(_) => continue,
                },
                PooledConnection::Shared(shared) => OpenedConnection::Shared(shared),
                PooledConnection::Nothing { may_share: false } => {
                    let opened = self.connector.open().await;
                    self.state.lock().note(opened.as_ref().err());
                    opened?
                }
                PooledConnection::Nothing { may_share: true } => match self.open_for_all().await? {
                    Some(opened) => opened,
                    None => continue,
                },
            };
            match opened {
                OpenedConnection::Alone(mut alone) => {
                    // A connection that ends before it is ready has carried nothing: the next attempt tells why.
                    if alone.is_ready().await {
                        return Ok(ReadyConnection::Alone(alone));
                    }
                    return Err(self.connector.ended_at_once());
                }
                OpenedConnection::Shared(shared) => {
                    if let Some(stream) = shared.stream().await {
                        return Ok(ReadyConnection::Shared(stream));
                    }
                }
            }
        }
    }

    /// Opens a connection for all waiting deliveries; `None` when another task has opened one meanwhile.
    async fn open_for_all(&self) -> Result<Option<OpenedConnection>, Failure> {
        let begun = Instant::now();
        let _turn = self.opening.lock().await;
        {
            let state = self.state.lock();
            if state.alone_only || state.shared.as_ref().is_some_and(|shared| shared.is_fit(IDLE_SHARED)) {
                return Ok(None);
            }
            if let Some(failure) = state.failed_since(begun) {
                return Err(failure);
            }
        }
        let opened = self.connector.open().await;
        let mut state = self.state.lock();
        state.note(opened.as_ref().err());
        match &opened {
            Ok(OpenedConnection::Shared(shared)) => state.shared = Some(shared.clone()),
            Ok(OpenedConnection::Alone(_)) => state.alone_only = true,
            Err(_) => {}
        }
        opened.map(Some)
    }

    /// Returns why no connection could be opened since then: whoever has waited meanwhile need not try it once more.
    pub(super) fn failed_since(&self, begun: Instant) -> Option<Failure> {
        self.state.lock().failed_since(begun)
    }

    /// Keeps a connection whose last answer has been read to its end.
    pub(super) fn keep(&self, ready: ReadyConnection) {
        // A shared one gives its stream back, and stays where it is.
        let ReadyConnection::Alone(mut alone) = ready else { return };
        alone.mark_used();
        let mut state = self.state.lock();
        state.idle.retain(|idle| idle.is_fit(IDLE_ALONE));
        if alone.is_fit(IDLE_ALONE) {
            state.idle.push(alone);
        }
    }

    /// Connects without sending anything.
    pub(super) async fn check(&self) -> Result<(), Failure> {
        self.acquire(true).await.map(|ready| self.keep(ready))
    }

    /// Closes idle connections.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.idle.clear();
        state.shared = None;
    }

    /// Closes connections that have been idle for too long.
    pub(super) fn prune(&self) {
        let mut state = self.state.lock();
        state.idle.retain(|idle| idle.is_fit(IDLE_ALONE));
        if state.shared.as_ref().is_some_and(|shared| !shared.is_fit(IDLE_SHARED)) {
            state.shared = None;
        }
    }

    fn find(&self, fresh: bool) -> PooledConnection {
        let mut state = self.state.lock();
        if let Some(shared) = &state.shared {
            if shared.is_fit(IDLE_SHARED) {
                return PooledConnection::Shared(shared.clone());
            }
            state.shared = None;
        }
        while let Some(alone) = state.idle.pop() {
            if alone.is_fit(IDLE_ALONE) && !fresh {
                return PooledConnection::Idle(alone);
            }
        }
        PooledConnection::Nothing { may_share: self.connector.may_share() && !state.alone_only }
    }
}
