//! A sink on another server that disappears, or stops answering.

use std::time::Duration;

use redis::AsyncCommands;

use super::rig::{
    Feed, all_in_stream, assert_complete, lateness, metric, pass, readyz, settled, summary, tolerate_stalls,
};
use harness::ports::free_port;
use harness::sqs::credentials;
use harness::{Daemon, RedisServer, RedissonQueue, ServerOptions, eventually};

fn config(server: &RedisServer, sink: &RedisServer, max_attempts: u32) -> String {
    format!(
        "redis: {{ url: '{}', command_timeout: 1s }}\n\
         retry: {{ strict: {{ max_attempts: {max_attempts}, initial_interval: 10ms, max_interval: 100ms }} }}\n\
         sinks: {{ out: {{ redis: {{ url: '{}', stream: arrived, timeout: 2s }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: sinking }} }}, lease: 10s, retry: strict, to: [{{ sink: out }}] }} }}\n",
        server.url(),
        sink.url()
    )
}

async fn judge(what: &str, daemon: &Daemon, server: &RedisServer, sink: &RedisServer, feed: &Feed) {
    let mut redis = server.client().await;
    let mut arrived = sink.client().await;
    let deliveries = all_in_stream(&mut arrived, "arrived", &feed.oracle).await;
    settled(&mut redis, &feed.queue).await;
    let report = feed.oracle.judge(&deliveries);
    let announced = assert_complete(&report, &[daemon]).await;
    let most = deliveries.iter().filter_map(|delivery| delivery.attempt).max();
    println!("{what}: {report}, {announced} announced, attempt {most:?} at most; {}", summary(&lateness(&deliveries)));
    assert_eq!(daemon.metric("delaybridge_leases_expired_total").await, 0.0);
    readyz(daemon, 200, "").await;
    assert_eq!(daemon.metric("delaybridge_sink_up").await, 1.0);
}

#[tokio::test]
async fn an_outage_of_the_sink_makes_no_dead_letters() {
    let server = RedisServer::start().await;
    let mut sink = RedisServer::start_with(ServerOptions::default().append_only()).await;
    let mut daemon = Daemon::start(&config(&server, &sink, 3)).await;
    tolerate_stalls(&mut daemon);
    let mut feed = Feed::new(&server, RedissonQueue::new("sinking")).await;
    for outage in 1..=2 {
        for _ in 0..10 {
            feed.tick(20, 5).await;
        }
        sink.stop().await;
        for _ in 0..60 {
            feed.tick(20, 5).await;
        }
        metric(&daemon, "delaybridge_sink_up", |up| up == 0.0).await;
        let body = readyz(&daemon, 503, "\"down\"").await;
        println!("outage {outage}: {body}");
        sink.boot().await.expect("boot the sink again");
        metric(&daemon, "delaybridge_sink_up", |up| up == 1.0).await;
    }
    judge("sink stopped twice for 6 s", &daemon, &server, &sink, &feed).await;
}

/// The state and the reason in `/readyz` of a sink that is not up.
async fn trouble(daemon: &Daemon, sink: &str) -> Option<(String, String)> {
    let body = daemon.get("/readyz").await.ok()?.body;
    let body: serde_json::Value = serde_json::from_str(&body).expect("readyz is JSON");
    let entry = body["sinks"]["reasons"][sink].as_object()?;
    Some((entry["state"].as_str()?.to_owned(), entry["reason"].as_str()?.to_owned()))
}

#[tokio::test]
async fn sinks_at_wrong_addresses_are_down_before_anything_is_due() {
    let server = RedisServer::start().await;
    let mut late = RedisServer::start().await;
    late.stop().await;
    let [kafka, amqp, amqp1, http, nats, sqs, rocketmq] = [(); 7].map(|()| free_port());
    let credentials = credentials();
    let mut daemon = Daemon::spawn(&format!(
        "redis: {{ url: '{}' }}\n\
         sinks:\n  k: {{ kafka: {{ brokers: ['127.0.0.1:{kafka}'], topic: t, timeout: 10s }} }}\n  \
         a: {{ amqp: {{ url: 'amqp://127.0.0.1:{amqp}', exchange: x, routing_key: r }} }}\n  \
         r: {{ redis: {{ url: '{}', stream: s }} }}\n  \
         h: {{ http: {{ url: 'http://127.0.0.1:{http}/hook' }} }}\n  n: {{ nats: {{ servers: ['127.0.0.1:{nats}'], subject: s }} }}\n  \
         s: {{ sqs: {{ queue_url: 'http://127.0.0.1:{sqs}/1/q', region: eu-west-1, credentials_file: '{}' }} }}\n  \
         b: {{ amqp1: {{ url: 'amqp://127.0.0.1:{amqp1}', address: s }} }}\n  \
         m: {{ rocketmq: {{ name_servers: ['127.0.0.1:{rocketmq}'], topic: t }} }}\n  \
         o: {{ stdout: }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: empty }} }}, \
         to: [{{ sink: k }}, {{ sink: a }}, {{ sink: r }}, {{ sink: h }}, {{ sink: n }}, {{ sink: s }}, {{ sink: b }}, {{ sink: m }}, {{ sink: o }}] }} }}\n",
        server.url(),
        late.url(),
        credentials.path().display(),
    ));
    daemon.expect_log("sink down: it does not answer to a probe");
    for sink in ["k", "a", "r", "h", "n", "s", "b", "m"] {
        let reason = eventually(&format!("sink {sink} to be down"), Duration::from_secs(30), async || {
            match trouble(&daemon, sink).await {
                Some((state, reason)) if state == "down" => Ok(reason),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        println!("{sink}: {reason}");
        assert!(reason.to_lowercase().contains("refused"), "{sink}: {reason}");
        let series = format!("delaybridge_sink_up{{sink=\"{sink}\"}}");
        let metrics = daemon.metrics().await;
        assert!(metrics.has(&series) && metrics.sum(&series) == 0.0, "{series}");
    }
    // A sink without a probe is up.
    metric(&daemon, "delaybridge_sink_up{sink=\"o\"}", |up| up == 1.0).await;
    eventually("the daemon to have started", Duration::from_secs(30), async || {
        match daemon.get("/startupz").await.map(|answer| answer.status) {
            Ok(200) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    late.boot().await.expect("boot the server of the sink");
    metric(&daemon, "delaybridge_sink_up{sink=\"r\"}", |up| up == 1.0).await;
    readyz(&daemon, 503, "\"not_up\": 7").await;
}

#[tokio::test]
async fn a_sink_that_answers_too_late_doubles_only_what_was_announced() {
    let server = RedisServer::start().await;
    let sink = RedisServer::start().await;
    let mut daemon = Daemon::start(&config(&server, &sink, 10)).await;
    tolerate_stalls(&mut daemon);
    let mut feed = Feed::new(&server, RedissonQueue::new("sinking")).await;
    let mut admin = sink.client().await;
    let mut paused_at = 0;
    for _ in 0..3 {
        for _ in 0..10 {
            feed.tick(20, 5).await;
        }
        // Longer than the time-out. Meanwhile commands are in the server's buffers, and run afterwards.
        let () = redis::cmd("CLIENT").arg("PAUSE").arg(3_500).arg("WRITE").query_async(&mut admin).await.unwrap();
        for _ in 0..35 {
            feed.tick(20, 5).await;
        }
        metric(&daemon, "delaybridge_sink_up", |up| up == 1.0).await;
        paused_at = admin.xlen("arrived").await.unwrap();
    }
    println!("{paused_at} arrived after the last pause");
    let timeouts = daemon.metric("delaybridge_sink_errors_total{class=\"ambiguous\"}").await;
    assert!(timeouts > 0.0, "no delivery timed out: the test shows nothing");
    // Commands in the server's buffers have run by now, or are under way: late ones would be duplicates.
    pass(Duration::from_secs(1)).await;
    judge("sink paused three times", &daemon, &server, &sink, &feed).await;
}
