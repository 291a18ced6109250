//! An element that kills every daemon that delivers it.

use redis::AsyncCommands;

use super::*;
use harness::oracle::read_stream;
use harness::{Daemon, Proxy};

const NEIGHBOURS: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn an_element_that_kills_the_process_ends_as_a_dead_letter_and_its_neighbours_are_delivered() {
    let source = RedisServer::start().await;
    let target = RedisServer::start().await;
    let mut redis = source.client().await;
    let mut out = target.client().await;
    let proxy = Proxy::start(target.port()).await;
    let trip = proxy.trip(b"POISON");
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    // All due at the same time, so all are claimed in one batch; the order of the members puts the poison among them.
    let element = |payload: String| Element::new(Layout::New, now - 1, payload);
    let neighbours: Vec<Element> = (0..NEIGHBOURS).map(|n| element(format!("neighbour {n}"))).collect();
    let poison = element("this is POISON".to_owned());
    let mut all = neighbours.clone();
    all.insert(NEIGHBOURS / 2, poison.clone());
    queue.offer_bulk(&mut redis, &all).await;

    let yaml = yaml(&source, &format!("url: {}, stream: {OUT}, timeout: 3s", proxy.url()), "lease: 4s");
    let mut owners = Owners::default();
    let mut at_the_kills = Vec::new();
    let dead = queue.bridge_key("dead");
    let mut last = loop {
        let killed = trip.count();
        let mut daemon = Daemon::spawn(&yaml);
        daemon.expect_log("dead letter stored").expect_log("sink down");
        let ended = eventually("the poison to be sent, or to be a dead letter", PATIENCE, async || {
            match (trip.count() > killed, redis.xlen::<_, usize>(&dead).await.map_err(|e| e.to_string())?) {
                (_, 1..) => Ok(true),
                (true, 0) => Ok(false),
                (false, 0) => Err("neither".to_owned()),
            }
        })
        .await;
        if ended {
            break daemon;
        }
        daemon.kill();
        at_the_kills.push(owners.of_the_killed(&mut redis, &queue).await);
        assert!(at_the_kills.len() <= 40, "killed too often; in flight at the kills: {at_the_kills:?}");
    };
    wait_settled(&mut redis, &queue).await;

    let mut oracle = Oracle::new();
    oracle.offered(&neighbours);
    let report = oracle.judge(&read_stream(&mut out, OUT).await);
    println!("{report}; {} restarts, in flight at the kills: {at_the_kills:?}", at_the_kills.len());
    report.assert_complete(at_the_kills.iter().sum());
    // If this test was so slow that the delivery timed out before the kill, that verdict ended the sequence of leases.
    let row = at_the_kills.rsplit(|&count| count == 0).next().unwrap_or_default();
    assert_eq!(row.len(), 10, "leases that expired in a row: {at_the_kills:?}");
    assert!(row[3..].iter().all(|&count| count == 1), "not alone: {at_the_kills:?}");

    let letters: redis::streams::StreamRangeReply = redis.xrange_all(&dead).await.unwrap();
    let [letter] = &letters.ids[..] else { panic!("{} dead letters", letters.ids.len()) };
    let field = |name: &str| letter.get::<Vec<u8>>(name).unwrap_or_else(|| panic!("no field {name}"));
    assert_eq!(field("id"), poison.id_text().into_bytes());
    assert_eq!(field("reason"), b"lease_expired");
    assert_eq!(field("expiries"), b"10");
    assert_eq!(field("element"), poison.member);
    assert_eq!(last.metric("delaybridge_dead_lettered_messages_total{reason=\"lease_expired\"}").await, 1.0);
    assert_settled(&mut redis, &queue, 1).await;
    assert_eq!(last.stop().await, 0);
}
