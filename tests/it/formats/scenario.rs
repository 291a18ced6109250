//! A day of a daemon that leaves one of everything in Redis: elements in flight and returned, a dead letter, pauses, an owner of
//! an order, and jobs in each of their states.

use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use rustix::process::Signal;

use super::dump::Dump;
use harness::http;
use harness::ports::free_port;
use harness::{Daemon, Element, Layout, Mode, Proxy, RedisServer, RedissonQueue, eventually};

const PATIENCE: Duration = Duration::from_secs(60);

/// The latest due time of the elements; everything later is a time of the run.
pub const LATEST_DUE_MS: i64 = 1_600_000_000_000;
/// How the ids of the elements begin, in hexadecimal digits.
pub const OWN_IDS: &str = "4649584544"; // FIXED

/// The queues; `stuck` is the address of the sink that does not answer in the scenario.
pub fn configuration(server: &RedisServer, stuck: &str, jobs_port: u16) -> String {
    let patient = "connect_timeout: 60s, command_timeout: 60s, timeout: 60s";
    let queue = |name: &str, more: &str| {
        format!("  {name}: {{ source: {{ redisson: {{ name: {name} }} }}, lease: 91s, {more} }}\n")
    };
    let both = "to: [{ sink: good }, { sink: stuck }]";
    format!(
        "shutdown_timeout: 5s\nredis: {{ url: '{url}' }}\njobs: {{ listen: '127.0.0.1:{jobs_port}' }}\n\
         sinks:\n  good: {{ redis: {{ stream: good }} }}\n  \
         stuck: {{ redis: {{ url: '{stuck}', {patient}, stream: stuck }} }}\n\
         queues:\n{}{}{}{}",
        queue("returned", both),
        // With a second sink that has confirmed, a slow machine would write that into the claim before the kill.
        queue("held", "to: [{ sink: stuck }]"),
        queue("ordered", "order: queue, to: [{ sink: stuck }]"),
        queue("bad", "codec: json, to: [{ sink: good }]"),
        url = server.url(),
    )
}

/// Offers an element in each layout, and one of the ready list.
pub async fn offer(redis: &mut MultiplexedConnection, name: &str, payload: &str, ready: bool) {
    let queue = RedissonQueue::new(name);
    let element = |layout: Layout, id: [u8; 8], due_ms| {
        let payload = payload.as_bytes().to_vec();
        Element { id, due_ms, member: layout.pack(id, &payload), payload }
    };
    let new = element(Layout::New, *b"FIXEDnew", LATEST_DUE_MS - 1);
    let old = element(Layout::Old, *b"FIXEDold", LATEST_DUE_MS);
    queue.offer_bulk(redis, &[new, old]).await;
    if ready {
        queue.push_ready(redis, &[payload.as_bytes().to_vec()]).await;
    }
}

pub async fn in_flight(redis: &MultiplexedConnection, name: &str, count: usize) {
    eventually(&format!("{count} elements of {name} in flight"), PATIENCE, async || {
        match RedissonQueue::new(name).in_flight(redis).await {
            Ok(found) if found == count => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

pub async fn entries(redis: &mut MultiplexedConnection, stream: &str, count: usize) {
    eventually(&format!("{count} entries in {stream}"), PATIENCE, async || {
        match redis.xlen::<_, usize>(stream).await {
            Ok(found) if found == count => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// A request of a client of the job queue, which must succeed.
pub async fn ask(port: u16, request: &str, body: &str) -> serde_json::Value {
    let (method, path) = request.split_once(' ').expect("a method and a path");
    let headers = [("content-type", "application/json")];
    let answer = http::send(port, method, path, &headers, body.as_bytes(), PATIENCE).await.expect("an answer");
    assert!(answer.status < 300, "{request}: {} {}", answer.status, answer.body);
    serde_json::from_str(&answer.body).unwrap_or_default()
}

/// Jobs that wait, are reserved, dead, and finished.
async fn jobs(port: u16) {
    for (id, more) in [("reserved", ""), ("dead", r#","tries":1"#), ("finished", "")] {
        ask(port, "POST /v1/topics/mails/jobs", &format!(r#"{{"id":"{id}","body":"a body","ttr":"10m"{more}}}"#)).await;
        let taken = ask(port, "POST /v1/topics/mails/pop", "").await;
        let job = &taken["jobs"][0]["id"];
        let token = &taken["jobs"][0]["token"];
        let what = match id {
            "dead" => "bury",
            "finished" => "finish",
            _ => continue,
        };
        let job = job.as_str().expect("an id");
        let token = token.as_str().expect("a token");
        ask(port, &format!("PUT /v1/jobs/{job}/{what}"), &format!(r#"{{"token":"{token}"}}"#)).await;
    }
    ask(
        port,
        "POST /v1/topics/mails/jobs",
        r#"{"id":"waiting","body":"a body","due":"2096-10-02T07:06:40Z","content_type":"text/plain"}"#,
    )
    .await;
}

/// All keys after the day.
pub async fn run() -> Dump {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let proxy = Proxy::start(server.port()).await;
    let port = free_port();
    let yaml = configuration(&server, &proxy.url(), port);

    // Stopped with elements in flight, of which one sink has confirmed each.
    // The order would stay with it for the length of a lease.
    let unordered: String =
        yaml.lines().filter(|line| !line.contains("ordered:")).map(|line| format!("{line}\n")).collect();
    let mut first = Daemon::start(&unordered).await;
    proxy.set_mode(Mode::Freeze);
    offer(&mut redis, "returned", "payload", true).await;
    offer(&mut redis, "bad", "{", false).await;
    in_flight(&redis, "returned", 3).await;
    entries(&mut redis, "good", 3).await;
    entries(&mut redis, "delaybridge:dead:{bad}", 2).await;
    jobs(port).await;
    for arguments in
        [["pause", "bad", "--by", "ann", "--why", "a reason"], ["pause", "--sink=good", "--by", "ann", "--why", "why"]]
    {
        let output = first.beside(&arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    first.expect_log("dead letter stored");
    first.signal(Signal::TERM);
    let code = first.wait_exit(PATIENCE).await;
    assert!(code == 0 || code == 3, "exit code {code}");

    let output = first.beside(&["resume", "--sink=good"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Its elements are not claimed again by the second.
    let output = first.beside(&["pause", "returned", "--by", "ann", "--why", "nothing moves"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    // Killed with elements in flight.
    proxy.set_mode(Mode::Pass);
    let mut second = Daemon::start(&yaml).await;
    proxy.set_mode(Mode::Freeze);
    offer(&mut redis, "ordered", "payload", false).await;
    in_flight(&redis, "ordered", 2).await;
    offer(&mut redis, "held", "payload", true).await;
    in_flight(&redis, "held", 3).await;
    second.kill();
    Dump::read(&mut redis).await
}
