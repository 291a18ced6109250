//! Elements in Java's codecs, delivered as values.

use std::time::Duration;

use redis::AsyncCommands;
use serde_json::{Value, json};

use super::{dead_letters, emptied, on, stream_of, unready};
use harness::daemon::{ConfigFile, cli};
use harness::redisson::redis_now_ms;
use harness::{Daemon, RedisServer, RedissonQueue, eventually, vectors};

/// The payload that a version of Redisson wrote for this kind of value.
fn recorded(codec: &str, kind: &str) -> Vec<u8> {
    let vector = vectors().into_iter().rev().find(|vector| vector.codec == codec && vector.value_kind == kind);
    vector.unwrap_or_else(|| panic!("no {kind} of {codec}")).parts().1
}

/// A queue whose key, envelope and header are filled from the decoded value.
fn queue(id: &str, codec: &str, envelope: &str) -> String {
    format!(
        "  {id}:
    source: {{ redisson: {{ name: \"app:{id}\" }} }}
    {codec}
    to:
      - sink: same
        stream: \"out:${{payload.k:-none}}\"
        headers: {{ n: \"${{payload.n:-none}}\" }}
        envelope: {envelope}
"
    )
}

#[tokio::test]
async fn values_of_javas_codecs_fill_templates_and_envelopes() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queues = [
        ("kryo", "codec: kryo5", "decoded", "default(Kryo5Codec)", json!({"k": "v", "n": 5, "l": 7, "t": true})),
        (
            "jackson",
            "codec: jackson",
            "json",
            "JsonJacksonCodec",
            json!({"@class": "java.util.LinkedHashMap", "k": "v", "n": 5, "l": ["java.lang.Long", 7], "t": true}),
        ),
        (
            "stripped",
            "codec: jackson\n    java_types: strip",
            "decoded",
            "JsonJacksonCodec",
            json!({"k": "v", "n": 5, "l": 7, "t": true}),
        ),
        ("packed", "codec: zstd+kryo5", "json", "ZStdCodec", json!({"k": "v", "n": 5, "l": 7, "t": true})),
        ("guessed", "codec: auto", "decoded", "MarshallingCodec", json!({"k": "v", "n": 5, "l": 7, "t": true})),
    ];
    let yaml: String = queues.iter().map(|(id, codec, envelope, ..)| queue(id, codec, envelope)).collect();
    let now = redis_now_ms(&mut redis).await;
    for (id, _, _, class, _) in &queues {
        RedissonQueue::new(&format!("app:{id}")).offer(&mut redis, now, recorded(class, "map")).await;
    }
    let _daemon = Daemon::start(&on(&server, &format!("sinks:\n  same: {{ redis: {{}} }}\nqueues:\n{yaml}"))).await;
    stream_of(&mut redis, "out:v", queues.len()).await;

    let entries: redis::streams::StreamRangeReply = redis.xrange_all("out:v").await.unwrap();
    for (id, _, envelope, _, expected) in &queues {
        let entry = entries.ids.iter().find(|entry| entry.get::<String>("queue").as_deref() == Some(*id)).unwrap();
        let body: Value = serde_json::from_str(&entry.get::<String>("payload").unwrap()).unwrap();
        let value = if *envelope == "json" { &body["payload"] } else { &body };
        assert_eq!(value, expected, "{id}: {body}");
        assert_eq!(entry.get::<String>("n").as_deref(), Some("5"));
        emptied(&mut redis, &RedissonQueue::new(&format!("app:{id}"))).await;
    }
}

#[tokio::test]
async fn an_object_that_only_java_can_read_is_forwarded_as_bytes_and_the_log_says_why() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let order = recorded("default(Kryo5Codec)", "pojo");
    let now = redis_now_ms(&mut redis).await;
    let plain = RedissonQueue::new("app:plain");
    let asked = RedissonQueue::new("app:asked");
    for queue in [&plain, &asked] {
        queue.offer(&mut redis, now, order.clone()).await;
    }
    let mut daemon = Daemon::start(&on(
        &server,
        r#"
sinks:
  same: { redis: {} }
queues:
  plain:
    source: { redisson: { name: "app:plain" } }
    codec: kryo5
    on_opaque: forward_raw
    to: [{ sink: same, stream: out-plain, envelope: decoded }]
  asked:
    source: { redisson: { name: "app:asked" } }
    codec: kryo5
    to: [{ sink: same, stream: out-asked, headers: { n: "${payload.id}" } }]
"#,
    ))
    .await;
    daemon.expect_log("dead letter stored");
    stream_of(&mut redis, "out-plain", 1).await;
    stream_of(&mut redis, &asked.bridge_key("dead"), 1).await;

    let entries: redis::streams::StreamRangeReply = redis.xrange_all("out-plain").await.unwrap();
    assert_eq!(entries.ids[0].get::<Vec<u8>>("payload"), Some(order.clone()));
    let lines = daemon.log().all();
    let why = "an object of the class com.example.Order";
    assert!(lines.iter().any(|line| line.contains("forwarded as bytes") && line.contains(why)), "{lines:#?}");
    // A template that needs the content makes the element undeliverable.
    let letter = dead_letters(&mut redis, &asked).await.remove(0);
    assert_eq!(letter["code"], b"template_field_missing");
    assert!(letter["element"].ends_with(&order));
    emptied(&mut redis, &plain).await;
}

/// `offer(objectMapper.writeValueAsString(x))` with the default codec.
#[tokio::test]
async fn json_in_a_text_is_looked_into_where_the_queue_says_so() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let now = redis_now_ms(&mut redis).await;
    let queue = RedissonQueue::new("q");
    let text = |id: u32| format!("{{\"id\":{id},\"k\":\"v\"}}");
    // The text in Kryo: ASCII of at most 32 characters ends with the highest bit of the last one set.
    let kryo = |id: u32| [&[3], text(id).trim_end_matches('}').as_bytes(), &[b'}' | 0x80]].concat();
    for id in 1..=4 {
        queue.offer(&mut redis, now + i64::from(id), kryo(id)).await;
    }
    let yaml = |looks: &str| {
        let queue = format!(
            "source: {{ redisson: {{ name: q }} }}, codec: kryo5{looks}, order: key, order_key: '${{payload.k}}', on_skipped: drop, \
             to: [{{ sink: out, stream: 'out-${{payload.k}}', when: 'payload.id > 1', headers: {{ n: '${{payload.id}}' }}, \
             envelope: json }}]"
        );
        on(&server, &format!("\nsinks: {{ out: {{ redis: {{}} }} }}\nqueues: {{ q: {{ {queue} }} }}\n"))
    };
    let blind = ConfigFile::new(&yaml(""));
    let looking = ConfigFile::new(&yaml(", json_in_text: true"));
    let checked = cli(&blind, &["check", "--live"]);
    let said = String::from_utf8_lossy(&checked.stdout);
    let hint = "3 of 3 scheduled elements are texts that are JSON, whose fields the queue asks for: write `json_in_text: true`";
    assert!(!checked.status.success() && said.contains(hint), "{said}");
    let checked = cli(&looking, &["check", "--live"]);
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success() && !said.contains("json_in_text"), "{said}");
    for (config, found) in [(&blind, false), (&looking, true)] {
        let hits = cli(config, &["find", "q", "--field", "id=3", "--output", "json"]);
        let hits: Value = serde_json::from_slice(&hits.stdout).unwrap();
        assert_eq!(hits["elements"].as_array().unwrap().len(), usize::from(found), "{hits}");
    }

    let _daemon = Daemon::start(&yaml(", json_in_text: true")).await;
    stream_of(&mut redis, "out-v", 3).await;
    let entries: redis::streams::StreamRangeReply = redis.xrange_all("out-v").await.unwrap();
    for (entry, id) in entries.ids.iter().zip(2..) {
        let body: Value = serde_json::from_str(&entry.get::<String>("payload").unwrap()).unwrap();
        assert_eq!((&body["payload"], entry.get::<u32>("n")), (&json!({"id": id, "k": "v"}), Some(id)));
    }
    emptied(&mut redis, &queue).await;
}

/// Kryo 5 in a queue of JSON.
#[tokio::test]
async fn a_wrong_codec_is_found_by_check_and_holds_the_queue() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let now = redis_now_ms(&mut redis).await;
    let queue = RedissonQueue::new("q");
    for _ in 0..10 {
        queue.offer(&mut redis, now, b"\x03ab\xe3").await;
    }
    let yaml = |codec: &str| {
        let queue =
            format!("source: {{ redisson: {{ name: q }} }}, codec: {codec}, to: [{{ sink: out, stream: out }}]");
        on(&server, &format!("\nsinks: {{ out: {{ redis: {{}} }} }}\nqueues: {{ q: {{ {queue} }} }}\n"))
    };
    let checked = cli(&ConfigFile::new(&yaml("json")), &["check", "--live"]);
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(!checked.status.success() && said.contains("3 of 3 scheduled elements are kryo5, not json"), "{said}");
    let mut daemon = Daemon::spawn(&yaml("json"));
    // Those that wait are looked at as well.
    daemon.expect_log("dead letter stored").expect_log("queue on hold").expect_log("scheduled elements are kryo5");
    unready(&daemon, "it looks like kryo5, and `codec` is json: `delaybridge discover` shows").await;
    assert_eq!(daemon.stop().await, 0);
    let letters = dead_letters(&mut redis, &queue).await;
    assert_eq!(letters.len(), 2);
    for letter in letters {
        let error = String::from_utf8_lossy(&letter["message"]).into_owned();
        assert!(
            error.ends_with("it looks like kryo5: `delaybridge discover` shows the codec of what is scheduled"),
            "{error}"
        );
    }
    assert!(!redis.exists::<_, bool>("out").await.unwrap(), "no consumer of JSON gets Kryo");

    let _daemon = Daemon::start(&yaml("kryo5")).await;
    stream_of(&mut redis, "out", 8).await;
}

/// The elements are due in an hour: nothing has refused one yet.
#[tokio::test]
async fn a_codec_that_does_not_fit_is_told_at_the_start_and_after_a_reload() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let later = redis_now_ms(&mut redis).await + 3_600_000;
    let queue = RedissonQueue::new("q");
    for at in 0..4 {
        queue.offer(&mut redis, later + at, b"\x03ab\xe3").await;
    }
    let yaml = |codec: &str| {
        let of =
            |source: &str, codec: &str| format!("source: {{ {source} }}{codec}, to: [{{ sink: out, stream: out }}]");
        let told = of("redisson: { name: q }", codec);
        let plain = of("redisson: { name: q2 }", "");
        on(
            &server,
            &format!("\nsinks: {{ out: {{ redis: {{}} }} }}\nqueues: {{ told: {{ {told} }}, plain: {{ {plain} }} }}\n"),
        )
    };
    let mut daemon = Daemon::spawn(&yaml(", codec: json"));
    daemon.expect_log("scheduled elements are");
    let said = told(&daemon, 1).await.remove(0);
    assert!(said.contains("3 of 3 scheduled elements are kryo5, not json: write `codec: kryo5`"), "{said}");
    assert!(said.contains("told") && said.contains("WARN"), "{said}");

    daemon.rewrite(|text| text.replace(", codec: json", ", codec: kryo5"));
    assert!(daemon.reload().await);
    daemon.rewrite(|text| text.replace(", codec: kryo5", ", codec: number"));
    assert!(daemon.reload().await);
    let lines = told(&daemon, 2).await;
    assert!(lines[1].contains("3 of 3 scheduled elements are kryo5, not number"), "{lines:#?}");
    assert_eq!(daemon.stop().await, 0);
    assert_eq!(redis.zcard::<_, u64>(&queue.timeouts).await.unwrap(), 4, "none was taken");
}

/// The lines about scheduled elements, when there are so many.
async fn told(daemon: &Daemon, count: usize) -> Vec<String> {
    eventually("the lines about scheduled elements", Duration::from_secs(20), async || {
        let mut lines = daemon.log().all();
        lines.retain(|line| line.contains("scheduled elements are"));
        if lines.len() == count { Ok(lines) } else { Err(format!("{lines:?}")) }
    })
    .await
}
