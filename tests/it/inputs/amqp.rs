//! Messages of a real RabbitMQ: what goes on, when and where, and what is refused.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, DecimalValue};

use crate::amqp::{Broker, blocking, shared, start, url};
use crate::faults::rig::{PATIENCE, pass, tolerate_stalls};
use harness::amqp::Rabbits;
use harness::publisher::{Publisher, text};
use harness::redis_server::ServerOptions;
use harness::redisson::redis_now_ms;
use harness::{Daemon, Delivery, RedisServer, eventually};

/// An input `late` from the queue `delay-in` back to the same broker; `input` has further keys.
pub(super) fn yaml(server: &RedisServer, rabbit: &Broker, input: &str) -> String {
    let url = url(rabbit);
    format!(
        "redis: {{ url: '{}' }}\n\
         sinks: {{ shop: {{ amqp: {{ url: '{url}', heartbeat: 2s, timeout: 5s }} }} }}\n\
         inputs: {{ late: {{ amqp: {{ url: '{url}', queue: delay-in, heartbeat: 2s }}, topic: late, \
         to: {{ sink: shop }}{input} }} }}\n",
        server.url()
    )
}

pub(super) async fn arrived(rabbit: &Broker, queue: &str, count: usize) -> Vec<Delivery> {
    let mut all = Vec::new();
    eventually(&format!("{count} messages in {queue}"), PATIENCE, async || {
        let mut rabbits = Rabbits::connect(&url(rabbit)).await?;
        all.extend(rabbits.take_all(queue).await?);
        if all.len() >= count { Ok(()) } else { Err(format!("{} are there", all.len())) }
    })
    .await;
    all
}

fn header<'a>(delivery: &'a Delivery, name: &str) -> Option<&'a str> {
    delivery.headers.get(name).map(|value| std::str::from_utf8(value).expect("text"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_message_comes_out_when_it_is_due_as_it_went_in() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let publisher = Publisher::connect(&url(&rabbit)).await.expect("connect");
    publisher.declare("delay-in", &["orders", "mails"]).await;
    let daemon = Daemon::start(&yaml(&server, &rabbit, "")).await;
    let mut redis = server.client().await;
    let before = redis_now_ms(&mut redis).await;
    let properties = || {
        BasicProperties::default()
            .with_message_id("order-4711".into())
            .with_content_type("application/json".into())
            .with_priority(5)
            .with_correlation_id("c-1".into())
    };
    let headers = [("x-delay", AMQPValue::LongInt(1500)), ("tenant", text("a")), ("n", AMQPValue::LongLongInt(7))];
    publisher.publish(("delayed", "orders"), properties(), &headers, r#"{"id":4711}"#).await.expect("publish");
    // The same message once more, as a publisher sends it that got no confirmation.
    publisher.publish(("delayed", "orders"), properties(), &headers, r#"{"id":4711}"#).await.expect("publish");
    // To another address than it has, and without a delay.
    let to = [("x-delay-to", text("mails"))];
    publisher.publish(("", "delay-in"), BasicProperties::default(), &to, "at once").await.expect("publish");
    let mails = arrived(&rabbit, "mails", 1).await;
    assert_eq!(mails[0].payload, b"at once");
    assert_eq!(header(&mails[0], "x-delay-to"), None);
    let orders = arrived(&rabbit, "orders", 1).await;
    let order = &orders[0];
    assert!(redis_now_ms(&mut redis).await >= before + 1500, "it is early");
    assert_eq!(order.payload, br#"{"id":4711}"#);
    assert_eq!((order.queue.as_deref(), order.id.as_deref()), (Some("late"), Some("late~order-4711")));
    assert!(order.due_ms.is_some_and(|due_ms| due_ms >= before + 1500), "{order:?}");
    assert_eq!(header(order, "tenant"), Some("a"));
    assert_eq!(header(order, "n"), Some("LongLongInt(7)"), "the type of a header is kept");
    assert_eq!(header(order, "x-delay"), None);
    assert_eq!(header(order, "delaybridge-message-id"), Some("order-4711"));
    for (name, value) in [("content_type", "application/json"), ("priority", "5"), ("correlation_id", "c-1")] {
        assert_eq!(header(order, &format!("property:{name}")), Some(value));
    }
    let metrics = daemon.metrics().await;
    let count =
        |result: &str| metrics.sum(&format!("delaybridge_input_messages_total{{input=\"late\",result=\"{result}\"}}"));
    assert_eq!((count("scheduled"), count("duplicate"), count("refused")), (2.0, 1.0, 0.0));
    pass(Duration::from_millis(300)).await;
    let mut rabbits = Rabbits::connect(&url(&rabbit)).await.expect("connect");
    assert_eq!(rabbits.take_all("orders").await.expect("look").len(), 0, "it was delivered twice");
    rabbits.emptied("delay-in").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_scheduled_is_a_dead_letter_of_the_broker() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let publisher = Publisher::connect(&url(&rabbit)).await.expect("connect");
    publisher.declare("delay-in", &["orders"]).await;
    let mut daemon = Daemon::start(&yaml(&server, &rabbit, ", max_delay: 60d")).await;
    daemon.expect_log("input refused a message");
    let plain = BasicProperties::default;
    for (headers, body) in [
        (vec![("x-delay", AMQPValue::LongInt(-1)), ("x-delay-to", text("orders"))], "negative"),
        (vec![("x-delay", text("soon")), ("x-delay-to", text("orders"))], "no number"),
        (vec![("x-delay", AMQPValue::LongLongInt(60 * 86_400_000 + 1)), ("x-delay-to", text("orders"))], "too long"),
        (vec![("x-delay", AMQPValue::LongInt(10))], "a loop"),
        (vec![("x-delay-to", text("delay-in"))], "another loop"),
    ] {
        publisher.publish(("", "delay-in"), plain(), &headers, body).await.expect("publish");
    }
    let large = "x".repeat((1 << 20) + 1);
    publisher.publish(("delayed", "orders"), plain(), &[], &large).await.expect("publish");
    // Beyond the 49 days of the plugin.
    let days = [("x-delay", AMQPValue::LongLongInt(50 * 86_400_000))];
    publisher.publish(("delayed", "orders"), plain(), &days, "50 days").await.expect("publish");
    publisher.publish(("delayed", "orders"), plain(), &[], "now").await.expect("publish");
    let refused = arrived(&rabbit, "refused", 6).await;
    let mut bodies: Vec<_> = refused.iter().map(|letter| String::from_utf8_lossy(&letter.payload)).collect();
    bodies.sort_by_key(|body| body.len());
    assert_eq!(bodies[..5], ["a loop", "negative", "too long", "no number", "another loop"]);
    assert_eq!(bodies[5].len(), large.len());
    assert_eq!(arrived(&rabbit, "orders", 1).await[0].payload, b"now");
    eventually("two scheduled and six refused messages", PATIENCE, async || {
        let metrics = daemon.metrics().await;
        let count =
            |result| metrics.sum(&format!("delaybridge_input_messages_total{{input=\"late\",result=\"{result}\"}}"));
        let counted = (count("scheduled"), count("refused"));
        if counted == (2.0, 6.0) { Ok(()) } else { Err(format!("{counted:?}")) }
    })
    .await;
}

/// Decimal numbers and timestamps are types of their own, which clients of other languages write.
#[tokio::test(flavor = "multi_thread")]
async fn a_decimal_number_is_a_delay_and_a_timestamp_a_due_time_in_seconds() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let publisher = Publisher::connect(&url(&rabbit)).await.expect("connect");
    publisher.declare("delay-in", &["orders"]).await;
    let mut daemon = Daemon::start(&yaml(&server, &rabbit, "")).await;
    daemon.expect_log("input refused a message");
    let mut redis = server.client().await;
    let before = redis_now_ms(&mut redis).await;
    let decimal = AMQPValue::DecimalValue(DecimalValue { scale: 1, value: 10_001 });
    let due_s = u64::try_from(before / 1000 + 2).expect("after 1970");
    for (header, value, body) in [
        ("x-delay", decimal, "decimal"),
        ("x-due", AMQPValue::Timestamp(due_s), "timestamp"),
        ("x-delay", AMQPValue::Timestamp(due_s), "no delay"),
    ] {
        let headers = [(header, value)];
        publisher.publish(("delayed", "orders"), BasicProperties::default(), &headers, body).await.expect("publish");
    }
    let mut orders = arrived(&rabbit, "orders", 2).await;
    let after = redis_now_ms(&mut redis).await;
    orders.sort_by_key(|order| order.payload.len());
    let due = |order: &Delivery| order.due_ms.expect("a due time");
    assert_eq!(orders[0].payload, b"decimal");
    assert!((before + 1001..after).contains(&due(&orders[0])), "{before}: {:?}", orders[0]);
    assert_eq!((&orders[1].payload[..], due(&orders[1])), (&b"timestamp"[..], i64::try_from(due_s).expect("s") * 1000));
    assert_eq!(arrived(&rabbit, "refused", 1).await[0].payload, b"no delay");
    let log = daemon.log().all().join("\n");
    assert!(log.contains("`x-delay` is a point in time: write it as `x-due`"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_message_stays_in_a_queue_that_would_drop_it() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let rabbits = Rabbits::connect(&url(&rabbit)).await.expect("connect");
    let ttl = harness::publisher::table(&[("x-message-ttl", AMQPValue::LongInt(600_000))]);
    rabbits.declare_queue("delay-in", ttl).await;
    rabbits.declare_queue("orders", Default::default()).await;
    let publisher = Publisher::connect(&url(&rabbit)).await.expect("connect");
    let mut daemon = Daemon::start(&yaml(&server, &rabbit, "")).await;
    daemon.expect_log("input refused a message").expect_log("input holds refused messages");
    let bad = [("x-delay", AMQPValue::LongInt(-1)), ("x-delay-to", text("orders"))];
    publisher.publish(("", "delay-in"), BasicProperties::default(), &bad, "bad").await.expect("publish");
    let good = [("x-delay-to", text("orders"))];
    publisher.publish(("", "delay-in"), BasicProperties::default(), &good, "good").await.expect("publish");
    assert_eq!(arrived(&rabbit, "orders", 1).await[0].payload, b"good");
    let ready = eventually("the probe to name the held message", PATIENCE, async || {
        let text = daemon.get("/readyz").await?.body;
        if text.contains("1 refused messages are held") { Ok(text) } else { Err(text) }
    })
    .await;
    assert!(ready.contains("x-dead-letter-exchange"), "{ready}");
    daemon.stop().await;
    let mut rabbits = Rabbits::connect(&url(&rabbit)).await.expect("connect");
    assert_eq!(rabbits.take_all("delay-in").await.expect("look").len(), 1, "the refused message is gone");
}

/// The messages that have arrived: body, time and attempt.
type Seen = Arc<Mutex<Vec<(String, i64, u32)>>>;

/// Takes what arrives in `orders`, and notes when: the time of Redis is that of this machine.
async fn read_orders(url: String, redis: redis::aio::MultiplexedConnection, seen: Seen) {
    loop {
        // The broker is killed meanwhile; what was not acknowledged comes again.
        let _ended = consume_orders(&url, redis.clone(), &seen).await;
        pass(Duration::from_millis(50)).await;
    }
}

async fn consume_orders(url: &str, mut redis: redis::aio::MultiplexedConnection, seen: &Seen) -> lapin::Result<()> {
    let connection = lapin::Connection::connect(url, Default::default()).await?;
    let channel = connection.create_channel().await?;
    channel.basic_qos(500, Default::default()).await?;
    let mut consumer =
        channel.basic_consume("orders".into(), "".into(), Default::default(), Default::default()).await?;
    while let Some(first) = consumer.next().await {
        let mut batch = vec![first?];
        while batch.len() < 500
            && let Some(Some(next)) = consumer.next().now_or_never()
        {
            batch.push(next?);
        }
        // Later than each delivery, and not by much: what is early here was early.
        let now = redis_now_ms(&mut redis).await;
        for message in batch {
            let attempt = match message.properties.headers().as_ref().map(|headers| headers.inner()) {
                Some(headers) => match headers.get("delaybridge-attempt") {
                    Some(AMQPValue::LongString(text)) => text.to_string().parse().expect("a number"),
                    other => panic!("the attempt is {other:?}"),
                },
                None => panic!("a message without headers"),
            };
            let body = String::from_utf8(message.data.clone()).expect("text");
            seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((body, now, attempt));
            message.acker.ack(Default::default()).await?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_daemons_a_killed_broker_and_a_redis_that_is_away_lose_no_message() {
    let count: usize = if std::env::var_os("DELAYBRIDGE_LONG").is_some() { 100_000 } else { 10_000 };
    let mut server = RedisServer::start_with(ServerOptions::default().append_only()).await;
    let rabbit = start();
    let publisher = Publisher::connect(&url(&rabbit)).await.expect("connect");
    publisher.declare("delay-in", &["orders"]).await;
    let yaml = yaml(&server, &rabbit, "");
    let start_daemon = async || {
        let mut daemon = Daemon::spawn(&yaml);
        tolerate_stalls(&mut daemon);
        daemon.expect_log("input down").expect_log("input waits").expect_log("queue on hold").expect_log("topic");
        daemon.expect_log("sink blocked").expect_log("destination in trouble");
        daemon
    };
    let mut daemon = start_daemon().await;
    let seen = Seen::default();
    let clock = RedisServer::start().await;
    let reader = tokio::spawn(read_orders(url(&rabbit), clock.client().await, seen.clone()));
    let mut now = clock.client().await;
    let mut offered = HashMap::new();
    let mut publisher = Some(publisher);
    for round in 0..10 {
        let names: Vec<_> = (0..count / 10).map(|n| format!("m-{round}-{n}")).collect();
        for names in names.chunks(50) {
            // Before they are published: they cannot be due earlier.
            let now_ms = redis_now_ms(&mut now).await;
            let mut open: Vec<_> = names.iter().map(|name| (name.as_str(), fastrand::i32(0..4_000))).collect();
            offered.extend(open.iter().map(|(name, delay)| ((*name).to_owned(), now_ms + i64::from(*delay))));
            while !open.is_empty() {
                let Some(connected) = &publisher else {
                    pass(Duration::from_millis(200)).await;
                    publisher = Publisher::connect(&url(&rabbit)).await.ok();
                    continue;
                };
                let sent = open.iter().map(async |(name, delay)| {
                    let properties = BasicProperties::default().with_message_id((*name).into());
                    let headers = [("x-delay", AMQPValue::LongInt(*delay))];
                    connected.publish(("delayed", "orders"), properties, &headers, name).await.is_ok()
                });
                let mut confirmed = futures_util::future::join_all(sent).await.into_iter();
                open.retain(|_| !confirmed.next().unwrap_or(false));
                if !open.is_empty() {
                    publisher = None;
                }
            }
        }
        match round {
            1 | 5 | 7 => {
                daemon.kill();
                daemon = start_daemon().await;
            }
            3 => blocking(|| {
                rabbit.kill();
                rabbit.restart()
            })
            .expect("restart RabbitMQ"),
            4 => {
                server.pause();
                pass(Duration::from_secs(4)).await;
                server.resume();
            }
            6 => {
                server.kill();
                pass(Duration::from_secs(2)).await;
                server.restart().await;
            }
            _ => {}
        }
    }
    let noted = || seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    eventually("every message to arrive", 3 * PATIENCE, async || {
        let there: std::collections::HashSet<_> = noted().into_iter().map(|(name, ..)| name).collect();
        if there.len() == count { Ok(()) } else { Err(format!("{} of {count}", there.len())) }
    })
    .await;
    reader.abort();
    let all = noted();
    let early = all.iter().filter(|(name, at, _)| *at < offered[name]).count();
    let announced = all.iter().filter(|(.., attempt)| *attempt > 1).count();
    println!("{count} messages: 0 lost, {early} early, {} twice, {announced} announced", all.len() - count);
    assert_eq!(early, 0);
}
