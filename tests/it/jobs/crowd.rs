//! Producers and consumers as processes, of which one consumer is killed repeatedly: every job is finished once, or
//! dead after its tries; none vanishes, and none is finished by two owners.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use delaybridge_jobs::{JobError, JobQueue, JobSettings, NewJob, SCRIPTS, Topic, TopicSettings};
use delaybridge_link::RedisEndpoint;
use delaybridge_link::{Link, LinkOptions};
use tokio::time::Instant;

use harness::RedisServer;

const CONSUMERS: usize = 20;
const PRODUCERS: usize = 4;

fn topic() -> Topic {
    "crowd".parse().expect("a topic")
}

fn settings() -> JobSettings {
    let defaults = TopicSettings { ttr: Duration::from_secs(2), tries: 3, ..TopicSettings::default() };
    JobSettings { defaults, ..JobSettings::default() }
}

async fn queue(endpoint: RedisEndpoint) -> JobQueue {
    let link = Link::start(Arc::new(endpoint), LinkOptions::default());
    link.ready().await;
    JobQueue::new(link, settings(), &SCRIPTS)
}

/// A consumer in a process of its own: it records the jobs that it is about to finish, and the finished ones.
///
/// Not a test: it does nothing unless the test below starts it.
#[tokio::test]
async fn consumer_process() {
    let (Ok(port), Ok(file)) = (std::env::var("CROWD_PORT"), std::env::var("CROWD_FILE")) else { return };
    let port = port.parse().expect("a port");
    let endpoint = RedisEndpoint {
        host: "127.0.0.1".to_owned(),
        port,
        socket: None,
        tls: None,
        database: 0,
        key_prefix: Default::default(),
        username: None,
        password: None,
        connect_timeout: Duration::from_secs(30),
        command_timeout: Duration::from_secs(30),
    };
    let jobs = queue(endpoint).await;
    let mut notes = std::fs::OpenOptions::new().create(true).append(true).open(file).expect("open the notes");
    let mut note = |text: String| notes.write_all(text.as_bytes()).expect("write a note");
    loop {
        let popped = jobs.pop_now(&topic(), 10, None).await.expect("pop").jobs;
        if popped.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for job in popped {
            let body = String::from_utf8(job.body.to_vec()).expect("a number");
            // Some are never finished, so that they die.
            if body.parse::<u32>().expect("a number") % 1000 == 7 {
                continue;
            }
            note(format!("about {body}\n"));
            match jobs.finish(&job.id, job.token).await {
                Ok(()) => note(format!("finished {body}\n")),
                Err(JobError::Conflict | JobError::NotFound) => note(format!("refused {body}\n")),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn start_consumer(port: u16, file: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "jobs::crowd::consumer_process", "--nocapture"])
        .env("CROWD_PORT", port.to_string())
        .env("CROWD_FILE", file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("start a consumer")
}

struct Consumers(Vec<Child>);

impl Drop for Consumers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_are_killed_and_every_job_is_finished_once_or_dead() {
    let long = std::env::var_os("DELAYBRIDGE_LONG").is_some();
    let (total, kill_every) = if long { (100_000, 1_000) } else { (6_000, 200) };
    let server = RedisServer::start().await;
    let notes = tempfile::tempdir().expect("a folder");
    let file = |n: usize| notes.path().join(format!("{n}"));
    let port = server.port();
    let mut consumers = Consumers((0..CONSUMERS).map(|n| start_consumer(port, &file(n))).collect());

    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let endpoint = server.endpoint();
            tokio::spawn(async move {
                let jobs = queue(endpoint).await;
                let mine: Vec<_> = (0..total).filter(|n| n % PRODUCERS == producer).collect();
                for some in mine.chunks(20) {
                    let new = some.iter().map(|n| NewJob::new(n.to_string())).collect();
                    jobs.add(&topic(), new).await.expect("add");
                    if !long {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                }
            })
        })
        .collect();

    let jobs = queue(server.endpoint()).await;
    let mut kills = 0;
    let start = Instant::now();
    let mut next = CONSUMERS;
    loop {
        tokio::time::sleep(Duration::from_millis(kill_every)).await;
        let victim = kills % CONSUMERS;
        consumers.0[victim].kill().expect("kill -9");
        consumers.0[victim].wait().expect("wait");
        consumers.0[victim] = start_consumer(port, &file(next));
        (kills, next) = (kills + 1, next + 1);
        let sizes = jobs.sizes(&topic()).await.expect("sizes");
        if producers.iter().all(|producer| producer.is_finished()) && sizes.ready + sizes.reserved + sizes.delay == 0 {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(600), "{sizes:?} after {kills} kills");
    }
    for producer in producers {
        producer.await.expect("a producer");
    }
    drop(consumers);

    let dead = jobs.sizes(&topic()).await.expect("sizes").dead;
    let mut about = HashMap::new();
    let mut finished = HashMap::new();
    let mut refused = 0;
    for n in 0..next {
        for line in std::fs::read_to_string(file(n)).unwrap_or_default().lines() {
            let Some((what, number)) = line.split_once(' ') else { continue };
            match what {
                "about" => *about.entry(number.to_owned()).or_insert(0) += 1,
                "finished" => *finished.entry(number.to_owned()).or_insert(0) += 1,
                _ => refused += 1,
            }
        }
    }
    let twice: Vec<_> = finished.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "finished by two owners: {twice:?}");
    let mut dead_numbers = Vec::new();
    while dead_numbers.len() < usize::try_from(dead).expect("a number") {
        let skip = dead_numbers.len() as u64;
        let page = jobs.peek(&topic(), delaybridge_jobs::JobState::Dead, skip, 100).await.expect("peek").jobs;
        assert!(!page.is_empty(), "{dead} are dead, {} are shown", dead_numbers.len());
        assert!(page.iter().all(|job| job.attempts == 3 && job.reason == "ttr"), "dead only after all tries");
        dead_numbers.extend(page.into_iter().map(|job| String::from_utf8(job.body.to_vec()).expect("a number")));
    }
    let is_dead: std::collections::HashSet<_> = dead_numbers.iter().cloned().collect();
    // Killed between the answer and its record: it had announced that it would finish the job.
    let unnoted = |n: &String| !finished.contains_key(n) && !is_dead.contains(n) && about.contains_key(n);
    let mut unsure = 0;
    let mut vanished = Vec::new();
    for n in (0..total).map(|n| n.to_string()) {
        assert!(!(finished.contains_key(&n) && is_dead.contains(&n)), "{n} is finished and dead");
        match finished.contains_key(&n) || is_dead.contains(&n) {
            true => {}
            false if unnoted(&n) => unsure += 1,
            false => vanished.push(n),
        }
    }
    println!(
        "{total} jobs, {kills} kills in {:?}: {} finished, {dead} dead, {unsure} finished without a note, {refused} refused",
        start.elapsed(),
        finished.len()
    );
    assert!(vanished.is_empty(), "vanished: {vanished:?}");
    assert!(unsure <= kills, "one kill leaves at most one job without a note: {unsure} after {kills}");
    assert!(dead >= total as u64 / 1000, "those that nobody finishes die: {dead}");
}
