//! Every number of a queue that an operator is shown, from one store that is filled at random: over Redis, over the API, on the page,
//! in `queues` and in the metrics each is the same. `top` draws the answers of the first two (`cli/top/tests.rs`).
//!
//! `DELAYBRIDGE_SEED=7` repeats one.

use std::time::Duration;

use serde_json::Value;

use crate::delivery::PATIENCE;
use harness::daemon::{Daemon, cli};
use harness::redisson::{Element, Layout, redis_now_ms};
use harness::{RedisServer, RedissonQueue, eventually, http};

const QUEUES: [&str; 3] = ["a", "b", "c"];
/// The oldest element of each queue is due since then.
const OLDEST: Duration = Duration::from_secs(7_200);

/// The elements of a queue by their states.
#[derive(Debug, Clone, Copy, Default)]
struct Filled {
    scheduled: u64,
    due: u64,
    in_flight: u64,
    retry: u64,
    dead: u64,
}

impl Filled {
    fn random(random: &mut fastrand::Rng) -> Filled {
        Filled {
            scheduled: random.u64(0..40),
            due: random.u64(1..40),
            in_flight: random.u64(0..20),
            retry: random.u64(0..10),
            dead: random.u64(0..10),
        }
    }

    /// By the names of the metrics' states, and of the page's tiles.
    fn all(self) -> [(&'static str, &'static str, u64); 5] {
        [
            ("scheduled", "Scheduled", self.scheduled),
            ("due", "Due", self.due),
            ("in_flight", "In flight", self.in_flight),
            ("retry", "Retry", self.retry),
            ("dead", "Dead", self.dead),
        ]
    }

    fn plus(self, other: Filled) -> Filled {
        Filled {
            scheduled: self.scheduled + other.scheduled,
            due: self.due + other.due,
            in_flight: self.in_flight + other.in_flight,
            retry: self.retry + other.retry,
            dead: self.dead + other.dead,
        }
    }
}

/// Runs a command, which has to do what it says.
fn well(daemon: &Daemon, line: &[&str]) -> String {
    let output = cli(daemon.config(), line);
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line:?}: {out}{err}");
    out.into_owned()
}

/// Fills a queue that is paused.
async fn fill(daemon: &Daemon, redis: &RedisServer, queue: &RedissonQueue, filled: Filled) {
    let mut client = redis.client().await;
    let now = redis_now_ms(&mut client).await;
    let oldest = now - i64::try_from(OLDEST.as_millis()).expect("a time");
    let name = &queue.name[..];
    for n in 0..filled.dead + filled.retry {
        let element = queue.offer(&mut client, now - 60_000, format!("ill-{n}")).await;
        well(daemon, &["kill", name, &element.id_text(), "--why", "x"]);
    }
    // They wait for a retry while the queue is paused.
    let letters: Value = serde_json::from_str(&well(daemon, &["dead", "ls", name, "--output", "json"])).expect("JSON");
    let letters = letters["dead_letters"].as_array().cloned().unwrap_or_default();
    for letter in letters.iter().take(usize::try_from(filled.retry).expect("a number")) {
        well(daemon, &["dead", "redrive", name, letter["stream_id"].as_str().expect("a place")]);
    }
    for n in 0..filled.scheduled {
        let at = 9_000_000_000_000 + i64::try_from(n).expect("a number");
        queue.offer(&mut client, at, format!("later-{n}")).await;
    }
    for n in 0..filled.due {
        let at = if n == 0 { oldest } else { now - 60_000 - i64::try_from(n).expect("a number") };
        queue.offer(&mut client, at, format!("now-{n}")).await;
    }
    let claimed: Vec<Element> =
        (0..filled.in_flight).map(|n| Element::new(Layout::New, now - 30_000, format!("claimed-{n}"))).collect();
    let members: Vec<(i64, &[u8])> = claimed.iter().map(|element| (element.due_ms, &element.member[..])).collect();
    if !members.is_empty() {
        queue.claim_for(&client, now + 3_600_000, &members).await;
    }
}

async fn page(port: u16, path: &str) -> String {
    let answer = http::get(port, path, PATIENCE).await.expect("a page");
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.body
}

fn tile(page: &str, label: &str) -> String {
    let after = page.split_once(&format!("<dt>{label}</dt><dd>")).map_or("", |(_, after)| after);
    after.split('<').next().unwrap_or_default().to_owned()
}

/// The number of elements behind a link of a page.
fn behind_link(page: &str, label: &str) -> String {
    let after = page.split_once(&format!(">{label}</a>")).map_or("", |(_, after)| after);
    after.split_once("<span class=\"muted\">").map_or("", |(_, after)| after).split('<').next().unwrap_or("").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_number_is_the_same_wherever_it_is_shown() {
    let seed = std::env::var("DELAYBRIDGE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("DELAYBRIDGE_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let redis = RedisServer::start().await;
    let queues: String = QUEUES
        .iter()
        .map(|name| format!("  {name}: {{ source: {{ redisson: {{ name: {name} }} }}, to: [{{ sink: out, list: 'done:{name}' }}] }}\n"))
        .collect();
    let yaml = format!("redis: {{ url: \"{}\" }}\nsinks: {{ out: {{ redis: {{}} }} }}\nqueues:\n{queues}", redis.url());
    let (mut daemon, port) = Daemon::start_for_operators(&yaml).await;
    let mut all = Vec::new();
    for name in QUEUES {
        well(&daemon, &["pause", name, "--why", "a count"]);
        let filled = Filled::random(&mut random);
        fill(&daemon, &redis, &RedissonQueue::new(name), filled).await;
        println!("{name}: {filled:?}");
        all.push((name, filled));
    }
    eventually("the gauges", PATIENCE, async || {
        let metrics = daemon.metrics().await;
        for (name, filled) in &all {
            for (state, _, expected) in filled.all() {
                let selector = format!("delaybridge_queue_messages{{queue=\"{name}\",state=\"{state}\"}}");
                let found = metrics.sum(&selector);
                if found != expected as f64 {
                    return Err(format!("{selector}: {found}, and not {expected}"));
                }
            }
        }
        Ok(())
    })
    .await;

    let url = format!("http://127.0.0.1:{port}");
    let json = |line: &[&str]| -> Value { serde_json::from_str(&well(&daemon, line)).expect("JSON") };
    // Over Redis with the daemon beside it, over the daemon, and each queue alone: all fields, except for the time of the look.
    let over_redis = json(&["queues", "--output", "json"]);
    let over_daemon = json(&["queues", "--output", "json", "--daemon", &url]);
    let steady = |row: &Value| {
        let mut row = row.clone();
        let fields = row.as_object_mut().expect("a queue");
        let overdue = fields.remove("oldest_overdue_ms").and_then(|ms| ms.as_u64()).expect("it is overdue");
        ["now_ms", "here", "schedule", "settings"].iter().for_each(|name| drop(fields.remove(*name)));
        (row, overdue)
    };
    let text = well(&daemon, &["queues"]);
    let mut sums = Filled::default();
    for (at, (name, filled)) in all.iter().enumerate() {
        let alone: Value =
            serde_json::from_str(&page(port, &format!("/v1/queues/{name}")).await).expect("a queue as JSON");
        let (row, overdue) = steady(&over_redis["queues"][at]);
        for other in [&over_daemon["queues"][at], &alone] {
            let (other, other_overdue) = steady(other);
            assert_eq!(row, other, "{name}");
            let oldest = u64::try_from(OLDEST.as_millis()).expect("a time");
            assert!(overdue >= oldest && other_overdue >= oldest && overdue.abs_diff(other_overdue) < 60_000, "{name}");
        }
        let of_queue = page(port, &format!("/queues/{name}")).await;
        for (state, label, expected) in filled.all() {
            assert_eq!(row[state], expected, "{name} {state}: {row}");
            assert_eq!(tile(&of_queue, label), expected.to_string(), "{name} {label}: {of_queue}");
        }
        let backlog = filled.due + filled.in_flight + filled.retry;
        assert_eq!(row["backlog"], backlog, "{name}: {row}");
        let overdue = tile(&of_queue, "Oldest overdue");
        assert!(of_queue.contains(&format!("The oldest has been due for {overdue}.")), "{overdue}: {of_queue}");
        assert!(of_queue.contains(&format!("{backlog} are due now")) || backlog == 1, "the forecast: {of_queue}");
        for (label, expected) in [
            ("scheduled and due", filled.scheduled + filled.due),
            ("in flight", filled.in_flight),
            ("waiting for a retry", filled.retry),
            ("on the ready list", 0),
            ("dead letters", filled.dead),
        ] {
            assert_eq!(behind_link(&of_queue, label), expected.to_string(), "{name} {label}: {of_queue}");
        }
        let elements = page(port, &format!("/queues/{name}/elements?state=scheduled")).await;
        let total = filled.scheduled + filled.due;
        assert!(elements.contains(&format!(" of {total}.")), "{total}: {elements}");
        let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).expect("a line of the queue");
        let cells: Vec<&str> = line.split_whitespace().collect();
        let numbers: Vec<String> = filled.all().iter().map(|(_, _, expected)| expected.to_string()).collect();
        assert_eq!(cells[1..6], numbers, "{line}");
        sums = sums.plus(*filled);
    }
    let first = page(port, "/").await;
    for (_, label, expected) in sums.all() {
        assert_eq!(tile(&first, label), expected.to_string(), "{label}: {first}");
    }

    // What is delivered late is never shown as later than the oldest element was.
    for (name, _) in &all {
        well(&daemon, &["resume", name]);
    }
    eventually("everything that is due to be delivered", PATIENCE, async || {
        let metrics = daemon.metrics().await;
        let left = metrics.sum("delaybridge_queue_messages{state=\"due\"}")
            + metrics.sum("delaybridge_queue_messages{state=\"retry\"}");
        let delivered = metrics.sum("delaybridge_delivered_messages_total");
        let expected = (sums.due + sums.retry) as f64;
        if delivered == expected && left == 0.0 {
            Ok(())
        } else {
            Err(format!("{delivered} of {expected}, {left} left"))
        }
    })
    .await;
    for (at, (name, filled)) in all.iter().enumerate() {
        let here = json(&["queues", "--output", "json"])["queues"][at]["here"].clone();
        let p50 = here["lateness_p50_ms"].as_f64();
        let p99 = here["lateness_p99_ms"].as_f64();
        let p50 = p50.expect("a lateness");
        let p99 = p99.expect("a lateness");
        // The oldest is the last percentile, because each queue has fewer than a hundred.
        let oldest = OLDEST.as_secs_f64() * 1_000.0;
        let minutes = PATIENCE.as_secs_f64() * 3_000.0;
        assert!((oldest * 0.95..oldest + minutes).contains(&p99), "{name}: {p99} ms, {filled:?}");
        assert!(p50 <= p99, "{name}: {p50} ms");
    }
    assert_eq!(daemon.stop().await, 0);
}
