//! TLS and the login by certificate, on a node that asks for one.

use brokers::{Rabbit, RabbitOptions};

use super::rabbit::{login, spec_on};
use super::*;
use crate::AmqpLogin;
use delaybridge_settings::TlsFiles;
use delaybridge_testing::sink::outbound;

/// A node that knows the certificate's name as a user.
fn start() -> Rabbit {
    let line = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let config = vec![
        line("auth_mechanisms.1", "PLAIN"),
        line("auth_mechanisms.2", "EXTERNAL"),
        line("ssl_cert_login_from", "common_name"),
    ];
    let rabbit = Rabbit::start_with(RabbitOptions { mutual_tls: true, config, ..RabbitOptions::default() }).unwrap();
    std::fs::write(rabbit.folder().join("enabled_plugins"), "[rabbitmq_auth_mechanism_ssl].").unwrap();
    rabbit.restart().unwrap();
    rabbit.add_user("client", "not used").unwrap();
    rabbit.set_permissions("/", "client", [".*"; 3]).unwrap();
    rabbit
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_checked_and_can_be_the_login() {
    let rabbit = tokio::task::spawn_blocking(start).await.unwrap();
    let certificates = rabbit.certificates();
    let client = Some((certificates.client_cert.clone(), certificates.client_key.clone()));
    let files = TlsFiles { ca_file: Some(certificates.ca.clone()), client, ..TlsFiles::default() };
    let spec = |tls: TlsFiles| AmqpSpec {
        nodes: vec![("localhost".to_owned(), rabbit.tls_port())],
        tls: Some(tls),
        login: AmqpLogin::External,
        ..spec_on(0)
    };
    let sink = patient_sink(spec(files.clone()));
    sink.check(&[]).await.unwrap();
    let nobody = sink.deliver(outbound(1, destination("", "nobody"), "x")).await;
    assert_failure(nobody, Class::TargetPermanent, "NO_ROUTE");
    sink.close().await;
    patient_sink(AmqpSpec { login: login("guest", "guest"), ..spec(files.clone()) }).check(&[]).await.unwrap();

    let dir = tempfile::tempdir().unwrap();
    let other = brokers::tls::Certificates::create(dir.path()).unwrap();
    let missing = dir.path().join("missing");
    std::fs::write(dir.path().join("empty"), "no certificate").unwrap();
    let with_ca = |path: std::path::PathBuf| TlsFiles { ca_file: Some(path), ..files.clone() };
    let rows = [
        (with_ca(other.ca.clone()), "not trusted"),
        (TlsFiles { ca_file: None, ..files.clone() }, "not trusted"),
        (TlsFiles { client: None, ..files.clone() }, "client certificate"),
        (TlsFiles { client: Some((other.client_cert, other.client_key)), ..files.clone() }, "client certificate"),
        (with_ca(missing), "read ca_file"),
        (with_ca(dir.path().join("empty")), "no PEM section"),
    ];
    for (files, words) in rows {
        // The broker's word may be lost: it closes the socket with something in it, and that takes the alert along.
        eventually(words, async || {
            let failure = patient_sink(spec(files.clone())).check(&[]).await.unwrap_err();
            let said = (failure.class, failure.code) == (Class::TargetPermanent, "tls");
            assert!(said || failure.code == "unreachable" && words == "client certificate", "{failure}");
            assert!(!said || failure.message.contains(words), "{words}: {failure}");
            said
        })
        .await;
    }
    // A plain port: the other side ends it, or says what is no TLS.
    let plain = AmqpSpec { nodes: vec![("localhost".to_owned(), rabbit.port())], ..spec(files) };
    let failure = patient_sink(plain).check(&[]).await.unwrap_err();
    assert!(failure.message.contains("does not speak TLS"), "{failure}");
}
