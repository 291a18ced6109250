//! One of two brokers is dead: its partitions wait, and nothing else does.

use super::*;
use crate::faults::rig::{metric, readyz, tolerate_stalls};
use brokers::kafka::NewTopic;
use harness::redisson::{Element, redis_now_ms};
use harness::turn::heavy;

/// The upper bounds of the buckets in seconds, as in the metric.
const BOUNDS: [&str; 10] = ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5"];
/// Maximum addition by an outage to the lateness of 99 % of the unaffected elements, in seconds. The remaining broker
/// answers a connection's requests one by one: a request that waits for the dead replica must not delay the others
/// until its time-out.
const STALL: f64 = 0.5;
/// Maximum factor compared with the time before, whose lateness shows the load of the machine; about the distance of
/// the buckets.
const TIMES: f64 = 2.5;
/// Maximum lateness of unaffected elements, in seconds: the sink's time-out of 2 s, and another attempt.
const LATEST: f64 = 5.0;

/// Number of a queue's elements that were delivered within each bound.
async fn within(daemon: &Daemon, queue: &str) -> Vec<f64> {
    let metrics = daemon.metrics().await;
    let lateness = format!("delaybridge_delivery_lateness_seconds_bucket{{queue=\"{queue}\",sink=\"out\",le=");
    let bound = |bound: &str| metrics.sum(&format!("{lateness}\"{bound}\"}}"));
    BOUNDS.iter().copied().chain(["+Inf"]).map(bound).collect()
}

/// The bounds of the median, the 99th percentile and the maximum of the deliveries between two looks.
fn quantiles(before: &[f64], after: &[f64]) -> (f64, f64, f64) {
    let counts: Vec<f64> = before.iter().zip(after).map(|(before, after)| after - before).collect();
    let all = counts[counts.len() - 1];
    let bound = |share: f64| {
        let at = counts.iter().position(|count| *count >= all * share).unwrap_or(BOUNDS.len());
        BOUNDS.get(at).map_or(f64::INFINITY, |bound| bound.parse().expect("a number"))
    };
    (bound(0.5), bound(0.99), bound(1.0))
}

/// Topics of one partition, of which each of two nodes leads some: a leader is drawn for each, and of eight topics one run in 128
/// had none for a node.
pub(super) const NAMES: usize = 24;

/// A topic with this node as its only leader.
pub(super) fn led_by(kafka: &Kafka, node: i32) -> String {
    let leads = |topic: &String| {
        let partitions = kafka.partitions(topic).expect("look the topic up").expect("it was made");
        partitions.iter().all(|partition| partition.leader == node)
    };
    (0..NAMES).map(|n| format!("t{n}")).find(leads).unwrap_or_else(|| panic!("node {node} leads none of the topics"))
}

/// One queue of the daemon, with the offers for each of its destinations.
struct Flow {
    queue: RedissonQueue,
    /// The payloads, except for their number.
    payloads: Vec<String>,
    oracles: Vec<Oracle>,
}

impl Flow {
    fn new(queue: &str, payloads: Vec<String>) -> Flow {
        let oracles = payloads.iter().map(|_| Oracle::new()).collect();
        Flow { queue: RedissonQueue::new(queue), payloads, oracles }
    }

    /// Offers `each` elements for each destination, due in a moment.
    async fn offer(&mut self, redis: &mut MultiplexedConnection, each: usize, n: &mut u64) {
        let now = redis_now_ms(redis).await;
        let mut offered = Vec::new();
        for (payload, oracle) in self.payloads.iter().zip(&mut self.oracles) {
            let element = |_| {
                *n += 1;
                let due_ms = now + fastrand::i64(50..150);
                Element::new(self.queue.layout, due_ms, payload.replace("NUMBER", &n.to_string()))
            };
            let elements: Vec<Element> = (0..each).map(element).collect();
            oracle.offered(&elements);
            offered.extend(elements);
        }
        self.queue.offer_bulk(redis, &offered).await;
    }

    fn count(&self) -> usize {
        self.oracles.iter().map(Oracle::count).sum()
    }
}

/// Offers to all of them ten times a second, for this time.
async fn flow(redis: &mut MultiplexedConnection, flows: &mut [Flow], each: &[usize], time: Duration, n: &mut u64) {
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    for _ in 0..time.as_millis() / 100 {
        ticks.tick().await;
        for (flow, each) in flows.iter_mut().zip(each) {
            flow.offer(redis, *each, n).await;
        }
    }
}

async fn delivered(daemon: &Daemon, queue: &str) -> f64 {
    daemon.metrics().await.sum(&format!("delaybridge_delivered_messages_total{{queue=\"{queue}\"}}"))
}

/// One of two nodes dies. It led one of the topics that payloads choose, and one of the two partitions of a topic, and
/// it was one of the two required replicas of a third topic.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_broker_of_two_holds_what_it_leads_and_delays_nothing_else() {
    let _turn = heavy().await;
    let (each, outage) = if long() { (100, Duration::from_secs(600)) } else { (10, Duration::from_secs(20)) };
    let server = RedisServer::start().await;
    let kafka = start(KafkaOptions { nodes: 2, ..KafkaOptions::default() });
    let names: Vec<String> = (0..NAMES).map(|n| format!("t{n}")).collect();
    let new = |name, partitions| NewTopic { name, partitions, replication: 1, configs: &[] };
    let mut topics: Vec<NewTopic<'_>> = names.iter().map(|name| new(name.as_str(), 1)).collect();
    topics.push(new("parts", 2));
    let strict = &[("min.insync.replicas", "2")];
    topics.push(NewTopic { name: "strict", partitions: 1, replication: 2, configs: strict });
    blocking(|| kafka.create_topics(&topics)).expect("create the topics");
    let (alive, dead) = blocking(|| (led_by(&kafka, 1), led_by(&kafka, 2)));
    let bootstrap = kafka.bootstrap();
    let queue = |name: &str, to: &str| {
        format!(
            "{name}: {{ source: {{ redisson: {{ name: {name} }} }}, codec: json, retry: strict, lease: 20s, \
             to: [{{ sink: out, {to} }}] }}"
        )
    };
    let yaml = format!(
        "redis: {{ url: '{}' }}\n\
         retry: {{ strict: {{ max_attempts: 3, initial_interval: 10ms, max_interval: 100ms }} }}\n\
         sinks: {{ out: {{ kafka: {{ brokers: ['{bootstrap}'], timeout: 2s }} }} }}\n\
         queues: {{ {}, {}, {} }}\n",
        server.url(),
        queue("q", "topic: '${payload.topic}'"),
        queue("parts", "topic: parts, key: '${payload.key}'"),
        queue("strict", "topic: strict"),
    );
    let mut daemon = Daemon::start(&yaml).await;
    tolerate_stalls(&mut daemon);
    daemon.expect_log("destination in trouble");
    let mut redis = server.client().await;
    let to_topic = |topic: &str| format!("{{\"topic\":\"{topic}\",\"n\":NUMBER}}");
    let to_key = |key: usize| format!("{{\"key\":\"k{key}\",\"n\":NUMBER}}");
    let mut flows = [
        Flow::new("q", vec![to_topic(&alive), to_topic(&dead)]),
        Flow::new("parts", (0..20).map(to_key).collect()),
        Flow::new("strict", vec!["{\"n\":NUMBER}".to_owned()]),
    ];
    let rates = [each, 1, 5];
    let mut n = 0;
    // The first record waits for the producer's id.
    flow(&mut redis, &mut flows, &rates, Duration::from_secs(2), &mut n).await;
    all_in_topic(&bootstrap, &alive, &flows[0].oracles[0]).await;
    let at_first = within(&daemon, "q").await;
    flow(&mut redis, &mut flows, &rates, Duration::from_secs(5), &mut n).await;
    all_in_topic(&bootstrap, &alive, &flows[0].oracles[0]).await;
    all_in_topic(&bootstrap, &dead, &flows[0].oracles[1]).await;
    metric(&daemon, "delaybridge_delivered_messages_total", |all| all == n as f64).await;
    let before = within(&daemon, "q").await;
    let parts_before = within(&daemon, "parts").await;
    let parts_at = flows[1].count() as f64;
    let strict_at = flows[2].count() as f64;

    blocking(|| kafka.kill(2));
    flow(&mut redis, &mut flows, &rates, outage, &mut n).await;
    all_in_topic(&bootstrap, &alive, &flows[0].oracles[0]).await;
    let during = within(&daemon, "q").await;
    let parts_during = within(&daemon, "parts").await;
    let quiet = quantiles(&at_first, &before);
    for (what, troubled) in
        [("topic", quantiles(&before, &during)), ("partition", quantiles(&parts_before, &parts_during))]
    {
        println!(
            "lateness of the {what} that works, p50, p99 and max in s: at most {quiet:?} before, {troubled:?} during"
        );
        assert!(troubled.0 <= quiet.0.max(0.1), "{what}: {troubled:?} instead of {quiet:?}");
        assert!(troubled.1 <= (TIMES * quiet.1).max(STALL), "{what}: {troubled:?} instead of {quiet:?}");
        assert!(troubled.2 <= LATEST, "{what}: {troubled:?} instead of {quiet:?}");
    }
    let of_parts = (delivered(&daemon, "parts").await - parts_at) / (flows[1].count() as f64 - parts_at);
    println!("{of_parts:.2} of the elements for the topic with two partitions were delivered meanwhile");
    assert!((0.2..0.8).contains(&of_parts), "those of one partition, and of one only");
    assert_eq!(delivered(&daemon, "strict").await, strict_at, "one replica is not enough");
    assert_eq!(daemon.metric("delaybridge_sink_up").await, 1.0, "the sink works");
    metric(&daemon, "delaybridge_sink_destinations_in_trouble", |count| count == 3.0).await;
    let shown = readyz(&daemon, 200, "${payload.topic}").await;
    assert!(!shown.contains(&dead), "{shown}");
    assert_eq!(daemon.metric("delaybridge_dead_lettered_messages_total").await, 0.0);

    blocking(|| kafka.restart(2)).expect("restart the node");
    // Half of the offers have waited.
    eventually("everything to be delivered", PATIENCE + outage, async || {
        let all = daemon.metric("delaybridge_delivered_messages_total").await;
        if all >= n as f64 { Ok(()) } else { Err(format!("{all} of {n}")) }
    })
    .await;
    let deliveries = all_in_topic(&bootstrap, &dead, &flows[0].oracles[1]).await;
    for flow in &flows {
        settled(&mut server.client().await, &flow.queue).await;
    }
    // A record that times out makes the client begin a new sequence. A record sent in the old sequence, and again in
    // the new one, is in the log twice, but reported as one attempt.
    let announced = daemon.metric("delaybridge_possible_duplicates_total").await as usize;
    flows[0].oracles[1].judge(&deliveries).assert_repeated(announced);
    let mut rest = Vec::new();
    for topic in ["parts", "strict"] {
        rest.push(read_topic(&bootstrap, topic).await.expect("read the topic"));
    }
    assert!(rest[0].len() >= flows[1].count() && rest[1].len() >= flows[2].count(), "all of them arrived");
    flows[2].oracles[0].judge(&rest[1]).assert_repeated(announced);
    metric(&daemon, "delaybridge_sink_destinations_in_trouble", |count| count == 0.0).await;
}
