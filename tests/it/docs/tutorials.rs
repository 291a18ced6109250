//! The tutorials with a broker, as their reader follows them. The test offers the bytes of the service in `examples/orders`, which
//! `make test-clients` compiles.

use std::collections::BTreeSet;
use std::time::Duration;

use brokers::KafkaOptions;
use lapin::BasicProperties;
use lapin::types::AMQPValue;

use super::walk::{KAFKA, RABBIT, Walk};
use crate::delivery::PATIENCE;
use harness::amqp::Rabbits;
use harness::kafka::read_topic;
use harness::publisher::Publisher;
use harness::redisson::{Element, redis_now_ms};
use harness::{RedissonQueue, eventually};

/// `new Order(number, "unpaid")`, as Redisson 3.52.0 with its default codec has written it for the service.
fn order(number: usize) -> Vec<u8> {
    // Kryo writes 1 to 63 in one byte.
    let id = u8::try_from(1 + number % 60).expect("a small number") * 2;
    [b"\x01\x00shop.Orde\xf2", &[id][..], b"unpai\xe4"].concat()
}

/// Offers orders that fall due from this time on, one each 20 ms, as the service does; returns their ids.
async fn offer(walk: &Walk, count: usize, delay: Duration) -> BTreeSet<String> {
    let mut redis = walk.server.client().await;
    let queue = RedissonQueue::new("order:timeout");
    let first = redis_now_ms(&mut redis).await + i64::try_from(delay.as_millis()).expect("a short time");
    let due = |number: usize| first + 20 * i64::try_from(number).expect("a small number");
    let orders: Vec<_> = (0..count).map(|number| Element::new(queue.layout, due(number), order(number))).collect();
    queue.offer_bulk(&mut redis, &orders).await;
    orders.iter().map(Element::id_text).collect()
}

/// Numbers of scheduled orders.
async fn scheduled(walk: &Walk) -> usize {
    let timeouts = RedissonQueue::new("order:timeout").timeouts;
    redis::cmd("ZCARD").arg(timeouts).query_async(&mut walk.server.client().await).await.expect("ask Redis")
}

const HOUR: Duration = Duration::from_secs(3600);
/// The line of `discover` that the pages show.
const FOUND: &str = "    codec: kryo5   # likely: it reads all 3 sampled payloads\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tutorial_with_rabbitmq_loses_no_order_to_a_crash() {
    let rabbit = crate::amqp::start();
    let mut broker = Rabbits::connect(&crate::amqp::url(&rabbit)).await.expect("connect to RabbitMQ");
    broker.declare("shop", Some("orders.due"), "order.due").await;
    let address = format!("127.0.0.1:{}", rabbit.port());
    let mut walk = Walk::with("docs/tutorials/redisson-team.md", &[(RABBIT, address)]).await;
    offer(&walk, 3, HOUR).await;
    let found = walk.until("delaybridge discover");
    assert!(found.contains(FOUND) && found.contains("only Java reads objects of shop.Order:"), "{found}");
    assert!(!walk.until("delaybridge check --live").contains("FAILED"));
    let shown = walk.until("delaybridge peek");
    assert!(shown.contains(r#"{"orderId":1,"state":"unpaid"}"#), "{shown}");
    assert!(shown.contains("shop: exchange shop, routing key order.due"), "{shown}");
    assert!(broker.take_all("orders.due").await.expect("read the queue").is_empty(), "shadow sends nothing");

    walk.until("delaybridge run");
    offer(&walk, 1, Duration::from_secs(1)).await;
    let mut first = Vec::new();
    eventually("the first order", PATIENCE, async || {
        first.extend(broker.take_all("orders.due").await?);
        if first.is_empty() { Err("none".to_owned()) } else { Ok(()) }
    })
    .await;
    assert_eq!(first[0].payload, br#"{"orderId":1,"state":"unpaid"}"#);
    let shown = walk.until("delaybridge queues");
    assert!(shown.lines().any(|line| line.starts_with("order_timeout") && line.contains(" 3 ")), "{shown}");

    let ids = offer(&walk, 300, Duration::from_secs(1)).await;
    let mut arrived = BTreeSet::new();
    eventually("some orders", PATIENCE, async || {
        arrived.extend(broker.take_all("orders.due").await?.into_iter().filter_map(|order| order.id));
        if arrived.is_empty() { Err("none".to_owned()) } else { Ok(()) }
    })
    .await;
    walk.kill().await;
    walk.until("delaybridge run");
    eventually("every order", PATIENCE, async || {
        arrived.extend(broker.take_all("orders.due").await?.into_iter().filter_map(|order| order.id));
        if arrived == ids { Ok(()) } else { Err(format!("{} of {}", arrived.len(), ids.len())) }
    })
    .await;

    walk.stop().await;
    // It refuses while the lease of the killed daemon runs.
    walk.until_done("delaybridge restore order_timeout --apply").await;
    // What the killed daemon had sent, and not yet removed, comes back too.
    let scheduled = scheduled(&walk).await;
    assert!((3..=303).contains(&scheduled), "{scheduled}");
    walk.ends().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tutorial_with_kafka_loses_no_order_to_a_crash() {
    let kafka = crate::kafka::start(KafkaOptions::default());
    for topic in ["orders.due", "orders.dead"] {
        crate::kafka::blocking(|| kafka.create_topic(topic, 1, &[])).expect("create a topic");
    }
    let bootstrap = kafka.bootstrap();
    let mut walk = Walk::with("docs/tutorials/kafka-team.md", &[(KAFKA, bootstrap.clone())]).await;
    offer(&walk, 3, HOUR).await;
    assert!(walk.until("delaybridge discover").contains(FOUND));
    assert!(walk.until("delaybridge test").contains("3 cases, all as expected"));
    assert!(!walk.until("delaybridge check --live").contains("FAILED"));
    assert!(walk.until("delaybridge peek").contains("events: topic orders.due"));

    walk.until("delaybridge run");
    offer(&walk, 1, Duration::from_secs(1)).await;
    let record = walk.until("kcat");
    assert!(record.starts_with(r#"1 | {"orderId":1,"state":"unpaid"} | delaybridge-id="#), "{record}");
    assert!(record.contains("delaybridge-attempt=1") && record.contains("state=unpaid"), "{record}");

    let ids = offer(&walk, 300, Duration::from_secs(1)).await;
    let arrived = async || -> Result<BTreeSet<String>, String> {
        Ok(read_topic(&bootstrap, "orders.due").await?.into_iter().filter_map(|order| order.id).collect())
    };
    eventually("some orders", PATIENCE, async || {
        if arrived().await?.is_disjoint(&ids) { Err("none".to_owned()) } else { Ok(()) }
    })
    .await;
    walk.kill().await;
    walk.until("delaybridge run");
    eventually("every order", PATIENCE, async || {
        let missing = ids.difference(&arrived().await?).count();
        if missing == 0 { Ok(()) } else { Err(format!("{missing} are missing")) }
    })
    .await;

    let dead = walk.until("kcat");
    assert!(dead.starts_with("call back | ") && dead.contains("undecodable"), "{dead}");
    walk.stop().await;
    // It refuses while the lease of the killed daemon runs.
    walk.until_done("delaybridge restore order_timeout --apply").await;
    // What the killed daemon had sent, and not yet removed, comes back too.
    let scheduled = scheduled(&walk).await;
    assert!((3..=303).contains(&scheduled), "{scheduled}");
    walk.ends().await;
}

/// Publishes a message as the program of the page does.
async fn publish(publisher: &Publisher, id: &str, delay: Duration) {
    let delay = AMQPValue::LongLongInt(i64::try_from(delay.as_millis()).expect("a short time"));
    let properties = BasicProperties::default().with_message_id(id.into());
    publisher.publish(("delayed", "orders"), properties, &[("x-delay", delay)], id).await.expect("publish");
}

/// Waits for the next message in `orders`, which must be this one.
async fn arrives(broker: &mut Rabbits, id: &str) {
    let taken =
        eventually("a message", PATIENCE, async || broker.take_all("orders").await?.pop().ok_or("none".to_owned()))
            .await;
    assert_eq!(taken.payload, id.as_bytes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tutorial_about_delayed_messages_delivers_moves_and_cancels_them() {
    let rabbit = crate::amqp::start();
    let url = crate::amqp::url(&rabbit);
    let publisher = Publisher::connect(&url).await.expect("connect to RabbitMQ");
    publisher.declare("delay-in", &["orders"]).await;
    let mut broker = Rabbits::connect(&url).await.expect("connect to RabbitMQ");
    let address = format!("127.0.0.1:{}", rabbit.port());
    let mut walk = Walk::with("docs/tutorials/delayed-messages.md", &[(RABBIT, address)]).await;
    assert!(!walk.until("delaybridge check --live").contains("FAILED"));
    walk.until("delaybridge run");
    publish(&publisher, "order-1", Duration::from_secs(1)).await;
    arrives(&mut broker, "order-1").await;

    publish(&publisher, "order-2", Duration::from_secs(5)).await;
    broker.emptied("delay-in").await;
    walk.kill().await;
    walk.until("delaybridge run");
    arrives(&mut broker, "order-2").await;

    publish(&publisher, "order-3", HOUR).await;
    publish(&publisher, "order-4", HOUR).await;
    walk.until_shown("delaybridge peek", "late~order-4").await;
    walk.until("delaybridge reschedule");
    arrives(&mut broker, "order-3").await;
    walk.until("delaybridge cancel");
    let shown = walk.until("delaybridge queues");
    assert!(shown.lines().any(|line| line.starts_with("late") && line.contains(" 0 ")), "{shown}");
    walk.stop().await;
    walk.ends().await;
}
