//! Brokers of AMQP 0-9-1.

use std::sync::atomic::Ordering;

use brokers::RabbitOptions;

use super::{Hostile, MOST, Peer, endure_with, withstand};
use crate::amqp::{start_with, url};
use crate::faults::rig::{PATIENCE, metric};
use harness::amqp::Rabbits;
use harness::redisson::{Element, redis_now_ms};
use harness::{Daemon, RedisServer, RedissonQueue, eventually};

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len()).expect("a small frame");
    [&[kind][..], &channel.to_be_bytes(), &size.to_be_bytes(), payload, &[0xce]].concat()
}

fn method(channel: u16, class: u16, number: u16, arguments: &[u8]) -> Vec<u8> {
    frame(METHOD, channel, &[&class.to_be_bytes()[..], &number.to_be_bytes(), arguments].concat())
}

fn short(text: &str) -> Vec<u8> {
    [&[u8::try_from(text.len()).expect("a short text")][..], text.as_bytes()].concat()
}

fn long(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).expect("not too long").to_be_bytes()[..], bytes].concat()
}

/// Tables within each other.
fn nested(depth: usize) -> Vec<u8> {
    (0..depth).fold(Vec::new(), |inner, _| [&short("n")[..], b"F", &long(&inner)].concat())
}

/// A broker up to the open connection, with these properties and this largest frame.
fn greet(peer: &mut Peer, properties: &[u8], frame_max: u32) -> std::io::Result<()> {
    peer.read::<8>()?;
    let start = [&[0, 9][..], &long(properties), &long(b"PLAIN AMQPLAIN"), &long(b"en_US")].concat();
    peer.say(&method(0, 10, 10, &start))?;
    next(peer)?;
    peer.say(&method(0, 10, 30, &[&[0, 0][..], &frame_max.to_be_bytes(), &[0, 0]].concat()))?;
    next(peer)?;
    next(peer)?;
    peer.say(&method(0, 10, 41, &[0]))
}

/// Reads a frame: its type, channel and payload.
fn next(peer: &mut Peer) -> std::io::Result<(u8, u16, Vec<u8>)> {
    let head = peer.read::<7>()?;
    let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
    let mut payload = peer.read_many(size as usize + 1)?;
    payload.pop();
    Ok((head[0], u16::from_be_bytes([head[1], head[2]]), payload))
}

/// Answers what a client asks until it has published a message; returns its channel, and calls this for each opened one.
fn until_published(
    peer: &mut Peer,
    mut opened: impl FnMut(&mut Peer, u16) -> std::io::Result<()>,
) -> std::io::Result<u16> {
    loop {
        let (kind, channel, payload) = next(peer)?;
        match (kind, payload.get(..4)) {
            (METHOD, Some([0, 20, 0, 10])) => {
                peer.say(&method(channel, 20, 11, &long(b"")))?;
                opened(peer, channel)?;
            }
            (METHOD, Some([0, 20, 0, 40])) => peer.say(&method(channel, 20, 41, &[]))?,
            (METHOD, Some([0, 10, 0, 50])) => peer.say(&method(channel, 10, 51, &[]))?,
            (METHOD, Some([0, 85, 0, 10])) => peer.say(&method(channel, 85, 11, &[]))?,
            (METHOD, Some([0, 50, 0, 10])) => {
                peer.say(&method(channel, 50, 11, &[&short("q")[..], &[0; 8]].concat()))?;
            }
            (METHOD, Some([0, 60, 0, 10])) => peer.say(&method(channel, 60, 11, &[]))?,
            (METHOD, Some([0, 60, 0, 20])) => {
                peer.say(&method(channel, 60, 21, &short("tag")))?;
                return Ok(channel);
            }
            (BODY, _) => return Ok(channel),
            _ => {}
        }
    }
}

fn sink(hostile: &Hostile) -> String {
    format!("amqp: {{ url: 'amqp://127.0.0.1:{}', exchange: orders, routing_key: due, timeout: 5s }}", hostile.port)
}

/// A header of properties for a body of this size.
fn header(channel: u16, size: u64, properties: &[u8]) -> Vec<u8> {
    frame(HEADER, channel, &[&[0, 60, 0, 0][..], &size.to_be_bytes(), properties].concat())
}

fn returned(channel: u16) -> Vec<u8> {
    let arguments = [&312_u16.to_be_bytes()[..], &short("NO_ROUTE"), &short("orders"), &short("due")].concat();
    method(channel, 60, 50, &arguments)
}

fn acked(channel: u16, tag: u64, multiple: bool) -> Vec<u8> {
    method(channel, 60, 80, &[&tag.to_be_bytes()[..], &[u8::from(multiple)]].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_without_end_is_never_held() {
    let hostile = Hostile::serve(|peer| {
        greet(peer, b"", 0)?;
        let channel = until_published(peer, |_, _| Ok(()))?;
        peer.say(&[&[BODY][..], &channel.to_be_bytes(), &0xffff_fff0_u32.to_be_bytes()].concat())?;
        peer.flood(&[0; 64 << 10])
    });
    withstand("AMQP 0-9-1: frame_max 0 and a body frame of 4 GiB", &hostile, &sink(&hostile)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_within_tables_do_not_end_the_process() {
    let hostile = Hostile::serve(|peer| {
        peer.sent.fetch_add(1, Ordering::Relaxed);
        greet(peer, &nested(20_000), 131_072)
    });
    let daemon = withstand("AMQP 0-9-1: a start with 20,000 nested tables", &hostile, &sink(&hostile)).await;
    metric(&daemon, "delaybridge_sink_up{sink=\"bad\"}", |up| up == 0.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_flow_is_not_answered_without_end() {
    let hostile = Hostile::serve(|peer| {
        greet(peer, b"", 131_072)?;
        until_published(peer, |peer, channel| peer.flood(&[method(channel, 20, 20, &[1]), frame(8, 0, b"")].concat()))?;
        Ok(())
    });
    withstand("AMQP 0-9-1: a flood of channel.flow", &hostile, &sink(&hostile)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_blocked_is_not_remembered() {
    let hostile = Hostile::serve(|peer| {
        greet(peer, b"", 131_072)?;
        peer.flood(&[method(0, 10, 60, &short(&"low on memory ".repeat(18))), method(0, 10, 61, &[])].concat())
    });
    withstand("AMQP 0-9-1: a flood of connection.blocked", &hostile, &sink(&hostile)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn returns_that_match_nothing_are_not_kept() {
    let hostile = Hostile::serve(|peer| {
        greet(peer, b"", 131_072)?;
        let channel = until_published(peer, |_, _| Ok(()))?;
        let headers = [&short("n")[..], b"S", &long(&[b'a'; 1_000])].concat();
        let properties = [&[0x20, 0][..], &long(&headers)].concat();
        peer.flood(&[returned(channel), header(channel, 0, &properties)].concat())
    });
    withstand("AMQP 0-9-1: returns that match nothing", &hostile, &sink(&hostile)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_returned_body_is_not_read() {
    let hostile = Hostile::serve(|peer| {
        greet(peer, b"", 131_072)?;
        let channel = until_published(peer, |_, _| Ok(()))?;
        peer.say(&[returned(channel), header(channel, 1 << 40, &[0, 0])].concat())?;
        peer.flood(&frame(BODY, channel, &[0; 131_064]))
    });
    withstand("AMQP 0-9-1: one returned message of 2^40 bytes", &hostile, &sink(&hostile)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_no_message_is_no_verdict_on_another() {
    let hostile = Hostile::serve(|peer| {
        greet(peer, b"", 131_072)?;
        let mut published = std::collections::BTreeMap::<u16, u64>::new();
        loop {
            let channel = until_published(peer, |_, _| Ok(()))?;
            let tag = published.entry(channel).or_default();
            *tag += 1;
            // One that was never sent, one that was answered before, and the one itself.
            peer.say(&[acked(channel, *tag + 1_000, false), acked(channel, *tag - 1, false)].concat())?;
            peer.say(&[acked(channel, *tag + 7, true), acked(channel, *tag, false)].concat())?;
            peer.sent.fetch_add(1, Ordering::Relaxed);
        }
    });
    let name = "AMQP 0-9-1: confirmations of unknown tags";
    let daemon = withstand(name, &hostile, &sink(&hostile)).await;
    metric(&daemon, "delaybridge_delivered_messages_total{queue=\"ill\"}", |all| all == 200.0).await;
    assert_eq!(daemon.metric("delaybridge_dead_lettered_messages_total").await, 0.0);
    assert_eq!(hostile.sent.load(Ordering::Relaxed), 200, "no message was sent twice");
}

/// RabbitMQ documents 0 as no limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_without_a_frame_max_is_reached_with_little_memory() {
    let config = vec![("frame_max".to_owned(), "0".to_owned())];
    let rabbit = start_with(RabbitOptions { config, ..RabbitOptions::default() });
    let server = RedisServer::start().await;
    let yaml = format!(
        "redis: {{ url: '{}' }}\n\
         sinks: {{ out: {{ amqp: {{ url: '{}', exchange: orders, routing_key: due, \
         topology: declare, declare: {{ queue: {{ name: arrived, type: classic }} }} }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, to: [{{ sink: out }}] }} }}\n",
        server.url(),
        url(&rabbit)
    );
    let daemon = Daemon::start(&yaml).await;
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    // Larger than a frame.
    let offered = vec![Element::new(queue.layout, now, vec![b'a'; 300_000])];
    queue.offer_bulk(&mut redis, &offered).await;
    // The library of this test believes the broker, too.
    let bounded = format!("{}/%2f?frame_max=131072", url(&rabbit));
    let mut rabbits = Rabbits::connect(&bounded).await.expect("connect");
    let found = eventually("the element to arrive", PATIENCE, async || {
        let found = rabbits.take_all("arrived").await?;
        if found.is_empty() { Err("nothing".to_owned()) } else { Ok(found) }
    })
    .await;
    assert_eq!(found[0].payload.len(), 300_000);
    let peak = daemon.usage().peak;
    println!("RabbitMQ with frame_max = 0: {} MiB at the peak", peak >> 20);
    assert!(peak < 4 * MOST, "{} MiB", peak >> 20);
}

fn delivered(channel: u16, tag: u64) -> Vec<u8> {
    let arguments = [&short("tag")[..], &tag.to_be_bytes(), &[0], &short("orders"), &short("due")].concat();
    method(channel, 60, 60, &arguments)
}

/// An input on a hostile broker, which is asked whether its queue may be consumed before it is consumed. `prefetch_bytes` is 16 MiB.
async fn withstand_as_input(name: &str, hostile: &Hostile) {
    let further = format!(
        "inputs: {{ late: {{ amqp: {{ url: 'amqp://127.0.0.1:{}', queue: delay-in, prefetch_bytes: 16MiB, \
         dead_letter_exchange: policy }}, topic: late, to: {{ sink: good, stream: late }} }} }}\n",
        hostile.port
    );
    let endured = endure_with(name, hostile, "bad: { stdout: {} }", &further).await;
    assert!(endured.peak < MOST + (16 << 20), "{name}: the daemon held {} MiB more than before", endured.peak >> 20);
}

/// Greets, and consumes as soon as the queue is consumed for the second time.
fn consumed(peer: &mut Peer) -> std::io::Result<u16> {
    greet(peer, b"", 131_072)?;
    until_published(peer, |_, _| Ok(()))?;
    until_published(peer, |_, _| Ok(()))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_takes_no_more_than_its_prefetch() {
    let hostile = Hostile::serve(|peer| {
        let channel = consumed(peer)?;
        for tag in 1.. {
            let body = vec![b'a'; 1_000];
            let message = [delivered(channel, tag), header(channel, 1_000, &[0, 0]), frame(BODY, channel, &body)];
            peer.say(&message.concat())?;
            peer.sent.fetch_add(1_000, Ordering::Relaxed);
        }
        Ok(())
    });
    withstand_as_input("AMQP 0-9-1 as an input: deliveries beyond the prefetch", &hostile).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_takes_no_more_bytes_than_it_may_hold() {
    // Within the prefetch, and each within `max_body`: 500 MB at once.
    let hostile = Hostile::serve(|peer| {
        let channel = consumed(peer)?;
        for tag in 1..=500_u64 {
            let part = frame(BODY, channel, &[b'a'; 125_000]);
            let message = [delivered(channel, tag), header(channel, 1_000_000, &[0, 0]), part.repeat(8)];
            peer.say(&message.concat())?;
            peer.sent.fetch_add(1_000_000, Ordering::Relaxed);
        }
        loop {
            next(peer)?;
        }
    });
    withstand_as_input("AMQP 0-9-1 as an input: 500 messages of 1 MB", &hostile).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_does_not_read_a_body_that_it_cannot_take() {
    let hostile = Hostile::serve(|peer| {
        let channel = consumed(peer)?;
        peer.say(&[delivered(channel, 1), header(channel, 2 << 30, &[0, 0])].concat())?;
        peer.flood(&frame(BODY, channel, &[0; 131_064]))
    });
    withstand_as_input("AMQP 0-9-1 as an input: one message of 2 GiB", &hostile).await;
}
