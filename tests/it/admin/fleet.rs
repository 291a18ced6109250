//! All daemons and all changes: two daemons of different configurations find each other in Redis, and who did what is kept beside the queue.

use serde_json::Value;

use crate::delivery::PATIENCE;
use harness::daemon::{Daemon, cli};
use harness::{RedisServer, eventually};

fn answer(daemon: &Daemon, arguments: &[&str]) -> Value {
    let output = cli(daemon.config(), &[arguments, &["--output", "json"]].concat());
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {out}{err}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {out}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_find_each_other_and_changes_are_kept() {
    let redis = RedisServer::start().await;
    let yaml = |more: &str| {
        format!(
            "redis: {{ url: \"{}\" }}\nsinks: {{ out: {{ redis: {{ list: done }} }} }}\nqueues:\n  \
             orders: {{ source: {{ zset: {{ key: orders, score: ms }} }}, order: queue, to: [{{ sink: out }}] }}\n{more}",
            redis.url()
        )
    };
    let (mut one, port) = Daemon::start_for_operators(&yaml("")).await;
    let other = "  mails: { source: { zset: { key: mails, score: ms } }, to: [{ sink: out }] }\n";
    let (mut two, _) = Daemon::start_for_operators(&yaml(other)).await;
    let url = format!("http://127.0.0.1:{port}");
    eventually("both daemons", PATIENCE, async || {
        let found = answer(&two, &["fleet", "--daemon", &url]);
        let known =
            found["daemons"].as_array().is_some_and(|all| all.len() == 2 && all.iter().all(|one| one["ready"] == true));
        if known { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
    let found = answer(&one, &["fleet"]);
    assert_eq!(found["configurations"].as_object().map(serde_json::Map::len), Some(2), "{found}");
    let queues: Vec<_> = found["daemons"].as_array().into_iter().flatten().map(|one| one["queues"].as_u64()).collect();
    assert!(queues.contains(&Some(1)) && queues.contains(&Some(2)), "{found}");
    let text = cli(one.config(), &["fleet"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("2 configurations run"));

    one.expect_log("queue paused");
    two.expect_log("queue paused");
    answer(&one, &["pause", "orders", "--why", "a deployment", "--daemon", &url]);
    answer(&one, &["resume", "orders"]);
    let trail = answer(&one, &["audit", "orders"]);
    let of = |at: usize| {
        [&trail["changes"][at]["what"], &trail["changes"][at]["by"]].map(|text| text.as_str().unwrap_or_default())
    };
    assert_eq!((of(0)[0], of(1)[0]), ("resume", "pause"), "{trail}");
    assert!(of(1)[1].ends_with(" (local)"), "the person, and the caller who is known: {trail}");
    assert!(of(0)[1].contains('@'), "the person and the host: {trail}");
    assert_eq!(answer(&one, &["audit", "--limit", "1", "--daemon", &url])["changes"][0]["what"], "resume");

    assert_eq!(two.stop().await, 0);
    let left = answer(&one, &["fleet"]);
    assert_eq!(left["daemons"].as_array().map(Vec::len), Some(1), "a daemon that ends takes its record back: {left}");
    one.stop().await;
}
