//! Requests without a token at the listener of operators: odd heads, and many at a time.

use std::time::Duration;

use tokio::time::timeout;

use super::World;
use delaybridge_http_server::testing::{Client, ODD_HEADS};

/// Logins whose forms do not come: each is a request under way for half a minute, and there are more than connections.
#[tokio::test]
async fn however_many_requests_come_without_a_token_whoever_has_one_is_served() {
    let world = World::start(true).await;
    let host = world.address.to_string();
    let origin = format!("http://{host}");
    let form = "application/x-www-form-urlencoded";
    let mut strangers = Vec::new();
    for _ in 0..150 {
        let mut stranger = Client::connect(world.address).await;
        let head = format!(
            "POST /login HTTP/1.1\r\nhost: {host}\r\norigin: {origin}\r\ncontent-type: {form}\r\ncontent-length: 9\r\n\r\n"
        );
        stranger.raw(head.as_bytes()).await;
        strangers.push(stranger);
    }
    let served = timeout(Duration::from_secs(10), world.get("/v1/queues")).await;
    assert!(served.is_ok(), "it waits behind those who have no token");
    // The last stranger was refused.
    let refused = strangers.last_mut().unwrap().answer().await.unwrap();
    assert_eq!((refused.status, refused.headers["retry-after"].as_str()), (429, "1"));
}

#[tokio::test]
async fn without_tokens_only_this_machine_changes_something_and_no_other_page_looks() {
    let world = World::start(false).await;
    for head in ODD_HEADS {
        let looks = head.is_let_in(world.address, "GET", "/v1/queues/orders", "").await;
        let changes = head.is_let_in(world.address, "POST", "/v1/queues/orders/pause", r#"{"why":"x"}"#).await;
        assert_eq!((looks, changes), (head.looks, head.changes), "{}", head.text());
    }
}
