//! The search over all queues.

use super::topics::add;
use super::{TOKEN, World};

const VIEWER: &str = "viewer0123456789";
const READER: &str = "reader0123456789";

async fn page(world: &World, token: &str, path: &str) -> String {
    let answer = world.send("GET", path, &[("authorization", &format!("Bearer {token}"))], "").await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.text()
}

/// The part of a page that is about a queue, up to the next heading.
fn section<'a>(page: &'a str, queue: &str) -> Option<&'a str> {
    let from = page.find(&format!("<h2><a href=\"queues/{queue}\">"))? + 4;
    page[from..].split("<h2").next()
}

#[tokio::test]
async fn an_id_or_a_part_of_a_value_is_found_in_every_queue_of_the_person() {
    let world = World::start(true).await;
    world.redis(&["ZADD", "due", "9000000000000", r#"{"id":"a7","customer":"Ann Meyer"}"#]).await;
    world.redis(&["ZADD", "due", "9000000000001", r#"{"id":"dead","customer":"Ann Smith"}"#]).await;
    world.redis(&["ZADD", "due", "9000000000002", r#"{"id":"other","customer":"Bob"}"#]).await;
    world.redis(&["ZADD", "redisson_delay_queue_timeout:{mails}", "9000000000003", "to Ann Meyer"]).await;
    world.ask("POST", "/v1/queues/orders/elements/dead/kill", r#"{"why":"a test"}"#).await;
    add(&world, "audit", &["remind Ann Meyer"]).await;

    let found = page(&world, TOKEN, "/search?q=Ann").await;
    let orders = section(&found, "orders").unwrap_or_else(|| panic!("{found}"));
    assert!(
        orders.contains("queues/orders/elements/a7") && orders.contains(">dead<") && !orders.contains("Bob"),
        "{orders}"
    );
    assert!(orders.contains("in ") && orders.contains("scheduled"), "its state and its time: {orders}");
    assert!(section(&found, "mails").is_some_and(|mails| mails.contains("to Ann Meyer")), "{found}");
    assert!(
        found.contains("remind Ann Meyer") && found.contains("<strong>4 hits</strong> in 2 of 2 queues"),
        "{found}"
    );

    let by_id = page(&world, TOKEN, "/search?q=a7").await;
    assert!(by_id.contains("<strong>1 hit</strong>") && by_id.contains("queues/orders/elements/a7"), "{by_id}");
    let by_field = page(&world, TOKEN, "/search?q=customer%3DBob").await;
    assert!(by_field.contains("<strong>1 hit</strong>") && by_field.contains("elements/other"), "{by_field}");

    // A viewer finds ids, and learns nothing of payloads.
    let by_id = page(&world, VIEWER, "/search?q=a7").await;
    assert!(by_id.contains("<strong>1 hit</strong>") && !by_id.contains("Meyer"), "{by_id}");
    assert!(page(&world, VIEWER, "/search?q=Meyer").await.contains("<strong>0 hits</strong>"));
    let of_reader = page(&world, READER, "/search?q=Meyer").await;
    assert!(section(&of_reader, "orders").is_some() && section(&of_reader, "mails").is_none(), "{of_reader}");
    assert!(!of_reader.contains("remind") && of_reader.contains("1 of 1 queue that you may see"), "{of_reader}");
    assert_eq!(world.send("GET", "/search?q=a7", &[], "").await.status, 401);
    assert_eq!(world.ask("GET", "/search?q=", "").await.status, 400);
    assert!(!world.send("GET", "/", &[], "").await.text().contains("action=\"./search\""), "for who may");
    assert!(page(&world, TOKEN, "/queues/orders").await.contains("action=\"../search\""));
}

#[tokio::test]
async fn a_program_searches_all_queues_and_sees_what_its_token_may() {
    let world = World::start(true).await;
    world.redis(&["ZADD", "due", "9000000000000", r#"{"id":"a7","customer":"Ann Meyer"}"#]).await;
    let body = format!("remind Ann Meyer {}", "x".repeat(10_000));
    add(&world, "audit", &[&body]).await;
    // What is broken in one topic costs no hit of another.
    add(&world, "aa", &["x"]).await;
    world.redis(&["DEL", "delaybridge:jobs:records:{aa}"]).await;
    world.redis(&["SET", "delaybridge:jobs:records:{aa}", "x"]).await;
    let search = async |token: &str, text: &str| {
        let head = [("authorization", &*format!("Bearer {token}")), ("content-type", "application/json")];
        let answer = world.send("POST", "/v1/search", &head, &format!(r#"{{"text":"{text}"}}"#)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let by_id = search(VIEWER, "a7").await;
    let element = &by_id["queues"][0]["elements"][0];
    assert_eq!((element["id"].as_str(), element["payload_cut"].as_bool()), (Some("a7"), Some(true)), "{by_id}");
    assert!(!by_id.to_string().contains("Meyer"), "{by_id}");
    assert_eq!(search(VIEWER, "Meyer").await["queues"], serde_json::json!([]));
    let of_reader = search(READER, "Meyer").await;
    assert_eq!((of_reader["of"].as_u64(), of_reader["jobs"]["jobs"].as_array().map(Vec::len)), (Some(1), Some(0)));
    let of_all = search(TOKEN, "Meyer").await;
    let jobs = of_all["jobs"]["jobs"].as_array().expect("jobs");
    assert!(jobs.len() == 1 && jobs[0].to_string().len() < 6_000, "the beginning of a large body: {of_all}");
    assert_eq!(of_all["errors"][0]["queue"], "aa", "{of_all}");
    let after = r#"{"text":"Meyer","after":"mails"}"#;
    let rest = world.ask("POST", "/v1/search", after).await.json();
    assert_eq!((rest["searched"].as_u64(), rest["queues"][0]["queue"].as_str()), (Some(2), Some("orders")), "{rest}");
    assert_eq!(world.send("POST", "/v1/search", &[], r#"{"text":"a7"}"#).await.status, 401);
}

#[tokio::test]
async fn what_was_not_looked_at_is_said_with_the_way_on() {
    let world = World::start(true).await;
    let script = "for i = 1, 1500 do redis.call('ZADD', KEYS[1], 9000000000000 + i, '{\"id\":\"x' .. i .. '\",\"n\":\"v' .. i .. '\"}') end";
    world.redis(&["EVAL", script, "1", "due"]).await;
    let found = page(&world, TOKEN, "/search?q=v1499").await;
    assert!(found.contains("<strong>0 hits</strong>") && found.contains("These have more elements"), "{found}");
    let from = found.find("href=\"queues/orders/search?").unwrap_or_else(|| panic!("{found}")) + 6;
    let next = found[from..].split('"').next().unwrap().replace("&amp;", "&");
    let on = page(&world, TOKEN, &format!("/{next}")).await;
    assert!(on.contains("elements/x1499") && on.contains("Looked at 1,500 of 1,500"), "{next}: {on}");
    let many = page(&world, TOKEN, "/search?q=v1").await;
    assert_eq!(many.matches("<tr>").count(), 6, "five of a queue: {many}");
    assert!(many.contains("Search on in orders"), "{many}");
}
