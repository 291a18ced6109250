//! `bench`: figures of a real Redis, without remains.

use std::process::{Child, Command, Stdio};

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use rustix::process::Signal;

use super::{PATIENCE, as_default_user, ask, end, signal};
use harness::daemon::ConfigFile;
use harness::{RedisServer, ServerOptions, eventually};

async fn keys(redis: &mut MultiplexedConnection) -> usize {
    redis::cmd("DBSIZE").query_async(redis).await.expect("count the keys")
}

#[tokio::test]
async fn figures_are_printed_beside_their_limits_and_nothing_is_left() {
    let server = RedisServer::start().await;
    let config = as_default_user(&server.url());
    let mut redis = server.client().await;
    let short = "--depth 3000 --drain 1000 --rate 200 --seconds 1";

    let found = ask(&config, &format!("bench {short} --output json")).json();
    assert_eq!((&found["claimed_and_settled"], &found["late"]), (&1000.into(), &200.into()), "{found}");
    for figure in ["zadd_per_second", "claim_and_settle_per_second"] {
        assert!(found[figure].as_f64().is_some_and(|rate| rate > 0.0), "{figure}: {found}");
    }
    for times in ["ping_ms", "claim_ms", "settle_ms", "late_ms"] {
        let ms = |share: &str| found[times][share].as_f64().expect("milliseconds");
        assert!(ms("p50") <= ms("p99") && ms("p99") <= ms("max") && ms("max") > 0.0, "{times}: {found}");
    }
    assert_eq!(keys(&mut redis).await, 0);

    // Without a configuration.
    let none = ConfigFile::new("nothing");
    let text = ask(&none, &format!("bench {short} --redis {} --name app:delaybridge-bench", server.url())).well();
    for words in ["3000 pending of 256 B", "claim and settle", "% of ZADD alone", "round trips", "lateness at 200/s"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(keys(&mut redis).await, 0);
}

#[tokio::test]
async fn what_is_there_already_is_not_touched() {
    let server = RedisServer::start().await;
    let config = as_default_user(&server.url());
    let mut redis = server.client().await;
    let _: () = redis.zadd("delaybridge:retry:{delaybridge-bench-2}", "foreign", 7).await.unwrap();
    ask(&config, "bench --name delaybridge-bench-2")
        .failed(1, &["`delaybridge-bench-2` already", "delaybridge:retry:{delaybridge-bench-2}", "--name"]);
    let left: Vec<(String, i64)> =
        redis.zrange_withscores("delaybridge:retry:{delaybridge-bench-2}", 0, -1).await.unwrap();
    assert_eq!((left, keys(&mut redis).await), (vec![("foreign".to_owned(), 7)], 1));
}

#[tokio::test]
async fn a_server_without_room_is_not_filled() {
    let server = RedisServer::start_with(ServerOptions::default().max_memory("20mb")).await;
    let config = as_default_user(&server.url());
    let mut redis = server.client().await;
    ask(&config, "bench --depth 100000").failed(1, &["maxmemory", "--depth"]);
    assert_eq!(keys(&mut redis).await, 0);
}

/// Starts a run that takes minutes; returns when it has begun to fill its queue.
async fn long_run(config: &ConfigFile, redis: &mut MultiplexedConnection) -> Child {
    let child = Command::new(env!("CARGO_BIN_EXE_delaybridge"))
        .args(["bench", "--depth", "40000000"])
        .env("DELAYBRIDGE_CONFIG", config.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start the binary");
    eventually("the queue to be filled", PATIENCE, async || match keys(redis).await {
        2 => Ok(()),
        other => Err(format!("{other} keys")),
    })
    .await;
    child
}

#[tokio::test]
async fn ctrl_c_leaves_nothing() {
    let server = RedisServer::start().await;
    let config = as_default_user(&server.url());
    let mut redis = server.client().await;
    let child = long_run(&config, &mut redis).await;
    // After a kill, the keys expire by themselves.
    for key in ["redisson_delay_queue_timeout:{delaybridge-bench}", "redisson_delay_queue:{delaybridge-bench}"] {
        eventually("its keys to be mortal", PATIENCE, async || match redis.ttl::<_, i64>(key).await.unwrap() {
            1..=3600 => Ok(()),
            other => Err(format!("{key} lives for {other} s")),
        })
        .await;
    }
    signal(&child, Signal::INT);
    end(child).await.failed(130, &["stopped; nothing is left in Redis"]);
    assert_eq!(keys(&mut redis).await, 0);
}

#[tokio::test]
async fn keys_that_could_not_be_deleted_are_reported() {
    let mut server = RedisServer::start().await;
    let config = as_default_user(&server.url());
    let mut redis = server.client().await;
    let child = long_run(&config, &mut redis).await;
    server.kill();
    let told = end(child).await.failed(1, &["could not be removed", "redis-cli UNLINK"]);
    assert!(told.contains("'redisson_delay_queue_timeout:{delaybridge-bench}'"), "{told}");
}
