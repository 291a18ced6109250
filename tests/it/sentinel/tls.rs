//! Sentinels with TLS and a user of their own, with exactly the rights that `acl` prints; the servers have neither.

use std::time::Duration;

use redis::AsyncCommands;

use harness::daemon::{ConfigFile, cli};
use harness::failovers::Failover;
use harness::redisson::redis_now_ms;
use harness::sentinels::{MASTER, PASSWORD, WATCHER};
use harness::{Daemon, RedissonQueue, Sentinels, eventually};

fn config(redis: &str) -> String {
    format!(
        "redis: {{ {redis}, command_timeout: 3s, connect_timeout: 5s }}\n\
         sinks: {{ out: {{ redis: {{ stream: arrived }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: watched }} }}, to: [{{ sink: out }}] }} }}\n"
    )
}

#[tokio::test]
async fn a_master_is_found_through_sentinels_with_tls_and_a_user() {
    let mut group = Sentinels::secured().await;
    let yaml = config(&group.secured_yaml());
    let file = ConfigFile::new(&format!("http: none\n{yaml}"));
    let run = |arguments: &[&str]| {
        let output = cli(&file, arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        text(&output.stdout) + &text(&output.stderr)
    };
    // First the report of the missing rights.
    group.let_watch(&["on".to_owned(), "-@all".to_owned()]).await;
    let refused = run(&["check", "--live"]);
    assert!(refused.contains(&format!("user `{WATCHER}` may not run SENTINEL")), "{refused}");
    let printed = run(&["acl"]);
    let rules = printed.lines().find_map(|line| line.strip_prefix(&format!("ACL SETUSER {WATCHER} ")));
    let rules: Vec<_> = rules.unwrap_or_else(|| panic!("{printed}")).split(' ').map(str::to_owned).collect();
    assert!(printed.contains(&format!("sentinel of {MASTER}")), "{printed}");
    group.let_watch(&rules).await;
    let found = run(&["check", "--live"]);
    let master = format!("names 127.0.0.1:{} as the master `{MASTER}`", group.server(0).port());
    assert!(found.contains(&master) && !found.contains(PASSWORD), "{found}");

    let queue = RedissonQueue::new("watched");
    let mut daemon = Daemon::start(&yaml).await;
    for words in ["cannot reach Redis", "queue on hold", "sink down", "subscription"] {
        daemon.expect_log(words);
    }
    let arrived = async |group: &Sentinels, place: usize, count: usize| {
        eventually("the delivery", Duration::from_secs(60), async || {
            let mut redis = group.client(place).await;
            let found: usize = redis.xlen("arrived").await.map_err(|error| error.to_string())?;
            if found >= count { Ok(()) } else { Err(format!("{found} of {count}")) }
        })
        .await;
    };
    let mut redis = group.client(0).await;
    let now = redis_now_ms(&mut redis).await;
    queue.offer(&mut redis, now, "before").await;
    arrived(&group, 0, 1).await;
    // The announcement arrives over TLS too.
    let after = group.fail_over(Failover::Command).await;
    let mut redis = group.client(after.new).await;
    queue.offer(&mut redis, now, "after").await;
    arrived(&group, after.new, 2).await;
}
