//! The time between the stop and the end of listening: clients are served, and asked to go elsewhere.

use std::time::Duration;

use tokio::time::Instant;

use super::World;
use delaybridge_link::test_server::eventually;

#[tokio::test]
async fn who_comes_while_the_server_leaves_is_served_and_sent_elsewhere() {
    let world = World::start().await;
    let mut before = world.client().await;
    let answer = before.ask("GET", "/v1/topics/orders", &[], b"").await;
    assert!(!answer.headers.contains_key("connection"), "{answer:?}");
    world.leave.cancel();

    let added = world.client().await.ask("POST", "/v1/topics/orders/jobs", &[], br#"{"body":"x"}"#).await;
    assert_eq!((added.status, added.headers["connection"].as_str()), (201, "close"), "{}", added.text());
    // A connection that was open is served once more.
    let popped = before.ask("POST", "/v1/topics/orders/pop", &[], b"").await;
    assert_eq!((popped.status, popped.headers["connection"].as_str()), (200, "close"), "{}", popped.text());
    before.send("GET", "/v1/topics/orders", &[], b"").await;
    assert!(before.answer().await.is_none(), "the connection is closed");
    world.until_sizes("orders", [0, 0, 1, 0]).await;
}

#[tokio::test]
async fn a_pop_that_finds_nothing_ends_a_second_after_the_stop_and_not_at_once() {
    let world = World::start().await;
    let mut waiting = world.client().await;
    waiting.send("POST", "/v1/topics/orders/pop?wait_ms=60000", &[], b"").await;
    eventually("the pop to have found nothing", async || world.redis.has_run("evalsha").await).await;
    let began = Instant::now();
    world.leave.cancel();
    let answer = waiting.answer().await.unwrap();
    assert_eq!((answer.status, answer.headers["connection"].as_str()), (204, "close"));
    assert!(began.elapsed() >= Duration::from_secs(1), "a client that asks again at once would do so without end");

    // One that comes later too; and what becomes ready meanwhile is handed out.
    let began = Instant::now();
    let mut late = world.client().await;
    assert_eq!(late.ask("POST", "/v1/topics/orders/pop?wait_ms=60000", &[], b"").await.status, 204);
    assert!(began.elapsed() >= Duration::from_secs(1));
    // It waits a second: on a busy machine the job may come later.
    let answer = loop {
        let mut lucky = world.client().await;
        lucky.send("POST", "/v1/topics/lucky/pop?wait_ms=60000", &[], b"").await;
        world.add_directly("lucky").await;
        let answer = lucky.answer().await.unwrap();
        if answer.status != 204 {
            break answer;
        }
    };
    assert_eq!((answer.status, &answer.json()["jobs"][0]["body"]), (200, &"x".into()));
}
