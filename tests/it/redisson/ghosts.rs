//! The view of an application that uses Redisson on delivered elements: before, during and after a drain and the
//! following sweep.

use std::collections::BTreeSet;
use std::time::Instant;

use redis::AsyncCommands;
use serde_json::json;

use super::*;
use crate::faults::rig::{elements, tolerate_stalls};
use harness::redisson::Element;
use harness::turn::heavy;
use harness::{Daemon, JavaClient};

const CODEC: &str = "StringCodec";
/// Number of elements due in an hour: more than the delivered ones, whose number alone would otherwise start the sweep.
const PENDING: usize = 6_000;
const DELIVERED: usize = 4_000;
const MAX_AGE: Duration = Duration::from_secs(10);
/// The interval between two looks at the age of the oldest ghost, plus the duration of a turn through ten thousand
/// entries.
const LOOK_AND_TURN: Duration = Duration::from_secs(6);
/// The additional time for a busy machine.
const STALLS: Duration = Duration::from_secs(40);

fn value(element: &Element) -> Value {
    json!(String::from_utf8_lossy(&element.payload))
}

/// Offers both kinds, due in an hour, mixed as if by many producers.
async fn offered(redis: &mut MultiplexedConnection, queue: &RedissonQueue) -> (Vec<Element>, Vec<Element>) {
    let later = redis_now_ms(redis).await + 3_600_000;
    let pending = elements(queue, "pending", PENDING, later, 3_600_000);
    let mut due = elements(queue, "due", DELIVERED, later, 3_600_000);
    // Two elements with the same payload, one of which is delivered while the other waits.
    due[0] = Element::new(queue.layout, later, pending[0].payload.clone());
    let mut all: Vec<_> = pending.iter().chain(&due).cloned().collect();
    fastrand::shuffle(&mut all);
    queue.offer_bulk(redis, &all).await;
    (pending, due)
}

/// Lets the daemon deliver these; nothing is announced, so the timers of live clients continue to wait.
async fn deliver(redis: &mut MultiplexedConnection, queue: &RedissonQueue, due: &[Element]) {
    let now = redis_now_ms(redis).await;
    let mut together = redis::pipe();
    together.atomic();
    for element in due {
        together.zadd(&queue.timeouts, &element.member, now).ignore();
    }
    together.exec_async(redis).await.expect("bring forward");
    arrived(redis, due.len()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ghosts_show_in_java_until_the_sweep_and_never_longer_than_documented() {
    let turn = heavy().await;
    let server = RedisServer::start().await;
    let queue = RedissonQueue::new("q");
    let mut redis = server.client().await;
    let (pending, due) = offered(&mut redis, &queue).await;
    let java = JavaClient::connect("4.7.0", &server.url()).await;
    let seen = java.queue("q", CODEC);

    // Before: as without the daemon.
    assert_eq!(seen.size().await, (PENDING + DELIVERED) as u64);
    assert!(seen.contains(&value(&due[1])).await);
    assert!(seen.remove(&value(&due[1])).await, "an element that is not due yet is cancelled");
    let due = [&due[..1], &due[2..]].concat();

    let source = format!("name: q, ghost_max_age: {}s }}", MAX_AGE.as_secs());
    let mut daemon = Daemon::start(&yaml(&server, "").replace("name: q }", &source)).await;
    tolerate_stalls(&mut daemon);
    deliver(&mut redis, &queue, &due).await;
    let drained = Instant::now();

    // During: entries that the drain has left in the list are still visible.
    let ghosts: BTreeSet<Vec<u8>> = redis.smembers(queue.bridge_key("ghosts")).await.expect("read the ghosts");
    let is_ghost = |element: &&Element| ghosts.contains(&element.member[..9]);
    let size = seen.size().await;
    println!("{} of {} delivered elements are ghosts, size() is {size}", ghosts.len(), due.len());
    let some: Vec<&Element> = due[1..].iter().filter(is_ghost).take(2).collect();
    let [one, other] = some[..] else { panic!("no ghosts: the test shows nothing") };
    assert_eq!(size as usize, PENDING + ghosts.len());
    assert!(seen.contains(&value(one)).await, "contains() still finds a ghost");
    assert!(seen.remove(&value(one)).await, "remove() says yes to a ghost, which was delivered all the same");
    assert!(!seen.contains(&value(one)).await, "and has taken it out");
    let all = seen.read_all().await;
    assert_eq!(all.len(), PENDING + ghosts.len() - 1);
    assert!(all.contains(&value(other)), "readAll() shows a ghost");
    let clear = due[1..].iter().find(|element| !is_ghost(element)).map(value);
    if let Some(clear) = clear {
        assert!(!seen.contains(&clear).await, "what was taken out of the list with its claim does not show");
    }

    // After: none of them, within the bound. Waiting for that is no load.
    drop(turn);
    eventually("the sweep to remove the last ghost", MAX_AGE + LOOK_AND_TURN + STALLS, async || {
        match seen.size().await {
            size if size == PENDING as u64 => Ok(()),
            other => Err(format!("size() is {other}")),
        }
    })
    .await;
    println!("no ghost {:?} after the last delivery, with ghost_max_age {MAX_AGE:?}", drained.elapsed());
    assert!(!seen.contains(&value(other)).await);
    assert!(!seen.remove(&value(other)).await);
    let mut all = seen.read_all().await;
    let mut expected: Vec<_> = pending.iter().map(value).collect();
    all.sort_unstable_by_key(Value::to_string);
    expected.sort_unstable_by_key(Value::to_string);
    assert_eq!(all, expected, "readAll() shows what is pending, each once");
    assert!(seen.remove(&value(&pending[1])).await, "and that is cancelled as ever");
    assert_eq!(daemon.metric("delaybridge_redisson_orphans").await, 0.0);
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_exact_cleanup_java_sees_no_ghost() {
    let _turn = heavy().await;
    let server = RedisServer::start().await;
    let queue = RedissonQueue::new("q");
    let mut redis = server.client().await;
    let (pending, due) = offered(&mut redis, &queue).await;
    let java = JavaClient::connect("4.7.0", &server.url()).await;
    let seen = java.queue("q", CODEC);
    let mut daemon = Daemon::start(&yaml(&server, "").replace("name: q }", "name: q, list_cleanup: exact }")).await;
    tolerate_stalls(&mut daemon);
    deliver(&mut redis, &queue, &due).await;
    assert_eq!(seen.size().await, PENDING as u64);
    assert!(!seen.contains(&value(&due[1])).await);
    assert!(!seen.remove(&value(&due[1])).await);
    assert!(seen.remove(&value(&pending[0])).await, "the waiting one of two equal payloads");
    assert!(!seen.contains(&value(&pending[0])).await);
    assert_eq!(daemon.stop().await, 0);
}
