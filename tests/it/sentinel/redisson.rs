//! A real Redisson client offers through its own connection to the sentinels while the master changes.

use std::collections::HashSet;
use std::time::Duration;

use redis::AsyncCommands;

use crate::cluster::redisson::offer_meanwhile;
use crate::harness::failovers::Failover;
use crate::harness::oracle::read_stream;
use crate::harness::sentinels::MASTER;
use crate::harness::{Daemon, JavaClient, RedisServer, Sentinels, eventually};

const PATIENCE: Duration = Duration::from_secs(90);

/// A former master takes writes until a sentinel has made it a replica, and what a client writes there meanwhile is lost. So
/// what has to arrive is what the new master has or had: the elements that it ever gave, and what is left there.
#[tokio::test]
async fn what_redisson_offers_through_a_failover_arrives() {
    let (mut group, done) = tokio::join!(Sentinels::start(), RedisServer::start());
    let yaml = format!(
        "redis: {{ {}, command_timeout: 3s, connect_timeout: 5s }}\n\
         sinks: {{ out: {{ redis: {{ url: '{}', stream: arrived }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: offered }} }}, to: [{{ sink: out }}] }} }}\n",
        group.yaml(),
        done.url()
    );
    let mut daemon = Daemon::start(&yaml).await;
    for words in ["cannot reach Redis", "queue on hold", "sink down", "subscription", "elements dropped here"] {
        daemon.expect_log(words);
    }
    let ports: Vec<_> = group.ports().iter().map(u16::to_string).collect();
    let client = JavaClient::connect("4.7.0", &format!("sentinel:{MASTER}:{}", ports.join(","))).await;
    let failover = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        group.fail_over(Failover::Command).await;
        // From here on the client cannot write to the former master.
        group.wait_until_whole().await;
    };
    let (acknowledged, failed) = offer_meanwhile(&client, "offered", failover).await;
    println!("{} offers acknowledged, {failed} failed", acknowledged.len());
    let master = group.master().await.expect("a master");
    eventually("the queue to be empty", PATIENCE, async || {
        let mut redis = group.client(master).await;
        let left: usize = redis.zcard("redisson_delay_queue_timeout:{offered}").await.map_err(|e| e.to_string())?;
        let claims: usize = redis.zcard("delaybridge:leases:{offered}").await.map_err(|e| e.to_string())?;
        if left + claims == 0 { Ok(()) } else { Err(format!("{left} left, {claims} claims")) }
    })
    .await;
    let delivered = read_stream(&mut done.client().await, "arrived").await;
    let arrived: HashSet<_> = delivered.iter().map(|delivery| &delivery.payload[..]).collect();
    let missing = acknowledged.iter().filter(|payload| !arrived.contains(payload.as_bytes())).count();
    println!("{missing} of them were lost with the former master");
    // The last 200 were offered after the failover.
    let last = &acknowledged[acknowledged.len() - 200..];
    assert!(last.iter().all(|payload| arrived.contains(payload.as_bytes())), "offered to the new master, and lost");
    assert!(missing * 2 < acknowledged.len(), "{missing} of {}", acknowledged.len());
}
