//! Several sinks, templates, headers, envelopes, and destinations for one message only.

use redis::AsyncCommands;

use harness::oracle::{read_list, read_stdout, read_stream};
use harness::redisson::redis_now_ms;
use harness::{Daemon, Layout, Oracle, RedisServer, RedissonQueue, eventually};

use super::{PATIENCE, dead_letters, emptied, list_of, on, overdue, stream_of};

#[tokio::test]
async fn every_sink_of_a_queue_gets_every_element_where_its_templates_say() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("orders");
    let now = redis_now_ms(&mut redis).await;
    let payloads = (0..120).map(|n| match n % 3 {
        0 => format!(r#"{{"n":{n},"tenant":"a","big":12345678901234567890123}}"#),
        1 => format!(r#"{{"tenant" : 7, "n":{n}}}"#),
        _ => format!(r#"{{"n":{n}}}"#),
    });
    let elements = overdue(now, payloads);
    queue.offer_bulk(&mut redis, &elements).await;
    let mut oracle = Oracle::new();
    oracle.offered(&elements);

    let daemon = Daemon::start(&on(
        &server,
        r#"
sinks:
  lists: { redis: {} }
  audit: { redis: { stream: audit } }
  lines: { stdout: {} }
queues:
  shop:
    source: { redisson: { name: orders } }
    codec: json
    to:
      - { sink: lists, list: "orders:${payload.tenant:-none}" }
      - sink: audit
        envelope: json
        headers: { tenant: "${payload.tenant:-none}", who: "${queue}/${id}", at: "${due_ms}" }
      - { sink: lines, envelope: decoded, headers: { n: "${payload.n}" } }
"#,
    ))
    .await;
    for key in ["orders:a", "orders:7", "orders:none"] {
        list_of(&mut redis, key, 40).await;
    }
    stream_of(&mut redis, "audit", 120).await;
    eventually("120 lines on standard output", PATIENCE, async || match daemon.stdout().count() {
        120 => Ok(()),
        lines => Err(format!("{lines} lines")),
    })
    .await;
    emptied(&mut redis, &queue).await;

    let mut listed = Vec::new();
    for (key, sign) in [("orders:a", "\"a\""), ("orders:7", ": 7"), ("orders:none", "{\"n\"")] {
        let list = read_list(&mut redis, key).await;
        assert!(list.iter().all(|d| String::from_utf8_lossy(&d.payload).contains(sign)), "{key}");
        listed.extend(list);
    }
    oracle.judge_payloads(&listed).assert_complete(0);

    for delivery in read_stream(&mut redis, "audit").await {
        let id = delivery.id.clone().unwrap();
        let element = elements.iter().find(|element| element.id_text() == id).unwrap();
        let payload = String::from_utf8(element.payload.clone()).unwrap();
        let due = element.due_ms;
        let envelope = format!(r#"{{"id":"{id}","queue":"shop","due_ms":{due},"attempt":1,"payload":{payload}}}"#);
        assert_eq!(String::from_utf8(delivery.payload).unwrap(), envelope);
        let tenant = if payload.contains("\"a\"") {
            "a"
        } else if payload.contains(": 7") {
            "7"
        } else {
            "none"
        };
        let header = |name: &str| String::from_utf8_lossy(&delivery.headers[name]).into_owned();
        assert_eq!(
            [header("tenant"), header("who"), header("at")],
            [tenant.into(), format!("shop/{id}"), due.to_string()]
        );
    }

    let lines = read_stdout(daemon.stdout());
    assert_eq!(lines.len(), 120);
    for (line, text) in lines.iter().zip(daemon.stdout().all()) {
        let element = elements.iter().find(|element| Some(element.id_text()) == line.id).unwrap();
        assert!(text.contains(std::str::from_utf8(&element.payload).unwrap()), "{text}: to the letter");
        let json: serde_json::Value = serde_json::from_slice(&element.payload).unwrap();
        assert!(text.contains(&format!(r#""headers":{{"n":"{}"}}"#, json["n"])), "{text}");
        assert_eq!(line.due_ms, Some(element.due_ms));
    }
}

#[tokio::test]
async fn a_list_is_filled_from_the_end_that_is_asked_for_and_a_stream_is_trimmed() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let now = redis_now_ms(&mut redis).await;
    let elements = overdue(now, (0..1_000).map(|n| format!("{n:04}")));
    for name in ["left", "right", "long"] {
        RedissonQueue::new(name).offer_bulk(&mut redis, &elements).await;
    }
    let _daemon = Daemon::start(&on(
        &server,
        "
sinks: { same: { redis: {} } }
queues:
  l: { source: { redisson: { name: left } }, max_in_flight: 1, to: [{ sink: same, list: out-left, push: left }] }
  r: { source: { redisson: { name: right } }, max_in_flight: 1, to: [{ sink: same, list: out-right }] }
  s: { source: { redisson: { name: long } }, to: [{ sink: same, stream: out-stream, max_len: 100 }] }
",
    ))
    .await;
    for name in ["left", "right", "long"] {
        emptied(&mut redis, &RedissonQueue::new(name)).await;
    }
    // One in flight at a time: the order of the claims is that of the list.
    let right: Vec<String> = redis.lrange("out-right", 0, -1).await.unwrap();
    let mut left: Vec<String> = redis.lrange("out-left", 0, -1).await.unwrap();
    let expected: Vec<String> = (0..1_000).map(|n| format!("{n:04}")).collect();
    assert_eq!(right, expected);
    left.reverse();
    assert_eq!(left, expected);
    let kept: usize = redis.xlen("out-stream").await.unwrap();
    // Redis trims whole nodes of 100 entries.
    assert!((100..300).contains(&kept), "{kept} entries of at least 100 are kept");
    println!("{kept} of 1,000 entries are kept with max_len 100");
}

#[tokio::test]
async fn a_wrong_destination_out_of_the_payload_ends_that_message_and_not_the_queue() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("own");
    let now = redis_now_ms(&mut redis).await;
    let _: () = redis.set("to:text", "not a list").await.unwrap();
    let targets = ["a", "text", "b"];
    let elements = overdue(now, (0..90).map(|n| format!(r#"{{"to":"{}","n":{n}}}"#, targets[n % 3])));
    queue.offer_bulk(&mut redis, &elements).await;
    let no_target = overdue(now, [r#"{"n":"nowhere"}"#]);
    queue.offer_bulk(&mut redis, &no_target).await;

    let mut daemon = Daemon::start(&on(
        &server,
        r#"
sinks: { same: { redis: {} }, lines: { stdout: {} } }
queues:
  q:
    source: { redisson: { name: own } }
    codec: json
    unroutable_after: 0s
    to: [{ sink: lines }, { sink: same, list: "to:${payload.to}" }]
"#,
    ))
    .await;
    daemon.expect_log("dead letter stored").expect_log("destination in trouble");
    for key in ["to:a", "to:b"] {
        list_of(&mut redis, key, 30).await;
    }
    emptied(&mut redis, &queue).await;
    let letters = dead_letters(&mut redis, &queue).await;
    assert_eq!(letters.len(), 31);
    let mut unroutable = 0;
    for letter in &letters {
        let text = |name: &str| String::from_utf8_lossy(&letter[name]).into_owned();
        let (id, payload) = Layout::New.unpack(&letter["element"]).unwrap();
        assert_eq!(text("id"), hex::encode(id));
        if payload == no_target[0].payload {
            assert_eq!([text("reason"), text("sink")], ["unroutable", "same"]);
            unroutable += 1;
            continue;
        }
        let words = [text("class"), text("code"), text("sink"), text("attempts"), text("confirmed"), text("codec")];
        assert_eq!(words, ["target_permanent", "WRONGTYPE", "same", "1", "lines", "json"]);
        assert!(text("destination").contains("to:text"), "{}", text("destination"));
        assert!(text("message").contains("WRONGTYPE") && !text("message").contains("\"n\""), "{}", text("message"));
        assert_eq!(text("first_attempt_ms"), text("last_attempt_ms"));
        assert!(text("first_attempt_ms").parse::<i64>().unwrap() >= now);
        let seen: serde_json::Value = serde_json::from_slice(&letter["attempts_seen"]).unwrap();
        assert_eq!((&seen[0]["sink"], &seen[0]["code"]), (&"same".into(), &"WRONGTYPE".into()));
    }
    assert_eq!(unroutable, 1);
    daemon.wait_ready().await;
}
