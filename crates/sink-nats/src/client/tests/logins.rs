//! Logins, rights and TLS against a real server.

use std::path::PathBuf;
use std::sync::Arc;

use brokers::NatsOptions;
use secrecy::SecretString;

use super::server::{Server, subject};
use super::{assert_failure, impatient_sink, patient_sink};
use crate::{NatsLogin, NatsSpec};
use delaybridge_core::message::Class;
use delaybridge_settings::{Secret, TlsFiles};
use delaybridge_sink::Sink;
use delaybridge_testing::sink::outbound;

/// A pair of the documentation of NATS.
const KEY: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
const PUBLIC: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

/// `admin` may do everything, and is who logs in without a name; `limited` may write to `orders.>`.
async fn with_users() -> Server {
    let config = format!(
        "authorization {{ users: [ {{ user: admin, password: a }}, {{ nkey: {PUBLIC} }},\n\
         {{ user: limited, password: l, permissions: {{ publish: [\"orders.>\"], subscribe: [\"_INBOX.>\"] }} }} ] }}\n\
         no_auth_user: admin\n"
    );
    let server = Server::start_with(NatsOptions { config, ..NatsOptions::default() }).await;
    server.stream("S", "orders.>", "").await;
    server.stream("T", "secret.>", "").await;
    server
}

fn user(server: &Server, name: &str, password: &str) -> NatsSpec {
    let password = Secret::Literal(SecretString::from(password.to_owned()));
    NatsSpec { login: NatsLogin::User { username: name.to_owned(), password }, ..server.spec() }
}

#[tokio::test]
async fn a_right_that_is_missing_waits_for_a_person_and_concerns_its_subject_alone() {
    let server = with_users().await;
    let sink = patient_sink(user(&server, "limited", "l"));
    let denied = sink.deliver(outbound(1, subject("secret.a"), "x"));
    let taken = sink.deliver(outbound(2, subject("orders.a"), "x"));
    let (denied, taken) = tokio::join!(denied, taken);
    assert_failure(denied, Class::TargetPermanent, "nats_denied");
    taken.unwrap();
    // Without the right to ask for streams.
    let nobody = sink.deliver(outbound(3, subject("orders"), "x")).await;
    assert_failure(nobody, Class::TargetPermanent, "nats_denied");
    let elsewhere = NatsSpec { inbox_prefix: "elsewhere".to_owned(), ..user(&server, "limited", "l") };
    let deaf = patient_sink(elsewhere).deliver(outbound(4, subject("orders.a"), "x")).await;
    let text = assert_failure(deaf, Class::TargetPermanent, "nats_denied");
    assert!(text.contains("inbox_prefix"), "{text}");
}

#[tokio::test]
async fn a_wrong_password_waits_for_a_person_and_a_corrected_file_is_read_again() {
    let server = with_users().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    std::fs::write(&path, "wrong\n").unwrap();
    let login = NatsLogin::User { username: "limited".to_owned(), password: Secret::File(path.clone()) };
    let sink = patient_sink(NatsSpec { login, ..server.spec() });
    let refused = sink.deliver(outbound(1, subject("orders.a"), "x")).await;
    let text = assert_failure(refused, Class::TargetPermanent, "nats_auth");
    assert!(!text.contains("wrong"), "{text}");
    std::fs::write(&path, "l\n").unwrap();
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    while let Err(failure) = sink.deliver(outbound(1, subject("orders.a"), "x")).await {
        assert!(tokio::time::Instant::now() < deadline, "{failure}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_key_logs_in() {
    let server = with_users().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("user.nk");
    std::fs::write(&path, KEY).unwrap();
    let sink = patient_sink(NatsSpec { login: NatsLogin::Key(path), ..server.spec() });
    sink.deliver(outbound(1, subject("secret.a"), "x")).await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_gone_waits_for_a_person() {
    let server = with_users().await;
    let login = NatsLogin::Credentials(PathBuf::from("/nowhere/user.creds"));
    let sink = patient_sink(NatsSpec { login, ..server.spec() });
    let text =
        assert_failure(sink.deliver(outbound(1, subject("orders.a"), "x")).await, Class::TargetPermanent, "secret");
    assert!(text.contains("credentials_file /nowhere/user.creds"), "{text}");
}

#[tokio::test]
async fn tls_is_verified_and_a_client_certificate_is_shown() {
    let server = Server::start_with(NatsOptions { mutual_tls: true, ..NatsOptions::default() }).await;
    let files = server.certificates();
    let client = Some((files.client_cert.clone(), files.client_key.clone()));
    let spec = |tls| NatsSpec { tls, servers: vec![("localhost".to_owned(), server.port())], ..server.spec() };
    let good = spec(Some(TlsFiles { ca_file: Some(files.ca.clone()), client: client.clone(), ..TlsFiles::default() }));
    // There is no stream, and the answer that says so has come through.
    let outcome = patient_sink(good).deliver(outbound(1, subject("orders"), "x")).await;
    assert_failure(outcome, Class::TargetPermanent, "nats_no_stream");
    let bad = [
        (None, "the server asks for TLS"),
        (
            Some(TlsFiles { ca_file: None, client: client.clone(), ..TlsFiles::default() }),
            "issued by a CA that is not trusted",
        ),
    ];
    for (tls, expected) in bad {
        let outcome = patient_sink(spec(tls)).deliver(outbound(1, subject("orders"), "x")).await;
        let text = assert_failure(outcome, Class::TargetPermanent, "tls");
        assert!(text.contains(expected), "{text}");
    }
    let nameless = spec(Some(TlsFiles { ca_file: Some(files.ca.clone()), client: None, ..TlsFiles::default() }));
    let outcome = patient_sink(nameless).deliver(outbound(1, subject("orders"), "x")).await;
    let text = assert_failure(outcome, Class::TargetPermanent, "tls");
    assert!(text.contains("set `cert_file` and `key_file`"), "{text}");
    let plain = Server::start().await;
    let tls = Some(TlsFiles { ca_file: Some(files.ca.clone()), client: None, ..TlsFiles::default() });
    let outcome = patient_sink(NatsSpec { tls, ..plain.spec() }).deliver(outbound(1, subject("a"), "x")).await;
    let text = assert_failure(outcome, Class::TargetPermanent, "tls");
    assert!(text.contains("the server has no TLS"), "{text}");
}

#[tokio::test]
async fn a_port_that_does_not_speak_nats_is_explained() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"220 mail.example ESMTP\r\n").await;
        }
    });
    let sink = impatient_sink(super::server::spec_on(&[port]));
    let outcome = sink.deliver(outbound(1, subject("a"), "x")).await;
    assert_failure(outcome, Class::TargetPermanent, "nats_protocol");
    serving.abort();
    let _ = Arc::clone(&sink);
}
