//! The way back from a dead-letter topic.

use super::*;
use crate::harness::daemon::cli;
use crate::harness::redisson::{Element, redis_now_ms};

#[tokio::test(flavor = "multi_thread")]
async fn letters_come_back_from_the_topic_that_they_were_forwarded_to() {
    let server = RedisServer::start().await;
    let kafka = start(KafkaOptions::default());
    blocking(|| kafka.create_topic("dead", 2, &[])).expect("create the topic");
    let bootstrap = kafka.bootstrap();
    let yaml = format!(
        "redis: {{ url: \"{}\" }}\nsinks: {{ events: {{ kafka: {{ brokers: ['{bootstrap}'] }} }} }}\nqueues:\n  \
         q: {{ source: {{ redisson: {{ name: q }} }}, codec: json, to: [{{ sink: events, topic: dead }}], \
         dead_letter: {{ sink: events, topic: dead, key: '${{id}}' }} }}\n",
        server.url()
    );
    let mut daemon = Daemon::start(&yaml).await;
    let (mut redis, queue) = (server.client().await, RedissonQueue::new("q"));
    let now = redis_now_ms(&mut redis).await;
    let offered: Vec<Element> = (0..150).map(|n| Element::new(queue.layout, now, format!("no JSON {n}"))).collect();
    queue.offer_bulk(&mut redis, &offered).await;
    eventually("all of them in the topic", Duration::from_secs(60), async || {
        let count = crate::harness::kafka::count_topic(&bootstrap, "dead").await?;
        if count == 150 { Ok(()) } else { Err(format!("{count}")) }
    })
    .await;
    daemon.expect_log("dead letter stored");
    assert_eq!(daemon.stop().await, 0);

    let run = |arguments: &[&str]| {
        let output = cli(daemon.config(), &[&["dead", "import", "q", "--from-kafka", "dead"], arguments].concat());
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code(), text)
    };
    let would = "150 dead letters could be imported to q; nothing was changed\n".to_owned();
    assert_eq!(run(&["--dry-run"]), (Some(0), would.clone()));
    assert_eq!(run(&["--dry-run"]), (Some(0), would), "a dry run commits nothing");
    assert_eq!(run(&[]), (Some(0), "150 dead letters imported to q\n".to_owned()));
    assert_eq!(run(&[]), (Some(0), "0 dead letters imported to q\n".to_owned()), "the offsets are kept");
    let again = run(&["--group", "another"]);
    assert_eq!(again, (Some(0), "0 dead letters imported to q\n".to_owned()), "they are recognised");

    // They are what they were: the same ids, and redriven they are delivered.
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
