//! Elements of a set arrive when they are due, in every unit, with the id from their payload.

use redis::AsyncCommands;
use serde_json::Value;

use super::{PATIENCE, now_ms};
use harness::daemon::Daemon;
use harness::{RedisServer, ServerOptions, eventually};

/// The names of units, and the score of a time in ms as a producer writes it.
type Written = fn(i64) -> String;
const UNITS: [(&str, Written); 5] = [
    ("s", |ms| format!("{}.{:03}", ms / 1_000, ms % 1_000)),
    ("ms", |ms| ms.to_string()),
    ("us", |ms| format!("{ms}000")),
    ("ns", |ms| format!("{ms}000000")),
    ("ms*4096", |ms| (ms * 4_096 + 7).to_string()),
];

#[tokio::test(flavor = "multi_thread")]
async fn an_element_that_nobody_announced_is_not_late() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = |n| {
        format!(
            "  q{n}: {{ source: {{ zset: {{ key: 'due:{n}', score: ms }} }}, to: [{{ sink: out, stream: out }}] }}\n"
        )
    };
    let queues: String = (0..10).map(queue).collect();
    let yaml = format!("redis: {{ url: {} }}\nsinks: {{ out: {{ redis: {{}} }} }}\nqueues:\n{queues}", server.url());
    let mut daemon = Daemon::start(&yaml).await;
    // A poll that found only due elements would find each of them at another time of its second.
    let first = now_ms(&mut redis).await + 2_000;
    for n in 0..10 {
        redis.zadd::<_, _, _, ()>(format!("due:{n}"), "x", first + n * 100).await.expect("the server takes it");
    }
    eventually("all elements to arrive", PATIENCE, async || match redis.clone().xlen::<_, usize>("out").await {
        Ok(10) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let late = daemon.metric("delaybridge_delivery_lateness_seconds_sum").await / 10.0;
    println!("late by {late:.3} s on average");
    assert!(late < 0.3, "late by {late:.3} s on average");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn elements_arrive_when_they_are_due_in_every_unit() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queues: String = UNITS
        .iter()
        .enumerate()
        .map(|(n, (unit, _))| {
            format!(
                "  q{n}: {{ source: {{ zset: {{ key: 'due:{n}', score: '{unit}', id: '${{payload.jid}}' }} }}, codec: json, \
                 to: [{{ sink: out, stream: 'out:{n}' }}] }}\n"
            )
        })
        .collect();
    let yaml = format!(
        "redis: {{ url: {} }}\nsinks: {{ out: {{ redis: {{ stream: unused }} }} }}\nqueues:\n{queues}",
        server.url()
    );
    let mut daemon = Daemon::start(&yaml).await;
    let now_ms = now_ms(&mut redis).await;
    for (n, (_, written)) in UNITS.iter().enumerate() {
        for (job, due_ms) in [(0, now_ms - 5_000), (1, now_ms + 700), (2, now_ms + 1_500)] {
            let member = format!("{{\"jid\":\"job-{n}-{job}\",\"n\":{job}}}");
            let command = redis::cmd("ZADD").arg(format!("due:{n}")).arg(written(due_ms)).arg(&member).to_owned();
            command.exec_async(&mut redis).await.expect("the server takes it");
        }
        // Never due, in any unit.
        redis.zadd::<_, _, _, ()>(format!("due:{n}"), "later", "inf").await.expect("the server takes it");
    }
    for (n, (unit, _)) in UNITS.iter().enumerate() {
        let found = eventually("three elements", PATIENCE, async || {
            let rows: Value = entries(&mut redis.clone(), &format!("out:{n}")).await;
            match rows.as_array() {
                Some(rows) if rows.len() == 3 => Ok(rows.clone()),
                _ => Err(rows.to_string()),
            }
        })
        .await;
        for (job, (row, due_ms)) in found.iter().zip([now_ms - 5_000, now_ms + 700, now_ms + 1_500]).enumerate() {
            let what = format!("{unit} {row}");
            assert_eq!(row["id"], format!("job-{n}-{job}"), "{what}");
            assert_eq!(row["payload"], format!("{{\"jid\":\"job-{n}-{job}\",\"n\":{job}}}"), "{what}");
            assert_eq!(row["due_ms"], due_ms.to_string(), "{what}");
            let at_ms: i64 = row["at"].as_str().and_then(|at| at.split('-').next()?.parse().ok()).expect("a time");
            assert!(at_ms >= due_ms, "early: {what}");
            assert!(job == 0 || at_ms < due_ms + 5_000, "late: {what}");
        }
        let left: Vec<String> = redis.zrange(format!("due:{n}"), 0, -1).await.expect("a sorted set");
        assert_eq!(left, ["later"]);
    }
    daemon.stop().await;
}

/// With notifications, an element that is added after its due time need not wait for the next poll.
#[tokio::test(flavor = "multi_thread")]
async fn a_notification_wakes_the_daemon() {
    let options = ServerOptions::default().line("notify-keyspace-events", "Kz");
    let server = RedisServer::start_with(options).await;
    let mut redis = server.client().await;
    let mut daemon = Daemon::start(&format!(
        "redis: {{ url: {} }}\nsinks: {{ out: {{ redis: {{ list: out }} }} }}\nqueues: {{ q: {{ source: {{ zset: {{ key: \
         'a b:{{x}}', score: s }} }}, to: [{{ sink: out }}] }} }}\n",
        server.url()
    ))
    .await;
    for n in 0..20 {
        redis.zadd::<_, _, _, ()>("a b:{x}", format!("job {n}"), n).await.expect("the server takes it");
        eventually("the element", PATIENCE, async || {
            let length: usize = redis.clone().llen("out").await.map_err(|error| error.to_string())?;
            if length == n + 1 { Ok(()) } else { Err(format!("{length} elements")) }
        })
        .await;
    }
    let woken = daemon.metric("delaybridge_wakeups_total{queue=\"q\",reason=\"published\"}").await;
    assert!(woken >= 10.0, "{woken} of 20 elements woke the daemon");
    daemon.stop().await;
}

/// The entries of a stream: their fields, and their ids as `at`.
async fn entries(redis: &mut redis::aio::MultiplexedConnection, key: &str) -> Value {
    let rows: Vec<(String, Vec<(String, String)>)> =
        redis::cmd("XRANGE").arg(key).arg("-").arg("+").query_async(redis).await.expect("a stream");
    rows.into_iter()
        .map(|(at, fields)| {
            let fields = fields.into_iter().map(|(name, value)| (name, Value::from(value)));
            fields.chain([("at".to_owned(), at.into())]).collect::<serde_json::Map<_, _>>().into()
        })
        .collect::<Vec<Value>>()
        .into()
}

/// A key as Spring's `RedisTemplate` writes it by default: Java's serialisation of the text `q`.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_no_text_is_a_queue_too() {
    const KEY: &[u8] = b"\xac\xed\x00\x05t\x00\x01q";
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let yaml = format!(
        "redis: {{ url: {} }}\nsinks: {{ out: {{ redis: {{}} }} }}\nqueues:\n  \
         q: {{ source: {{ zset: {{ key_base64: rO0ABXQAAXE=, score: ms }} }}, to: [{{ sink: out, stream: out }}] }}\n",
        server.url()
    );
    let mut daemon = Daemon::start(&yaml).await;
    let now = now_ms(&mut redis).await;
    for n in 0..20 {
        redis.zadd::<_, _, _, ()>(KEY, format!("element {n}"), now + 10 * n).await.expect("the server takes it");
    }
    eventually("all elements to arrive", PATIENCE, async || match redis.clone().xlen::<_, usize>("out").await {
        Ok(20) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert!(!redis.exists::<_, bool>(KEY).await.expect("an answer"));
    assert_eq!(daemon.stop().await, 0);
}
