//! Messages that a client library cannot read, beside others: any publisher can write them.

use brokers::rabbit::{RawClient, RawMessage, long, short};

use super::amqp::{arrived, yaml};
use crate::amqp::{blocking, start, url};
use crate::faults::rig::PATIENCE;
use harness::amqp::Rabbits;
use harness::publisher::Publisher;
use harness::{Daemon, RedisServer, eventually};

/// The flags of properties, as the protocol counts them.
const CONTENT_TYPE: u16 = 15;
const CORRELATION_ID: u16 = 10;
const MESSAGE_ID: u16 = 7;

/// A table within a table, this deep, each with one entry.
fn nested(depth: usize) -> Vec<u8> {
    let mut value = b"V".to_vec();
    for _ in 0..depth {
        value = [&b"F"[..], &long(&[short(b"n"), value].concat())].concat();
    }
    value
}

/// Messages of which a name, a property or a table cannot be read.
fn odd() -> Vec<RawMessage> {
    let header = RawMessage::with_headers;
    let delayed = |message: RawMessage| message.to("delayed", b"orders");
    vec![
        // Without an address it would go back to the input. The log has the first one.
        header(&[(b"\xff", b"V")], "address").to("", b"delay-in"),
        delayed(header(&[(b"\xff\xfe", b"t\x01")], "header name")),
        header(&[], "routing key").to("delayed", b"orders.\xff"),
        delayed(RawMessage::with_property(MESSAGE_ID, &short(b"m-\xff"), "message id")),
        delayed(RawMessage::with_property(CONTENT_TYPE, &short(b"\xc3"), "content type")),
        delayed(RawMessage::with_property(CORRELATION_ID, &short(&[0x80; 16]), "correlation id")),
        delayed(header(&[(b"deep", &nested(1_000))], "1,000 deep")),
        delayed(header(&[(b"deep", &nested(9_000))], "9,000 deep")),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_cannot_be_read_are_refused_as_they_are_and_the_others_go_on() {
    let server = RedisServer::start().await;
    let rabbit = start();
    let publisher = Publisher::connect(&url(&rabbit)).await.expect("connect");
    publisher.declare("delay-in", &["orders"]).await;
    let odd = odd();
    let mut raw = blocking(|| RawClient::connect(rabbit.port())).expect("log in");
    for message in &odd {
        blocking(|| raw.publish(message)).expect("publish");
        let good = RawMessage::with_headers(&[], "good").to("delayed", b"orders");
        blocking(|| raw.publish(&good)).expect("publish");
    }
    let mut daemon = Daemon::start(&yaml(&server, &rabbit, "")).await;
    daemon.expect_log("input refused a message");
    assert_eq!(arrived(&rabbit, "orders", odd.len()).await.len(), odd.len());
    eventually("the refused ones to be dead letters", PATIENCE, async || {
        let count = Rabbits::connect(&url(&rabbit)).await?.count("refused").await;
        if count as usize == odd.len() { Ok(()) } else { Err(format!("{count} are there")) }
    })
    .await;
    let log = daemon.log().all().join("\n");
    assert!(log.contains("\"code\":\"bad_headers\"") && !log.contains("\"code\":\"loop\""), "{log}");
    // As their publisher wrote them; the broker has added headers of its own.
    let mut refused = Vec::new();
    while let Some(letter) = blocking(|| raw.take("refused")).expect("take") {
        refused.push(letter);
    }
    for message in &odd {
        let letter = refused.iter().find(|letter| letter.body == message.body).expect("it is there");
        // Behind the flags, and in front of a table its size.
        let before = if message.properties.starts_with(&[0x20, 0]) { 6 } else { 2 };
        let value = &message.properties[before..];
        let kept = value.is_empty() || letter.properties.windows(value.len()).any(|window| window == value);
        assert!(kept, "{}", String::from_utf8_lossy(&message.body));
    }
}

/// Every type of value that a broker lets through, and the largest headers.
#[tokio::test(flavor = "multi_thread")]
async fn headers_of_every_type_go_through_or_are_refused_and_the_others_go_on() {
    let server = RedisServer::start().await;
    let rabbit = start();
    let publisher = Publisher::connect(&url(&rabbit)).await.expect("connect");
    publisher.declare("delay-in", &["orders"]).await;
    let value = |letter: &[u8], bytes: &[u8]| [letter, bytes].concat();
    let large = value(b"S", &long(&vec![b'x'; 100_000]));
    let numbers = (0..2_000).flat_map(|n: i32| value(b"I", &n.to_be_bytes())).collect::<Vec<_>>();
    let mut raw = blocking(|| RawClient::connect(rabbit.port())).expect("log in");
    let kept = [
        value(b"V", b""),
        value(b"D", &[2, 0, 0, 1, 0]),
        value(b"x", &long(b"\xff\xfe")),
        value(b"S", &long(b"\xff\xfe")),
        value(b"T", &u64::MAX.to_be_bytes()),
        value(b"d", &f64::MIN_POSITIVE.to_be_bytes()),
        value(b"A", &long(&numbers)),
        nested(63),
        large,
    ];
    for value in &kept {
        let message = RawMessage::with_headers(&[(b"value", value)], "kept").to("delayed", b"orders");
        blocking(|| raw.publish(&message)).expect("publish");
    }
    let deep = RawMessage::with_headers(&[(b"value", &nested(64))], "refused").to("delayed", b"orders");
    blocking(|| raw.publish(&deep)).expect("publish");
    // RabbitMQ ends the connection of a publisher with a type or a number that it does not know, or too large a frame.
    let nan = value(b"d", &f64::NAN.to_be_bytes());
    for value in [nan, value(b"z", b"1"), value(b"S", &long(&vec![b'x'; 4 << 20]))] {
        let mut raw = blocking(|| RawClient::connect(rabbit.port())).expect("log in");
        let message = RawMessage::with_headers(&[(b"value", &value)], "never").to("delayed", b"orders");
        blocking(|| raw.publish(&message)).expect_err("the broker refuses it");
    }
    let mut daemon = Daemon::start(&yaml(&server, &rabbit, "")).await;
    daemon.expect_log("input refused a message");
    // Each value is there as it was.
    let mut values = Vec::new();
    eventually("the kept ones in orders", PATIENCE, async || {
        while let Some(message) = blocking(|| raw.take("orders"))? {
            values.push(message.properties);
        }
        if values.len() >= kept.len() { Ok(()) } else { Err(format!("{} are there", values.len())) }
    })
    .await;
    for value in &kept {
        let entry = [short(b"value"), value.clone()].concat();
        let there = values.iter().any(|properties| properties.windows(entry.len()).any(|window| window == entry));
        assert!(there, "{:?}", &value[..value.len().min(20)]);
    }
    eventually("the refused one to be a dead letter", PATIENCE, async || {
        let count = Rabbits::connect(&url(&rabbit)).await?.count("refused").await;
        if count == 1 { Ok(()) } else { Err(format!("{count} are there")) }
    })
    .await;
}
