//! The records that wait, of a real Kafka, as several processes show them; and static members.

use std::sync::Arc;
use std::time::Duration;

use brokers::Kafka;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

use super::KafkaInputSpec;
use super::tests::spec;
use crate::client::tests::rig::{PATIENCE, Shared, new_topic, unique};
use delaybridge_input::InputConnector;
use delaybridge_testing::input::{World, until};

fn reads(kafka: &Kafka, topic: &str, group: &str) -> KafkaInputSpec {
    KafkaInputSpec {
        topics: vec![topic.to_owned()],
        group: group.to_owned(),
        cluster: Arc::new(crate::client::tests::spec(&kafka.bootstrap())),
        ..spec()
    }
}

/// Writes a record to each partition in one transaction, and ends it.
fn transaction(kafka: &Kafka, topic: &str, partitions: &[i32], commits: bool) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", kafka.bootstrap())
        .set("transactional.id", unique("writer"))
        .create()
        .expect("a producer");
    producer.init_transactions(PATIENCE).expect("a transactional producer");
    producer.begin_transaction().expect("a transaction");
    for partition in partitions {
        let headers = OwnedHeaders::new().insert(Header { key: "x-delay", value: Some("3600000") });
        let record = BaseRecord::<str, str>::to(topic).payload("body").headers(headers).partition(*partition);
        producer.send(record).map_err(|(error, _)| error).expect("send the record");
    }
    producer.flush(PATIENCE).expect("the broker takes it");
    let ended = if commits { producer.commit_transaction(PATIENCE) } else { producer.abort_transaction(PATIENCE) };
    ended.expect("end the transaction");
}

/// Commits for a group, as a member that was killed before the marks came.
fn commit(kafka: &Kafka, topic: &str, group: &str, offset: i64) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", kafka.bootstrap())
        .set("group.id", group)
        .create()
        .expect("a consumer");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Offset(offset)).expect("an offset");
    consumer.commit(&list, CommitMode::Sync).expect("commit");
}

async fn wait(world: &World, topic: &str, partitions: i32, records: u64) {
    until(&format!("it does not show {records} records in each of {partitions} partitions"), async || {
        (0..partitions).all(|partition| world.waiting(topic, partition) == Some(records))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_member_shows_all_partitions_and_none_waits_behind_marks_of_transactions() {
    let kafka = Shared::get();
    let topic = new_topic(&kafka);
    let group = unique("group");
    kafka.add_partitions(&topic, 3).expect("add partitions");
    let one = World::new();
    let other = World::new();
    let first = one.begin(reads(&kafka, &topic, &group).input());
    let second = other.begin(reads(&kafka, &topic, &group).input());
    one.up().await;
    other.up().await;
    transaction(&kafka, &topic, &[0, 1, 2], true);
    transaction(&kafka, &topic, &[0, 1, 2], false);
    let scheduled = || one.counts().scheduled + other.counts().scheduled;
    until("the records do not come", async || scheduled() == 3).await;
    for world in [&one, &other] {
        wait(world, &topic, 3, 0).await;
        assert_eq!(world.counts().lag, 0);
    }
    // The lag of an unassigned partition is shown by every member, and is 0 again after a rebalance.
    second.end().await;
    until("the partitions do not come", async || {
        transaction(&kafka, &topic, &[0, 1, 2], true);
        other.counts().scheduled + 3 <= one.counts().scheduled
    })
    .await;
    wait(&one, &topic, 3, 0).await;
    first.end().await;
    assert_eq!(kafka.end_offsets(&topic).unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_finds_only_marks_passes_them() {
    let kafka = Shared::get();
    let topic = new_topic(&kafka);
    let group = unique("group");
    transaction(&kafka, &topic, &[0], true);
    commit(&kafka, &topic, &group, 1);
    let world = World::new();
    let running = world.begin(reads(&kafka, &topic, &group).input());
    wait(&world, &topic, 1, 0).await;
    assert_eq!(world.counts().scheduled, 0);
    transaction(&kafka, &topic, &[0], true);
    world.scheduled(1).await;
    wait(&world, &topic, 1, 0).await;
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_record_and_what_is_behind_it_wait() {
    let kafka = Shared::get();
    let topic = new_topic(&kafka);
    let group = unique("group");
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", kafka.bootstrap()).create().expect("a producer");
    for delay in ["3600000", "soon", "3600000"] {
        let headers = OwnedHeaders::new().insert(Header { key: "x-delay", value: Some(delay) });
        let record = BaseRecord::<str, str>::to(&topic).payload("body").headers(headers).partition(0);
        producer.send(record).map_err(|(error, _)| error).expect("send the record");
    }
    producer.flush(PATIENCE).expect("the broker takes them");
    let world = World::new();
    let running = world.begin(reads(&kafka, &topic, &group).input());
    world.scheduled(1).await;
    wait(&world, &topic, 1, 2).await;
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_member_keeps_its_partitions_over_a_restart() {
    let kafka = Shared::get();
    let topic = new_topic(&kafka);
    let group = unique("group");
    let member =
        |id: &str| KafkaInputSpec { group_instance_id: Some(id.to_owned()), ..reads(&kafka, &topic, &group) }.input();
    let one = World::new();
    let other = World::new();
    let running = one.begin(member("one"));
    transaction(&kafka, &topic, &[0], true);
    one.scheduled(1).await;
    running.end().await;
    let beside = other.begin(member("other"));
    transaction(&kafka, &topic, &[0], true);
    // Another member has to wait for its session; the same one does not.
    let again = one.begin(member("one"));
    one.scheduled(2).await;
    assert_eq!(other.counts().scheduled, 0);
    beside.end().await;
    again.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_processes_with_one_id_the_last_one_reads_and_the_first_one_says_so() {
    let kafka = Shared::get();
    let topic = new_topic(&kafka);
    let group = unique("group");
    let member =
        || KafkaInputSpec { group_instance_id: Some("same".to_owned()), ..reads(&kafka, &topic, &group) }.input();
    let one = World::new();
    let other = World::new();
    let first = one.begin(member());
    one.up().await;
    let second = other.begin(member());
    one.down().await;
    other.up().await;
    transaction(&kafka, &topic, &[0], true);
    other.scheduled(1).await;
    assert!(!one.is_up());
    tokio::time::timeout(Duration::from_secs(20), first.end()).await.expect("it ends while it waits");
    second.end().await;
}
