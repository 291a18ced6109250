//! A real Redisson client offers through its own connection to the sentinels during failovers.

use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use super::failover::is_long;
use crate::cluster::redisson::offer_meanwhile;
use harness::failovers::{Failover, many, now_ms};
use harness::oracle::read_stream;
use harness::sentinels::MASTER;
use harness::{Daemon, JavaClient, RedisServer, Sentinels, eventually};

const PATIENCE: Duration = Duration::from_secs(90);

async fn more(sink: &mut MultiplexedConnection, count: usize) {
    let so_far: usize = sink.xlen("arrived").await.expect("count what arrived");
    eventually("deliveries", PATIENCE, async || match sink.xlen::<_, usize>("arrived").await {
        Ok(found) if found >= so_far + count => Ok(()),
        found => Err(format!("{found:?} of {}", so_far + count)),
    })
    .await;
}

/// A former master accepts writes until a sentinel has made it a replica, and those writes are lost. So exactly the
/// elements must arrive that the new master has or had: the ones that it ever handed out, and the rest there.
#[tokio::test]
async fn what_redisson_offers_through_failovers_arrives() {
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
    let batch = if is_long() { 100 } else { 10 };
    let mut sink = done.client().await;
    let ways = if is_long() { many() } else { vec![Failover::Command] };
    let failovers = async {
        let mut done = Vec::new();
        for way in &ways {
            // The sentinels need time between two failovers, and the client must have found the new master.
            more(&mut sink, batch * 10).await;
            let failover = group.fail_over(*way).await;
            more(&mut sink, batch * 10).await;
            if *way == Failover::Kill {
                group.bring_back(failover.old).await;
            }
            // From here on the client cannot write to the former master.
            group.wait_until_whole().await;
            done.push((failover, now_ms()));
        }
        done
    };
    let (offers, failovers) = offer_meanwhile(&client, "offered", batch, failovers).await;
    let master = group.master().await.expect("a master");
    eventually("the queue to be empty", PATIENCE, async || {
        let mut redis = group.client(master).await;
        let left: usize = redis.zcard("redisson_delay_queue_timeout:{offered}").await.map_err(|e| e.to_string())?;
        let claims: usize = redis.zcard("delaybridge:leases:{offered}").await.map_err(|e| e.to_string())?;
        if left + claims == 0 { Ok(()) } else { Err(format!("{left} left, {claims} claims")) }
    })
    .await;
    let delivered = read_stream(&mut done.client().await, "arrived").await;
    let missing = offers.missing(&delivered);
    println!("{} of {} were lost with former masters", missing.len(), offers.acknowledged.len());
    // No element is lost that was acknowledged by a master which was not about to be replaced.
    let is_lost_by_redis = |at_ms: i64| {
        failovers.iter().any(|(failover, whole_ms)| (failover.began_ms - 1_000..=whole_ms + 100).contains(&at_ms))
    };
    let lost: Vec<_> = missing.iter().filter(|(_, at_ms)| !is_lost_by_redis(*at_ms)).collect();
    assert!(lost.is_empty(), "{} were lost away from failovers, {:?}", lost.len(), lost.first());
    assert!(missing.len() * 2 < offers.acknowledged.len(), "{} of {}", missing.len(), offers.acknowledged.len());
    let last = offers.acknowledged.last().expect("an offer").1;
    let whole_ms = failovers.last().expect("a failover").1;
    assert!(last > whole_ms, "the last were offered after the failovers");
}
