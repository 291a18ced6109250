//! `/metrics` and the probes, on a thread and a runtime of their own, so that they answer while the pipeline is
//! saturated or Redis does not answer.
//!
//! Connections stay open between scrapes. Read only: nothing here changes state, and no request body is read. It depends on
//! the metrics and the board only.

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use delaybridge_http_server::accept::wants_openmetrics;
use delaybridge_http_server::gzip;
use delaybridge_http_server::handover::ReplyBody;
use delaybridge_http_server::listener::ApiListener;
use delaybridge_http_server::reply::{JSON, Reply};
use delaybridge_http_server::server::{Connection, Served};
use delaybridge_telemetry::events::Events;
use delaybridge_telemetry::events::api::ApiEvents;
use delaybridge_telemetry::metrics::Metrics;
use delaybridge_telemetry::status::{Answer, Status};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_ENCODING, HeaderValue, VARY};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use tokio_util::sync::CancellationToken;

/// Time for the first request of a connection, and for each further one: a scrape comes each minute or more often.
const PATIENCE: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(150)];
/// Maximum number of connections. Beyond it the oldest without a request is closed, so that a flood of slow clients cannot lock
/// out a probe.
const CONNECTIONS: usize = 256;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const ROUTES: &str = "GET /metrics   metrics in the text format of Prometheus or OpenMetrics\n\
                      GET /livez     200 unless a task is stuck\n\
                      GET /readyz    200 while elements can be delivered; JSON with the reasons if not\n\
                      GET /startupz  200 once the first claims can be made\n";

/// The running server; dropping it stops it at once.
pub struct HttpServer {
    stop: CancellationToken,
    /// Closed when the thread has ended; nothing is ever sent.
    done: mpsc::Receiver<()>,
}

impl HttpServer {
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

/// Binds the address.
pub fn bind(listen: SocketAddr) -> anyhow::Result<ApiListener> {
    ApiListener::bind(&listen.into()).map_err(|error| {
        anyhow!("listen for HTTP on {listen}: {error}; choose another http.listen, or `http: none` to do without")
    })
}

/// Serves until [`HttpServer::stop`]. Connections are accepted when it returns.
pub fn serve(listener: ApiListener, events: &Events) -> anyhow::Result<HttpServer> {
    let stop = CancellationToken::new();
    let probes = Probes {
        metrics: events.metrics().clone(),
        status: events.status().clone(),
        events: events.probes(),
        stop: stop.clone(),
    };
    let failed = "start the HTTP thread";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context(failed)?;
    // Nothing is ever sent: the end of the thread closes the channel.
    let (finished, done) = mpsc::sync_channel(0);
    let run = move || {
        runtime.block_on(delaybridge_http_server::server::serve(listener, Arc::new(probes), None));
        drop(finished);
    };
    thread::Builder::new().name("http".into()).spawn(run).context(failed)?;
    Ok(HttpServer { stop, done })
}

/// The metrics and the board, on a listener.
struct Probes {
    metrics: Metrics,
    status: Status,
    events: ApiEvents,
    stop: CancellationToken,
}

impl Served for Probes {
    type Body = ReplyBody;

    async fn respond(self: Arc<Self>, connection: Connection, request: Request<Incoming>) -> Response<ReplyBody> {
        answer(&self, &request).response(connection.unflushed, None)
    }

    fn stopping(&self) -> &CancellationToken {
        &self.stop
    }

    fn patience(&self) -> [Duration; 2] {
        PATIENCE
    }

    fn max_connections(&self) -> usize {
        CONNECTIONS
    }

    fn events(&self) -> &ApiEvents {
        &self.events
    }
}

fn answer(probes: &Probes, request: &Request<Incoming>) -> Reply {
    let status = &probes.status;
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    match request.uri().path() {
        "/metrics" | "/livez" | "/readyz" | "/startupz" if !reads => {
            let detail = "read only: use GET or HEAD\n";
            Reply::bytes(StatusCode::METHOD_NOT_ALLOWED, TEXT, detail).header(ALLOW, "GET,HEAD")
        }
        "/metrics" => scrape(&probes.metrics, request.headers()),
        "/livez" => probe(&status.live()),
        "/readyz" => probe(&status.ready()),
        "/startupz" => probe(&status.startup()),
        _ => Reply::bytes(StatusCode::NOT_FOUND, TEXT, format!("not here; there is\n\n{ROUTES}")),
    }
}

/// Returns the metrics in the format that the client asks for, packed if it reads gzip.
fn scrape(metrics: &Metrics, asked: &HeaderMap) -> Reply {
    let (kind, text) = match metrics.render_as(wants_openmetrics(asked)) {
        Ok(rendered) => rendered,
        Err(error) => {
            let detail = format!("write the metrics: {error}\n");
            return Reply::bytes(StatusCode::INTERNAL_SERVER_ERROR, TEXT, detail);
        }
    };
    let packed = gzip::is_wanted(asked, text.len()).then(|| gzip::pack(text.as_bytes())).flatten();
    let kind = HeaderValue::from_static(kind);
    let reply = match packed {
        Some(packed) => Reply::bytes(StatusCode::OK, kind, packed).header(CONTENT_ENCODING, "gzip"),
        None => Reply::bytes(StatusCode::OK, kind, text),
    };
    reply.header(VARY, "accept, accept-encoding")
}

fn probe(answer: &Answer) -> Reply {
    let status = if answer.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Reply::bytes(status, JSON, format!("{:#}\n", answer.body))
}

#[cfg(test)]
mod tests;
