//! The forecast of a queue of each kind of source: by the command over Redis and over a daemon, by the gauges, and as it comes.

use redis::AsyncCommands;
use serde_json::Value;

use crate::delivery::PATIENCE;
use harness::daemon::{Daemon, cli};
use harness::{RedisServer, eventually, http};

/// The answer of a command, which has to be well.
fn answer(daemon: &Daemon, arguments: &[&str]) -> Value {
    let output = cli(daemon.config(), arguments);
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {out}{err}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {out}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_of_every_source_have_a_forecast() {
    let redis = RedisServer::start().await;
    let mut client = redis.client().await;
    let yaml = format!(
        "redis: {{ url: \"{}\" }}\njobs: {{}}\nsinks: {{ out: {{ redis: {{ list: done }} }} }}\nqueues:\n  \
         delayed: {{ source: {{ redisson: {{ name: delayed }} }}, to: [{{ sink: out }}] }}\n  \
         set: {{ source: {{ zset: {{ key: set, score: s }} }}, to: [{{ sink: out }}] }}\n  \
         pool: {{ source: {{ job_pool: {{ preset: ouqiang }} }}, to: [{{ sink: out }}] }}\n  \
         topic: {{ source: {{ jobs: {{ topic: mails }} }}, to: [{{ sink: out }}] }}\n",
        redis.url()
    );
    let (mut daemon, port) = Daemon::start_for_operators(&yaml).await;
    // Two after half an hour, and one after three hours.
    let (seconds, _): (u64, u64) = redis::cmd("TIME").query_async(&mut client).await.expect("the time");
    for (n, after) in [(1, 1_800), (2, 1_800), (3, 10_800)] {
        let delay = format!("{after}s");
        let run = |arguments: &[&str]| assert!(cli(daemon.config(), arguments).status.success(), "{arguments:?}");
        run(&["offer", "delayed", "--delay", &delay, "--payload", &format!("e{n}")]);
        run(&["jobs", "add", "mails", "--delay", &delay, "--body", &format!("e{n}")]);
        let _: () = client.zadd("set", format!("e{n}"), seconds + after).await.expect("a member");
        let _: () = client.zadd(format!("dq_bucket_{n}"), format!("e{n}"), seconds + after).await.expect("a job");
    }
    let url = format!("http://127.0.0.1:{port}");
    for queue in ["delayed", "set", "pool", "topic"] {
        let ask = ["forecast", queue, "--until", "1h", "--step", "20m", "--json"];
        let over_redis = answer(&daemon, &ask);
        let over_daemon = answer(&daemon, &[&ask[..], &["--daemon", &url]].concat());
        for found in [&over_redis, &over_daemon] {
            let due: Vec<_> = found["steps"].as_array().expect("steps").iter().map(|step| &step["due"]).collect();
            assert_eq!(due, [0, 2, 0], "{found}");
            assert_eq!((&found["scheduled"], &found["due"], &found["backlog"]), (&3.into(), &2.into(), &0.into()));
            assert_eq!((&found["rate"], &found["rate_from"]), (&Value::Null, &"none".into()), "{found}");
            assert_eq!((&found["lateness_ms"], &found["through_ms"]), (&Value::Null, &Value::Null), "{found}");
            let last = found["last_due_ms"].as_i64().expect("the last is known") - seconds as i64 * 1_000;
            assert!((10_800_000..10_825_000).contains(&last), "{found}");
        }
        // The first has asked the daemon of the configuration.
        for found in [&over_redis, &over_daemon] {
            let summary = found["summary"].as_str().expect("a summary");
            assert!(summary.contains("the rate is measured only while the queue has a backlog"), "{summary}");
        }
        // One element takes ten seconds: the second of the two is twenty late.
        for over in [&[][..], &["--daemon", &url]] {
            let found = answer(&daemon, &[&ask[..], &["--rate", "0.1"], over].concat());
            let late = found["lateness_ms"].as_u64().expect("a lateness");
            assert!((18_000..=20_000).contains(&late), "{found}");
            assert_eq!((&found["rate_from"], &found["worst"]["due"]), (&"given".into(), &2.into()), "{found}");
        }
        eventually("the gauges", PATIENCE, async || {
            let within =
                |horizon: &str| format!("delaybridge_queue_due_within{{horizon=\"{horizon}\",queue=\"{queue}\"}}");
            let mut found = Vec::new();
            for horizon in ["10m", "1h", "6h"] {
                found.push(daemon.metric(&within(horizon)).await);
            }
            if found == [0.0, 2.0, 3.0] { Ok(()) } else { Err(format!("{queue}: {found:?}")) }
        })
        .await;
    }
    let all = answer(&daemon, &["forecast", "--rate", "10", "--output", "json"]);
    assert_eq!(all["queues"].as_array().map(Vec::len), Some(4), "{all}");
    let wrong = cli(daemon.config(), &["forecast", "set", "--until", "1d", "--step", "1m"]);
    assert_eq!(wrong.status.code(), Some(2));
    let topic = cli(daemon.config(), &["forecast", "mails"]);
    assert!(String::from_utf8_lossy(&topic.stderr).contains("name the queue that delivers it"));
    let page = http::get(port, "/queues/set", PATIENCE).await.expect("the page").body;
    for part in ["Due within the next hour: 2, most in the minute until", "3 elements fall due until", "role=\"img\""] {
        assert!(page.contains(part), "{part} is missing in {page}");
    }
    assert_eq!(daemon.stop().await, 0);
}
