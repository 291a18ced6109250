//! The operators' listener on a Unix socket, and the command line on it.

use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use harness::RedisServer;
use harness::daemon::{Daemon, cli};

/// Runs a command through the socket; returns its exit code and its output.
fn run(daemon: &Daemon, place: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let output = cli(daemon.config(), &[arguments, &["--daemon", place]].concat());
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_speaks_over_a_socket_that_only_its_owner_opens() {
    let redis = RedisServer::start().await;
    let directory = TempDir::with_prefix("delaybridge-socket-").expect("a directory");
    let path = directory.path().join("admin.sock");
    // A killed daemon leaves the file behind.
    let _ = std::os::unix::net::UnixListener::bind(&path).expect("bind");
    let yaml = format!(
        "redis: {{ url: \"{}\" }}\nsinks: {{ out: {{ redis: {{ list: done }} }} }}\nqueues:\n  \
         orders: {{ source: {{ redisson: {{ name: orders }} }}, to: [{{ sink: out }}] }}\n",
        redis.url()
    );
    let place = format!("unix:{}", path.display());
    let mut daemon = Daemon::start_for_operators_at(&place, &yaml).await;
    let mode = std::fs::metadata(&path).expect("the socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let paused = run(&daemon, &place, &["pause", "orders", "--why", "a test", "--by", "ann"]);
    assert_eq!(paused.0, Some(0), "{}", paused.1);
    let (code, text) = run(&daemon, &place, &["queues"]);
    assert!(code == Some(0) && text.contains("orders: paused") && text.contains("by ann (local): a test"), "{text}");
    assert_eq!(run(&daemon, &place, &["resume", "orders"]).0, Some(0));
    // The file and the daemon, key by key.
    let show = |daemon: &Daemon, arguments: &[&str]| {
        let output = daemon.beside(&[&["config", "show"], arguments].concat());
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let shown = show(&daemon, &["--daemon", &place]);
    assert!(shown.contains("The daemon runs with these settings."), "{shown}");
    daemon.rewrite(|text| text.replace("to: [{ sink: out", "lease: 40s, to: [{ sink: out"));
    let shown = show(&daemon, &[]);
    assert!(shown.ends_with("applies these.\n  queues.orders.lease: \"30s\" runs, \"40s\" in the file\n"), "{shown}");

    let checked = cli(daemon.config(), &["check", "--live"]);
    assert!(String::from_utf8_lossy(&checked.stdout).contains(&place), "{checked:?}");
    assert_eq!(daemon.stop().await, 0);
    assert!(!path.exists(), "the socket is removed at the end");
    let (code, text) = run(&daemon, &place, &["queues"]);
    assert!(code == Some(1) && text.contains(&place) && text.contains("http.admin"), "{text}");
}
