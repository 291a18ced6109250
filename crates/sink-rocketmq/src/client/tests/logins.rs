//! Access keys, rights and TLS.

use std::path::PathBuf;

use brokers::tls::Certificates;
use brokers::{RocketMqOptions, RocketMqVersion};
use secrecy::SecretString;

use super::cluster::Cluster;
use super::{assert_failure, patient_sink, topic};
use crate::{RocketMqLogin, RocketMqSpec};
use delaybridge_core::message::Class;
use delaybridge_settings::{Secret, TlsFiles};
use delaybridge_sink::{Answers, Sink};
use delaybridge_testing::sink::outbound;

const ACL: &str = "\
globalWhiteRemoteAddresses:
accounts:
  - accessKey: delaybridge
    secretKey: 'secret of tests'
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - orders=PUB
      - warm=SUB
";

fn with(spec: RocketMqSpec, access_key: &str, secret: &str) -> RocketMqSpec {
    let secret = Secret::Literal(SecretString::from(secret.to_owned()));
    RocketMqSpec { login: Some(RocketMqLogin { access_key: access_key.to_owned(), secret }), ..spec }
}

#[tokio::test]
async fn a_right_that_lacks_and_a_wrong_secret_hold_what_they_are_about() {
    let options =
        RocketMqOptions { version: RocketMqVersion::Four, acl: Some(ACL.to_owned()), ..RocketMqOptions::default() };
    let cluster = Cluster::start(options).await;
    let sink = patient_sink(with(cluster.spec(), "delaybridge", "secret of tests"));
    sink.deliver(outbound(1, topic("orders"), "x")).await.unwrap();
    // A batch is signed with its body.
    let answers = Answers::new(9);
    sink.deliver_all((0..9).map(|id| outbound(id, topic("orders"), "y")).collect(), &answers).await;
    assert_eq!(answers.take().confirmed.len(), 9);
    assert_eq!(sink.check(&[topic("orders")]).await, Ok(Vec::new()));
    let outcome = sink.deliver(outbound(1, topic("warm"), "x")).await;
    let message = assert_failure(outcome, Class::TargetPermanent, "rocketmq_denied");
    assert!(!message.contains("secret of tests"), "{message}");
    for (key, secret) in [("delaybridge", "wrong"), ("nobody", "secret of tests")] {
        let sink = patient_sink(with(cluster.spec(), key, secret));
        let outcome = sink.deliver(outbound(1, topic("orders"), "x")).await;
        let message = assert_failure(outcome, Class::TargetPermanent, "rocketmq_auth");
        assert!(!message.contains(secret), "{message}");
    }
    assert!(patient_sink(cluster.spec()).deliver(outbound(1, topic("orders"), "x")).await.is_err(), "without a login");
}

#[tokio::test]
async fn a_secret_is_read_from_its_file() {
    let cluster = Cluster::shared().await;
    let file = |path: &str| RocketMqLogin { access_key: "a".to_owned(), secret: Secret::File(PathBuf::from(path)) };
    let spec = RocketMqSpec { login: Some(file("/no/such/file")), ..cluster.spec() };
    let outcome = patient_sink(spec).deliver(outbound(1, topic("warm"), "x")).await;
    let message = assert_failure(outcome, Class::TargetPermanent, "secret");
    assert!(message.contains("/no/such/file"), "{message}");
}

/// Version 5 has users in place of `plain_acl.yml`, and refuses with a code of its own.
#[tokio::test]
async fn a_user_of_version_5_signs_its_requests() {
    const PACKAGE: &str = "org.apache.rocketmq.auth";
    let settings = format!(
        "authenticationEnabled=true\n\
         authenticationProvider={PACKAGE}.authentication.provider.DefaultAuthenticationProvider\n\
         authenticationMetadataProvider={PACKAGE}.authentication.provider.LocalAuthenticationMetadataProvider\n\
         initAuthenticationUser={{\"username\":\"delaybridge\",\"password\":\"secret of tests\"}}\n\
         innerClientAuthenticationCredentials={{\"accessKey\":\"delaybridge\",\"secretKey\":\"secret of tests\"}}\n"
    );
    let options = RocketMqOptions { brokers: vec![("a".to_owned(), settings)], ..RocketMqOptions::default() };
    let cluster = Cluster::start_cold(options).await;
    let sink = patient_sink(with(cluster.spec(), "delaybridge", "secret of tests"));
    sink.deliver(outbound(1, topic("orders"), "x")).await.unwrap();
    for (key, secret) in [("delaybridge", "wrong"), ("nobody", "secret of tests")] {
        let sink = patient_sink(with(cluster.spec(), key, secret));
        let outcome = sink.deliver(outbound(1, topic("orders"), "x")).await;
        let message = assert_failure(outcome, Class::TargetPermanent, "rocketmq_auth");
        assert!(!message.contains(secret), "{message}");
    }
}

#[tokio::test]
async fn tls_is_for_name_servers_and_brokers_alike() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::create(folder.path()).unwrap();
    let others = Certificates::create(&folder.path().join("others")).unwrap();
    let java = [
        "-Dtls.server.mode=permissive".to_owned(),
        "-Dtls.test.mode.enable=false".to_owned(),
        format!("-Dtls.server.certPath={}", certificates.server_cert.display()),
        format!("-Dtls.server.keyPath={}", certificates.server_key.display()),
    ];
    let options = RocketMqOptions { java: java.to_vec(), ..RocketMqOptions::default() };
    let cluster = Cluster::start_cold(options).await;
    let spec = |ca: &PathBuf| RocketMqSpec {
        tls: Some(TlsFiles { ca_file: Some(ca.clone()), client: None, ..TlsFiles::default() }),
        ..cluster.spec()
    };
    let sink = patient_sink(spec(&certificates.ca));
    sink.deliver(outbound(1, topic("orders"), "encrypted")).await.unwrap();
    assert_eq!(cluster.bodies("orders").await, [b"encrypted".to_vec()]);
    let outcome = patient_sink(spec(&others.ca)).deliver(outbound(1, topic("orders"), "x")).await;
    assert_failure(outcome, Class::TargetPermanent, "tls");
}
