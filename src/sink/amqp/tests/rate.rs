//! How fast the sink is beside a bare publisher of the library with the same window. Run by hand:
//! `cargo test --release --lib amqp::tests::rate -- --ignored --nocapture`.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueuePurgeOptions};
use lapin::{BasicProperties, Channel, Confirmation};

use super::super::message::prepare;
use super::*;
use crate::sink::contract::outbound;

const TOTAL: u64 = 100_000;
const WINDOW: usize = 1000;

/// The library alone: one channel, as many unconfirmed as the window allows, nothing checked.
async fn bare(channel: &Channel, queue: &str, properties: &BasicProperties) -> f64 {
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let body = Bytes::from(vec![b'x'; 256]);
    let begun = tokio::time::Instant::now();
    let mut under_way = FuturesUnordered::new();
    for _ in 0..TOTAL {
        if under_way.len() >= WINDOW {
            let confirmed: Confirmation = StreamExt::next(&mut under_way).await.unwrap();
            assert!(confirmed.is_ack());
        }
        let (channel, body, queue) = (channel.clone(), body.clone(), queue.to_owned());
        let properties = properties.clone();
        under_way.push(async move {
            let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            channel.basic_publish("".into(), queue.into(), options, &body, properties).await.unwrap().await.unwrap()
        });
    }
    while StreamExt::next(&mut under_way).await.is_some() {}
    TOTAL as f64 / begun.elapsed().as_secs_f64()
}

async fn sink(sink: &Arc<AmqpSink>, queue: &str, width: usize) -> f64 {
    let next = Arc::new(AtomicU64::new(0));
    let message = outbound(0, destination("", queue), vec![b'x'; 256]);
    let begun = tokio::time::Instant::now();
    let deliveries: Vec<_> = (0..width)
        .map(|_| {
            let (sink, next, message) = (sink.clone(), next.clone(), message.clone());
            tokio::spawn(async move {
                while next.fetch_add(1, Ordering::Relaxed) < TOTAL {
                    sink.deliver(message.clone()).await.unwrap();
                }
            })
        })
        .collect();
    for delivery in deliveries {
        delivery.await.unwrap();
    }
    TOTAL as f64 / begun.elapsed().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn the_sink_is_nearly_as_fast_as_the_bare_library() {
    let node = Node::alone().await;
    let admin = node.admin().await;
    for (kind, arguments) in [("classic", &[][..]), ("quorum", &[("x-queue-type", "quorum")])] {
        let queue = node.name(kind);
        admin.queue(&queue, arguments).await;
        let ours = patient_sink(node.spec());
        let least = BasicProperties::default().with_delivery_mode(2);
        let message = outbound(0, destination("", &queue), vec![b'x'; 256]);
        let same = prepare(&message, &node.spec(), 128 << 10).unwrap().properties;
        let same = same.with_message_id("0123456789abcdef-100000".into());
        let (mut rates, mut bare_rates, mut same_rates) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..3 {
            for (properties, rates) in [(&least, &mut bare_rates), (&same, &mut same_rates)] {
                let other = node.admin().await;
                rates.push(bare(&other.channel, &queue, properties).await);
                purge(&admin, &queue).await;
            }
            rates.push(sink(&ours, &queue, 2 * WINDOW).await);
            assert_eq!(u64::from(admin.length(&queue).await), TOTAL);
            purge(&admin, &queue).await;
        }
        let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
        let share = |of: &[f64]| 100.0 * mean(&rates) / mean(of);
        println!("{kind}: sink {rates:.0?}/s");
        println!("  bare, no headers: {bare_rates:.0?}/s, the sink has {:.0} %", share(&bare_rates));
        println!("  bare, same properties: {same_rates:.0?}/s, the sink has {:.0} %", share(&same_rates));
        ours.close().await;
    }
}

async fn purge(admin: &Admin, queue: &str) {
    admin.channel.queue_purge(queue.into(), QueuePurgeOptions::default()).await.unwrap();
}
