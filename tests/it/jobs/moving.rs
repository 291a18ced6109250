//! Import from queues and export to sorted sets: nothing is lost or duplicated, wherever it is interrupted.

use std::collections::BTreeMap;

use redis::AsyncCommands;
use serde_json::Value;

use harness::daemon::{ConfigFile, cli};
use harness::{Daemon, RedisServer, RedissonQueue};

const ELEMENTS: usize = 250;

fn yaml(server: &RedisServer) -> String {
    format!(
        "redis: {{ url: {} }}\nsinks: {{ out: {{ redis: {{ list: done }} }} }}\njobs: {{}}\nqueues:\n  \
         delayed: {{ source: {{ redisson: {{ name: app }} }}, to: [{{ sink: out }}] }}\n  \
         plain: {{ source: {{ zset: {{ key: plain, score: s }} }}, to: [{{ sink: out }}] }}\n",
        server.url()
    )
}

#[track_caller]
fn jobs(config: &std::path::Path, line: &str) -> (i32, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_delaybridge"))
        .arg("jobs")
        .args(line.split(' '))
        .env("DELAYBRIDGE_CONFIG", config)
        .output()
        .expect("run the binary");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code().expect("an exit code"), text(output.stdout) + &text(output.stderr))
}

#[track_caller]
fn json(config: &std::path::Path, line: &str) -> Value {
    let (code, text) = jobs(config, &format!("{line} --output json"));
    assert_eq!(code, 0, "{text}");
    serde_json::from_str(&text).expect("one JSON document")
}

/// The bodies and due times of the waiting jobs in a topic.
async fn bodies(redis: &mut redis::aio::MultiplexedConnection, topic: &str) -> BTreeMap<String, i64> {
    let due: Vec<(String, i64)> =
        redis.zrange_withscores(format!("delaybridge:jobs:due:{{{topic}}}"), 0, -1).await.expect("due");
    let records: BTreeMap<String, Vec<u8>> =
        redis.hgetall(format!("delaybridge:jobs:records:{{{topic}}}")).await.expect("records");
    assert_eq!(due.len(), records.len());
    due.into_iter().map(|(id, at)| (String::from_utf8_lossy(&records[&id][27..]).into_owned(), at)).collect()
}

#[tokio::test]
async fn a_delayed_queue_becomes_a_topic_and_a_topic_a_sorted_set() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let file = ConfigFile::new(&format!("http: none\n{}", yaml(&server)));
    let config = file.path();
    let queue = RedissonQueue::new("app");
    let mut offered = BTreeMap::new();
    for n in 0..ELEMENTS {
        let due = 4_000_000_000_000 + n as i64;
        queue.offer(&mut redis, due, format!("payload {n}")).await;
        offered.insert(format!("payload {n}"), due);
    }
    let dry = json(&config, "import delayed orders --dry-run");
    assert_eq!((&dry["moved"], &dry["dry_run"]), (&ELEMENTS.into(), &true.into()));
    assert!(bodies(&mut redis, "orders").await.is_empty(), "a dry run changes nothing");

    // An earlier run was interrupted after it had copied a page: its elements exist twice for now.
    let before = redis::cmd("DUMP").arg("redisson_delay_queue_timeout:{app}").to_owned();
    let before: Vec<u8> = before.query_async(&mut redis).await.expect("dump");
    let list: Vec<u8> =
        redis::cmd("DUMP").arg("redisson_delay_queue:{app}").query_async(&mut redis).await.expect("dump");
    let done = json(&config, "import delayed orders");
    assert_eq!((&done["moved"], &done["left"], &done["taken"]), (&ELEMENTS.into(), &0.into(), &0.into()));
    assert_eq!(bodies(&mut redis, "orders").await, offered);
    assert_eq!(redis.zcard::<_, usize>("redisson_delay_queue_timeout:{app}").await.expect("zcard"), 0);
    for (key, dump) in [("redisson_delay_queue_timeout:{app}", before), ("redisson_delay_queue:{app}", list)] {
        redis::cmd("RESTORE").arg(key).arg(0).arg(dump).arg("REPLACE").exec_async(&mut redis).await.expect("restore");
    }
    let again = json(&config, "import delayed orders");
    assert_eq!((&again["moved"], &again["copied_before"]), (&ELEMENTS.into(), &ELEMENTS.into()));
    assert_eq!(bodies(&mut redis, "orders").await, offered, "nothing is there twice");
    assert_eq!(redis.zcard::<_, usize>("redisson_delay_queue_timeout:{app}").await.expect("zcard"), 0);

    let (code, text) = jobs(&config, "export orders --key plain --seconds");
    assert!(code == 1 && text.contains("not paused"), "{text}");
    assert_eq!(jobs(&config, "pause orders").0, 0);
    // An earlier run was interrupted between its copy and the removal of the job.
    let first: Vec<String> = redis.zrange("delaybridge:jobs:due:{orders}", 0, 0).await.expect("a job");
    let _: () = redis.hset("delaybridge:jobs:topic:{orders}", "exporting", &first[0]).await.expect("hset");
    let _: () = redis.zadd("plain", "payload 0", 4_000_000_000_i64).await.expect("zadd");
    // Another program's member with the same bytes as a job.
    let _: () = redis.zadd("plain", "payload 9", 7).await.expect("zadd");
    let done = json(&config, "export orders --key plain --seconds");
    assert_eq!((&done["moved"], &done["left"]), (&(ELEMENTS - 1).into(), &1.into()), "{done}");
    let members: Vec<(String, i64)> = redis.zrange_withscores("plain", 0, -1).await.expect("members");
    let members: BTreeMap<_, _> = members.into_iter().collect();
    assert_eq!((members.len(), members["payload 9"]), (ELEMENTS, 7));
    // Never before its time: rounded up to the second.
    for (payload, due) in offered.iter().filter(|(payload, _)| *payload != "payload 9") {
        assert_eq!(members[payload], (due + 999) / 1000);
    }
    assert_eq!(bodies(&mut redis, "orders").await.into_keys().collect::<Vec<_>>(), ["payload 9"]);

    // And from the plain sorted set into another topic.
    let done = json(&config, "import plain others");
    assert_eq!((&done["moved"], &done["left"]), (&ELEMENTS.into(), &0.into()), "{done}");
    assert_eq!(bodies(&mut redis, "others").await.len(), ELEMENTS);
    assert_eq!(redis.zcard::<_, usize>("plain").await.expect("zcard"), 0);
}

#[tokio::test]
async fn nothing_is_imported_while_a_daemon_delivers_from_the_queue() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    RedissonQueue::new("app").offer(&mut redis, 4_000_000_000_000, "later").await;
    let mut daemon = Daemon::start(&yaml(&server)).await;
    let file = ConfigFile::new(&format!("http: none\n{}", yaml(&server)));
    let (code, text) = jobs(&file.path(), "import delayed orders");
    assert!(code == 1 && text.contains("1 daemon delivers from the queue"), "{text}");
    assert!(bodies(&mut redis, "orders").await.is_empty());
    daemon.stop().await;
    assert_eq!(json(&file.path(), "import delayed orders")["moved"], 1);
    // Also with the rights of an operator.
    let shown = cli(&file, &["jobs", "topics"]);
    assert!(shown.status.success());
}
