//! Handshakes with small servers, and files that cannot be used.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::{Address, Attempt};
use delaybridge_settings::Fingerprint;

const LIMIT: Duration = Duration::from_secs(30);

/// An authority with the files of a server and of a client.
struct Pki {
    dir: TempDir,
    ca: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Pki {
    fn new() -> Pki {
        init();
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&key).unwrap();
        let pki = Pki { dir: tempfile::tempdir().unwrap(), ca, issuer: Issuer::new(params, key) };
        pki.file("ca.pem", &pki.ca.pem());
        pki
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    fn leaf(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    fn files(&self) -> TlsFiles {
        TlsFiles { ca_file: Some(self.dir.path().join("ca.pem")), ..TlsFiles::default() }
    }

    fn server(&self, (certificate, key): &(rcgen::Certificate, KeyPair), asks_for_one: bool) -> ServerConfig {
        let builder = ServerConfig::builder();
        let mut roots = RootCertStore::empty();
        roots.add(self.ca.der().clone()).unwrap();
        let builder = if asks_for_one {
            builder.with_client_cert_verifier(WebPkiClientVerifier::builder(roots.into()).build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        builder.with_single_cert(vec![certificate.der().clone()], key).unwrap()
    }
}

/// Connects to a server that does this with its end, and says hello.
async fn hello<F: Future<Output = ()>>(tls: &Tls, serve: impl FnOnce(TcpStream) -> F) -> Result<(), DialError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::tcp("localhost", listener.local_addr().unwrap().port());
    let attempt = Attempt::new(true, "write `plain`");
    let client = async {
        let mut stream = attempt.open(&address, Some(tls)).await?;
        attempt.enter(Phase::Greeting);
        let io = |error: std::io::Error| attempt.io(&error);
        stream.ask(b"hello").await.map_err(io)?;
        stream.read_u8().await.map_err(io)?;
        Ok(())
    };
    let server = async { serve(listener.accept().await.unwrap().0).await };
    let (got, ()) = tokio::time::timeout(LIMIT, async { tokio::join!(client, server) }).await.unwrap();
    got
}

async fn answer(config: ServerConfig, stream: TcpStream) {
    let Ok(mut stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await else { return };
    if stream.read_exact(&mut [0; 5]).await.is_ok() {
        stream.write_all(b"!").await.unwrap();
        let _ = stream.shutdown().await;
    }
}

fn assert_refused(got: Result<(), DialError>, words: &str) {
    let error = got.expect_err(words);
    assert!(error.to_string().contains(words), "`{error}` has no `{words}`");
    assert_eq!(error.phase(), Phase::Tls, "{error}");
    assert!(error.needs_a_person(), "{error}");
}

#[tokio::test]
async fn what_is_wrong_with_a_handshake_is_said_with_its_remedy() {
    let pki = Pki::new();
    let tls = Tls::new(pki.files());
    let leaf = pki.leaf("localhost");
    hello(&tls, |stream| answer(pki.server(&leaf, false), stream)).await.unwrap();

    let got = hello(&tls, |stream| answer(pki.server(&leaf, true), stream)).await;
    assert_refused(got, "set `cert_file` and `key_file`");

    let other = pki.leaf("another.example");
    let got = hello(&tls, |stream| answer(pki.server(&other, false), stream)).await;
    assert_refused(got, "is for another name");

    let named = TlsFiles { server_name: Some("another.example".to_owned()), ..pki.files() };
    hello(&Tls::new(named), |stream| answer(pki.server(&other, false), stream)).await.unwrap();
    let any_name = Tls::new(TlsFiles { verify_hostname: false, ..pki.files() });
    hello(&any_name, |stream| answer(pki.server(&other, false), stream)).await.unwrap();

    let stranger = Pki::new();
    let got = hello(&any_name, |stream| answer(stranger.server(&stranger.leaf("localhost"), false), stream)).await;
    assert_refused(got, "set `ca_file` to the CA that issued it");
    let got = hello(&tls, |stream| answer(stranger.server(&stranger.leaf("localhost"), false), stream)).await;
    assert_refused(got, "set `ca_file` to the CA that issued it");

    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&key).unwrap();
    let trusting = TlsFiles { ca_file: Some(pki.file("self.pem", &ca.pem())), ..TlsFiles::default() };
    let got = hello(&Tls::new(trusting), |stream| answer(pki.server(&(ca, key), false), stream)).await;
    assert_refused(got, "is that of a CA itself");

    // What a server answers that knows only TLS 1.1: the alert `protocol_version`.
    let old = |mut stream: TcpStream| async move {
        let _ = stream.read(&mut [0; 4_096]).await;
        let _ = stream.write_all(&[21, 3, 1, 0, 2, 2, 70]).await;
    };
    assert_refused(hello(&tls, old).await, "allow TLS 1.2 or 1.3");

    let plain = |mut stream: TcpStream| async move { drop(stream.write_all(b"INFO {}\r\n and more\r\n").await) };
    assert_refused(hello(&tls, plain).await, "does not speak TLS: write `plain`, or use");
}

/// The answer to a handshake with this certificate, whoever has its key.
#[derive(Debug)]
struct Always(Arc<rustls::sign::CertifiedKey>);

impl rustls::server::ResolvesServerCert for Always {
    fn resolve(&self, _hello: rustls::server::ClientHello<'_>) -> Option<Arc<rustls::sign::CertifiedKey>> {
        Some(self.0.clone())
    }
}

#[tokio::test]
async fn a_pinned_certificate_is_accepted_from_whoever_has_its_key() {
    let pki = Pki::new();
    let stranger = Pki::new();
    let leaf = stranger.leaf("another.example");
    let print = |certificate: &rcgen::Certificate| {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate.der());
        Fingerprint(digest.as_ref().try_into().unwrap())
    };
    let pinned = |pins: &[Fingerprint]| Tls::new(TlsFiles { fingerprints: pins.to_vec(), ..TlsFiles::default() });
    let other = pki.leaf("localhost");
    let both = pinned(&[print(&other.0), print(&leaf.0)]);
    hello(&both, |stream| answer(stranger.server(&leaf, false), stream)).await.unwrap();
    hello(&both, |stream| answer(pki.server(&other, false), stream)).await.unwrap();

    let wrong = pinned(&[print(&other.0)]);
    let got = hello(&wrong, |stream| answer(stranger.server(&leaf, false), stream)).await;
    assert_refused(got, &format!("has the fingerprint {}, which is not in `fingerprints`", print(&leaf.0)));

    // A copy of the certificate, with another key.
    let key = PrivateKeyDer::try_from(other.1.serialize_der()).unwrap();
    let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).unwrap();
    let copy = rustls::sign::CertifiedKey::new(vec![leaf.0.der().clone()], key);
    let config = ServerConfig::builder().with_no_client_auth().with_cert_resolver(Arc::new(Always(Arc::new(copy))));
    let got = hello(&both, |stream| answer(config, stream)).await;
    assert_eq!(got.expect_err("it has no key").phase(), Phase::Tls);
}

/// A certificate as `openssl x509 -req` makes it without extensions.
const VERSION_1: &str = include_str!("version_1.pem");

#[tokio::test]
async fn a_certificate_of_version_1_is_named() {
    let pki = Pki::new();
    let certificate = CertificateDer::from_pem_slice(VERSION_1.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(VERSION_1.as_bytes()).unwrap();
    let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).unwrap();
    let always = Always(Arc::new(rustls::sign::CertifiedKey::new(vec![certificate], key)));
    let config = ServerConfig::builder().with_no_client_auth().with_cert_resolver(Arc::new(always));
    let got = hello(&Tls::new(pki.files()), |stream| answer(config, stream)).await;
    assert_refused(got, "X.509 version 1");
}

#[tokio::test]
async fn a_server_that_hangs_up_within_the_handshake_may_ask_for_a_certificate() {
    let pki = Pki::new();
    let got = hello(&Tls::new(pki.files()), |stream| async move { drop(stream) }).await.unwrap_err();
    assert_eq!(got.phase(), Phase::Tls);
    assert!(!got.needs_a_person() && got.to_string().contains("asks for a client certificate"), "{got}");
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_named_with_its_remedy() {
    let pki = Pki::new();
    let (certificate, key) = pki.leaf("client");
    let certificate = pki.file("client.pem", &certificate.pem());
    let pem = key.serialize_pem();
    let encrypted = pem.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let ca = |content: &str| TlsFiles {
        ca_file: Some(pki.file(&format!("ca-{}.pem", content.len()), content)),
        ..TlsFiles::default()
    };
    let client = |key| TlsFiles { client: Some((certificate.clone(), key)), ..pki.files() };
    let at = |path: &str| TlsFiles { ca_file: Some(path.into()), ..TlsFiles::default() };
    let rows = [
        (ca("not a certificate"), "it holds no PEM section `CERTIFICATE`"),
        (ca(broken), "no certificate in it can be read"),
        (at("/nowhere/ca.pem"), "read ca_file /nowhere/ca.pem: No such file"),
        (at("/dev/zero"), "not a regular file"),
        (ca(&" ".repeat((1 << 20) + 1)), "larger than 1 MiB"),
        (client(pki.file("key.pem", &encrypted)), "decrypt it with `openssl pkey -in"),
        (
            client(pki.file("other.pem", &KeyPair::generate().unwrap().serialize_pem())),
            "not the key of the certificate",
        ),
        (client(certificate.clone()), "it holds no PEM section `PRIVATE KEY`"),
    ];
    for (files, words) in rows {
        let got = Tls::new(files).config().await.map(drop);
        assert_refused(got, words);
    }
    Tls::new(client(pki.file("good.pem", &pem))).config().await.unwrap();
}

#[tokio::test]
async fn files_are_read_for_each_connection_and_sessions_are_kept_while_they_are_the_same() {
    let one = Pki::new();
    let other = Pki::new();
    let tls = Tls::new(one.files());
    let first = tls.config().await.unwrap();
    assert!(Arc::ptr_eq(&first, &tls.config().await.unwrap()));
    one.file("ca.pem", &other.ca.pem());
    assert!(!Arc::ptr_eq(&first, &tls.config().await.unwrap()));
    hello(&tls, |stream| answer(other.server(&other.leaf("localhost"), false), stream)).await.unwrap();
}
