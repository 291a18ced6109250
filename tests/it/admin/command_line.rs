//! Commands over a daemon have the same results as over Redis.

use std::process::Output;

use serde_json::Value;

use super::start;
use crate::harness::RedisServer;
use crate::harness::daemon::{Daemon, cli};

fn done(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    out.into_owned()
}

/// A command over Redis, and over the daemon.
fn both(daemon: &Daemon, port: u16, arguments: &[&str]) -> [Output; 2] {
    let url = format!("http://127.0.0.1:{port}");
    let over: Vec<&str> = arguments.iter().copied().chain(["--daemon", url.as_str()]).collect();
    [cli(daemon.config(), arguments), cli(daemon.config(), &over)]
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_over_a_daemon_have_the_results_that_they_have_over_redis() {
    let redis = RedisServer::start().await;
    let (mut daemon, port) = start(&redis).await;
    let same = |arguments: &[&str], text: &dyn Fn(String) -> String| {
        let [one, other] = both(&daemon, port, arguments).map(|output| text(done(&output)));
        assert_eq!(one, other, "{arguments:?}");
        one
    };
    // Times of two looks differ.
    let steady = |text: String| {
        let mut value: Value = serde_json::from_str(&text).expect("JSON");
        for queue in value["queues"].as_array_mut().expect("queues") {
            queue["now_ms"] = Value::Null;
            // Redis does not know what a daemon holds.
            let _ = queue.as_object_mut().expect("a queue").remove("here");
        }
        let _ = value.as_object_mut().expect("an object").remove("sinks");
        value.to_string()
    };
    let found = same(&["queues", "--output", "json"], &steady);
    assert!(found.contains(r#""queue":"orders""#) && found.contains(r#""scheduled":30"#), "{found}");
    same(&["queues"], &|text| {
        text.lines().map(|line| line.split("  in ").next().unwrap_or_default().to_owned()).collect()
    });

    let url = format!("http://127.0.0.1:{port}");
    let paused =
        done(&cli(daemon.config(), &["pause", "orders", "--why", "x", "--by", "ann", "--for", "2h", "--daemon", &url]));
    assert!(paused.starts_with("orders: paused until "), "{paused}");
    let shown = done(&cli(daemon.config(), &["queues"]));
    assert!(shown.contains("by ann (local): x"), "{shown}");
    assert_eq!(
        done(&cli(daemon.config(), &["resume", "orders"])),
        "orders: resumed; it was paused by ann (local): x\n"
    );
    assert_eq!(done(&cli(daemon.config(), &["resume", "orders", "--daemon", &url])), "orders: was not paused\n");

    let [one, other] = both(&daemon, port, &["resume", "order"]);
    assert_eq!(
        (one.status.code(), &one.stderr),
        (other.status.code(), &other.stderr),
        "the same words for the same mistake"
    );
    let nobody = cli(daemon.config(), &["queues", "--daemon", "http://127.0.0.1:1"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("`http.admin`"));
    let piped = cli(daemon.config(), &["top", "--daemon", &url]);
    assert!(String::from_utf8_lossy(&piped.stderr).contains("queues --watch"), "no terminal, no `top`");
    assert_eq!(daemon.stop().await, 0);
}
