//! A daemon with few file descriptors and many clients.

use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::net::TcpStream;

use crate::faults::rig::{elements, pass};
use crate::http::receiver::Receiver;
use harness::daemon::Daemon;
use harness::ports::free_port;
use harness::redisson::redis_now_ms;
use harness::{Oracle, RedisServer, RedissonQueue, eventually, http};

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn idle_clients_leave_descriptors_for_probes_and_the_soft_limit_is_raised() {
    let redis = RedisServer::start().await;
    let port = free_port();
    let yaml = format!("redis: {{ url: \"{}\" }}\njobs: {{ listen: '127.0.0.1:{port}' }}\n", redis.url());
    let mut daemon = Daemon::spawn_held(&yaml);
    daemon.expect_log("fewer connections for clients of the job queue").expect_log("connections");
    let pid = Pid::from_raw(i32::try_from(daemon.pid()).expect("a pid"));
    // As a system with a soft limit of a third of the hard one.
    let limit = Rlimit { current: Some(100), maximum: Some(300) };
    prlimit(pid, Resource::Nofile, limit).expect("limit the daemon");
    daemon.release();
    daemon.wait_ready().await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).expect("its limits");
    let files: Vec<&str> =
        limits.lines().find(|line| line.starts_with("Max open files")).expect("a line").split_whitespace().collect();
    assert_eq!(files[3..5], ["300", "300"], "{limits}");

    let mut idle = Vec::new();
    for _ in 0..400 {
        idle.push(TcpStream::connect(("127.0.0.1", port)).await.expect("the kernel takes it"));
    }
    // As many as may be are open, and the daemon's own ones work.
    let open = || std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).expect("its descriptors").count();
    eventually("the clients to be taken", PATIENCE, async || {
        if open() >= 150 { Ok(()) } else { Err(format!("{} descriptors", open())) }
    })
    .await;
    for path in ["/livez", "/readyz", "/metrics"] {
        let answer = daemon.get(path).await.unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    }
    // A client that asks for something gets the place of one that does not.
    let answer = http::get(port, "/v1/topics", PATIENCE).await.expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(open() < 300, "{} descriptors", open());
    daemon.stop().await;
}

#[tokio::test]
async fn used_up_descriptors_are_one_line_and_a_count_and_delivery_goes_on() {
    const LINE: &str = "no file descriptor for a connection";
    let redis = RedisServer::start().await;
    let hook = Receiver::start(&["http/1.1"]).await;
    let yaml = format!(
        "redis: {{ url: '{}' }}\n\
         sinks: {{ out: {{ http: {{ url: 'https://localhost:{}/', tls: {{ ca_file: '{}' }} }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, to: [{{ sink: out }}] }} }}\n",
        redis.url(),
        hook.port,
        hook.pki.ca.display(),
    );
    let mut daemon = Daemon::spawn_held(&yaml);
    daemon.expect_log(LINE).expect_log("may need more file descriptors").expect_log("sink down");
    let pid = Pid::from_raw(i32::try_from(daemon.pid()).expect("a pid"));
    let limit = Rlimit { current: Some(150), maximum: Some(150) };
    prlimit(pid, Resource::Nofile, limit).expect("limit the daemon");
    daemon.release();
    daemon.wait_ready().await;

    // As many silent clients of the probes as there are descriptors.
    let mut idle = Vec::new();
    for _ in 0..150 {
        idle.push(TcpStream::connect(("127.0.0.1", daemon.http_port())).await.expect("the kernel takes it"));
    }
    let lines = || daemon.log().all().into_iter().filter(|line| line.contains(LINE)).collect::<Vec<_>>();
    eventually("a line about the listener", PATIENCE, async || {
        lines()
            .first()
            .filter(|line| line.contains("http.listen"))
            .map(drop)
            .ok_or_else(|| daemon.log().all().join("\n"))
    })
    .await;
    // Nor can the sink connect.
    let queue = RedissonQueue::new("q");
    let mut client = redis.client().await;
    let now = redis_now_ms(&mut client).await;
    let offered = elements(&queue, "late", 20, now, 0);
    queue.offer_bulk(&mut client, &offered).await;
    eventually("the sink to be down for it", PATIENCE, async || {
        let down =
            daemon.log().all().iter().any(|line| line.contains("sink down") && line.contains("oo many open files"));
        if down { Ok(()) } else { Err(daemon.log().all().join("\n")) }
    })
    .await;
    // In this time the listener tries 30 times.
    pass(Duration::from_secs(3)).await;
    assert_eq!(lines().len(), 1, "{:?}", lines());

    drop(idle);
    let mut oracle = Oracle::new();
    oracle.offered(&offered);
    eventually("all elements to arrive", PATIENCE, async || oracle.judge(&hook.deliveries()).complete().map(drop))
        .await;
    let count = daemon.metric("delaybridge_out_of_descriptors_total").await;
    assert!(count >= 20.0, "{count}");
    daemon.stop().await;
}
