//! Tests of TLS with a private CA and a client certificate, and of the messages when it fails.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::*;
use delaybridge_settings::TlsFiles;

/// A CA with the certificates of a server and a client, as files.
struct Pki {
    ca: PathBuf,
    server: (PathBuf, PathBuf),
    client: (PathBuf, PathBuf),
}

impl Pki {
    fn new(dir: &Path) -> Pki {
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
            let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
            let mut params = CertificateParams::new(names).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            let cert = params.signed_by(&key, &ca).unwrap();
            (write(&format!("{name}.pem"), cert.pem()), write(&format!("{name}.key"), key.serialize_pem()))
        };
        Pki { server: issue("server"), client: issue("client"), ca: write("ca.pem", ca.pem()) }
    }
}

fn tls_server(auth_clients: &str) -> (TestServer, Pki) {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    let cert = pki.server.0.clone();
    let key = pki.server.1.clone();
    let ca = pki.ca.clone();
    let args = [
        "--tls-auth-clients",
        auth_clients,
        "--tls-cert-file",
        cert.to_str().unwrap(),
        "--tls-key-file",
        key.to_str().unwrap(),
        "--tls-ca-cert-file",
        ca.to_str().unwrap(),
    ];
    (TestServer::in_dir(dir, &args), pki)
}

fn with_tls(server: &TestServer, ca: Option<&Path>, client: Option<&(PathBuf, PathBuf)>) -> RedisEndpoint {
    let tls = TlsFiles { ca_file: ca.map(Path::to_owned), client: client.cloned(), ..TlsFiles::default() };
    RedisEndpoint { tls: Some(tls), ..server.endpoint() }
}

#[tokio::test]
async fn a_private_ca_and_a_client_certificate_are_used() {
    let (server, pki) = tls_server("yes");
    let endpoint = with_tls(&server, Some(&pki.ca), Some(&pki.client));
    let link = start(RedisEndpoint { host: "localhost".to_owned(), ..endpoint.clone() });
    let pong: String = ready(&link).await.query(&redis::cmd("PING")).await.unwrap();
    assert_eq!(pong, "PONG");
    let (_subscriber, mut events) = Subscriber::start(Arc::new(endpoint), vec!["a".into()]);
    assert_eq!(soon("the subscription", events.recv()).await, Some(SubscriberEvent::Subscribed));
}

#[tokio::test]
async fn a_missing_client_certificate_is_reported() {
    let (server, pki) = tls_server("yes");
    let error = refused(with_tls(&server, Some(&pki.ca), None)).await;
    // TLS 1.3 refuses after the handshake.
    assert_eq!(error.kind, ConnectErrorKind::Tls, "{error}");
    assert!(error.message.contains("set `cert_file` and `key_file`"), "{error}");
}

#[tokio::test]
async fn an_unknown_ca_is_reported() {
    let (server, _pki) = tls_server("no");
    let dir = tempfile::tempdir().unwrap();
    let stranger = Pki::new(dir.path());
    let error = refused(with_tls(&server, Some(&stranger.ca), None)).await;
    assert_eq!(error.kind, ConnectErrorKind::Tls, "{error}");
    assert!(error.message.contains("set `ca_file`"), "{error}");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_reported() {
    let (server, pki) = tls_server("no");
    let endpoint = RedisEndpoint { host: "127.0.0.2".to_owned(), ..with_tls(&server, Some(&pki.ca), None) };
    let error = refused(endpoint).await;
    // Debian's server listens on 127.0.0.1 only by default; either way nothing is sent to the wrong peer.
    assert!(matches!(error.kind, ConnectErrorKind::Tls | ConnectErrorKind::Unreachable), "{error}");
}

#[tokio::test]
async fn tls_on_a_plain_port_and_the_other_way_round_are_reported() {
    let plain = TestServer::start();
    let (secure, pki) = tls_server("no");
    let mut endpoint = with_tls(&plain, Some(&pki.ca), None);
    endpoint.connect_timeout = Duration::from_secs(1);
    let error = refused(endpoint).await;
    assert!(error.message.contains("speak"), "{error}");
    let mut endpoint = secure.endpoint();
    endpoint.connect_timeout = Duration::from_secs(1);
    let error = refused(endpoint).await;
    assert!(error.message.contains("TLS"), "{error}");
}
