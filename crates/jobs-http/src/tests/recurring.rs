//! Recurring jobs over our own API.

use serde_json::{Value, json};

use super::World;
use delaybridge_jobs::{Fired, MAX_RECURRING_BODY, Topic};

const PATH: &str = "/v1/topics/reports/recurring/nightly";

#[tokio::test]
async fn a_recurring_job_is_added_changed_paused_and_removed() {
    let world = World::start().await;
    let set = async |wanted: Value| world.ask("PUT", PATH, &wanted.to_string()).await;
    let wanted = json!({ "cron": "0 3 * * *", "zone": "Europe/Berlin", "body": { "report": "sales" }, "tries": 2, "ttl": "1d", "priority": 4 });
    let added = set(wanted.clone()).await;
    assert_eq!((added.status, &added.json()["created"], &added.json()["changed"]), (201, &json!(true), &json!(true)));
    let next_ms = added.json()["next_ms"].as_i64().unwrap();
    assert!(next_ms % 3_600_000 == 0);
    let again = set(wanted.clone()).await;
    let expected = json!({ "name": "nightly", "created": false, "changed": false, "next_ms": next_ms });
    assert_eq!((again.status, again.json()), (200, expected));
    let seen = world.ask("GET", PATH, "").await.json();
    let expected = json!({
        "name": "nightly", "cron": "0 3 * * *", "zone": "Europe/Berlin", "missed": "once", "paused": false, "next_ms": next_ms,
        "tries": 2, "ttl_ms": 86_400_000, "priority": 4, "size": 18, "body": "{\"report\":\"sales\"}", "content_type": "application/json",
    });
    assert_eq!(seen, expected);

    // A pause outlives a change.
    let switched = |paused: bool, changed: bool| json!({ "name": "nightly", "paused": paused, "changed": changed });
    for (what, paused, changed) in [
        ("pause", true, true),
        ("pause", true, false),
        ("resume", false, true),
        ("resume", false, false),
        ("pause", true, true),
    ] {
        let answer = world.ask("PUT", &format!("{PATH}/{what}"), "").await;
        assert_eq!((answer.status, answer.json()), (200, switched(paused, changed)));
    }
    let changed = set(json!({ "cron": "@hourly", "missed": "all", "body": "text" })).await.json();
    assert_eq!(changed, json!({ "name": "nightly", "created": false, "changed": true }));
    for name in ["a", "b:c.d-e_f"] {
        let path = format!("/v1/topics/reports/recurring/{name}");
        assert_eq!(world.ask("PUT", &path, &wanted.to_string()).await.status, 201);
    }
    let page = world.ask("GET", "/v1/topics/reports/recurring?limit=2", "").await.json();
    let names: Vec<_> = page["recurring"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!((names, &page["next"]), (vec![&json!("a"), &json!("b:c.d-e_f")], &json!("b:c.d-e_f")));
    let rest = world.ask("GET", "/v1/topics/reports/recurring?after=b:c.d-e_f", "").await.json();
    let expected =
        json!({ "name": "nightly", "cron": "@hourly", "zone": "UTC", "missed": "all", "paused": true, "size": 4 });
    assert_eq!(rest, json!({ "recurring": [expected] }));

    assert_eq!(world.ask("DELETE", PATH, "").await.status, 204);
    for (method, path) in [("DELETE", PATH), ("GET", PATH), ("PUT", "/v1/topics/reports/recurring/nightly/pause")] {
        assert_eq!(world.ask(method, path, "").await.problem().1, "not-found");
    }
    assert_eq!(world.ask("GET", "/v1/topics/nobody/recurring", "").await.json(), json!({ "recurring": [] }));
}

#[tokio::test]
async fn what_is_no_recurring_job_is_refused_with_the_rule() {
    let world = World::start().await;
    let large = "x".repeat(MAX_RECURRING_BODY + 1);
    for (path, wanted, kind, words) in [
        (PATH, json!({ "body": 1 }), "bad-request", "`cron` is missing"),
        (PATH, json!({ "cron": "@daily" }), "bad-request", "`body` is missing"),
        (PATH, json!({ "cron": "61 * * * *", "body": 1 }), "bad-request", "minute, hour, day of the month"),
        (PATH, json!({ "cron": "0 0 31 2 *", "body": 1 }), "bad-request", "never fires"),
        (PATH, json!({ "cron": "@daily", "zone": "Europe/Nowhere", "body": 1 }), "bad-request", "no time zone"),
        (PATH, json!({ "cron": "@daily", "missed": "never", "body": 1 }), "bad-request", "`skip`, `once` or `all`"),
        (PATH, json!({ "cron": "@daily", "tries": 0, "body": 1 }), "bad-request", "tries must be 1"),
        (PATH, json!({ "cron": "@daily", "ttr": "8d", "body": 1 }), "bad-request", "7 days"),
        (PATH, json!({ "cron": "@daily", "crom": 1, "body": 1 }), "bad-request", "did you mean `cron`?"),
        (PATH, json!({ "cron": "@daily", "body": large }), "too-large", "65536"),
        (
            "/v1/topics/reports/recurring/a%20b",
            json!({ "cron": "@daily", "body": 1 }),
            "bad-request",
            "1 to 100 letters",
        ),
    ] {
        let problem = world.ask("PUT", path, &wanted.to_string()).await.problem();
        assert!(problem.1 == kind && problem.2.contains(words), "{problem:?}");
    }
}

#[tokio::test]
async fn the_job_of_a_firing_is_handed_out_with_its_body_and_its_own_settings() {
    let world = World::start().await;
    let wanted = json!({ "cron": "* * * * *", "body": { "n": 1 }, "ttr": "7s", "tries": 3 });
    let next_ms = world.ask("PUT", PATH, &wanted.to_string()).await.json()["next_ms"].as_i64().unwrap();
    let topic: Topic = "reports".parse().unwrap();
    assert!(world.queue.due_recurring(&topic).await.unwrap().firings.is_empty(), "none is early");
    let past = (next_ms - 60_000).to_string();
    world.redis.command(&["ZADD", "delaybridge:jobs:firings:{reports}", &past, "nightly"]).await;
    let due = world.queue.due_recurring(&topic).await.unwrap().firings.remove(0);
    assert_eq!(world.queue.fire(&topic, &due).await.unwrap(), Fired::Done { added: 1, skipped: 0, left: 0 });
    assert_eq!(world.queue.fire(&topic, &due).await.unwrap(), Fired::Elsewhere);
    let job = world.ask("POST", "/v1/topics/reports/pop", "").await.json()["jobs"][0].clone();
    assert_eq!((&job["body"], &job["content_type"]), (&json!("{\"n\":1}"), &json!("application/json")));
    assert_eq!((&job["ttr_ms"], &job["tries_left"]), (&json!(7_000), &json!(2)));
    let id = job["id"].as_str().unwrap();
    assert!(id.starts_with("reports~nightly:20") && id.ends_with(":00Z"), "{id}");
}
