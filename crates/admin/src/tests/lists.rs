//! Lists of queues by trouble, and elements by a field of their payload, as the page and the API show them.

use serde_json::json;

use super::World;
use delaybridge_telemetry::metrics::{QueueAhead, QueueSizes};

/// The queues of an answer or a page, in their order.
async fn names(world: &World, path: &str) -> Vec<&'static str> {
    let text = world.ask("GET", path, "").await.text();
    // A list that is not the usual one is carried along.
    let place = |name: &str, end: &str| text.find(&format!("\"queues/{name}{end}"));
    let places = ["orders", "mails"].map(|name| (place(name, "\"").or_else(|| place(name, "?list=")), name));
    let mut found: Vec<_> = places.into_iter().filter_map(|(at, name)| Some((at?, name))).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, name)| name).collect()
}

#[tokio::test]
async fn queues_in_trouble_are_first_and_can_be_all_that_is_listed() {
    let world = World::start(true).await;
    assert_eq!(names(&world, "/").await, ["orders", "mails"]);
    assert!(world.ask("GET", "/?show=trouble", "").await.text().contains("No queue is in trouble."));
    let sizes = QueueSizes { messages: [0, 0, 0, 0, 4], ..QueueSizes::default() };
    world.events.metrics().queue(&"mails".into()).sizes(&sizes);
    // Due times that are hardly meant are trouble too.
    let ahead = QueueAhead { absurd: 3, ..QueueAhead::default() };
    let odd = QueueSizes { ahead, ..QueueSizes::default() };
    world.events.metrics().queue(&"orders".into()).sizes(&odd);
    // Each page is kept for a second, so that each is asked for once.
    assert_eq!(names(&world, "/?show=trouble&limit=8").await, ["orders", "mails"]);
    world.redis(&["ZADD", "due", "1795626000", r#"{"id":"seconds"}"#]).await;
    let listed = world.ask("GET", "/?limit=7", "").await.text();
    assert!(listed.contains("1 due before 2001, or more than a year ahead"), "{listed}");
    assert_eq!(world.get("/v1/queues/orders").await["absurd_due"], 1);
    world.redis(&["DEL", "due"]).await;
    world.events.metrics().queue(&"orders".into()).sizes(&QueueSizes::default());
    for (path, expected) in [
        ("/?limit=9", &["mails", "orders"][..]),
        ("/?show=trouble&limit=9", &["mails"]),
        ("/?show=dead&limit=9", &["mails"]),
        ("/?show=paused&limit=9", &[]),
        ("/?sort=configuration", &["orders", "mails"]),
        ("/?sort=dead&like=o", &["orders"]),
        ("/?sort=dead&like=MAI", &["mails"]),
        ("/?limit=1", &["mails"]),
        ("/?limit=1&after=mails", &["orders"]),
    ] {
        assert_eq!(names(&world, path).await, expected, "{path}");
    }
    let listed = world.get("/v1/queues?sort=trouble&limit=1").await;
    assert_eq!((&listed["queues"][0]["queue"], &listed["next"]), (&json!("mails"), &json!("mails")));
    assert_eq!((&listed["total"], &world.get("/v1/queues?like=MAI").await["total"]), (&json!(2), &json!(1)));
    let sums =
        async |path: &str| world.ask("GET", path, "").await.text().contains("The 1 queue of this page together:");
    assert!(sums("/?limit=1").await && sums("/?limit=1&after=mails").await && !sums("/?limit=2").await);
    assert_eq!(world.get("/v1/queues?show=dead").await["queues"].as_array().unwrap().len(), 1);
    // From a queue the list is found again as it was, and so is the page that looks again.
    let listed = world.ask("GET", "/?like=MAI&show=dead&still=1", "").await.text();
    let from = listed.find("queues/mails?list=").expect("a link with the list");
    let queue = listed[from..].split('"').next().unwrap();
    let shown = world.ask("GET", &format!("/{queue}"), "").await.text();
    assert!(shown.contains("<a href=\"../?like=MAI&amp;show=dead\">Queues</a>"), "{shown}");
    assert!(world.ask("GET", "/?like=MAI", "").await.text().contains("href=\"?like=MAI&amp;still=1\""));
    let (_, kind, detail) = world.ask("GET", "/v1/queues?sort=size", "").await.problem();
    assert!(kind == "bad-request" && detail.contains("trouble, configuration, name"), "{detail}");
}

#[tokio::test]
async fn a_search_on_the_page_says_how_far_it_is_and_goes_on() {
    let world = World::start(true).await;
    for n in 0..25 {
        let member = format!(r#"{{"id":"e{n}","kind":"{}"}}"#, if n < 22 { "a" } else { "b" });
        world.redis(&["ZADD", "due", &(9_999_999_999_000_i64 + n).to_string(), &member]).await;
    }
    let page = async |path: &str| world.ask("GET", path, "").await.text();
    let first = page("/queues/orders/search?field=kind%3Da").await;
    assert_eq!(first.matches("<tr>").count(), 21, "{first}");
    assert!(first.contains("value=\"kind=a\"") && first.contains("of 25 elements"), "{first}");
    let from = first.find("href=\"search?field=").expect("the way on") + 6;
    let next = first[from..].split('"').next().unwrap().replace("&amp;", "&");
    let rest = page(&format!("/queues/orders/{next}")).await;
    assert!(rest.matches("<tr>").count() == 3 && rest.contains("Looked at 25 of 25"), "{rest}");
    assert!(!rest.contains("Search on") && page("/queues/orders/search?field=kind%3Dc").await.contains("None fits."));
    assert_eq!(world.ask("GET", "/queues/orders/search?field=", "").await.status, 400);
    assert_eq!(world.send("GET", "/queues/orders/search?field=kind%3Da", &[], "").await.status, 401);
}

#[tokio::test]
async fn filters_are_choices_where_the_values_are_known() {
    let world = World::start(true).await;
    let page = world.ask("GET", "/queues/orders/dead?reason=killed&sink=gone", "").await.text();
    for part in [
        "<option value=\"killed\" selected>",
        "<option value=\"max_attempts\">",
        "<option value=\"transient\">",
        "<option value=\"out\">",
        "<option value=\"gone\" selected>",
    ] {
        assert!(page.contains(part), "{part} is missing in {page}");
    }
}

#[tokio::test]
async fn the_history_begins_with_the_daemon_and_says_so() {
    let world = World::start(true).await;
    for path in ["/v1/queues/orders/history", "/v1/sinks/out/history"] {
        let found = world.get(path).await;
        assert_eq!((&found["kept"], &found["minutes"], &found["quarters"]), (&json!(true), &json!([]), &json!([])));
    }
    for path in ["/v1/queues/gone/history", "/v1/sinks/gone/history"] {
        assert_eq!(world.ask("GET", path, "").await.problem().1, "not-found", "{path}");
    }
    for path in ["/queues/orders", "/sinks/out"] {
        let page = world.ask("GET", path, "").await;
        assert_eq!(page.status, 200);
        assert!(page.text().contains("The first minute since the start of this daemon is not over"), "{}", page.text());
    }
}
