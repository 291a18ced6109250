//! `offer`, `peek`, `cancel`, `queues`: one element from its offer to its end.

use delaybridge_core::message::{Class, MessageId, Origin};
use delaybridge_ledger::claims::Header;
use delaybridge_source::redisson::SCRIPTS;
use redis::AsyncCommands;
use serde_json::json;

use super::{ask, ask_with, config};
use harness::daemon::ConfigFile;
use harness::redisson::{Element, redis_now_ms};
use harness::{Cut, Layout, Proxy, RedisServer, RedissonQueue};

#[tokio::test]
async fn what_is_offered_is_what_redisson_would_have_written() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("app:bytes");
    let before = redis_now_ms(&mut redis).await;

    let offered = ask_with(&config, "offer bytes --delay 60s --output json -", b"\x00\xff payload").json();
    let answer = &offered["elements"][0];
    assert_eq!(answer["layout"], "new");
    let due = answer["due_ms"].as_i64().unwrap();
    assert!((before + 60_000..before + 70_000).contains(&due), "{due}");

    let members: Vec<(Vec<u8>, i64)> = redis.zrange_withscores(&queue.timeouts, 0, -1).await.unwrap();
    let listed: Vec<Vec<u8>> = redis.lrange(&queue.list, 0, -1).await.unwrap();
    assert_eq!((members.len(), members[0].1), (1, due));
    assert_eq!(listed, [members[0].0.clone()]);
    let (id, payload) = Layout::New.unpack(&members[0].0).unwrap();
    assert_eq!((hex::encode(id), payload), (answer["id"].as_str().unwrap().to_owned(), &b"\x00\xff payload"[..]));
    // Redisson packs the same parts into the same member, so its client finds the element.
    assert!(queue.contains(&mut redis, b"\x00\xff payload").await.unwrap());
}

#[tokio::test]
async fn layout_auto_follows_the_elements_of_the_queue() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("app:texts").with_layout(Layout::Old);
    let _: () = redis.zadd(&queue.timeouts, "junk", 1).await.unwrap();
    queue.offer(&mut redis, 4_000_000_000_000, "an old one").await;

    let layout = |line: &str| ask(&config, line).json()["elements"][0]["layout"].as_str().unwrap().to_owned();
    assert_eq!(layout("offer texts --delay 1h --output json --payload x"), "old");
    assert_eq!(layout("offer texts --delay 1h --output json --payload x --layout new"), "new");
    assert_eq!(layout("offer docs --delay 1h --output json --payload {}"), "new");
    assert_eq!(layout("offer docs --delay 1s --output json --payload {} --layout old"), "old");
    let members: Vec<Vec<u8>> = redis.zrange(&queue.timeouts, 0, -1).await.unwrap();
    let old = members.iter().filter(|member| Layout::Old.unpack(member).is_some());
    assert!(old.clone().all(|member| matches!(member[7], 0x43 | 0xc3)));
    assert_eq!((old.count(), members.len()), (2, 4));
}

#[tokio::test]
async fn an_element_can_be_offered_looked_at_and_cancelled() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("app:docs");
    let file = config.write("element.json", "{\"order\": 4711}");

    let offered = ask(&config, &format!("offer docs --delay 10m --output json --file {}", file.display())).json();
    let offered = &offered["elements"][0];
    let id = offered["id"].as_str().unwrap();
    let late = queue.offer(&mut redis, 1, "[1]").await;

    let seen = ask(&config, "peek docs --output json").json();
    assert_eq!(seen["total"], 2);
    assert_eq!(seen["elements"][0]["id"], late.id_text());
    assert_eq!(seen["elements"][1]["id"], id);
    assert_eq!(seen["elements"][1]["due_ms"], offered["due_ms"]);
    assert_eq!(seen["elements"][1]["payload"], "{\"order\": 4711}");
    let text = ask(&config, "peek docs --limit 1").well();
    assert!(text.contains(&late.id_text()) && text.contains("1970-01-01T00:00:00.001Z"), "{text}");
    assert!(!text.contains(id) && text.contains("1 of 2 elements"), "{text}");

    let queues = ask(&config, "queues").well();
    let row: Vec<_> = queues.lines().find(|line| line.starts_with("docs")).unwrap().split_whitespace().collect();
    assert_eq!(row[..3], ["docs", "1", "1"], "{queues}");

    assert!(ask(&config, &format!("cancel docs {id}")).well().contains("was scheduled, is gone"));
    let members: Vec<Vec<u8>> = redis.zrange(&queue.timeouts, 0, -1).await.unwrap();
    let listed: Vec<Vec<u8>> = redis.lrange(&queue.list, 0, -1).await.unwrap();
    assert_eq!((&members, &listed), (&vec![late.member.clone()], &vec![late.member]));
    ask(&config, &format!("cancel docs {id}")).failed(1, &["not found", "delivered or cancelled"]);
}

#[tokio::test]
async fn ids_of_any_bytes_are_found_among_many() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    for layout in [Layout::New, Layout::Old] {
        let queue = RedissonQueue::new("app:bytes").with_layout(layout);
        let elements: Vec<_> =
            (0..3000).map(|i| Element::new(layout, 4_000_000_000_000 + i, format!("payload {i}"))).collect();
        queue.offer_bulk(&mut redis, &elements).await;
        for id in [*b"*[?]\\^-*", [0; 8], [0xff; 8], *b"\r\n\r\n\0\0\0C"] {
            let mut element = Element::new(layout, 4_000_000_000_000, "x");
            (element.id, element.member) = (id, layout.pack(id, b"x"));
            queue.offer_bulk(&mut redis, &[element]).await;
            ask(&config, &format!("cancel bytes {}", hex::encode(id))).well();
        }
    }
    let left: i64 = redis.zcard(RedissonQueue::new("app:bytes").timeouts).await.unwrap();
    assert_eq!(left, 6000);

    // What is not there is looked for in one pass for both layouts, of about a thousand elements a call, and in three looks at
    // the retries.
    let before = server.calls("zscan").await;
    ask(&config, "why bytes 0807060504030201").well();
    let calls = server.calls("zscan").await - before;
    assert!((8..=11).contains(&calls), "{calls} calls");
}

/// An entry as the daemon stores it.
fn entry(id: [u8; 8], payload: &[u8]) -> Vec<u8> {
    let mut member = Header::redriven(Origin::Delayed, MessageId(id), 5_000, vec![7, 8]).encode();
    member.extend_from_slice(&Layout::New.pack(id, payload));
    member
}

#[tokio::test]
async fn what_waits_for_a_retry_is_cancelled_and_what_is_in_flight_is_not() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("app:texts");
    let waiting = entry(*b"waiting.", b"later");
    let flying = entry(*b"flying..", b"now");
    let _: () = redis.zadd(queue.bridge_key("retry"), waiting, 9_000).await.unwrap();
    queue.claim_for(&redis, 4_000_000_000_000, &[(5_000, &flying)]).await;

    let seen = ask(&config, "peek texts --state retry --output json").json();
    let expected = json!({
        "id": hex::encode("waiting."), "state": "retry", "due_ms": 5000, "attempts": 0, "layout": "new", "size": 5,
        "next_attempt_ms": 9000, "payload": "later",
    });
    assert_eq!(seen["elements"][0], expected);
    assert!(ask(&config, "peek texts --state in-flight").well().contains("LEASE ENDS"));

    let out = ask(&config, &format!("cancel texts {}", hex::encode("waiting."))).well();
    assert!(out.contains("was waiting for a retry, is gone"), "{out}");
    ask(&config, &format!("cancel texts {}", hex::encode("flying.."))).failed(1, &["in flight", "cannot be cancelled"]);
    assert_eq!(queue.claims(&redis).await[0].2, [flying]);
    let waits: i64 = redis.zcard(queue.bridge_key("retry")).await.unwrap();
    assert_eq!(waits, 0);
}

#[tokio::test]
async fn a_letter_that_is_made_by_hand_has_the_attempts_that_redis_knows_of() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("app:texts");
    let mut header = Header::redriven(Origin::Delayed, MessageId(*b"tried..."), 5_000, vec![]);
    (header.attempts, header.first_attempt_ms, header.last_attempt_ms) = (3, 6_000, 8_000);
    header.set_failure(Class::Transient, "timeout");
    let tried = [header.encode(), Layout::New.pack(*b"tried...", b"later")].concat();
    let _: () = redis.zadd(queue.bridge_key("retry"), tried, 9_000).await.unwrap();
    let _: () = redis.zadd(queue.bridge_key("retry"), entry(*b"waiting.", b"later"), 9_000).await.unwrap();
    for (id, attempts, seen) in [
        (*b"tried...", 3, json!([{ "at_ms": 8_000, "sink": "", "class": "transient", "code": "timeout" }])),
        (*b"waiting.", 0, json!([])),
    ] {
        let id = hex::encode(id);
        ask(&config, &format!("kill texts {id} --why x")).well();
        let letter = ask(&config, &format!("dead show texts {id} --output json")).json()["dead_letters"][0].clone();
        assert_eq!((&letter["attempts"], &letter["attempts_seen"]), (&json!(attempts), &seen), "{letter}");
    }
}

#[tokio::test]
async fn large_elements_are_shown_by_their_beginning_and_in_full_on_request() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("app:texts");
    for i in 0..5 {
        queue.offer(&mut redis, i, "x".repeat(3 << 20)).await;
    }
    let text = ask(&config, "peek texts").well();
    assert!(text.contains("3.0 MiB") && text.contains("5 of 5 elements") && text.len() < 2000, "{}", text.len());
    let cut = ask(&config, "peek texts --output json --limit 2").json();
    assert_eq!((cut["elements"].as_array().unwrap().len(), &cut["elements"][0]["payload_cut"]), (2, &json!(true)));
    let full = ask(&config, "peek texts --output json --limit 2 --full").json();
    assert_eq!(full["elements"][1]["payload"].as_str().unwrap().len(), 3 << 20);

    queue.push_ready(&mut redis, &[b"first".to_vec(), b"\xff".to_vec()]).await;
    let ready = ask(&config, "peek texts --state ready --output json").json();
    assert_eq!(ready["elements"][0]["payload"], "first");
    assert_eq!(ready["elements"][1]["payload_base64"], "/w==");
}

#[tokio::test]
async fn a_payload_that_the_codec_refuses_is_not_offered() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    ask(&config, "offer docs --delay 1s --payload oops")
        .failed(2, &["not JSON", "codec of queue `docs` is json", "nothing"]);
    ask_with(&config, "offer texts --delay 1s -", b"\xff").failed(2, &["not UTF-8"]);
    let keys: Vec<String> = redis.keys("*").await.unwrap();
    assert!(keys.is_empty(), "{keys:?}");
}

#[tokio::test]
async fn a_key_of_another_program_is_reported_and_kept() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("app:texts");
    let _: () = redis.set(&queue.timeouts, "mine").await.unwrap();
    for line in ["offer texts --delay 1s --payload x --layout new", "peek texts", "queues"] {
        ask(&config, line).failed(1, &["holds a string", "source.redisson.name"]);
    }
    let value: String = redis.get(&queue.timeouts).await.unwrap();
    assert_eq!(value, "mine");
    assert!(ask(&config, "queues").out.contains("docs"));
}

// More than one thread, because the proxy must work while this test waits for the command.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_is_reported_with_the_id_and_not_sent_again() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let config = ConfigFile::new(&super::yaml(&format!("redis://127.0.0.1:{}/0", proxy.port())));
    let mut redis = server.client().await;
    // Loaded beforehand, so that the first answer belongs to the offer.
    let offer = SCRIPTS.all().into_iter().find(|script| script.name() == "offer").unwrap();
    let _: String = redis::cmd("SCRIPT").arg("LOAD").arg(offer.text()).query_async(&mut redis).await.unwrap();
    let cut = proxy.cut(Cut::script(offer.sha1()));
    let err = ask(&config, "offer texts --delay 1h --layout new --payload once").failed(1, &["may have been offered"]);
    assert_eq!((cut.seen(), cut.lost()), (1, 1));
    let members: Vec<Vec<u8>> = redis.zrange(RedissonQueue::new("app:texts").timeouts, 0, -1).await.unwrap();
    assert_eq!(members.len(), 1);
    assert!(err.contains(&hex::encode(Layout::New.unpack(&members[0]).unwrap().0)), "{err}");
}
