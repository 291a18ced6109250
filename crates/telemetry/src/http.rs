//! `/metrics` and the probes, on a thread and a runtime of their own, so that they answer while the pipeline is
//! saturated or Redis does not answer.
//!
//! Read only: nothing here changes state, and no request body is read. It depends on the metrics and the board only.

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
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use super::status::{Answer, Status};

/// Time for a client to send its request head; then it is disconnected.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest life of a connection, which serves one request, however slowly its client reads.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum number of connections. A new one beyond it closes the oldest, so that a flood of slow clients cannot lock
/// out a probe.
const CONNECTIONS: usize = 256;
/// Maximum length of a request head, in bytes.
const HEAD_BYTES: usize = 16 * 1024;
/// Wait before a failed `accept` is tried again (no file descriptors left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const ROUTES: &str = "GET /metrics   metrics in the Prometheus text format\n\
                      GET /livez     200 unless a task is stuck\n\
                      GET /readyz    200 while elements can be delivered; JSON with the reasons if not\n\
                      GET /startupz  200 once the first claims can be made\n";

/// The reason why the HTTP server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address is in use, not of this machine, or not permitted.
    #[error("listen for HTTP on {address}: {source}; choose another http.listen, or `http: none` to do without")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The system provides no thread or no event queue.
    #[error("start the HTTP thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// The running server; dropping it stops it at once.
pub struct HttpServer {
    address: SocketAddr,
    stop: CancellationToken,
    /// Closed when the thread has ended; nothing is ever sent.
    done: mpsc::Receiver<()>,
}

impl HttpServer {
    /// The address in use, with the actual port if port 0 was requested.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting and waits for pending requests, at most `within`. Called last, so that the probes report the
    /// drain. It blocks the thread: call it when the pipeline's runtime has nothing left to do.
    pub fn stop(self, within: Duration) {
        self.stop.cancel();
        // Ignore the result: closed and timed out both mean that there is nothing more to wait for.
        let _ = self.done.recv_timeout(within);
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Binds `listen` and serves until [`HttpServer::stop`]. Connections are accepted when it returns.
pub fn serve(listen: SocketAddr, metrics: Metrics, status: Status) -> Result<HttpServer, HttpError> {
    let failed = |source| HttpError::Listen { address: listen, source };
    let listener = crate::listen::listen(listen).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(HttpError::Thread)?;
    let listener = {
        let _inside = runtime.enter();
        TcpListener::from_std(listener).map_err(failed)?
    };
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    // Nothing is ever sent: the end of the thread closes the channel.
    let (finished, done) = mpsc::sync_channel(0);
    let run = move || {
        runtime.block_on(accept(listener, router(metrics, status), stopped));
        drop(finished);
    };
    thread::Builder::new().name("http".into()).spawn(run).map_err(HttpError::Thread)?;
    Ok(HttpServer { address, stop, done })
}

async fn accept(listener: TcpListener, router: Router, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    let mut oldest_first: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        // Biased: shutdown before a new connection. Cancel safe: `accept` takes a connection only when it returns it,
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
        // Scrapes and probes come seconds apart, and idle connections would count against the limit.
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // Ignore the error: the client disconnected, was too slow, or sent no HTTP.
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
