//! Odd heads of requests at the listener of the job queue.

use super::World;
use delaybridge_http_server::testing::ODD_HEADS;

#[tokio::test]
async fn only_a_program_of_this_machine_is_let_in_without_a_token() {
    let world = World::start().await;
    world.add("t", r#"{"body":"x"}"#).await;
    for head in ODD_HEADS {
        let looks = head.is_let_in(world.address, "GET", "/v1/topics/t", "").await;
        let adds = head.is_let_in(world.address, "POST", "/v1/topics/t/jobs", "x").await;
        assert_eq!((looks, adds), (head.is_program, head.is_program), "{}", head.text());
    }
}
