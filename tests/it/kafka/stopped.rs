//! A daemon that is suspended for longer than its lease while records wait in the client library: when it is resumed,
//! none of them is sent. The library gives a record up after `message.timeout.ms`, which is shorter than a lease.

use rustix::process::Signal;

use super::*;
use crate::faults::rig::{elements, metric, tolerate_stalls};
use harness::redisson::redis_now_ms;

/// Number of requests that the library sends before the first is answered; here each has one record.
const SENT_AHEAD: usize = 5;

async fn offer(server: &RedisServer, oracle: &mut Oracle, name: &str, count: usize) {
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let offered = elements(&queue, name, count, now, 1);
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_wait_in_a_stopped_daemon_are_not_sent_after_their_lease() {
    let server = RedisServer::start().await;
    let kafka = start(KafkaOptions::default());
    blocking(|| kafka.create_topic("arrived", 1, &[])).expect("create the topic");
    let bootstrap = kafka.bootstrap();
    let sink = |timeout: &str| {
        format!("brokers: ['{bootstrap}'], timeout: {timeout}, properties: {{ batch.num.messages: 1 }}, topic: arrived")
    };
    let mut stopped = Daemon::start(&yaml(&server, &sink("6s"), "lease: 10s")).await;
    tolerate_stalls(&mut stopped);
    stopped.expect_log("verdicts refused").expect_log("leases lost").expect_log("not sent: the process stalled");
    let mut oracle = Oracle::new();
    offer(&server, &mut oracle, "one", 1).await;
    all_in_topic(&bootstrap, "arrived", &oracle).await;
    settled(&mut server.client().await, &RedissonQueue::new("q")).await;

    blocking(|| kafka.freeze(1));
    offer(&server, &mut oracle, "waiting", 100).await;
    metric(&stopped, "delaybridge_claimed_messages_total", |claimed| claimed == 101.0).await;
    pass(Duration::from_millis(500)).await;
    stopped.signal(Signal::STOP);
    eventually("the daemon to be stopped", PATIENCE, async || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", stopped.pid())).map_err(|e| e.to_string())?;
        if stat.contains(") T ") { Ok(()) } else { Err(stat) }
    })
    .await;
    blocking(|| kafka.thaw(1));
    eventually("what was on the wire to arrive", PATIENCE, async || match count_topic(&bootstrap, "arrived").await? {
        0 | 1 => Err("nothing more".to_owned()),
        count => Ok(count),
    })
    .await;

    // It takes over when the leases end.
    let mut other = Daemon::start(&yaml(&server, &sink("30s"), "lease: 60s")).await;
    tolerate_stalls(&mut other);
    all_in_topic(&bootstrap, "arrived", &oracle).await;
    settled(&mut server.client().await, &RedissonQueue::new("q")).await;
    let before = count_topic(&bootstrap, "arrived").await.expect("count the records");
    println!("{before} records of {} before it goes on", oracle.count());
    assert!(
        (oracle.count() + 1..=oracle.count() + SENT_AHEAD).contains(&before),
        "the stop came too early or too late to show much"
    );

    stopped.signal(Signal::CONT);
    eventually("the woken daemon to give up all that it had", PATIENCE, async || {
        let (verdicts, drops) = stopped.metrics().await.given_up();
        let seen = format!("{verdicts} verdicts and {drops} drops");
        if verdicts + drops == 100.0 { Ok(()) } else { Err(seen) }
    })
    .await;
    pass(Duration::from_secs(2)).await;
    let after = count_topic(&bootstrap, "arrived").await.expect("count the records");
    assert_eq!(after, before, "it sent something on a lease that was over");
    let report = oracle.judge(&read_topic(&bootstrap, "arrived").await.expect("read the topic"));
    assert_complete(&report, &[&stopped, &other]).await;
}
