//! `migrate`: conversion to one layout in place, which unblocks the clients.

use std::collections::BTreeMap;

use bytes::Bytes;
use delaybridge_source::redisson::layout::Layout as Wanted;
use delaybridge_source::redisson::{Moved, Repack, repacked};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use super::{NAME, ask, config, library, well};
use harness::daemon::ConfigFile;
use harness::redisson::{Element, Layout, redis_now_ms};
use harness::{RedisServer, RedissonQueue};

type Scheduled = BTreeMap<Vec<u8>, i64>;

async fn look(redis: &mut MultiplexedConnection, queue: &RedissonQueue) -> (Scheduled, Vec<Vec<u8>>) {
    let scheduled: Vec<(Vec<u8>, i64)> = redis.zrange_withscores(&queue.timeouts, 0, -1).await.unwrap();
    (scheduled.into_iter().collect(), redis.lrange(&queue.list, 0, -1).await.unwrap())
}

fn json(config: &ConfigFile, line: &str) -> serde_json::Value {
    serde_json::from_str(&well(config, &format!("{line} --output json"))).expect("one JSON document")
}

#[tokio::test]
async fn every_element_keeps_its_id_its_due_time_and_its_place() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new(NAME);
    let mut rng = fastrand::Rng::with_seed(7);
    let elements: Vec<Element> = (0..1_500)
        .map(|n| {
            let layout = if rng.bool() { Layout::Old } else { Layout::New };
            Element::new(layout, 4_000_000_000_000 + rng.i64(0..1_000), format!("payload {n}"))
        })
        .collect();
    queue.offer_bulk(&mut redis, &elements).await;
    let before = look(&mut redis, &queue).await;
    let old = elements.iter().filter(|e| Layout::New.unpack(&e.member).is_none()).count();

    let dry = json(&config, "migrate orders --to new");
    assert_eq!((&dry["applied"], &dry["foreign"], &dry["packed"]), (&false.into(), &old.into(), &0.into()));
    assert_eq!(look(&mut redis, &queue).await, before, "a dry run changes nothing");

    for to in [Layout::New, Layout::Old, Layout::New] {
        let name = if to == Layout::New { "new" } else { "old" };
        let done = json(&config, &format!("migrate orders --to {name} --apply"));
        let expected: Vec<_> = elements.iter().map(|e| to.pack(e.id, &e.payload)).collect();
        let (scheduled, listed) = look(&mut redis, &queue).await;
        assert_eq!(listed, expected, "{name}: the same places");
        let due: Scheduled = expected.into_iter().zip(elements.iter().map(|e| e.due_ms)).collect();
        assert_eq!(scheduled, due, "{name}: the same due times");
        assert_eq!(json(&config, &format!("migrate orders --to {name} --apply"))["packed"], 0, "{done}");
    }
    // The id for the sinks is the same in either layout.
    let seen = json(&config, "peek orders --limit 1500");
    let ids: std::collections::HashSet<_> = elements.iter().map(Element::id_text).collect();
    let rows = seen["elements"].as_array().unwrap();
    assert!(rows.len() == 1_500 && rows.iter().all(|row| ids.contains(row["id"].as_str().unwrap())));
}

#[tokio::test]
async fn a_queue_blocked_by_two_layouts_is_unblocked_and_earlier_transfers_are_reported() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let new = RedissonQueue::new(NAME);
    let now = redis_now_ms(&mut redis).await;
    let old = new.with_layout(Layout::Old);
    let first = new.offer(&mut redis, now - 9_000, "first").await;
    let second = new.offer(&mut redis, now - 8_000, "second").await;
    // Redisson reads an element of the old layout if its first byte is 7, unlike this one.
    let mut foreign = Element::new(Layout::Old, now - 7_000, "foreign");
    foreign.id[0] = 9;
    foreign.member = Layout::Old.pack(foreign.id, &foreign.payload);
    old.offer_bulk(&mut redis, std::slice::from_ref(&foreign)).await;
    new.offer(&mut redis, now - 6_000, "behind").await;
    for _ in 0..3 {
        assert!(new.transfer(&mut redis, now).await.is_err(), "it is jammed");
    }
    let told = json(&config, "migrate orders --to new");
    assert_eq!(
        told["transferred"],
        serde_json::json!([
            { "id": first.id_text(), "ready_copies": 3 },
            { "id": second.id_text(), "ready_copies": 3 },
        ])
    );
    let text = well(&config, "migrate orders --to new --apply");
    assert!(text.contains("2 elements transferred before by a client that then failed, 6 copies"), "{text}");
    assert!(text.contains("1 element converted to the new layout"), "{text}");
    // To avoid a second transfer of the second element, cancel it.
    well(&config, &format!("cancel orders {}", second.id_text()));
    new.transfer(&mut redis, now).await.expect("the queue is unblocked");
    let ready: Vec<String> = redis.lrange(NAME, 6, -1).await.unwrap();
    assert_eq!(ready, ["first", "foreign", "behind"]);
    let left: (usize, usize) =
        redis::pipe().zcard(&new.timeouts).llen(&new.list).query_async(&mut redis).await.unwrap();
    assert_eq!(left, (0, 0));
}

#[tokio::test]
async fn junk_stays_and_is_reported_and_a_batch_that_is_sent_twice_finds_nothing() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new(NAME).with_layout(Layout::Old);
    let _: () = redis.zadd(&queue.timeouts, "junk", 1).await.unwrap();
    let elements: Vec<_> = (0..3).map(|n| Element::new(Layout::Old, 4_000_000_000_000 + n, format!("{n}"))).collect();
    queue.offer_bulk(&mut redis, &elements).await;
    let (link, conn, source) = library(&server).await;
    // The index was read before others took from the list.
    let batch: Vec<_> = elements
        .iter()
        .enumerate()
        .map(|(place, element)| {
            let was = Bytes::from(element.member.clone());
            Repack { place: Some(place + 1), is: repacked(&was, Wanted::New).unwrap(), was }
        })
        .collect();
    assert_eq!(source.migrate(&conn, &batch[..2]).await.unwrap(), [Moved::Yes, Moved::Yes]);
    assert_eq!(source.migrate(&conn, &batch[..2]).await.unwrap(), [Moved::Gone, Moved::Gone]);
    link.close().await;
    let (code, out, err) = ask(&config, "migrate orders --to new --apply");
    assert!(code == 1 && out.contains("1 element converted") && err.contains("1 of no layout"), "{out}{err}");
    let (scheduled, listed) = look(&mut redis, &queue).await;
    let expected: Vec<_> = elements.iter().map(|e| Layout::New.pack(e.id, &e.payload)).collect();
    assert_eq!((scheduled.len(), listed), (4, expected));
    assert_eq!(scheduled[&b"junk"[..]], 1);
}

#[tokio::test]
async fn an_entry_only_in_the_list_is_reported() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new(NAME).with_layout(Layout::Old);
    let twice = queue.offer(&mut redis, 4_000_000_000_000, "twice").await;
    let _: () = redis.rpush(&queue.list, &twice.member).await.unwrap();
    let (code, out, err) = ask(&config, "migrate orders --to new --apply");
    assert!(code == 1 && err.contains("1 entries only in Redisson's list"), "{out}{err}");
    let (_, listed) = look(&mut redis, &queue).await;
    assert_eq!(listed, [Layout::New.pack(twice.id, &twice.payload), twice.member]);
}

/// A full Redis refuses additions until a script has written something. The write that permits them removes nothing,
/// not even the element without bytes.
#[tokio::test]
async fn an_element_without_bytes_survives_on_a_full_server() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new(NAME);
    let old = queue.with_layout(Layout::Old).offer(&mut redis, 4_000_000_000_000, "packed").await;
    let strange = [(Vec::new(), 4_000_000_000_001_i64), (b"-".to_vec(), 4_000_000_000_002)];
    for (member, due_ms) in &strange {
        let _: () = redis.zadd(&queue.timeouts, &member[..], *due_ms).await.unwrap();
        let _: () = redis.rpush(&queue.list, &member[..]).await.unwrap();
    }
    let full = async |bytes: &str| {
        let mut set = redis::cmd("CONFIG");
        set.arg("SET").arg("maxmemory").arg(bytes).exec_async(&mut redis.clone()).await.unwrap();
    };
    full("1").await;
    // Elements of no layout stay, and are reported.
    let said = ask(&config, "migrate orders --to new --apply");
    assert!(said.1.contains("1 element converted"), "{said:?}");
    full("0").await;
    let (scheduled, listed) = look(&mut redis, &queue).await;
    let packed = Layout::New.pack(old.id, &old.payload);
    let mut expected: Scheduled = strange.iter().cloned().collect();
    expected.insert(packed.clone(), old.due_ms);
    assert_eq!(scheduled, expected);
    assert_eq!(listed, [packed, Vec::new(), b"-".to_vec()]);
}
