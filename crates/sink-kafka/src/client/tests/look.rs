//! The look for records that earlier attempts have left, at a real Kafka.

use brokers::Kafka;
use brokers::kafka::{Operation, Resource, write_record};
use rdkafka::types::RDKafkaErrorCode as Code;

use super::real::{login, sink};
use super::rig::{PATIENCE, Shared, new_topic, plain, unique};
use crate::{KafkaDestination, SaslMechanism, errors};
use delaybridge_core::clock::{Instant, RedisClock};
use delaybridge_sink::{AttemptId, DeliveryMark, Outbound, Sink, Suspicion};
use delaybridge_testing::sink::outbound;

const FIRST: AttemptId = AttemptId(1);

/// An element as its attempt hands it over.
fn marked(element: u128, topic: &str, key: Option<&str>, suspicion: Suspicion) -> Outbound {
    let destination = KafkaDestination { topic: topic.into(), key: key.map(str::to_owned) };
    let attempt = if suspicion == Suspicion::Nothing { FIRST } else { AttemptId(2) };
    // All records are younger.
    let now_ms = 0;
    let mark = Some(Box::new(DeliveryMark { element, attempt, suspicion, since_ms: now_ms }));
    Outbound { mark, now_ms, ..outbound(element as u64, destination.into(), format!("body-{element}")) }
}

async fn found(sink: &dyn Sink, suspects: &[Outbound]) -> Vec<Option<bool>> {
    let found = sink.lookup().expect("Kafka has one").look(suspects).await;
    found.into_iter().map(Result::ok).collect()
}

#[tokio::test]
async fn a_record_is_found_if_it_is_of_the_element_and_of_a_suspect_attempt() {
    let kafka = Shared::get();
    let name = unique("look");
    let other = new_topic(&kafka);
    kafka.create_topic(&name, 3, &[]).expect("the topic is created");
    let sink = sink(plain(&kafka));
    for n in 0..40 {
        let key = (n % 2 == 0).then(|| format!("key-{n}"));
        sink.deliver(marked(n, &name, key.as_deref(), Suspicion::Nothing)).await.expect("the topic takes it");
    }
    let any = Suspicion::Anyone;
    let first = Suspicion::Attempt(FIRST);
    let rows = [
        (marked(0, &name, Some("key-0"), any), true),
        (marked(38, &name, Some("key-38"), first), true),
        (marked(7, &name, None, any), true),
        (marked(8, &name, Some("key-8"), Suspicion::Attempt(AttemptId(9))), false),
        (marked(40, &name, Some("key-40"), any), false),
        (marked(41, &name, None, any), false),
        (marked(0, &other, Some("key-0"), any), false),
    ];
    let (suspects, expected): (Vec<_>, Vec<_>) = rows.into_iter().map(|(one, there)| (one, Some(there))).unzip();
    assert_eq!(found(&sink, &suspects).await, expected);
    sink.close().await;
}

/// Others write to the topic too, and any producer can write such a name.
#[tokio::test]
async fn a_header_whose_name_is_no_text_is_no_mark_and_does_not_end_the_search() {
    let kafka = Shared::get();
    let name = new_topic(&kafka);
    let sink = sink(plain(&kafka));
    write_record(&kafka.bootstrap(), &name, &[(b"\xff\xfe", b"x")], b"of another producer");
    sink.deliver(marked(1, &name, Some("k"), Suspicion::Nothing)).await.expect("the topic takes it");
    let suspects = [1, 2].map(|n| marked(n, &name, Some("k"), Suspicion::Anyone));
    assert_eq!(found(&sink, &suspects).await, [Some(true), Some(false)]);
    sink.close().await;
}

#[tokio::test]
async fn a_search_serves_all_that_ask_meanwhile() {
    let kafka = Shared::get();
    let name = new_topic(&kafka);
    let sink = sink(plain(&kafka));
    for n in 0..3 {
        sink.deliver(marked(n, &name, Some("k"), Suspicion::Nothing)).await.expect("the topic takes it");
    }
    let suspects: Vec<_> = (0..6).map(|n| [marked(n, &name, Some("k"), Suspicion::Anyone)]).collect();
    let asked = suspects.iter().map(|one| found(&sink, one));
    let answers: Vec<_> = futures_util::future::join_all(asked).await.into_iter().flatten().collect();
    assert_eq!(answers, [true, true, true, false, false, false].map(Some));
    sink.close().await;
}

#[tokio::test]
async fn a_topic_that_cannot_be_read_is_no_answer_and_spoils_none() {
    let kafka = Shared::get();
    let name = new_topic(&kafka);
    kafka.add_acl("alice", Resource::Topic(&name), &[Operation::Write]).expect("a rule");
    let spec = login(&kafka, SaslMechanism::ScramSha256, "alice", Kafka::password("alice"));
    let sink = sink(std::sync::Arc::new(spec));
    let begun = Instant::now();
    while sink.deliver(marked(1, &name, None, Suspicion::Nothing)).await.is_err() {
        assert!(begun.elapsed() < PATIENCE, "the user may not write");
    }
    let suspect = [marked(1, &name, None, Suspicion::Anyone)];
    let lookup = sink.lookup().expect("Kafka has one");
    let failure = lookup.look(&suspect).await.remove(0).expect_err("the user may not read");
    assert_eq!(failure.code, errors::name(Code::TopicAuthorizationFailed), "{failure}");
    let topics = [suspect[0].destination.clone()];
    let failure = lookup.check(&topics).await.expect_err("the user may not read");
    let expected = format!("read topic {name} for `duplicates: look`");
    assert!(failure.message.starts_with(&expected) && failure.message.contains("READ the topic"), "{failure}");
    // With the right to read, and none to the group, in which nothing is committed.
    kafka.add_acl("alice", Resource::Topic(&name), &[Operation::Read]).expect("a rule");
    while found(&sink, &suspect).await != [Some(true)] {
        assert!(begun.elapsed() < PATIENCE, "the record is not found");
    }
    lookup.check(&topics).await.expect("the user may read");
    let missing = marked(1, &unique("missing"), None, Suspicion::Anyone);
    assert_eq!(found(&sink, &[missing, suspect[0].clone()]).await[0], None);
    sink.close().await;
}

#[tokio::test]
async fn a_later_search_finds_what_came_since_and_what_is_older_than_the_one_before() {
    let kafka = Shared::get();
    let name = unique("again");
    kafka.create_topic(&name, 2, &[]).expect("the topic is created");
    let sink = sink(plain(&kafka));
    let put = async |n| sink.deliver(marked(n, &name, None, Suspicion::Nothing)).await.expect("the topic takes it");
    let first_ms = RedisClock::new().now_ms();
    put(1).await;
    // The records before are older than the skew of clocks that a search allows.
    let later_ms = first_ms + 1_000_000;
    let at = |n, now_ms: i64| {
        let mut one = marked(n, &name, None, Suspicion::Anyone);
        one.now_ms = now_ms;
        one.mark.as_mut().expect("a mark").since_ms = now_ms;
        one
    };
    assert_eq!(found(&sink, &[at(1, later_ms)]).await, [Some(false)], "nothing is as young");
    for n in 2..20 {
        put(n).await;
        assert_eq!(found(&sink, &[at(n, first_ms), at(n + 1, first_ms)]).await, [Some(true), Some(false)], "{n}");
    }
    assert_eq!(found(&sink, &[at(1, first_ms), at(1, later_ms)]).await, [Some(true), Some(false)]);
    sink.close().await;
}
