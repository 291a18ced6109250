//! Other clients of the same queue: announcements that never come, Redisson's own transfer, a second daemon.

use std::time::{Duration, Instant};

use redis::AsyncCommands;

use super::rig::{PATIENCE, all_in_list, assert_complete, elements, metric, pass, settled, summary, tolerate_stalls};
use harness::oracle::read_list;
use harness::redisson::{Element, redis_now_ms};
use harness::{Daemon, Oracle, RedisServer, RedissonQueue, eventually};

fn config(server: &RedisServer) -> String {
    format!(
        "redis: {{ url: '{}', command_timeout: 1s }}\nsinks: {{ out: {{ redis: {{ list: arrived, timeout: 10s }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: shared }} }}, lease: 20s, to: [{{ sink: out }}] }} }}\n",
        server.url()
    )
}

/// Waits until the list has `n` elements; returns the time for that, in ms.
async fn arrival(redis: &mut redis::aio::MultiplexedConnection, n: usize) -> i64 {
    let since = Instant::now();
    eventually("the element to arrive", PATIENCE, async || match redis.llen::<_, usize>("arrived").await {
        Ok(length) if length >= n => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    i64::try_from(since.elapsed().as_millis()).unwrap()
}

#[tokio::test]
async fn unannounced_elements_are_found_by_the_poll() {
    let server = RedisServer::start().await;
    let mut daemon = Daemon::start(&config(&server)).await;
    tolerate_stalls(&mut daemon);
    let queue = RedissonQueue::new("shared");
    let mut redis = server.client().await;
    let mut silent = Vec::new();
    let mut killed = Vec::new();
    let mut pushed = Vec::new();
    let mut oracle = Oracle::new();
    let mut n = 0;
    for round in 0..6 {
        // Without an announcement.
        let now = redis_now_ms(&mut redis).await;
        let element = Element::new(queue.layout, now, format!("silent-{round}"));
        oracle.offered([&element]);
        // In one step, as Redisson does it: a claim between the two would leave the entry of the list behind.
        let mut both = redis::pipe();
        both.atomic().zadd(&queue.timeouts, &element.member, element.due_ms).rpush(&queue.list, &element.member);
        let () = both.query_async(&mut redis).await.unwrap();
        n += 1;
        silent.push(arrival(&mut redis, n).await);

        // The subscription is cut right before the announcement.
        let () = redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("pubsub").query_async(&mut redis).await.unwrap();
        let now = redis_now_ms(&mut redis).await;
        let element = queue.offer(&mut redis, now, format!("killed-{round}")).await;
        oracle.offered([&element]);
        n += 1;
        killed.push(arrival(&mut redis, n).await);
    }
    // With a client that subscribes to the channel; its transfer pushes to the ready list without an announcement.
    let client = redis::Client::open(server.url()).unwrap();
    let mut listener = client.get_async_pubsub().await.unwrap();
    listener.subscribe(&queue.channel).await.unwrap();
    for round in 0..10 {
        let payload = format!("ready-{round}").into_bytes();
        oracle.pushed_ready([&payload]);
        queue.push_ready(&mut redis, &[payload]).await;
        n += 1;
        pushed.push(arrival(&mut redis, n).await);
    }
    for latencies in [&mut silent, &mut killed, &mut pushed] {
        latencies.sort_unstable();
    }
    println!(
        "never announced: {}; subscription killed: {}; pushed to the ready list: {}",
        summary(&silent),
        summary(&killed),
        summary(&pushed)
    );
    let deliveries = all_in_list(&mut redis, "arrived", &oracle).await;
    assert_complete(&oracle.judge_payloads(&deliveries), &[&daemon]).await;
    assert!(daemon.metric("delaybridge_wakeups_total{reason=\"poll\"}").await > 0.0);
}

#[tokio::test]
async fn two_daemons_and_the_transfer_of_redisson_deliver_every_element_once() {
    let server = RedisServer::start().await;
    let queue = RedissonQueue::new("shared");
    let mut redis = server.client().await;
    let mut daemons = [Daemon::start(&config(&server)).await, Daemon::start(&config(&server)).await];
    daemons.iter_mut().for_each(tolerate_stalls);
    let mut oracle = Oracle::new();
    let now = redis_now_ms(&mut redis).await;
    let offered = elements(&queue, "e", 10_000, now, 10_000);
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;

    let mut client = server.client().await;
    let transfer = async {
        let mut turns = tokio::time::interval(Duration::from_millis(5));
        loop {
            turns.tick().await;
            let now = redis_now_ms(&mut client).await;
            queue.transfer(&mut client, now).await.expect("transfer as a Redisson client");
        }
    };
    let deliveries = tokio::select! {
        deliveries = all_in_list(&mut redis, "arrived", &oracle) => deliveries,
        () = transfer => unreachable!("the transfer never ends"),
    };
    settled(&mut redis, &queue).await;
    let mut shares = Vec::new();
    for daemon in &daemons {
        let metrics = daemon.metrics().await;
        let claimed = |from| metrics.sum(&format!("delaybridge_claimed_messages_total{{from=\"{from}\"}}"));
        shares.push((claimed("delayed"), claimed("ready"), metrics.sum("delaybridge_delivered_messages_total")));
        assert_eq!(claimed("expired"), 0.0, "good weather");
    }
    println!("claimed from (delayed, ready), delivered: {shares:?}");
    let [one, other] = &daemons;
    if assert_complete(&oracle.judge_payloads(&deliveries), &[one, other]).await == 0.0 {
        assert_eq!(read_list(&mut redis, "arrived").await.len(), 10_000);
    }
    assert_eq!(shares.iter().map(|(_, _, delivered)| delivered).sum::<f64>(), 10_000.0);
    metric(&daemons[0], "delaybridge_queue_messages{state=\"due\"}", |due| due == 0.0).await;
}

/// A daemon looks at the ready list ten times a second while a Redisson client is awake. Another daemon does not count
/// as one.
#[tokio::test]
async fn two_daemons_do_not_take_each_other_for_clients() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let mut daemons = [Daemon::start(&config(&server)).await, Daemon::start(&config(&server)).await];
    daemons.iter_mut().for_each(tolerate_stalls);
    let listeners = async |channel: &str| -> usize {
        let mut ask = redis::cmd("PUBSUB");
        ask.arg("NUMSUB").arg(channel);
        let counts: Vec<(String, usize)> = ask.query_async(&mut redis.clone()).await.unwrap();
        counts[0].1
    };
    for channel in ["redisson_delay_queue_channel:{shared}", "delaybridge:presence:{shared}"] {
        eventually("both to listen", PATIENCE, async || match listeners(channel).await {
            2 => Ok(()),
            n => Err(n.to_string()),
        })
        .await;
    }
    // A rate needs a second. Before both listened, each may have counted the other as a client: then it takes two.
    eventually("fewer than ten looks a second; it is twenty while they do", PATIENCE, async || {
        let before = server.calls("llen").await;
        pass(Duration::from_secs(1)).await;
        match server.calls("llen").await - before {
            looks if looks < 10 => Ok(()),
            looks => Err(format!("{looks} looks")),
        }
    })
    .await;
    for mut daemon in daemons {
        daemon.stop().await;
    }
    let _: () = redis.del("arrived").await.unwrap();
}
