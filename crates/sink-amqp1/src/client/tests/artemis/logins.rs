//! Logins and signs of life with Artemis.

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use super::super::{Amqp1Sink, address, assert_failure, patient_sink};
use super::ArtemisServer;
use crate::{Amqp1Login, Amqp1Spec};
use delaybridge_core::message::Class;
use delaybridge_settings::Secret;
use delaybridge_sink::Sink;
use delaybridge_testing::sink::outbound;

fn user(server: &ArtemisServer, password: Secret) -> Amqp1Spec {
    Amqp1Spec { login: Amqp1Login::Plain { username: "guest".to_owned(), password }, ..server.spec() }
}

#[tokio::test]
async fn a_wrong_password_waits_for_a_person_and_a_corrected_file_is_read_again() {
    let server = ArtemisServer::start(&["orders"], "").await;
    let right = user(&server, Secret::Literal(SecretString::from("guest".to_owned())));
    patient_sink(right).deliver(outbound(1, address("orders"), "x")).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "wrong\n").unwrap();
    let sink = patient_sink(user(&server, Secret::File(file.clone())));
    let refused = sink.deliver(outbound(2, address("orders"), "x")).await;
    assert_failure(refused, Class::TargetPermanent, "amqp1_auth");
    std::fs::write(&file, "guest\n").unwrap();
    let again = async { while sink.deliver(outbound(2, address("orders"), "x")).await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(60), again).await.unwrap();
    std::fs::remove_file(&file).unwrap();
    let missing = patient_sink(user(&server, Secret::File(file))).check(&[]).await;
    assert_failure(missing.map(drop), Class::TargetPermanent, "secret");
    let external = Amqp1Spec { login: Amqp1Login::External, ..server.spec() };
    let text = assert_failure(patient_sink(external).check(&[]).await.map(drop), Class::TargetPermanent, "amqp1_auth");
    assert!(text.contains("offers no login EXTERNAL, only "), "{text}");
}

#[tokio::test]
async fn a_connection_without_work_lives_on_by_signs_of_life() {
    // It ends a connection that it has not heard for three seconds.
    let server = ArtemisServer::start(&["orders"], "amqpIdleTimeout=3000").await;
    let spec = Amqp1Spec { heartbeat: Duration::from_secs(1), ..server.spec() };
    let sink = Arc::new(Amqp1Sink::new(Arc::new(spec), Duration::from_secs(20)));
    sink.deliver(outbound(1, address("orders"), "x")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(8)).await;
    sink.deliver(outbound(2, address("orders"), "x")).await.unwrap();
    assert_eq!(server.bodies("orders").await.len(), 2);
    let log = server.does(|artemis| artemis.log_tail(100)).await;
    assert!(!log.contains("AMQ222061") && !log.contains("timed out"), "{log}");
}
