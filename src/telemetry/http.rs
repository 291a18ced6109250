//! `/metrics` and the probes, on a thread and a runtime of their own: they answer while the pipeline is saturated and
//! while Redis is frozen.
//!
//! Read only: nothing here changes state, and no request body is ever read. Knows the metrics and the board, nothing
//! else.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use super::status::{Answer, Status};

/// A client that has not sent its request head by then is cut off.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection serves one request and lives no longer than this, however slowly its client reads.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);
/// More connections than this push out the oldest: a flood of slow clients cannot lock out a probe.
const CONNECTIONS: usize = 256;
/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 1024;
/// Longest request head.
const HEAD_BYTES: usize = 16 * 1024;
/// After this, a failing `accept` (no file descriptors left) is tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const ROUTES: &str = "GET /metrics   metrics in the Prometheus text format\n\
                      GET /livez     200 unless a task is stuck\n\
                      GET /readyz    200 while elements can be delivered; JSON with the reasons if not\n\
                      GET /startupz  200 once the first claims can be made\n";

/// The HTTP server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address is taken, not ours, or not allowed.
    #[error("listen for HTTP on {address}: {source}; choose another http.listen, or `http: none` to do without")]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The system gave no thread or no event queue.
    #[error("start the HTTP thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// The running server; dropping it stops it at once.
pub struct HttpServer {
    address: SocketAddr,
    stop: CancellationToken,
    /// Answers, by being closed, when the thread is done.
    done: mpsc::Receiver<()>,
}

impl HttpServer {
    /// Where it listens; the port is the real one if 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no more and waits for the outstanding requests, at most `within`. The last thing to stop, so that the
    /// probes report the drain. Blocks the thread: call it when the pipeline's runtime has nothing left to do.
    pub fn stop(self, within: Duration) {
        self.stop.cancel();
        // Both answers mean that there is nothing more to wait for: closed, or out of time.
        let _ = self.done.recv_timeout(within);
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Binds `listen` and serves until [`HttpServer::stop`]. When this returns, connections are accepted.
pub fn serve(listen: SocketAddr, metrics: Metrics, status: Status) -> Result<HttpServer, HttpError> {
    let failed = |source| HttpError::Listen { address: listen, source };
    let listener = bind(listen).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(HttpError::Thread)?;
    let listener = {
        let _inside = runtime.enter();
        TcpListener::from_std(listener).map_err(failed)?
    };
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    // Nothing is ever sent: the end of the thread closes it.
    let (finished, done) = mpsc::sync_channel(0);
    let run = move || {
        runtime.block_on(accept(listener, router(metrics, status), stopped));
        drop(finished);
    };
    thread::Builder::new().name("http".into()).spawn(run).map_err(HttpError::Thread)?;
    Ok(HttpServer { address, stop, done })
}

/// Binds like the standard library, with a longer backlog: in a flood of clients its 128 places are full at once, and a
/// refused probe tries again after a second, which is all the time that Kubernetes gives it.
fn bind(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restart must not wait for the connections of the process before.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

async fn accept(listener: TcpListener, router: Router, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    let mut oldest_first: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        // Order: the end before a new connection. Cancel-safe: `accept` takes a connection only when it returns it,
        // `join_next` and `cancelled` lose nothing.
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    oldest_first.retain(|connection| !connection.is_finished());
                    if oldest_first.len() >= CONNECTIONS && let Some(oldest) = oldest_first.pop_front() {
                        oldest.abort();
                    }
                    oldest_first.push_back(connections.spawn(connection(stream, router.clone())));
                }
                // Without the pause this would spin until a descriptor is free.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(stream: TcpStream, router: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_header_size(HEAD_BYTES)
        // Scrapes and probes come seconds apart; a connection that waits in between is one that may be slow.
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // Whatever goes wrong here is the client's: it went away, was too slow or sent no HTTP.
    let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
}

fn router(metrics: Metrics, status: Status) -> Router {
    let (live, ready, startup) = (status.clone(), status.clone(), status);
    Router::new()
        .route("/metrics", get(async move || scrape(&metrics)))
        .route("/livez", get(async move || probe(live.live())))
        .route("/readyz", get(async move || probe(ready.ready())))
        .route("/startupz", get(async move || probe(startup.startup())))
        .fallback(async || Ok::<_, Infallible>((StatusCode::NOT_FOUND, format!("not here; there is\n\n{ROUTES}"))))
        .method_not_allowed_fallback(async || (StatusCode::METHOD_NOT_ALLOWED, "read only: use GET or HEAD\n"))
}

fn scrape(metrics: &Metrics) -> Response {
    match metrics.render() {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("write the metrics: {error}\n")).into_response(),
    }
}

fn probe(answer: Answer) -> Response {
    let code = if answer.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, [(header::CONTENT_TYPE, "application/json")], format!("{:#}\n", answer.body)).into_response()
}

#[cfg(test)]
mod tests;
