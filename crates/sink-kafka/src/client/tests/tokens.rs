//! Logins with tokens: a provider that works, refuses and goes away, and a broker with Kafka's own validator.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::provider::{AUDIENCE, Grant, Provider};
use super::rig::{PATIENCE, Shared, new_topic, records};
use super::{spec, topic};
use crate::login::{ClientSecret, OidcSpec, TokenSpec, TokenUrl};
use crate::{KafkaLogin, KafkaSasl, KafkaSink, KafkaSpec, SaslMechanism};
use brokers::Kafka;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};
use delaybridge_http_client::HttpOrigin;
use delaybridge_settings::Secret;
use delaybridge_sink::Sink;
use delaybridge_testing::sink::outbound;

/// Long enough that nothing times out that need not.
const TIMEOUT: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3600);

/// A login of this client at the provider.
fn client(name: &str) -> OidcSpec {
    let origin = HttpOrigin { tls: false, host: "127.0.0.1".to_owned(), port: Provider::get().port };
    OidcSpec {
        token_url: Some(TokenUrl { origin, path: "/token".to_owned() }),
        client_id: Some(name.to_owned()),
        client_secret: ClientSecret(Some(Secret::Literal("geheim".into()))),
        scope: Some("produce".to_owned()),
        audience: None,
        ca_file: None,
        token_file: None,
    }
}

fn file(path: PathBuf) -> OidcSpec {
    OidcSpec {
        token_url: None,
        client_id: None,
        client_secret: ClientSecret(None),
        token_file: Some(path),
        ..client("")
    }
}

fn sink(kafka: &Kafka, oidc: OidcSpec) -> KafkaSink {
    let login = KafkaLogin::Tokens(TokenSpec::Oidc(Box::new(oidc)));
    let sasl = Some(KafkaSasl { mechanism: SaslMechanism::OAuthBearer, login });
    KafkaSink::new(Arc::new(KafkaSpec { sasl, ..spec(&kafka.bootstrap_sasl()) }), TIMEOUT)
}

async fn refused(sink: &KafkaSink, topic_name: &str) -> Failure {
    sink.deliver(outbound(1, topic(topic_name), "x")).await.expect_err("it is refused")
}

/// The time until a record is delivered again.
async fn until_delivered(sink: &KafkaSink, topic_name: &str) -> Duration {
    let begun = Instant::now();
    while let Err(failure) = sink.deliver(outbound(1, topic(topic_name), "x")).await {
        assert!(begun.elapsed() < PATIENCE, "still not delivered: {failure}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    begun.elapsed()
}

#[tokio::test]
async fn records_are_delivered_with_a_token_and_it_is_renewed_before_it_ends() {
    let kafka = Shared::get();
    let provider = Provider::get();
    let name = new_topic(&kafka);
    // A token for each test's own user: `admin` may do everything.
    provider.grant("admin", Grant::Token(AUDIENCE, Duration::from_secs(8)));
    let sink = sink(&kafka, client("admin"));
    let begun = Instant::now();
    let mut sent = 0_u64;
    let mut slowest = Duration::ZERO;
    // Twice its time and more: a broker ends the connection of a token that is over.
    while begun.elapsed() < Duration::from_secs(20) {
        let asked = Instant::now();
        sink.deliver(outbound(sent, topic(&name), "x")).await.expect("the login is valid all the time");
        slowest = slowest.max(asked.elapsed());
        sent += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let asked = provider.asked("admin:geheim");
    println!("{sent} records, the slowest {slowest:?}, {} tokens", asked.len());
    assert_eq!(records(&kafka, &name).len() as u64, sent, "none twice");
    assert!(asked.len() >= 4 && asked[0].contains("grant_type=client_credentials&scope=produce"), "{asked:?}");
    sink.check(&[topic(&name)]).await.expect("the topic is there");
    sink.close().await;
}

#[tokio::test]
async fn records_are_delivered_though_a_broker_refuses_logins_that_come_too_early() {
    let kafka = Shared::get();
    let provider = Provider::get();
    let name = new_topic(&kafka);
    kafka.add_acl("User:hasty", brokers::kafka::Resource::Topic(&name), &[brokers::kafka::Operation::Write]).unwrap();
    provider.grant("hasty", Grant::Token(AUDIENCE, Duration::from_secs(4)));
    let sink = sink(&kafka, client("hasty"));
    until_delivered(&sink, &name).await;
    // The client logs in again at nine tenths of what is left of a token: now more than once a second, as when a provider
    // is late. The broker ends the connection.
    provider.grant("hasty", Grant::Token(AUDIENCE, Duration::from_secs(1)));
    let begun = Instant::now();
    let mut sent = 0_u64;
    while begun.elapsed() < Duration::from_secs(10) {
        if let Err(failure) = sink.deliver(outbound(sent, topic(&name), "x")).await {
            // A slow machine may show a token that is over.
            let untimely = failure.message.contains("current SASL state");
            assert!(!untimely || failure.class != Class::TargetPermanent, "{failure}");
            println!("{:?}: {failure}", begun.elapsed());
        }
        sent += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("{sent} records");
    sink.close().await;
}

#[tokio::test]
async fn refused_credentials_hold_and_say_why() {
    let kafka = Shared::get();
    let provider = Provider::get();
    let name = new_topic(&kafka);
    provider.grant("refused", Grant::Status(401, r#"{"error":"invalid_client","error_description":"geheim"}"#));
    let by_provider = sink(&kafka, client("refused"));
    let delivered = refused(&by_provider, &name).await;
    let checked = by_provider.check(&[topic(&name)]).await.expect_err("nobody may log in");
    for failure in [delivered, checked] {
        assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "token_refused"), "{failure}");
        assert!(failure.message.contains("invalid_client") && !failure.message.contains("geheim"), "{failure}");
    }
    by_provider.close().await;

    // The provider gives a token that the broker does not take; later another one.
    provider.grant("stranger", Grant::Token("another", HOUR));
    let by_broker = sink(&kafka, client("stranger"));
    let failure = refused(&by_broker, &name).await;
    assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "SASL_AUTHENTICATION_FAILED"), "{failure}");
    assert!(!failure.message.contains("eyJ"), "{failure}");
    by_broker.close().await;
}

#[tokio::test]
async fn a_provider_that_is_away_is_an_outage_and_costs_a_second_when_it_is_back() {
    let kafka = Shared::get();
    let provider = Provider::get();
    let name = new_topic(&kafka);
    provider.grant("away", Grant::Away);
    let first = sink(&kafka, client("away"));
    let failure = refused(&first, &name).await;
    assert_eq!((failure.class, failure.code), (Class::Transient, "token_unavailable"), "{failure}");
    kafka.add_acl("User:away", brokers::kafka::Resource::Topic(&name), &[brokers::kafka::Operation::Write]).unwrap();
    provider.grant("away", Grant::Token(AUDIENCE, Duration::from_secs(3)));
    let back = until_delivered(&first, &name).await;
    println!("delivered {back:?} after the provider was back");

    // Away for longer than a token lasts: the client asks for one, and gets none.
    provider.grant("away", Grant::Away);
    let begun = Instant::now();
    let failure = loop {
        match tokio::time::timeout(Duration::from_secs(8), first.deliver(outbound(1, topic(&name), "x"))).await {
            Ok(Ok(())) => assert!(begun.elapsed() < PATIENCE, "delivered with a token that is over"),
            Ok(Err(failure)) => break Some(failure),
            Err(_waits) => break None,
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    if let Some(failure) = failure {
        assert_ne!(failure.class, Class::TargetPermanent, "{failure}");
    }
    provider.grant("away", Grant::Token(AUDIENCE, HOUR));
    let back = until_delivered(&first, &name).await;
    println!("delivered {back:?} after the provider was back a second time");
    assert!(back < Duration::from_secs(5), "the client's own wait is ten seconds: {back:?}");
    first.close().await;
}

#[tokio::test]
async fn a_token_in_a_file_is_taken_up_when_it_is_replaced() {
    let kafka = Shared::get();
    let provider = Provider::get();
    let name = new_topic(&kafka);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    std::fs::write(&path, provider.token("admin", "another", HOUR)).unwrap();
    let sink = sink(&kafka, file(path.clone()));
    let failure = refused(&sink, &name).await;
    assert_eq!(failure.code, "SASL_AUTHENTICATION_FAILED", "{failure}");
    std::fs::write(&path, provider.token("admin", AUDIENCE, HOUR)).unwrap();
    until_delivered(&sink, &name).await;
    sink.close().await;
}
