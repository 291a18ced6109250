//! Four clients add jobs, twenty take them, and some of these are killed with `kill -9` all the time: each job is
//! finished once, or dead after its tries; none vanishes, none is finished by two.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::start;
use harness::RedisServer;
use harness::daemon::cli;
use harness::eventually;
use harness::process::{Process, command};

const PRODUCERS: usize = 4;
const CONSUMERS: usize = 20;

fn program(name: &str, file: &str, arguments: &[String]) -> Process {
    let mut python = command("python3");
    python.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/api").join(file)).args(arguments);
    python.stdin(Stdio::null()).stdout(Stdio::null());
    Process::spawn(name, python)
        .unwrap_or_else(|error| panic!("start {name}: {error}; python3 is installed by `make setup`"))
}

/// Number of waiting and reserved jobs, and of dead ones.
async fn jobs_left(redis: &RedisServer) -> (u64, u64) {
    let mut client = redis.client().await;
    let mut look = redis::pipe();
    for place in ["due", "reserved", "dead"] {
        look.zcard(format!("delaybridge:jobs:{place}:{{crowd}}"));
    }
    let (due, reserved, dead): (u64, u64, u64) = look.query_async(&mut client).await.expect("count jobs");
    (due + reserved, dead)
}

#[tokio::test]
async fn every_job_is_finished_once_while_consumers_are_killed() {
    let (jobs, pause) = match std::env::var("DELAYBRIDGE_LONG") {
        Ok(_) => (100_000, Duration::from_secs(1)),
        Err(_) => (3_000, Duration::from_millis(150)),
    };
    let redis = RedisServer::start().await;
    let (mut daemon, port) = start(&redis, "", "").await;
    let directory = TempDir::with_prefix("delaybridge-jobs-").expect("make a directory for notes");
    let mut born = 0;
    let mut consumer = || {
        born += 1;
        let notes = directory.path().join(format!("{born}.notes"));
        program("consumer", "consumer.py", &[port.to_string(), "crowd".into(), notes.display().to_string()])
    };
    let mut consumers: Vec<Process> = (0..CONSUMERS).map(|_| consumer()).collect();
    let each = jobs / PRODUCERS;
    let mut producers: Vec<Process> = (0..PRODUCERS)
        .map(|n| {
            let arguments = [port.to_string(), "crowd".into(), (n * each).to_string(), each.to_string()];
            program("producer", "producer.py", &arguments)
        })
        .collect();

    let mut killed = 0;
    let mut at = 0;
    let began = Instant::now();
    loop {
        tokio::time::sleep(pause).await;
        consumers[at].kill();
        consumers[at] = consumer();
        (killed, at) = (killed + 1, (at + 7) % CONSUMERS);
        if producers.iter_mut().all(|producer| producer.exit_status().is_some()) {
            break;
        }
    }
    for producer in &mut producers {
        assert!(producer.exit_status().is_some_and(|status| status.success()), "a producer failed");
    }
    // Each 500th is poison.
    let poison = (0..each * PRODUCERS).filter(|number| number % 500 == 7).count();
    eventually("every job to be gone or dead", Duration::from_secs(60), async || {
        let left = jobs_left(&redis).await;
        if left == (0, poison as u64) { Ok(()) } else { Err(format!("{left:?} jobs are left")) }
    })
    .await;
    drop(consumers);
    println!("{jobs} jobs in {:?}, {killed} consumers killed, {poison} dead after their tries", began.elapsed());
    let dead = cli(daemon.config(), &["jobs", "dead", "ls", "crowd", "--limit", "10000", "--output", "json"]);
    let dead: serde_json::Value = serde_json::from_slice(&dead.stdout).expect("JSON");
    for job in dead["jobs"].as_array().expect("a list") {
        let number: usize = job["id"].as_str().and_then(|id| id.strip_prefix("crowd~j")?.parse().ok()).expect("an id");
        assert_eq!((number % 500, &job["attempts"], &job["reason"]), (7, &3.into(), &"ttr".into()), "{job}");
    }

    let mut begun = BTreeSet::new();
    let mut finished = BTreeMap::new();
    for file in std::fs::read_dir(directory.path()).expect("read the notes") {
        let notes = std::fs::read_to_string(file.expect("a file").path()).expect("read notes");
        for line in notes.lines() {
            match line.split_once(' ') {
                Some(("begin", id)) => {
                    begun.insert(id.to_owned());
                }
                Some(("204", id)) => *finished.entry(id.to_owned()).or_insert(0) += 1,
                _ => {}
            }
        }
    }
    assert_eq!(begun.len(), each * PRODUCERS, "jobs that no consumer ever had");
    let twice: Vec<_> = finished.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "finished by two: {twice:?}");
    // A consumer killed between the response and its record may hide the end of one job.
    let unnoted = begun.len() - poison - finished.len();
    assert!(
        unnoted <= killed,
        "{unnoted} jobs are gone without anybody who finished them; {killed} consumers were killed"
    );
    assert!(killed >= 5, "only {killed} consumers were killed");
    assert_eq!(daemon.metric("delaybridge_api_requests_total{status=\"500\"}").await, 0.0);
    assert_eq!(daemon.stop().await, 0);
}
