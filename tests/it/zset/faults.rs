//! Kills of the daemon, lost replies, keys of another type, extreme scores, members of any size.

use std::collections::HashSet;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use super::{PATIENCE, now_ms, produce};
use harness::daemon::Daemon;
use harness::proxy::{Cut, Proxy};
use harness::{RedisServer, eventually};

fn yaml(url: &str) -> String {
    format!(
        "redis: {{ url: '{url}', command_timeout: 1s }}\nsinks: {{ out: {{ redis: {{ list: out, timeout: 1s }} }} }}\n\
         queues: {{ q: {{ source: {{ zset: {{ key: 'queues:{{mails}}:delayed', score: s }} }}, lease: 3s, to: [{{ sink: out }}] }} }}\n"
    )
}

const KEY: &str = "queues:{mails}:delayed";

/// Waits until all of them have arrived; returns the number of those that arrived more than once.
async fn all(redis: &mut MultiplexedConnection, offered: &[(i64, String)]) -> usize {
    let arrived = eventually("every element", PATIENCE, async || {
        let arrived: Vec<String> = redis.clone().lrange("out", 0, -1).await.map_err(|error| error.to_string())?;
        let different: HashSet<&String> = arrived.iter().collect();
        match offered.iter().filter(|(_, member)| !different.contains(member)).count() {
            0 => Ok(arrived),
            missing => Err(format!("{missing} of {} are missing", offered.len())),
        }
    })
    .await;
    arrived.len() - offered.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_is_killed_loses_nothing() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let now = now_ms(&mut redis).await / 1_000;
    let offered: Vec<_> = (0..3_000).map(|n| (now - 10 + n % 13, format!("element {n}"))).collect();
    produce(&mut redis, KEY, &offered).await;
    for _ in 0..3 {
        let mut daemon = Daemon::start(&yaml(&server.url())).await;
        daemon.kill();
    }
    let mut daemon = Daemon::start(&yaml(&server.url())).await;
    daemon.expect_log("leases lost");
    let twice = all(&mut redis, &offered).await;
    println!("{twice} came twice");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_of_scripts_that_are_lost_lose_nothing() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let proxy = Proxy::start(server.port()).await;
    let mut daemon = Daemon::start(&yaml(&proxy.url())).await;
    for text in ["connection", "no answer", "leases lost", "reconnect", "lost", "Redis"] {
        daemon.expect_log(text);
    }
    let cut = proxy.cut(Cut::command("EVALSHA").after(3).every(5).times(8));
    let mut offered = Vec::new();
    // How many scripts a number of elements takes depends on the load: offer until all replies are lost.
    eventually("eight replies to be lost", PATIENCE, async || {
        let now = now_ms(&mut redis).await / 1_000;
        let first = offered.len();
        let more: Vec<_> = (first..first + 100).map(|n| (now, format!("element {n}"))).collect();
        produce(&mut redis, KEY, &more).await;
        offered.extend(more);
        if cut.lost() < 8 { Err(format!("{} are lost", cut.lost())) } else { Ok(()) }
    })
    .await;
    let twice = all(&mut redis, &offered).await;
    println!("{} offered, {twice} came twice", offered.len());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_strange_in_the_key_stops_nothing_else() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    redis.set::<_, _, ()>(KEY, "no set").await.expect("the server takes it");
    // It is never ready: the queue is held from the start.
    let mut daemon = Daemon::spawn(&yaml(&server.url()));
    daemon.expect_log("queue on hold");
    eventually("the hold to be shown", PATIENCE, async || match daemon.get("/readyz").await {
        Ok(answer) if answer.status != 200 && answer.body.contains("holds a string") => Ok(()),
        other => Err(format!("{:?}", other.map(|answer| answer.body))),
    })
    .await;
    let kept: String = redis.get(KEY).await.expect("a string");
    assert_eq!(kept, "no set");
    redis.del::<_, ()>(KEY).await.expect("the server takes it");

    let now = now_ms(&mut redis).await / 1_000;
    let huge = "h".repeat(3 << 20);
    let strange = [("-inf", "at the beginning of time"), ("inf", "never"), ("0", "zero"), ("1e300", "nearly never")];
    for (score, member) in strange {
        let mut command = redis::cmd("ZADD");
        command.arg(KEY).arg(score).arg(member).exec_async(&mut redis).await.expect("the server takes it");
    }
    let mut offered = vec![(0, "at the beginning of time".to_owned()), (0, "zero".to_owned())];
    let ordinary = [(now, huge), (now, String::new()), (now, "\u{1}\u{2}binary".to_owned()), (now, "last".to_owned())];
    produce(&mut redis, KEY, &ordinary).await;
    offered.extend(ordinary);
    assert_eq!(all(&mut redis, &offered).await, 0);
    let left: Vec<String> = redis.zrange(KEY, 0, -1).await.expect("a sorted set");
    assert_eq!(left, ["nearly never", "never"]);
    daemon.stop().await;
}
