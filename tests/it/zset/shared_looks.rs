//! Daemons that share the looks at many sorted sets: what is added and announced by nobody arrives, whoever of them is gone.

use std::collections::HashSet;
use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use rustix::process::Signal;
use serde_json::Value;

use super::{PATIENCE, now_ms};
use crate::faults::rig::pass;
use harness::cluster::RedisCluster;
use harness::daemon::Daemon;
use harness::{RedisServer, eventually};

const QUEUES: usize = 60;

fn yaml(redis: &str) -> String {
    let queue = |n| {
        format!("  q{n}: {{ source: {{ zset: {{ key: 'set:{n}', score: ms }} }}, lease: 3s, to: [{{ sink: out }}] }}\n")
    };
    let queues: String = (0..QUEUES).map(queue).collect();
    format!("redis: {redis}\nsinks: {{ out: {{ redis: {{ list: out, timeout: 1s }} }} }}\nqueues:\n{queues}")
}

fn at(server: &RedisServer) -> String {
    yaml(&format!("{{ url: '{}' }}", server.url()))
}

/// The notes of daemons.
async fn notes(redis: &mut MultiplexedConnection) -> usize {
    redis.hlen("delaybridge:lookers").await.expect("a hash")
}

/// Adds an element to each set that is due now, and waits for all of them. Returns the number of those that came twice.
async fn deliver(redis: &mut MultiplexedConnection, name: &str) -> usize {
    let now = now_ms(redis).await;
    for n in 0..QUEUES {
        redis.zadd::<_, _, _, ()>(format!("set:{n}"), format!("{name} {n}"), now).await.expect("the server takes it");
    }
    arrived(redis, name).await
}

/// Waits for the element of each set with this name. Returns the number of those that came twice.
async fn arrived(redis: &MultiplexedConnection, name: &str) -> usize {
    let members: HashSet<String> = (0..QUEUES).map(|n| format!("{name} {n}")).collect();
    let arrived = eventually("all to arrive", PATIENCE, async || {
        let arrived: Vec<String> = redis.clone().lrange("out", 0, -1).await.map_err(|error| error.to_string())?;
        let ours: Vec<_> = arrived.into_iter().filter(|member| members.contains(member)).collect();
        let different: HashSet<_> = ours.iter().collect();
        if different.len() == QUEUES { Ok(ours) } else { Err(format!("{} of {QUEUES}", different.len())) }
    })
    .await;
    arrived.len() - QUEUES
}

/// Waits until so many daemons know each other, and have taken their turns.
async fn until_shared(redis: &mut MultiplexedConnection, daemons: usize) {
    eventually("the notes of all daemons", PATIENCE, async || match notes(redis).await {
        number if number == daemons => Ok(()),
        number => Err(format!("{number} of {daemons}")),
    })
    .await;
    pass(Duration::from_secs(3)).await;
}

/// The log lines of a daemon, as objects.
fn lines(daemon: &Daemon) -> Vec<Value> {
    daemon.log().all().iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Waits until a daemon has said of another one, with one line more than it has said that it is back, what became of it.
async fn told(daemon: &Daemon, other: &Daemon, words: &str) {
    let owner = lines(other).iter().find_map(|line| Some(line["owner"].as_str()?.to_owned())).expect("its number");
    eventually("the line about the other daemon", PATIENCE, async || {
        let of_it: Vec<_> = lines(daemon).into_iter().filter(|line| line["daemon"] == *owner).collect();
        let count = |words: &str| {
            of_it.iter().filter(|line| line["message"].as_str().is_some_and(|message| message.contains(words))).count()
        };
        if count(words) == count("is back") + 1 { Ok(()) } else { Err(format!("{owner}: {of_it:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn elements_that_nobody_announced_arrive_when_daemons_are_killed_or_frozen() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let yaml = at(&server);
    let mut daemons = Vec::new();
    for _ in 0..3 {
        daemons.push(Daemon::start(&yaml).await);
    }
    until_shared(&mut redis, 3).await;
    assert_eq!(deliver(&mut redis, "all").await, 0);
    daemons[0].signal(Signal::STOP);
    assert_eq!(deliver(&mut redis, "frozen").await, 0);
    told(&daemons[2], &daemons[0], "is gone").await;
    daemons[1].kill();
    assert_eq!(deliver(&mut redis, "killed").await, 0);
    told(&daemons[2], &daemons[1], "is gone").await;
    daemons[0].signal(Signal::CONT);
    assert_eq!(daemons[0].stop().await, 0);
    // Who stops takes its note along.
    assert!(notes(&mut redis).await <= 2);
    assert_eq!(deliver(&mut redis, "one").await, 0);
    daemons[2].stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_daemons_look_less_than_twice_as_often_as_one() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let later = now_ms(&mut redis).await + 1_000_000_000;
    for n in 0..QUEUES {
        redis.zadd::<_, _, _, ()>(format!("set:{n}"), "later", later).await.expect("the server takes it");
    }
    let yaml = at(&server);
    let mut daemons = Vec::new();
    for _ in 0..3 {
        daemons.push(Daemon::start(&yaml).await);
    }
    until_shared(&mut redis, 3).await;
    let looks = async |redis: &mut MultiplexedConnection| {
        let stats: String = redis::cmd("INFO").arg("commandstats").query_async(redis).await.expect("the statistics");
        let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_zcount:calls=")).expect("a count");
        calls.split(',').next().and_then(|calls| calls.parse::<f64>().ok()).expect("a number")
    };
    // The claims of the start are over, and its gauges.
    pass(Duration::from_secs(12)).await;
    let (before, began) = (looks(&mut redis).await, now_ms(&mut redis).await);
    pass(Duration::from_secs(15)).await;
    let seconds = (now_ms(&mut redis).await - began) as f64 / 1_000.0;
    let each = (looks(&mut redis).await - before) / seconds / QUEUES as f64;
    // One each second and one each fourth; a daemon that is slow on a busy machine looks less often.
    assert!(each < 2.0, "{each} looks at a queue each second");
    let mut stopped = daemons.pop().expect("a daemon");
    stopped.stop().await;
    told(&daemons[0], &stopped, "has stopped").await;
    for mut daemon in daemons {
        daemon.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_may_not_share_looks_says_so_and_looks_by_itself() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    // The key of another program.
    redis.set::<_, _, ()>("delaybridge:lookers", "theirs").await.expect("the server takes it");
    let mut daemon = Daemon::start(&at(&server)).await;
    daemon.expect_log("cannot share looks with other daemons");
    eventually("the warning", PATIENCE, async || {
        if daemon.log().contain("cannot share looks") { Ok(()) } else { Err("nothing was said".to_owned()) }
    })
    .await;
    assert_eq!(deliver(&mut redis, "alone").await, 0);
    let theirs: String = redis.get("delaybridge:lookers").await.expect("a string");
    assert_eq!(theirs, "theirs");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queues_of_a_cluster_are_shared_as_well() {
    let cluster = RedisCluster::start().await;
    let yaml = yaml(&cluster.yaml());
    let mut daemons = vec![Daemon::start(&yaml).await, Daemon::start(&yaml).await];
    until_shared(&mut cluster.at("delaybridge:lookers").await, 2).await;
    for name in ["all", "killed"] {
        for n in 0..QUEUES {
            let mut redis = cluster.at(&format!("set:{n}")).await;
            let now = now_ms(&mut redis).await;
            redis
                .zadd::<_, _, _, ()>(format!("set:{n}"), format!("{name} {n}"), now)
                .await
                .expect("the server takes it");
        }
        assert_eq!(arrived(&cluster.at("out").await, name).await, 0);
        daemons.truncate(1);
    }
}
