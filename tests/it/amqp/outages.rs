//! A broker that is suspended, dies, closes all connections, loses its exchange, or is out of memory or disk while
//! elements fall due.

use tokio::sync::MutexGuard;

use super::*;
use crate::faults::rig::{metric, pass, readyz, tolerate_stalls};
use harness::turn::heavy;

/// Maximum growth of memory during an outage, in bytes; it must not accumulate.
const GROWTH: u64 = 100 << 20;

/// Number of elements of an outage, and its duration. The full measure takes some minutes.
fn measure() -> (usize, Duration) {
    if long() { (20_000, Duration::from_secs(45)) } else { (2_000, Duration::from_secs(8)) }
}

/// Waits for a turn if the full measure runs, which loads the machine; the short one mostly waits.
async fn turn() -> Option<MutexGuard<'static, ()>> {
    if long() { Some(heavy().await) } else { None }
}

fn assert_flat(daemon: &Daemon, before: u64) {
    let after = daemon.usage().resident;
    println!("resident before {} MiB, after {} MiB", before >> 20, after >> 20);
    assert!(after < before + GROWTH, "the daemon grew from {before} to {after} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_paused_dies_closes_connections_and_forgets_loses_nothing() {
    let _turn = turn().await;
    let (count, still) = measure();
    let server = RedisServer::start().await;
    let rabbit = start();
    let mut daemon = Daemon::start(&yaml(&server, &rabbit, DECLARE, "max_in_flight: 500")).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("queue on hold");
    let mut oracle = Oracle::new();
    let mut arrived = Arrived::at(&rabbit);
    offer(&server, &mut oracle, "before", 500, Duration::from_secs(1)).await;
    arrived.all("arrived", &oracle).await;
    let before = daemon.usage().resident;

    offer(&server, &mut oracle, "still", count, still).await;
    blocking(|| rabbit.freeze());
    metric(&daemon, "delaybridge_sink_up", |up| up == 0.0).await;
    readyz(&daemon, 503, "\"down\"").await;
    pass(still).await;
    blocking(|| rabbit.thaw());
    judge(&format!("paused for {still:?}"), &daemon, &server, &mut arrived, &oracle).await;

    offer(&server, &mut oracle, "killed", count, Duration::from_secs(8)).await;
    blocking(|| {
        rabbit.kill();
        rabbit.restart()
    })
    .expect("restart RabbitMQ");
    judge("killed and restarted", &daemon, &server, &mut arrived, &oracle).await;

    offer(&server, &mut oracle, "thrown out", count, Duration::from_secs(4)).await;
    for _ in 0..3 {
        blocking(|| rabbit.close_all_connections("maintenance")).expect("close the connections");
    }
    judge("thrown out three times", &daemon, &server, &mut arrived, &oracle).await;

    let rabbits = Rabbits::connect(&url(&rabbit)).await.expect("connect");
    offer(&server, &mut oracle, "no exchange", count, Duration::from_secs(4)).await;
    rabbits.delete_exchange("orders").await;
    metric(&daemon, "delaybridge_queue_held{queue=\"q\"}", |held| held == 1.0).await;
    pass(still).await;
    rabbits.declare("orders", None, "").await;
    rabbits.bind("orders", "arrived", "due").await;
    judge("exchange deleted and made again", &daemon, &server, &mut arrived, &oracle).await;

    metric(&daemon, "delaybridge_sink_up", |up| up == 1.0).await;
    readyz(&daemon, 200, "").await;
    assert_flat(&daemon, before);
}

async fn claimed(daemon: &Daemon) -> f64 {
    daemon.metrics().await.sum("delaybridge_claimed_messages_total")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_of_memory_or_disk_stops_claims_and_counts_nothing() {
    let _turn = turn().await;
    let (count, lasts) = measure();
    let server = RedisServer::start().await;
    let rabbit = start();
    let mut daemon = Daemon::start(&yaml(&server, &rabbit, DECLARE, "max_in_flight: 200")).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("sink blocked");
    let mut oracle = Oracle::new();
    let mut arrived = Arrived::at(&rabbit);
    offer(&server, &mut oracle, "before", 200, Duration::from_secs(1)).await;
    arrived.all("arrived", &oracle).await;
    let before = daemon.usage().resident;

    for (name, set) in
        [("memory", Rabbit::set_memory_alarm as fn(&Rabbit, bool) -> _), ("disk", Rabbit::set_disk_alarm)]
    {
        blocking(|| set(&rabbit, true)).expect("raise the alarm");
        offer(&server, &mut oracle, name, count, Duration::from_secs(2)).await;
        metric(&daemon, "delaybridge_sink_blocked", |blocked| blocked == 1.0).await;
        // Elements claimed before are answered one by one; after that only a probe is claimed now and then.
        let mut sum = claimed(&daemon).await;
        eventually("the claims to stop", PATIENCE, async || {
            pass(Duration::from_secs(2)).await;
            let earlier = std::mem::replace(&mut sum, claimed(&daemon).await);
            if sum - earlier <= 5.0 { Ok(()) } else { Err(format!("{} more", sum - earlier)) }
        })
        .await;
        let sum = claimed(&daemon).await;
        pass(lasts).await;
        let more = claimed(&daemon).await - sum;
        println!("claimed in {lasts:?} of the {name} alarm: {more}");
        assert!(more <= 25.0 + 2.0 * lasts.as_secs_f64(), "{more} elements were claimed during the {name} alarm");
        // Not all the time: messages outstanding at the alarm time out, and are the reason then.
        metric(&daemon, "delaybridge_sink_blocked", |blocked| blocked == 1.0).await;
        blocking(|| set(&rabbit, false)).expect("end the alarm");
        metric(&daemon, "delaybridge_sink_blocked", |blocked| blocked == 0.0).await;
        judge(&format!("{name} alarm"), &daemon, &server, &mut arrived, &oracle).await;
    }
    // Messages sent around the alarm are in doubt, and count if others sent with them were confirmed; nothing else
    // counts.
    let attempts: Vec<u32> = arrived.deliveries.iter().filter_map(|delivery| delivery.attempt).collect();
    let counted = attempts.iter().filter(|&&attempt| attempt > 1).count();
    let announced = daemon.metrics().await.sum("delaybridge_possible_duplicates_total");
    println!("{counted} attempts counted, {announced} in doubt");
    assert!(counted as f64 <= announced && attempts.iter().all(|&attempt| attempt <= 2), "an alarm counted");
    assert_eq!(daemon.metric("delaybridge_leases_expired_total").await, 0.0);
    assert_flat(&daemon, before);
}
