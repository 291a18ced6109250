//! The ways out of a pool: back to its program, and into topics of the job queue. Nothing is lost, whatever interrupts
//! it.

use std::collections::BTreeMap;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use serde_json::Value;

use super::{PATIENCE, on};
use harness::daemon::{ConfigFile, cli};
use harness::oracle::read_stream;
use harness::redisson::redis_now_ms;
use harness::{Daemon, RedisServer, eventually};

const YII2: &str = "  q: { source: { job_pool: { preset: yii2 } }, codec: raw, to: [{ sink: out, stream: out }] }\n";

/// The exit code and the output of a command.
fn ask(config: &ConfigFile, line: &str) -> (i32, String) {
    let output = cli(config, &line.split(' ').collect::<Vec<_>>());
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

pub(super) fn well(config: &ConfigFile, line: &str) -> String {
    let (code, text) = ask(config, line);
    assert_eq!(code, 0, "{line}: {text}");
    text
}

pub(super) fn json(config: &ConfigFile, line: &str) -> Value {
    let text = well(config, &format!("{line} --output json"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

async fn put(redis: &mut MultiplexedConnection, id: i64, message: &str, due_s: i64) {
    redis.hset::<_, _, _, ()>("queue.messages", id, format!("300;{message}")).await.expect("the server takes it");
    redis.zadd::<_, _, _, ()>("queue.delayed", id, due_s).await.expect("the server takes it");
}

/// The ids in the bucket with their scores.
async fn bucket(redis: &mut MultiplexedConnection) -> BTreeMap<String, f64> {
    let rows: Vec<(String, f64)> = redis.zrange_withscores("queue.delayed", 0, -1).await.expect("a sorted set");
    rows.into_iter().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_gives_a_pool_back_to_its_program() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let now_s = redis_now_ms(&mut redis).await / 1_000;
    // Long retries, letters with and without a job, and a list where the sink wants a stream.
    let retry = "retry: { slow: { max_attempts: 100, initial_interval: 1h, max_interval: 1h } }\n";
    let yaml = format!("{retry}{}", on(&server, YII2).replace("codec: raw", "codec: json, retry: slow"));
    redis.rpush::<_, _, ()>("out", "no stream").await.expect("the server takes it");
    put(&mut redis, 1, "{\"n\":1}", now_s - 7).await;
    put(&mut redis, 2, "no JSON", now_s - 6).await;
    put(&mut redis, 3, "no JSON either", now_s - 5).await;
    put(&mut redis, 9, "{\"n\":9}", now_s + 3_600).await;
    let mut daemon = Daemon::spawn(&yaml);
    for text in ["dead letter stored", "on hold", "WRONGTYPE"] {
        daemon.expect_log(text);
    }
    eventually("two letters, and nothing due", PATIENCE, async || {
        let letters: usize = redis.clone().xlen("delaybridge:dead:{queue.delayed}").await.expect("a stream");
        let left = bucket(&mut redis.clone()).await.len();
        if (letters, left) == (2, 1) { Ok(()) } else { Err(format!("{letters} letters, {left} in the bucket")) }
    })
    .await;
    let config = ConfigFile::new(&format!("http: none\n{yaml}"));
    assert!(ask(&config, "restore q --apply").1.contains("stop its daemons first"));
    assert_eq!(daemon.stop().await, 0);
    // Meanwhile a producer writes job 3 again.
    redis.hset::<_, _, _, ()>("queue.messages", 3, "300;new").await.expect("the server takes it");

    assert!(well(&config, "restore q --dead").contains("3 elements would be put back into `queue.delayed`"));
    assert_eq!(bucket(&mut redis).await.len(), 1, "without --apply nothing is changed");
    let (code, text) = ask(&config, "restore q --dead --apply");
    assert!(code == 1 && text.contains("2 elements of q put back into `queue.delayed`, 1 dead letter among"), "{text}");
    assert!(text.contains("1 element stayed") && text.contains("another job with its id"), "{text}");
    let back = bucket(&mut redis).await;
    let expected = [("1", now_s - 7), ("2", now_s - 6), ("9", now_s + 3_600)];
    assert_eq!(back, expected.map(|(id, due_s)| (id.to_owned(), due_s as f64)).into());
    let mut jobs: Vec<(i64, String)> = redis.hgetall("queue.messages").await.expect("a hash");
    jobs.sort();
    let expected = [(1, "300;{\"n\":1}"), (2, "300;no JSON"), (3, "300;new"), (9, "300;{\"n\":9}")];
    assert_eq!(jobs, expected.map(|(id, job)| (id, job.to_owned())));
    // A second run puts nothing back twice. The letter of job 3 is left for its operator.
    let again = ask(&config, "restore q --dead --apply").1;
    assert!(again.contains("0 elements of q put back"), "{again}");
    assert!(well(&config, "dead ls q").contains("no JSON") || well(&config, "dead ls q").contains(" 3 "));
}

/// The bodies and due times of the waiting jobs in a topic.
async fn topic(redis: &mut MultiplexedConnection, topic: &str) -> BTreeMap<String, i64> {
    let due: Vec<(String, i64)> =
        redis.zrange_withscores(format!("delaybridge:jobs:due:{{{topic}}}"), 0, -1).await.expect("due");
    let records: BTreeMap<String, Vec<u8>> =
        redis.hgetall(format!("delaybridge:jobs:records:{{{topic}}}")).await.expect("records");
    due.into_iter().map(|(id, at)| (String::from_utf8_lossy(&records[&id][27..]).into_owned(), at)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_becomes_a_topic_and_what_cannot_stays() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let config = ConfigFile::new(&format!(
        "http: none\njobs: {{ defaults: {{ max_body: 1KiB }} }}\n{}",
        on(&server, YII2).replace("yii2 }", "yii2, ready: [queue.waiting] }")
    ));
    let now_s = redis_now_ms(&mut redis).await / 1_000;
    let mut expected = BTreeMap::new();
    for id in 0..250 {
        let due_s = now_s + id * 60 - 600;
        put(&mut redis, id, &format!("job {id}"), due_s).await;
        expected.insert(format!("job {id}"), due_s * 1_000);
    }
    put(&mut redis, 1_000, &"x".repeat(2_000), now_s + 5).await;
    put(&mut redis, 1_001, "", now_s + 6).await;
    redis.hset::<_, _, _, ()>("queue.messages", 1_001, "no time to run").await.expect("the server takes it");
    redis.zadd::<_, _, _, ()>("queue.delayed", "deleted", now_s + 7).await.expect("the server takes it");
    put(&mut redis, 2_000, "made ready", now_s - 60).await;
    redis.zrem::<_, _, ()>("queue.delayed", 2_000).await.expect("the server takes it");
    redis.rpush::<_, _, ()>("queue.waiting", 2_000).await.expect("the server takes it");
    // Another job of the topic has the id of one in the pool.
    well(&config, "jobs add orders --id 17 --delay 1h --body mine");

    let dry = json(&config, "jobs import q orders --dry-run");
    let counts = |done: &Value| ["moved", "deleted", "left", "elsewhere"].map(|name| done[name].as_u64());
    assert_eq!(counts(&dry), [250, 1, 2, 1].map(Some), "{dry}");
    assert_eq!(bucket(&mut redis).await.len(), 253, "a dry run changes nothing");

    let done = json(&config, "jobs import q orders");
    assert_eq!(counts(&done), [250, 1, 3, 0].map(Some), "{done}");
    let mut moved = topic(&mut redis, "orders").await;
    assert!(moved.remove("mine").is_some() && moved.remove("made ready").is_some());
    expected.remove("job 17");
    // An overdue job becomes ready now.
    let from_now = |jobs: BTreeMap<String, i64>| -> BTreeMap<String, i64> {
        jobs.into_iter().map(|(body, at)| (body, at.max((now_s + 60) * 1_000))).collect()
    };
    assert_eq!(from_now(moved), from_now(expected));
    // The other jobs stay in their places, with their scores.
    let left = bucket(&mut redis).await;
    let stay = [("17", now_s + 17 * 60 - 600), ("1000", now_s + 5), ("1001", now_s + 6)];
    assert_eq!(left, stay.map(|(id, due_s)| (id.to_owned(), due_s as f64)).into());
    assert_eq!(redis.hlen::<_, usize>("queue.messages").await.expect("a hash"), 3);
    let keys: Vec<String> = redis.keys("delaybridge:claim:*").await.expect("the server answers");
    assert!(keys.is_empty(), "{keys:?}");
    let again = json(&config, "jobs import q orders");
    assert_eq!(counts(&again), [0, 0, 3, 0].map(Some), "{again}");
}

/// An import that is killed at any moment is finished by the next one, with every job in one place.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_is_killed_goes_on() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let config = ConfigFile::new(&format!("http: none\njobs: {{}}\n{}", on(&server, YII2)));
    let now_s = redis_now_ms(&mut redis).await / 1_000;
    for id in 0..600 {
        put(&mut redis, id, &format!("job {id}"), now_s + 3_600 + id).await;
    }
    let mut killed = 0;
    for _ in 0..3 {
        let mut import = harness::daemon::command_line(&config, &["jobs", "import", "q", "orders"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("start an import");
        let before: usize = redis.hlen("delaybridge:jobs:records:{orders}").await.expect("a hash");
        let moving = async {
            while redis.clone().hlen::<_, usize>("delaybridge:jobs:records:{orders}").await.expect("a hash") <= before {
                tokio::task::yield_now().await;
            }
        };
        // An import that refuses because of the claim of the previous one ends at once.
        let _ = tokio::time::timeout(PATIENCE / 6, moving).await;
        import.kill().expect("kill it");
        import.wait().expect("it ends");
        killed += 1;
        // The lease of its claim lasts for a minute: end it at once.
        let leases: Vec<String> =
            redis.zrange("delaybridge:leases:{queue.delayed}", 0, -1).await.expect("a sorted set");
        for name in leases {
            redis
                .zadd::<_, _, _, ()>("delaybridge:leases:{queue.delayed}", name, 1)
                .await
                .expect("the server takes it");
        }
    }
    let done = json(&config, "jobs import q orders");
    println!("{killed} killed; the last run moved {}, {} had been copied", done["moved"], done["copied_before"]);
    let moved = topic(&mut redis, "orders").await;
    assert_eq!(moved.len(), 600);
    for id in 0..600 {
        assert_eq!(moved[&format!("job {id}")], (now_s + 3_600 + id) * 1_000);
    }
    assert!(bucket(&mut redis).await.is_empty());
    assert!(!redis.exists::<_, bool>("queue.messages").await.expect("the server answers"));
    assert!(read_stream(&mut redis, "out").await.is_empty());
}
