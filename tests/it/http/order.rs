//! A queue with order: two daemons, one of them killed, and a receiver that sometimes fails.

use super::*;
use crate::faults::rig::tolerate_stalls;
use harness::redisson::Element;

const KEYS: usize = 7;
const ELEMENTS: usize = 350;

/// The numbers of each key's elements, in the order of their first confirmed deliveries.
fn first_confirmed(receiver: &Receiver) -> Vec<Vec<usize>> {
    let mut seen = vec![Vec::new(); KEYS];
    for received in receiver.received().iter().filter(|received| received.status < 300) {
        let body: serde_json::Value = serde_json::from_slice(&received.body).expect("what was offered");
        let number = |field: &str| usize::try_from(body[field].as_u64().expect("a number")).expect("a small one");
        let key = number("k");
        let n = number("n");
        if !seen[key].contains(&n) {
            seen[key].push(n);
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn each_key_arrives_in_order_through_failures_and_a_kill() {
    let server = RedisServer::start().await;
    let receiver = Receiver::start(&["h2"]).await;
    let order = ", codec: json, order: key, order_key: '${payload.k}'";
    let yaml = yaml(&server, &receiver, "", order)
        .replace("timeout: 5s", "timeout: 1s")
        .replace("lease: 20s", "lease: 3s")
        .replace("max_attempts: 3", "max_attempts: 1000")
        .replace("redis: { url", "redis: { command_timeout: 1s, url");
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let element = |n: usize| {
        let due_ms = now - 1_000 + i64::try_from(n * 10).expect("soon");
        Element::new(queue.layout, due_ms, format!(r#"{{"k":{},"n":{n}}}"#, n % KEYS))
    };
    let offered: Vec<Element> = (0..ELEMENTS).map(element).collect();
    queue.offer_bulk(&mut redis, &offered).await;

    // On a busy machine all elements could be delivered before the second daemon has started.
    receiver.answer("/orders", 503, None);
    let mut first = Daemon::start(&yaml).await;
    let mut second = Daemon::start(&yaml).await;
    for daemon in [&mut first, &mut second] {
        tolerate_stalls(daemon);
        daemon.expect_log("sink blocked").expect_log("leases expired");
    }
    let arrived = || first_confirmed(&receiver).iter().map(Vec::len).sum::<usize>();
    let answered = |status: u16| receiver.received().iter().filter(|received| received.status == status).count();
    let answers_more = async |status: u16, more: usize| {
        let before = answered(status);
        eventually(&format!("{more} more answers {status}"), PATIENCE, async || match answered(status) - before {
            new if new >= more => Ok(()),
            new => Err(format!("{new}")),
        })
        .await;
    };
    // Refuses some requests, then takes a part of the elements, until all have arrived.
    let failing = async {
        loop {
            receiver.answer("/orders", 503, None);
            answers_more(503, 1).await;
            receiver.answer("/orders", 204, None);
            answers_more(204, 30).await;
        }
    };
    let delivered = async {
        eventually("a third of it", PATIENCE, async || {
            if arrived() > ELEMENTS / 3 { Ok(()) } else { Err(format!("{} arrived", arrived())) }
        })
        .await;
        let active = async |daemon: &Daemon| daemon.metric("delaybridge_queue_active{queue=\"q\"}").await;
        assert_eq!((active(&first).await, active(&second).await), (1.0, 0.0), "one delivers, one stands by");
        first.kill();
        eventually("all of it", PATIENCE, async || {
            if arrived() == ELEMENTS { Ok(()) } else { Err(format!("{} arrived", arrived())) }
        })
        .await;
    };
    tokio::select! {
        () = failing => {}
        () = delivered => {}
    }
    for (key, seen) in first_confirmed(&receiver).into_iter().enumerate() {
        assert!(seen.is_sorted(), "key {key}: {seen:?}");
    }
    settled(&mut redis, &queue).await;
    assert_eq!(second.metric("delaybridge_queue_active{queue=\"q\"}").await, 1.0);
    let failed = receiver.received().iter().filter(|received| received.status == 503).count();
    assert!(failed > 0, "the receiver failed");
}
