//! A port of the design loses jobs when its processes are killed; through delaybridge the same jobs all arrive.

use std::collections::HashSet;
use std::process::{Child, Command, Stdio};

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use super::port::{self, BUCKETS};
use super::{PATIENCE, on};
use harness::oracle::read_stream;
use harness::redisson::redis_now_ms;
use harness::turn::heavy;
use harness::{Daemon, RedisServer, eventually};

/// Number of jobs, and of kills: the full size with `DELAYBRIDGE_LONG=1`.
fn size() -> (i64, usize) {
    if std::env::var_os("DELAYBRIDGE_LONG").is_some() { (100_000, 60) } else { (6_000, 12) }
}

/// Adds due jobs as the port does: to the pool, then to a bucket.
async fn add(redis: &mut MultiplexedConnection, jobs: i64) {
    let now = redis_now_ms(redis).await;
    for first in (0..jobs).step_by(1_000) {
        let mut pipe = redis::pipe();
        for id in first..(first + 1_000).min(jobs) {
            pipe.hset(port::pool(), port::field(id), port::job(id, &port::message(id), "DELAY"));
            pipe.zadd(port::bucket(id as usize % BUCKETS), port::delay_job(id, now - 1), now - 1);
        }
        pipe.exec_async(redis).await.expect("the server takes them");
    }
}

/// A process of the port, killed on drop.
struct Part(Child);

impl Part {
    fn start(server: &RedisServer, part: &str) -> Part {
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command.args(["--exact", "job_pool::port::a_process", "--ignored"]);
        command.env(port::PART, part).env(port::REDIS, server.url());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Part(command.spawn().expect("start a process of the port"))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // SIGKILL; the process may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_port_alone_loses_jobs_when_its_processes_are_killed() {
    let _turn = heavy().await;
    let (jobs, kills) = size();
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    add(&mut redis, jobs).await;
    let _timers: Vec<Part> = (0..BUCKETS).map(|n| Part::start(&server, &format!("timer {n}"))).collect();
    let mut consumers: Vec<Part> = (0..6).map(|_| Part::start(&server, "consumer")).collect();
    for kill in 1..=kills {
        let until = jobs as usize * kill / (kills + 1);
        eventually("the next jobs", PATIENCE, async || {
            let handled: usize = redis.clone().llen("handled").await.map_err(|error| error.to_string())?;
            if handled >= until { Ok(()) } else { Err(format!("{handled} handled, wanted {until}")) }
        })
        .await;
        // All consumers at once, as in a deployment.
        consumers.clear();
        consumers.extend((0..6).map(|_| Part::start(&server, "consumer")));
    }
    // Wait until nothing moves any more: no job is in a bucket or on the ready list.
    let ready = port::java("process.queueorder");
    eventually("the buckets and the ready list to be empty", PATIENCE, async || {
        let mut left = redis.clone().llen::<_, usize>(&ready).await.map_err(|error| error.to_string())?;
        for n in 0..BUCKETS {
            left += redis.clone().zcard::<_, usize>(port::bucket(n)).await.map_err(|error| error.to_string())?;
        }
        if left == 0 { Ok(()) } else { Err(format!("{left} left")) }
    })
    .await;
    // A consumer may still have a job in hand: each is to find the list empty several times.
    let polls = server.calls("lpop").await;
    eventually("the consumers to find nothing", PATIENCE, async || match server.calls("lpop").await - polls {
        more if more >= 120 => Ok(()),
        more => Err(format!("{more} polls")),
    })
    .await;
    let handled: Vec<i64> = redis.lrange("handled", 0, -1).await.expect("a list");
    let once: HashSet<i64> = handled.iter().copied().collect();
    let lost = jobs as usize - once.len();
    let twice = handled.len() - once.len();
    println!("the port alone: {jobs} jobs, {} processes killed: {lost} lost, {twice} handled twice", kills * 6);
    let in_pool: usize = redis.hlen(port::pool()).await.expect("the pool");
    assert!(in_pool >= lost, "what is lost lies in the pool for ever");
    assert!(lost > 0, "no kill met a job between two commands: the test shows nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn delaybridge_loses_none_of_the_same_jobs() {
    let _turn = heavy().await;
    let (jobs, kills) = size();
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    add(&mut redis, jobs).await;
    let queue = "  q: { source: { job_pool: { preset: youzan } }, lease: 4s, max_in_flight: 100, to: [{ sink: out, stream: out }] }\n";
    let yaml = on(&server, queue).replace("redis: {} }", "redis: { timeout: 3s } }").replacen(
        " }",
        ", command_timeout: 1900ms }",
        1,
    );
    for kill in 1..=kills {
        let mut daemon = Daemon::spawn(&yaml);
        let until = jobs as usize * kill / (kills + 1);
        eventually("the next jobs", PATIENCE, async || {
            let delivered: usize = redis.clone().xlen("out").await.map_err(|error| error.to_string())?;
            if delivered >= until { Ok(()) } else { Err(format!("{delivered} delivered, wanted {until}")) }
        })
        .await;
        daemon.kill();
    }
    let mut last = Daemon::start(&yaml).await;
    eventually("the pool to be empty", PATIENCE, async || {
        let left: usize = redis.clone().hlen(port::pool()).await.map_err(|error| error.to_string())?;
        if left == 0 { Ok(()) } else { Err(format!("{left} in the pool")) }
    })
    .await;
    let delivered = read_stream(&mut redis, "out").await;
    let arrived: HashSet<Vec<u8>> = delivered.iter().map(|delivery| delivery.payload.clone()).collect();
    let lost = (0..jobs).filter(|id| !arrived.contains(port::message(*id).as_bytes())).count();
    println!(
        "delaybridge: {jobs} jobs, {kills} daemons killed: {lost} lost, {} delivered twice",
        delivered.len() - arrived.len()
    );
    assert_eq!((lost, arrived.len()), (0, jobs as usize));
    let keys = (0..BUCKETS).map(port::bucket).chain([port::pool()]);
    for key in keys {
        assert!(!redis.exists::<_, bool>(key).await.expect("the server answers"));
    }
    assert_eq!(last.stop().await, 0);
}
