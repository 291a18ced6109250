//! A rolling update of the job queue under clients that know nothing of it, behind something that sends them to the daemons
//! that are ready, as a Service of Kubernetes does, and learns with a delay that one is not.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::start;
use crate::faults::rig::{metric, pass};
use harness::{Daemon, RedisServer, http};

const CLIENTS: usize = 50;
const PATIENCE: Duration = Duration::from_secs(30);
/// The time from the moment in which a daemon is not ready to the one in which nothing is sent there any more.
const LAG: Duration = Duration::from_millis(500);

/// The daemons to which new connections go: the port of the probes with that of the job queue.
type Backends = Arc<Mutex<BTreeMap<u16, u16>>>;

/// Sends connections to the backends in turns.
async fn balance(listener: TcpListener, backends: Backends) {
    let next = AtomicUsize::new(0);
    loop {
        let (mut client, _) = listener.accept().await.expect("accept");
        let ports: Vec<u16> = backends.lock().unwrap().values().copied().collect();
        let Some(port) = ports.get(next.fetch_add(1, Ordering::Relaxed) % ports.len().max(1)).copied() else {
            continue;
        };
        tokio::spawn(async move {
            // A backend that refuses resets its client, as the kernel does with a Service.
            let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else {
                return drop(client.set_zero_linger());
            };
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        });
    }
}

/// Takes a daemon that is not ready off the list, some time later.
async fn watch(probes: u16, backends: Backends) {
    // A daemon that is slow on a busy machine is ready all the same.
    while http::get(probes, "/readyz", PATIENCE).await.is_ok_and(|answer| answer.status == 200) {
        pass(Duration::from_millis(20)).await;
    }
    pass(LAG).await;
    backends.lock().unwrap().remove(&probes);
}

/// One request on the connection, which is opened if there is none; `Err` if it was refused or reset.
async fn ask(at: SocketAddr, open: &mut Option<TcpStream>, path: &str, body: &str) -> Result<(), String> {
    let mut stream = match open.take() {
        Some(stream) => stream,
        None => TcpStream::connect(at).await.map_err(|e| format!("connect: {e}"))?,
    };
    let length = body.len();
    let request = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.map_err(|e| format!("write: {e}"))?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.map_err(|e| format!("read {path}: {e}"))?);
    }
    let head = String::from_utf8(head).expect("a head").to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).await.map_err(|e| format!("read the answer: {e}"))?;
    if !head.starts_with("http/1.1 2") {
        return Err(head);
    }
    if !head.contains("connection: close") {
        *open = Some(stream);
    }
    Ok(())
}

/// Adds a job and takes one, again and again. Returns the number of requests and those that failed.
async fn client(at: SocketAddr, stop: Arc<AtomicBool>) -> (usize, Vec<String>) {
    let mut open = None;
    let mut asked = 0;
    let mut failed = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        for (path, body) in [("/v1/topics/roll/jobs", "{\"body\":\"x\"}"), ("/v1/topics/roll/pop?wait=5s", "")] {
            asked += 1;
            if let Err(problem) = ask(at, &mut open, path, body).await {
                failed.push(problem);
            }
        }
        // Not every connection lives long.
        if asked % 10 == 0 {
            open = None;
        }
    }
    (asked, failed)
}

async fn daemon(redis: &RedisServer, delay: &str, backends: &Backends) -> Daemon {
    let (mut daemon, port) = start(redis, &format!("  shutdown_delay: {delay}\nshutdown_timeout: 30s\n"), "").await;
    // Of the test without a delay.
    daemon.expect_log("the server is stopping");
    backends.lock().unwrap().insert(daemon.http_port(), port);
    tokio::spawn(watch(daemon.http_port(), backends.clone()));
    daemon
}

/// Replaces both of two daemons under load; returns the number of requests and those that failed.
async fn roll(delay: &str) -> (usize, Vec<String>) {
    let redis = RedisServer::start().await;
    let backends = Backends::default();
    let mut daemons = Vec::new();
    for _ in 0..2 {
        daemons.push(daemon(&redis, delay, &backends).await);
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let at = listener.local_addr().expect("an address");
    let stop = Arc::new(AtomicBool::new(false));
    let balancer = tokio::spawn(balance(listener, backends.clone()));
    let clients: Vec<_> = (0..CLIENTS).map(|_| tokio::spawn(client(at, stop.clone()))).collect();
    for old in 0..2 {
        daemons.push(daemon(&redis, delay, &backends).await);
        for each in &daemons[old..] {
            metric(each, "delaybridge_api_requests_total", |requests| requests > 5.0 * CLIENTS as f64).await;
        }
        assert_eq!(daemons[old].stop().await, 0);
    }
    stop.store(true, Ordering::Relaxed);
    let mut asked = 0;
    let mut failed = Vec::new();
    for client in clients {
        let (requests, problems) = client.await.expect("a client");
        asked += requests;
        failed.extend(problems);
    }
    balancer.abort();
    (asked, failed)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_update_refuses_and_resets_no_request() {
    let (asked, failed) = roll("2s").await;
    println!("{asked} requests");
    assert!(asked > 20 * CLIENTS && failed.is_empty(), "{} of {asked} failed: {:?}", failed.len(), failed.first());
}

/// So the test above would see it.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_delay_the_same_update_refuses_requests() {
    let (asked, failed) = roll("0s").await;
    println!("{} of {asked} requests failed: {:?}", failed.len(), failed.first());
    assert!(!failed.is_empty(), "none of {asked}");
}

/// A request that does not come to its end is no element that is left over.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_request_at_the_end_is_cut_off_and_the_drain_is_complete() {
    let redis = RedisServer::start().await;
    let (mut daemon, port) = start(&redis, "  shutdown_delay: 5s\nshutdown_timeout: 10s\n", "").await;
    daemon.expect_log("were cut off at the end of the drain");
    let mut slow = TcpStream::connect(("127.0.0.1", port)).await.expect("connect");
    let head = "POST /v1/topics/slow/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n\r\nhalf";
    slow.write_all(head.as_bytes()).await.expect("half a request");
    metric(&daemon, "delaybridge_api_connections", |open| open >= 1.0).await;
    assert_eq!(daemon.stop().await, 0);
}
