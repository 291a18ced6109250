//! A daemon whose secrets are mounted after it has started.

use std::time::Duration;

use harness::{Daemon, RedisServer, eventually};

const PATIENCE: Duration = Duration::from_secs(60);

/// No queue delivers to the sink with the file, so that nothing else is needed for it.
fn yaml(redis: &RedisServer, more: &str) -> String {
    format!(
        "redis: {{ url: \"{}\" }}\n\
         sinks: {{ out: {{ stdout: {{}} }}, hook: {{ http: {{ url: 'http://127.0.0.1:1/', bearer_token_file: token }} }}, \
         bus: {{ amqp: {{ url: 'amqp://127.0.0.1:1', username: u, password_file: token, exchange: e }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, to: [{{ sink: out }}]{more} }} }}\n",
        redis.url()
    )
}

fn start(redis: &RedisServer, more: &str) -> Daemon {
    let mut daemon = Daemon::spawn(&yaml(redis, more));
    daemon.expect_log("waiting for a file").expect_log("configuration: ");
    daemon
}

async fn waits(daemon: &Daemon) {
    eventually("the line about the file", PATIENCE, async || {
        let lines = daemon.log().all();
        if lines.iter().any(|line| line.contains("waiting for a file")) { Ok(()) } else { Err(format!("{lines:?}")) }
    })
    .await;
}

#[tokio::test]
async fn a_file_that_comes_later_is_waited_for() {
    let redis = RedisServer::start().await;
    let mut daemon = start(&redis, "");
    waits(&daemon).await;
    std::fs::write(daemon.file().with_file_name("token"), "geheim\n").expect("write the token");
    daemon.wait_ready().await;
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test]
async fn without_the_file_the_start_is_tried_again_and_a_wrong_configuration_is_not() {
    let redis = RedisServer::start().await;
    let mut daemon = start(&redis, "");
    assert_eq!(daemon.wait_exit(PATIENCE).await, 75, "{:?}", daemon.log().all());

    let mut stopped = start(&redis, "");
    waits(&stopped).await;
    assert_eq!(stopped.stop().await, 0, "nothing was in flight");

    let mut wrong = start(&redis, ", lease: soon");
    assert_eq!(wrong.wait_exit(PATIENCE).await, 2, "{:?}", wrong.log().all());
}
