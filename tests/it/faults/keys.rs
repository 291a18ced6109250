//! Keys in a wrong state: of another type, or missing.

use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use super::rig::{
    PATIENCE, all_in_list, assert_complete, assert_complete_beside_dead, elements, metric, pass, readyz, settled,
    tolerate_stalls,
};
use harness::oracle::read_list;
use harness::redisson::redis_now_ms;
use harness::{Daemon, Oracle, RedisServer, RedissonQueue, eventually};

/// The keys that a claim reads, by a short name, which is also the id of the queue with the broken key.
fn keys(queue: &RedissonQueue) -> [(&'static str, String); 8] {
    [
        ("timeouts", queue.timeouts.clone()),
        ("list", queue.list.clone()),
        ("ready", queue.name.clone()),
        ("leases", queue.bridge_key("leases")),
        ("retry", queue.bridge_key("retry")),
        ("ghosts", queue.bridge_key("ghosts")),
        ("ghosts-turn", queue.bridge_key("ghosts-turn")),
        ("sweep", queue.bridge_key("sweep")),
    ]
}

async fn dump(redis: &mut MultiplexedConnection, queue: &RedissonQueue) -> Vec<Option<Vec<u8>>> {
    let mut dumps = Vec::new();
    for (_, key) in keys(queue) {
        dumps.push(redis::cmd("DUMP").arg(key).query_async(redis).await.unwrap());
    }
    dumps
}

#[tokio::test]
async fn a_key_of_another_type_holds_its_queue_until_it_is_fixed_and_changes_nothing() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let ids: Vec<&str> = keys(&RedissonQueue::new("any")).iter().map(|(id, _)| *id).collect();
    let queues: Vec<RedissonQueue> = ids.iter().map(|id| RedissonQueue::new(&format!("broken-{id}"))).collect();
    let config: String = ids
        .iter()
        .zip(&queues)
        .map(|(id, queue)| {
            let name = &queue.name;
            let to = format!("{{ sink: out, list: 'arrived:{id}' }}");
            format!("  {id}: {{ source: {{ redisson: {{ name: {name} }} }}, lease: 20s, to: [{to}] }}\n")
        })
        .collect();
    let mut daemon = Daemon::start(&format!(
        "redis: {{ url: '{}', command_timeout: 1s }}\nsinks: {{ out: {{ redis: {{ timeout: 10s }} }} }}\nqueues:\n{config}",
        server.url()
    ))
    .await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("queue on hold");

    // Broken while the daemon runs: the key is renamed, another takes its place, and elements fall due.
    let mut oracles = Vec::new();
    for (id, queue) in ids.iter().zip(&queues) {
        let key = keys(queue).into_iter().find(|(known, _)| known == id).unwrap().1;
        let _: i64 = redis.rpush("something", "else").await.unwrap();
        let wrong = if ["list", "ready"].contains(id) { "SADD" } else { "RPUSH" };
        let () = redis::cmd(wrong).arg(&key).arg("not what you think").query_async(&mut redis).await.unwrap();
        let now = redis_now_ms(&mut redis).await;
        let offered = elements(queue, id, 20, now, 1);
        let mut oracle = Oracle::new();
        oracle.offered(&offered);
        let scored: Vec<(i64, &[u8])> = offered.iter().map(|e| (e.due_ms, &e.member[..])).collect();
        let members: Vec<&[u8]> = offered.iter().map(|e| &e.member[..]).collect();
        if *id != "timeouts" {
            let () = redis.zadd_multiple(&queue.timeouts, &scored).await.unwrap();
        }
        if *id != "list" {
            let () = redis.rpush(&queue.list, &members).await.unwrap();
        }
        oracles.push((oracle, offered, key));
    }
    for (id, queue) in ids.iter().zip(&queues) {
        metric(&daemon, &format!("delaybridge_queue_held{{queue=\"{id}\"}}"), |held| held == 1.0).await;
        let key = keys(queue).into_iter().find(|(known, _)| known == id).unwrap().1;
        // The reason names the key, its type and the expected type.
        let body = readyz(&daemon, 503, &key).await;
        let held: serde_json::Value = serde_json::from_str(&body).unwrap();
        let reason = held["queues"]["reasons"][*id]["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains(&key) && reason.contains("expected a"), "{id}: {reason}");
    }
    println!("{}", daemon.get("/readyz").await.unwrap().body);
    let mut before = Vec::new();
    for queue in &queues {
        before.push(dump(&mut redis, queue).await);
    }
    // A few more looks by the claimers.
    pass(Duration::from_secs(4)).await;
    for ((id, queue), before) in ids.iter().zip(&queues).zip(before) {
        assert!(dump(&mut redis, queue).await == before, "{id}: something was changed");
        assert_eq!(redis.llen::<_, usize>(format!("arrived:{id}")).await.unwrap(), 0, "{id}: something was delivered");
    }

    for ((id, queue), (_, offered, key)) in ids.iter().zip(&queues).zip(&oracles) {
        let () = redis.del(key).await.unwrap();
        let scored: Vec<(i64, &[u8])> = offered.iter().map(|e| (e.due_ms, &e.member[..])).collect();
        let members: Vec<&[u8]> = offered.iter().map(|e| &e.member[..]).collect();
        match *id {
            "timeouts" => redis.zadd_multiple::<_, _, _, ()>(&queue.timeouts, &scored).await.unwrap(),
            "list" => redis.rpush::<_, _, ()>(&queue.list, &members).await.unwrap(),
            _ => {}
        }
    }
    for ((id, queue), (oracle, ..)) in ids.iter().zip(&queues).zip(&oracles) {
        let deliveries = eventually(&format!("{id} to resume"), PATIENCE, async || {
            let deliveries = read_list(&mut redis, &format!("arrived:{id}")).await;
            oracle.judge_payloads(&deliveries).complete().map(|_| deliveries)
        })
        .await;
        assert_complete(&oracle.judge_payloads(&deliveries), &[&daemon]).await;
        settled(&mut redis, queue).await;
    }
    readyz(&daemon, 200, "").await;
    assert_eq!(daemon.metric("delaybridge_queue_held").await, 0.0);
}

/// The stream of dead letters is checked only before a write to it: confirmations do not need it.
#[tokio::test]
async fn dead_letters_of_another_type_hold_the_queue_when_an_element_dies_and_lose_nothing() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("undying");
    let dead = queue.bridge_key("dead");
    let () = redis.set(&dead, "no stream").await.unwrap();
    let mut daemon = Daemon::start(&format!(
        "redis: {{ url: '{}', command_timeout: 1s }}\nsinks: {{ out: {{ redis: {{ list: arrived, timeout: 10s }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: undying }} }}, lease: 20s, to: [{{ sink: out }}] }} }}\n",
        server.url()
    ))
    .await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("queue on hold").expect_log("dead letter stored");
    let mut oracle = Oracle::new();
    let now = redis_now_ms(&mut redis).await;
    let first = elements(&queue, "first", 20, now, 1);
    oracle.offered(&first);
    queue.offer_bulk(&mut redis, &first).await;
    all_in_list(&mut redis, "arrived", &oracle).await;

    let () = redis.zadd(&queue.timeouts, "junk", now).await.unwrap();
    metric(&daemon, "delaybridge_queue_held", |held| held == 1.0).await;
    let body = readyz(&daemon, 503, &dead).await;
    assert!(body.contains("holds a string, expected a stream"), "{body}");
    let second = elements(&queue, "second", 20, now, 1);
    oracle.offered(&second);
    queue.offer_bulk(&mut redis, &second).await;
    pass(Duration::from_secs(4)).await;
    assert_eq!(redis.get::<_, String>(&dead).await.unwrap(), "no stream");

    let () = redis.del(&dead).await.unwrap();
    let deliveries = all_in_list(&mut redis, "arrived", &oracle).await;
    // The junk may be stored before or after the last delivery, so its count is read only once it is known.
    metric(&daemon, "delaybridge_dead_lettered_messages_total", |stored| stored == 1.0).await;
    assert_complete_beside_dead(&oracle.judge_payloads(&deliveries), &[&daemon], 1).await;
    assert_eq!(redis.xlen::<_, usize>(&dead).await.unwrap(), 1);
    readyz(&daemon, 200, "").await;
}

async fn a_string_in_place_of_the_list(exactly_once: bool) {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("mistyped");
    let () = redis.set("{mistyped}:arrived", "a string").await.unwrap();
    let mut oracle = Oracle::new();
    let now = redis_now_ms(&mut redis).await;
    let offered = elements(&queue, "e", 1_500, now - 1_000, 4_000);
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;

    let mut daemon = Daemon::spawn(&format!(
        "redis: {{ url: '{}', command_timeout: 1s }}\n\
             retry: {{ strict: {{ max_attempts: 2, initial_interval: 10ms }} }}\n\
             sinks: {{ out: {{ redis: {{ list: '{{mistyped}}:arrived', exactly_once: {exactly_once}, timeout: 10s }} }} }}\n\
             queues: {{ q: {{ source: {{ redisson: {{ name: mistyped }} }}, lease: 20s, retry: strict, to: [{{ sink: out }}] }} }}\n",
        server.url()
    ));
    tolerate_stalls(&mut daemon);
    daemon.expect_log("queue on hold");
    metric(&daemon, "delaybridge_queue_held", |held| held == 1.0).await;
    let body = readyz(&daemon, 503, "sink out").await;
    println!("{body}");
    eventually("what was in flight to come back", PATIENCE, async || match queue.in_flight(&redis).await {
        Ok(0 | 1) => Ok(()),
        other => Err(format!("{other:?} in flight")),
    })
    .await;
    let attempts = "delaybridge_delivery_attempts_total";
    let before = daemon.metric(attempts).await;
    pass(Duration::from_secs(5)).await;
    let probes = daemon.metric(attempts).await - before;
    println!("exactly_once {exactly_once}: {before} attempts until held, {probes} probes in 5 s");
    assert!(probes <= 5.0, "{probes} probes in five seconds");
    assert_eq!(redis.get::<_, String>("{mistyped}:arrived").await.unwrap(), "a string");

    let () = redis.del("{mistyped}:arrived").await.unwrap();
    let deliveries = all_in_list(&mut redis, "{mistyped}:arrived", &oracle).await;
    assert_complete(&oracle.judge_payloads(&deliveries), &[&daemon]).await;
    settled(&mut redis, &queue).await;
    readyz(&daemon, 200, "").await;
}

#[tokio::test]
async fn a_destination_of_another_type_holds_the_queue_with_few_probes_and_no_dead_letter() {
    tokio::join!(a_string_in_place_of_the_list(false), a_string_in_place_of_the_list(true));
}

#[tokio::test]
async fn entries_whose_sorted_set_is_gone_are_left_alone_and_reported_once() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("orphans");
    let now = redis_now_ms(&mut redis).await;
    let lost = elements(&queue, "lost", 25, now + 3_600_000, 1_000);
    queue.offer_bulk(&mut redis, &lost).await;
    let mut daemon = Daemon::start(&format!(
        "redis: {{ url: '{}' }}\nsinks: {{ out: {{ redis: {{ list: arrived, timeout: 10s }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: orphans, ghost_max_age: 1s }} }}, lease: 20s, to: [{{ sink: out }}] }} }}\n",
        server.url()
    ))
    .await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("entries of Redisson's list");
    let () = redis.del(&queue.timeouts).await.unwrap();
    metric(&daemon, "delaybridge_redisson_orphans", |orphans| orphans == 25.0).await;

    // Elements that leave ghosts, so that the sweep runs as well.
    let now = redis_now_ms(&mut redis).await;
    let mut oracle = Oracle::new();
    let others = elements(&queue, "e", 4_000, now, 1_000);
    oracle.offered(&others);
    queue.offer_bulk(&mut redis, &others).await;
    let deliveries = all_in_list(&mut redis, "arrived", &oracle).await;
    assert_complete(&oracle.judge_payloads(&deliveries), &[&daemon]).await;
    eventually("only the orphans to be left in the list", PATIENCE, async || {
        match redis.llen::<_, usize>(&queue.list).await {
            Ok(25) => Ok(()),
            other => Err(format!("{other:?} entries")),
        }
    })
    .await;
    // Two more readings of the gauges.
    pass(Duration::from_secs(11)).await;
    metric(&daemon, "delaybridge_redisson_orphans", |orphans| orphans == 25.0).await;
    let mut left: Vec<Vec<u8>> = redis.lrange(&queue.list, 0, -1).await.unwrap();
    let mut expected: Vec<Vec<u8>> = lost.into_iter().map(|element| element.member).collect();
    left.sort_unstable();
    expected.sort_unstable();
    assert_eq!(left, expected);
    let told = daemon.log().all().iter().filter(|line| line.contains("entries of Redisson's list")).count();
    assert_eq!(told, 1, "{:?}", daemon.log().all());
}
