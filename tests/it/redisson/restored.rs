//! The view of a Java client after `restore`.

use std::collections::BTreeSet;

use serde_json::json;

use super::racing::{clients, payloads};
use super::*;
use crate::faults::rig::tolerate_stalls;
use harness::Daemon;
use harness::turn::heavy;

const CODEC: &str = "StringCodec";
const ELEMENTS: usize = 300;

#[tokio::test(flavor = "multi_thread")]
async fn after_restore_java_sees_every_element_once_and_can_cancel_and_take_it() {
    let _turn = heavy().await;
    let server = RedisServer::start().await;
    let queue = RedissonQueue::new("q");
    let mut redis = server.client().await;
    let clients = clients(&server, 1).await;
    let java = clients[0].queue("q", CODEC);
    // Far from due, but held: the stop leaves them where only restore finds them.
    let mut daemon = Daemon::start(
        &yaml(&server, "lease: 10m, claim_ahead: 5m,").replace("name: q }", "name: q, list_cleanup: exact }"),
    )
    .await;
    tolerate_stalls(&mut daemon);
    let payloads = payloads("held", ELEMENTS);
    let values: Vec<Value> = payloads.iter().map(|payload| json!(String::from_utf8_lossy(payload))).collect();
    let offers: Vec<_> = values.iter().map(|value| (value.clone(), Duration::from_secs(240))).collect();
    java.offer_all(&offers).await;
    eventually("all to be held", PATIENCE, async || match queue.in_flight(&redis).await {
        Ok(ELEMENTS) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert_eq!((java.size().await, java.contains(&values[7]).await), (0, false), "held, and out of Java's sight");
    assert_eq!(daemon.stop().await, 0);
    let before = scheduled(&mut redis, &queue).await;
    assert_eq!(before.len(), 0);

    let done = ask(&config(&server), &["restore", "q", "--apply"]);
    assert_eq!(done["scheduled"], ELEMENTS, "{done}");
    assert_eq!(java.size().await, ELEMENTS as u64);
    let seen: Vec<Value> = java.read_all().await;
    let text = |values: &[Value]| values.iter().map(|v| v.as_str().expect("text").to_owned()).collect::<BTreeSet<_>>();
    assert_eq!((seen.len(), text(&seen)), (ELEMENTS, text(&values)));
    assert!(java.contains(&values[7]).await);
    assert!(java.remove(&values[7]).await && !java.remove(&values[7]).await, "cancelled, once");
    let first = seen.iter().find(|value| **value != values[7]).expect("others");
    assert_eq!(java.poll().await.as_ref(), Some(first), "the first of the list");
    assert_eq!(java.size().await, ELEMENTS as u64 - 2);

    // Redisson's own transfer takes them when they fall due.
    make_due(&mut redis, &queue).await;
    let taken = java.take(PATIENCE).await.expect("an element that falls due");
    assert!(values.contains(&taken) && taken != values[7] && taken != *first, "{taken}");
}
