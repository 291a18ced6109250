//! The explanation of an element, as the API and the page give it.

use serde_json::json;

use super::{TOKEN, World};
use delaybridge_core::message::{Class, Failure, Identity};
use delaybridge_telemetry::attempts::FailedAttempt;

/// Milliseconds of a time that is far ahead.
const FAR: &str = "9999999999999";

#[tokio::test]
async fn an_element_is_explained_wherever_it_is() {
    let world = World::start(true).await;
    world.redis(&["ZADD", "due", FAR, r#"{"id":"a"}"#, "1000", r#"{"id":"b"}"#, "2000", r#"{"id":"c"}"#]).await;
    let why = async |id: &str| world.get(&format!("/v1/queues/orders/elements/{id}/why")).await;
    let kinds = |found: &serde_json::Value| -> Vec<_> {
        found["waits_for"].as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap().to_owned()).collect()
    };
    let ahead = why("a").await;
    assert_eq!((&ahead["state"], &ahead["next_attempt_ms"]), (&json!("scheduled"), &json!(9_999_999_999_999_i64)));
    assert_eq!(kinds(&ahead), ["due_time", "no_daemon"], "{ahead}");
    assert_eq!(ahead["remedies"][0]["command"], "delaybridge run-now orders a");

    world.ask("POST", "/v1/queues/orders/pause", r#"{"why":"a deployment"}"#).await;
    let down = Failure::new(Class::Transient, Failure::NOT_CONNECTED, "no route");
    world.events.sink(&"out".into()).down(&down);
    let due = why("c").await;
    assert_eq!((&due["state"], &due["since_ms"]), (&json!("due"), &json!(2_000)));
    assert_eq!(kinds(&due), ["no_daemon", "pause", "sink", "before"], "{due}");
    assert_eq!(due["waits_for"][3]["detail"], "1 element is due before it");
    assert_eq!(kinds(&why("b").await), ["no_daemon", "pause", "sink"]);
    let page = world.ask("GET", "/queues/orders/elements/c", "").await;
    let text = page.text();
    for part in
        ["Waits for the end of a pause", "by ann: a deployment", "delaybridge resume orders", "1 element is due"]
    {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert!(text.contains("<dt>State</dt><dd>due</dd>"), "as `why` calls it: {text}");
    let list = world.ask("GET", "/queues/orders/elements?state=scheduled", "").await.text();
    assert!(list.contains("orders: scheduled and due"), "{list}");
    // With its due time an element is found without a search, and so is what a form asks for.
    assert!(list.contains(r#"href="elements/c?due_ms=2000""#), "{list}");
    let found = world.ask("GET", "/queues/orders/elements/c?due_ms=2000", "").await;
    assert_eq!(found.status, 200);
    assert!(found.text().contains(r#"name="due_ms" value="2000""#), "{}", found.text());
    assert_eq!(world.ask("GET", "/queues/orders/elements/c?due_ms=soon", "").await.status, 200, "it is searched for");
    let (_, kind, _) = world.send("GET", "/v1/queues/orders/elements/c/why", &[], "").await.problem();
    assert_eq!(kind, "unauthorized");
    let found = world.ask("GET", "/v1/queues/mails/elements/x/why", "").await;
    assert_eq!(found.problem().1, "not-found", "no element has this id");
}

#[tokio::test]
async fn each_remedy_that_a_page_can_carry_out_is_a_button_for_who_may() {
    let world = World::start(true).await;
    world.redis(&["ZADD", "due", FAR, r#"{"id":"a"}"#]).await;
    world.ask("POST", "/v1/queues/orders/pause", r#"{"why":"x"}"#).await;
    world.ask("POST", "/v1/sinks/out/pause", r#"{"why":"x"}"#).await;
    let page = async |token: &str| {
        world
            .send("GET", "/queues/orders/elements/a", &[("authorization", &format!("Bearer {token}"))], "")
            .await
            .text()
    };
    let shown = page(TOKEN).await;
    for part in ["action=\"../../orders/resume\"", "action=\"../../../sinks/out/resume\"", ">Run now</button>"] {
        assert_eq!(shown.matches(part).count(), 1, "{part} in {shown}");
    }
    let of_operator = page("operator0123456789").await;
    assert!(of_operator.contains("../orders/resume") && !of_operator.contains("sinks/out/resume"), "{of_operator}");
    let of_viewer = page("viewer0123456789").await;
    assert!(of_viewer.contains("delaybridge resume orders") && !of_viewer.contains("/resume\""), "{of_viewer}");
    world.ask("POST", "/v1/queues/orders/elements/a/kill", r#"{"why":"x"}"#).await;
    assert!(page(TOKEN).await.contains(">Redrive</button>"), "a dead one is redriven");
}

#[tokio::test]
async fn of_an_element_that_is_gone_nothing_is_made_up() {
    let world = World::start(true).await;
    let found = world.get("/v1/queues/orders/elements/z/why").await;
    assert_eq!((&found["state"], &found["waits_for"], &found["remedies"]), (&json!("gone"), &json!([]), &json!([])));
    let page = world.ask("GET", "/queues/orders/elements/z", "").await;
    assert_eq!(page.status, 404);
    assert!(page.text().contains("Nothing more is known of it"), "{}", page.text());
}

#[tokio::test]
async fn the_attempts_that_the_daemon_saw_are_shown_while_the_element_waits() {
    let world = World::start(true).await;
    world.redis(&["ZADD", "due", "1000", r#"{"id":"b"}"#]).await;
    let history = world.events.attempts().queue(&"orders".into());
    let id = Identity::named("b").unwrap().id;
    for at_ms in [5_000, 9_000] {
        history.note(id, FailedAttempt { at_ms, sink: "out".to_owned(), class: Class::Transient, code: "timeout" });
    }
    let found = world.get("/v1/queues/orders/elements/b/why").await;
    let seen = json!({ "at_ms": 9_000, "sink": "out", "class": "transient", "code": "timeout" });
    assert_eq!((found["attempts_seen"].as_array().unwrap().len(), &found["attempts_seen"][1]), (2, &seen));
    let page = world.ask("GET", "/queues/orders/elements/b", "").await.text();
    assert!(page.contains("Failed attempts") && page.matches("<code>timeout</code>").count() == 2, "{page}");
    // Who kills it keeps them.
    assert_eq!(world.ask("POST", "/v1/queues/orders/elements/b/kill", r#"{"why":"x"}"#).await.status, 200);
    let letter = &world.get("/v1/queues/orders/elements/b").await["elements"][0];
    assert_eq!((letter["attempts_seen"].as_array().unwrap().len(), &letter["attempts_seen"][1]), (2, &seen));
}
