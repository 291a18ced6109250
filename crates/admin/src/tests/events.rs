//! The events of single elements, as a stream and on the page.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{TOKEN, World};
use delaybridge_core::message::Identity;
use delaybridge_http_server::testing::Client;
use delaybridge_telemetry::tail::{ANONYMOUS, ElementEvent, Fate, LISTENERS};

fn event(id: &str, fate: Fate, payload: &str) -> ElementEvent {
    ElementEvent {
        number: 0,
        left_out: 0,
        at_ms: 5_000,
        queue: Arc::from("orders"),
        id: Identity::named(id).unwrap(),
        fate,
        sink: Some("out".to_owned()),
        due_ms: Some(4_000),
        attempt: 2,
        next_ms: None,
        failure: (fate == Fate::Dead).then_some(("message_permanent", "too_large")),
        message: (fate == Fate::Dead).then(|| "ann is too large".to_owned()),
        payload: Some(Bytes::copy_from_slice(payload.as_bytes())),
        size: payload.len(),
    }
}

struct Follower {
    stream: TcpStream,
    read: String,
}

impl Follower {
    async fn new(world: &World, query: &str, headers: &str) -> Follower {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        let head = format!("GET /v1/events{query} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        Follower { stream, read: String::new() }
    }

    /// Reads until this was sent; everything up to there.
    async fn until(&mut self, text: &str) -> &str {
        let read = async {
            while !self.read.contains(text) {
                let mut bytes = [0; 4096];
                let count = self.stream.read(&mut bytes).await.unwrap();
                assert!(count > 0, "the stream ended: {}", self.read);
                self.read.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
            }
        };
        timeout(Duration::from_secs(30), read).await.expect("it was sent");
        &self.read
    }

    fn events(&self) -> Vec<Value> {
        let lines = self.read.lines().filter_map(|line| line.strip_prefix("data: "));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[tokio::test]
async fn events_are_followed_and_payloads_need_a_token() {
    let world = World::start(true).await;
    let tail = world.events.tail().clone();
    tail.note(Fate::Delivered, || panic!("there is no watcher"));
    let token = format!("authorization: Bearer {TOKEN}\r\n");
    let mut with = Follower::new(&world, "", &token).await;
    let mut without = Follower::new(&world, "", "").await;
    for follower in [&mut with, &mut without] {
        let head = follower.until("retry: 3000").await;
        assert!(head.contains("content-type: text/event-stream") && head.contains("cache-control: no-store"), "{head}");
    }
    tail.note(Fate::Dead, || event("a", Fate::Dead, r#"{"name":"ann"}"#));
    with.until("too_large").await;
    without.until("too_large").await;
    let with = with.events().remove(0);
    let without = without.events().remove(0);
    assert_eq!(
        (&with["number"], &with["fate"], &with["late_ms"], &with["payload"], &with["message"]),
        (&json!(1), &json!("dead"), &json!(1_000), &json!(r#"{"name":"ann"}"#), &json!("ann is too large"))
    );
    assert!(!without.to_string().contains("ann"), "{without}");
    assert_eq!(
        (&without["queue"], &without["id"], &without["code"]),
        (&json!("orders"), &json!("a"), &json!("too_large"))
    );
}

#[tokio::test]
async fn a_client_that_comes_again_gets_what_it_missed() {
    let world = World::start(true).await;
    let _ = world.events.tail().look();
    for id in ["a", "b", "c"] {
        world.events.tail().note(Fate::Delivered, || event(id, Fate::Delivered, "x"));
    }
    let mut follower = Follower::new(&world, "?fate=delivered&queue=orders&after=0", "last-event-id: 2\r\n").await;
    follower.until("\"number\":3").await;
    assert_eq!(follower.events().len(), 1);
    let mut other = Follower::new(&world, "?fate=dead", "").await;
    other.until("retry").await;
    world.events.tail().note(Fate::Delivered, || event("d", Fate::Delivered, "x"));
    world.events.tail().note(Fate::Dead, || event("e", Fate::Dead, "x"));
    other.until("\"number\":5").await;
    assert_eq!(other.events().len(), 1, "deliveries are not wanted");
    for (query, kind) in [("?fate=lost", "bad-request"), ("?queue=mail", "not-found"), ("?fates=dead", "bad-request")] {
        let refused = world.send("GET", &format!("/v1/events{query}"), &[], "").await;
        assert_eq!(refused.problem().1, kind, "{query}");
    }
}

#[tokio::test]
async fn there_are_only_so_many_and_the_end_of_the_daemon_ends_them() {
    let world = World::start(true).await;
    let mut all = Vec::new();
    let token = format!("authorization: Bearer {TOKEN}\r\n");
    for n in 0..LISTENERS {
        if n == ANONYMOUS {
            let refused = world.send("GET", "/v1/events", &[], "").await;
            assert!(refused.problem().2.contains("without a token"), "{}", refused.text());
        }
        let mut follower = Follower::new(&world, "", if n < ANONYMOUS { "" } else { &token }).await;
        follower.until("retry").await;
        all.push(follower);
    }
    let bearer = format!("Bearer {TOKEN}");
    let refused = world.send("GET", "/v1/events", &[("authorization", &bearer)], "").await;
    assert_eq!((refused.problem().1.as_str(), refused.headers.contains_key("retry-after")), ("too-many", true));
    // One that goes makes room as soon as that is noticed.
    all.pop();
    let again = async {
        loop {
            let mut client = Client::connect(world.address).await;
            client.send("GET", "/v1/events", &[("authorization", &bearer)], b"").await;
            if client.status().await == Some(200) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(30), again).await.expect("a place");
    world.stop.cancel();
    let mut rest = String::new();
    timeout(Duration::from_secs(3), all[0].stream.read_to_string(&mut rest)).await.expect("the end").unwrap();
    assert!(rest.ends_with("0\r\n\r\n"), "a whole answer: {rest:?}");
}

#[tokio::test]
async fn the_page_has_the_latest_without_a_script() {
    let world = World::start(true).await;
    let page = async |query: &str, headers: &[(&str, &str)]| {
        world.send("GET", &format!("/events{query}"), headers, "").await.text()
    };
    assert!(page("", &[]).await.contains("There were none"));
    world.events.tail().note(Fate::Dead, || event("a", Fate::Dead, "<b>ann</b>"));
    let shown = page("", &[]).await;
    assert!(shown.contains("too_large") && !shown.contains("ann"), "{shown}");
    let token = format!("Bearer {TOKEN}");
    let shown = page("", &[("authorization", &token)]).await;
    assert!(
        shown.contains("&lt;b&gt;ann&lt;/b&gt;") && shown.contains("data-feed=\"v1/events?after=1&amp;"),
        "{shown}"
    );
    assert!(page("?fate=delivered", &[]).await.contains("There were none"));
}

#[tokio::test]
async fn the_page_of_a_queue_has_the_latest_outcomes_of_that_queue() {
    let world = World::start(true).await;
    let page = async |headers: &[(&str, &str)], queue: &str| {
        world.send("GET", &format!("/queues/{queue}"), headers, "").await.text()
    };
    let bearer = format!("Bearer {TOKEN}");
    let known = [("authorization", bearer.as_str())];
    assert!(page(&known, "orders").await.contains("None yet."), "from now on they are recorded");
    for n in 0..12 {
        world.events.tail().note(Fate::Delivered, || event(&format!("e{n}"), Fate::Delivered, "secret"));
    }
    let shown = page(&known, "orders").await;
    assert!(shown.contains("../queues/orders/elements/e11") && shown.contains("elements/e2\""), "{shown}");
    assert!(!shown.contains("elements/e1\"") && shown.contains("../events?queue=orders"), "the last ten: {shown}");
    assert!(shown.contains("secret") && !page(&[], "orders").await.contains("secret"));
    assert!(!page(&known, "mails").await.contains("elements/e11"));
}
