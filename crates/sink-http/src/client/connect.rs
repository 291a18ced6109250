//! Opens a connection, with the version of HTTP that the server offers.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};

use super::super::HttpSpec;
use super::connection::{Http1Connection, Http2Connection};
use super::errors;
use super::tasks::Tasks;
use delaybridge_core::message::Failure;
use delaybridge_dial::{Attempt, DialStream, Options, ReadBudget, Tls};
use delaybridge_http_client::{FairStream, PLAIN, TooMany, read_budget};

/// The versions of HTTP that are offered over TLS.
const PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];

/// Maximum number of headers of an answer.
const MOST_HEADERS: usize = 256;

#[derive(Debug)]
pub(super) enum OpenedConnection {
    /// HTTP/1.1: one request after the other.
    Alone(Http1Connection),
    /// HTTP/2: many at once.
    Shared(Arc<Http2Connection>),
}

/// Opens connections to the server of a sink.
#[derive(Debug)]
pub(super) struct HttpConnector {
    spec: Arc<HttpSpec>,
    tls: Option<Tls>,
    tasks: Tasks,
    budget: Arc<ReadBudget>,
}

impl HttpConnector {
    pub(super) fn new(spec: Arc<HttpSpec>, tasks: Tasks) -> HttpConnector {
        let tls = spec.origin.tls.then(|| Tls::new(spec.tls.clone().unwrap_or_default()).with_protocols(PROTOCOLS));
        HttpConnector { spec, tls, tasks, budget: read_budget() }
    }

    /// Returns whether the server may offer HTTP/2, which is only asked for over TLS.
    pub(super) fn may_share(&self) -> bool {
        self.tls.is_some()
    }

    /// Builds the failure of a new connection that ended before it could carry anything.
    pub(super) fn ended_at_once(&self) -> Failure {
        errors::ended_at_once(&self.spec)
    }

    /// Connects within the sink's `connect_timeout`. Nothing of an element is sent.
    pub(super) async fn open(&self) -> Result<OpenedConnection, Failure> {
        let attempt = Attempt::new(self.tls.is_some(), PLAIN);
        let opening = async {
            let to = self.spec.origin.address();
            let proxy = self.spec.proxy.of(&to, self.tls.is_some());
            let opened = match proxy {
                Ok(proxy) => {
                    let options = Options { proxy, ..Options::default() };
                    attempt.open_with(&to, self.tls.as_ref(), options).await
                }
                Err(error) => Err(error),
            };
            let stream = opened.map_err(|error| errors::not_connected(&self.spec, &error))?;
            match stream.protocol() {
                Some(b"h2") => self.shared(stream).await,
                _ => self.alone(stream).await,
            }
        };
        let opened = attempt.within(self.spec.connect_timeout, opening).await;
        opened.unwrap_or_else(|late| Err(errors::not_connected(&self.spec, &late)))
    }

    async fn alone(&self, stream: DialStream) -> Result<OpenedConnection, Failure> {
        let too_many = TooMany::default();
        let stream = FairStream::new(stream, self.budget.clone(), too_many.clone());
        let handshake = lenient().handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| errors::handshake(&self.spec, &error))?;
        self.tasks.spawn(connection);
        Ok(OpenedConnection::Alone(Http1Connection::new(sender, too_many)))
    }

    async fn shared(&self, stream: DialStream) -> Result<OpenedConnection, Failure> {
        // HTTP/2 has its own way to skip interim answers; its frames are read in the same share.
        let stream = FairStream::new(stream, self.budget.clone(), TooMany::default());
        let handshake = http2::Builder::new(self.tasks.clone())
            .timer(TokioTimer::new())
            // A peer that has gone without a word is noticed while requests wait for it.
            .keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(5))
            // Until the server has said how many streams it takes.
            .initial_max_send_streams(1)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, mut connection) = handshake.map_err(|error| errors::handshake(&self.spec, &error))?;
        let shared = Arc::new(Http2Connection::new(sender));
        let limit = shared.limit();
        self.tasks.spawn(poll_fn(move |context| {
            let polled = Pin::new(&mut connection).poll(context);
            limit.set(connection.current_max_send_streams());
            polled
        }));
        Ok(OpenedConnection::Shared(shared))
    }
}

/// Creates a client of HTTP/1.1 that takes heads which other clients take. No header but `Retry-After`, `Location` and
/// `Date` is used, no body is, and no connection is shared with anybody: so nothing can be smuggled past what reads
/// them. Two different lengths stay an error.
fn lenient() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .allow_obsolete_multiline_headers_in_responses(true)
        .allow_spaces_after_header_name_in_responses(true)
        .ignore_invalid_headers_in_responses(true)
        .max_headers(MOST_HEADERS);
    builder
}
