//! A webhook over TLS that stores the requests, and responds as the test says.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use harness::tls::Pki;
use harness::{Delivery, eventually};

/// A request as received, whatever the response was.
#[derive(Debug, Clone)]
pub struct Received {
    pub method: String,
    /// The path and query.
    pub path: String,
    pub version: Version,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    pub status: u16,
}

/// The responses by path, other than 204: a status and a header.
type Answers = HashMap<String, (u16, Option<(&'static str, String)>)>;

#[derive(Debug, Default)]
struct Desk {
    received: Mutex<Vec<Received>>,
    answers: Mutex<Answers>,
}

/// The webhook, which ends on drop.
pub struct Receiver {
    pub port: u16,
    /// The folder with the daemon's token and secret, and the CA.
    pub dir: TempDir,
    pub pki: Pki,
    tls: TlsAcceptor,
    desk: Arc<Desk>,
    listening: Option<JoinHandle<()>>,
}

impl Receiver {
    /// Starts the webhook with these protocols (`h2`, `http/1.1`).
    pub async fn start(alpn: &[&str]) -> Receiver {
        let dir = TempDir::with_prefix("webhook-").expect("make a directory");
        let pki = Pki::create(dir.path());
        let chain = vec![CertificateDer::from_pem_file(&pki.server_cert).expect("read the certificate")];
        let key = PrivateKeyDer::from_pem_file(&pki.server_key).expect("read the key");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.expect("versions of TLS").with_no_client_auth();
        let mut config = builder.with_single_cert(chain, key).expect("use the certificate");
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let tls = TlsAcceptor::from(Arc::new(config));
        let mut receiver = Receiver { port: 0, dir, pki, tls, desk: Arc::default(), listening: None };
        receiver.listen().await;
        receiver
    }

    /// Listens again on the same port.
    pub async fn listen(&mut self) {
        // Meanwhile a client of another test may have the port.
        let listener = eventually("the port to be free", Duration::from_secs(60), async || {
            TcpListener::bind(("127.0.0.1", self.port)).await.map_err(|error| error.to_string())
        })
        .await;
        self.port = listener.local_addr().expect("an address").port();
        let tls = self.tls.clone();
        let desk = self.desk.clone();
        self.listening = Some(tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, tls.clone(), desk.clone()));
            }
        }));
    }

    /// Ends all connections abruptly, and stops listening.
    pub async fn stop(&mut self) {
        if let Some(listening) = self.listening.take() {
            listening.abort();
            drop(listening.await);
        }
    }

    /// Sets the response to a path.
    pub fn answer(&self, path: &str, status: u16, header: Option<(&'static str, &str)>) {
        let header = header.map(|(name, value)| (name, value.to_owned()));
        self.desk.answers.lock().expect("answers").insert(path.to_owned(), (status, header));
    }

    /// All requests so far, except the probes.
    pub fn received(&self) -> Vec<Received> {
        let received = self.desk.received.lock().expect("requests");
        received.iter().filter(|received| received.method != "OPTIONS").cloned().collect()
    }

    /// All elements that were confirmed so far.
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.received().iter().filter(|received| received.status < 300).map(Received::delivery).collect()
    }
}

impl Received {
    /// A header by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    fn delivery(&self) -> Delivery {
        let text = |name: &str| self.header(name).map(str::to_owned);
        Delivery {
            id: text("delaybridge-id"),
            payload: self.body.clone(),
            queue: text("delaybridge-queue"),
            due_ms: text("delaybridge-due-ms").map(|due| due.parse().expect("a number")),
            attempt: text("delaybridge-attempt").map(|attempt| attempt.parse().expect("a number")),
            ..Delivery::default()
        }
    }
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, desk: Arc<Desk>) {
    // Some tests include clients that disconnect.
    let Ok(stream) = tls.accept(stream).await else { return };
    let service = service_fn(move |request| answer(desk.clone(), request));
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let _ = server.serve_connection(TokioIo::new(stream), service).await;
    } else {
        let server = hyper::server::conn::http1::Builder::new();
        let _ = server.serve_connection(TokioIo::new(stream), service).await;
    }
}

async fn answer(desk: Arc<Desk>, request: Request<Incoming>) -> Result<Response<String>, hyper::Error> {
    let (head, mut incoming) = request.into_parts();
    let mut body = Vec::new();
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut incoming).poll_frame(context)).await {
        body.extend_from_slice(&frame?.into_data().unwrap_or_default());
    }
    let path = head.uri.path_and_query().map(|path| path.as_str().to_owned()).unwrap_or_default();
    let known = desk.answers.lock().expect("answers").get(&path).cloned();
    let (status, header) = known.unwrap_or((204, None));
    let text = |value: &hyper::header::HeaderValue| value.to_str().expect("text").to_owned();
    let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let method = head.method.to_string();
    let version = head.version;
    let received = Received { method, path, version, headers, body, status };
    desk.received.lock().expect("requests").push(received);
    let mut response = Response::new(String::new());
    *response.status_mut() = status.try_into().expect("a status");
    if let Some((name, value)) = header {
        response.headers_mut().insert(name, value.parse().expect("a value"));
    }
    Ok(response)
}
