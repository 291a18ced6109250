//! Bodies for every endpoint that reads one, of the most expensive shapes: many small values, deep ones, long names,
//! escapes, compressed and not. The daemon's memory stays within a stated multiple of the limit for bodies, and no body
//! causes an internal error.

use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use harness::RedisServer;
use harness::daemon::Daemon;
use harness::eventually;
use harness::ports::free_port;

/// Maximum size of a body, uncompressed: the default of `max_body`.
const LARGEST: usize = 4 << 20;
/// The limit for all bodies of the job queue (docs/http-api.md), in bytes; operators have another one, of a megabyte
/// per body.
const ROOM: usize = 64 << 20;
/// The memory of an idle daemon in a test build, in bytes.
const AT_REST: usize = 64 << 20;
/// Number of concurrent requests.
const AT_ONCE: usize = 16;

/// The endpoints of the job queue and, below, of operators. `#` stands for the value.
const JOBS: [(&str, &str, &str); 25] = [
    ("POST", "/v1/topics/t/jobs", r#"{"body":#}"#),
    ("POST", "/v1/topics/t/jobs", r#"{"id":#,"body":1}"#),
    ("POST", "/v1/topics/t/jobs?delay=1s", "#"),
    ("POST", "/v1/topics/t/jobs/batch", r#"{"jobs":#}"#),
    ("POST", "/v1/topics/t/jobs/batch", r#"{"jobs":[{"body":#},{"body":#}]}"#),
    ("PUT", "/v1/jobs/t~x/finish", r#"{"token":#}"#),
    ("PUT", "/v1/jobs/t~x/release", r#"{"reason":#}"#),
    ("PUT", "/v1/jobs/t~x/touch", r#"{"ttr":#}"#),
    ("PUT", "/v1/jobs/t~x/bury", "#"),
    ("PATCH", "/v1/jobs/t~x", r#"{"body":#}"#),
    ("PATCH", "/v1/jobs/t/x", r#"{"delay":"1h","content_type":#}"#),
    ("POST", "/v1/jobs/finish", r#"{"jobs":#}"#),
    ("POST", "/v1/jobs/release", r#"{"jobs":[{"id":#,"token":#}],"reason":#}"#),
    ("POST", "/v1/jobs/touch", "#"),
    ("POST", "/v1/topics/t/empty", r#"{"limit":#}"#),
    ("POST", "/v1/topics/t/jobs", r#"{"body":1,"unique":#,"unique_for":"1h"}"#),
    ("PUT", "/v1/topics/t/recurring/r", r#"{"cron":"30 4 * * *","body":#}"#),
    ("PUT", "/v1/topics/t/recurring/r", r#"{"cron":#,"zone":#,"missed":"all","body":1}"#),
    ("PUT", "/v1/topics/t/limits", r#"{"ttr_ms":#}"#),
    ("POST", "/v1/topics/t/dead/purge", r#"{"ids":#}"#),
    ("POST", "/v1/topics/t/dead/redrive", "#"),
    ("PUT", "/api/n/q/bulk", "#"),
    ("PUT", "/api/n/q", "#"),
    ("POST", "/push", r#"{"id":"a","topic":"t","delay":1,"ttr":1,"body":#}"#),
    ("POST", "/token/n", "description=#&a=#"),
];
const OPERATORS: [(&str, &str, &str); 10] = [
    ("POST", "/v1/queues/orders/pause", r#"{"why":#}"#),
    ("POST", "/v1/queues/orders/dead/purge", r#"{"filter":{"code":#},"dry_run":true}"#),
    ("POST", "/v1/queues/orders/dead/redrive", r#"{"ids":#}"#),
    ("POST", "/v1/queues/orders/elements/x/reschedule", "#"),
    ("POST", "/v1/queues/orders/elements/x/kill", r#"{"by":#,"why":#}"#),
    ("POST", "/v1/queues/orders/search", r#"{"fields":#}"#),
    ("POST", "/v1/queues/orders/search", r#"{"fields":["a=1"],"after":#}"#),
    ("POST", "/v1/queues/orders/dead/import?run=1&first=1", "#"),
    ("POST", "/v1/sinks/out/pause", "#"),
    ("POST", "/login", "token=#"),
];

/// The indices in [`JOBS`] of a body, of jobs, of a token, of jobs to settle, of a recurring body, and of a list of lmstfy.
const WORST_FIRST: [usize; 6] = [0, 3, 5, 11, 16, 21];

/// Four megabytes of the smallest values, which are half a gigabyte as a tree.
fn small_values() -> String {
    format!("[{}0]", "[0],".repeat(LARGEST / 4 - 64))
}

/// A value that is short when compressed, and long or numerous when decoded.
fn value(random: &mut Rng) -> String {
    let parts = [
        ("[", "[0],", "0]"),
        ("[", "0,", "0]"),
        ("[", "{},", "{}]"),
        ("[", r#"{"body":1},"#, "1]"),
        ("{", r#""a":0,"#, r#""a":0}"#),
        ("{", r#""":[],"#, r#""b":0}"#),
        ("", "[", ""),
        ("", r#"{"a":"#, ""),
        ("\"", "a", "\""),
        ("\"", r"\u0000", "\""),
        ("\"", r"\ud83d\ude00", "\""),
        ("", "9", ""),
        ("", "a&", ""),
        ("", "a=b&", ""),
        ("", " ", "1"),
    ];
    let (head, part, tail) = parts[random.usize(..parts.len())];
    let length = random.choice([10, 20_000, LARGEST / 8, LARGEST / 2, LARGEST - 200, LARGEST + 1]).unwrap_or(10);
    [head, &part.repeat(length / part.len()), tail].concat()
}

/// Sends a request; returns the status, or `None` if the connection ends without a response.
async fn send(port: u16, (method, path, shape): (&str, &str, &str), body: Vec<u8>, packed: bool) -> Option<u16> {
    let kind = if shape.starts_with(['{', '#']) {
        "application/json"
    } else {
        "application/x-www-form-urlencoded\r\norigin: http://localhost"
    };
    let coding = if packed { "content-encoding: gzip\r\n" } else { "" };
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\n{coding}content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    let mut connection = TcpStream::connect(("127.0.0.1", port)).await.expect("the daemon listens");
    // For a body that is too large, the server responds and closes the connection before all of it is written.
    let written = connection.write_all(&[head.as_bytes(), &body].concat()).await;
    drop(written);
    let mut read = Vec::new();
    let whole = tokio::time::timeout(Duration::from_secs(60), connection.read_to_end(&mut read)).await;
    assert!(whole.is_ok(), "no end of the answer to {method} {path}");
    std::str::from_utf8(read.get(9..12)?).ok()?.parse().ok()
}

#[tokio::test]
async fn bodies_of_the_worst_shapes_take_a_stated_multiple_of_what_is_admitted() {
    let redis = RedisServer::start().await;
    let port = free_port();
    let yaml = format!(
        "redis: {{ url: \"{}\" }}\njobs: {{ listen: \"127.0.0.1:{port}\", compat: [lmstfy, ouqiang], defaults: {{ max_body: 8MiB, max_jobs: 8 }} }}\n\
         sinks: {{ out: {{ redis: {{ list: done }} }} }}\n\
         queues: {{ orders: {{ source: {{ zset: {{ key: due, score: ms, id: \"${{payload.id}}\" }} }}, codec: json, to: [{{ sink: out }}] }} }}\n",
        redis.url()
    );
    let (mut daemon, admin) = Daemon::start_for_operators(&yaml).await;
    daemon.expect_log("refused a request").expect_log("an operator's change failed");
    eventually("the job queue's port", Duration::from_secs(10), async || {
        TcpStream::connect(("127.0.0.1", port)).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    let mut random = seeded("bodies");
    let mut started = Instant::now();
    let mut runs = 0;
    let mut worst = 0;
    let mut statuses = std::collections::BTreeMap::<u16, u64>::new();
    // First the body that would be the largest tree, to each endpoint that keeps or searches one; then whatever is drawn.
    let mut first = WORST_FIRST.iter();
    loop {
        let (to, endpoint, mut body, packed) = match first.next() {
            Some(place) => {
                started = Instant::now();
                (port, JOBS[*place], JOBS[*place].2.replace('#', &small_values()).into_bytes(), true)
            }
            None if started.elapsed() >= time() => break,
            None => {
                let (to, endpoint) = match random.u8(..4) {
                    0 => (admin, OPERATORS[random.usize(..OPERATORS.len())]),
                    _ => (port, JOBS[random.usize(..JOBS.len())]),
                };
                let mut body = endpoint.2.replace('#', &value(&mut random)).into_bytes();
                if random.u8(..4) == 0 {
                    body = damaged(&mut random, body);
                }
                (to, endpoint, body, random.u8(..4) > 0)
            }
        };
        if packed {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
            gzip.write_all(&body).expect("memory");
            body = gzip.finish().expect("memory");
        }
        let sent = (0..AT_ONCE).map(|_| send(to, endpoint, body.clone(), packed));
        for status in futures_util::future::join_all(sent).await.into_iter().flatten() {
            assert_ne!(status, 500, "{} {}", endpoint.0, endpoint.1);
            *statuses.entry(status).or_default() += 1;
        }
        worst = worst.max(daemon.usage().peak);
        runs += AT_ONCE;
    }
    println!("bodies: {runs} requests, answers {statuses:?}, {} MiB resident at the peak", worst >> 20);
    assert!(worst < (AT_REST + ROOM) as u64, "{} MiB resident at the peak", worst >> 20);
    assert!(daemon.get("/livez").await.is_ok_and(|answer| answer.status == 200));
}
