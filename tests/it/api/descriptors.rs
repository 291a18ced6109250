//! A daemon with few file descriptors and many clients.

use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::net::TcpStream;

use crate::harness::daemon::Daemon;
use crate::harness::ports::free_port;
use crate::harness::{RedisServer, eventually, http};

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
