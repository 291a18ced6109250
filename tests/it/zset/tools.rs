//! An operator's actions on a queue that is a sorted set.

use redis::AsyncCommands;
use serde_json::Value;

use super::{PATIENCE, now_ms};
use harness::daemon::{ConfigFile, Daemon, cli};
use harness::{RedisServer, RedissonQueue, eventually};

/// The exit code and the output of a command.
fn ask(config: &ConfigFile, line: &str) -> (i32, String) {
    let output = cli(config, &line.split(' ').collect::<Vec<_>>());
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

fn well(config: &ConfigFile, line: &str) -> String {
    let (code, text) = ask(config, line);
    assert_eq!(code, 0, "{line}: {text}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_works_or_says_why_not() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let yaml = format!(
        "http: none\nredis: {{ url: '{}' }}\nsinks: {{ out: {{ redis: {{ list: 'out:${{payload.queue}}' }} }} }}\n\
         queues:\n  jobs:\n    source: {{ zset: {{ preset: sidekiq }} }}\n    codec: json\n    to: [{{ sink: out }}]\n",
        server.url()
    );
    let config = ConfigFile::new(&yaml);
    let later = now_ms(&mut redis).await / 1_000 + 86_400;
    let job =
        |n: u8| format!("{{\"class\":\"Mail\",\"args\":[{n}],\"queue\":\"low\",\"jid\":\"b4a577edbccf1d80574{n}\"}}");
    let score = format!("{later}.4567891");
    for n in 1..4 {
        let mut command = redis::cmd("ZADD");
        command.arg("schedule").arg(&score).arg(job(n)).exec_async(&mut redis).await.expect("the server takes it");
    }
    // Without a queue: a dead letter, because the destination cannot be filled.
    let poor = "{\"jid\":\"poor-1\"}";
    redis.zadd::<_, _, _, ()>("schedule", poor, "1700000000.25").await.expect("the server takes it");

    let peeked: Value = serde_json::from_str(&well(&config, "peek jobs --output json")).expect("JSON");
    assert_eq!(peeked["elements"][0]["id"], "poor-1");
    assert_eq!(peeked["elements"][0]["due_ms"], 1_700_000_000_250_i64);
    assert_eq!(peeked["elements"][1]["id"], "b4a577edbccf1d805741");
    assert_eq!(peeked["elements"][1]["due_ms"], later * 1_000 + 457);
    assert!(well(&config, "queues").contains("jobs"));
    assert!(well(&config, "cancel jobs b4a577edbccf1d805743").contains("is gone"));
    assert_eq!(ask(&config, "cancel jobs b4a577edbccf1d805743").0, 1);
    assert!(well(&config, "decode --queue jobs --id b4a577edbccf1d805742").contains("Mail"));
    for (line, words) in [
        ("offer jobs --delay 1s --payload x", "ZADD"),
        ("migrate jobs --to new", "no layout"),
        ("restore jobs --layout new", "no layout"),
    ] {
        let (code, text) = ask(&config, line);
        assert!(code == 2 && text.contains(words), "{line}: {text}");
    }
    let live = well(&config, "check --live");
    assert!(live.contains("identical members") && live.contains("notifications"), "{live}");

    let mut daemon = Daemon::start(&yaml.replace("http: none\n", "")).await;
    daemon.expect_log("dead letter stored");
    eventually("a dead letter", PATIENCE, async || {
        match redis.clone().xlen::<_, usize>("delaybridge:dead:{schedule}").await {
            Ok(1) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    eventually("the log to have the id", PATIENCE, async || {
        let log = daemon.log().all().join("\n");
        if log.contains("poor-1") { Ok(()) } else { Err(log) }
    })
    .await;
    assert!(ask(&config, "restore jobs --apply").1.contains("stop its daemons first"));
    daemon.stop().await;
    assert!(well(&config, "dead ls jobs").contains("poor-1"));
    assert!(well(&config, "dead show jobs poor-1").contains("1700000000.25"));
    assert!(well(&config, "dead redrive jobs poor-1").contains("1 dead letter"));
    let retried = well(&config, "peek jobs --state retry");
    assert!(retried.contains("poor-1"), "{retried}");

    // The way back: the same member with the same score.
    assert!(well(&config, "restore jobs").contains("1 element would be put back"));
    assert!(well(&config, "restore jobs --apply").contains("1 element of jobs put back"));
    let back: f64 = redis.zscore("schedule", poor).await.expect("a score");
    assert_eq!(back, 1_700_000_000.25);
    let kept: f64 = redis.zscore("schedule", job(1)).await.expect("a score");
    assert_eq!(kept, score.parse::<f64>().expect("a number"));
}

/// A set in seconds that is read in milliseconds: everything in it would be due at once.
#[tokio::test(flavor = "multi_thread")]
async fn seconds_read_as_milliseconds_are_held_until_the_unit_is_correct() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let yaml = |unit: &str| {
        format!(
            "redis: {{ url: '{}' }}\nsinks: {{ out: {{ redis: {{ stream: out }} }} }}\n\
             queues: {{ jobs: {{ source: {{ zset: {{ key: due, score: {unit} }} }}, to: [{{ sink: out }}] }} }}\n",
            server.url()
        )
    };
    let tomorrow = now_ms(&mut redis).await / 1_000 + 86_400;
    redis.zadd::<_, _, _, ()>("due", "reminder", tomorrow).await.expect("the server takes it");
    let wrong = ConfigFile::new(&yaml("ms"));
    let (code, text) = ask(&wrong, "check --live");
    assert!(code == 1 && text.contains("is `score: ms` the unit"), "{text}");
    // A score that means "at once" in each unit is delivered, and hides the other one from a look at the first.
    redis.zadd::<_, _, _, ()>("due", "at once", 0).await.expect("the server takes it");

    let mut daemon = Daemon::start(&yaml("ms")).await;
    daemon.expect_log("due time is absurd");
    eventually("one element to be held, and one delivered", PATIENCE, async || {
        let held: usize = redis.clone().zcard("delaybridge:retry:{due}").await.expect("a count");
        let delivered: usize = redis.clone().xlen("out").await.expect("a count");
        if (held, delivered) == (1, 1) { Ok(()) } else { Err(format!("{held} held, {delivered} delivered")) }
    })
    .await;
    daemon.stop().await;
    assert!(well(&wrong, "restore jobs --apply").contains("1 element of jobs put back"));
    let back: i64 = redis.zscore("due", "reminder").await.expect("a score");
    assert_eq!(back, tomorrow);
    well(&ConfigFile::new(&yaml("s")), "check --live");
}

/// A producer that sets a time to live with each element: Redis would delete what is not delivered.
#[tokio::test(flavor = "multi_thread")]
async fn a_time_to_live_on_a_source_is_reported_and_repaired() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let yaml = format!(
        "redis: {{ url: '{}' }}\nsinks: {{ out: {{ redis: {{ list: out }} }} }}\nqueues:\n  \
         set: {{ source: {{ zset: {{ key: due, score: ms }} }}, to: [{{ sink: out }}] }}\n  \
         pool: {{ source: {{ job_pool: {{ preset: yii2 }} }}, to: [{{ sink: out }}] }}\n  \
         list: {{ source: {{ redisson: {{ name: orders }} }}, to: [{{ sink: out }}] }}\n",
        server.url()
    );
    let config = ConfigFile::new(&yaml);
    let later = now_ms(&mut redis).await + 86_400_000;
    redis.zadd::<_, _, _, ()>("due", "a", later).await.expect("the server takes it");
    redis.zadd::<_, _, _, ()>("queue.delayed", "7", later / 1_000).await.expect("the server takes it");
    redis.hset::<_, _, _, ()>("queue.messages", "7", "300;x").await.expect("the server takes it");
    let redisson = RedissonQueue::new("orders");
    redisson.offer(&mut redis, later, b"x").await;
    let mut daemon = Daemon::start(&yaml).await;
    let metric = "delaybridge_queue_expires_seconds";
    eventually("the gauges", PATIENCE, async || {
        match daemon.metric("delaybridge_queue_messages{state=\"scheduled\"}").await {
            3.0 => Ok(()),
            other => Err(other.to_string()),
        }
    })
    .await;
    assert!(!daemon.get("/metrics").await.expect("metrics").body.contains(metric));
    assert!(!well(&config, "check --live").contains("EXPIRE"));
    assert_eq!(ask(&config, "fsck").0, 0);

    let keys = [("set", "due"), ("pool", "queue.messages"), ("list", "redisson_delay_queue:{orders}")];
    for (_, key) in keys {
        redis.expire::<_, ()>(key, 3_600).await.expect("the server takes it");
    }
    for (queue, _) in keys {
        let selector = format!("{metric}{{queue=\"{queue}\"}}");
        eventually("the time until then", PATIENCE, async || {
            let left = daemon.metric(&selector).await;
            if (3_000.0..=3_600.0).contains(&left) { Ok(()) } else { Err(left.to_string()) }
        })
        .await;
    }
    let (code, said) = ask(&config, "check --live");
    for (queue, key) in keys {
        let line = said.lines().find(|line| line.contains(&format!("queue {queue}: expiry"))).unwrap_or_default();
        assert!(code == 1 && line.contains(&format!("Redis deletes {key} in")), "{said}");
    }
    let (code, found) = ask(&config, "fsck");
    assert!(code == 1 && found.contains("a key of the source has a time to live"), "{found}");
    let repaired = well(&config, "fsck --repair");
    for (_, key) in keys {
        assert!(repaired.contains(key), "{repaired}");
        let left: i64 = redis.ttl(key).await.expect("an answer");
        assert_eq!(left, -1, "{key}");
    }
    assert_eq!(ask(&config, "fsck").0, 0);
    eventually("the gauge to go", PATIENCE, async || {
        let body = daemon.get("/metrics").await?.body;
        if body.contains(&format!("{metric}{{")) { Err(body) } else { Ok(()) }
    })
    .await;
    assert_eq!(daemon.stop().await, 0);
}
