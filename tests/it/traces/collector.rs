//! A collector that stores the requests, over OTLP/gRPC or OTLP/HTTP; and a webhook, to see the propagated context.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::vec::IntoIter;

use bytes::Bytes;
use futures_util::stream::{Iter, iter};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::HeaderMap;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

#[derive(Debug, Clone)]
pub struct Received {
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

/// The server, which ends on drop.
pub struct Collector {
    pub port: u16,
    received: Arc<Mutex<Vec<Received>>>,
    listening: JoinHandle<()>,
}

impl Collector {
    /// Starts the server, which responds with these codes, one per request, and then with success: codes of gRPC if
    /// `grpc`, else of HTTP.
    pub async fn start(grpc: bool, codes: &[u16]) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let port = listener.local_addr().expect("an address").port();
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let codes = Arc::new(Mutex::new(codes.iter().copied().collect::<VecDeque<_>>()));
        let keep = received.clone();
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let keep = keep.clone();
                let codes = codes.clone();
                let service = service_fn(move |request| answer(request, grpc, keep.clone(), codes.clone()));
                let io = TokioIo::new(stream);
                // A connection ends as its client wants.
                tokio::spawn(async move {
                    let _ = if grpc {
                        http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await
                    } else {
                        http1::Builder::new().serve_connection(io, service).await
                    };
                });
            }
        });
        Collector { port, received, listening }
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().expect("the lock").clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// The frames of a response.
type Frames = Iter<IntoIter<Result<Frame<Bytes>, Infallible>>>;

async fn answer(
    request: Request<Incoming>,
    grpc: bool,
    keep: Arc<Mutex<Vec<Received>>>,
    codes: Arc<Mutex<VecDeque<u16>>>,
) -> Result<Response<StreamBody<Frames>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let text = |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let body = body.collect().await?.to_bytes().to_vec();
    keep.lock().expect("the lock").push(Received { path: head.uri.path().to_owned(), headers, body });
    let code = codes.lock().expect("the lock").pop_front().unwrap_or(if grpc { 0 } else { 200 });
    let mut response = Response::builder();
    let mut frames = vec![Ok(Frame::data(Bytes::new()))];
    if grpc {
        response = response.header("content-type", "application/grpc");
        let code = code.to_string().parse().expect("a number");
        // An empty message, followed by the status.
        frames = vec![Ok(Frame::data(Bytes::from_static(&[0; 5])))];
        frames.push(Ok(Frame::trailers(HeaderMap::from_iter([("grpc-status".parse().expect("a name"), code)]))));
    } else {
        response = response.status(code);
    }
    Ok(response.body(StreamBody::new(iter(frames))).expect("an answer"))
}
