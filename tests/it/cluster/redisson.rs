//! A real Redisson client offers through its own connection to the cluster during failovers.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;

use super::{PATIENCE, World, long};
use harness::failovers::{Failover, is_around, many, now_ms, pauses, show};
use harness::oracle::Delivery;
use harness::{JavaClient, eventually};

/// The offers of a client.
pub struct Offers {
    /// The acknowledged payloads, with their times in ms.
    pub acknowledged: Vec<(String, i64)>,
    /// Number of failed offers, which may still have been made.
    pub failed: usize,
}

impl Offers {
    /// The acknowledged offers that have not arrived.
    pub fn missing(&self, deliveries: &[Delivery]) -> Vec<&(String, i64)> {
        let arrived: HashSet<&[u8]> = deliveries.iter().map(|delivery| &delivery.payload[..]).collect();
        self.acknowledged.iter().filter(|(payload, _)| !arrived.contains(payload.as_bytes())).collect()
    }
}

/// Offers in batches, twenty a second if possible, until `until` is done, and twenty more to the new master. Returns
/// the result of `until` as well.
pub async fn offer_meanwhile<T>(
    client: &JavaClient,
    queue: &str,
    batch: usize,
    until: impl Future<Output = T>,
) -> (Offers, T) {
    let queue = client.queue(queue, "StringCodec");
    let mut offers = Offers { acknowledged: Vec::new(), failed: 0 };
    let mut n = 0;
    let mut until = std::pin::pin!(until);
    let mut outcome = None;
    let mut more = 20;
    while outcome.is_none() || more > 0 {
        let elements: Vec<_> =
            (n..n + batch).map(|n| (json!(format!("from java {n}")), Duration::from_millis(300))).collect();
        n += batch;
        let offered = queue.offer_each(&elements);
        let offered = match outcome {
            Some(_) => {
                more -= 1;
                offered.await
            }
            // Concurrently: a client that waits for its answers does not delay the failovers.
            None => {
                let mut both = std::pin::pin!(async { tokio::join!(offered, tokio::time::sleep(TICK)).0 });
                tokio::select! {
                    offered = both.as_mut() => offered,
                    of = until.as_mut() => {
                        outcome = Some(of);
                        both.await
                    }
                }
            }
        };
        for ((value, _), done) in elements.iter().zip(offered) {
            if done {
                offers.acknowledged.push((value.as_str().expect("text").to_owned(), now_ms()))
            } else {
                offers.failed += 1
            }
        }
    }
    println!("{} offers acknowledged, {} failed", offers.acknowledged.len(), offers.failed);
    (offers, outcome.expect("it is over"))
}

/// The interval between two batches.
const TICK: Duration = Duration::from_millis(50);

/// One failover by command; with `DELAYBRIDGE_LONG=1` ten by command and ten by SIGKILL, with 2,000 offers a second.
#[tokio::test]
async fn what_redisson_offers_through_failovers_arrives() {
    let (ways, batch, deliveries) = if long() { (many(), 100, 2_000) } else { (vec![Failover::Command], 10, 100) };
    let mut world = World::start(1).await;
    let mut daemon = world.daemon().await;
    for words in ["cannot reach Redis", "queue on hold", "elements dropped here", "sink down"] {
        daemon.expect_log(words);
    }
    let ports: Vec<_> = world.cluster.nodes.iter().map(|node| node.port().to_string()).collect();
    let client = JavaClient::connect("4.7.0", &format!("cluster:{}", ports.join(","))).await;
    let queue = world.queues[0].clone();
    let failovers = world.fail_over(&queue, &ways, deliveries);
    let (offers, failovers) = offer_meanwhile(&client, "queue-0", batch, failovers).await;
    assert!(offers.acknowledged.len() > 200);
    world.emptied(0).await;
    // Elements that the client moved to its own ready list are there until they are claimed.
    eventually("what was acknowledged to arrive", PATIENCE, async || {
        let delivered = world.delivered().await;
        // Replication lost only offers acknowledged by a master that was killed: right before that, or at its end by a
        // client that had not noticed.
        let missing = offers.missing(&delivered);
        let killed: Vec<_> = failovers.iter().zip(&ways).filter(|(_, way)| **way == Failover::Kill).collect();
        let killed: Vec<_> = killed.into_iter().map(|(failover, _)| *failover).collect();
        let lost = missing.iter().filter(|(_, at_ms)| !is_around(&killed, *at_ms, 1_000, 1_000)).count();
        println!("{} lost with masters that were killed", missing.len() - lost);
        if lost == 0 { Ok(()) } else { Err(format!("{lost} missing, {:?}", missing.first())) }
    })
    .await;
    let delivered = world.delivered().await;
    let twice = delivered.len() - delivered.iter().map(|delivery| &delivery.payload).collect::<HashSet<_>>().len();
    let announced = daemon.metric("delaybridge_possible_duplicates_total").await;
    println!("{} delivered, {twice} twice, {announced} announced", delivered.len());
    show(&failovers, &ways, &pauses(&failovers, &delivered));
    assert!(twice as f64 <= announced || ways.contains(&Failover::Kill), "{twice} twice, {announced} announced");
    assert_eq!(daemon.metric("delaybridge_dead_lettered_messages_total").await, 0.0);
}
