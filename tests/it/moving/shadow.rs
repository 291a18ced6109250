//! `mode: shadow`: reports the deliveries that would be made, and writes nothing to Redis. Clients that wait on a ready
//! list are named.

use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use super::{NAME, ask, well, yaml};
use crate::delivery::PATIENCE;
use harness::daemon::ConfigFile;
use harness::redisson::{Layout, redis_now_ms};
use harness::{Daemon, RedisServer, RedissonQueue, eventually};

/// Number of changes that Redis has counted since it started; it stores nothing on disk, so nothing resets it.
async fn changes(redis: &mut MultiplexedConnection) -> String {
    let info: String = redis::cmd("INFO").arg("persistence").query_async(redis).await.unwrap();
    info.lines().find(|line| line.starts_with("rdb_changes_since_last_save:")).expect("the count of changes").to_owned()
}

#[tokio::test]
async fn due_elements_are_reported_and_nothing_is_written() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new(NAME);
    let now = redis_now_ms(&mut redis).await;
    let first = queue.offer(&mut redis, now - 60_000, "{\"a\":1}").await;
    queue.with_layout(Layout::Old).offer(&mut redis, now - 50_000, "{\"a\":2}").await;
    queue.offer(&mut redis, now + 3_000, "{\"a\":3}").await;
    queue.offer(&mut redis, now + 3_600_000, "{\"a\":4}").await;
    queue.offer(&mut redis, now - 40_000, "oops").await;
    let _: () = redis.zadd(&queue.timeouts, "junk", now - 30_000).await.unwrap();
    queue.push_ready(&mut redis, &[b"bare".to_vec()]).await;
    // A ghost that a sweep would remove, and a claim with an expired lease, which a daemon would take over.
    let _: () = redis.sadd(queue.bridge_key("ghosts"), "ghost").await.unwrap();
    queue.claim_for(&redis, 1, &[(1, b"element")]).await;

    let before = changes(&mut redis).await;
    // A sweep would be due soon.
    let config = yaml(&server, "    mode: shadow\n    codec: json\n")
        .replace(&format!("name: \"{NAME}\""), &format!("name: \"{NAME}\", ghost_max_age: 1s"));
    let mut daemon = Daemon::spawn_with(&config, &[("DELAYBRIDGE_LOG", "info,delaybridge::shadow=debug")]);
    daemon.expect_log("shadow: an element would not be delivered").expect_log("scheduled elements are");
    daemon.wait_ready().await;
    eventually("five elements to be reported", PATIENCE, async || {
        let metrics = daemon.metrics().await;
        let fate =
            |fate: &str| metrics.sum(&format!("delaybridge_shadow_messages_total{{queue=\"orders\",fate=\"{fate}\"}}"));
        match (fate("deliver"), fate("dead_letter")) {
            (3.0, 2.0) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    // The gauges are read as well.
    eventually("the gauges", PATIENCE, async || {
        match daemon.metrics().await.sum("delaybridge_queue_messages{queue=\"orders\",state=\"scheduled\"}") {
            1.0.. => Ok(()),
            other => Err(other.to_string()),
        }
    })
    .await;
    let line = daemon.log().all().into_iter().find(|line| line.contains("would be delivered")).expect("a line");
    assert!(line.contains(&first.id_text()) && line.contains("out: list done"), "{line}");
    assert_eq!(daemon.stop().await, 0);
    assert_eq!(changes(&mut redis).await, before, "nothing was written, from the start to the end");
    // It is invisible: only a daemon that delivers announces itself.
    let done: usize = redis.llen("done").await.unwrap();
    assert_eq!(done, 0);

    let config = ConfigFile::new(&format!("http: none\n{config}"));
    let seen: serde_json::Value =
        serde_json::from_str(&well(&config, "peek orders --routes --output json")).expect("one JSON document");
    assert_eq!(seen["elements"][0]["routes"], serde_json::json!(["out: list done"]));
    let text = well(&config, "peek orders --routes");
    assert!(text.contains("WOULD GO TO") && text.contains("dead letter: of no layout"), "{text}");
    assert!(text.contains("dead letter: decode payload as json"), "{text}");
    assert_eq!(changes(&mut redis).await, before);
}

#[tokio::test]
async fn clients_that_wait_on_a_list_are_named_with_what_to_do() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let config = super::config(&server);
    assert!(well(&config, "check --live").contains("none waits"));
    let connection = redis::AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let client = redis::Client::open(server.url()).unwrap();
    let mut java = client.get_multiplexed_async_connection_with_config(&connection).await.unwrap();
    let _: () = redis::cmd("CLIENT").arg("SETNAME").arg("shop-7").query_async(&mut java).await.unwrap();
    let waiting = tokio::spawn(async move {
        let taken: Option<(String, String)> = java.blpop(NAME, 0.0).await.unwrap();
        taken
    });
    eventually("the consumer to wait", PATIENCE, async || {
        let list: String =
            redis::cmd("CLIENT").arg("LIST").query_async(&mut redis.clone()).await.map_err(|e| e.to_string())?;
        if list.contains("cmd=blpop") { Ok(()) } else { Err(list) }
    })
    .await;
    let (code, out, err) = ask(&config, "check --live");
    for words in
        ["clients wait on a list", "(name shop-7) in BLPOP", "Redis does not report which list", "consume: [delayed]"]
    {
        assert!(code == 0 && out.contains(words), "{words} in {out}{err}");
    }
    let mut daemon = Daemon::spawn(&yaml(&server, ""));
    daemon.expect_log("clients wait on a list");
    daemon.wait_ready().await;
    eventually("a line about the consumer", PATIENCE, async || {
        let told = daemon.log().all().into_iter().any(|line| line.contains("(name shop-7) in BLPOP"));
        if told { Ok(()) } else { Err("no line".to_owned()) }
    })
    .await;
    assert_eq!(daemon.stop().await, 0);
    // In shadow mode nobody else delivers: to stop the consumer would stop the deliveries.
    let shadow = yaml(&server, "    mode: shadow\n");
    let config = ConfigFile::new(&format!("http: none\n{shadow}"));
    let (code, out, err) = ask(&config, "check --live");
    assert!(code == 0 && !out.contains("stop the"), "{out}{err}");
    let before = server.calls("client|list").await;
    let mut daemon = Daemon::start(&shadow).await;
    eventually("a look at the clients", PATIENCE, async || {
        let after = server.calls("client|list").await;
        if after > before { Ok(()) } else { Err(format!("{after} looks")) }
    })
    .await;
    assert_eq!(daemon.stop().await, 0);
    assert!(!daemon.log().contain("clients wait on a list"), "{:?}", daemon.log().all());
    RedissonQueue::new(NAME).push_ready(&mut redis, &[b"bare".to_vec()]).await;
    let taken = tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap().unwrap();
    assert_eq!(taken, Some((NAME.to_owned(), "bare".to_owned())));
}
