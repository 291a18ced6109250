//! The audit trail, over a real Redis and with killed daemons.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{emptied, on, overdue};
use harness::oracle::{read_list, read_stream};
use harness::redisson::redis_now_ms;
use harness::{Daemon, RedisServer, RedissonQueue, eventually};

const CONFIG: &str = "sinks:
  out: { redis: { list: out } }
  trail: { redis: { stream: trail } }
queues:
  q:
    source: { redisson: { name: q } }
    codec: json
    lease: 4s
    to: [{ sink: out, when: 'payload.n >= 20' }]
    audit: { sink: trail }
";

#[tokio::test]
async fn every_element_has_a_record_of_its_fate_also_if_daemons_are_killed() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let elements = overdue(now, (0..2_000).map(|n| json!({ "n": n, "secret": "geheim" }).to_string()));
    queue.offer_bulk(&mut redis, &elements).await;
    // Shorter than the lease.
    let config = on(&server, CONFIG).replace("command_timeout: 14s", "command_timeout: 1s");
    let config = config.replace("redis: { list: out", "redis: { timeout: 2s, list: out");
    let config = config.replace("redis: { stream: trail", "redis: { timeout: 2s, stream: trail");
    for records in [1, 500] {
        let mut daemon = Daemon::start(&config).await;
        daemon.expect_log("dead letter stored").expect_log("leases expired");
        eventually("some records", super::PATIENCE, async || {
            match read_stream(&mut redis.clone(), "trail").await.len() {
                found if found >= records => Ok(()),
                found => Err(format!("{found} records")),
            }
        })
        .await;
        daemon.kill();
    }
    let mut daemon = Daemon::start(&config).await;
    daemon.expect_log("dead letter stored").expect_log("leases expired");
    emptied(&mut redis, &queue).await;

    let mut fates: BTreeMap<String, String> = BTreeMap::new();
    for record in read_stream(&mut redis, "trail").await {
        let text = String::from_utf8(record.payload).expect("text");
        assert!(!text.contains("geheim"), "{text}");
        let body: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&body["version"], &body["queue"]), (&1.into(), &"q".into()));
        assert_eq!(body["id"].as_str(), record.id.as_deref());
        fates.insert(body["id"].as_str().expect("an id").to_owned(), body["fate"].as_str().expect("a fate").to_owned());
    }
    for (n, element) in elements.iter().enumerate() {
        let expected = if n < 20 { "skipped" } else { "delivered" };
        assert_eq!(fates.get(&element.id_text()).map(String::as_str), Some(expected), "element {n}");
    }
    assert!(read_list(&mut redis, "out").await.len() >= 1_980);
}
