//! Original programs together with the daemon: asynq's client and server in Go, BullMQ's queue and worker in Node.js.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use redis::AsyncCommands;
use serde_json::Value;

use super::{PATIENCE, on};
use harness::daemon::{ConfigFile, cli};
use harness::logs::Lines;
use harness::oracle::read_stream;
use harness::process::{Process, command};
use harness::{Daemon, RedisServer, eventually};

/// Runs a program to its end; returns its output.
async fn run(mut command: Command) -> String {
    let ran = tokio::task::spawn_blocking(move || {
        let output = command.output().unwrap_or_else(|error| panic!("run {command:?}: {error}"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    });
    ran.await.expect("the program ends")
}

fn asynq_program(server: &RedisServer, line: &str) -> Command {
    let mut command = command(brokers::asynq().unwrap_or_else(|error| panic!("{error}")));
    command.arg(format!("127.0.0.1:{}", server.port())).args(line.split(' '));
    command
}

fn bullmq_program(server: &RedisServer, line: &str) -> Command {
    let mut command = command("node");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/bullmq/program.js"));
    command.env("NODE_PATH", brokers::bullmq().unwrap_or_else(|error| panic!("{error}")));
    command.arg(server.port().to_string()).args(line.split(' '));
    command
}

fn asynq(server: &RedisServer, line: &str) -> impl Future<Output = String> + use<> {
    run(asynq_program(server, line))
}

fn bullmq(server: &RedisServer, line: &str) -> impl Future<Output = String> + use<> {
    run(bullmq_program(server, line))
}

/// An original consumer, which prints the jobs that it handles.
///
/// It runs until the test has seen the awaited jobs, never for a fixed time: jobs that it has moved to its own list of
/// waiting jobs, and not handled when it ends, stay there for the next consumer of its kind.
pub(super) struct Worker {
    process: Process,
    printed: Lines,
}

impl Worker {
    pub(super) fn of_asynq(server: &RedisServer) -> Worker {
        Worker::start(asynq_program(server, "mails work"))
    }

    pub(super) fn of_bullmq(server: &RedisServer) -> Worker {
        Worker::start(bullmq_program(server, "mails work"))
    }

    fn start(mut command: Command) -> Worker {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::spawn("worker", command).unwrap_or_else(|error| panic!("start a worker: {error}"));
        let printed = Lines::collect(process.child_mut().stdout.take().expect("stdout is piped"));
        Worker { process, printed }
    }

    pub(super) fn count(&self) -> usize {
        self.printed.count()
    }

    /// Ends it gracefully; returns the handled jobs.
    pub(super) async fn end(mut self) -> Vec<String> {
        drop(self.process.child_mut().stdin.take());
        let status = self.process.wait(PATIENCE).await;
        assert!(status.is_some_and(|status| status.success()), "the worker ends in order: {status:?}");
        eventually("its last line", PATIENCE, async || {
            let mut lines = self.printed.all();
            if lines.pop_if(|last| last == "closed").is_some() { Ok(lines) } else { Err(format!("{:?}", lines.last())) }
        })
        .await
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Waits for `count` payloads, and returns them.
pub(super) async fn arrived(redis: &redis::aio::MultiplexedConnection, count: usize) -> Vec<String> {
    eventually("the jobs", PATIENCE, async || {
        let found = read_stream(&mut redis.clone(), "out").await;
        if found.len() >= count { Ok(found) } else { Err(format!("{} of {count}", found.len())) }
    })
    .await
    .into_iter()
    .map(|delivery| String::from_utf8(delivery.payload).expect("JSON"))
    .collect()
}

/// Waits until nothing is in flight.
pub(super) async fn settled(redis: &redis::aio::MultiplexedConnection) {
    eventually("nothing in flight", PATIENCE, async || {
        let claims: Vec<String> = redis.clone().keys("delaybridge:claim:*").await.expect("the server answers");
        if claims.is_empty() { Ok(()) } else { Err(format!("{claims:?}")) }
    })
    .await;
}

const ASYNQ: &str = "  q: { source: { job_pool: { preset: asynq, name: mails } }, codec: json, \
                     to: [{ sink: out, stream: out, headers: { topic: '${topic}' } }] }\n";

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_asynq_arrive_and_its_inspector_sees_none_of_them() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    // A task that asynq's own server has tried, and that waits for its retry.
    asynq(&server, "mails failing").await;
    let worker = Worker::of_asynq(&server);
    eventually("a try that fails", PATIENCE, async || {
        let info = json(&asynq(&server, "mails info").await);
        if info["retry"] == 1 { Ok(()) } else { Err(info.to_string()) }
    })
    .await;
    assert_eq!(worker.end().await, [""; 0]);
    asynq(&server, "mails add 0 30 300").await;
    asynq(&server, "mails add 100 5 3600000").await;
    asynq(&server, "mails unique 300").await;
    let before = json(&asynq(&server, "mails info").await);
    assert_eq!((&before["retry"], &before["size"]), (&1.into(), &37.into()), "{before}");

    let mut daemon = Daemon::start(&on(&server, ASYNQ)).await;
    let mut bodies = arrived(&redis, 32).await;
    settled(&redis).await;
    bodies.sort();
    let mut expected: Vec<String> = (-1..30).map(|n| format!("{{\"n\":{n}}}")).collect();
    expected.push("{\"fail\":true}".to_owned());
    expected.sort();
    assert_eq!(bodies, expected);
    let found = read_stream(&mut redis, "out").await;
    assert!(found.iter().all(|delivery| delivery.headers.get("topic").is_some_and(|topic| topic == b"email")));
    // asynq's own view: five tasks that are not due yet, and no key of a removed task.
    let after = json(&asynq(&server, "mails info").await);
    let counts = ["pending", "active", "scheduled", "retry", "archived", "size"].map(|state| after[state].as_i64());
    assert_eq!(counts, [0, 0, 5, 0, 0, 5].map(Some), "{after}");
    let tasks: Vec<String> = redis.keys("asynq:{mails}:t:*").await.expect("the server answers");
    assert_eq!(tasks.len(), 5, "{tasks:?}");
    // A task that is not due is deleted by its user, as before.
    assert_eq!(asynq(&server, "mails delete task-100").await, "");
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_asynq_beside_the_daemon_shares_the_tasks_and_is_named() {
    let server = RedisServer::start().await;
    let redis = server.client().await;
    let mut daemon = Daemon::start(&on(&server, ASYNQ)).await;
    let worker = Worker::of_asynq(&server);
    // The heartbeat that identifies it.
    let live = eventually("check to name the server", PATIENCE, async || {
        let output = cli(daemon.config(), &["check", "--live"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.contains("a server of asynq") { Ok(text) } else { Err(text) }
    })
    .await;
    assert!(live.contains("takes due tasks as well"), "{live}");
    asynq(&server, "mails add 0 300 500").await;
    eventually("every task", PATIENCE, async || {
        let by_daemon = read_stream(&mut redis.clone(), "out").await.len();
        let by_asynq = worker.count();
        if by_daemon + by_asynq >= 300 { Ok(()) } else { Err(format!("{by_daemon} and {by_asynq} of 300")) }
    })
    .await;
    let by_asynq = worker.end().await;
    settled(&redis).await;
    let bodies = arrived(&redis, 0).await;
    let once: BTreeSet<&str> = bodies.iter().map(String::as_str).chain(by_asynq.iter().map(String::as_str)).collect();
    println!("of 300: asynq {}, delaybridge {}", by_asynq.len(), bodies.len());
    assert_eq!((once.len(), bodies.len() + by_asynq.len()), (300, 300));
    assert_eq!(json(&asynq(&server, "mails info").await)["size"], 0);
    assert_eq!(daemon.stop().await, 0);
}

const BULLMQ: &str =
    "  q: { source: { job_pool: { preset: bullmq, name: mails } }, codec: json, to: [{ sink: out, stream: out }] }\n";

#[tokio::test(flavor = "multi_thread")]
async fn delayed_jobs_of_bullmq_arrive_and_it_sees_none_of_them() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let mut daemon = Daemon::start(&on(&server, BULLMQ)).await;
    bullmq(&server, "mails add 0 30 500").await;
    bullmq(&server, "mails add 100 5 3600000").await;
    let first = bullmq(&server, "mails deduplicated 500").await;
    let mut bodies = arrived(&redis, 31).await;
    settled(&redis).await;
    bodies.sort();
    let mut expected: Vec<String> = (-1..30).map(|n| format!("{{\"n\":{n}}}")).collect();
    expected.sort();
    assert_eq!(bodies, expected);
    let counts = json(&bullmq(&server, "mails counts").await);
    let counts = ["delayed", "waiting", "active", "completed", "failed"].map(|state| counts[state].as_i64());
    assert_eq!(counts, [5, 0, 0, 0, 0].map(Some));
    assert_eq!(bullmq(&server, "mails job job-0").await, "none\n");
    assert_eq!(bullmq(&server, "mails job job-100").await, "found\n");
    let hashes: Vec<String> = redis.keys("bull:mails:job-*").await.expect("the server answers");
    assert_eq!(hashes.len(), 5, "{hashes:?}");
    // As documented for deduplication, the lock of a removed job stays.
    let again = bullmq(&server, "mails deduplicated 500").await;
    assert_eq!(again, first, "a second job is refused for as long as the lock is there");
    assert_eq!(daemon.stop().await, 0);
}

/// Log lines, and results and failures of children, with a `prefix` of its own.
#[tokio::test(flavor = "multi_thread")]
async fn all_keys_of_a_job_of_bullmq_go_with_it() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let yaml = on(&server, &BULLMQ.replace("preset: bullmq,", "preset: bullmq, prefix: '{shop}',"));
    bullmq(&server, "{shop}/mails logged 3600000").await;
    bullmq(&server, "{shop}/mails flow 3600000").await;
    let keys = async || {
        let mut keys: Vec<String> = server.client().await.keys("{shop}:mails:*").await.expect("the server answers");
        keys.retain(|key| ["logged", "parent"].iter().any(|id| key.split(':').any(|part| part == *id)));
        keys.sort();
        keys
    };
    let jobs = ["{shop}:mails:logged", "{shop}:mails:parent"];
    let before = keys().await;
    for key in ["{shop}:mails:logged:logs", "{shop}:mails:parent:processed", "{shop}:mails:parent:failed"] {
        assert!(before.iter().any(|known| known == key), "BullMQ writes no {key}: {before:?}");
    }
    let mut daemon = Daemon::start(&yaml).await;
    let as_operator = |words: &[&str]| {
        let output = cli(&ConfigFile::new(&yaml), words);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    // What BullMQ holds back is said.
    let live = async |config: &str| {
        let output = cli(&ConfigFile::new(config), &["check", "--live"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(!live(&yaml).await.contains("paused in BullMQ"));
    bullmq(&server, "{shop}/mails pause").await;
    let said = live(&yaml).await;
    assert!(said.contains("it is paused in BullMQ, and this daemon delivers its jobs all the same"), "{said}");
    for id in ["logged", "parent"] {
        as_operator(&["run-now", "q", id]);
    }
    let mut bodies = arrived(&redis, 2).await;
    settled(&redis).await;
    bodies.sort();
    assert_eq!(bodies, ["{\"n\":-2}", "{\"n\":-3}"]);
    assert_eq!(keys().await, [""; 0]);
    // A cancelled one as well.
    bullmq(&server, "{shop}/mails logged 3600000").await;
    assert_eq!(keys().await, [jobs[0].to_owned(), format!("{}:logs", jobs[0])]);
    as_operator(&["cancel", "q", "logged"]);
    assert_eq!(keys().await, [""; 0]);
    // A server of asynq takes nothing of a queue whose key this is, as its inspector writes it.
    let asynq = on(&server, ASYNQ);
    assert!(!live(&asynq).await.contains("asynq"));
    redis::pipe()
        .set("asynq:{mails}:paused", 1)
        .sadd("asynq:{mails}:groups", "news")
        .exec_async(&mut redis)
        .await
        .expect("the server answers");
    let said = live(&asynq).await;
    assert!(said.contains("it is paused in asynq") && said.contains("asynq has 1 groups"), "{said}");
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_bullmq_beside_the_daemon_shares_the_jobs_and_is_named() {
    let server = RedisServer::start().await;
    let redis = server.client().await;
    let mut daemon = Daemon::start(&on(&server, BULLMQ)).await;
    let worker = Worker::of_bullmq(&server);
    let live = eventually("check to name the worker", PATIENCE, async || {
        let output = cli(daemon.config(), &["check", "--live"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.contains("a worker of BullMQ") { Ok(text) } else { Err(text) }
    })
    .await;
    assert!(live.contains("takes due jobs as well"), "{live}");
    bullmq(&server, "mails add 0 300 500").await;
    eventually("every job", PATIENCE, async || {
        let by_daemon = read_stream(&mut redis.clone(), "out").await.len();
        let by_worker = worker.count();
        if by_daemon + by_worker >= 300 { Ok(()) } else { Err(format!("{by_daemon} and {by_worker} of 300")) }
    })
    .await;
    let by_worker = worker.end().await;
    settled(&redis).await;
    let bodies = arrived(&redis, 0).await;
    let once: BTreeSet<&str> = bodies.iter().map(String::as_str).chain(by_worker.iter().map(String::as_str)).collect();
    println!("of 300: BullMQ {}, delaybridge {}", by_worker.len(), bodies.len());
    assert_eq!((once.len(), bodies.len() + by_worker.len()), (300, 300));
    let counts = json(&bullmq(&server, "mails counts").await);
    assert_eq!((&counts["delayed"], &counts["waiting"], &counts["active"]), (&0.into(), &0.into(), &0.into()));
    assert_eq!(daemon.stop().await, 0);
}
