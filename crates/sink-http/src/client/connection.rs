//! The two kinds of connections: one request after the other (HTTP/1.1), or many at once (HTTP/2).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::{Request, Response, Version};
use tokio::sync::watch;

use super::body::Slices;
use delaybridge_core::clock::Instant;
use delaybridge_http_client::TooMany;

/// Longest age of a connection: a name may get another address, and a balancer other servers.
const OLDEST: Duration = Duration::from_secs(300);

type Answer = Result<Response<Incoming>, TrySendError<Request<Slices>>>;

/// A connection that carries one request at a time.
#[derive(Debug)]
pub(super) struct Http1Connection {
    sender: http1::SendRequest<Slices>,
    too_many: TooMany,
    opened: Instant,
    used: Instant,
    has_answered: bool,
}

impl Http1Connection {
    pub(super) fn new(sender: http1::SendRequest<Slices>, too_many: TooMany) -> Http1Connection {
        let now = Instant::now();
        Http1Connection { sender, too_many, opened: now, used: now, has_answered: false }
    }

    /// Returns whether it may carry another request: open, young, and not idle for longer than `idle`.
    pub(super) fn is_fit(&self, idle: Duration) -> bool {
        !self.sender.is_closed() && self.opened.elapsed() < OLDEST && self.used.elapsed() < idle
    }

    /// Marks the connection as just used: the answer to the last request has been read to its end.
    pub(super) fn mark_used(&mut self) {
        self.used = Instant::now();
    }

    /// Returns whether the connection waits for a request; false when it has ended.
    pub(super) async fn is_ready(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }
}

/// A connection that carries as many requests at once as the server allows.
#[derive(Debug)]
pub(super) struct Http2Connection {
    sender: http2::SendRequest<Slices>,
    opened: Instant,
    streams: watch::Sender<Streams>,
    retired: AtomicBool,
    has_answered: AtomicBool,
}

#[derive(Debug)]
struct Streams {
    limit: usize,
    open: usize,
    used: Instant,
}

impl Streams {
    fn is_idle_for(&self, idle: Duration) -> bool {
        self.open == 0 && self.used.elapsed() >= idle
    }
}

/// Takes in the number of streams that the server allows.
#[derive(Debug)]
pub(super) struct Limit(watch::Sender<Streams>);

impl Limit {
    pub(super) fn set(&self, limit: usize) {
        self.0.send_if_modified(|streams| {
            let grown = limit > streams.limit;
            streams.limit = limit;
            grown
        });
    }
}

impl Http2Connection {
    pub(super) fn new(sender: http2::SendRequest<Slices>) -> Http2Connection {
        let now = Instant::now();
        // One, until the server has said how many: more would wait inside of the library, from where they are sent
        // even after their time.
        let streams = watch::Sender::new(Streams { limit: 1, open: 0, used: now });
        Http2Connection { sender, opened: now, streams, retired: false.into(), has_answered: false.into() }
    }

    pub(super) fn limit(&self) -> Limit {
        Limit(self.streams.clone())
    }

    /// Returns whether it may carry another request.
    pub(super) fn is_fit(&self, idle: Duration) -> bool {
        let idle = self.streams.borrow().is_idle_for(idle);
        !self.retired.load(Ordering::Relaxed) && !self.sender.is_closed() && self.opened.elapsed() < OLDEST && !idle
    }

    /// Retires the connection: nothing new is sent on it; what is under way goes on.
    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
        // Those who wait for a stream look for another connection.
        self.streams.send_modify(|_| {});
    }

    /// Waits for a stream; `None` when the connection takes no more.
    pub(super) async fn stream(self: &Arc<Self>) -> Option<RequestStream> {
        let mut changes = self.streams.subscribe();
        loop {
            if self.retired.load(Ordering::Relaxed) || self.sender.is_closed() {
                return None;
            }
            let mut got = false;
            self.streams.send_if_modified(|streams| {
                got = streams.open < streams.limit;
                streams.open += usize::from(got);
                false // One stream less is no news for those who wait.
            });
            if got {
                return Some(RequestStream(self.clone()));
            }
            changes.changed().await.ok()?;
        }
    }
}

/// A place on a shared connection; given back when it is dropped.
#[derive(Debug)]
pub(super) struct RequestStream(Arc<Http2Connection>);

impl Drop for RequestStream {
    fn drop(&mut self) {
        self.0.streams.send_modify(|streams| {
            streams.open -= 1;
            streams.used = Instant::now();
        });
    }
}

#[derive(Debug)]
pub(super) enum ReadyConnection {
    Alone(Http1Connection),
    Shared(RequestStream),
}

impl ReadyConnection {
    /// Returns the version of HTTP that it speaks.
    pub(super) fn version(&self) -> Version {
        match self {
            ReadyConnection::Alone(_) => Version::HTTP_11,
            ReadyConnection::Shared(_) => Version::HTTP_2,
        }
    }

    /// Sends one request. An error that holds the request says that no byte of it was sent.
    pub(super) async fn send(&mut self, mut request: Request<Slices>) -> Answer {
        match self {
            ReadyConnection::Alone(alone) => {
                alone.too_many.watch(&mut request);
                let answer = alone.sender.try_send_request(request).await;
                alone.has_answered |= answer.is_ok();
                answer
            }
            ReadyConnection::Shared(stream) => {
                let answer = stream.0.sender.clone().try_send_request(request).await;
                stream.0.has_answered.fetch_or(answer.is_ok(), Ordering::Relaxed);
                answer
            }
        }
    }

    /// Returns whether it has brought the answer to any request.
    pub(super) fn has_answered(&self) -> bool {
        match self {
            ReadyConnection::Alone(alone) => alone.has_answered,
            ReadyConnection::Shared(stream) => stream.0.has_answered.load(Ordering::Relaxed),
        }
    }

    /// Retires a shared connection on which a request got no answer in time: the peer may be gone, so that nothing else
    /// may be sent to it.
    pub(super) fn retire(&self) {
        if let ReadyConnection::Shared(stream) = self {
            stream.0.retire();
        }
    }
}
