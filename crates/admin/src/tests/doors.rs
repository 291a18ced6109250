//! Odd heads of requests at the listener of operators.

use super::World;
use delaybridge_http_server::testing::ODD_HEADS;

#[tokio::test]
async fn without_tokens_only_this_machine_changes_something_and_no_other_page_looks() {
    let world = World::start(false).await;
    for head in ODD_HEADS {
        let looks = head.is_let_in(world.address, "GET", "/v1/queues/orders", "").await;
        let changes = head.is_let_in(world.address, "POST", "/v1/queues/orders/pause", r#"{"why":"x"}"#).await;
        assert_eq!((looks, changes), (head.looks, head.changes), "{}", head.text());
    }
}
