//! Tests of the Kafka clusters: they start, obey, and disappear.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use brokers::kafka::{Kafka, KafkaOptions, NewTopic, Operation, Resource};

#[test]
fn one_node_is_used_by_java_clients_and_lasts_through_a_kill() {
    let kafka = Kafka::start().unwrap();
    kafka.create_topic("orders", 3, &[("max.message.bytes", "2000")]).unwrap();
    kafka.create_topics(&[NewTopic { name: "other", partitions: 1, replication: 1, configs: &[] }]).unwrap();
    assert!(kafka.create_topic("orders", 3, &[]).unwrap_err().to_string().contains("already exists"));

    kafka.java_produce("orders", &["a", "b", "c", "ä"]).unwrap();
    assert_eq!(kafka.end_offsets("orders").unwrap().iter().sum::<i64>(), 4);
    kafka.kill(1);
    assert!(TcpStream::connect(kafka.bootstrap()).is_err());
    kafka.restart(1).unwrap();

    let mut records = kafka.java_consume("orders", 4, Duration::from_secs(60)).unwrap();
    records.sort_by(|a, b| a.value.cmp(&b.value));
    let seen: Vec<_> = records.iter().map(|record| (record.key.as_deref(), record.value.as_deref())).collect();
    let expected: [(&[u8], &[u8]); 4] = [(b"a", b"0"), (b"b", b"1"), (b"c", b"2"), ("ä".as_bytes(), b"3")];
    assert_eq!(seen, expected.map(|(key, value)| (Some(key), Some(value))));
    assert!(records.iter().all(|record| record.headers.is_empty()));

    kafka.alter_topic("orders", &[("max.message.bytes", "3000")]).unwrap();
    kafka.add_partitions("orders", 5).unwrap();
    assert_eq!(kafka.partitions("orders").unwrap().unwrap().len(), 5);
    kafka.delete_topic("orders").unwrap();
    assert_eq!(kafka.partitions("orders").unwrap(), None);
    assert!(kafka.delete_topic("orders").is_err());
}

#[test]
fn a_frozen_node_is_silent_until_it_thaws() {
    let kafka = Kafka::start().unwrap();
    let mut stream = TcpStream::connect(kafka.bootstrap()).unwrap();
    // ApiVersions 0: the first request of every client.
    let question = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0, 0];
    kafka.freeze(1);
    stream.write_all(&question).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(stream.read(&mut [0]).is_err());
    kafka.thaw(1);
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 1);
}

#[test]
fn the_second_of_two_nodes_can_die_and_come_back() {
    let options = KafkaOptions { nodes: 2, acl: true, ..KafkaOptions::default() };
    let kafka = Kafka::start_with(options).unwrap();
    kafka.create_topic("orders", 1, &[("min.insync.replicas", "2")]).unwrap();
    let in_sync = || kafka.partitions("orders").unwrap().unwrap()[0].in_sync.len();
    assert_eq!(in_sync(), 2);
    kafka.kill(2);
    until("the second replica is missed", || in_sync() == 1);
    kafka.restart(2).unwrap();
    until("the second replica is back", || in_sync() == 2);

    let topic = Resource::Topic("orders");
    kafka.add_acl("alice", topic, &[Operation::Write, Operation::Describe]).unwrap();
    kafka.remove_acl("alice", topic, &[Operation::Write]).unwrap();
}

#[test]
fn listeners_ask_for_passwords_certificates_and_rights() {
    let options = KafkaOptions { sasl: true, mutual_tls: true, acl: true, ..KafkaOptions::default() };
    let kafka = Kafka::start_with(options).unwrap();
    kafka.create_topic("orders", 1, &[]).unwrap();
    let files = kafka.certificates();
    let ca = format!("ssl.ca.location={}", files.ca.display());
    let certificate = format!("ssl.certificate.location={}", files.client_cert.display());
    let key = format!("ssl.key.location={}", files.client_key.display());
    // Only PLAIN: Debian's kcat is too old for the SCRAM of Kafka 4.
    let login = ["sasl.mechanism=PLAIN", "sasl.username=alice", &format!("sasl.password={}", Kafka::password("alice"))];
    let plain = [&["security.protocol=sasl_plaintext"][..], &login].concat();
    assert!(!sees_orders(&kafka.bootstrap_sasl(), &plain), "alice has no rights yet");
    kafka.add_acl("alice", Resource::Topic("orders"), &[Operation::Describe]).unwrap();
    assert!(sees_orders(&kafka.bootstrap_sasl(), &plain), "alice may see the topic");
    let tls = [&["security.protocol=sasl_ssl", &ca][..], &login].concat();
    assert!(sees_orders(&kafka.bootstrap_sasl_tls(), &tls), "alice in TLS");
    kafka.remove_acl("alice", Resource::Topic("orders"), &[Operation::Describe]).unwrap();
    assert!(!sees_orders(&kafka.bootstrap_sasl(), &plain), "alice has lost the right");
    kafka.add_acl("User:CN=client", Resource::Topic("*"), &[Operation::All]).unwrap();
    let tls = ["security.protocol=ssl", &ca];
    assert!(!sees_orders(&kafka.bootstrap_tls(), &tls), "a certificate is asked for");
    assert!(sees_orders(&kafka.bootstrap_tls(), &[&tls[..], &[&certificate, &key]].concat()));
}

/// Whether kcat with these settings finds a topic that it may use.
fn sees_orders(bootstrap: &str, settings: &[&str]) -> bool {
    let mut kcat = Command::new("kcat");
    kcat.args(["-b", bootstrap, "-L", "-t", "orders", "-m", "20"]);
    kcat.args(settings.iter().flat_map(|setting| ["-X", setting]));
    let output = kcat.output().expect("kcat is there: scripts/setup.sh kafka");
    String::from_utf8_lossy(&output.stdout).contains("topic \"orders\" with 1 partitions:\n")
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "wait until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
