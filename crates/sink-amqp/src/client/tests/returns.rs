//! No returned message is ever taken for delivered, and no delivered one for returned.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream;

use super::rabbit::{Node, destination};
use super::*;
use delaybridge_testing::sink::outbound;

/// Delivers `total` messages of which every `nth` has no route, `width` at once, and gives how many unroutable ones were
/// taken for delivered, and how many delivered ones were blamed.
async fn wrong_verdicts(node: &Node, sink: &Arc<AmqpSink>, total: u64, nth: u64, width: usize) -> (usize, usize) {
    let admin = node.admin().await;
    let exchange = node.name("exchange");
    let queue = node.name("queue");
    admin.exchange(&exchange).await;
    admin.queue(&queue, &[]).await;
    admin.bind(&queue, &exchange, "key").await;
    let unroutable = |n: u64| n.is_multiple_of(nth);
    let outcomes: Vec<(u64, Outcome)> = stream::iter(0..total)
        .map(|n| {
            let key = if unroutable(n) { "nobody" } else { "key" };
            let message = outbound(n, destination(&exchange, key), format!("{n}"));
            let sink = sink.clone();
            // Tasks of their own: a thousand futures in one would be polled a thousand times for each answer.
            async move { (n, tokio::spawn(async move { sink.deliver(message).await }).await.unwrap()) }
        })
        .buffer_unordered(width)
        .collect()
        .await;
    let arrived: HashSet<u64> = admin.texts(&queue).await.iter().map(|text| text.parse().unwrap()).collect();
    assert_eq!(arrived.len() as u64, (0..total).filter(|n| !unroutable(*n)).count() as u64);
    let mut lost = 0;
    let mut blamed = 0;
    for (n, outcome) in outcomes {
        match outcome {
            Ok(()) => lost += usize::from(!arrived.contains(&n)),
            Err(failure) => {
                assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "NO_ROUTE"), "{failure}");
                assert_eq!(failure.about, About::Route);
                blamed += usize::from(arrived.contains(&n));
            }
        }
    }
    (lost, blamed)
}

fn long() -> bool {
    std::env::var_os("DELAYBRIDGE_LONG").is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn returns_are_distinguished_from_deliveries_with_a_thousand_in_flight() {
    let node = Node::shared().await;
    let (runs, total) = if long() { (5, 20_000) } else { (1, 5_000) };
    for run in 0..runs {
        // Another run, other names.
        let node = if run == 0 { &node } else { &Node::shared().await };
        let sink = patient_sink(node.spec());
        assert_eq!(wrong_verdicts(node, &sink, total, 7, 1000).await, (0, 0), "run {run}");
        sink.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn returns_are_distinguished_from_deliveries_at_every_width_and_share() {
    for (nth, width) in [(1, 100), (2, 10), (2, 1000), (50, 300), (3, 1)] {
        let node = Node::shared().await;
        let sink = patient_sink(AmqpSpec { max_unconfirmed: 100, ..node.spec() });
        assert_eq!(wrong_verdicts(&node, &sink, 600, nth, width).await, (0, 0), "every {nth}th, {width} at once");
        sink.close().await;
    }
}
