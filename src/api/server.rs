//! The listener and its connections: as many as are allowed, none of them slow, all of them ended in order.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::dispatch::Connection;
use super::handover::Unflushed;
use super::listener::{Accepted, Listener};
use super::stream::Watched;
use super::tls::Certificates;
use crate::telemetry::events::api::ApiEvents;
use crate::telemetry::peer::Peer;

/// A client that has not sent its request head by then is cut off; so is a connection without a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// For a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest request head.
const HEAD_BYTES: usize = 16 * 1024;
/// Most headers of a request.
const HEADERS: usize = 64;
/// Bytes that the kernel takes for a client that does not read; it doubles the number.
const SEND_BUFFER: usize = 64 * 1024;
/// After this, a failing `accept` (no file descriptors left) is tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long answers may take to leave once the server stops. Long polls are answered at once.
const GOODBYE: Duration = Duration::from_secs(5);

/// What answers the requests of a listener.
pub trait Served: Send + Sync + 'static {
    /// The body of its answers.
    type Body: Body<Data = Bytes, Error = Infallible> + Send + 'static;

    /// Answers one request. Never fails: what goes wrong is an answer too.
    fn respond(
        self: Arc<Self>,
        connection: Connection,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// The listener closes, and what is under way comes to its end.
    fn stopping(&self) -> &CancellationToken;

    /// Connections at once.
    fn max_connections(&self) -> usize;

    /// What happens is reported here.
    fn events(&self) -> &ApiEvents;
}

/// Serves until it is stopping, then lets what is under way come to its end.
pub async fn serve<S: Served>(listener: Listener, api: Arc<S>, certificates: Option<Arc<Certificates>>) {
    let listener = match listener.into_async() {
        Ok(listener) => listener,
        // Essential: the end of this task ends the process, which says so.
        Err(error) => return api.events().failed(&format!("take the listening socket: {error}")),
    };
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(api.max_connections()));
    loop {
        // A place first: whoever finds none waits in the kernel's backlog. Cancel-safe: an acquired place is only a place.
        let place = tokio::select! {
            biased;
            () = api.stopping().cancelled() => break,
            place = place(&places, &*api) => place,
        };
        // Order: the end before a new connection. Cancel-safe: `accept` takes a connection only when it returns it.
        tokio::select! {
            biased;
            () = api.stopping().cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(Accepted::Tcp(stream, peer)) => {
                    drop(connections.spawn(connection(stream, peer.into(), api.clone(), certificates.clone(), place)));
                }
                Ok(Accepted::Unix(stream)) => {
                    let api = api.clone();
                    drop(connections.spawn(async move {
                        let _place = place;
                        let _open = api.events().metrics.connected();
                        serve_on(stream, Peer::Unix, api.clone()).await;
                    }));
                }
                // Without the pause this would spin until a descriptor is free.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(GOODBYE, connections.wait()).await.is_err() {
        api.events().cut_off(connections.len());
    }
}

async fn place(places: &Arc<Semaphore>, api: &impl Served) -> Option<OwnedSemaphorePermit> {
    if let Ok(place) = places.clone().try_acquire_owned() {
        return Some(place);
    }
    api.events().crowded(api.max_connections());
    places.clone().acquire_owned().await.ok()
}

async fn connection<S: Served>(
    stream: TcpStream,
    peer: Peer,
    api: Arc<S>,
    certificates: Option<Arc<Certificates>>,
    place: Option<OwnedSemaphorePermit>,
) {
    let _place = place;
    let _open = api.events().metrics.connected();
    // Small answers leave at once. What the kernel has taken cannot be given back when the client turns out to be gone, so
    // it takes little; a socket that refuses has larger buffers, which is no reason to refuse its client.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER);
    let Some(certificates) = certificates else { return serve_on(stream, peer, api).await };
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, certificates.acceptor().accept(stream));
    match handshake.await {
        Ok(Ok(stream)) => serve_on(stream, peer, api).await,
        // Whoever only looks whether the port is open hangs up at once.
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {}
        Ok(Err(error)) => api.events().handshake_failed(peer, &error.to_string()),
        Err(_) => {}
    }
}

async fn serve_on<A: Served>(stream: impl AsyncRead + AsyncWrite + Unpin, peer: Peer, api: Arc<A>) {
    let unflushed = Unflushed::default();
    let connection = Connection { peer, unflushed: unflushed.clone() };
    let stopping = api.stopping().clone();
    let service = service_fn(move |request| {
        let (api, connection) = (api.clone(), connection.clone());
        async move { Ok::<_, Infallible>(api.respond(connection, request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_header_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(Watched::new(stream, unflushed)), service);
    tokio::pin!(served);
    // Whatever goes wrong on it is the client's: it went away, was too slow or sent no HTTP. Order: a finished connection
    // first; `served` may be left at any time and is polled again below.
    tokio::select! {
        biased;
        _ = &mut served => return,
        () = stopping.cancelled() => served.as_mut().graceful_shutdown(),
    }
    let _ = tokio::time::timeout(GOODBYE, served).await;
}
