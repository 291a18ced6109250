//! Records of a real Kafka: what goes on, when and where, what is refused, and daemons that share the partitions.

use std::collections::HashMap;
use std::time::Duration;

use brokers::kafka::write_record;
use brokers::{Kafka, KafkaOptions};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::faults::rig::{PATIENCE, pass, tolerate_stalls};
use crate::kafka::{blocking, start};
use harness::kafka::{count_topic, read_topic};
use harness::redisson::redis_now_ms;
use harness::{Daemon, Delivery, RedisServer, ServerOptions, Stopwatch, eventually};

/// A record for the topic of the input.
struct Outgoing {
    key: String,
    headers: Vec<(&'static str, String)>,
    body: String,
}

/// Writes records, and waits until the brokers have them.
fn produce(bootstrap: &str, records: &[Outgoing]) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("enable.idempotence", "true")
        .create()
        .expect("a producer");
    for Outgoing { key, headers, body } in records {
        let headers = headers
            .iter()
            .fold(OwnedHeaders::new(), |all, (key, value)| all.insert(Header { key, value: Some(value.as_str()) }));
        let mut record = BaseRecord::to("delay-in").key(key).payload(body).headers(headers);
        while let Err((_, again)) = producer.send(record) {
            producer.poll(Duration::from_millis(50));
            record = again;
        }
    }
    producer.flush(PATIENCE).expect("the broker takes them");
}

/// An input `logs` from the topic `delay-in` to the topic `events`; `input` has further keys.
fn yaml(server: &RedisServer, bootstrap: &str, input: &str) -> String {
    format!(
        "redis: {{ url: '{}' }}\n\
         sinks: {{ events: {{ kafka: {{ brokers: ['{bootstrap}'] }} }} }}\n\
         inputs: {{ logs: {{ kafka: {{ brokers: ['{bootstrap}'], topics: [delay-in], group: delaybridge{input} }}, \
         topic: logs, to: {{ sink: events, topic: events }} }} }}\n",
        server.url()
    )
}

fn cluster() -> Kafka {
    let kafka = start(KafkaOptions::default());
    for (topic, partitions) in [("delay-in", 4), ("events", 2), ("mails", 1), ("refused", 1)] {
        blocking(|| kafka.create_topic(topic, partitions, &[])).expect("create a topic");
    }
    kafka
}

async fn arrived(bootstrap: &str, topic: &str, count: usize) -> Vec<Delivery> {
    eventually(&format!("{count} records in {topic}"), PATIENCE, async || {
        let there = count_topic(bootstrap, topic).await?;
        if there >= count { Ok(()) } else { Err(format!("{there} are there")) }
    })
    .await;
    read_topic(bootstrap, topic).await.expect("read the topic")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_record_comes_out_when_it_is_due_as_it_went_in() {
    let server = RedisServer::start().await;
    let kafka = cluster();
    let bootstrap = kafka.bootstrap();
    let mut daemon = Daemon::start(&yaml(&server, &bootstrap, ", dead_letter_topic: refused")).await;
    daemon.expect_log("input refused a message");
    let before = redis_now_ms(&mut server.client().await).await;
    let record = |key: &str, headers: &[(&'static str, &str)], body: &str| Outgoing {
        key: key.to_owned(),
        headers: headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
        body: body.to_owned(),
    };
    let records = [
        record("k-1", &[("x-delay", "1500"), ("tenant", "a")], "late"),
        record("k-2", &[("x-delay-to", "mails")], "at once"),
        record("k-3", &[("x-delay", "-1")], "negative"),
        record("k-4", &[("x-delay-to", "delay-in")], "a loop"),
    ];
    blocking(|| produce(&bootstrap, &records));
    let mails = arrived(&bootstrap, "mails", 1).await;
    assert_eq!((&mails[0].payload[..], mails[0].key.as_deref()), (&b"at once"[..], Some(&b"k-2"[..])));
    let events = arrived(&bootstrap, "events", 1).await;
    assert!(events[0].due_ms.is_some_and(|due_ms| due_ms >= before + 1500), "{events:?}");
    assert!(redis_now_ms(&mut server.client().await).await >= before + 1500, "it is early");
    assert_eq!((&events[0].payload[..], events[0].key.as_deref()), (&b"late"[..], Some(&b"k-1"[..])));
    assert_eq!(events[0].headers.get("tenant").map(|value| &value[..]), Some(&b"a"[..]));
    let refused = arrived(&bootstrap, "refused", 2).await;
    let mut codes: Vec<_> = refused
        .iter()
        .map(|letter| String::from_utf8_lossy(&letter.headers["delaybridge-refused"]).into_owned())
        .collect();
    codes.sort();
    assert_eq!(codes, ["bad_delay", "loop"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_record_without_a_dead_letter_topic_holds_its_partition_and_no_other() {
    let server = RedisServer::start().await;
    let kafka = cluster();
    let bootstrap = kafka.bootstrap();
    let mut daemon = Daemon::start(&yaml(&server, &bootstrap, "")).await;
    daemon.expect_log("input refused a message").expect_log("input holds refused messages");
    let bad = Outgoing { key: "bad".to_owned(), headers: vec![("x-delay", "soon".to_owned())], body: "bad".to_owned() };
    blocking(|| produce(&bootstrap, &[bad]));
    eventually("the probe to name the partition", PATIENCE, async || {
        let text = daemon.get("/readyz").await?.body;
        if text.contains("`x-delay` is no number") { Ok(()) } else { Err(text) }
    })
    .await;
    let good: Vec<_> =
        (0..40).map(|n| Outgoing { key: format!("k-{n}"), headers: Vec::new(), body: format!("{n}") }).collect();
    blocking(|| produce(&bootstrap, &good));
    let events = arrived(&bootstrap, "events", 20).await;
    assert!(events.len() < 40, "the partition of the refused record went on");
    assert_eq!(daemon.stop().await, 0);
    // With a topic for it, a daemon takes the rest.
    let mut daemon = Daemon::start(&yaml(&server, &bootstrap, ", dead_letter_topic: refused")).await;
    daemon.expect_log("input refused a message");
    arrived(&bootstrap, "refused", 1).await;
    assert_eq!(arrived(&bootstrap, "events", 40).await.len(), 40);
}

/// The group waits for the former member until its session is over. The client's own default is 45 s.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_and_a_restart_at_once_the_records_wait_for_a_short_session_only() {
    let server = RedisServer::start().await;
    let kafka = cluster();
    let bootstrap = kafka.bootstrap();
    let mut daemon = Daemon::start(&yaml(&server, &bootstrap, "")).await;
    let records = |from: usize| -> Vec<Outgoing> {
        let record = |n: usize| Outgoing { key: format!("k-{n}"), headers: Vec::new(), body: format!("{n}") };
        (from..from + 40).map(record).collect()
    };
    blocking(|| produce(&bootstrap, &records(0)));
    arrived(&bootstrap, "events", 40).await;
    daemon.kill();
    let watch = Stopwatch::start();
    let _daemon = Daemon::start(&yaml(&server, &bootstrap, "")).await;
    blocking(|| produce(&bootstrap, &records(40)));
    arrived(&bootstrap, "events", 80).await;
    watch.assert_within(Duration::from_secs(30), "records of all partitions after a kill");
}

/// Any producer can write such records. None of them ends the input, and none is scheduled as another message.
#[tokio::test(flavor = "multi_thread")]
async fn records_with_headers_that_cannot_be_kept_are_refused_and_the_others_go_on() {
    let server = RedisServer::start().await;
    let kafka = cluster();
    let bootstrap = kafka.bootstrap();
    let many = vec![(&b""[..], &b""[..]); 70_000];
    blocking(|| {
        write_record(&bootstrap, "delay-in", &[(b"tenant", b"a"), (b"\xff\xfe", b"b")], b"odd name");
        write_record(&bootstrap, "delay-in", &many, b"many");
        write_record(&bootstrap, "delay-in", &[(&[b'n'; 70_000], b"")], b"long name");
        write_record(&bootstrap, "delay-in", &[(b"tenant", b"a"), (b"b", b"\xff")], b"good");
    });
    let mut daemon = Daemon::start(&yaml(&server, &bootstrap, ", dead_letter_topic: refused")).await;
    daemon.expect_log("input refused a message");
    let events = arrived(&bootstrap, "events", 1).await;
    let bodies: Vec<_> = events.iter().map(|event| String::from_utf8_lossy(&event.payload).into_owned()).collect();
    assert_eq!(bodies, ["good"]);
    assert_eq!(events[0].headers.get("b").map(|value| &value[..]), Some(&b"\xff"[..]));
    let mut refused: Vec<_> = arrived(&bootstrap, "refused", 3)
        .await
        .iter()
        .map(|letter| {
            assert_eq!(&letter.headers["delaybridge-refused"][..], b"bad_headers");
            String::from_utf8_lossy(&letter.payload).into_owned()
        })
        .collect();
    refused.sort();
    assert_eq!(refused, ["long name", "many", "odd name"]);
}

/// A record as it is in a topic: key, value, and the headers in their order.
type RawRecord = (Option<Vec<u8>>, Option<Vec<u8>>, Vec<(String, Option<Vec<u8>>)>);

/// The first record of the first partition of a topic.
fn first_record(bootstrap: &str, topic: &str) -> RawRecord {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("group.id", "reader").set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Beginning).expect("a partition");
    consumer.assign(&list).expect("the partition is read");
    let record = consumer.poll(PATIENCE).expect("a record").expect("no error");
    let bytes = |part: Option<&[u8]>| part.map(<[u8]>::to_vec);
    let headers = record.headers().into_iter().flat_map(Headers::iter);
    let headers = headers.map(|header| (header.key.to_owned(), bytes(header.value))).collect();
    (bytes(record.key()), bytes(record.payload()), headers)
}

/// A tombstone with all that headers can be, and with one more header.
fn write_tombstone(bootstrap: &str, first: (&str, &str)) -> Vec<(String, Option<Vec<u8>>)> {
    let given: [(&str, Option<&[u8]>); 6] = [
        (first.0, Some(first.1.as_bytes())),
        ("a", Some(b"1")),
        ("a", None),
        ("b", Some(b"\xff\x00")),
        ("a", Some(b"1")),
        ("a", Some(b"\xfe")),
    ];
    let headers = given.into_iter().fold(OwnedHeaders::new(), |all, (key, value)| all.insert(Header { key, value }));
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", bootstrap).create().expect("a producer");
    let record = BaseRecord::<str, [u8]>::to("delay-in").key("k").headers(headers);
    producer.send(record).map_err(|(error, _)| error).expect("send the record");
    producer.flush(PATIENCE).expect("the broker takes it");
    given.map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec))).into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_stays_as_it_was_at_its_destination_and_in_the_dead_letter_topic() {
    let server = RedisServer::start().await;
    let kafka = start(KafkaOptions::default());
    for topic in ["delay-in", "events", "refused"] {
        blocking(|| kafka.create_topic(topic, 1, &[])).expect("create a topic");
    }
    let bootstrap = kafka.bootstrap();
    let mut daemon = Daemon::start(&yaml(&server, &bootstrap, ", dead_letter_topic: refused")).await;
    daemon.expect_log("input refused a message");
    let due = blocking(|| write_tombstone(&bootstrap, ("x-delay", "10")));
    let bad = blocking(|| write_tombstone(&bootstrap, ("x-delay", "soon")));
    // Those of every message are in front.
    for (topic, given, own) in [("events", &due[1..], 4), ("refused", &bad[..], 4)] {
        let (key, value, headers) = blocking(|| first_record(&bootstrap, topic));
        assert_eq!((key.as_deref(), value.as_deref()), (Some(&b"k"[..]), None), "{topic}");
        assert_eq!(&headers[own..], given, "{topic}");
    }
    let (_, _, headers) = blocking(|| first_record(&bootstrap, "refused"));
    assert_eq!(headers[3], ("delaybridge-refused".to_owned(), Some(b"bad_delay".to_vec())));
}

/// Another member of the group, once it has partitions. It commits nothing.
fn another_member(bootstrap: &str) -> BaseConsumer {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "delaybridge")
        .set("enable.auto.commit", "false")
        .create()
        .expect("a consumer");
    consumer.subscribe(&["delay-in"]).expect("a subscription");
    let until = std::time::Instant::now() + PATIENCE;
    while consumer.assignment().expect("an assignment").count() == 0 {
        assert!(std::time::Instant::now() < until, "no partition in vain");
        let _ = consumer.poll(Duration::from_millis(100));
    }
    consumer
}

/// While Redis is silent the partitions are paused. Those that another member takes meanwhile, and gives back later, are read again.
#[tokio::test(flavor = "multi_thread")]
async fn partitions_that_went_away_while_they_were_paused_are_read_again() {
    let mut server = RedisServer::start().await;
    let kafka = cluster();
    let bootstrap = kafka.bootstrap();
    let mut daemon = Daemon::start(&yaml(&server, &bootstrap, "")).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("input waits").expect_log("input down");
    let round = |n: usize| {
        let record = |n| Outgoing { key: format!("k-{n}"), headers: Vec::new(), body: format!("{n}") };
        (40 * n..40 * n + 40).map(record).collect::<Vec<_>>()
    };
    blocking(|| produce(&bootstrap, &round(0)));
    arrived(&bootstrap, "events", 40).await;
    server.pause();
    blocking(|| produce(&bootstrap, &round(1)));
    // A batch is paused after a second.
    pass(Duration::from_secs(2)).await;
    let other = blocking(|| another_member(&bootstrap));
    server.resume();
    // The daemon goes on with what it has kept.
    arrived(&bootstrap, "events", 41).await;
    blocking(|| drop(other));
    blocking(|| produce(&bootstrap, &round(2)));
    eventually("every record to arrive", PATIENCE, async || {
        let events = read_topic(&bootstrap, "events").await?;
        let there: std::collections::HashSet<_> = events.into_iter().map(|event| event.payload).collect();
        if there.len() == 120 { Ok(()) } else { Err(format!("{} of 120", there.len())) }
    })
    .await;
}

/// What happens after a round of records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Daemon,
    Broker,
    Redis,
    RedisStopped,
}

/// Writes records in ten rounds, with a fault behind each, and checks that every one arrives, none early, and no repetition without
/// an announcement.
async fn no_record_is_lost(count: usize, faults: [Fault; 10], mut server: RedisServer) {
    let kafka = cluster();
    let bootstrap = kafka.bootstrap();
    let yaml = yaml(&server, &bootstrap, ", dead_letter_topic: refused");
    let start_daemon = async || {
        let mut daemon = Daemon::spawn(&yaml);
        tolerate_stalls(&mut daemon);
        daemon.expect_log("input down").expect_log("input waits").expect_log("queue on hold").expect_log("topic");
        daemon.expect_log("destination in trouble");
        daemon
    };
    let mut first = start_daemon().await;
    let mut offered: HashMap<String, i64> = HashMap::new();
    // Another server's clock, which is the same and is there when the first is not.
    let clock = RedisServer::start().await;
    let mut now = clock.client().await;
    let mut second = start_daemon().await;
    for (round, fault) in faults.into_iter().enumerate() {
        let now_ms = redis_now_ms(&mut now).await;
        let records: Vec<_> = (0..count / 10)
            .map(|n| {
                let n = round * count / 10 + n;
                let delay = i64::from(fastrand::u32(..3_000));
                offered.insert(format!("{n}"), now_ms + delay);
                let headers = vec![("x-due", (now_ms + delay).to_string())];
                Outgoing { key: format!("k-{n}"), headers, body: format!("{n}") }
            })
            .collect();
        blocking(|| produce(&bootstrap, &records));
        pass(Duration::from_millis(300)).await;
        match fault {
            Fault::None => {}
            Fault::Daemon => {
                second.kill();
                second = start_daemon().await;
            }
            Fault::Broker => blocking(|| {
                kafka.kill(1);
                kafka.restart(1)
            })
            .expect("restart Kafka"),
            Fault::Redis => {
                server.kill();
                pass(Duration::from_secs(2)).await;
                server.restart().await;
            }
            Fault::RedisStopped => {
                server.pause();
                pass(Duration::from_secs(4)).await;
                server.resume();
            }
        }
    }
    first.stop().await;
    eventually("every record to arrive", 4 * PATIENCE, async || {
        let written = count_topic(&bootstrap, "events").await?;
        if written < count {
            return Err(format!("{written} of {count}"));
        }
        let there: std::collections::HashSet<_> =
            read_topic(&bootstrap, "events").await?.into_iter().map(|event| event.payload).collect();
        if there.len() == count { Ok(()) } else { Err(format!("{} of {count}", there.len())) }
    })
    .await;
    let events = read_topic(&bootstrap, "events").await.expect("read the topic");
    for event in &events {
        let body = String::from_utf8_lossy(&event.payload).into_owned();
        assert!(event.due_ms >= Some(offered[&body]), "{body} is early: {event:?}");
    }
    let twice = events.len() - count;
    let killed = faults.iter().filter(|fault| **fault == Fault::Daemon).count();
    let announced = events.iter().filter(|event| event.attempt.is_some_and(|attempt| attempt > 1)).count();
    println!("{count} records, {killed} daemons killed: 0 lost, {twice} delivered twice, {announced} announced");
    assert!(twice <= announced, "{twice} delivered twice, {announced} announced");
    assert_eq!(count_topic(&bootstrap, "refused").await, Ok(0), "a record was refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_daemons_that_come_and_go_lose_no_record_and_deliver_none_early() {
    use Fault::{Daemon, None};
    let faults = [None, Daemon, None, None, Daemon, None, None, Daemon, None, None];
    no_record_is_lost(5_000, faults, RedisServer::start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_daemons_a_killed_broker_and_a_killed_redis_lose_no_record() {
    use Fault::{Broker, Daemon, None, Redis, RedisStopped};
    let count = if std::env::var_os("DELAYBRIDGE_LONG").is_some() { 100_000 } else { 5_000 };
    let faults = [None, Daemon, None, Broker, RedisStopped, Daemon, Redis, Daemon, None, None];
    no_record_is_lost(count, faults, RedisServer::start_with(ServerOptions::default().append_only()).await).await;
}
