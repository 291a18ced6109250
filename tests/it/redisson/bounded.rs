//! `RBoundedBlockingQueue` as the ready list: each element that is drained frees a place, and a producer that waits for one
//! wakes up.

use serde_json::json;

use super::*;
use harness::cluster::RedisCluster;
use harness::{Daemon, JavaClient};

const CODEC: &str = "StringCodec";
const CAPACITY: usize = 3;

async fn arrived(redis: &mut MultiplexedConnection, count: usize) {
    eventually("every element", PATIENCE, async || match redis.xlen::<_, usize>("out").await {
        Ok(n) if n == count => Ok(()),
        other => Err(format!("{other:?} of {count}")),
    })
    .await;
}

/// Fills the queue, lets producers wait for a place, and starts the daemon. `waiting`: the number of listeners of the places.
async fn drain(
    java: &JavaClient,
    config: &str,
    out: &mut MultiplexedConnection,
    waiting: impl AsyncFn() -> Result<usize, String>,
) {
    let queue = java.queue("q", CODEC);
    assert!(queue.bound(CAPACITY as u32).await);
    for n in 0..CAPACITY {
        assert!(queue.put(&json!(format!("first {n}")), Duration::ZERO).await);
    }
    assert!(!queue.put(&json!("no room"), Duration::ZERO).await);
    assert_eq!(queue.free().await, 0);
    let later: Vec<_> = (0..2 * CAPACITY).map(|n| json!(format!("later {n}"))).collect();
    let later = futures_util::future::join_all(later.iter().map(|value| queue.put(value, LATER)));
    let delivered = async {
        eventually("the producers to wait", PATIENCE, async || match waiting().await? {
            0 => Err("nobody listens".to_owned()),
            _ => Ok(()),
        })
        .await;
        let daemon = Daemon::start(config).await;
        arrived(out, 3 * CAPACITY).await;
        daemon
    };
    let (put, mut daemon) = tokio::time::timeout(PATIENCE * 2, async { tokio::join!(later, delivered) })
        .await
        .expect("the producers that wait for a place");
    assert!(put.iter().all(|put| *put), "{put:?}");
    assert_eq!(queue.free().await, CAPACITY as i64, "each place is free again");
    assert_eq!(daemon.stop().await, 0);
}

async fn of_version(version: &'static str) {
    let server = RedisServer::start().await;
    let java = JavaClient::connect(version, &server.url()).await;
    let redis = server.client().await;
    let listeners = async || {
        let mut ask = redis::cmd("PUBSUB");
        ask.arg("NUMSUB").arg("redisson_sc:redisson_bqs:{q}");
        let answer: (String, usize) = ask.query_async(&mut redis.clone()).await.map_err(|error| error.to_string())?;
        Ok(answer.1)
    };
    drain(&java, &yaml(&server, ""), &mut server.client().await, listeners).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn producers_of_the_oldest_version_wait_no_longer() {
    of_version("3.16.8").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn producers_of_the_newest_version_wait_no_longer() {
    of_version("4.7.0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn producers_in_a_cluster_wait_no_longer() {
    let (cluster, out) = tokio::join!(RedisCluster::start(), RedisServer::start());
    let ports: Vec<String> = cluster.ports().iter().map(u16::to_string).collect();
    let java = JavaClient::connect("4.7.0", &format!("cluster:{}", ports.join(","))).await;
    let mut nodes = Vec::new();
    for node in &cluster.nodes {
        nodes.push(node.client().await);
    }
    let listeners = async || {
        let mut found = 0;
        for node in &nodes {
            for kind in ["NUMSUB", "SHARDNUMSUB"] {
                let mut ask = redis::cmd("PUBSUB");
                ask.arg(kind).arg("redisson_sc:redisson_bqs:{q}");
                let answer: (String, usize) =
                    ask.query_async(&mut node.clone()).await.map_err(|error| error.to_string())?;
                found += answer.1;
            }
        }
        Ok(found)
    };
    let config = format!(
        "redis: {}\nsinks: {{ out: {{ redis: {{ url: {}, stream: out, timeout: 20s }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, to: [{{ sink: out }}] }} }}\n",
        cluster.yaml(),
        out.url()
    );
    drain(&java, &config, &mut out.client().await, listeners).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_takes_the_places_again() {
    let server = RedisServer::start().await;
    let java = JavaClient::connect("4.7.0", &server.url()).await;
    let queue = java.queue("q", CODEC);
    assert!(queue.bound(CAPACITY as u32).await);
    for n in 0..CAPACITY {
        assert!(queue.put(&json!(format!("element {n}")), Duration::ZERO).await);
    }
    // The sink refuses all of them: a string is no stream.
    let mut redis = server.client().await;
    redis.set::<_, _, ()>("out", "no stream").await.expect("the server takes it");
    // It is never ready: the queue is held.
    let mut daemon = Daemon::spawn(&yaml(&server, ""));
    daemon.expect_log("queue on hold");
    eventually("the places to be free", PATIENCE, async || match queue.free().await {
        3 => Ok(()),
        free => Err(format!("{free} free")),
    })
    .await;
    assert_eq!(daemon.stop().await, 0);
    let done = ask(&config(&server), &["restore", "q", "--apply"]);
    assert_eq!(done["ready"], CAPACITY, "{done}");
    assert_eq!(queue.free().await, 0);
    assert!(!queue.put(&json!("no room"), Duration::ZERO).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn places_that_are_no_number_are_left_alone_and_another_type_holds_the_queue() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    redis.set::<_, _, ()>("redisson_bqs:{q}", "many").await.expect("the server takes it");
    RedissonQueue::new("q").push_ready(&mut redis, &[b"one".to_vec()]).await;
    let mut daemon = Daemon::start(&yaml(&server, "")).await;
    daemon.expect_log("queue on hold");
    arrived(&mut redis, 1).await;
    assert_eq!(redis.get::<_, String>("redisson_bqs:{q}").await.expect("a string"), "many");

    redis.del::<_, ()>("redisson_bqs:{q}").await.expect("the server takes it");
    redis.rpush::<_, _, ()>("redisson_bqs:{q}", "list").await.expect("the server takes it");
    RedissonQueue::new("q").push_ready(&mut redis, &[b"two".to_vec()]).await;
    eventually("the hold to be shown", PATIENCE, async || match daemon.get("/readyz").await {
        Ok(answer) if answer.status != 200 && answer.body.contains("redisson_bqs:{q} holds a") => Ok(()),
        other => Err(format!("{:?}", other.map(|answer| answer.body))),
    })
    .await;
    redis.del::<_, ()>("redisson_bqs:{q}").await.expect("the server takes it");
    arrived(&mut redis, 2).await;
    assert!(!redis.exists::<_, bool>("redisson_bqs:{q}").await.expect("an answer"), "none is made");
    daemon.stop().await;
}
