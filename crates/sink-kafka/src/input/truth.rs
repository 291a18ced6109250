//! The input against a real Kafka that does not let it read: what it says, and how it goes on.

use std::sync::Arc;
use std::time::Duration;

use brokers::Kafka;
use brokers::kafka::{Operation, Resource};
use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::KafkaInputSpec;
use super::tests::spec;
use crate::client::tests::rig::{PATIENCE, Shared, new_topic, unique};
use crate::login::{KafkaLogin, KafkaSasl, SaslMechanism};
use delaybridge_input::InputConnector;
use delaybridge_settings::Secret;
use delaybridge_testing::input::{World, until};

/// Long enough that nothing falls due within a test, in ms.
const HOUR: &str = "3600000";

fn write(kafka: &Kafka, (topic, partition): (&str, i32), body: &str, delay: &str) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", kafka.bootstrap()).create().expect("a producer");
    let headers = OwnedHeaders::new().insert(Header { key: "x-delay", value: Some(delay) });
    let record = BaseRecord::<str, str>::to(topic).payload(body).headers(headers).partition(partition);
    producer.send(record).map_err(|(error, _)| error).expect("send the record");
    producer.flush(PATIENCE).expect("the broker takes it");
}

fn reads(kafka: &Kafka, topic: &str) -> KafkaInputSpec {
    KafkaInputSpec {
        topics: vec![topic.to_owned()],
        group: unique("group"),
        cluster: Arc::new(crate::client::tests::spec(&kafka.bootstrap())),
        ..spec()
    }
}

/// Builds the settings of a user with this password.
fn reads_as(kafka: &Kafka, topic: &str, username: &str, password: Secret) -> KafkaInputSpec {
    let login = KafkaLogin::Password { username: username.to_owned(), password };
    let sasl = Some(KafkaSasl { mechanism: SaslMechanism::Plain, login });
    let cluster = crate::KafkaSpec { sasl, ..crate::client::tests::spec(&kafka.bootstrap_sasl()) };
    KafkaInputSpec { cluster: Arc::new(cluster), ..reads(kafka, topic) }
}

/// Checks that the input says that it is down, and goes on saying so: the client itself says it once, and that its
/// group is well every five seconds.
async fn stays_down(world: &World) {
    world.down().await;
    let begun = delaybridge_core::clock::Instant::now();
    while begun.elapsed() < Duration::from_secs(12) {
        assert!(!world.is_up(), "it says that it reads, after {:?}", begun.elapsed());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_is_corrected_in_its_file_reaches_the_input() {
    let kafka = Shared::get();
    let topic = new_topic(&kafka);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "wrong\n").unwrap();
    let world = World::new();
    let running = world.begin(reads_as(&kafka, &topic, "admin", Secret::File(file.clone())).input());
    stays_down(&world).await;
    std::fs::write(&file, format!("{}\n", Kafka::password("admin"))).unwrap();
    world.up().await;
    write(&kafka, (&topic, 0), "a", HOUR);
    world.scheduled(1).await;
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_whose_right_is_revoked_says_so_until_it_has_it_again() {
    let kafka = Shared::get();
    let topic = new_topic(&kafka);
    let input = reads_as(&kafka, &topic, "alice", Secret::Literal(Kafka::password("alice").to_owned().into()));
    kafka.add_acl("alice", Resource::Group(&input.group), &[Operation::Read]).unwrap();
    kafka.add_acl("alice", Resource::Topic(&topic), &[Operation::Read]).unwrap();
    let world = World::new();
    let running = world.begin(input.input());
    world.up().await;
    write(&kafka, (&topic, 0), "a", HOUR);
    world.scheduled(1).await;
    kafka.remove_acl("alice", Resource::Topic(&topic), &[Operation::Read]).unwrap();
    // It may still look at the topic, as a consumer of another group may.
    kafka.add_acl("alice", Resource::Topic(&topic), &[Operation::Describe]).unwrap();
    write(&kafka, (&topic, 0), "b", HOUR);
    stays_down(&world).await;
    kafka.add_acl("alice", Resource::Topic(&topic), &[Operation::Read]).unwrap();
    world.up().await;
    world.scheduled(2).await;
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_whose_topic_is_gone_says_so_until_it_is_there_again() {
    let kafka = Shared::get();
    let topic = new_topic(&kafka);
    let world = World::new();
    let running = world.begin(reads(&kafka, &topic).input());
    world.up().await;
    kafka.delete_topic(&topic).unwrap();
    stays_down(&world).await;
    kafka.create_topic(&topic, 1, &[]).unwrap();
    world.up().await;
    write(&kafka, (&topic, 0), "a", HOUR);
    world.scheduled(1).await;
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_record_that_finds_no_place_holds_its_partition_until_there_is_one() {
    let kafka = Shared::get();
    let topic = new_topic(&kafka);
    let refused = unique("refused");
    kafka.add_partitions(&topic, 2).expect("add a partition");
    let world = World::new();
    write(&kafka, (&topic, 0), "refused", "soon");
    write(&kafka, (&topic, 0), "behind it", HOUR);
    let running =
        world.begin(KafkaInputSpec { dead_letter_topic: Some(refused.clone()), ..reads(&kafka, &topic) }.input());
    world.up().await;
    until("the record is not refused", async || world.counts().refused > 0).await;
    // The other partition goes on, while the record is tried again and again.
    for n in 0..20 {
        write(&kafka, (&topic, 1), &format!("beside it {n}"), HOUR);
        until("the other partition waits", async || {
            let bodies = world.messages().await;
            bodies.iter().any(|(_, _, body)| *body == format!("beside it {n}"))
        })
        .await;
    }
    assert_eq!(world.counts().scheduled, 21, "what is behind the record, and what is beside it");
    kafka.create_topic(&refused, 1, &[]).unwrap();
    until("the record is not given away", async || kafka.end_offsets(&refused).is_ok_and(|ends| ends == [1])).await;
    // What is behind it comes again with it, and is known.
    until("the partition is still held", async || world.counts().duplicates > 0).await;
    write(&kafka, (&topic, 0), "later", HOUR);
    world.scheduled(22).await;
    assert_eq!(kafka.end_offsets(&refused).unwrap(), [1], "once");
    world.up().await;
    running.end().await;
}
