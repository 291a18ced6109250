//! `dead`: letters written by the settle script, shown, redriven and purged.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use delaybridge_ledger::claims::{ClaimName, ClaimReply, ClaimRequest, Element, SettleCommand, SettleOp};
use delaybridge_ledger::{Hints, sink_hash};
use delaybridge_link::{Link, LinkOptions};
use delaybridge_source::redisson::ListCleanup;
use delaybridge_source::redisson::{Redisson, open_entry};
use redis::AsyncCommands;

use super::{ask, config};
use harness::{RedisServer, RedissonQueue};

/// Claims everything due in `app:texts`, and makes it dead letters.
async fn let_die(server: &RedisServer) -> Vec<Element> {
    let link = Link::start(Arc::new(server.endpoint()), LinkOptions::default());
    let conn = link.ready().await;
    let queue = Redisson::new("app:texts", [5; 8], true, true, ListCleanup::Auto);
    let request = ClaimRequest {
        name: ClaimName::new([5; 8], 1),
        not_after_ms: i64::MAX >> 12,
        lease: Duration::from_secs(60),
        ahead: Duration::ZERO,
        most: 500,
        bytes: 1 << 20,
        rotation: 1,
        hints: Hints::default(),
        back_before_ms: None,
    };
    let ClaimReply::Claimed(claimed) = queue.claims().claim(&conn, &request).await.unwrap() else { panic!("too late") };
    let entries = claimed.elements;
    let batch: Vec<_> = entries
        .iter()
        .map(|entry| {
            let due = entry.due_ms().map(|ms| ms.to_string()).unwrap_or_default();
            let fields = vec![
                ("id", Bytes::from(open_entry(entry).0.to_string())),
                ("reason", Bytes::from("retries_exhausted")),
                ("origin", Bytes::from(entry.origin().as_str())),
                ("due_ms", due.into()),
                ("died_ms", claimed.now_ms.to_string().into()),
                ("attempts", Bytes::from("10")),
                ("code", Bytes::from("timeout")),
                ("message", Bytes::from("push to list done: no answer")),
                ("confirmed", Bytes::from("audit")),
                ("element", entry.bytes()),
            ];
            let claim = request.name;
            let part = entry.part();
            let member = entry.member.clone();
            SettleCommand { claim, part, member, step: SettleOp::Dead { fields }, body: None }
        })
        .collect();
    queue.claims().settle(&conn, &batch, None, None).await.unwrap();
    link.close().await;
    entries
}

async fn retries(server: &RedisServer) -> Vec<Element> {
    let key = RedissonQueue::new("app:texts").bridge_key("retry");
    let members: Vec<Vec<u8>> = server.client().await.zrange(key, 0, -1).await.unwrap();
    members.into_iter().map(|member| Element::entry(member.into(), 0).unwrap()).collect()
}

#[tokio::test]
async fn letters_are_listed_shown_redriven_and_purged() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("app:texts");
    for (due, payload) in [(1, &b"one"[..]), (2, b"\x00\xfftwo"), (3, b"three"), (4, b"four")] {
        queue.offer(&mut redis, due, payload).await;
    }
    queue.push_ready(&mut redis, &[b"bare".to_vec()]).await;
    let died = let_die(&server).await;
    assert_eq!(died.len(), 5);
    assert!(ask(&config, "dead ls texts --limit 3").well().lines().count() == 6);

    let listed = ask(&config, "dead ls texts --output json").json();
    let letters = listed["dead_letters"].as_array().unwrap();
    assert_eq!(letters.len(), 5);
    let letter = |due: i64| letters.iter().find(|letter| letter["due_ms"] == due).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();

    // By the element's id, then by the stream id.
    let shown = ask(&config, &format!("dead show texts {}", text(&letter(1)["id"]))).well();
    assert!(shown.contains("payload           one") && shown.contains("push to list done"), "{shown}");
    let shown = ask(&config, &format!("dead show texts {} --output json", text(&letter(2)["stream_id"]))).json();
    let shown = &shown["dead_letters"][0];
    assert_eq!((&shown["payload_base64"], &shown["attempts"]), (&"AP90d28=".into(), &10.into()));

    let line = format!("dead redrive texts {} {}", text(&letter(1)["id"]), text(&letter(2)["stream_id"]));
    assert!(ask(&config, &line).well().starts_with("2 dead letters of texts redriven"));
    ask(&config, &line).failed(1, &["there are none", "0 redriven"]);
    let redriven = retries(&server).await;
    let bytes = |due: i64| died.iter().find(|entry| entry.due_ms() == Some(due)).unwrap().bytes();
    assert_eq!(redriven.len(), 2);
    for entry in &redriven {
        assert_eq!(entry.bytes(), bytes(entry.due_ms().unwrap()), "the very bytes");
        assert_eq!(entry.attempts(), 0);
        assert_eq!(entry.header().confirmed, [sink_hash("audit")]);
    }

    // There is no terminal here.
    ask(&config, &format!("dead purge texts {}", text(&letter(3)["id"]))).failed(2, &["nothing was removed", "--yes"]);
    ask(&config, "dead purge texts --all").failed(2, &["--yes"]);
    assert!(ask(&config, &format!("dead purge texts {} --yes", text(&letter(3)["id"]))).well().starts_with("1 dead"));

    let answer = ask(&config, "dead redrive texts --all --output json").json();
    assert_eq!(answer["redriven"], 2);
    let bare = retries(&server).await.into_iter().find(|entry| entry.due_ms().is_none()).unwrap();
    let was = died.iter().find(|entry| entry.due_ms().is_none()).unwrap();
    assert_eq!((open_entry(&bare).0, bare.bytes()), (open_entry(was).0, was.bytes()), "the id that it was given");
    assert!(!ask(&config, "dead ls texts").well().contains("timeout"));
}

#[tokio::test]
async fn all_means_all_however_many_and_however_large() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let key = RedissonQueue::new("app:texts").bridge_key("dead");
    for i in 0..250 {
        let size = if i % 50 == 0 { 2 << 20 } else { 10 };
        let _: String =
            redis.xadd(&key, "*", &[("id", format!("{i:016x}")), ("element", "x".repeat(size))]).await.unwrap();
    }
    assert!(ask(&config, "dead redrive texts --all").failed(1, &["field `origin`"]).contains("read dead letter"));
    let listed = ask(&config, "dead ls texts --limit 1000 --output json").json();
    assert_eq!(listed["dead_letters"].as_array().unwrap().len(), 250);
    assert_eq!(listed["dead_letters"][0]["id"], format!("{:016x}", 249), "the latest first");
    assert!(ask(&config, "dead purge texts --all --yes").well().starts_with("250 dead letters"));
    let left: i64 = redis.xlen(&key).await.unwrap();
    assert_eq!(left, 0);
    assert!(ask(&config, "dead purge texts --all --yes").well().starts_with("0 dead letters"));
}

#[tokio::test]
async fn a_missing_letter_is_reported() {
    let server = RedisServer::start().await;
    let config = config(&server);
    ask(&config, "dead show texts 5-0").failed(1, &["5-0", "dead ls texts"]);
    ask(&config, "dead purge texts 0123456789abcdef --yes").failed(1, &["0123456789abcdef", "0 removed"]);
    ask(&config, "dead show texts nonsense").failed(2, &["stream id"]);
}
