//! Large elements: limits in bytes, memory, and the time for which scripts block Redis.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use delaybridge_source::redisson::SCRIPTS;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use harness::process::Usage;
use harness::redisson::{Element, redis_now_ms};
use harness::toxic::Toxic;
use harness::{Daemon, Layout, Proxy, RedisServer, RedissonQueue, eventually};

use super::{emptied, on};

const MB: usize = 1_000_000;
const QUEUES: usize = 10;
/// The limit of the daemon below.
const IN_FLIGHT_BYTES: usize = 16 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_elements_are_delivered_within_the_limits() {
    let long = std::env::var_os("DELAYBRIDGE_LONG").is_some();
    let each = if long { 1_000 } else { 30 };
    let source = RedisServer::start().await;
    let target = RedisServer::start().await;
    let mut redis = source.client().await;
    let mut out = target.client().await;
    let queues: Vec<RedissonQueue> = (0..QUEUES).map(|n| RedissonQueue::new(&format!("large-{n}"))).collect();
    let entries = (0..QUEUES).map(|n| {
        format!(
            "  q{n}: {{ source: {{ redisson: {{ name: large-{n} }} }}, to: [{{ sink: other, stream: \"out-${{queue}}\" }}] }}\n"
        )
    });
    let yaml = format!(
        "limits: {{ in_flight_bytes: 16MiB }}\nsinks: {{ other: {{ redis: {{ url: {}, timeout: 20s, command_timeout: 14s }} }} }}\nqueues:\n{}",
        target.url(),
        entries.collect::<String>()
    );
    let daemon = Daemon::start(&on(&source, &yaml)).await;
    let idle = daemon.usage().resident;
    for (name, value) in [("slowlog-log-slower-than", 2_000), ("slowlog-max-len", 100_000)] {
        let () = redis::cmd("CONFIG").arg("SET").arg(name).arg(value).query_async(&mut redis).await.unwrap();
    }

    let started = Instant::now();
    let mut sums: HashMap<String, u64> = HashMap::new();
    let now = redis_now_ms(&mut redis).await;
    let mut offered = 0;
    let mut watch = Watch::default();
    for n in 0..each {
        for (place, queue) in queues.iter().enumerate() {
            // One element, in the middle, is far larger than the limit.
            let size = if n == each / 2 && place == 0 { 100 * MB } else { MB };
            let element = Element::new(Layout::New, now + i64::from(n), payload(offered, size));
            sums.insert(element.id_text(), sum(&element.payload));
            offered += 1;
            offer(&mut redis, queue, &element).await;
        }
        // Arrivals are checked and removed, so that two servers and this test do not need 20 GB.
        watch.look(&daemon, &mut redis, &queues).await;
        while offered - watch.arrived > 400 {
            watch.collect(&mut out, &mut sums).await;
            watch.look(&daemon, &mut redis, &queues).await;
        }
    }
    eventually("all large elements to arrive", Duration::from_secs(if long { 1_800 } else { 120 }), async || {
        watch.look(&daemon, &mut redis.clone(), &queues).await;
        watch.collect(&mut out.clone(), &mut sums).await;
        if watch.arrived == offered { Ok(()) } else { Err(format!("{} of {offered}", watch.arrived)) }
    })
    .await;
    for queue in &queues {
        emptied(&mut redis, queue).await;
    }
    assert!(sums.is_empty(), "{} did not arrive", sums.len());

    println!(
        "{offered} elements, one of 100 MB, took {:.1} s; in flight at most {} elements",
        started.elapsed().as_secs_f64(),
        watch.most_in_flight
    );
    println!(
        "resident: idle {:.1} MB, at most {:.0} MB, afterwards {:.0} MB",
        idle as f64 / 1e6,
        peak(daemon.pid()) as f64 / 1e6,
        daemon.usage().resident as f64 / 1e6
    );
    slowest_scripts(&mut redis).await;
    assert!(watch.most_in_flight <= IN_FLIGHT_BYTES / MB, "{} in flight", watch.most_in_flight);
    // The large element is held as claimed, and in the buffer of the connection that it was read by; it is sent from where it is.
    let most = 8 * IN_FLIGHT_BYTES as u64 + 3 * 100 * MB as u64;
    assert!(peak(daemon.pid()) < most, "{} bytes resident", peak(daemon.pid()));
}

/// A large element is written from where it is, behind the back of the client library. A connection that ends in the middle of it
/// must neither lose the element nor leave half of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_element_survives_connections_that_end_in_the_middle_of_it() {
    const ELEMENTS: usize = 8;
    const SIZE: usize = 5 * MB;
    let source = RedisServer::start().await;
    let target = RedisServer::start().await;
    let mut redis = source.client().await;
    let mut out = target.client().await;
    let proxy = Proxy::start(target.port()).await;
    let queue = RedissonQueue::new("cut");
    let yaml = format!(
        "retry: {{ default: {{ initial_interval: 100ms, max_interval: 500ms }} }}\n\
         sinks: {{ other: {{ redis: {{ url: {}, timeout: 10s }} }} }}\nqueues:\n\
         \x20 cut: {{ source: {{ redisson: {{ name: cut }} }}, to: [{{ sink: other, stream: out }}] }}\n",
        proxy.url()
    );
    let mut daemon = Daemon::start(&on(&source, &yaml)).await;
    daemon.expect_log("other");
    let connections = proxy.connections();
    proxy.set_toxic(Some(Toxic::LimitData { bytes: 7 * MB as u64 }));
    let now = redis_now_ms(&mut redis).await;
    let mut sums: HashMap<String, u64> = HashMap::new();
    for n in 0..ELEMENTS {
        let element = Element::new(Layout::New, now, payload(n, SIZE));
        sums.insert(element.id_text(), sum(&element.payload));
        offer(&mut redis, &queue, &element).await;
    }
    // Each passes one element and a part of the next.
    eventually("some connections to end in the middle of an element", Duration::from_secs(120), async || {
        let more = proxy.connections() - connections;
        if more >= 4 { Ok(()) } else { Err(format!("{more} new connections")) }
    })
    .await;
    proxy.set_toxic(None);
    emptied(&mut redis, &queue).await;
    let arrived: redis::streams::StreamRangeReply = out.xrange_all("out").await.expect("read the stream");
    for entry in &arrived.ids {
        let id: String = entry.get("id").expect("an id");
        let bytes: Vec<u8> = entry.get("payload").expect("a payload");
        assert_eq!(sums.get(&id), Some(&sum(&bytes)), "{id} was altered");
    }
    sums.retain(|id, _| !arrived.ids.iter().any(|entry| entry.get::<String>("id").as_ref() == Some(id)));
    assert!(sums.is_empty(), "{} did not arrive", sums.len());
}

#[derive(Default)]
struct Watch {
    arrived: usize,
    most_in_flight: usize,
}

impl Watch {
    /// Checks the number of elements in flight over all queues, read atomically.
    async fn look(&mut self, daemon: &Daemon, redis: &mut MultiplexedConnection, queues: &[RedissonQueue]) {
        assert!(Usage::of(daemon.pid()).resident > 0);
        let mut all = redis::pipe();
        all.atomic();
        for queue in queues {
            all.add_command(queue.count_in_flight());
        }
        let counts: Vec<usize> = all.query_async(redis).await.expect("count what is in flight");
        self.most_in_flight = self.most_in_flight.max(counts.iter().sum());
    }

    /// Takes the arrivals, and compares them with the offers.
    async fn collect(&mut self, out: &mut MultiplexedConnection, sums: &mut HashMap<String, u64>) {
        for place in 0..QUEUES {
            let key = format!("out-q{place}");
            let page: redis::streams::StreamRangeReply =
                out.xrange_count(&key, "-", "+", 20).await.expect("read the stream");
            for entry in page.ids {
                let id: String = entry.get("id").expect("an id");
                let payload: Vec<u8> = entry.get("payload").expect("a payload");
                let expected = sums.remove(&id).unwrap_or_else(|| panic!("{id} was not offered, or came twice"));
                assert_eq!(sum(&payload), expected, "{id} was altered");
                let _: usize = out.xdel(&key, &[&entry.id]).await.expect("remove what was read");
                self.arrived += 1;
            }
        }
    }
}

async fn offer(redis: &mut MultiplexedConnection, queue: &RedissonQueue, element: &Element) {
    let mut offer = redis::pipe();
    // Redisson does this in one script: a claim in between would find an element that is not in the list yet.
    offer.atomic();
    offer.zadd(&queue.timeouts, &element.member, element.due_ms).ignore();
    offer.rpush(&queue.list, &element.member).ignore();
    offer.publish(&queue.channel, element.due_ms).ignore();
    offer.exec_async(redis).await.expect("offer a large element");
}

fn payload(seed: usize, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    fastrand::Rng::with_seed(seed as u64).fill(&mut bytes);
    bytes
}

fn sum(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// Maximum resident memory, in bytes.
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("read the daemon's status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a VmHWM line");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number of kB") * 1024
}

/// Prints the longest run of each script with its limit.
async fn slowest_scripts(redis: &mut MultiplexedConnection) {
    let log: Vec<(i64, i64, u64, Vec<redis::Value>)> = {
        let raw: Vec<Vec<redis::Value>> =
            redis::cmd("SLOWLOG").arg("GET").arg(-1).query_async(redis).await.expect("read the slow log");
        raw.into_iter()
            .filter_map(|mut entry| {
                let id = redis::from_redis_value(entry[0].clone()).ok()?;
                let at = redis::from_redis_value(entry[1].clone()).ok()?;
                let took = redis::from_redis_value(entry[2].clone()).ok()?;
                let redis::Value::Array(words) = entry.swap_remove(3) else { return None };
                Some((id, at, took, words))
            })
            .collect()
    };
    let mut longest: HashMap<&str, Vec<u64>> = HashMap::new();
    for (_, _, took, words) in &log {
        let word = |n: usize| words.get(n).and_then(|w| redis::from_redis_value::<String>(w.clone()).ok());
        if word(0).as_deref().map(str::to_uppercase).as_deref() != Some("EVALSHA") {
            continue;
        }
        let name = SCRIPTS.all().into_iter().find(|script| Some(script.sha1()) == word(1).as_deref());
        longest.entry(name.map_or("?", |script| script.name())).or_default().push(*took);
    }
    println!("longest scripts (may take 5 ms + 10 ms per MB: 15 ms for 1 MB, 1,005 ms for 100 MB):");
    for (name, mut times) in longest {
        times.sort_unstable_by(|a, b| b.cmp(a));
        let shown: Vec<String> = times.iter().take(6).map(|us| format!("{:.1}", *us as f64 / 1e3)).collect();
        let above = times.iter().filter(|us| **us > 15_000).count();
        println!("  {name}: {} ms; {} of {} in the log above 15 ms", shown.join(", "), above, times.len());
    }
}
