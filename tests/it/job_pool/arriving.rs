//! The way back: jobs of a topic become jobs of a pool, as the program of each preset would have written them.

use std::collections::BTreeSet;

use redis::AsyncCommands;

use super::leaving::{json, well};
use super::programs::{Worker, arrived, settled};
use super::{PATIENCE, on};
use harness::daemon::{ConfigFile, cli};
use harness::redisson::redis_now_ms;
use harness::{Daemon, RedisServer, eventually};

/// The presets whose jobs can be written, with their settings.
const PRESETS: [&str; 7] =
    ["ouqiang", "ice", "yii2", "hdt3213, name: mail", "youzan_json", "bullmq, name: mail", "asynq"];

fn pool(preset: &str) -> String {
    format!(
        "  q: {{ source: {{ job_pool: {{ preset: {preset} }} }}, codec: raw, to: [{{ sink: out, stream: out }}] }}\n"
    )
}

fn add(config: &ConfigFile, id: usize, arguments: &[&str]) {
    let (id, body) = (id.to_string(), format!("{{\"n\":{id}}}"));
    let mut line = vec!["jobs", "add", "orders", "--id", &id, "--body", &body];
    line.extend(arguments);
    assert!(cli(config, &line).status.success(), "{line:?}");
}

/// A job put into a pool comes out of it: at the daemon, with its id and body, and without remains.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_topic_become_jobs_of_every_program() {
    for preset in PRESETS {
        let server = RedisServer::start().await;
        let mut redis = server.client().await;
        let yaml = on(&server, &pool(preset));
        let config = ConfigFile::new(&format!("http: none\njobs: {{}}\n{yaml}"));
        (1..=20).for_each(|id| add(&config, id, &["--ttr", "7s", "--tries", "4"]));
        add(&config, 99, &["--delay", "1h"]);
        let refused = cli(&config, &["jobs", "export", "orders", "--queue", "q"]);
        assert!(String::from_utf8_lossy(&refused.stderr).contains("not paused"), "{refused:?}");
        let dry = json(&config, "jobs export orders --queue q --dry-run");
        assert_eq!((&dry["moved"], &dry["left"]), (&21.into(), &0.into()), "{preset}: {dry}");
        well(&config, "jobs pause orders");
        let done = json(&config, "jobs export orders --queue q");
        assert_eq!((&done["moved"], &done["left"]), (&21.into(), &0.into()), "{preset}: {done}");
        assert_eq!(json(&config, "jobs topics orders")["topics"][0]["delay"], 0);
        assert_eq!(json(&config, "jobs export orders --queue q")["moved"], 0, "a second time");

        let mut daemon = Daemon::start(&yaml).await;
        let bodies: BTreeSet<String> = arrived(&redis, 20).await.into_iter().collect();
        let expected: BTreeSet<String> = (1..=20).map(|n| format!("{{\"n\":{n}}}")).collect();
        assert_eq!(bodies, expected, "{preset}");
        settled(&redis).await;
        assert_eq!(daemon.stop().await, 0);
        // Only the one that is due in an hour is left, and comes back unchanged.
        let done = json(&config, "jobs import q orders");
        assert_eq!((&done["moved"], &done["left"]), (&1.into(), &0.into()), "{preset}: {done}");
        let job = json(&config, "jobs get orders~99");
        assert_eq!(job["jobs"][0]["payload"], "{\"n\":99}", "{preset}: {job}");
        let left: Vec<Vec<u8>> = redis.keys("*").await.expect("the server answers");
        let left: Vec<_> = left.iter().map(|key| String::from_utf8_lossy(key)).collect();
        let ours = |key: &str| key == "out" || key.starts_with("delaybridge:");
        assert!(left.iter().all(|key| ours(key)), "{preset}: {left:?}");
    }
}

/// Jobs whose ids exist in the pool, and jobs that its program could not have written, stay in the topic.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_written_stays_a_job() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let config = ConfigFile::new(&format!("http: none\njobs: {{}}\n{}", on(&server, &pool("youzan_json"))));
    add(&config, 1, &[]);
    add(&config, 2, &[]);
    assert!(cli(&config, &["jobs", "add", "orders", "--id", "no-number", "--body", "x"]).status.success());
    redis.hset::<_, _, _, ()>("job.pool", "2", "another").await.expect("the server takes it");
    well(&config, "jobs pause orders");
    let text = well(&config, "jobs export orders --queue q");
    assert!(text.contains("1 job of topic orders moved to bucket0") && text.contains("2 are there already"), "{text}");
    let jobs: Vec<(String, String)> = redis.hgetall("job.pool").await.expect("a hash");
    assert!(jobs.contains(&("2".to_owned(), "another".to_owned())), "{jobs:?}");
    assert_eq!(json(&config, "jobs topics orders")["topics"][0]["ready"], 2);
    // Objects of Java classes that only their program has.
    let java = ConfigFile::new(&format!("http: none\njobs: {{}}\n{}", on(&server, &pool("youzan"))));
    let refused = cli(&java, &["jobs", "export", "orders", "--queue", "q"]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && text.contains("objects of Java classes"), "{refused:?}");
}

/// An export that is killed at any moment is finished by the next one, with every job in one place.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_is_killed_goes_on() {
    const JOBS: usize = 400;
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let config = ConfigFile::new(&format!("http: none\njobs: {{}}\n{}", on(&server, &pool("yii2"))));
    let now_s = redis_now_ms(&mut redis).await / 1_000;
    let lines: String = (0..JOBS).map(|n| format!("job {n}\n")).collect();
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), lines).expect("write the bodies");
    let path = file.path().display().to_string();
    let added = cli(&config, &["jobs", "add", "orders", "--lines", "--file", &path, "--delay", "1h"]);
    assert!(added.status.success(), "{added:?}");
    well(&config, "jobs pause orders");
    let mut killed = 0;
    for _ in 0..4 {
        let before: usize = redis.hlen("queue.messages").await.expect("a hash");
        let mut export = harness::daemon::command_line(&config, &["jobs", "export", "orders", "--queue", "q"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("start an export");
        eventually("some jobs to be copied", PATIENCE, async || {
            let now: usize = redis.clone().hlen("queue.messages").await.expect("a hash");
            if now > before { Ok(()) } else { Err(format!("{now}")) }
        })
        .await;
        export.kill().expect("kill it");
        killed += usize::from(!export.wait().expect("it ends").success());
    }
    let done = json(&config, "jobs export orders --queue q");
    println!("{killed} killed; the last run moved {}", done["moved"]);
    assert_eq!(done["left"], 0, "{done}");
    let jobs: Vec<(String, String)> = redis.hgetall("queue.messages").await.expect("a hash");
    let bodies: BTreeSet<&str> =
        jobs.iter().map(|(_, job)| job.strip_prefix("60;").expect("its time to run")).collect();
    assert_eq!((jobs.len(), bodies.len()), (JOBS, JOBS));
    let bucket: Vec<(String, i64)> = redis.zrange_withscores("queue.delayed", 0, -1).await.expect("a sorted set");
    let (ids, in_bucket): (BTreeSet<_>, BTreeSet<_>) =
        (jobs.iter().map(|(id, _)| id).collect(), bucket.iter().map(|(id, _)| id).collect());
    assert_eq!(ids, in_bucket);
    assert!(bucket.iter().all(|(_, due_s)| (now_s + 3_595..now_s + 3_660).contains(due_s)), "{:?}", bucket.first());
    let topic: usize = redis.hlen("delaybridge:jobs:records:{orders}").await.expect("a hash");
    assert_eq!(topic, 0, "every job is in one place");
}

/// The original programs accept the exported jobs as their own.
#[tokio::test(flavor = "multi_thread")]
async fn asynq_and_bullmq_work_on_exported_jobs() {
    let server = RedisServer::start().await;
    for preset in ["asynq, name: mails", "bullmq, name: mails"] {
        let config = ConfigFile::new(&format!("http: none\njobs: {{}}\n{}", on(&server, &pool(preset))));
        (1..=5).for_each(|id| add(&config, 100 + id, &["--delay", "1s"]));
        well(&config, "jobs pause orders");
        let done = json(&config, "jobs export orders --queue q");
        assert_eq!(done["moved"], 5, "{done}");
        well(&config, "jobs resume orders");
        let worker = if preset.starts_with("asynq") { Worker::of_asynq(&server) } else { Worker::of_bullmq(&server) };
        eventually("every job to be handled", PATIENCE, async || {
            if worker.count() >= 5 { Ok(()) } else { Err(format!("{} of 5", worker.count())) }
        })
        .await;
        let mut lines = worker.end().await;
        lines.sort_unstable();
        let expected: Vec<String> = (101..=105).map(|n| format!("{{\"n\":{n}}}")).collect();
        assert_eq!(lines, expected, "{preset}");
    }
}
