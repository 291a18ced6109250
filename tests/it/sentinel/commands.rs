//! Commands and the daemon find the master through sentinels, one of which does not answer, and all of which require a
//! password.

use std::time::Duration;

use redis::AsyncCommands;

use harness::daemon::{ConfigFile, cli};
use harness::redisson::redis_now_ms;
use harness::sentinels::{MASTER, PASSWORD};
use harness::{Daemon, RedissonQueue, Sentinels, eventually};

fn config(redis: &str) -> String {
    format!(
        "redis: {{ {redis}, command_timeout: 3s, connect_timeout: 2s }}\n\
         sinks: {{ out: {{ redis: {{ stream: arrived }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: watched }} }}, durability: {{ replicas: 3 }}, to: [{{ sink: out }}] }} }}\n"
    )
}

#[tokio::test]
async fn everything_finds_the_master_through_its_sentinels() {
    let mut group = Sentinels::with_password().await;
    group.freeze_sentinel(2);
    let ports = group.ports();
    let queue = RedissonQueue::new("watched");
    let mut redis = group.client(0).await;
    let now = redis_now_ms(&mut redis).await;
    queue.offer(&mut redis, now + 3_600_000, "later").await;

    let file = ConfigFile::new(&format!("http: none\n{}", config(&group.yaml())));
    let run = |arguments: &[&str]| {
        let output = cli(&file, arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let (code, text) = run(&["check", "--live"]);
    for part in [
        &format!("sentinel 127.0.0.1:{}", ports[0]),
        &format!("names 127.0.0.1:{} as the master `{MASTER}`", group.server(0).port()),
        "no answer within 1s",
        "set min-replicas-to-write 1 and min-replicas-max-lag 10",
        "2 replicas follow, 3 are needed: nothing is delivered",
        "1 scheduled",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    assert_eq!(code, Some(1), "a queue that cannot deliver: {text}");
    let (code, text) = run(&["queues"]);
    assert!(code == Some(0) && text.contains('q'), "{text}");
    let (code, text) = run(&["peek", "q"]);
    assert!(code == Some(0) && text.contains("later"), "{text}");
    assert!(!text.contains(PASSWORD), "{text}");

    // Without a third replica nothing is delivered; with two it is.
    let two = config(&group.yaml()).replace("replicas: 3", "replicas: 2");
    let daemon = Daemon::start(&two).await;
    queue.offer(&mut redis, now, "now").await;
    eventually("the delivery", Duration::from_secs(60), async || {
        match redis.clone().xlen::<_, usize>("arrived").await {
            Ok(1) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    drop(daemon);
    group.thaw_sentinel(2);

    let wrong = config(&group.yaml()).replace(&format!("master: {MASTER}"), "master: other");
    let file = ConfigFile::new(&format!("http: none\n{wrong}"));
    let output = cli(&file, &["queues"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("the sentinels know no master `other`: check `master`"), "{said}");
}
