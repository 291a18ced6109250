//! The listener and its connections: as many as are allowed, none of them slow, all of them ended in order.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::handover::Unflushed;
use super::listener::{Accepted, ApiListener};
use super::origin::heed_authority;
use super::places::{Answering, ConnectionSlot, ConnectionSlots, Origin};
use super::repoll::Repoll;
use super::stream::WatchedStream;
use super::tls::Certificates;
use delaybridge_telemetry::events::api::ApiEvents;
use delaybridge_telemetry::peer::Peer;

/// A client that has not sent its request head by then is cut off; so is a connection without a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// For a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest request head.
const HEAD_BYTES: usize = 16 * 1024;
/// Most headers of a request.
const HEADERS: usize = 64;
/// Bytes that are read from a connection before they are asked for.
const READ_BUFFER: usize = 64 * 1024;
/// Bytes that the kernel takes for a client that does not read; it doubles the number.
const SEND_BUFFER: usize = 64 * 1024;
/// After this, a failing `accept` (no file descriptors left) is tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Longest time that answers have to leave once the server stops. Long polls are answered at once.
pub const GOODBYE: Duration = Duration::from_secs(5);

/// Time that a connection without a request has to end once another one has its place: its last answer may be on its way.
const LEAVE: Duration = Duration::from_millis(100);

/// The state that all requests of one connection share.
#[derive(Clone)]
pub struct Connection {
    /// The other end.
    pub peer: Peer,
    /// Jobs that are written to it and not yet on their way.
    pub unflushed: Unflushed,
    /// The place of the connection.
    pub place: Arc<ConnectionSlot>,
}

/// A service that answers the requests of a listener.
pub trait Served: Send + Sync + 'static {
    /// The body of the answers.
    type Body: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + Unpin + 'static;

    /// Answers one request. Never fails: a problem is an answer too.
    fn respond(
        self: Arc<Self>,
        connection: Connection,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// Returns a token that is cancelled when clients should go elsewhere: each answer closes its connection from then
    /// on.
    fn leaving(&self) -> &CancellationToken {
        self.stopping()
    }

    /// Returns a token that is cancelled when the listener closes; requests under way come to their end.
    fn stopping(&self) -> &CancellationToken;

    /// Returns the time that requests under way have to end once the listener closes.
    fn goodbye(&self) -> Duration {
        GOODBYE
    }

    /// Returns the time for the first request head of a connection, and for each further one.
    fn patience(&self) -> [Duration; 2] {
        [HEAD_TIMEOUT; 2]
    }

    /// Returns the greatest number of connections at once.
    fn max_connections(&self) -> usize;

    /// Returns whether connections from this address are those of many clients, which a proxy passes on.
    fn is_proxy(&self, _ip: IpAddr) -> bool {
        false
    }

    /// Returns the receiver of reports.
    fn events(&self) -> &ApiEvents;
}

/// Serves until it is stopping, then lets what is under way come to its end.
pub async fn serve<S: Served>(listener: ApiListener, api: Arc<S>, certificates: Option<Arc<Certificates>>) {
    let listener = match listener.into_async() {
        Ok(listener) => listener,
        // Essential: the end of this task ends the process, which says so.
        Err(error) => return api.events().failed(&format!("take the listening socket: {error}")),
    };
    let connections = TaskTracker::new();
    let places = ConnectionSlots::new(api.max_connections());
    loop {
        // Order: the end before a new connection. Cancel-safe: `accept` takes a connection only when it returns it.
        let accepted = tokio::select! {
            biased;
            () = api.stopping().cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let accepted = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                api.events().not_accepted(&error);
                // Without the pause this would spin until a descriptor is free.
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let origin = accepted.ip().filter(|ip| !api.is_proxy(*ip)).map(Origin::of);
        // Further clients wait in the kernel's backlog meanwhile. Cancel-safe: a place is only a place.
        let place = tokio::select! {
            biased;
            () = api.stopping().cancelled() => break,
            place = places.take(origin, || api.events().crowded(api.max_connections())) => place,
        };
        let served = connection(accepted, Arc::new(place), api.clone(), certificates.clone());
        connections.spawn(Repoll::new(served));
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(api.goodbye(), connections.wait()).await.is_err() {
        api.events().cut_off(connections.len());
    }
}

/// Serves a connection until it ends, or until its place is needed for another one and it has no request.
async fn connection<S: Served>(
    accepted: Accepted,
    place: Arc<ConnectionSlot>,
    api: Arc<S>,
    certificates: Option<Arc<Certificates>>,
) {
    let _open = api.events().metrics.connected();
    match accepted {
        Accepted::Unix(stream) => serve_on(stream, Peer::Unix, api, &place).await,
        Accepted::Tcp(stream, peer) => {
            // Small answers leave at once. What the kernel has taken cannot be given back when the client turns out to be gone, so
            // it takes little; a socket that refuses has larger buffers, which is no reason to refuse its client.
            let _ = stream.set_nodelay(true);
            let _ = SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER);
            match certificates {
                None => serve_on(stream, peer.into(), api, &place).await,
                Some(certificates) => {
                    let Some(stream) = agreed(stream, peer.into(), &*api, &certificates, &place).await else { return };
                    serve_on(stream, peer.into(), api, &place).await;
                }
            }
        }
    }
}

/// Runs the handshake and returns its stream; `None` if it fails or is late, or the place is needed.
async fn agreed(
    stream: TcpStream,
    peer: Peer,
    api: &impl Served,
    certificates: &Certificates,
    place: &ConnectionSlot,
) -> Option<TlsStream<TcpStream>> {
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, certificates.acceptor().accept(stream));
    // Order: a finished handshake first. The connection ends where it is left.
    let shaken = tokio::select! {
        biased;
        shaken = handshake => shaken,
        () = place.leave().cancelled() => return None,
    };
    match shaken {
        Ok(Ok(stream)) => Some(stream),
        // Whoever only looks whether the port is open hangs up at once.
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => None,
        Ok(Err(error)) => {
            api.events().handshake_failed(peer, &error.to_string());
            None
        }
        Err(_) => None,
    }
}

async fn serve_on<A: Served>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: Peer,
    api: Arc<A>,
    place: &Arc<ConnectionSlot>,
) {
    let unflushed = Unflushed::default();
    let connection = Connection { peer, unflushed: unflushed.clone(), place: place.clone() };
    let stopping = api.stopping().clone();
    let end = api.goodbye();
    let [first, next] = api.patience();
    let service = service_fn(move |mut request| {
        heed_authority(&mut request);
        let api = api.clone();
        let connection = connection.clone();
        let busy = place.busy();
        async move {
            let mut answer = api.clone().respond(connection, request).await;
            if api.leaving().is_cancelled() {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(answer.map(|body| Answering::new(body, busy)))
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(next)
        .max_header_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .max_buf_size(READ_BUFFER)
        .serve_connection(TokioIo::new(WatchedStream::new(stream, unflushed)), service);
    let late = async {
        tokio::time::sleep(first).await;
        if place.has_served() {
            std::future::pending().await
        }
    };
    tokio::pin!(served);
    // Whatever goes wrong on it is the client's: it went away, was too slow or sent no HTTP. Order: a finished connection
    // first; `served` may be left at any time and is polled again below.
    let goodbye = tokio::select! {
        biased;
        _ = &mut served => return,
        () = late => return,
        () = stopping.cancelled() => end,
        () = place.leave().cancelled() => {
            if !place.has_served() {
                // Its head has not come: there is nothing to wait for.
                return;
            }
            LEAVE
        }
    };
    // The last bytes of an answer may be on their way.
    served.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(goodbye, served).await;
}
