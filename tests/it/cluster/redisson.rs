//! A real Redisson client offers through its own connection to the cluster while masters change.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;

use super::{PATIENCE, World};
use crate::harness::{JavaClient, eventually};

/// Offers in batches of ten until `until` is over; the payloads that were acknowledged, and how many offers failed.
pub async fn offer_meanwhile(
    client: &JavaClient,
    queue: &str,
    until: impl Future<Output = ()>,
) -> (Vec<String>, usize) {
    let queue = client.queue(queue, "StringCodec");
    let (mut acknowledged, mut failed, mut n) = (Vec::new(), 0, 0);
    let mut until = std::pin::pin!(until);
    let mut over = false;
    // Some more afterwards: by the new master.
    let mut more = 20;
    while !over || more > 0 {
        let batch: Vec<_> =
            (n..n + 10).map(|n| (json!(format!("from java {n}")), Duration::from_millis(300))).collect();
        n += 10;
        for ((value, _), done) in batch.iter().zip(queue.offer_each(&batch).await) {
            match done {
                true => acknowledged.push(value.as_str().expect("text").to_owned()),
                false => failed += 1,
            }
        }
        if over {
            more -= 1;
        } else {
            over = tokio::time::timeout(Duration::from_millis(50), until.as_mut()).await.is_ok();
        }
    }
    (acknowledged, failed)
}

#[tokio::test]
async fn what_redisson_offers_through_a_failover_arrives() {
    let mut world = World::start(1).await;
    let daemon = world.daemon().await;
    let ports: Vec<_> = world.cluster.nodes.iter().map(|node| node.port().to_string()).collect();
    let client = JavaClient::connect("4.7.0", &format!("cluster:{}", ports.join(","))).await;
    let key = world.queues[0].timeouts.clone();
    let failover = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let master = world.cluster.owner(&key).await;
        world.cluster.fail_over(master).await;
    };
    let (acknowledged, failed) = offer_meanwhile(&client, "queue-0", failover).await;
    println!("{} offers acknowledged, {failed} failed", acknowledged.len());
    assert!(acknowledged.len() > 200);
    eventually("what was acknowledged to arrive", PATIENCE, async || {
        let arrived: HashSet<Vec<u8>> = world.delivered().await.into_iter().map(|delivery| delivery.payload).collect();
        let missing: Vec<_> = acknowledged.iter().filter(|payload| !arrived.contains(payload.as_bytes())).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("{} missing, {:?}", missing.len(), missing.first())) }
    })
    .await;
    let delivered = world.delivered().await;
    let twice = delivered.len() - delivered.iter().map(|delivery| &delivery.payload).collect::<HashSet<_>>().len();
    let announced = daemon.metric("delaybridge_possible_duplicates_total").await;
    assert!(twice as f64 <= announced, "{twice} twice, {announced} announced");
    assert_eq!(daemon.metric("delaybridge_dead_lettered_messages_total").await, 0.0);
}
