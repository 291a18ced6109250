//! A broker that stands still, dies, throws everybody out, or is out of memory while elements fall due.

use super::*;
use crate::faults::rig::{metric, pass, readyz, tolerate_stalls};
use crate::harness::turn::heavy;

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_stands_still_dies_and_throws_us_out_loses_nothing() {
    let _turn = heavy().await;
    // The full measure takes some minutes.
    let (count, still) = match long() {
        true => (20_000, Duration::from_secs(45)),
        false => (6_000, Duration::from_secs(10)),
    };
    let server = RedisServer::start().await;
    let rabbit = start();
    let mut daemon = Daemon::start(&yaml(&server, &rabbit, DECLARE, "max_in_flight: 500")).await;
    tolerate_stalls(&mut daemon);
    let (mut oracle, mut arrived) = (Oracle::new(), Arrived::at(&rabbit));
    offer(&server, &mut oracle, "before", 500, Duration::from_secs(1)).await;
    arrived.all("arrived", &oracle).await;
    let before = daemon.usage().resident;

    offer(&server, &mut oracle, "still", count / 3, still).await;
    blocking(|| rabbit.freeze());
    metric(&daemon, "delaybridge_sink_up", |up| up == 0.0).await;
    readyz(&daemon, 503, "\"down\"").await;
    pass(still).await;
    blocking(|| rabbit.thaw());
    judge(&format!("stood still for {still:?}"), &daemon, &server, &mut arrived, &oracle).await;

    offer(&server, &mut oracle, "killed", count / 3, Duration::from_secs(8)).await;
    blocking(|| {
        rabbit.kill();
        rabbit.restart()
    })
    .expect("restart RabbitMQ");
    judge("killed and restarted", &daemon, &server, &mut arrived, &oracle).await;

    offer(&server, &mut oracle, "thrown out", count / 3, Duration::from_secs(4)).await;
    for _ in 0..3 {
        blocking(|| rabbit.close_all_connections("maintenance")).expect("close the connections");
    }
    judge("thrown out three times", &daemon, &server, &mut arrived, &oracle).await;

    metric(&daemon, "delaybridge_sink_up", |up| up == 1.0).await;
    readyz(&daemon, 200, "").await;
    let after = daemon.usage().resident;
    println!("resident before {} MiB, after {} MiB", before >> 20, after >> 20);
    assert!(after < before + (100 << 20), "the daemon grew from {before} to {after} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_alarm_stops_claims_and_counts_nothing() {
    let server = RedisServer::start().await;
    let rabbit = start();
    let mut daemon = Daemon::start(&yaml(&server, &rabbit, DECLARE, "max_in_flight: 200")).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("sink full");
    let (mut oracle, mut arrived) = (Oracle::new(), Arrived::at(&rabbit));
    offer(&server, &mut oracle, "before", 200, Duration::from_secs(1)).await;
    arrived.all("arrived", &oracle).await;

    blocking(|| rabbit.set_memory_alarm(true)).expect("raise the alarm");
    offer(&server, &mut oracle, "meanwhile", 5_000, Duration::from_secs(2)).await;
    metric(&daemon, "delaybridge_sink_blocked", |blocked| blocked == 1.0).await;
    let claimed = daemon.metric("delaybridge_claimed_messages_total{from=\"delayed\"}").await;
    pass(Duration::from_secs(8)).await;
    let more = daemon.metric("delaybridge_claimed_messages_total{from=\"delayed\"}").await - claimed;
    println!("claimed during the alarm: {more}");
    assert!(more <= 25.0, "{more} elements were claimed during the alarm");
    blocking(|| rabbit.set_memory_alarm(false)).expect("end the alarm");
    metric(&daemon, "delaybridge_sink_blocked", |blocked| blocked == 0.0).await;
    judge("memory alarm", &daemon, &server, &mut arrived, &oracle).await;
    let attempts: Vec<u32> = arrived.deliveries.iter().filter_map(|delivery| delivery.attempt).collect();
    assert!(attempts.iter().all(|&attempt| attempt == 1), "an alarm counted as an attempt");
    assert_eq!(daemon.metric("delaybridge_leases_expired_total").await, 0.0);
}
