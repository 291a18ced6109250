//! Large answers: those that nobody reads take no memory of others, and those that are asked for keep nobody else waiting.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::*;
use crate::api::start;
use harness::{Daemon, Stopwatch};

/// Clients that ask at the same time.
const AT_ONCE: usize = 60;
/// Memory of a daemon with these clients: less than it may have.
const MEMORY: u64 = 256 << 20;
/// The header of a token that may use topics of its own.
const GREEDY: (&str, &str) = ("authorization", "Bearer greedy-greedy-greedy");

/// A daemon with a tenant whose topics `g.waiting` and `g.ready` have four megabytes of jobs each: of control characters, which are
/// six times as long in JSON.
async fn with_large_jobs(redis: &RedisServer) -> (Daemon, u16, TempDir) {
    let (dir, path) = file("greedy greedy-greedy-greedy admin g.*\nother geheim-geheim-geheim admin o.*");
    let (mut daemon, port) = start(redis, "", &format!("  tokens_file: '{path}'\n")).await;
    daemon.expect_log("refused a request");
    let octets = ("content-type", "application/octet-stream");
    for (topic, delay) in [("g.waiting", "1d"), ("g.ready", "0s")] {
        for _ in 0..8 {
            let path = format!("/v1/topics/{topic}/jobs?delay={delay}");
            let added = http::send(port, "POST", &path, &[octets, GREEDY], &vec![1; 500 << 10], PATIENCE).await;
            assert_eq!(added.expect("an answer").status, 201);
        }
    }
    (daemon, port, dir)
}

/// Sends a request of the tenant's over a connection that takes little.
async fn ask_and_read_nothing(port: u16, request: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let mut stream = socket.connect(([127, 0, 0, 1], port).into()).await.expect("connect");
    let head =
        format!("{request} HTTP/1.1\r\nhost: localhost\r\n{}: {}\r\ncontent-length: 0\r\n\r\n", GREEDY.0, GREEDY.1);
    stream.write_all(head.as_bytes()).await.expect("ask");
    stream
}

/// Half of the clients look at a page of 24 MB of JSON, the others take such jobs. None of them reads more than the status.
#[tokio::test]
async fn answers_that_nobody_reads_take_bounded_memory() {
    let redis = server().await;
    let (daemon, port, _dir) = with_large_jobs(&redis).await;
    let mut unread = Vec::new();
    for n in 0..AT_ONCE {
        let request = if n % 2 == 0 {
            "GET /v1/topics/g.waiting/jobs?state=delay"
        } else {
            "POST /v1/topics/g.ready/pop?count=100"
        };
        unread.push(ask_and_read_nothing(port, request).await);
    }
    let statuses = unread.iter_mut().map(|stream| async {
        let mut line = [0; 12];
        let read = tokio::time::timeout(PATIENCE, stream.read_exact(&mut line)).await;
        read.expect("an answer within a minute").expect("an answer");
        String::from_utf8_lossy(&line[9..]).into_owned()
    });
    let statuses = futures_util::future::join_all(statuses).await;
    let peak = daemon.usage().peak;
    assert!(peak < MEMORY, "{} MiB resident at the peak, {statuses:?}", peak >> 20);
    assert!(statuses.iter().any(|status| status == "429"), "{statuses:?}");
    let other = ask(port, "GET /v1/topics/o.any/jobs", &[WITH_TOKEN], "").await;
    assert_eq!(other.status, 200, "{}", other.body);
    drop(unread);
    // Jobs whose answer had no room are not lost, and the room comes back.
    eventually("the jobs of unread answers to be ready again", PATIENCE, async || {
        let popped = ask(port, "POST /v1/topics/g.ready/pop?wait=1s", &[GREEDY], "").await;
        if popped.status == 200 { Ok(()) } else { Err(format!("{}", popped.status)) }
    })
    .await;
}

#[tokio::test]
async fn pages_of_one_caller_keep_no_other_waiting() {
    let redis = server().await;
    let (_daemon, port, _dir) = with_large_jobs(&redis).await;
    let greedy: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            tokio::spawn(async move {
                loop {
                    let path = "/v1/topics/g.waiting/jobs?state=delay";
                    let _ = http::send(port, "GET", path, &[GREEDY], b"", PATIENCE).await;
                }
            })
        })
        .collect();
    for _ in 0..10 {
        let watch = Stopwatch::start();
        let added = ask(port, "POST /v1/topics/o.small/jobs", &[JSON, WITH_TOKEN], r#"{"body":1}"#).await;
        assert_eq!(added.status, 201, "{}", added.body);
        watch.assert_within(Duration::from_secs(2), "adding a small job");
    }
    greedy.iter().for_each(tokio::task::JoinHandle::abort);
}
