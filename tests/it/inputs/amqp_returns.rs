//! Messages that come back to the queue of an input: what a broker counts, and what goes in circles.

use std::time::{Duration, Instant};

use lapin::BasicProperties;
use lapin::types::AMQPValue;

use super::amqp::{arrived, yaml};
use crate::amqp::{Broker, blocking, shared, start, url};
use crate::faults::rig::{PATIENCE, metric, pass, readyz};
use harness::amqp::Rabbits;
use harness::ports::free_port;
use harness::publisher::{Publisher, table, text};
use harness::{Daemon, RedisServer, ServerOptions, eventually, http};

const REFUSED: &str = "delaybridge_input_messages_total{input=\"late\",result=\"refused\"}";

/// Publishes a message with this delay, to be delivered to `orders`.
async fn publish(publisher: &Publisher, id: &str, delay: AMQPValue) {
    let headers = [("x-delay", delay), ("x-delay-to", text("orders"))];
    let properties = BasicProperties::default().with_message_id(id.into());
    publisher.publish(("", "delay-in"), properties, &headers, id).await.expect("publish");
}

async fn logged(daemon: &Daemon, words: &str) {
    eventually(words, PATIENCE, async || {
        let log = daemon.log().all().join("\n");
        if log.contains(words) { Ok(()) } else { Err(log) }
    })
    .await;
}

async fn count(rabbit: &Broker, queue: &str) -> u32 {
    Rabbits::connect(&url(rabbit)).await.expect("connect").count(queue).await
}

/// A broker counts each message that was handed out and came back, whoever is to blame, and drops it above the limit.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_redis_does_not_use_up_the_delivery_limit_of_a_quorum_queue() {
    let mut server = RedisServer::start_with(ServerOptions::default().append_only()).await;
    let rabbit = start();
    let publisher = Publisher::connect(&url(&rabbit)).await.expect("connect");
    let quorum = [("x-queue-type", text("quorum")), ("x-delivery-limit", AMQPValue::LongInt(3))];
    publisher.declare_with("delay-in", &quorum, &["orders"]).await;
    let yaml = yaml(&server, &rabbit, "");
    let spawn = || {
        let mut daemon = Daemon::spawn(&yaml);
        for line in ["input waits", "input down", "redis", "queue", "topic", "sink", "destination"] {
            daemon.expect_log(line);
        }
        daemon
    };
    let mut daemon = spawn();
    daemon.wait_ready().await;
    publish(&publisher, "first", AMQPValue::LongInt(10)).await;
    arrived(&rabbit, "orders", 1).await;
    server.kill();
    for n in 0..50 {
        publish(&publisher, &format!("m-{n}"), AMQPValue::LongInt(10)).await;
    }
    for round in 0..6 {
        // After this line, whatever the input takes it has.
        eventually("the input to wait", PATIENCE, async || {
            assert_eq!(count(&rabbit, "refused").await, 0, "dead letters of the broker in round {round}");
            let log = daemon.log().all().join("\n");
            if log.contains("input waits") { Ok(()) } else { Err(log) }
        })
        .await;
        if round % 2 == 0 {
            daemon.kill();
        } else {
            daemon.stop().await;
        }
        daemon = spawn();
    }
    logged(&daemon, "input waits").await;
    // A connection that is lost meanwhile changes nothing.
    blocking(|| rabbit.close_all_connections("test")).expect("close connections");
    server.restart().await;
    let all = arrived(&rabbit, "orders", 50).await;
    let names: std::collections::HashSet<_> = all.iter().map(|delivery| delivery.payload.clone()).collect();
    assert_eq!(names.len(), 50, "{} messages", all.len());
    assert_eq!((count(&rabbit, "delay-in").await, count(&rabbit, "refused").await), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_message_that_comes_back_is_rejected_once_in_a_second_and_the_probe_names_the_loop() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let rabbits = Rabbits::connect(&url(&rabbit)).await.expect("connect");
    let itself = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("delay-in"))];
    rabbits.declare_queue("delay-in", table(&itself)).await;
    rabbits.declare_queue("orders", Default::default()).await;
    let publisher = Publisher::connect(&url(&rabbit)).await.expect("connect");
    let mut daemon = Daemon::start(&yaml(&server, &rabbit, "")).await;
    daemon.expect_log("input refused a message").expect_log("refused messages come back");
    let published = Instant::now();
    publish(&publisher, "bad", AMQPValue::LongInt(-1)).await;
    let ready = readyz(&daemon, 200, "come back to it").await;
    assert!(ready.contains("rejected messages of queue delay-in come back to it"), "{ready}");
    let before = daemon.metric(REFUSED).await;
    let began = Instant::now();
    // Ten rounds at once, then one in a second.
    assert!(before <= 12.0 + published.elapsed().as_secs_f64(), "{before} refusals");
    // The rate is the rule.
    pass(Duration::from_secs(3)).await;
    let after = daemon.metric(REFUSED).await;
    let most = began.elapsed().as_secs_f64() + 2.0;
    assert!((1.0..=most).contains(&(after - before)), "{before} and {after} refusals, at most {most} more");
    publish(&publisher, "good", AMQPValue::LongInt(10)).await;
    assert_eq!(arrived(&rabbit, "orders", 1).await[0].payload, b"good");
    // It is still there, and when it is not the probe says so.
    drop(daemon);
    let mut rabbits = Rabbits::connect(&url(&rabbit)).await.expect("connect");
    eventually("the message in the queue", PATIENCE, async || match rabbits.take_all("delay-in").await?.len() {
        1 => Ok(()),
        other => Err(format!("{other} messages")),
    })
    .await;
}

/// A message that the broker would drop is not rejected. The broker takes it back after `consumer_timeout`, and hands it out again.
#[tokio::test(flavor = "multi_thread")]
async fn a_held_message_is_counted_once_and_leaves_room_for_others() {
    let server = RedisServer::start().await;
    let rabbit = start();
    let times = "[application:set_env(rabbit, Name, 3000) || Name <- [consumer_timeout, channel_tick_interval]]";
    blocking(|| rabbit.eval(times)).expect("a time-out");
    let rabbits = Rabbits::connect(&url(&rabbit)).await.expect("connect");
    rabbits.declare_queue("delay-in", table(&[("x-queue-type", text("quorum"))])).await;
    rabbits.declare_queue("orders", Default::default()).await;
    let publisher = Publisher::connect(&url(&rabbit)).await.expect("connect");
    let yaml = yaml(&server, &rabbit, "").replace("queue: delay-in", "queue: delay-in, prefetch: 4");
    let mut daemon = Daemon::start(&yaml).await;
    for line in ["input refused a message", "input holds refused messages", "input down"] {
        daemon.expect_log(line);
    }
    for n in 0..10 {
        publish(&publisher, &format!("bad-{n}"), AMQPValue::LongInt(-1)).await;
    }
    publish(&publisher, "good", AMQPValue::LongInt(10)).await;
    assert_eq!(arrived(&rabbit, "orders", 1).await[0].payload, b"good");
    readyz(&daemon, 200, "10 refused messages are held").await;
    logged(&daemon, "PRECONDITION_FAILED").await;
    publish(&publisher, "later", AMQPValue::LongInt(10)).await;
    assert_eq!(arrived(&rabbit, "orders", 1).await[0].payload, b"later");
    readyz(&daemon, 200, "10 refused messages are held").await;
    assert_eq!(daemon.metric(REFUSED).await, 10.0);
    daemon.stop().await;
    // A quorum queue takes back what was in hand when it has noticed the end of the channel.
    eventually("all of them in the queue", PATIENCE, async || match count(&rabbit, "delay-in").await {
        10 => Ok(()),
        other => Err(format!("{other} messages")),
    })
    .await;
}

/// A consumer that names no offset gets what is published after it began.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_refused_with_the_reason() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let rabbits = Rabbits::connect(&url(&rabbit)).await.expect("connect");
    rabbits.declare_queue("delay-in", table(&[("x-queue-type", text("stream"))])).await;
    let publisher = Publisher::connect(&url(&rabbit)).await.expect("connect");
    let mut daemon = Daemon::spawn(&yaml(&server, &rabbit, ""));
    daemon.expect_log("input down");
    publish(&publisher, "m-1", AMQPValue::LongInt(10)).await;
    let ready = readyz(&daemon, 503, "it is a stream").await;
    assert!(ready.contains("consume queue delay-in: it is a stream"), "{ready}");
    assert_eq!(daemon.metric("delaybridge_input_messages_total").await, 0.0);
}

/// The broker hands out again what it has seen no acknowledgement of, also what was cancelled meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_message_stays_cancelled_and_a_new_one_with_its_id_is_scheduled() {
    let server = RedisServer::start().await;
    let rabbit = shared();
    let publisher = Publisher::connect(&url(&rabbit)).await.expect("connect");
    publisher.declare("delay-in", &["orders"]).await;
    let page = free_port();
    let jobs = free_port();
    let yaml = format!("{}jobs: {{ listen: '127.0.0.1:{jobs}' }}\n", yaml(&server, &rabbit, ""));
    let start = async || Daemon::start_for_operators_at(&format!("127.0.0.1:{page}"), &yaml).await;
    let counted = async |daemon: &Daemon, result: &str, expected: f64| {
        let selector = format!("delaybridge_input_messages_total{{input=\"late\",result=\"{result}\"}}");
        metric(daemon, &selector, |count| count == expected).await;
    };
    let hour = || AMQPValue::LongInt(3_600_000);
    let mut daemon = start().await;
    publish(&publisher, "by-command", hour()).await;
    publish(&publisher, "by-api", hour()).await;
    publish(&publisher, "used-again", hour()).await;
    counted(&daemon, "scheduled", 3.0).await;
    for id in ["late~by-command", "late~used-again"] {
        let output = daemon.beside(&["cancel", "late", id]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let path = "/v1/jobs/late~by-api";
    let answer = http::send(jobs, "DELETE", path, &[], b"", Duration::from_secs(10)).await.expect("an answer");
    assert_eq!(answer.status, 204);
    daemon.stop().await;
    // The same messages, as a broker has them that has seen no acknowledgement; and another one with the id of one.
    for name in ["by-command", "by-api"] {
        publish(&publisher, name, hour()).await;
    }
    let other = BasicProperties::default().with_message_id("used-again".into());
    let headers = [("x-delay", hour()), ("x-delay-to", text("orders"))];
    publisher.publish(("", "delay-in"), other, &headers, "another one").await.expect("publish");
    assert_eq!(publisher.hand_out("delay-in").await, 3);
    let mut daemon = start().await;
    counted(&daemon, "duplicate", 2.0).await;
    counted(&daemon, "scheduled", 1.0).await;
    for name in ["by-command", "by-api", "used-again"] {
        publish(&publisher, name, AMQPValue::LongInt(10)).await;
    }
    let mut orders: Vec<_> = arrived(&rabbit, "orders", 3).await.into_iter().map(|order| order.payload).collect();
    orders.sort();
    // Also one whose id another one has by now.
    assert_eq!(orders, [b"by-api".to_vec(), b"by-command".to_vec(), b"used-again".to_vec()]);
    daemon.stop().await;
}
