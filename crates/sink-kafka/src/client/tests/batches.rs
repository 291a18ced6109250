//! What takes elements of a batch out of the loop, and what it leaves of their order.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey as Api, RDKafkaRespErr as Error};

use super::rig::{Shared, new_topic, records};
use super::{spec, topic};
use crate::{KafkaSink, KafkaSpec};
use delaybridge_core::message::{Class, Failure};
use delaybridge_sink::{Answers, Outbound, Sink};
use delaybridge_testing::sink::outbound;

/// Long enough that only what must time out does.
const PATIENT: Duration = Duration::from_secs(60);

type Cluster = MockCluster<'static, DefaultProducerContext>;

fn cluster() -> Cluster {
    let cluster = Cluster::new(1).unwrap();
    cluster.create_topic("t", 1, 1).unwrap();
    cluster.create_topic("u", 1, 1).unwrap();
    cluster
}

/// A sink that has delivered once, so that the next request for a record is the one under test.
async fn warm(cluster: &Cluster) -> KafkaSink {
    // However slow the machine, the records of a batch share one.
    let linger = Duration::from_secs(1);
    let sink = KafkaSink::new(Arc::new(KafkaSpec { linger, ..spec(&cluster.bootstrap_servers()) }), PATIENT);
    sink.deliver(outbound(1000, topic("t"), "first")).await.expect("the mock takes it");
    sink
}

fn to(name: &str, ids: std::ops::Range<u64>) -> Vec<Outbound> {
    ids.map(|id| outbound(id, topic(name), format!("body-{id}"))).collect()
}

/// The failures of a batch, by place; the others are confirmed.
async fn failures(sink: &KafkaSink, batch: Vec<Outbound>) -> HashMap<usize, Failure> {
    let count = batch.len();
    let answers = Answers::new(batch.len());
    sink.deliver_all(batch, &answers).await;
    let answered = answers.take();
    assert_eq!(answered.confirmed.len() + answered.failed.len(), count, "{answered:?}");
    answered.failed.into_iter().collect()
}

#[tokio::test]
async fn records_of_a_refused_batch_are_judged_by_themselves() {
    let cluster = cluster();
    let sink = warm(&cluster).await;
    // All of them together are too large for the broker, and so is the first record sent alone.
    let too_large = Error::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    cluster.request_errors(Api::Produce, &[too_large, too_large]);
    let failed = failures(&sink, to("t", 0..20)).await;
    assert_eq!(failed.len(), 1, "{failed:?}");
    let failure = failed.values().next().unwrap();
    assert_eq!((failure.class, failure.code), (Class::MessagePermanent, "MESSAGE_TOO_LARGE"));
    sink.close().await;
}

#[tokio::test]
async fn records_that_are_sent_alone_do_not_time_out_behind_each_other() {
    let cluster = cluster();
    let linger = Duration::from_millis(50);
    let spec = KafkaSpec { linger, ..spec(&cluster.bootstrap_servers()) };
    let sink = KafkaSink::new(Arc::new(spec), Duration::from_secs(6));
    sink.deliver(outbound(1000, topic("t"), "first")).await.expect("the mock takes it");
    // Two requests at a time: one by one, the records take longer than the time-out.
    cluster.broker_round_trip_time(1, Duration::from_millis(100)).unwrap();
    cluster.request_errors(Api::Produce, &[Error::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
    let failed = failures(&sink, to("t", 0..200)).await;
    assert!((50..190).contains(&failed.len()), "some were sent, and not all: {}", failed.len());
    for failure in failed.values() {
        assert!(failure.is_behind() && failure.class == Class::Transient, "{failure}");
    }
    sink.close().await;
}

#[tokio::test]
async fn a_topic_in_doubt_is_asked_for_once_and_delays_no_other() {
    let cluster = cluster();
    let sink = warm(&cluster).await;
    let error = Error::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    cluster.request_errors(Api::Produce, &[error]);
    let failed = failures(&sink, to("t", 0..3)).await;
    assert_eq!(failed.len(), 3, "{failed:?}");
    // If a record were made, the mock would take it.
    cluster.topic_error("t", error).unwrap();
    let mixed = to("t", 0..20).into_iter().zip(to("u", 20..40)).flat_map(|(t, u)| [t, u]).collect();
    let failed = failures(&sink, mixed).await;
    assert_eq!(failed.len(), 20, "{failed:?}");
    assert!(failed.keys().all(|place| place % 2 == 0), "{failed:?}");
    assert!(failed.values().all(|failure| failure.code == "TOPIC_AUTHORIZATION_FAILED"), "{failed:?}");
    cluster.topic_error("t", Error::RD_KAFKA_RESP_ERR_NO_ERROR).unwrap();
    assert!(failures(&sink, to("t", 0..20)).await.is_empty(), "it resumes by itself");
    sink.close().await;
}

#[tokio::test]
async fn a_producer_that_has_given_up_is_replaced_for_the_whole_batch() {
    let cluster = cluster();
    let refused_id = Error::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
    cluster.request_errors(Api::InitProducerId, &[refused_id]);
    let sink = KafkaSink::new(Arc::new(spec(&cluster.bootstrap_servers())), PATIENT);
    let failed = failures(&sink, to("t", 0..20)).await;
    assert_eq!(failed.len(), 20, "{failed:?}");
    for failure in failed.values() {
        assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "CLUSTER_AUTHORIZATION_FAILED"));
    }
    assert!(failures(&sink, to("t", 0..20)).await.is_empty(), "the right is given");
    sink.close().await;
    let failed = failures(&sink, to("t", 0..3)).await;
    assert!(failed.len() == 3 && failed.values().all(|failure| failure.code == "closed"), "{failed:?}");
}

#[tokio::test]
async fn batches_that_find_the_local_queue_full_keep_their_order() {
    let kafka = Shared::get();
    let name = new_topic(&kafka);
    let properties = vec![("queue.buffering.max.messages".to_owned(), "40".to_owned())];
    let sink = KafkaSink::new(Arc::new(KafkaSpec { properties, ..spec(&kafka.bootstrap()) }), PATIENT);
    sink.deliver(outbound(1000, topic(&name), "first")).await.expect("the broker takes it");
    let first = Answers::new(100);
    let second = Answers::new(100);
    let mut one = sink.deliver_all(to(&name, 0..100), &first);
    assert!((&mut one).now_or_never().is_none());
    // What is sent meanwhile makes room, and the second batch must not take it.
    tokio::time::sleep(Duration::from_millis(15)).await;
    let two = sink.deliver_all(to(&name, 100..200), &second);
    tokio::join!(one, two);
    let mut confirmed = first.take();
    let second = second.take();
    confirmed.confirmed.extend(second.confirmed.iter().map(|place| place + 100));
    confirmed.failed.extend(second.failed);
    assert_eq!(confirmed.confirmed.len() + confirmed.failed.len(), 200);
    assert!(confirmed.confirmed.len() > 40, "none waited for room: {}", confirmed.confirmed.len());
    // On a machine that stalls, some find none in time.
    assert!(confirmed.failed.iter().all(|(_, failure)| failure.code == "queue_full"), "{confirmed:?}");
    confirmed.confirmed.sort_unstable();
    let mut expected = vec![b"first".to_vec()];
    expected.extend(confirmed.confirmed.iter().map(|n| format!("body-{n}").into_bytes()));
    let received: Vec<_> = records(&kafka, &name).into_iter().map(|record| record.value.unwrap()).collect();
    assert!(received == expected, "not in order");
    sink.close().await;
}
