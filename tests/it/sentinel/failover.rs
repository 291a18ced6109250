//! Failovers under load: by command and by a kill, with and without durable claims.

use std::time::Duration;

use redis::AsyncCommands;

use harness::failovers::{FailedOver, Failover, Guide, Producer, doubled, is_around, judge, many, show};
use harness::oracle::read_stream;
use harness::{Daemon, RedisServer, RedissonQueue, Sentinels, eventually};

const PATIENCE: Duration = Duration::from_secs(120);
/// Maximum time from the switch of the servers to the first delivery, on a machine that runs other tests, in ms.
const SWITCH: i64 = 2_000;

fn config(redis: &str, out: &str, more: &str) -> String {
    format!(
        "redis: {{ {redis}, command_timeout: 2s, connect_timeout: 2s }}\n\
         sinks: {{ out: {{ redis: {{ url: '{out}', stream: arrived, timeout: 1s }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: moved }} }}, lease: 5s{more}, to: [{{ sink: out }}] }} }}\n"
    )
}

/// Runs the failovers during deliveries, and judges them.
async fn run(what: &str, failovers: &[Failover], per_second: usize, more: &str) -> Vec<FailedOver> {
    let mut group = Sentinels::start().await;
    let out = RedisServer::start().await;
    let mut daemon = Daemon::start(&config(&group.yaml(), &out.url(), more)).await;
    // The daemon's log lines about a failover.
    // Claims that the new master does not know, or a lease that ended meanwhile: `judge` counts the duplicates.
    for words in ["cannot reach Redis", "queue on hold", "elements dropped here", "sink down", "verdicts refused"] {
        daemon.expect_log(words);
    }
    let queue = RedissonQueue::new("moved");
    let producer = Producer::start(Guide::Sentinel(group.ports()[0]), 2, queue.clone(), per_second);
    let mut sink = out.client().await;
    let more_than = async |sink: &mut redis::aio::MultiplexedConnection, n: usize| {
        eventually("deliveries", PATIENCE, async || match sink.xlen::<_, usize>("arrived").await {
            Ok(found) if found > n => Ok(()),
            found => Err(format!("{found:?} of more than {n}")),
        })
        .await;
    };
    let mut done = Vec::new();
    for how in failovers {
        let so_far: usize = sink.xlen("arrived").await.expect("count what arrived");
        more_than(&mut sink, so_far + per_second).await;
        let failover = group.fail_over(*how).await;
        let so_far: usize = sink.xlen("arrived").await.expect("count what arrived");
        more_than(&mut sink, so_far + per_second).await;
        if *how == Failover::Kill {
            group.bring_back(failover.old).await;
        }
        group.wait_until_whole().await;
        done.push(failover);
    }
    let offered = producer.stop().await;

    let master = group.master().await.expect("a master");
    let mut redis = group.client(master).await;
    eventually("everything to be settled", PATIENCE, async || {
        let in_flight = queue.in_flight(&redis).await.map_err(|e| e.to_string())?;
        let left: usize = redis.zcard(&queue.timeouts).await.map_err(|e| e.to_string())?;
        let retry: usize = redis.zcard(queue.bridge_key("retry")).await.map_err(|e| e.to_string())?;
        match in_flight + left + retry {
            0 => Ok(()),
            _ => Err(format!("{left} scheduled, {in_flight} in flight, {retry} to be retried")),
        }
    })
    .await;
    let deliveries = read_stream(&mut sink, "arrived").await;
    let announced = daemon.metric("delaybridge_possible_duplicates_total").await as usize;
    let refused = daemon.metric("delaybridge_stale_acks_total").await as usize;
    assert!(refused <= announced, "{refused} verdicts were refused, and {announced} possible duplicates announced");
    let judged = judge(&offered, &deliveries, &done, announced);
    println!(
        "{what}: {} offered, {} acknowledged, {} on both replicas; {} lost by replication, {} duplicates, {announced} announced",
        offered.oracle.count(),
        offered.acknowledged.len(),
        offered.sure.len(),
        judged.lost,
        judged.duplicates,
    );
    show(&done, failovers, &judged.pauses);
    for pause in &judged.pauses {
        assert!(pause.over_from_switch <= SWITCH, "deliveries went on too late after the switch: {pause:?}");
    }
    if judged.unannounced > 0 {
        assert!(more.is_empty(), "{} duplicates were not announced, and claims were durable", judged.unannounced);
        // Only claims that the new master did not have: deliveries right before the switch, or during it.
        let around = |(_, times): &(String, Vec<i64>)| is_around(&done, times[0], 1_000, 1_000);
        let elsewhere = doubled(&deliveries).into_iter().filter(|twice| !around(twice)).count();
        assert!(elsewhere <= announced, "{elsewhere} duplicates away from failovers, {announced} announced");
    }
    done
}

pub fn is_long() -> bool {
    std::env::var_os("DELAYBRIDGE_LONG").is_some()
}

/// One failover of each kind, or many in the long version.
fn kinds() -> (Vec<Failover>, usize) {
    if is_long() { (many(), 2_000) } else { (vec![Failover::Command, Failover::Kill], 400) }
}

#[tokio::test]
async fn deliveries_go_on_at_the_new_master_and_lose_only_what_replication_loses() {
    let (failovers, per_second) = kinds();
    run("failovers", &failovers, per_second, "").await;
}

#[tokio::test]
async fn durable_claims_are_not_delivered_again_unannounced() {
    let (failovers, per_second) = kinds();
    run("failovers with durability", &failovers, per_second, ", durability: { replicas: 1, timeout: 500ms }").await;
}
