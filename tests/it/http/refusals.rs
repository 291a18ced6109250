//! Refusals by the receiver: of one element, of everything until a person acts, of everything for a while.

use super::*;
use crate::faults::rig::{metric, pass, readyz, tolerate_stalls};
use harness::redisson::Element;

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_refuses_puts_the_queue_on_hold_until_it_is_fixed() {
    let server = RedisServer::start().await;
    let receiver = Receiver::start(&["h2", "http/1.1"]).await;
    receiver.answer("/orders", 404, None);
    let mut daemon = Daemon::start(&yaml(&server, &receiver, "", "")).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("queue on hold until this is fixed");
    let mut oracle = Oracle::new();
    offer(&server, &mut oracle, "no path", 300, Duration::from_secs(1)).await;
    for (status, code, header) in [
        (404, "http_404", None),
        (401, "http_401", None),
        (308, "http_3xx", Some(("location", "https://elsewhere.example/?token=hidden"))),
    ] {
        receiver.answer("/orders", status, header);
        metric(&daemon, "delaybridge_queue_held{queue=\"q\"}", |held| held == 1.0).await;
        let body = readyz(&daemon, 503, code).await;
        assert!(!body.contains("hidden"), "{body}");
        assert_eq!(daemon.metric("delaybridge_delivered_messages_total").await, 0.0);
    }
    let before = receiver.received().len();
    pass(Duration::from_secs(8)).await;
    let tried = receiver.received().len() - before;
    assert!(tried <= 20, "{tried} elements were tried during the hold");
    receiver.answer("/orders", 200, None);
    metric(&daemon, "delaybridge_queue_held{queue=\"q\"}", |held| held == 0.0).await;
    judge("path made", &daemon, &server, &receiver, &oracle).await;
    readyz(&daemon, 200, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_element_that_the_receiver_refuses_is_a_dead_letter_and_its_neighbours_arrive() {
    let server = RedisServer::start().await;
    let receiver = Receiver::start(&["h2", "http/1.1"]).await;
    receiver.answer("/orders/bad", 422, None);
    receiver.answer("/orders/gone", 410, None);
    receiver.answer("/letters", 202, None);
    let queue = ", codec: json, unroutable_after: 0s, dead_letter: { sink: out, path: /letters }";
    let yaml =
        yaml(&server, &receiver, "", queue).replace("sink: out }]", "sink: out, path: '/orders/${payload.to}' }]");
    let mut daemon = Daemon::start(&yaml).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("dead letter stored").expect_log("destination in trouble");
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let to = |n: usize| match n % 10 {
        0 => "bad",
        1 => "gone",
        _ => "good",
    };
    let offered: Vec<Element> =
        (0..500).map(|n| Element::new(queue.layout, now, format!(r#"{{"to":"{}","n":{n}}}"#, to(n)))).collect();
    let mut oracle = Oracle::new();
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;
    // The letters arrive at another path of the same server.
    all(&receiver, &oracle).await;
    let letters: Vec<_> = receiver.received().into_iter().filter(|received| received.path == "/letters").collect();
    for (code, count) in [("http_422", 50), ("http_410", 50)] {
        let found = letters.iter().filter(|letter| letter.header("delaybridge-dead-code") == Some(code)).count();
        assert_eq!(found, count, "{code}");
    }
    oracle.judge(&receiver.deliveries()).assert_complete(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_asks_for_a_pause_gets_it() {
    let server = RedisServer::start().await;
    let receiver = Receiver::start(&["h2", "http/1.1"]).await;
    receiver.answer("/orders", 429, Some(("retry-after", "5")));
    let mut daemon = Daemon::start(&yaml(&server, &receiver, ", max_concurrency: 4", "")).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("sink blocked");
    let mut oracle = Oracle::new();
    offer(&server, &mut oracle, "busy", 400, Duration::from_millis(500)).await;
    eventually("the first refusal", PATIENCE, async || match receiver.received().len() {
        0 => Err("none".to_owned()),
        _ => Ok(()),
    })
    .await;
    pass(Duration::from_secs(4)).await;
    let asked = receiver.received().len();
    assert!(asked <= 8, "{asked} requests within the pause");
    receiver.answer("/orders", 204, None);
    judge("after the pause", &daemon, &server, &receiver, &oracle).await;
}
