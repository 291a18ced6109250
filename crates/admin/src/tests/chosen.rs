//! Rows that a person has ticked.

use super::{TOKEN, World};
use delaybridge_http_server::testing::Answer;

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const ORIGIN: (&str, &str) = ("origin", "http://localhost");
const OPERATOR: &str = "operator0123456789";

async fn asked(world: &World, token: &str, path: &str) -> Answer {
    world.send("GET", path, &[("authorization", &format!("Bearer {token}"))], "").await
}

async fn sent(world: &World, token: &str, path: &str, body: &str) -> Answer {
    world.send("POST", path, &[FORM, ORIGIN, ("authorization", &format!("Bearer {token}"))], body).await
}

/// Schedules these elements in the far future.
async fn schedule(world: &World, ids: &[&str]) {
    for (n, id) in ids.iter().enumerate() {
        let score = (9_000_000_000_000_u64 + n as u64).to_string();
        world.redis(&["ZADD", "due", &score, &format!(r#"{{"id":"{id}"}}"#)]).await;
    }
}

async fn count(world: &World, state: &str) -> i64 {
    world.get("/v1/queues/orders").await[state].as_i64().unwrap()
}

/// The places of the dead letters, the latest first.
async fn places(world: &World) -> Vec<String> {
    let found = world.get("/v1/queues/orders/dead").await;
    let letters = found["dead_letters"].as_array().unwrap().iter();
    letters.map(|letter| letter["stream_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn chosen_elements_are_run_now_or_removed_after_a_question() {
    let world = World::start(true).await;
    schedule(&world, &["a", "b", "c&d", "e"]).await;
    let list = asked(&world, TOKEN, "/queues/orders/elements").await.text();
    assert!(
        list.contains(r#"<input type="checkbox" name="id" value="a""#) && list.contains(r#"formaction="cancel""#),
        "{list}"
    );
    assert_eq!(list.matches("<tr>").count(), 5, "a line each: {list}");

    let question = asked(&world, TOKEN, "/queues/orders/run-now?id=a&id=c%26d&state=scheduled").await.text();
    assert!(
        question.contains("<strong>2 elements</strong> of orders:") && question.contains("Run 2 elements now"),
        "{question}"
    );
    assert!(question.contains(r#"<input type="hidden" name="id" value="c&amp;d">"#), "{question}");
    assert_eq!(count(&world, "due").await, 0, "a question changes nothing");
    let done = sent(&world, TOKEN, "/queues/orders/run-now", "id=a&id=c%26d&id=gone&state=scheduled").await;
    assert_eq!(done.status, 303, "{}", done.text());
    assert_eq!(count(&world, "due").await, 2);
    let to = done.headers["location"].clone();
    let shown = asked(&world, TOKEN, &format!("/queues/orders/{to}")).await.text();
    assert!(
        shown.contains("2 elements due now; 1 left as they were: run-now gone in `orders`: not found"),
        "{to} {shown}"
    );

    let unsure = sent(&world, TOKEN, "/queues/orders/cancel", "id=b&state=scheduled").await;
    assert!(unsure.status == 400 && unsure.text().contains("confirm"), "{}", unsure.text());
    assert_eq!(sent(&world, TOKEN, "/queues/orders/cancel", "id=b&id=e&sure=1").await.status, 303);
    assert_eq!((count(&world, "scheduled").await, count(&world, "due").await), (0, 2));
    let changes = world.get("/v1/audit?queue=orders").await.to_string();
    assert!(["\"run-now\"", "\"cancel\"", "c&d"].iter().all(|word| changes.contains(word)), "{changes}");
}

#[tokio::test]
async fn chosen_dead_letters_are_redriven_or_removed_and_nothing_else_is() {
    let world = World::start(true).await;
    schedule(&world, &["a", "b", "c"]).await;
    for id in ["a", "b", "c"] {
        world.ask("POST", &format!("/v1/queues/orders/elements/{id}/kill"), r#"{"why":"a test"}"#).await;
    }
    let all = places(&world).await;
    let [last, middle, first] = &all[..] else { panic!("{all:?}") };
    let list = asked(&world, TOKEN, "/queues/orders/dead?reason=killed").await.text();
    assert!(list.contains(&format!(r#"name="id" value="{middle}""#)), "{list}");
    assert!(list.contains(r#"<input type="hidden" name="reason" value="killed">"#), "the way back: {list}");

    // Nothing is ticked: that is not everything, and not everything that fits.
    let none = asked(&world, TOKEN, "/queues/orders/dead/redrive/ask?chosen=1&reason=killed").await;
    assert!(none.status == 400 && none.text().contains("no row was chosen"), "{}", none.text());
    assert_eq!(sent(&world, TOKEN, "/queues/orders/dead/purge", "chosen=1&sure=1&reason=killed").await.status, 400);

    let question =
        asked(&world, TOKEN, &format!("/queues/orders/dead/redrive/ask?chosen=1&id={middle}&id=1-1&reason=killed"))
            .await
            .text();
    assert!(question.contains("<strong>1 dead letter</strong> of orders, of 2 that you chose"), "{question}");
    let done =
        sent(&world, TOKEN, "/queues/orders/dead/redrive", &format!("chosen=1&id={middle}&reason=killed&rate=")).await;
    assert_eq!((done.status, done.headers["location"].as_str()), (303, "../dead?done=1%20redriven&reason=killed"));
    assert_eq!(places(&world).await, [last.clone(), first.clone()]);
    // Rows that are named without the word that only they are meant.
    let named = sent(&world, TOKEN, "/queues/orders/dead/purge", &format!("id={last}&sure=1")).await;
    assert!(named.status == 400 && named.text().contains("chosen"), "{}", named.text());
    let unsure = sent(&world, TOKEN, "/queues/orders/dead/purge", &format!("chosen=1&id={last}")).await;
    assert_eq!(unsure.status, 400, "{}", unsure.text());
    assert_eq!(
        sent(&world, TOKEN, "/queues/orders/dead/purge", &format!("chosen=1&id={last}&sure=1")).await.status,
        303
    );
    assert_eq!(places(&world).await, [first.as_str()]);
}

#[tokio::test]
async fn rows_have_boxes_for_who_may_act_on_them() {
    let world = World::start(true).await;
    schedule(&world, &["a"]).await;
    let list = asked(&world, OPERATOR, "/queues/orders/elements").await.text();
    assert!(list.contains("run-now") && !list.contains(r#"formaction="cancel""#), "{list}");
    let list = asked(&world, "reader0123456789", "/queues/orders/elements").await.text();
    assert!(!list.contains("checkbox") && !list.contains("formaction"), "{list}");
    assert_eq!(sent(&world, OPERATOR, "/queues/orders/cancel", "id=a&sure=1").await.status, 403);
    assert_eq!(sent(&world, "reader0123456789", "/queues/orders/run-now", "id=a").await.status, 403);
    // From a page of another origin, with the session of an operator.
    let bearer = format!("Bearer {TOKEN}");
    let evil = [FORM, ("origin", "http://evil.example"), ("authorization", bearer.as_str())];
    assert_eq!(world.send("POST", "/queues/orders/run-now", &evil, "id=a").await.status, 403);
    assert_eq!(count(&world, "due").await, 0);
}

/// An element died, and one with its id is scheduled again.
#[tokio::test]
async fn a_dead_row_of_a_search_is_the_letter_and_not_the_element_with_its_id() {
    let world = World::start(true).await;
    schedule(&world, &["a"]).await;
    world.ask("POST", "/v1/queues/orders/elements/a/kill", r#"{"why":"a test"}"#).await;
    schedule(&world, &["a"]).await;
    let [letter] = &places(&world).await[..] else { panic!("one letter") };
    let found = asked(&world, TOKEN, "/queues/orders/search?field=a").await.text();
    assert!(found.contains(&format!(r#"name="id" value="{letter}""#)), "{found}");
    let done = sent(&world, TOKEN, "/queues/orders/cancel", &format!("id={letter}&sure=1")).await;
    assert_eq!(done.status, 303, "{}", done.text());
    assert_eq!((places(&world).await.len(), count(&world, "scheduled").await), (0, 1));
}

/// Names and `after` narrow a filter, and never widen it.
#[tokio::test]
async fn letters_outside_of_the_ages_of_a_filter_stay() {
    let world = World::start(true).await;
    schedule(&world, &["young"]).await;
    world.ask("POST", "/v1/queues/orders/elements/young/kill", r#"{"why":"a test"}"#).await;
    let [young] = &places(&world).await[..] else { panic!("one letter") };
    let purge = async |body: String| {
        let answer = world.ask("POST", "/v1/queues/orders/dead/purge", &body).await;
        assert_eq!(answer.status, 200, "{body}: {}", answer.text());
        answer.json()["purged"].as_u64().expect("a number")
    };
    assert_eq!(purge(format!(r#"{{"ids":["{young}"],"filter":{{"older_than":"1h"}}}}"#)).await, 0);
    assert_eq!(purge(r#"{"filter":{"older_than":"1h"},"after":"1-0..9999999999999-0"}"#.to_owned()).await, 0);
    assert_eq!(purge(r#"{"filter":{"newer_than":"1h"},"after":"1-0"}"#.to_owned()).await, 1);
}
