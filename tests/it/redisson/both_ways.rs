//! Each version in both directions: Redisson's offers arrive through the daemon, the daemon's offers arrive in Java,
//! and each side can cancel the elements of both.

use serde_json::json;

use super::*;
use harness::{Daemon, JavaClient, Layout};

const CODEC: &str = "Kryo5Codec";

async fn in_and_out_and_cancelled(version: &'static str) {
    let server = RedisServer::start().await;
    let config = config(&server);
    let mut redis = server.client().await;
    let java = JavaClient::connect(version, &server.url()).await;
    let queue = RedissonQueue::new("q").with_layout(java.layout());
    let seen = java.queue("q", CODEC);
    let layout = match java.layout() {
        Layout::Old => "old",
        Layout::New => "new",
    };

    // Out: Java's own transfer finds it, and its consumer reads it.
    let value = json!({ "order": 1, "item": "grün 😀", "tags": ["a", "b"] });
    let file = config.path().with_file_name("payload");
    std::fs::write(&file, java.encode(CODEC, &value).await.expect("the codec")).expect("write the payload");
    let file = file.to_str().expect("a path of text");
    seen.listen().await;
    ask(&config, &["offer", "q", "--delay", "100ms", "--layout", layout, "--file", file]);
    assert_eq!(taken(&mut redis, &queue, &seen).await, value);
    assert_eq!(seen.size().await, 0);

    // In: no client transfers any more, so everything is claimed from the sorted set.
    let values = [json!("plain"), json!(""), json!(4711), json!({ "order": 2 }), json!({ "$bytes": "00ff" })];
    for value in &values {
        seen.offer(value, LATER).await;
    }
    seen.destroy().await;
    make_due(&mut redis, &queue).await;
    let offered = scheduled(&mut redis, &queue).await;
    let mut expected = Vec::new();
    for value in &values {
        expected.push(java.encode(CODEC, value).await.expect("the codec"));
    }
    let mut daemon = Daemon::start(&yaml(&server, "")).await;
    let deliveries = arrived(&mut redis, values.len()).await;
    assert_eq!(deliveries.len(), values.len());
    for (member, due_ms) in &offered {
        let (id, payload) = queue.layout.unpack(member).expect("an element of this version's layout");
        assert!(expected.iter().any(|bytes| bytes == payload), "Redisson stored other bytes than it encodes");
        let delivery = deliveries.iter().find(|delivery| delivery.id == Some(hex::encode(id))).expect("its id");
        assert_eq!((&delivery.payload[..], delivery.due_ms), (payload, Some(*due_ms)));
    }

    // Cancelled on either side, offered by either side.
    for name in ["by us", "by Java", "by no one"] {
        seen.offer(&json!(name), LATER).await;
    }
    let plain = java.encode(CODEC, &json!("ours, by Java")).await.expect("the codec");
    std::fs::write(file, plain).expect("write the payload");
    ask(&config, &["offer", "q", "--delay", "1h", "--file", file]);
    assert_eq!(seen.size().await, 4);
    let encoded = java.encode(CODEC, &json!("by us")).await.expect("the codec");
    let (id, _) = scheduled(&mut redis, &queue)
        .await
        .iter()
        .filter_map(|(member, _)| queue.layout.unpack(member))
        .find(|(_, payload)| *payload == encoded)
        .map(|(id, payload)| (hex::encode(id), payload.to_vec()))
        .expect("the element to be cancelled, and the offer in the layout of its neighbours");
    ask(&config, &["cancel", "q", &id]);
    assert!(!seen.contains(&json!("by us")).await);
    assert!(seen.remove(&json!("by Java")).await);
    assert!(seen.remove(&json!("ours, by Java")).await);
    assert!(!seen.remove(&json!("by Java")).await, "it is gone");
    assert_eq!(seen.size().await, 1);
    assert_eq!(seen.read_all().await, [json!("by no one")]);
    seen.destroy().await;
    make_due(&mut redis, &queue).await;
    let deliveries = arrived(&mut redis, values.len() + 1).await;
    assert_eq!(deliveries.len(), values.len() + 1);
    assert_eq!(deliveries[values.len()].payload, java.encode(CODEC, &json!("by no one")).await.expect("the codec"));
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test]
async fn redisson_3_16_and_the_daemon_read_and_cancel_what_the_other_offers() {
    in_and_out_and_cancelled("3.16.8").await;
}

#[tokio::test]
async fn redisson_3_20_and_the_daemon_read_and_cancel_what_the_other_offers() {
    in_and_out_and_cancelled("3.20.1").await;
}

#[tokio::test]
async fn redisson_3_21_and_the_daemon_read_and_cancel_what_the_other_offers() {
    in_and_out_and_cancelled("3.21.1").await;
}

#[tokio::test]
async fn redisson_3_45_and_the_daemon_read_and_cancel_what_the_other_offers() {
    in_and_out_and_cancelled("3.45.1").await;
}

#[tokio::test]
async fn redisson_4_and_the_daemon_read_and_cancel_what_the_other_offers() {
    in_and_out_and_cancelled("4.7.0").await;
}
