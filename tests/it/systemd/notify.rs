//! The daemon's notifications to a socket like that of systemd.

use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::net::UnixDatagram;

use harness::{Daemon, Mode, Proxy, RedisServer};

const PATIENCE: Duration = Duration::from_secs(30);

struct Manager {
    dir: TempDir,
    socket: UnixDatagram,
    said: Vec<String>,
}

impl Manager {
    fn listen() -> Self {
        let dir = TempDir::with_prefix("delaybridge-notify-").expect("make a directory for the socket");
        let socket = UnixDatagram::bind(dir.path().join("notify")).expect("listen as systemd does");
        Manager { dir, socket, said: Vec::new() }
    }

    fn address(&self) -> String {
        self.dir.path().join("notify").to_str().expect("a path in UTF-8").to_owned()
    }

    /// Reads until a datagram contains these words; returns the datagram.
    async fn hears(&mut self, words: &str) -> String {
        let mut buffer = [0; 4096];
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            let Ok(length) = tokio::time::timeout_at(until, self.socket.recv(&mut buffer)).await else {
                panic!("waited {PATIENCE:?} for {words:?}; said so far:\n{}", self.said.concat());
            };
            let length = length.expect("read from the socket");
            let text = String::from_utf8(buffer[..length].to_vec()).expect("a message in UTF-8");
            self.said.push(text.clone());
            if text.contains(words) {
                return text;
            }
        }
    }

    fn has_heard(&self, words: &str) -> bool {
        self.said.iter().any(|text| text.contains(words))
    }
}

fn yaml(redis: &str) -> String {
    format!(
        "redis: {redis}\nsinks: {{ out: {{ stdout: }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: notified }} }}, to: [{{ sink: out }}] }} }}\n"
    )
}

#[tokio::test]
async fn ready_means_that_the_daemon_can_claim_and_the_status_names_the_problem() {
    let server = RedisServer::start().await;
    let mut manager = Manager::listen();
    let proxy = Proxy::start(server.port()).await;
    proxy.set_mode(Mode::Refuse);
    let environment = [("NOTIFY_SOCKET", &*manager.address()), ("WATCHDOG_USEC", "2000000")];
    let mut daemon = Daemon::spawn_with(&yaml(&format!("{{ url: '{}' }}", proxy.url())), &environment);
    daemon.expect_log("cannot reach Redis").expect_log("queue on hold");

    manager.hears("STATUS=Redis unreachable for ").await;
    manager.hears("WATCHDOG=1").await;
    assert!(!manager.has_heard("READY"), "{:?}", manager.said);
    proxy.set_mode(Mode::Pass);
    manager.hears("READY=1").await;
    assert_eq!(daemon.get("/startupz").await.expect("it answers").status, 200);
    manager.hears("WATCHDOG=1").await;

    let mut redis = server.client().await;
    let key = "redisson_delay_queue_timeout:{notified}";
    redis::cmd("SET").arg(key).arg("not a sorted set").exec_async(&mut redis).await.unwrap();
    let held = manager.hears("STATUS=queues on hold: 1 of 1 (q for ").await;
    assert!(held.contains(key), "{held}");
    redis::cmd("DEL").arg(key).exec_async(&mut redis).await.unwrap();
    manager.hears("STATUS=no problems; queues: 1, sinks: 1").await;

    // `systemctl reload` of a unit with `Type=notify-reload` waits for these, in this order.
    daemon.signal(Signal::HUP);
    assert!(manager.hears("RELOADING=1").await.contains("MONOTONIC_USEC="));
    manager.hears("READY=1").await;

    daemon.signal(Signal::TERM);
    // 25 seconds for the drain and 5 for closing.
    assert_eq!(manager.hears("STOPPING=1").await, "STOPPING=1\nEXTEND_TIMEOUT_USEC=30000000\n");
    assert_eq!(daemon.wait_exit(PATIENCE).await, 0);
    assert_eq!(manager.said.iter().filter(|text| text.contains("READY")).count(), 2);
}

#[tokio::test]
async fn the_watchdog_of_another_process_is_not_notified_and_a_password_comes_as_a_credential() {
    let server = RedisServer::start().await;
    let mut manager = Manager::listen();
    let mut user = redis::cmd("ACL");
    user.arg(&["SETUSER", "default", "resetpass", ">geheim"]);
    user.exec_async(&mut server.client().await).await.expect("give the default user a password");
    std::fs::write(manager.dir.path().join("redis"), "geheim\n").unwrap();
    let credentials = manager.dir.path().to_str().unwrap().to_owned();
    let environment = [
        ("NOTIFY_SOCKET", &*manager.address()),
        ("WATCHDOG_USEC", "100000"),
        ("WATCHDOG_PID", "1"),
        ("CREDENTIALS_DIRECTORY", &credentials),
    ];
    let redis =
        format!("{{ url: 'redis://127.0.0.1:{}', password_file: '${{CREDENTIALS_DIRECTORY}}/redis' }}", server.port());
    let mut daemon = Daemon::spawn_with(&yaml(&redis), &environment);
    manager.hears("READY=1").await;
    daemon.signal(Signal::TERM);
    manager.hears("STOPPING=1").await;
    assert_eq!(daemon.wait_exit(PATIENCE).await, 0);
    assert!(!manager.has_heard("WATCHDOG"), "{:?}", manager.said);
}

#[tokio::test]
async fn without_a_service_manager_it_warns_once_and_delivers() {
    let server = RedisServer::start().await;
    let environment = [("NOTIFY_SOCKET", "/nowhere/notify"), ("WATCHDOG_USEC", "20000")];
    let mut daemon = Daemon::spawn_with(&yaml(&format!("{{ url: '{}' }}", server.url())), &environment);
    daemon.expect_log("cannot notify systemd");
    daemon.wait_ready().await;
    assert_eq!(daemon.stop().await, 0);
    let lines = daemon.log().all().into_iter().filter(|line| line.contains("cannot notify systemd"));
    assert_eq!(lines.count(), 1);
}
