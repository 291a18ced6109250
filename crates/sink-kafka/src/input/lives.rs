//! The input against a real Kafka whose topics change: partitions that come, records that go, topics that are made again.

use std::sync::Arc;
use std::time::Duration;

use brokers::Kafka;
use bytes::Bytes;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

use super::tests::spec;
use super::{IdentityFrom, KafkaInputSpec, StartFrom};
use crate::client::tests::rig::{PATIENCE, Shared, new_topic, unique};
use delaybridge_core::clock::Instant;
use delaybridge_input::{Input, InputConnector};
use delaybridge_testing::input::{RunningInput, World, until};

/// Long enough that nothing falls due within a test, in ms.
const HOUR: &str = "3600000";

/// Writes a record with this delay and timestamp, and waits until the broker has it.
fn write(kafka: &Kafka, (topic, partition): (&str, i32), body: &str, delay: &str, written_ms: Option<i64>) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", kafka.bootstrap()).create().expect("a producer");
    let header = |key, value| Header { key, value: Some(value) };
    let headers = OwnedHeaders::new().insert(header("x-message-id", body)).insert(header("x-delay", delay));
    let record = BaseRecord::<str, str>::to(topic).payload(body).headers(headers).partition(partition);
    let record = match written_ms {
        Some(written_ms) => record.timestamp(written_ms),
        None => record,
    };
    producer.send(record).map_err(|(error, _)| error).expect("send the record");
    producer.flush(PATIENCE).expect("the broker takes it");
}

/// A topic that an input reads, and a Redis for its jobs.
struct Stage {
    kafka: Shared,
    topic: String,
    group: String,
    world: World,
}

impl Stage {
    fn new() -> Stage {
        let kafka = Shared::get();
        let topic = new_topic(&kafka);
        Stage { kafka, topic, group: unique("group"), world: World::new() }
    }

    fn spec(&self) -> KafkaInputSpec {
        KafkaInputSpec {
            topics: vec![self.topic.clone()],
            group: self.group.clone(),
            cluster: Arc::new(crate::client::tests::spec(&self.kafka.bootstrap())),
            ..spec()
        }
    }

    fn input(&self, start: StartFrom) -> Arc<dyn Input> {
        KafkaInputSpec { identity: IdentityFrom::Header, start, ..self.spec() }.input()
    }

    /// Starts an input to which a record is its place, and what is there.
    async fn run_by_position(&self) -> RunningInput {
        let running = self.world.begin(self.spec().input());
        self.world.up().await;
        running
    }

    /// Starts an input, and waits until it reads.
    async fn run(&self, start: StartFrom) -> RunningInput {
        let running = self.world.begin(self.input(start));
        self.world.up().await;
        running
    }

    /// Writes records that are due in an hour, and waits until the broker has them.
    fn write(&self, partition: i32, bodies: &[&str]) {
        for body in bodies {
            write(&self.kafka, (&self.topic, partition), body, HOUR, None);
        }
    }

    /// Writes two records to the first partition, and lets a consumer finish the job of the first one, as soon as both are jobs.
    async fn write_two(&self, [first, second]: [&str; 2]) {
        write(&self.kafka, (&self.topic, 0), first, "0", None);
        self.write(0, &[second]);
        self.world.scheduled(1).await;
        self.world.finished(first).await;
    }

    /// Creates a list with an offset of the first partition.
    fn at(&self, offset: i64) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.topic, 0, Offset::Offset(offset)).expect("an offset");
        list
    }

    fn member(&self) -> BaseConsumer {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.kafka.bootstrap()).set("group.id", &self.group);
        config.create().expect("a consumer")
    }

    fn commit(&self, offset: i64, metadata: &str) {
        let list = self.at(offset);
        list.find_partition(&self.topic, 0).expect("the partition").set_metadata(metadata);
        let consumer = self.member();
        let begun = Instant::now();
        // The first commit of a group waits for its coordinator.
        while let Err(error) = consumer.commit(&list, CommitMode::Sync) {
            assert!(begun.elapsed() < PATIENCE, "commit: {error}");
        }
    }

    /// Returns the committed offset of the first partition.
    fn committed(&self) -> Option<i64> {
        let found = self.member().committed_offsets(self.at(0), PATIENCE).expect("the committed offset");
        match found.find_partition(&self.topic, 0)?.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        }
    }

    async fn remove_before(&self, offset: i64) {
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", self.kafka.bootstrap()).create().expect("a client");
        let removed = admin.delete_records(&self.at(offset), &AdminOptions::new()).await.expect("remove records");
        assert!(removed.elements().iter().all(|of| of.error().is_ok()), "{removed:?}");
    }

    /// Deletes the topic, and makes another one of its name.
    fn make_again(&self) {
        self.kafka.delete_topic(&self.topic).expect("delete the topic");
        self.kafka.create_topic(&self.topic, 1, &[]).expect("create the topic");
    }

    async fn bodies(&self) -> Vec<String> {
        let text = |body: Bytes| String::from_utf8_lossy(&body).into_owned();
        let mut bodies: Vec<_> = self.world.messages().await.into_iter().map(|(_, _, body)| text(body)).collect();
        bodies.sort();
        bodies
    }

    /// Waits for these bodies, and no others.
    async fn expect(&self, bodies: &[&str]) {
        self.world.scheduled(bodies.len() as u64).await;
        assert_eq!(self.bodies().await, bodies);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_is_added_later_is_read_from_its_beginning_at_once() {
    let stage = Stage::new();
    stage.write(0, &["before"]);
    let running = stage.run(StartFrom::Latest).await;
    stage.write(0, &["first"]);
    stage.expect(&["first"]).await;
    stage.kafka.add_partitions(&stage.topic, 3).expect("add partitions");
    stage.write(2, &["second"]);
    let begun = Instant::now();
    stage.world.scheduled(2).await;
    println!("records of a new partition are read after {:?}", begun.elapsed());
    running.end().await;
    assert_eq!(stage.bodies().await, ["first", "second"]);
    assert_eq!((stage.world.counts().missed, stage.world.counts().resets), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn latest_is_the_end_at_the_first_start_and_at_no_later_one() {
    let stage = Stage::new();
    stage.write(0, &["before"]);
    let running = stage.run(StartFrom::Latest).await;
    assert_eq!(stage.committed(), Some(1));
    running.end().await;
    stage.write(0, &["while it was stopped"]);
    let running = stage.run(StartFrom::Latest).await;
    stage.expect(&["while it was stopped"]).await;
    running.end().await;
}

/// The first member decides for all partitions, those of the others too.
#[tokio::test(flavor = "multi_thread")]
async fn members_that_begin_together_agree_on_the_end() {
    let stage = Stage::new();
    stage.kafka.add_partitions(&stage.topic, 4).expect("add partitions");
    (0..4).for_each(|partition| stage.write(partition, &["before"]));
    let others = stage.world.begin(stage.input(StartFrom::Latest));
    let running = stage.run(StartFrom::Latest).await;
    (0..4).for_each(|partition| stage.write(partition, &[["a", "b", "c", "d"][partition as usize]]));
    stage.expect(&["a", "b", "c", "d"]).await;
    others.end().await;
    running.end().await;
    assert_eq!(stage.world.counts().resets, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_are_gone_are_counted_and_the_first_that_is_there_is_the_next() {
    for start in [StartFrom::Earliest, StartFrom::Latest] {
        let stage = Stage::new();
        stage.write(0, &["0", "1", "2", "3", "4", "5", "6", "7"]);
        stage.commit(2, "");
        stage.remove_before(5).await;
        let running = stage.run(start).await;
        stage.expect(&["5", "6", "7"]).await;
        running.end().await;
        assert_eq!((stage.world.counts().missed, stage.world.counts().resets), (3, 1), "{start:?}");
        assert_eq!(stage.committed(), Some(8));
    }
}

/// The end of a transaction has an offset, and is no record.
#[tokio::test(flavor = "multi_thread")]
async fn ends_of_transactions_are_no_gap() {
    let stage = Stage::new();
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", stage.kafka.bootstrap()).set("transactional.id", &stage.group);
    let producer: BaseProducer = config.create().expect("a producer");
    producer.init_transactions(PATIENCE).expect("the transactions begin");
    for body in ["a", "b"] {
        producer.begin_transaction().expect("a transaction begins");
        let headers = OwnedHeaders::new().insert(Header { key: "x-delay", value: Some(HOUR) });
        let record = BaseRecord::<str, str>::to(&stage.topic).payload(body).headers(headers);
        producer.send(record).map_err(|(error, _)| error).expect("send the record");
        producer.commit_transaction(PATIENCE).expect("it ends");
    }
    stage.commit(0, "");
    let running = stage.run_by_position().await;
    stage.expect(&["a", "b"]).await;
    running.end().await;
    assert_eq!((stage.world.counts().missed, stage.world.counts().resets), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offset_beyond_the_end_begins_at_the_beginning() {
    for start in [StartFrom::Earliest, StartFrom::Latest] {
        let stage = Stage::new();
        stage.write(0, &["0", "1", "2"]);
        stage.commit(100, "");
        let running = stage.run(start).await;
        stage.expect(&["0", "1", "2"]).await;
        running.end().await;
        assert_eq!((stage.world.counts().missed, stage.world.counts().resets), (0, 1), "{start:?}");
        assert_eq!(stage.committed(), Some(3));
    }
}

/// The offset is one that the new topic has too.
#[tokio::test(flavor = "multi_thread")]
async fn the_offset_of_another_topic_of_the_same_name_is_none_of_this_one() {
    let stage = Stage::new();
    stage.write(0, &["0", "1", "2"]);
    stage.commit(2, "topic-id=AAAAAAAAAAAAAAAAAAAAAQ");
    let running = stage.run(StartFrom::Latest).await;
    stage.expect(&["0", "1", "2"]).await;
    running.end().await;
    assert_eq!((stage.world.counts().missed, stage.world.counts().resets), (0, 1));
    // It has its own offset now.
    let running = stage.run(StartFrom::Latest).await;
    stage.write(0, &["3"]);
    stage.expect(&["0", "1", "2", "3"]).await;
    running.end().await;
    assert_eq!(stage.world.counts().resets, 1);
}

/// More records are in the new topic than the input had read of the one before, so its place there is one here.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_made_again_meanwhile_is_read_from_its_beginning() {
    for start in [StartFrom::Earliest, StartFrom::Latest] {
        let stage = Stage::new();
        let running = stage.run(start).await;
        stage.write(0, &["a", "b"]);
        stage.world.scheduled(2).await;
        until("the offset is committed", async || stage.committed() == Some(2)).await;
        stage.make_again();
        stage.write(0, &["c", "d", "e", "f", "g"]);
        let begun = Instant::now();
        stage.expect(&["a", "b", "c", "d", "e", "f", "g"]).await;
        println!("{start:?}: the records of the new topic are read after {:?}", begun.elapsed());
        until("the offset is committed", async || stage.committed() == Some(5)).await;
        running.end().await;
        assert_eq!((stage.world.counts().missed, stage.world.counts().resets), (0, 1), "{start:?}");
    }
}

/// The group's offsets go with the topic. The input is stopped by a fault when the new topic is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_away_for_a_while_is_read_from_its_beginning() {
    let stage = Stage::new();
    let running = stage.run(StartFrom::Latest).await;
    stage.write(0, &["a", "b"]);
    stage.world.scheduled(2).await;
    stage.kafka.delete_topic(&stage.topic).expect("delete the topic");
    tokio::time::sleep(Duration::from_secs(5)).await;
    stage.kafka.create_topic(&stage.topic, 2, &[]).expect("create the topic");
    stage.write(0, &["c"]);
    stage.write(1, &["d", "e"]);
    stage.expect(&["a", "b", "c", "d", "e"]).await;
    running.end().await;
}

/// The records of the new topic are at the places of those before, of which one waits and one was finished.
#[tokio::test(flavor = "multi_thread")]
async fn records_at_the_places_of_an_earlier_topic_are_other_records() {
    let stage = Stage::new();
    let running = stage.run_by_position().await;
    stage.write_two(["a", "b"]).await;
    stage.make_again();
    stage.write(0, &["c", "d"]);
    stage.expect(&["b", "c", "d"]).await;
    running.end().await;
    // A record may be read twice, before and after the topic is known as another one.
    let counts = stage.world.counts();
    assert!(counts.duplicates <= 2 && counts.refused == 0, "{counts:?}");
}

/// A commit that is lost brings records again, of which one waits and one was finished.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_comes_again_is_the_same_one() {
    let stage = Stage::new();
    let running = stage.run_by_position().await;
    stage.write_two(["a", "b"]).await;
    running.end().await;
    stage.commit(0, "");
    let running = stage.run_by_position().await;
    until("two records are no duplicates", async || stage.world.counts().duplicates == 2).await;
    running.end().await;
    assert_eq!(stage.bodies().await, ["b"]);
}

/// A commit that is lost brings it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_was_cancelled_stays_cancelled() {
    let stage = Stage::new();
    stage.write(0, &["a"]);
    let running = stage.run_by_position().await;
    stage.world.scheduled(1).await;
    running.end().await;
    stage.world.cancel().await;
    stage.commit(0, "");
    stage.write(0, &["b"]);
    let running = stage.run_by_position().await;
    stage.expect(&["b"]).await;
    running.end().await;
    assert_eq!(stage.world.counts().duplicates, 1);
}

/// Both have a record with the same contents at the same place. The clusters of these tests have the same id, so they differ by time.
#[tokio::test(flavor = "multi_thread")]
async fn records_of_two_clusters_are_different_ones() {
    let stage = Stage::new();
    let other = Kafka::start().expect("Kafka starts");
    other.create_topic(&stage.topic, 1, &[]).expect("create the topic");
    let now_ms = stage.world.jobs().now_ms();
    write(&stage.kafka, (&stage.topic, 0), "the same", HOUR, Some(now_ms));
    write(&other, (&stage.topic, 0), "the same", HOUR, Some(now_ms + 1));
    let first = stage.run_by_position().await;
    let cluster = Arc::new(crate::client::tests::spec(&other.bootstrap()));
    let second = stage.world.begin(KafkaInputSpec { cluster, ..stage.spec() }.input());
    stage.expect(&["the same", "the same"]).await;
    first.end().await;
    second.end().await;
}

/// An earlier version has a record as a job under an id that is its place alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_an_earlier_version_has_taken_is_not_scheduled_again() {
    // Written before the job was added, it is the record of the job; written later, it is of another topic.
    for (later_ms, count) in [(-5_000, 1), (5_000, 2)] {
        let stage = Stage::new();
        let written_ms = stage.world.jobs().now_ms() + later_ms;
        write(&stage.kafka, (&stage.topic, 0), "a", HOUR, Some(written_ms));
        let running = stage.run_by_position().await;
        stage.world.scheduled(1).await;
        running.end().await;
        let place = format!("{}-0-0", stage.topic);
        assert!(!stage.world.copy(&place, &stage.world).await, "an earlier version schedules it again");
        let world = World::new();
        assert!(stage.world.copy(&place, &world).await);
        let before = Stage { world, group: unique("group"), ..stage };
        let running = before.run_by_position().await;
        let counts = async || before.world.counts().scheduled + before.world.counts().duplicates == 1;
        until("the record is not decided", counts).await;
        running.end().await;
        before.world.scheduled(count).await;
    }
}
