//! What librdkafka's mock cluster can produce: error codes of brokers, one after the other.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey as Api, RDKafkaRespErr as Error};

use super::{reported, spec, topic};
use crate::KafkaSink;
use crate::KafkaSpec;
use crate::client::known::TOPICS;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{About, Class, Failure};
use delaybridge_sink::Outbound;
use delaybridge_sink::Sink;
use delaybridge_testing::sink::{anywhere, outbound};

type Cluster = MockCluster<'static, DefaultProducerContext>;

/// Long enough that only what must time out does.
const PATIENT: Duration = Duration::from_secs(60);

fn cluster() -> Cluster {
    let cluster = Cluster::new(1).unwrap();
    cluster.create_topic("t", 1, 1).unwrap();
    cluster
}

fn sink(cluster: &Cluster, timeout: Duration) -> KafkaSink {
    KafkaSink::new(Arc::new(spec(&cluster.bootstrap_servers())), timeout)
}

fn to_t(id: u64) -> Outbound {
    outbound(id, topic("t"), format!("body-{id}"))
}

/// A sink that has delivered once, so that the next request for a record is the one under test.
async fn warm(cluster: &Cluster, timeout: Duration) -> KafkaSink {
    let sink = sink(cluster, timeout);
    sink.deliver(to_t(0)).await.expect("the mock takes it");
    sink
}

async fn refused(sink: &KafkaSink, message: Outbound) -> Failure {
    sink.deliver(message).await.expect_err("the mock refuses it")
}

async fn until_delivered(sink: &KafkaSink, message: Outbound) {
    let begun = Instant::now();
    while let Err(failure) = sink.deliver(message.clone()).await {
        assert!(begun.elapsed() < PATIENT, "{failure}");
    }
}

#[tokio::test]
async fn what_passes_within_the_time_out_is_delivered() {
    use Error as E;
    let rows = [
        E::RD_KAFKA_RESP_ERR_INVALID_MSG,
        E::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
        E::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        E::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        E::RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE,
        E::RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE,
        E::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        E::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        E::RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,
        E::RD_KAFKA_RESP_ERR__TRANSPORT,
    ];
    let cluster = cluster();
    let sink = warm(&cluster, PATIENT).await;
    for error in rows {
        cluster.request_errors(Api::Produce, &[error]);
        sink.deliver(to_t(1)).await.unwrap_or_else(|failure| panic!("{error:?}: {failure}"));
    }
    sink.close().await;
}

#[tokio::test]
async fn a_record_of_a_refused_batch_is_judged_by_itself() {
    let cluster = cluster();
    // However slow the machine, the three share a batch.
    let linger = Duration::from_secs(2);
    let sink = KafkaSink::new(Arc::new(KafkaSpec { linger, ..spec(&cluster.bootstrap_servers()) }), PATIENT);
    sink.deliver(to_t(0)).await.expect("the mock takes it");
    // The batch of three is too large for the broker, and so is the first record sent alone.
    let too_large = Error::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    cluster.request_errors(Api::Produce, &[too_large, too_large]);
    let outcomes = join_all((1..4).map(|id| sink.deliver(to_t(id)))).await;
    let failed: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!((failed[0].class, failed[0].code), (Class::MessagePermanent, "MESSAGE_TOO_LARGE"));
    sink.close().await;
}

#[tokio::test]
async fn without_the_right_to_an_id_a_producer_ends_and_the_next_one_tries_again() {
    let cluster = cluster();
    let refused_id = Error::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
    cluster.request_errors(Api::InitProducerId, &[refused_id, refused_id]);
    let sink = sink(&cluster, PATIENT);
    for _ in 0..2 {
        let failure = refused(&sink, to_t(1)).await;
        assert_eq!(
            (failure.class, failure.code),
            (Class::TargetPermanent, "CLUSTER_AUTHORIZATION_FAILED"),
            "{failure}"
        );
    }
    sink.deliver(to_t(2)).await.expect("the right is given");
    sink.close().await;
}

#[tokio::test]
async fn a_lost_sequence_is_ambiguous_or_repaired_and_delivery_continues() {
    use Error as E;
    let rows = [
        E::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
        E::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH,
        E::RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID,
        E::RD_KAFKA_RESP_ERR_PRODUCER_FENCED,
    ];
    let cluster = cluster();
    for error in rows {
        let sink = warm(&cluster, PATIENT).await;
        cluster.request_errors(Api::Produce, &[error]);
        if let Err(failure) = sink.deliver(to_t(1)).await {
            assert_eq!(failure.class, Class::Ambiguous, "{error:?}: {failure}");
        }
        cluster.clear_request_errors(Api::Produce);
        sink.deliver(to_t(2)).await.unwrap_or_else(|failure| panic!("after {error:?}: {failure}"));
        sink.close().await;
    }
}

#[tokio::test]
async fn what_the_broker_has_already_is_confirmed() {
    let cluster = cluster();
    let sink = warm(&cluster, PATIENT).await;
    cluster.request_errors(Api::Produce, &[Error::RD_KAFKA_RESP_ERR_DUPLICATE_SEQUENCE_NUMBER]);
    sink.deliver(to_t(1)).await.expect("it is there");
    sink.close().await;
}

#[tokio::test]
async fn a_topic_that_the_brokers_refuse_is_asked_for_before_the_next_record() {
    let cluster = cluster();
    let sink = warm(&cluster, PATIENT).await;
    let error = Error::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    cluster.request_errors(Api::Produce, &[error]);
    let failure = refused(&sink, to_t(1)).await;
    assert_eq!(failure.about, About::Target, "{failure}");
    // If a record were made, the mock would take it.
    cluster.topic_error("t", error).unwrap();
    let failure = refused(&sink, to_t(1)).await;
    assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "TOPIC_AUTHORIZATION_FAILED"), "{failure}");
    cluster.topic_error("t", Error::RD_KAFKA_RESP_ERR_NO_ERROR).unwrap();
    sink.deliver(to_t(2)).await.expect("it resumes by itself");
    sink.close().await;
}

/// A connection that broke after the record was sent, and then a refusal of the same record.
async fn lost_then(cluster: &Cluster, sink: &KafkaSink, error: Error) -> Failure {
    cluster.request_errors(Api::Produce, &[Error::RD_KAFKA_RESP_ERR__TRANSPORT, error]);
    refused(sink, to_t(1)).await
}

#[tokio::test]
async fn a_refusal_of_what_may_have_been_written_before_is_ambiguous_and_its_topic_is_asked_for() {
    let cluster = cluster();
    let sink = warm(&cluster, PATIENT).await;
    let failure = lost_then(&cluster, &sink, Error::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE).await;
    assert_eq!((failure.class, failure.code), (Class::Ambiguous, "MESSAGE_TOO_LARGE"), "{failure}");
    sink.deliver(to_t(1)).await.expect("a new record is judged by itself");
    let error = Error::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    let failure = lost_then(&cluster, &sink, error).await;
    assert_eq!((failure.class, failure.code), (Class::Ambiguous, "TOPIC_AUTHORIZATION_FAILED"), "{failure}");
    // If a record were made, the mock would take it.
    cluster.topic_error("t", error).unwrap();
    let failure = refused(&sink, to_t(1)).await;
    assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "TOPIC_AUTHORIZATION_FAILED"), "{failure}");
    sink.close().await;
}

#[tokio::test]
async fn what_librdkafka_could_send_after_the_answer_is_not_given_to_it() {
    let cluster = cluster();
    // librdkafka gets 9.8 s of it, and the broker's answers take longer than the rest.
    let sink = warm(&cluster, Duration::from_secs(12)).await;
    let slow = |millis| cluster.broker_round_trip_time(1, Duration::from_millis(millis)).unwrap();
    slow(3000);
    sink.topics.doubt(&Arc::from("t"));
    let failure = refused(&sink, to_t(1)).await;
    assert!(failure.class == Class::Transient && failure.is_unsent(), "asked for the topic too long: {failure}");
    slow(0);
    sink.deliver(to_t(1)).await.expect("there is time");
    // Alone, it gets half of that.
    slow(8000);
    cluster.request_errors(Api::Produce, &[Error::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
    let failure = refused(&sink, to_t(2)).await;
    assert!(failure.class == Class::Transient && failure.is_behind(), "not sent alone: {failure}");
    slow(0);
    sink.deliver(to_t(2)).await.expect("it was a neighbour");
    sink.close().await;
}

#[tokio::test]
async fn a_stale_element_and_an_impossible_topic_are_not_sent() {
    let cluster = cluster();
    let sink = warm(&cluster, PATIENT).await;
    let stale = Outbound { send_before: Instant::now(), ..to_t(1) };
    assert!(refused(&sink, stale).await.is_stale());
    let failure = refused(&sink, outbound(1, topic("no topic"), "x")).await;
    assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "INVALID_TOPIC_EXCEPTION"));
    assert_eq!(failure.about, About::Target);
    let failure = refused(&sink, outbound(1, anywhere(), "x")).await;
    assert_eq!(failure.code, "wrong_destination");
    sink.close().await;
}

#[tokio::test]
async fn a_full_queue_is_backpressure_and_a_record_too_large_for_the_client_is_a_dead_letter() {
    let cluster = cluster();
    let properties = vec![("queue.buffering.max.messages".to_owned(), "1".to_owned())];
    let spec = KafkaSpec { properties, ..spec(&cluster.bootstrap_servers()) };
    let sink = KafkaSink::new(Arc::new(spec), PATIENT);
    sink.deliver(to_t(0)).await.expect("the mock takes it");
    let too_large = outbound(1, topic("t"), vec![b'x'; 10_000_001]);
    let failure = refused(&sink, too_large).await;
    assert_eq!((failure.class, failure.code), (Class::MessagePermanent, "MESSAGE_TOO_LARGE"), "{failure}");
    cluster.broker_round_trip_time(1, Duration::from_secs(2)).unwrap();
    let (first, second) = tokio::join!(sink.deliver(to_t(1)), sink.deliver(to_t(2)));
    first.expect("the mock takes it in the end");
    let failure = second.expect_err("there is no room");
    assert_eq!((failure.class, failure.code), (Class::Backpressure, "queue_full"), "{failure}");
    sink.close().await;
}

#[tokio::test]
async fn a_closed_sink_answers_that_it_is() {
    let cluster = cluster();
    let sink = warm(&cluster, PATIENT).await;
    sink.close().await;
    let failure = refused(&sink, to_t(1)).await;
    assert_eq!((failure.class, failure.code), (Class::Transient, "closed"));
}

#[tokio::test]
async fn the_close_gives_up_unconfirmed_records() {
    let cluster = cluster();
    let sink = warm(&cluster, PATIENT).await;
    cluster.broker_round_trip_time(1, Duration::from_secs(30)).unwrap();
    let mut delivery = sink.deliver(to_t(1));
    assert!((&mut delivery).now_or_never().is_none());
    let (outcome, ()) = tokio::join!(delivery, sink.close());
    let failure = outcome.expect_err("no confirmation comes");
    assert!(matches!(failure.class, Class::Ambiguous | Class::Transient), "{failure}");
}

#[tokio::test]
async fn the_close_sends_nothing_that_is_still_in_the_queue() {
    let cluster = cluster();
    let linger = Duration::from_secs(30);
    let sink = KafkaSink::new(Arc::new(KafkaSpec { linger, ..spec(&cluster.bootstrap_servers()) }), PATIENT);
    let (outcome, ()) = tokio::join!(sink.deliver(to_t(1)), sink.close());
    let failure = outcome.expect_err("it was not sent yet");
    assert_eq!((failure.class, failure.code), (Class::Transient, "PURGE_QUEUE"), "{failure}");
}

#[tokio::test]
async fn an_outage_is_transient_for_what_was_not_sent() {
    let cluster = cluster();
    // The client looks for old records when it connects again; so its report is early, however slow the machine.
    let properties = vec![("reconnect.backoff.max.ms".to_owned(), "100".to_owned())];
    let spec = KafkaSpec { properties, ..spec(&cluster.bootstrap_servers()) };
    let sink = KafkaSink::new(Arc::new(spec), Duration::from_secs(15));
    sink.deliver(to_t(0)).await.expect("the mock takes it");
    cluster.broker_down(1).unwrap();
    // Before the client knows, a record is still sent.
    let producer = sink.batches.get().await.unwrap();
    let begun = Instant::now();
    while !producer.health().all_down() {
        assert!(begun.elapsed() < PATIENT, "the client does not know that the broker is down");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let failure = reported(&sink, to_t(1)).await;
    assert_eq!((failure.class, failure.code), (Class::Transient, "all_brokers_down"), "{failure}");
    cluster.broker_up(1).unwrap();
    until_delivered(&sink, to_t(2)).await;
    sink.close().await;
}

#[tokio::test]
async fn what_a_broker_answers_has_its_class() {
    use Error as E;
    let rows = [
        (E::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, Class::MessagePermanent, "MESSAGE_TOO_LARGE"),
        (E::RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, Class::MessagePermanent, "RECORD_LIST_TOO_LARGE"),
        (E::RD_KAFKA_RESP_ERR_INVALID_RECORD, Class::TargetPermanent, "INVALID_RECORD"),
        (E::RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, Class::TargetPermanent, "INVALID_TIMESTAMP"),
        (E::RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED, Class::Backpressure, "THROTTLING_QUOTA_EXCEEDED"),
        (E::RD_KAFKA_RESP_ERR_POLICY_VIOLATION, Class::Unknown, "POLICY_VIOLATION"),
        (E::RD_KAFKA_RESP_ERR_UNKNOWN, Class::Unknown, "UNKNOWN_SERVER_ERROR"),
        (E::RD_KAFKA_RESP_ERR_INVALID_REQUIRED_ACKS, Class::TargetPermanent, "INVALID_REQUIRED_ACKS"),
        (E::RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT, Class::TargetPermanent, "UNSUPPORTED_FOR_MESSAGE_FORMAT"),
        (E::RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION, Class::TargetPermanent, "UNSUPPORTED_VERSION"),
        (E::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, Class::TargetPermanent, "CLUSTER_AUTHORIZATION_FAILED"),
        (E::RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED, Class::TargetPermanent, "SASL_AUTHENTICATION_FAILED"),
        (E::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, Class::TargetPermanent, "TOPIC_AUTHORIZATION_FAILED"),
        (E::RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, Class::TargetPermanent, "INVALID_TOPIC_EXCEPTION"),
        (E::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION, Class::Unknown, "unknown_code"),
    ];
    let cluster = cluster();
    let sink = warm(&cluster, PATIENT).await;
    for (error, class, code) in rows {
        // Twice: what is said of a batch is asked again of the record alone.
        cluster.request_errors(Api::Produce, &[error, error]);
        let outcome = sink.deliver(to_t(1)).await;
        let failure = outcome.expect_err(code);
        assert_eq!((failure.class, failure.code), (class, code), "{failure}");
        cluster.clear_request_errors(Api::Produce);
        sink.deliver(to_t(2)).await.unwrap_or_else(|failure| panic!("after {code}: {failure}"));
    }
    sink.close().await;
}

#[tokio::test]
async fn replicas_that_stay_away_are_transient_and_nothing_else() {
    let cluster = cluster();
    let sink = KafkaSink::new(Arc::new(spec(&cluster.bootstrap_servers())), Duration::from_secs(8));
    sink.deliver(to_t(0)).await.expect("the mock takes it");
    let missing = [Error::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS; 1000];
    cluster.request_errors(Api::Produce, &missing);
    let failure = reported(&sink, to_t(1)).await;
    assert_eq!((failure.class, failure.code), (Class::Transient, "MSG_TIMED_OUT"), "{failure}");
    cluster.clear_request_errors(Api::Produce);
    until_delivered(&sink, to_t(1)).await;
    sink.close().await;
}

#[tokio::test]
async fn a_sink_ends_only_by_a_defect() {
    let cluster = cluster();
    let sink = warm(&cluster, PATIENT).await;
    assert!(sink.ended().now_or_never().is_none());
    sink.close().await;
    assert!(sink.ended().now_or_never().is_none());
}

#[tokio::test]
async fn topics_beyond_the_limit_are_for_a_new_producer_and_cost_no_record() {
    let cluster = cluster();
    let sink = sink(&cluster, PATIENT);
    let first = sink.batches.get().await.expect("a producer");
    let to = |n: usize| outbound(n as u64, topic(&format!("t{n}")), "x");
    // The mock makes a topic that it is asked for.
    for n in (0..TOPICS).step_by(500) {
        for outcome in join_all((n..n + 500).map(|n| sink.deliver(to(n)))).await {
            outcome.expect("the mock takes it");
        }
    }
    sink.deliver(to(0)).await.expect("a topic that is known");
    assert!(Arc::ptr_eq(&first, &sink.batches.get().await.expect("a producer")));
    for outcome in join_all((TOPICS - 10..TOPICS + 10).map(|n| sink.deliver(to(n)))).await {
        outcome.expect("the mock takes it");
    }
    assert!(first.is_over() && !Arc::ptr_eq(&first, &sink.batches.get().await.expect("a producer")));
    assert!(!first.health().is_finished(), "what it has is not given up");
    sink.close().await;
}
