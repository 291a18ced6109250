//! One broker of two is dead: what it leads waits, and nothing else does.

use super::*;
use crate::faults::rig::{metric, readyz, tolerate_stalls};
use crate::harness::redisson::{Element, redis_now_ms};
use crate::harness::turn::heavy;
use brokers::kafka::NewTopic;

const LATENESS: &str = "delaybridge_delivery_lateness_seconds_bucket{queue=\"q\",sink=\"out\",le=";
/// Upper bounds of the buckets in seconds, as the metric writes them.
const BOUNDS: [&str; 10] = ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5"];

/// How many elements were delivered within each bound.
async fn within(daemon: &Daemon) -> Vec<f64> {
    let metrics = daemon.metrics().await;
    let bound = |bound: &str| metrics.sum(&format!("{LATENESS}\"{bound}\"}}"));
    BOUNDS.iter().copied().chain(["+Inf"]).map(bound).collect()
}

/// The bounds below which half and 99 % of the deliveries between two looks were.
fn quantiles(before: &[f64], after: &[f64]) -> (f64, f64) {
    let counts: Vec<f64> = before.iter().zip(after).map(|(before, after)| after - before).collect();
    let all = counts[counts.len() - 1];
    let bound = |share: f64| {
        let at = counts.iter().position(|count| *count >= all * share).unwrap_or(BOUNDS.len());
        BOUNDS.get(at).map_or(f64::INFINITY, |bound| bound.parse().expect("a number"))
    };
    (bound(0.5), bound(0.99))
}

/// A topic that this node leads alone.
fn led_by(kafka: &Kafka, node: i32) -> String {
    let leads = |topic: &String| {
        let partitions = kafka.partitions(topic).expect("look the topic up").expect("it was made");
        partitions.iter().all(|partition| partition.leader == node)
    };
    (0..8).map(|n| format!("t{n}")).find(leads).unwrap_or_else(|| panic!("node {node} leads none of the topics"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_broker_of_two_holds_what_it_leads_and_delays_nothing_else() {
    let _turn = heavy().await;
    let (each, outage) = if long() { (100, Duration::from_secs(600)) } else { (10, Duration::from_secs(30)) };
    let server = RedisServer::start().await;
    let kafka = start(KafkaOptions { nodes: 2, ..KafkaOptions::default() });
    let names: Vec<String> = (0..8).map(|n| format!("t{n}")).collect();
    let new = |name| NewTopic { name, partitions: 1, replication: 1, configs: &[] };
    let topics: Vec<NewTopic<'_>> = names.iter().map(|name| new(name.as_str())).collect();
    blocking(|| kafka.create_topics(&topics)).expect("create the topics");
    let (alive, dead) = blocking(|| (led_by(&kafka, 1), led_by(&kafka, 2)));
    let bootstrap = kafka.bootstrap();
    let yaml = format!(
        "redis: {{ url: '{}' }}\n\
         retry: {{ strict: {{ max_attempts: 3, initial_interval: 10ms, max_interval: 100ms }} }}\n\
         sinks: {{ out: {{ kafka: {{ brokers: ['{bootstrap}'], timeout: 2s }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, codec: json, retry: strict, lease: 20s, \
         to: [{{ sink: out, topic: '${{payload.topic}}' }}] }} }}\n",
        server.url()
    );
    let mut daemon = Daemon::start(&yaml).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("destination in trouble");
    let (mut redis, queue) = (server.client().await, RedissonQueue::new("q"));
    let (mut of_alive, mut of_dead, mut n) = (Oracle::new(), Oracle::new(), 0);
    let mut flow = async |time: Duration, of_alive: &mut Oracle, of_dead: &mut Oracle| {
        let mut ticks = tokio::time::interval(Duration::from_millis(100));
        for _ in 0..time.as_millis() / 100 {
            ticks.tick().await;
            let now = redis_now_ms(&mut redis).await;
            let mut elements = |topic: &str| -> Vec<Element> {
                let element = |_| {
                    n += 1;
                    let due_ms = now + fastrand::i64(50..150);
                    Element::new(queue.layout, due_ms, format!("{{\"topic\":\"{topic}\",\"n\":{n}}}"))
                };
                (0..each).map(element).collect()
            };
            let (to_alive, to_dead) = (elements(&alive), elements(&dead));
            of_alive.offered(&to_alive);
            of_dead.offered(&to_dead);
            queue.offer_bulk(&mut redis, &[to_alive, to_dead].concat()).await;
        }
    };
    // The first record waits for its producer's id.
    flow(Duration::from_secs(2), &mut of_alive, &mut of_dead).await;
    all_in_topic(&bootstrap, &alive, &of_alive).await;
    let at_first = within(&daemon).await;
    flow(Duration::from_secs(5), &mut of_alive, &mut of_dead).await;
    all_in_topic(&bootstrap, &alive, &of_alive).await;
    all_in_topic(&bootstrap, &dead, &of_dead).await;
    let before = within(&daemon).await;

    blocking(|| kafka.kill(2));
    flow(outage, &mut of_alive, &mut of_dead).await;
    all_in_topic(&bootstrap, &alive, &of_alive).await;
    let during = within(&daemon).await;
    let (quiet, troubled) = (quantiles(&at_first, &before), quantiles(&before, &during));
    println!("lateness of the topic that works, p50 and p99 in s: at most {quiet:?} before, {troubled:?} during");
    assert_eq!(daemon.metric("delaybridge_sink_up").await, 1.0, "the sink works");
    metric(&daemon, "delaybridge_sink_destinations_in_trouble", |count| count == 1.0).await;
    let shown = readyz(&daemon, 200, "${payload.topic}").await;
    assert!(!shown.contains(&dead), "{shown}");
    assert_eq!(daemon.metric("delaybridge_dead_lettered_messages_total").await, 0.0);
    // The 99 % show every stall of a busy machine; on paused time they are asserted (`pipeline/tests/destinations.rs`).
    assert!(troubled.0 <= quiet.0.max(0.1), "{troubled:?} instead of {quiet:?}");

    blocking(|| kafka.restart(2)).expect("restart the node");
    let deliveries = all_in_topic(&bootstrap, &dead, &of_dead).await;
    settled(&mut server.client().await, &queue).await;
    let announced = daemon.metric("delaybridge_possible_duplicates_total").await;
    of_dead.judge(&deliveries).assert_complete(announced as usize);
    metric(&daemon, "delaybridge_sink_destinations_in_trouble", |count| count == 0.0).await;
}
