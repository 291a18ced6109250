//! What a real Prometheus makes of a scrape: the format that it asks for, and the first count of a counter.

use std::time::Duration;

use super::read;
use super::rules::RULES;
use harness::redisson::redis_now_ms;
use harness::{Daemon, Prometheus, RedisServer, RedissonQueue, eventually};

const PATIENCE: Duration = Duration::from_secs(60);

fn config(server: &RedisServer) -> String {
    format!(
        "redis: {{ url: \"{}\" }}\nsinks: {{ out: {{ redis: {{ stream: arrived }} }} }}\n\
         queues: {{ orders: {{ source: {{ redisson: {{ name: orders }} }}, codec: json, to: [{{ sink: out }}] }} }}\n",
        server.url()
    )
}

/// Waits until the query has a value for which `enough` holds.
async fn shows(prometheus: &Prometheus, query: &str, enough: impl Fn(f64) -> bool) {
    eventually(query, PATIENCE, async || match prometheus.query(query).await?.first() {
        Some((_, value)) if enough(*value) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

#[tokio::test]
async fn a_rate_sees_the_first_dead_letter_of_a_configured_queue() {
    let server = RedisServer::start().await;
    let mut daemon = Daemon::start(&config(&server)).await;
    daemon.expect_log("dead letter");
    let scrapes = format!(
        "global: {{ scrape_interval: 1s }}\nscrape_configs: [{{ job_name: delaybridge, static_configs: [{{ targets: [\"127.0.0.1:{}\"] }}] }}]\n",
        daemon.http_port()
    );
    let prometheus = Prometheus::start(&scrapes, "").await;
    let counter = "delaybridge_dead_lettered_messages_total{queue=\"orders\",reason=\"undecodable\"}";
    shows(&prometheus, counter, |value| value == 0.0).await;

    let queue = RedissonQueue::new("orders");
    let mut redis = server.client().await;
    let now = redis_now_ms(&mut redis).await;
    queue.offer(&mut redis, now, "{\"broken\":").await;
    queue.offer(&mut redis, now, "{\"n\":1}").await;
    shows(&prometheus, &format!("increase({counter}[5m])"), |value| value > 0.0).await;

    // The bound as OpenMetrics writes it: Prometheus has asked for that format, and took it.
    shows(&prometheus, "delaybridge_delivery_lateness_seconds_bucket{queue=\"orders\",le=\"5.0\"}", |n| n >= 0.0).await;
    shows(&prometheus, "delaybridge_delivery_lateness_seconds_count{queue=\"orders\"}", |n| n == 1.0).await;
    shows(&prometheus, "up", |up| up == 1.0).await;
}

/// Stalls are a defect, and have ten series a queue; inputs have a label of their own.
const LATER: [&str; 2] = ["delaybridge_queue_stalls_total", "delaybridge_input_messages_total"];

#[tokio::test]
async fn the_counters_of_the_alerts_begin_at_zero() {
    let server = RedisServer::start().await;
    let daemon = Daemon::start(&config(&server)).await;
    let scrape = daemon.get("/metrics").await.expect("scrape the daemon").body;
    let rules = read(RULES);
    let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let counters =
        rules.split(|c| !name(c)).filter(|word| word.starts_with("delaybridge_") && word.ends_with("_total"));
    let counters: std::collections::BTreeSet<_> = counters.filter(|word| !LATER.contains(word)).collect();
    assert!(counters.len() >= 6, "{counters:?}");
    for counter in counters {
        let zero = scrape
            .lines()
            .any(|line| line.starts_with(&format!("{counter}{{queue=\"orders\"")) && line.ends_with("} 0"));
        assert!(zero, "{counter} is not there, or is no 0");
    }
}
