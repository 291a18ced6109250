//! One of two queues is full, or one of many elements ends the connection that it is sent on: the others arrive.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lapin::types::{AMQPValue, FieldTable};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::faults::rig::{metric, readyz, tolerate_stalls};
use harness::redisson::Element;

/// Offers elements with these payloads, due now.
pub(super) async fn offer_payloads(
    server: &RedisServer,
    oracle: &mut Oracle,
    payloads: impl IntoIterator<Item = String>,
) {
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let offered: Vec<Element> = payloads.into_iter().map(|payload| Element::new(queue.layout, now, payload)).collect();
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;
}

pub(super) fn to(key: &str, numbers: std::ops::Range<usize>) -> impl Iterator<Item = String> {
    numbers.map(move |n| format!(r#"{{"to":"{key}","n":{n}}}"#))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_holds_its_elements_and_those_beside_it_arrive_in_time() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let rabbits = Rabbits::connect(&url(&rabbit)).await.expect("connect");
    rabbits.declare("orders", Some("arrived"), "due").await;
    let mut bounded = FieldTable::default();
    bounded.insert("x-max-length".into(), AMQPValue::LongInt(40));
    bounded.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    rabbits.declare_queue("small", bounded).await;
    rabbits.bind("orders", "small", "small").await;
    let yaml =
        yaml(&server, &rabbit, "", "codec: json").replace("sink: out }]", "sink: out, routing_key: '${payload.to}' }]");
    let mut daemon = Daemon::start(&yaml).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("destination in trouble");
    let mut of_small = Oracle::new();
    let mut of_due = Oracle::new();
    offer_payloads(&server, &mut of_due, to("due", 0..50)).await;
    Arrived::at(&rabbit).all("arrived", &of_due).await;

    offer_payloads(&server, &mut of_small, to("small", 0..60)).await;
    metric(&daemon, "delaybridge_sink_destinations_in_trouble", |count| count == 1.0).await;
    let lateness = "delaybridge_delivery_lateness_seconds_bucket{queue=\"q\",sink=\"out\",le=\"0.5\"}";
    let mut arrived = Arrived::at(&rabbit);
    let mut of_due = Oracle::new();
    let mut shares = Vec::new();
    let watch = Stopwatch::start();
    // An element that waited for the full queue would never be in time. A busy machine delays a few, but not in each
    // round.
    for round in 1..=3 {
        let in_time = daemon.metric(lateness).await;
        let of_all = daemon.metric(DELIVERED).await;
        for tick in 0..30 {
            let first = round * 1_000 + tick * 10;
            offer_payloads(&server, &mut of_due, to("due", first..first + 10)).await;
            crate::faults::rig::pass(Duration::from_millis(100)).await;
        }
        arrived.all("arrived", &of_due).await;
        metric(&daemon, DELIVERED, |all| all - of_all >= 300.0).await;
        let in_time = daemon.metric(lateness).await - in_time;
        let of_all = daemon.metric(DELIVERED).await - of_all;
        shares.push(in_time / of_all);
        if in_time >= 0.99 * of_all {
            break;
        }
    }
    println!("delivered within half a second: {shares:?}");
    let enough = watch.share_in_time(0.99);
    assert!(shares.iter().any(|share| *share >= enough), "{shares:?} in time, and not {enough}");
    let shown = readyz(&daemon, 200, "${payload.to}").await;
    assert!(!shown.contains("small"), "{shown}");

    // Taking messages out makes space for the rest.
    let mut of_queue = Arrived::at(&rabbit);
    of_queue.all("small", &of_small).await;
    settled(&mut server.client().await, &RedissonQueue::new("q")).await;
    of_small.judge(of_queue.all("small", &of_small).await).assert_complete(0);
    metric(&daemon, "delaybridge_sink_destinations_in_trouble", |count| count == 0.0).await;
}

pub(super) const DELIVERED: &str = "delaybridge_delivered_messages_total";
/// The text that a message must not contain.
const FORBIDDEN: &[u8] = b"forbidden word";

/// Starts a proxy before a broker that cuts a connection with [`FORBIDDEN`], as some firewalls do.
async fn censor(port: u16) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let own = listener.local_addr().expect("an address").port();
    let cuts = Arc::new(AtomicUsize::new(0));
    let counted = cuts.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let Ok(broker) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
            let ((mut from, mut back), (mut answers, mut to)) = (client.into_split(), broker.into_split());
            let cuts = counted.clone();
            tokio::spawn(async move {
                let upward = async {
                    let mut seen = Vec::new();
                    let mut buffer = vec![0; 1 << 16];
                    while let Ok(count @ 1..) = from.read(&mut buffer).await {
                        seen.extend_from_slice(&buffer[..count]);
                        if seen.windows(FORBIDDEN.len()).any(|part| part == FORBIDDEN) {
                            cuts.fetch_add(1, Ordering::Relaxed);
                            return;
                        }
                        seen.drain(..seen.len().saturating_sub(FORBIDDEN.len()));
                        if to.write_all(&buffer[..count]).await.is_err() {
                            return;
                        }
                    }
                };
                // When either direction ends, the connection ends.
                tokio::select! {
                    () = upward => {}
                    _ = tokio::io::copy(&mut answers, &mut back) => {}
                }
            });
        }
    });
    (own, cuts)
}

/// An element that ends its connection is identified: after the third time it is sent alone, and its neighbours arrive.
#[tokio::test(flavor = "multi_thread")]
async fn an_element_that_ends_the_connection_is_a_dead_letter_and_its_neighbours_arrive() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let (port, cuts) = censor(rabbit.port()).await;
    let yaml = yaml(&server, &rabbit, DECLARE, "max_in_flight: 500")
        .replace(&format!(":{}", rabbit.port()), &format!(":{port}"))
        .replace("max_attempts: 3", "max_attempts: 6");
    let mut daemon = Daemon::start(&yaml).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("dead letter stored").expect_log("destination in trouble");
    let mut oracle = Oracle::new();
    let mut arrived = Arrived::at(&rabbit);
    offer(&server, &mut oracle, "before", 50, Duration::from_millis(10)).await;
    arrived.all("arrived", &oracle).await;

    let mut poison = Oracle::new();
    offer(&server, &mut oracle, "beside", 100, Duration::from_millis(10)).await;
    offer_payloads(&server, &mut poison, [String::from_utf8_lossy(FORBIDDEN).into_owned()]).await;
    let dead = "delaybridge_dead_lettered_messages_total";
    eventually("the element to be given up", 2 * PATIENCE, async || {
        // The destination works, otherwise the element would not be blamed.
        offer(&server, &mut oracle, "on", 5, Duration::from_millis(10)).await;
        let dead = daemon.metric(dead).await;
        if dead > 0.0 { Ok(()) } else { Err(format!("{} cuts", cuts.load(Ordering::Relaxed))) }
    })
    .await;
    println!("given up after {} cuts", cuts.load(Ordering::Relaxed));
    arrived.all("arrived", &oracle).await;
    metric(&daemon, "delaybridge_sink_up", |up| up == 1.0).await;
    let announced = daemon.metrics().await.sum("delaybridge_possible_duplicates_total");
    let report = oracle.judge(&arrived.deliveries);
    println!("{report}, {announced} announced");
    report.assert_complete(announced as usize);
    assert_eq!(daemon.metric(dead).await, 1.0, "no neighbour is given up with it");
}
