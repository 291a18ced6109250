//! A configuration that comes by standard input: `--config -`.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use redis::AsyncCommands;
use rustix::process::Signal;

use super::Answer;
use harness::daemon::{ConfigFile, command_line};
use harness::{Daemon, RedisServer, eventually};

const PATIENCE: Duration = Duration::from_secs(30);

fn yaml(url: &str) -> String {
    format!(
        "redis: {{ url: \"{url}\" }}\nsinks: {{ out: {{ redis: {{ list: done }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: orders }} }}, codec: raw, to: [{{ sink: out }}] }} }}\n"
    )
}

/// Runs a command with this on standard input.
fn with_input(arguments: &[&str], input: &[u8]) -> Answer {
    let mut command: Command = command_line(&ConfigFile::new(""), arguments);
    command.arg("--config").arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("run the command");
    // It may end before it has read all.
    let _ = child.stdin.take().expect("stdin is piped").write_all(input);
    Answer::of(child.wait_with_output().expect("its output"))
}

#[tokio::test]
async fn a_configuration_by_standard_input_is_checked_and_bounded() {
    let redis = RedisServer::start().await;
    let good = with_input(&["check"], yaml(&redis.url()).as_bytes());
    assert_eq!(good.code, 0, "{}", good.err);
    assert!(good.out.contains("- can be run"), "{}", good.out);
    let bad = with_input(&["check"], b"redis: 5\n");
    assert_eq!(bad.code, 2);
    assert!(bad.out.contains("-:1:8: redis"), "{}", bad.out);
    let endless = with_input(&["check"], &vec![b'#'; (16 << 20) + 1]);
    assert_eq!(endless.code, 2);
    assert!(endless.out.contains("larger than 16 MiB"), "{}", endless.out);
}

#[tokio::test]
async fn standard_input_is_either_the_configuration_or_the_payload() {
    let redis = RedisServer::start().await;
    let text = yaml(&redis.url());
    for arguments in [&["offer", "q", "--delay", "1h", "-"][..], &["dead", "redrive", "q", "-"]] {
        let refused = with_input(arguments, text.as_bytes());
        assert_eq!(refused.code, 2, "{arguments:?}: {}{}", refused.out, refused.err);
        let words = ["the configuration came by it", "standard input was read for something else"];
        assert!(words.iter().any(|words| refused.err.contains(words)), "{arguments:?}: {}", refused.err);
    }
    let keys: Vec<String> = redis.client().await.keys("*").await.expect("the keys");
    assert!(keys.is_empty(), "{keys:?}");
    let offered = with_input(&["offer", "q", "--delay", "1h", "--payload", "hello"], text.as_bytes());
    assert_eq!(offered.code, 0, "{}", offered.err);
}

#[tokio::test]
async fn a_daemon_runs_with_it_and_a_reload_reads_the_same_text() {
    let redis = RedisServer::start().await;
    let mut daemon = Daemon::start_by_standard_input(&yaml(&redis.url())).await;
    let mut client = redis.client().await;
    let watcher = client.clone();
    let delivered = async |count: u64| {
        let mut client = watcher.clone();
        eventually("an element to be delivered", PATIENCE, async || {
            let now: u64 = client.llen("done").await.map_err(|error| error.to_string())?;
            if now == count { Ok(()) } else { Err(format!("{now} delivered")) }
        })
        .await;
    };
    let _: () = client.rpush("orders", "first").await.expect("an element");
    delivered(1).await;
    daemon.signal(Signal::HUP);
    eventually("the reload", PATIENCE, async || {
        if daemon.log().contain("reloaded") { Ok(()) } else { Err(daemon.log().all().join("\n")) }
    })
    .await;
    let _: () = client.rpush("orders", "second").await.expect("an element");
    delivered(2).await;
    assert_eq!(daemon.stop().await, 0);
}
