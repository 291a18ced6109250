//! `/metrics` and the probes, on a thread and a runtime of their own, so that they answer while the pipeline is
//! saturated or Redis does not answer.
//!
//! Connections stay open between scrapes. Read only: nothing here changes state, and no request body is read. It depends on
//! the metrics and the board only.

mod asked;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::metrics::{Metrics, openmetrics};
use super::status::{Answer, Status};

/// Time for the first request of a connection.
const FIRST_TIMEOUT: Duration = Duration::from_secs(15);
/// Time for the next one, which begins with the end of the time before. A scrape comes each minute or more often. It also ends an
/// answer that its client does not read.
const NEXT_TIMEOUT: Duration = Duration::from_secs(150);
/// Maximum number of connections. A new one beyond it closes the oldest, so that a flood of slow clients cannot lock
/// out a probe.
const CONNECTIONS: usize = 256;
/// Maximum length of a request head, in bytes.
const HEAD_BYTES: usize = 16 * 1024;
/// Wait before a failed `accept` is tried again (no file descriptors left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Shorter answers fit into one packet as they are.
const WORTH_PACKING: usize = 1024;

const ROUTES: &str = "GET /metrics   metrics in the text format of Prometheus or OpenMetrics\n\
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
    /// Returns the address in use, with the actual port if port 0 was requested.
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
        runtime.block_on(accept(listener, metrics, status, stopped));
        drop(finished);
    };
    thread::Builder::new().name("http".into()).spawn(run).map_err(HttpError::Thread)?;
    Ok(HttpServer { address, stop, done })
}

async fn accept(listener: TcpListener, metrics: Metrics, status: Status, stop: CancellationToken) {
    let router = router(metrics.clone(), status);
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
                    oldest_first.push_back(connections.spawn(connection(stream, router.clone(), stop.clone())));
                }
                Err(error) => {
                    metrics.not_accepted("http.listen", &error);
                    // Without the pause this would spin until a descriptor is free.
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Serves requests until the client has no more, is too slow, or the server stops.
async fn connection(stream: TcpStream, router: Router, stop: CancellationToken) {
    let requests = Arc::new(AtomicU64::new(0));
    let counted = requests.clone();
    let service = TowerToHyperService::new(router);
    let service = service_fn(move |request| {
        counted.fetch_add(1, Ordering::Relaxed);
        service.call(request)
    });
    let connection = http1::Builder::new()
        // The time without a request is bounded below.
        .header_read_timeout(None)
        .max_header_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let mut seen = 0;
    let mut patience = FIRST_TIMEOUT;
    let mut stopping = false;
    loop {
        // Unbiased: whichever ends the connection first. Cancel safe: the connection stays where it is, a timer and a token lose nothing.
        tokio::select! {
            // Ignore the error: the client disconnected, or sent no HTTP.
            _ = connection.as_mut() => return,
            () = tokio::time::sleep(patience) => {
                let now = requests.load(Ordering::Relaxed);
                if now == seen {
                    return;
                }
                (seen, patience) = (now, NEXT_TIMEOUT);
            }
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                // An answer that is being written is finished, and one that waits for a request ends.
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

fn router(metrics: Metrics, status: Status) -> Router {
    let live = status.clone();
    let ready = status.clone();
    let startup = status;
    Router::new()
        .route("/metrics", get(async move |asked: HeaderMap| scrape(&metrics, &asked)))
        .route("/livez", get(async move || probe(live.live())))
        .route("/readyz", get(async move || probe(ready.ready())))
        .route("/startupz", get(async move || probe(startup.startup())))
        .fallback(async || Ok::<_, Infallible>((StatusCode::NOT_FOUND, format!("not here; there is\n\n{ROUTES}"))))
        .method_not_allowed_fallback(async || (StatusCode::METHOD_NOT_ALLOWED, "read only: use GET or HEAD\n"))
}

/// Returns the metrics in the format that the client asks for, packed if it reads gzip.
fn scrape(metrics: &Metrics, asked: &HeaderMap) -> Response {
    let rendered = if asked::wants_openmetrics(asked) {
        Ok((openmetrics::CONTENT_TYPE, metrics.render_openmetrics()))
    } else {
        metrics.render().map(|text| (prometheus::TEXT_FORMAT, text))
    };
    let (kind, text) = match rendered {
        Ok(rendered) => rendered,
        Err(error) => {
            return (StatusCode::INTERNAL_SERVER_ERROR, format!("write the metrics: {error}\n")).into_response();
        }
    };
    let packed = (text.len() >= WORTH_PACKING && asked::takes_gzip(asked)).then(|| pack(text.as_bytes()));
    let head = [(header::CONTENT_TYPE, kind), (header::VARY, "accept, accept-encoding")];
    match packed {
        Some(Ok(packed)) => (head, [(header::CONTENT_ENCODING, "gzip")], packed).into_response(),
        // Writing to memory does not fail; if it did, the plain text would be right.
        Some(Err(_)) | None => (head, text).into_response(),
    }
}

fn pack(text: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::with_capacity(text.len() / 8), Compression::fast());
    packer.write_all(text)?;
    packer.finish()
}

fn probe(answer: Answer) -> Response {
    let code = if answer.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, [(header::CONTENT_TYPE, "application/json")], format!("{:#}\n", answer.body)).into_response()
}

#[cfg(test)]
mod tests;
