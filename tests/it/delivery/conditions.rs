//! Destinations that are meant for some elements only.

use serde_json::json;

use super::{PATIENCE, dead_letters, emptied, list_of, on, overdue};
use harness::oracle::read_list;
use harness::redisson::redis_now_ms;
use harness::{Daemon, RedisServer, RedissonQueue, eventually};

#[tokio::test]
async fn each_sink_gets_the_elements_that_it_is_meant_for_and_the_rest_is_skipped() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let kept = RedissonQueue::new("kept");
    let gone = RedissonQueue::new("gone");
    let now = redis_now_ms(&mut redis).await;
    for queue in [&kept, &gone] {
        let payloads = (0..100).map(|n| json!({ "n": n, "region": if n % 2 == 0 { "eu" } else { "us" } }).to_string());
        queue.offer_bulk(&mut redis, &overdue(now, payloads)).await;
    }
    let to = |name: &str| {
        format!(
            "to:
      - {{ sink: large, list: \"{name}:large\", when: \"payload.n >= 50\" }}
      - {{ sink: europe, list: \"{name}:eu\", when: \"payload.region == 'eu' and not payload.n < 20\" }}"
        )
    };
    let mut daemon = Daemon::start(&on(
        &server,
        &format!(
            "sinks:
  large: {{ redis: {{}} }}
  europe: {{ redis: {{}} }}
queues:
  kept:
    source: {{ redisson: {{ name: kept }} }}
    codec: json
    {}
  gone:
    source: {{ redisson: {{ name: gone }} }}
    codec: json
    on_skipped: drop
    {}
",
            to("kept"),
            to("gone")
        ),
    ))
    .await;
    daemon.expect_log("dead letter stored");
    for (queue, name) in [(&kept, "kept"), (&gone, "gone")] {
        list_of(&mut redis, &format!("{name}:large"), 50).await;
        list_of(&mut redis, &format!("{name}:eu"), 40).await;
        emptied(&mut redis, queue).await;
        let listed = read_list(&mut redis, &format!("{name}:eu")).await;
        assert!(listed.iter().all(|delivery| String::from_utf8_lossy(&delivery.payload).contains("eu")), "{name}");
        // Below 20, and the odd ones below 50.
        for (metric, expected) in [("skipped", 35.0), ("delivered", 65.0)] {
            let series = format!("delaybridge_{metric}_messages_total{{queue=\"{name}\"}}");
            eventually(&series, PATIENCE, async || match daemon.metric(&series).await {
                count if count == expected => Ok(()),
                count => Err(format!("{count}")),
            })
            .await;
        }
    }
    let dead = dead_letters(&mut redis, &kept).await;
    assert_eq!(dead.len(), 35);
    assert!(dead.iter().all(|letter| letter["reason"] == b"skipped"), "{dead:?}");
    assert_eq!(dead_letters(&mut redis, &gone).await.len(), 0);
}
