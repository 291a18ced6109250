//! The changes of operators, as they are kept beside the queues.

use serde_json::json;

use super::World;
use delaybridge_ops::OverRedis;
use delaybridge_ops::operator::Operator;
use delaybridge_ops::pause::PauseTarget;

#[tokio::test]
async fn who_did_what_is_kept_whichever_way_it_was_done() {
    let world = World::start(true).await;
    world.redis(&["ZADD", "due", "9999999999999", r#"{"id":"a"}"#]).await;
    assert_eq!(world.get("/v1/audit").await["changes"], json!([]));
    world.ask("POST", "/v1/queues/orders/pause", r#"{"why":"a deployment"}"#).await;
    world.ask("DELETE", "/v1/queues/orders/elements/a", "").await;
    assert_eq!(world.ask("DELETE", "/v1/queues/orders/elements/a", "").await.status, 404);
    world.ask("POST", "/v1/sinks/out/pause", r#"{"why":"x"}"#).await;
    OverRedis::new(world.config.clone(), "bob@shell".to_owned()).resume(PauseTarget::Queue("orders")).await.unwrap();
    let found = world.get("/v1/audit?queue=orders").await;
    let changes = found["changes"].as_array().unwrap();
    let line = |at: usize| {
        [&changes[at]["what"], &changes[at]["which"], &changes[at]["by"]].map(|text| text.as_str().unwrap())
    };
    assert_eq!(changes.len(), 5, "{found}");
    assert_eq!(line(0), ["resume", "queue", "bob@shell"]);
    assert_eq!(changes[0]["result"], "resumed; it was paused by ann: a deployment");
    assert_eq!(changes[4]["result"], "paused: a deployment; until it is resumed");
    assert_eq!(line(1), ["pause", "sink out", "ann"]);
    assert_eq!(line(2), ["cancel", "a", "ann"]);
    assert!(
        changes[2]["problem"].as_str().is_some_and(|text| text.contains("not found")) && changes[2]["result"].is_null()
    );
    assert_eq!((line(3), line(4)), (["cancel", "a", "ann"], ["pause", "queue", "ann"]));
    assert!(
        changes[3]["result"].is_string()
            && changes[3]["from"].as_str().is_some_and(|from| from.starts_with("127.0.0.1"))
    );
    let all = world.get("/v1/audit?limit=2").await;
    assert_eq!((&all["changes"][0]["by"], all["changes"].as_array().unwrap().len()), (&json!("bob@shell"), 2));
    let of_mails = world.get("/v1/audit?queue=mails").await;
    assert_eq!(of_mails["changes"][0]["which"], "sink out", "beside each queue that delivers to it");
    let page = world.ask("GET", "/audit?queue=orders", "").await.text();
    assert!(page.contains("bob@shell") && page.contains("sink out") && page.contains("failed"), "{page}");
    assert_eq!(world.send("GET", "/v1/audit", &[], "").await.status, 401);
    // A token for some queues sees the changes of those.
    let of_orders = [("authorization", "Bearer reader0123456789")];
    let own = world.send("GET", "/v1/audit", &of_orders, "").await.json();
    let queues: Vec<_> = own["changes"].as_array().unwrap().iter().map(|change| &change["queue"]).collect();
    assert_eq!(queues, vec![&json!("orders"); 5], "{own}");
    assert_eq!(world.send("GET", "/audit", &of_orders, "").await.status, 200);
    assert_eq!(world.send("GET", "/v1/audit?queue=orders", &of_orders, "").await.status, 200);
    assert_eq!(world.send("GET", "/v1/audit?queue=mails", &of_orders, "").await.status, 403);
    assert_eq!(world.ask("GET", "/v1/audit?queue=gone", "").await.status, 404);
}
