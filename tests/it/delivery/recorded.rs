//! Elements as running Redisson clients wrote them.

use harness::oracle::{read_list, read_stream};
use harness::redisson::{Element, redis_now_ms};
use harness::{Daemon, Oracle, RedisServer, RedissonQueue, vectors};

use super::{emptied, list_of, on, stream_of};

#[tokio::test]
async fn every_recorded_element_of_every_version_and_codec_is_delivered_byte_for_byte() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let now = redis_now_ms(&mut redis).await;
    let recorded = vectors();
    let elements: Vec<Element> = recorded
        .iter()
        .map(|vector| {
            let (id, payload) = vector.parts();
            // As recorded, unless this machine's clock is behind that of the recording.
            Element { id, payload, due_ms: vector.due_ms().min(now - 1), member: vector.member() }
        })
        .collect();
    let mut oracle = Oracle::new();
    oracle.offered(&elements);
    let to_stream = RedissonQueue::new("recorded:stream");
    let to_list = RedissonQueue::new("recorded:{list}");
    for queue in [&to_stream, &to_list] {
        queue.offer_bulk(&mut redis, &elements).await;
    }

    let daemon = Daemon::start(&on(
        &server,
        r#"
sinks:
  same: { redis: {} }
queues:
  a:
    source: { redisson: { name: "recorded:stream", ghost_max_age: 1s } }
    to: [{ sink: same, stream: out-stream }]
  b:
    source: { redisson: { name: "recorded:{list}", ghost_max_age: 1s } }
    to: [{ sink: same, list: out-list }]
"#,
    ))
    .await;
    stream_of(&mut redis, "out-stream", elements.len()).await;
    list_of(&mut redis, "out-list", elements.len()).await;
    emptied(&mut redis, &to_stream).await;
    emptied(&mut redis, &to_list).await;

    let streamed = read_stream(&mut redis, "out-stream").await;
    let report = oracle.judge(&streamed);
    report.assert_complete(0);
    oracle.judge_payloads(&read_list(&mut redis, "out-list").await).assert_complete(0);
    for delivery in &streamed {
        let element = elements.iter().find(|element| Some(element.id_text()) == delivery.id).unwrap();
        assert_eq!((delivery.due_ms, delivery.attempt), (Some(element.due_ms), Some(1)));
        assert_eq!(delivery.queue.as_deref(), Some("a"));
    }
    let kinds: std::collections::BTreeSet<_> = recorded.iter().map(|v| (&v.redisson, &v.codec)).collect();
    println!("{report}; {} pairs of version and codec", kinds.len());
    assert_eq!(daemon.metric("delaybridge_dead_lettered_messages_total").await, 0.0);
}
