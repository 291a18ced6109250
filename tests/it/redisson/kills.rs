//! A daemon that is killed repeatedly, with live clients of three versions.

use redis::AsyncCommands;

use super::racing::{clients, offer_through, payloads};
use super::*;
use crate::crash::Owners;
use crate::faults::rig::tolerate_stalls;
use std::time::Instant;

use harness::turn::heavy;
use harness::{Daemon, Oracle};

#[tokio::test(flavor = "multi_thread")]
async fn kills_beside_three_live_clients_lose_nothing() {
    let turn = heavy().await;
    // The long version is run by hand: `DELAYBRIDGE_LONG=1 cargo test ...`.
    let (elements, kills) = if std::env::var_os("DELAYBRIDGE_LONG").is_some() { (10_000, 10) } else { (2_000, 4) };
    let server = RedisServer::start().await;
    let queue = RedissonQueue::new("q");
    let mut redis = server.client().await;
    let clients = clients(&server, 3).await;
    let yaml = yaml(&server, "lease: 30s, max_in_flight: 100,");
    let payloads = payloads("order", elements);
    let mut oracle = Oracle::new();
    oracle.pushed_ready(&payloads);
    offer_through(&clients, &payloads, Duration::from_secs(2)).await;

    let mut owners = Owners::default();
    let mut at_the_kills = Vec::new();
    for kill in 0..kills {
        let mut daemon = Daemon::spawn(&yaml);
        // Killed by progress instead of time: so the lives share the deliveries on any machine.
        let until = elements * kill / kills + fastrand::usize(1..elements / kills / 2);
        eventually("the next deliveries", PATIENCE, async || {
            match redis.xlen::<_, usize>("out").await.map_err(|e| e.to_string())? {
                delivered if delivered >= until => Ok(()),
                delivered => Err(format!("{delivered} delivered, wanted {until}")),
            }
        })
        .await;
        // At best while it holds something: on a fast machine a daemon has nothing in flight most of the time.
        let late = Instant::now() + Duration::from_millis(500);
        while Instant::now() < late && queue.in_flight(&redis).await.is_ok_and(|in_flight| in_flight == 0) {}
        daemon.kill();
        at_the_kills.push(owners.of_the_killed(&mut redis, &queue).await);
    }
    let mut last = Daemon::start(&yaml).await;
    tolerate_stalls(&mut last);
    // Only the leases of the killed daemons are waited for.
    drop(turn);
    eventually("everything to be delivered and settled", PATIENCE, async || {
        let left: [usize; 4] = redis::pipe()
            .atomic()
            .zcard(&queue.timeouts)
            .llen(&queue.name)
            .add_command(queue.count_in_flight())
            .zcard(queue.bridge_key("retry"))
            .query_async(&mut redis)
            .await
            .map_err(|e| e.to_string())?;
        if left == [0; 4] { Ok(()) } else { Err(format!("scheduled, ready, in flight, retry: {left:?}")) }
    })
    .await;

    let report = oracle.judge_payloads(&read_stream(&mut redis, "out").await);
    let in_flight: usize = at_the_kills.iter().sum();
    let metrics = last.metrics().await;
    let claimed = |from| metrics.sum(&format!("delaybridge_claimed_messages_total{{from=\"{from}\"}}"));
    println!(
        "{report}; {kills} kills, in flight at each {at_the_kills:?}, together {in_flight}; the last daemon claimed {} due, \
         {} from the ready list, {} with an expired lease",
        claimed("delayed"),
        claimed("ready"),
        claimed("expired"),
    );
    report.assert_complete(in_flight);
    assert!(in_flight > 0, "no kill met anything in flight: the test shows nothing");
    assert_eq!(redis.xlen::<_, usize>(queue.bridge_key("dead")).await.expect("count dead letters"), 0);
    assert_eq!(last.stop().await, 0);
}
