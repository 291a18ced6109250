//! `restore`: running daemons, the report beforehand, and the effect of a second call.

use bytes::Bytes;
use delaybridge_core::message::Origin;
use delaybridge_ledger::sink_hash;
use delaybridge_source::redisson::{Back, Held, Moved, Restored};
use redis::AsyncCommands;

use super::{NAME, ask, config, entry, library, well, yaml};
use harness::redisson::{Layout, redis_now_ms};
use harness::{Daemon, RedisServer, RedissonQueue};

#[tokio::test]
async fn it_refuses_while_a_daemon_is_connected_and_works_when_it_has_stopped() {
    let server = RedisServer::start().await;
    let mut daemon = Daemon::start(&yaml(&server, "")).await;
    let config = config(&server);
    let mut redis = server.client().await;
    // The subscription is a connection of its own, and may be made a little after readiness.
    harness::eventually("the daemon to be seen", crate::delivery::PATIENCE, async || {
        let (code, _, err) = ask(&config, "restore orders --apply");
        if code == 1 && err.contains("1 daemon of this queue is connected") {
            Ok(())
        } else {
            Err(format!("{code} {err}"))
        }
    })
    .await;
    assert!(well(&config, "restore orders").contains("It would be refused now"));
    assert_eq!(daemon.stop().await, 0);
    let queue = RedissonQueue::new(NAME);
    let element = Layout::New.pack(*b"RANDOM8B", b"x");
    let waiting = entry(Origin::Delayed, [0; 8], 4_000_000_000_000, 1, vec![], &element);
    let _: () = redis.zadd(queue.bridge_key("retry"), waiting, 1).await.unwrap();
    assert!(well(&config, "restore orders --apply").contains("1 element of orders scheduled again"));
    assert_eq!(queue.poll(&mut redis).await.unwrap().as_deref(), Some(&b"x"[..]));
}

#[tokio::test]
async fn it_refuses_while_a_lease_is_not_over_and_while_others_sweep() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new(NAME);
    let now = redis_now_ms(&mut redis).await;
    let flying = Layout::New.pack(*b"RANDOM8B", b"x");
    queue.claim_for(&redis, now + 3_600_000, &[(1, &flying)]).await;
    let (code, _, err) = ask(&config, "restore orders --apply");
    assert_eq!(code, 1);
    assert!(err.contains("under unexpired leases") && err.contains("nothing was changed"), "{err}");
    queue.claim_for(&redis, now - 1, &[(1, &flying)]).await;
    let sweeping = [("by", "another"), ("until", &(now + 3_600_000).to_string())];
    let _: () = redis.hset_multiple(queue.bridge_key("sweep"), &sweeping).await.unwrap();
    let (code, _, err) = ask(&config, "restore orders --apply");
    assert!(code == 1 && err.contains("sweeps the queue's list"), "{err}");
    let scheduled: i64 = redis.zcard(&queue.timeouts).await.unwrap();
    assert_eq!(scheduled, 0);
}

#[tokio::test]
async fn without_apply_it_only_reports_and_both_layouts_need_an_option() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new(NAME);
    let old = Layout::Old.pack(Layout::Old.random_id(), b"old");
    let new = Layout::New.pack(*b"RANDOM8B", b"new");
    let entries = [
        (1, entry(Origin::Delayed, [0; 8], 10, 1, vec![sink_hash("out"), 7], &new)),
        (2, entry(Origin::Delayed, [0; 8], 20, 2, vec![], &old)),
        (3, entry(Origin::Ready, *b"given..1", 30, 3, vec![], b"bare")),
        (4, entry(Origin::Delayed, [0; 8], 40, 4, vec![], b"junk")),
        (5, b"\xdb\x02 of a later version".to_vec()),
    ];
    let _: () = redis.zadd_multiple(queue.bridge_key("retry"), &entries).await.unwrap();
    let (code, _, err) = ask(&config, "restore orders");
    assert!(code == 2 && err.contains("--layout old"), "{err}");

    let before: Vec<u8> = redis::cmd("DUMP").arg(queue.bridge_key("retry")).query_async(&mut redis).await.unwrap();
    let text = well(&config, "restore orders --layout new");
    for words in [
        "2 elements would be scheduled again, in the new layout",
        "1 of them would be converted",
        "1 payload would go to the head of the ready list",
        "1 element of no layout of Redisson",
        "1 element written by a newer delaybridge",
        "52414e444f4d3842 was already confirmed by out, a sink that is not in the configuration",
        "Nothing was changed",
    ] {
        assert!(text.contains(words), "{words} in\n{text}");
    }
    let after: Vec<u8> = redis::cmd("DUMP").arg(queue.bridge_key("retry")).query_async(&mut redis).await.unwrap();
    let keys: Vec<String> = redis.keys("*").await.unwrap();
    assert_eq!((before, keys.len()), (after, 1), "{keys:?}");

    let (code, out, err) = ask(&config, "restore orders --layout new --apply");
    assert!(code == 1 && err.contains("stayed where they were"), "{out}{err}");
    assert!(out.contains("2 elements of orders scheduled again, 1 payload on the ready list"), "{out}");
    assert!(queue.contains(&mut redis, b"old").await.unwrap() && queue.contains(&mut redis, b"new").await.unwrap());
    let left: i64 = redis.zcard(queue.bridge_key("retry")).await.unwrap();
    assert_eq!(left, 2);
}

#[tokio::test]
async fn a_batch_that_is_sent_twice_moves_once_and_what_became_the_head_is_announced() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let (link, conn, source) = library(&server).await;
    let queue = RedissonQueue::new(NAME);
    queue.offer(&mut redis, 4_000_000_000_000, "later").await;
    let element = Layout::New.pack(*b"RANDOM8B", b"x");
    let members = [
        entry(Origin::Delayed, [0; 8], 7_000, 1, vec![], &element),
        entry(Origin::Ready, *b"given..1", 30, 2, vec![], b"bare"),
        entry(Origin::Delayed, [1; 8], 8_000, 3, vec![], &element),
    ];
    let scored: Vec<_> = members.iter().map(|member| (1, member)).collect();
    let _: () = redis.zadd_multiple(queue.bridge_key("retry"), &scored).await.unwrap();
    let held = |at: usize| Held::Retry(Bytes::from(members[at].clone()));
    let scheduled = |due_ms| Back::Scheduled { element: element.clone().into(), due_ms };
    let items =
        [(held(0), scheduled(7_000)), (held(1), Back::Ready { payload: "bare".into() }), (held(2), scheduled(8_000))];
    let mut listener = redis::Client::open(server.url()).unwrap().get_async_pubsub().await.unwrap();
    listener.subscribe(&queue.channel).await.unwrap();
    let done = source.restore(&conn, &items, true).await.unwrap();
    assert_eq!(done, Restored::Done(vec![Moved::Yes, Moved::Yes, Moved::Twin]));
    let again = source.restore(&conn, &items, true).await.unwrap();
    assert_eq!(again, Restored::Done(vec![Moved::Gone, Moved::Gone, Moved::Twin]));
    let message = futures_util::StreamExt::next(&mut listener.on_message()).await.unwrap();
    assert_eq!(message.get_payload_bytes(), b"7000");
    let scheduled: Vec<(Vec<u8>, i64)> = redis.zrange_withscores(&queue.timeouts, 0, -1).await.unwrap();
    assert_eq!((&scheduled[0], scheduled.len()), (&(element, 7_000), 2));
    let listed: usize = redis.llen(&queue.list).await.unwrap();
    let ready: Vec<String> = redis.lrange(&queue.name, 0, -1).await.unwrap();
    let left: usize = redis.zcard(queue.bridge_key("retry")).await.unwrap();
    assert_eq!((listed, ready, left), (2, vec!["bare".to_owned()], 1));
    link.close().await;
}

#[tokio::test]
async fn a_dead_letter_that_is_repacked_leaves_no_entry_of_the_other_layout() {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let queue = RedissonQueue::new(NAME);
    let old = Layout::Old.pack(*b"RANDOM8B", b"x");
    let new = Layout::New.pack(*b"RANDOM8B", b"x");
    let fields: [(&str, &[u8]); 6] = [
        ("id", b"52414e444f4d3842"),
        ("origin", b"delayed"),
        ("due_ms", b"4000000000000"),
        ("attempts", b"3"),
        ("reason", b"message_permanent"),
        ("element", &old),
    ];
    let _: String = redis.xadd(queue.bridge_key("dead"), "*", &fields).await.unwrap();
    // An orphan: in the list, but neither scheduled nor recorded.
    let _: () = redis.rpush(&queue.list, &old).await.unwrap();
    well(&config, "restore orders --apply --dead --layout new");
    let listed: Vec<Vec<u8>> = redis.lrange(&queue.list, 0, -1).await.unwrap();
    assert_eq!(listed, [new]);
}
