//! A broker that is suspended, dies, or restarts repeatedly while elements fall due.

use super::*;
use crate::faults::rig::{elements, metric, readyz, tolerate_stalls};
use harness::redisson::redis_now_ms;
use harness::turn::heavy;

/// Offers `count` elements that fall due within `spread`, and records them.
async fn offer(server: &RedisServer, oracle: &mut Oracle, name: &str, count: usize, spread: Duration) {
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let offered = elements(&queue, name, count, now, i64::try_from(spread.as_millis()).expect("a short time"));
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_paused_dies_and_restarts_loses_nothing() {
    // The full measure loads the machine, the short one mostly waits.
    let _turn = if long() { Some(heavy().await) } else { None };
    // The full measure takes five minutes.
    let (count, still, restarts, pause) = if long() {
        (50_000, Duration::from_secs(60), 10, Duration::from_secs(9))
    } else {
        (10_000, Duration::from_secs(40), 2, Duration::from_secs(2))
    };
    let server = RedisServer::start().await;
    let kafka = start(KafkaOptions::default());
    blocking(|| kafka.create_topic("arrived", 8, &[])).expect("create the topic");
    let bootstrap = kafka.bootstrap();
    // Shorter than the pause, and longer than a busy machine takes to start the broker. When a record times out, the client repeats
    // the unanswered ones in a new sequence, and duplicates of those are not announced (docs/guarantees.md).
    let sink = format!("brokers: ['{bootstrap}'], timeout: 45s, topic: arrived");
    let mut daemon = Daemon::start(&yaml(&server, &sink, "lease: 1m")).await;
    tolerate_stalls(&mut daemon);
    let mut oracle = Oracle::new();
    offer(&server, &mut oracle, "before", 1_000, Duration::from_secs(1)).await;
    all_in_topic(&bootstrap, "arrived", &oracle).await;
    let before = daemon.usage().resident;

    offer(&server, &mut oracle, "still", count / 3, Duration::from_secs(12)).await;
    blocking(|| kafka.freeze(1));
    metric(&daemon, "delaybridge_sink_up", |up| up == 0.0).await;
    readyz(&daemon, 503, "\"down\"").await;
    pass(still).await;
    blocking(|| kafka.thaw(1));
    judge(&format!("paused for {still:?}"), &daemon, &server, &bootstrap, &oracle).await;

    offer(&server, &mut oracle, "killed", count / 3, Duration::from_secs(8)).await;
    blocking(|| kafka.kill(1));
    pass(Duration::from_secs(5)).await;
    blocking(|| kafka.restart(1)).expect("restart Kafka");
    judge("killed and restarted", &daemon, &server, &bootstrap, &oracle).await;

    offer(&server, &mut oracle, "restarts", count / 3, pause * restarts).await;
    for _ in 0..restarts {
        blocking(|| {
            kafka.kill(1);
            kafka.restart(1)
        })
        .expect("restart Kafka");
        pass(pause).await;
    }
    judge(&format!("restarted {restarts} times"), &daemon, &server, &bootstrap, &oracle).await;
    metric(&daemon, "delaybridge_sink_up", |up| up == 1.0).await;
    readyz(&daemon, 200, "").await;
    let after = daemon.usage().resident;
    println!("resident before {} MiB, after {} MiB", before >> 20, after >> 20);
    assert!(after < before + (100 << 20), "the daemon grew from {before} to {after} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_unconfirmed_at_the_end_is_released_and_announced() {
    let server = RedisServer::start().await;
    let kafka = start(KafkaOptions::default());
    blocking(|| kafka.create_topic("arrived", 1, &[])).expect("create the topic");
    let sink = format!("brokers: ['{}'], timeout: 20s, topic: arrived", kafka.bootstrap());
    let yaml = format!("shutdown_timeout: 5s\n{}", yaml(&server, &sink, "lease: 60s"));
    let mut daemon = Daemon::start(&yaml).await;
    tolerate_stalls(&mut daemon);
    let mut oracle = Oracle::new();
    offer(&server, &mut oracle, "one", 1, Duration::from_millis(1)).await;
    all_in_topic(&kafka.bootstrap(), "arrived", &oracle).await;
    blocking(|| kafka.freeze(1));
    offer(&server, &mut oracle, "hundred", 100, Duration::from_millis(1)).await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    eventually("all of them to be in flight", PATIENCE, async || {
        match queue.in_flight(&redis).await.map_err(|e| e.to_string())? {
            100 => Ok(()),
            count => Err(count.to_string()),
        }
    })
    .await;
    assert_eq!(daemon.stop().await, 0, "everything was released");
    assert_eq!(left(&mut redis).await, 100);
    blocking(|| kafka.thaw(1));
    let mut daemon = Daemon::start(&yaml).await;
    tolerate_stalls(&mut daemon);
    let deliveries = all_in_topic(&kafka.bootstrap(), "arrived", &oracle).await;
    settled(&mut redis, &RedissonQueue::new("q")).await;
    // Some or all of the hundred were in the broker's socket; they were announced when the first daemon gave them up.
    oracle.judge(&deliveries).assert_complete(100);
    drop(daemon);
}
