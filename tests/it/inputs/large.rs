//! Messages near the limit of their size: what a daemon holds in memory is bounded by bytes, not only by count.

use lapin::BasicProperties;
use lapin::types::AMQPValue;

use crate::amqp::{start, url};
use crate::faults::rig::{PATIENCE, tolerate_stalls};
use harness::amqp::Rabbits;
use harness::publisher::Publisher;
use harness::{Daemon, RedisServer, eventually};

const MIB: u64 = 1 << 20;
/// Messages of 4 MiB.
const COUNT: usize = 80;

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_for_large_messages_is_bounded_while_redis_does_not_answer() {
    let mut server = RedisServer::start().await;
    let rabbit = start();
    let url = url(&rabbit);
    let publisher = Publisher::connect(&url).await.expect("connect");
    publisher.declare("delay-in", &["orders"]).await;
    let yaml = format!(
        "redis: {{ url: '{}' }}\n\
         sinks: {{ shop: {{ amqp: {{ url: '{url}' }} }} }}\n\
         jobs: {{ topics: {{ late: {{ max_body: 4MiB }} }} }}\n\
         inputs: {{ late: {{ amqp: {{ url: '{url}', queue: delay-in, prefetch: 500, prefetch_bytes: 16MiB }}, \
         topic: late, to: {{ sink: shop }} }} }}\n",
        server.url()
    );
    let mut daemon = Daemon::start(&yaml).await;
    let idle = daemon.usage().peak / MIB;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("input waits").expect_log("topic").expect_log("queue on hold");
    server.pause();
    let body = "x".repeat(4 * MIB as usize - 1_000);
    for n in 0..COUNT {
        let headers = [("x-delay", AMQPValue::LongInt(3_600_000))];
        let properties = BasicProperties::default().with_message_id(format!("m-{n}").into());
        publisher.publish(("delayed", "orders"), properties, &headers, &body).await.expect("publish");
    }
    // What the broker has given away is all that a window allows.
    eventually("messages in hand", PATIENCE, async || {
        let ready = Rabbits::connect(&url).await?.count("delay-in").await as usize;
        if ready < COUNT { Ok(()) } else { Err(format!("{ready} wait")) }
    })
    .await;
    eventually("the input to wait for Redis", PATIENCE, async || {
        let body = daemon.get("/readyz").await?.body;
        if body.contains("add jobs to topic late") { Ok(()) } else { Err(body) }
    })
    .await;
    let waiting = Rabbits::connect(&url).await.expect("connect").count("delay-in").await as usize;
    let held = daemon.usage().peak / MIB;
    server.resume();
    eventually("every message", PATIENCE, async || {
        // Redis may have run a call whose answer was given up: its message is known when the call is made again.
        let metrics = daemon.metrics().await;
        let count =
            |result| metrics.sum(&format!("delaybridge_input_messages_total{{input=\"late\",result=\"{result}\"}}"));
        let all = count("scheduled") + count("duplicate");
        if all == COUNT as f64 { Ok(()) } else { Err(format!("{all}")) }
    })
    .await;
    let peak = daemon.usage().peak / MIB;
    println!(
        "{} of {COUNT} in hand without Redis: {held} MiB, idle {idle}; with Redis at most {peak} MiB",
        COUNT - waiting
    );
    assert!(COUNT - waiting <= 5, "{} messages of 4 MiB are in hand", COUNT - waiting);
    assert!(held < idle + 80 && peak < idle + 160, "{idle}, {held} and {peak} MiB");
    Rabbits::connect(&url).await.expect("connect").emptied("delay-in").await;
}
