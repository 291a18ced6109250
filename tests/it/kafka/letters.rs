//! The way back from a dead-letter topic.

use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::*;
use harness::daemon::cli;
use harness::redisson::{Element, redis_now_ms};

/// Writes a record with these headers to partition 0.
fn produce(bootstrap: &str, headers: &[(&str, &str)]) {
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", bootstrap).create().expect("a producer");
    let headers = headers
        .iter()
        .fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: Some(*value) }));
    let record = BaseRecord::<str, str>::to("dead").partition(0).payload("geheim").headers(headers);
    producer.send(record).map_err(|(error, _)| error).expect("send the record");
    producer.flush(PATIENCE).expect("the broker takes it");
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_come_back_from_the_topic_that_they_were_forwarded_to() {
    let server = RedisServer::start().await;
    let kafka = start(KafkaOptions::default());
    blocking(|| kafka.create_topic("dead", 2, &[])).expect("create the topic");
    let bootstrap = kafka.bootstrap();
    // Before the letters: a record that is none, and one of another queue.
    let dead = ("delaybridge-dead-reason", "max_attempts");
    blocking(|| produce(&bootstrap, &[("delaybridge-id", "what?"), ("delaybridge-queue", "q"), dead]));
    blocking(|| produce(&bootstrap, &[("delaybridge-id", "what?"), ("delaybridge-queue", "other"), dead]));
    let yaml = format!(
        "redis: {{ url: \"{}\" }}\nsinks: {{ events: {{ kafka: {{ brokers: ['{bootstrap}'] }} }} }}\nqueues:\n  \
         q: {{ source: {{ redisson: {{ name: q }} }}, codec: json, on_decode_error: dead_letter, to: [{{ sink: events, topic: dead }}], \
         dead_letter: {{ sink: events, topic: dead, key: '${{id}}' }} }}\n",
        server.url()
    );
    let mut daemon = Daemon::start(&yaml).await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let offered: Vec<Element> = (0..150).map(|n| Element::new(queue.layout, now, format!("no JSON {n}"))).collect();
    queue.offer_bulk(&mut redis, &offered).await;
    eventually("all of them in the topic", Duration::from_secs(60), async || {
        let count = harness::kafka::count_topic(&bootstrap, "dead").await?;
        if count == 152 { Ok(()) } else { Err(format!("{count}")) }
    })
    .await;
    daemon.expect_log("dead letter stored");
    assert_eq!(daemon.stop().await, 0);

    let run = |arguments: &[&str]| {
        let output = cli(daemon.config(), &[&["dead", "import", "q", "--from-kafka", "dead"], arguments].concat());
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code(), text)
    };
    // A dry run names the broken record, and commits nothing. An import ends at it, however often it is run.
    let problem = "its header delaybridge-id is no id of an element";
    for _ in 0..2 {
        let (code, said) = run(&["--dry-run"]);
        let would =
            "150 dead letters could be imported to q; nothing was changed; 1 record of others passed over; 1 broken\n";
        assert!(said.starts_with(&format!("{would}  dead[0]@0: {problem}\n")) && code == Some(1), "{code:?} {said}");
    }
    for _ in 0..2 {
        let (code, said) = run(&[]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(&format!("record dead[0]@0: {problem}; with --broken FILE")), "{said}");
    }
    // Past it, with its bytes saved.
    let broken = daemon.file().with_file_name("broken.jsonl");
    let aside = ["--broken", broken.to_str().expect("a path")];
    let imported = format!(
        "150 dead letters imported to q; 1 record of others passed over; 1 broken, written to {}\n  dead[0]@0: {problem}\n",
        broken.display()
    );
    assert_eq!(run(&aside), (Some(0), imported));
    let line: serde_json::Value = serde_json::from_slice(&std::fs::read(&broken).expect("the file")).expect("one line");
    assert_eq!((&line["record"], &line["body_base64"]), (&"dead[0]@0".into(), &"Z2VoZWlt".into()));
    assert_eq!(line["headers"][0], serde_json::json!({ "name": "delaybridge-id", "value_base64": "d2hhdD8=" }));
    assert_eq!(run(&[]), (Some(0), "0 dead letters imported to q\n".to_owned()), "the offsets are kept");
    let (code, again) = run(&[&["--group", "another"], &aside[..]].concat());
    let known = "0 dead letters imported to q; 150 letters there already; 1 record of others passed over; 1 broken";
    assert!(again.starts_with(known) && code == Some(0), "they are recognised: {again}");

    // The letters are unchanged: the same ids, and a redrive delivers them.
    let counted = cli(daemon.config(), &["dead", "count", "q", "--reason", "undecodable", "--output", "json"]);
    let counted: serde_json::Value = serde_json::from_slice(&counted.stdout).expect("JSON");
    assert_eq!(counted["matched"], 150, "{counted}");
    let shown = cli(daemon.config(), &["dead", "ls", "q", "--limit", "1000", "--output", "json"]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    let mut ids: Vec<String> = shown["dead_letters"]
        .as_array()
        .expect("letters")
        .iter()
        .map(|letter| letter["id"].as_str().expect("an id").to_owned())
        .collect();
    let mut expected: Vec<String> = offered.iter().map(|element| hex::encode(element.id)).collect();
    ids.sort();
    expected.sort();
    assert_eq!(ids, expected);
}
