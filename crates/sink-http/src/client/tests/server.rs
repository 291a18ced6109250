//! A webhook in this process: HTTP/1.1 and HTTP/2, with and without TLS, that notes what it gets.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use super::super::super::HttpSpec;
use super::super::body::Slices;
use super::plain;
use delaybridge_http_client::HttpOrigin;
use delaybridge_settings::TlsFiles;

/// A request as it was received.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) version: Version,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// What is answered to a path: a status and headers.
type Answers = HashMap<String, (u16, Vec<(&'static str, String)>)>;

/// What all connections share.
#[derive(Debug)]
struct Desk {
    seen: Mutex<Vec<Seen>>,
    answers: Mutex<Answers>,
    stalled: watch::Sender<bool>,
    /// Paths of which requests wait.
    stalled_paths: watch::Sender<HashSet<String>>,
    /// The status of all paths that have none of their own.
    status: AtomicU16,
    answered: AtomicUsize,
    connections: AtomicUsize,
    /// Requests that are answered at this moment, and the most there ever were.
    busy: Mutex<(usize, usize)>,
}

/// How the server is reached.
#[derive(Debug, Clone, Default)]
pub(super) struct Options {
    /// The protocols that it offers over TLS; without TLS it speaks HTTP/1.1.
    pub(super) alpn: Option<Vec<&'static str>>,
    /// Streams that an HTTP/2 connection may have at once.
    pub(super) max_streams: Option<u32>,
    pub(super) client_certificates: bool,
}

/// The server; it ends with this handle.
pub(super) struct Server {
    pub(super) port: u16,
    pub(super) pki: Pki,
    options: Options,
    desk: Arc<Desk>,
    running: Option<AbortOnDropHandle<()>>,
    _dir: tempfile::TempDir,
}

impl Server {
    /// HTTP/1.1 without TLS.
    pub(super) async fn start() -> Server {
        Server::with(Options::default()).await
    }

    /// TLS with these protocols.
    pub(super) async fn tls(alpn: &[&'static str]) -> Server {
        Server::with(Options { alpn: Some(alpn.to_vec()), ..Options::default() }).await
    }

    pub(super) async fn with(options: Options) -> Server {
        delaybridge_dial::init();
        let dir = tempfile::tempdir().unwrap();
        let desk = Desk {
            seen: Mutex::default(),
            answers: Mutex::default(),
            stalled: watch::Sender::new(false),
            stalled_paths: watch::Sender::default(),
            status: AtomicU16::new(200),
            answered: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            busy: Mutex::default(),
        };
        let pki = Pki::new(dir.path());
        let mut server = Server { port: 0, pki, options, desk: Arc::new(desk), running: None, _dir: dir };
        server.listen().await;
        server
    }

    /// Listens, at the same port as before.
    pub(super) async fn listen(&mut self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).await.unwrap();
        self.port = listener.local_addr().unwrap().port();
        let tls = self.options.alpn.as_ref().map(|alpn| self.pki.acceptor(alpn, self.options.client_certificates));
        let desk = self.desk.clone();
        let streams = self.options.max_streams;
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _): (_, SocketAddr) = listener.accept().await.unwrap();
                desk.connections.fetch_add(1, Ordering::Relaxed);
                connections.spawn(serve(stream, tls.clone(), desk.clone(), streams));
            }
        });
        self.running = Some(AbortOnDropHandle::new(accepting));
    }

    /// Ends all connections and listens no more.
    pub(super) fn stop(&mut self) {
        self.running = None;
    }

    /// Requests wait from now on, or go on.
    pub(super) fn stall(&self, stalled: bool) {
        self.desk.stalled.send_replace(stalled);
    }

    /// Requests to a path wait from now on, or go on.
    pub(super) fn stall_path(&self, path: &str, stalled: bool) {
        self.desk.stalled_paths.send_modify(|paths| {
            if stalled {
                paths.insert(path.to_owned())
            } else {
                paths.remove(path)
            };
        });
    }

    /// The status of all paths that have none of their own.
    pub(super) fn answer_all(&self, status: u16) {
        self.desk.status.store(status, Ordering::Relaxed);
    }

    /// Requests that were answered, with whatever status.
    pub(super) fn answered(&self) -> usize {
        self.desk.answered.load(Ordering::Relaxed)
    }

    /// What is answered to a path from now on.
    pub(super) fn answer(&self, path: &str, status: u16, headers: &[(&'static str, &str)]) {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.desk.answers.lock().unwrap().insert(path.to_owned(), (status, headers));
    }

    /// What was received and answered with success or failure, in its order.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.desk.seen.lock().unwrap().clone()
    }

    /// Connections that were made since the start.
    pub(super) fn connections(&self) -> usize {
        self.desk.connections.load(Ordering::Relaxed)
    }

    /// The most requests that were answered at one time.
    pub(super) fn busiest(&self) -> usize {
        self.desk.busy.lock().unwrap().1
    }

    /// How a sink reaches it.
    pub(super) fn spec(&self) -> HttpSpec {
        let tls = self.options.alpn.is_some();
        let files = TlsFiles { ca_file: Some(self.pki.ca.clone()), client: None, ..TlsFiles::default() };
        HttpSpec {
            origin: HttpOrigin { tls, host: "localhost".to_owned(), port: self.port },
            tls: tls.then_some(files),
            ..plain(self.port)
        }
    }
}

async fn serve(stream: TcpStream, tls: Option<TlsAcceptor>, desk: Arc<Desk>, streams: Option<u32>) {
    let service = service_fn(move |request| answer(desk.clone(), request));
    // How a connection ends is the client's to notice.
    let Some(tls) = tls else {
        return drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
    };
    let Ok(stream) = tls.accept(stream).await else { return };
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.max_concurrent_streams(streams.or(Some(200)));
        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
    } else {
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }
}

async fn answer(desk: Arc<Desk>, request: Request<Incoming>) -> Result<Response<Slices>, Infallible> {
    let busy = Busy::new(&desk);
    let mut stalled = desk.stalled.subscribe();
    stalled.wait_for(|stalled| !stalled).await.unwrap();
    let mut paths = desk.stalled_paths.subscribe();
    paths.wait_for(|paths| !paths.contains(request.uri().path())).await.unwrap();
    let (head, mut incoming) = request.into_parts();
    let mut body = Vec::new();
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut incoming).poll_frame(context)).await {
        match frame {
            Ok(frame) => body.extend_from_slice(&frame.into_data().unwrap_or_default()),
            // The client has given it up: it has not arrived.
            Err(_) => return Ok(Response::new(Slices::new(Bytes::new()))),
        }
    }
    let path = head.uri.path_and_query().map(|path| path.as_str().to_owned()).unwrap_or_default();
    let method = head.method.as_str().to_owned();
    let other = (desk.status.load(Ordering::Relaxed), Vec::new());
    let (status, headers) = desk.answers.lock().unwrap().get(&path).cloned().unwrap_or(other);
    desk.answered.fetch_add(1, Ordering::Relaxed);
    if status < 300 {
        let seen = Seen { method, path, version: head.version, headers: head.headers, body };
        desk.seen.lock().unwrap().push(seen);
    }
    let mut response = Response::new(Slices::new(Bytes::from_static(b"a secret of the server")));
    *response.status_mut() = status.try_into().unwrap();
    for (name, value) in headers {
        response.headers_mut().append(name, value.parse().unwrap());
    }
    drop(busy);
    Ok(response)
}

/// Counts a request while it is answered.
struct Busy<'a>(&'a Desk);

impl Busy<'_> {
    fn new(desk: &Desk) -> Busy<'_> {
        let mut busy = desk.busy.lock().unwrap();
        busy.0 += 1;
        busy.1 = busy.1.max(busy.0);
        Busy(desk)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.lock().unwrap().0 -= 1;
    }
}

/// A CA with a server's and a client's certificate, as files.
pub(super) struct Pki {
    pub(super) ca: PathBuf,
    pub(super) server: (PathBuf, PathBuf),
    pub(super) client: (PathBuf, PathBuf),
}

impl Pki {
    pub(super) fn new(dir: &Path) -> Pki {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "a private CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let write = |name: &str, text: String| {
            let path = dir.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let issue = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            let cert = params.signed_by(&key, &ca).unwrap();
            (write(&format!("{name}.pem"), cert.pem()), write(&format!("{name}.key"), key.serialize_pem()))
        };
        Pki { server: issue("server"), client: issue("client"), ca: write("ca.pem", ca.pem()) }
    }

    pub(super) fn acceptor(&self, alpn: &[&str], client_certificates: bool) -> TlsAcceptor {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.ca).unwrap()).unwrap();
        let builder = rustls::ServerConfig::builder();
        let builder = if client_certificates {
            builder.with_client_cert_verifier(
                rustls::server::WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap(),
            )
        } else {
            builder.with_no_client_auth()
        };
        let chain = vec![CertificateDer::from_pem_file(&self.server.0).unwrap()];
        let key = PrivateKeyDer::from_pem_file(&self.server.1).unwrap();
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}
