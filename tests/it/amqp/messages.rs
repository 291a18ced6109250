//! The messages: body, properties, headers; and elements that no queue accepts.

use super::*;
use crate::faults::rig::{patient, tolerate_stalls};
use harness::redisson::Element;

fn text<'a>(delivery: &'a Delivery, name: &str) -> Option<&'a str> {
    delivery.headers.get(name).map(|value| std::str::from_utf8(value).expect("text"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_carries_what_is_known_of_the_element() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let yaml = yaml(&server, &rabbit, DECLARE, "codec: json").replace(
        "sink: out",
        "sink: out, headers: { tenant: '${payload.tenant:-none}' }, \
         properties: { content_type: application/json, priority: '5', correlation_id: '${payload.order}' }",
    );
    let mut daemon = Daemon::start(&patient(&yaml)).await;
    tolerate_stalls(&mut daemon);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let offered: Vec<Element> =
        (0..200).map(|n| Element::new(queue.layout, now, format!(r#"{{"order":"o-{n}"}}"#))).collect();
    let mut oracle = Oracle::new();
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;
    let mut arrived = Arrived::at(&rabbit);
    let mut message_ids = std::collections::HashSet::new();
    for delivery in arrived.all("arrived", &oracle).await {
        assert_eq!((delivery.queue.as_deref(), delivery.attempt, delivery.due_ms), (Some("q"), Some(1), Some(now)));
        assert_eq!(delivery.key.as_deref(), Some(&b"due"[..]));
        assert_eq!(text(delivery, "tenant"), Some("none"));
        assert_eq!(text(delivery, "property:app_id"), Some("delaybridge"));
        assert_eq!(text(delivery, "property:content_type"), Some("application/json"));
        assert_eq!(text(delivery, "property:timestamp"), Some(&*(now / 1000).to_string()));
        assert_eq!(text(delivery, "property:delivery_mode"), Some("2"));
        assert_eq!(text(delivery, "property:priority"), Some("5"));
        let order = text(delivery, "property:correlation_id").expect("a correlation id");
        assert_eq!(delivery.payload, format!(r#"{{"order":"{order}"}}"#).into_bytes());
        assert!(message_ids.insert(text(delivery, "property:message_id").expect("a message id").to_owned()));
    }
    judge("properties", &daemon, &server, &mut arrived, &oracle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unroutable_key_of_its_own_is_a_forwarded_dead_letter_and_its_neighbours_arrive() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    Rabbits::connect(&url(&rabbit)).await.expect("connect").declare("letters", Some("letters"), "due").await;
    let queue = "codec: json, unroutable_after: 0s, dead_letter: { sink: out, exchange: letters, routing_key: due }";
    let yaml =
        yaml(&server, &rabbit, DECLARE, queue).replace("sink: out }]", "sink: out, routing_key: '${payload.to}' }]");
    let mut daemon = Daemon::start(&yaml).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("dead letter stored").expect_log("destination in trouble");
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let mut oracle = Oracle::new();
    let mut dead = Oracle::new();
    let to = |n: usize| if n.is_multiple_of(7) { "nowhere" } else { "due" };
    let offered: Vec<Element> =
        (0..1_400).map(|n| Element::new(queue.layout, now, format!(r#"{{"to":"{}","n":{n}}}"#, to(n)))).collect();
    for (n, element) in offered.iter().enumerate() {
        if to(n) == "due" { oracle.offered([element]) } else { dead.offered([element]) }
    }
    queue.offer_bulk(&mut redis, &offered).await;
    let mut arrived = Arrived::at(&rabbit);
    oracle.judge(arrived.all("arrived", &oracle).await).assert_complete(0);
    let mut letters = Arrived::at(&rabbit);
    let letters = letters.all("letters", &dead).await;
    dead.judge(letters).assert_complete(0);
    for letter in letters {
        assert_eq!(text(letter, "delaybridge-dead-reason"), Some("unroutable"));
        assert_eq!(text(letter, "delaybridge-dead-code"), Some("NO_ROUTE"));
    }
}

/// `check --live` looks: what the daemon would declare is said and not made.
#[tokio::test(flavor = "multi_thread")]
async fn a_check_declares_nothing() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let config = harness::daemon::ConfigFile::new(&yaml(&server, &rabbit, DECLARE, "codec: string"));
    let checked = harness::daemon::cli(&config, &["check", "--live"]);
    let text = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(text.contains("Nothing was changed"), "{text}{}", String::from_utf8_lossy(&checked.stderr));
    let mut rabbits = Rabbits::connect(&url(&rabbit)).await.expect("connect");
    let found = rabbits.take_all("arrived").await;
    assert!(found.is_err(), "the queue `arrived` was declared, by:\n{text}");
}
