//! What only a real Kafka shows: missing topics, rights, logins, certificates, silence and death.

use std::sync::Arc;
use std::time::Duration;

use brokers::kafka::{Operation, Resource};
use brokers::tls::Certificates;
use brokers::{Kafka, Stopwatch};
use futures_util::future::join_all;

use super::rig::{Alone, PATIENCE, Record, Shared, new_topic, plain, records, unique};
use super::{reported, spec, topic};
use crate::KafkaSink;
use crate::{KafkaDestination, KafkaLogin, KafkaSasl, KafkaSpec, KafkaTls, SaslMechanism};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{About, Class, Failure};
use delaybridge_settings::{Secret, TlsFiles};
use delaybridge_sink::Outbound;
use delaybridge_sink::Sink;
use delaybridge_testing::sink::outbound;

/// Long enough that nothing times out that need not.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn sink(spec: Arc<KafkaSpec>) -> KafkaSink {
    KafkaSink::new(spec, TIMEOUT)
}

async fn refused(sink: &KafkaSink, message: Outbound) -> Failure {
    sink.deliver(message).await.expect_err("it is refused")
}

/// The first refusal that does not pass by itself: another test may have restarted the broker just before, and a client lets go of a
/// node that the brokers do not name for a moment.
async fn refused_for_good(sink: &KafkaSink, message: Outbound) -> Failure {
    let begun = Instant::now();
    loop {
        let failure = refused(sink, message.clone()).await;
        if failure.class != Class::Transient {
            return failure;
        }
        assert!(begun.elapsed() < PATIENCE, "it still passes by itself: {failure}");
    }
}

/// Delivers until it works; meanwhile every failure is of one of the classes.
async fn until_delivered(sink: &KafkaSink, message: Outbound, classes: &[Class]) {
    let begun = Instant::now();
    while let Err(failure) = sink.deliver(message.clone()).await {
        assert!(classes.contains(&failure.class), "{failure}");
        assert!(begun.elapsed() < PATIENCE, "still not delivered: {failure}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(super) fn login(kafka: &Kafka, mechanism: SaslMechanism, user: &str, password: &str) -> KafkaSpec {
    let password = Secret::Literal(password.to_owned().into());
    let sasl = KafkaSasl { mechanism, login: KafkaLogin::Password { username: user.to_owned(), password } };
    KafkaSpec { sasl: Some(sasl), ..spec(&kafka.bootstrap_sasl()) }
}

#[tokio::test]
async fn a_record_is_key_value_and_headers_and_an_empty_body_is_no_tombstone() {
    let kafka = Shared::get();
    let name = new_topic(&kafka);
    let sink = sink(plain(&kafka));
    let key = Some("order-7".to_owned());
    let full = Outbound {
        headers: vec![("tenant".into(), "a".to_owned())],
        destination: KafkaDestination { topic: name.as_str().into(), key }.into(),
        ..outbound(0xab, topic(&name), "body")
    };
    let bare = Outbound { due_ms: None, attempt: 2, ..outbound(0xcd, topic(&name), "") };
    sink.deliver(full).await.expect("the topic takes it");
    sink.deliver(bare).await.expect("the topic takes it");
    let headers = |rows: &[(&str, &str)]| rows.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let expected = [
        Record {
            key: Some(b"order-7".to_vec()),
            value: Some(b"body".to_vec()),
            headers: headers(&[
                ("delaybridge-id", "00000000000000ab"),
                ("delaybridge-queue", "q"),
                ("delaybridge-due-ms", "1000"),
                ("delaybridge-attempt", "1"),
                ("tenant", "a"),
            ]),
        },
        Record {
            key: None,
            value: Some(Vec::new()),
            headers: headers(&[
                ("delaybridge-id", "00000000000000cd"),
                ("delaybridge-queue", "q"),
                ("delaybridge-attempt", "2"),
            ]),
        },
    ];
    assert_eq!(records(&kafka, &name), expected);
    sink.close().await;
}

#[tokio::test]
async fn records_are_in_the_order_of_the_calls() {
    let kafka = Shared::get();
    let name = new_topic(&kafka);
    let sink = sink(plain(&kafka));
    let messages = (0..500).map(|n| outbound(n, topic(&name), n.to_string()));
    for outcome in join_all(messages.map(|message| sink.deliver(message))).await {
        outcome.expect("the topic takes it");
    }
    let values = records(&kafka, &name).into_iter().map(|record| String::from_utf8(record.value.unwrap()).unwrap());
    assert!(values.eq((0..500).map(|n: u32| n.to_string())));
    sink.close().await;
}

#[tokio::test]
async fn a_record_too_large_is_refused_alone() {
    let kafka = Shared::get();
    let name = unique("small");
    kafka.create_topic(&name, 1, &[("max.message.bytes", "20000")]).unwrap();
    let sink = sink(plain(&kafka));
    // Together they are larger than the topic takes, and one of them is by itself.
    let sizes = (0..50).map(|n| if n == 25 { 30_000 } else { 1000 });
    let messages = (0..).zip(sizes).map(|(n, size)| outbound(n, topic(&name), vec![b'x'; size]));
    let outcomes = join_all(messages.map(|message| sink.deliver(message))).await;
    for (n, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Ok(()) => assert_ne!(n, 25),
            Err(failure) => {
                assert_eq!((n, failure.class, failure.code), (25, Class::MessagePermanent, "MESSAGE_TOO_LARGE"));
            }
        }
    }
    assert_eq!(records(&kafka, &name).len(), 49);
    sink.close().await;
}

#[tokio::test]
async fn a_missing_topic_holds_until_it_is_there_without_another_sink() {
    let kafka = Shared::get();
    let name = unique("late");
    let other = new_topic(&kafka);
    let sink = sink(plain(&kafka));
    for _ in 0..3 {
        let failure = refused(&sink, outbound(1, topic(&name), "x")).await;
        assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "UNKNOWN_TOPIC_OR_PARTITION"), "{failure}");
        assert!(failure.about == About::Target && failure.message.contains("create the topic"), "{failure}");
    }
    sink.deliver(outbound(2, topic(&other), "y")).await.expect("another topic is well");
    kafka.create_topic(&name, 1, &[]).unwrap();
    until_delivered(&sink, outbound(1, topic(&name), "x"), &[Class::TargetPermanent]).await;
    assert_eq!(records(&kafka, &name).len(), 1);
    sink.close().await;
}

#[tokio::test]
async fn a_topic_deleted_in_mid_run_holds_and_resumes_when_it_is_made_again() {
    let kafka = Shared::get();
    let name = new_topic(&kafka);
    let sink = sink(plain(&kafka));
    sink.deliver(outbound(1, topic(&name), "x")).await.expect("the topic takes it");
    kafka.delete_topic(&name).unwrap();
    let failure = refused_for_good(&sink, outbound(2, topic(&name), "y")).await;
    assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "UNKNOWN_TOPIC_OR_PARTITION"), "{failure}");
    kafka.create_topic(&name, 1, &[]).unwrap();
    until_delivered(&sink, outbound(2, topic(&name), "y"), &[Class::TargetPermanent]).await;
    assert_eq!(records(&kafka, &name).len(), 1);
    sink.close().await;
}

#[tokio::test]
async fn rights_revoked_and_granted_again_hold_and_resume() {
    let kafka = Shared::get();
    let name = new_topic(&kafka);
    let spec = login(&kafka, SaslMechanism::ScramSha256, "alice", Kafka::password("alice"));
    let sink = sink(Arc::new(spec));
    let resource = Resource::Topic(&name);
    let message = || outbound(1, topic(&name), "x");
    // Without any right not even the producer's id is given out.
    let failure = refused(&sink, message()).await;
    assert_eq!(failure.class, Class::TargetPermanent, "{failure}");
    assert!(failure.code.ends_with("AUTHORIZATION_FAILED"), "{failure}");
    kafka.add_acl("alice", resource, &[Operation::Write]).unwrap();
    until_delivered(&sink, message(), &[Class::TargetPermanent]).await;
    kafka.remove_acl("alice", resource, &[Operation::Write]).unwrap();
    for _ in 0..2 {
        let failure = refused(&sink, message()).await;
        assert_eq!(failure.class, Class::TargetPermanent, "{failure}");
        assert!(failure.code.ends_with("AUTHORIZATION_FAILED"), "{failure}");
    }
    kafka.add_acl("alice", resource, &[Operation::Write]).unwrap();
    until_delivered(&sink, message(), &[Class::TargetPermanent]).await;
    assert_eq!(records(&kafka, &name).len(), 2);
    sink.close().await;
}

#[tokio::test]
async fn every_mechanism_logs_in_and_a_wrong_password_is_reported_at_once() {
    let kafka = Shared::get();
    let name = new_topic(&kafka);
    for mechanism in [SaslMechanism::Plain, SaslMechanism::ScramSha256, SaslMechanism::ScramSha512] {
        let right = sink(Arc::new(login(&kafka, mechanism, "admin", Kafka::password("admin"))));
        right.check(&[topic(&name)]).await.unwrap_or_else(|failure| panic!("{mechanism:?}: {failure}"));
        right
            .deliver(outbound(1, topic(&name), "x"))
            .await
            .unwrap_or_else(|failure| panic!("{mechanism:?}: {failure}"));
        right.close().await;
        let wrong = sink(Arc::new(login(&kafka, mechanism, "admin", "wrong")));
        let begun = Stopwatch::start();
        let delivered = wrong.deliver(outbound(1, topic(&name), "x")).await;
        for failure in [delivered.unwrap_err(), wrong.check(&[topic(&name)]).await.unwrap_err()] {
            assert_eq!(
                (failure.class, failure.code),
                (Class::TargetPermanent, "SASL_AUTHENTICATION_FAILED"),
                "{failure}"
            );
        }
        begun.assert_within(TIMEOUT, "the refusal of a password");
        wrong.close().await;
    }
}

#[tokio::test]
async fn a_password_that_is_corrected_in_its_file_is_taken_up() {
    let kafka = Shared::get();
    let name = new_topic(&kafka);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "wrong\n").unwrap();
    let password = Secret::File(file.clone());
    let mut spec = login(&kafka, SaslMechanism::Plain, "admin", "");
    spec.sasl.as_mut().unwrap().login = KafkaLogin::Password { username: "admin".to_owned(), password };
    let sink = sink(Arc::new(spec));
    for _ in 0..2 {
        let failure = refused(&sink, outbound(1, topic(&name), "x")).await;
        assert_eq!(failure.code, "SASL_AUTHENTICATION_FAILED", "{failure}");
    }
    std::fs::write(&file, format!("{}\n", Kafka::password("admin"))).unwrap();
    sink.deliver(outbound(1, topic(&name), "x")).await.expect("the next producer logs in");
    sink.close().await;
}

#[tokio::test]
async fn tls_is_checked_on_both_sides_and_its_problems_are_reported() {
    let kafka = Shared::get();
    let name = new_topic(&kafka);
    let files = kafka.certificates();
    let dir = tempfile::tempdir().unwrap();
    let stranger = Certificates::create(dir.path()).unwrap();
    let tls = |ca_file, client| {
        let tls = Some(KafkaTls { files: TlsFiles { ca_file, client, ..TlsFiles::default() }, verify_hostname: true });
        sink(Arc::new(KafkaSpec { tls, ..spec(&kafka.bootstrap_tls()) }))
    };
    let ours = || Some((files.client_cert.clone(), files.client_key.clone()));
    let rows = [
        ("an unknown authority", tls(Some(stranger.ca.clone()), ours())),
        ("the system's authorities", tls(None, ours())),
        ("no client certificate", tls(Some(files.ca.clone()), None)),
        ("a stranger's client certificate", {
            tls(Some(files.ca.clone()), Some((stranger.client_cert.clone(), stranger.client_key.clone())))
        }),
    ];
    for (what, wrong) in rows {
        let delivered = wrong.deliver(outbound(1, topic(&name), "x")).await;
        for failure in [delivered.unwrap_err(), wrong.check(&[topic(&name)]).await.unwrap_err()] {
            assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "SSL"), "{what}: {failure}");
        }
        wrong.close().await;
    }
    let missing = tls(Some(dir.path().join("missing.pem")), None);
    let failure = refused(&missing, outbound(1, topic(&name), "x")).await;
    assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "client_creation"), "{failure}");

    let right = tls(Some(files.ca.clone()), ours());
    kafka.add_acl("User:CN=client", Resource::Topic(&name), &[Operation::Write]).unwrap();
    until_delivered(&right, outbound(1, topic(&name), "x"), &[Class::TargetPermanent]).await;
    right.check(&[topic(&name)]).await.expect("both certificates are known");
    right.close().await;
}

#[tokio::test]
async fn a_listener_of_another_kind_is_an_outage_with_a_hint() {
    let kafka = Shared::get();
    let name = new_topic(&kafka);
    let files = TlsFiles { ca_file: Some(kafka.certificates().ca.clone()), client: None, ..TlsFiles::default() };
    let tls = Some(KafkaTls { files, verify_hostname: true });
    let rows = [
        (spec(&kafka.bootstrap_tls()), "a listener that wants TLS"),
        (KafkaSpec { tls, ..spec(&kafka.bootstrap()) }, "a listener without TLS"),
    ];
    for (spec, hint) in rows {
        let wrong = KafkaSink::new(Arc::new(spec), Duration::from_secs(6));
        let destinations = [topic(&name)];
        let (delivered, checked) =
            tokio::join!(reported(&wrong, outbound(1, topic(&name), "x")), wrong.check(&destinations));
        for failure in [delivered, checked.unwrap_err()] {
            assert_eq!(failure.class, Class::Transient, "{failure}");
            assert!(failure.message.contains(hint), "{failure}");
        }
        wrong.close().await;
    }
}

#[tokio::test]
async fn a_topic_that_may_be_seen_but_not_written_holds_and_resumes() {
    let kafka = Shared::get();
    let name = new_topic(&kafka);
    let other = new_topic(&kafka);
    let spec = login(&kafka, SaslMechanism::Plain, "alice", Kafka::password("alice"));
    let sink = sink(Arc::new(spec));
    let resource = Resource::Topic(&name);
    kafka.add_acl("alice", resource, &[Operation::Write, Operation::Describe]).unwrap();
    kafka.add_acl("alice", Resource::Topic(&other), &[Operation::Write]).unwrap();
    until_delivered(&sink, outbound(1, topic(&name), "x"), &[Class::TargetPermanent]).await;
    kafka.remove_acl("alice", resource, &[Operation::Write]).unwrap();
    for _ in 0..3 {
        let failure = refused(&sink, outbound(2, topic(&name), "y")).await;
        assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "TOPIC_AUTHORIZATION_FAILED"), "{failure}");
        assert_eq!(failure.about, About::Target, "{failure}");
    }
    sink.deliver(outbound(3, topic(&other), "z")).await.expect("another topic is well");
    kafka.add_acl("alice", resource, &[Operation::Write]).unwrap();
    until_delivered(&sink, outbound(2, topic(&name), "y"), &[Class::TargetPermanent]).await;
    assert_eq!(records(&kafka, &name).len(), 2);
    sink.close().await;
}

#[tokio::test]
async fn the_check_names_what_is_missing_and_creates_nothing() {
    let kafka = Shared::get();
    let there = new_topic(&kafka);
    let missing = unique("missing");
    let sink = sink(plain(&kafka));
    sink.check(&[]).await.expect("the broker is there");
    sink.check(&[topic(&there)]).await.expect("the topic is there");
    let failure = sink.check(&[topic(&there), topic(&missing)]).await.unwrap_err();
    assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "UNKNOWN_TOPIC_OR_PARTITION"));
    assert!(failure.message.contains(&missing), "{failure}");
    let more = unique("missing");
    let failure = sink.check(&[topic(&missing), topic("no name"), topic(&there), topic(&more)]).await.unwrap_err();
    for words in [format!("look up topics {missing}, {more}: "), "look up topic no name: ".to_owned()] {
        assert!(failure.message.contains(&words), "{words} in {failure}");
    }
    let alice = login(&kafka, SaslMechanism::Plain, "alice", Kafka::password("alice"));
    let failure = KafkaSink::new(Arc::new(alice), TIMEOUT).check(&[topic(&there)]).await.unwrap_err();
    assert!(failure.code.ends_with("AUTHORIZATION_FAILED"), "{failure}");
    let nobody = KafkaSink::new(Arc::new(spec("127.0.0.1:1")), Duration::from_secs(3));
    let failure = nobody.check(&[topic(&there)]).await.unwrap_err();
    assert_eq!((failure.class, failure.code), (Class::Transient, Failure::NOT_CONNECTED.as_str()));
    assert!(failure.message.contains("127.0.0.1:1"), "{failure}");
}

#[tokio::test]
async fn silence_beyond_the_time_out_is_ambiguous_and_no_fault_of_the_records() {
    let kafka = Alone::get();
    let name = new_topic(&kafka);
    let sink = KafkaSink::new(plain(&kafka), Duration::from_secs(6));
    until_delivered(&sink, outbound(0, topic(&name), "first"), &[Class::Transient, Class::Ambiguous]).await;
    kafka.freeze(1);
    for outcome in join_all((1..20).map(|n| sink.deliver(outbound(n, topic(&name), "x")))).await {
        let failure = outcome.expect_err("no answer comes");
        assert!(matches!(failure.class, Class::Ambiguous | Class::Transient), "{failure}");
    }
    kafka.thaw(1);
    until_delivered(&sink, outbound(20, topic(&name), "last"), &[Class::Transient, Class::Ambiguous]).await;
    sink.close().await;
}

#[tokio::test]
async fn a_broker_killed_and_started_again_loses_nothing_that_was_confirmed() {
    let mut kafka = Alone::get();
    let name = new_topic(&kafka);
    let sink = Arc::new(sink(plain(&kafka)));
    sink.deliver(outbound(0, topic(&name), "0")).await.expect("the topic takes it");
    let under_way = sink.clone();
    let destination = topic(&name);
    let sending = tokio::spawn(async move {
        join_all((1..2000).map(|n| under_way.deliver(outbound(n, destination.clone(), n.to_string())))).await
    });
    tokio::task::yield_now().await;
    kafka.kill();
    kafka.restart();
    let outcomes = sending.await.unwrap();
    let found: std::collections::HashSet<_> =
        records(&kafka, &name).into_iter().map(|record| String::from_utf8(record.value.unwrap()).unwrap()).collect();
    for (n, outcome) in (1..).zip(outcomes) {
        match outcome {
            Ok(()) => assert!(found.contains(&n.to_string()), "{n} was confirmed"),
            Err(failure) => assert!(matches!(failure.class, Class::Ambiguous | Class::Transient), "{failure}"),
        }
    }
    until_delivered(&sink, outbound(9999, topic(&name), "last"), &[Class::Transient, Class::Ambiguous]).await;
    sink.close().await;
}
