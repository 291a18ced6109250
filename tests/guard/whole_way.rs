//! The allocations of this process for an element on its whole way: the reply with it, its claim, the message for the
//! sink, the sink's answer, the confirmation; with a real Redis, and a sink that answers at once. And the memory that
//! an idle queue holds.
//!
//! Every allocation of the process counts, so the measurement runs alone in a process of its own.

use delaybridge_core::message::{Failure, Outcome};
use delaybridge_ledger::RedisServer as Server;
use delaybridge_ledger::redis::RedisStore;
use delaybridge_ledger::store::Store;
use delaybridge_link::{Link, LinkOptions, Redis, RedisEndpoint};
use delaybridge_model::QueueSpec;
use delaybridge_pipeline::active::ActiveQueue;
use delaybridge_pipeline::claim::{claimer, claimers};
use delaybridge_pipeline::deliver::sink_handle::SinkHandle;
use delaybridge_pipeline::limits::budget::Budget;
use delaybridge_pipeline::process::Process;
use delaybridge_pipeline::registry::{QueueParts, QueueRegistry};
use delaybridge_sink::{Answers, Destination, Outbound, Sink};
use delaybridge_source::redisson::SCRIPTS;
use delaybridge_spans::Tracer;
use delaybridge_telemetry::events::Events;
use delaybridge_telemetry::labels::Wakeup;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use redis::AsyncCommands;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::sync::Arc;
use std::time::Duration;

use crate::limits::{IDLE_QUEUE_BYTES, PerWay, WHOLE_WAY};
use harness::fill::{Load, Order, fill};
use harness::redis_server::RedisServer;
use harness::redisson::RedissonQueue;

/// Counts what this process asks for.
#[global_allocator]
pub static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

/// Size of a payload, in bytes.
const SIZE: usize = 256;
/// Maximum number of elements in a claim.
pub const BATCH: usize = 500;
/// Number of claims: so many that the background work of the process is negligible.
const CLAIMS: usize = 20;
/// Number of claims of one element.
const SINGLES: usize = 200;
const OWNER: [u8; 8] = [7; 8];

/// A sink that confirms everything at once.
struct Nowhere;

impl Sink for Nowhere {
    fn kind(&self) -> &'static str {
        "nowhere"
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn deliver(&self, _: Outbound) -> BoxFuture<'_, Outcome> {
        async { Ok(()) }.boxed()
    }

    fn deliver_all<'a>(&'a self, batch: Vec<Outbound>, answers: &'a Answers) -> BoxFuture<'a, ()> {
        async move { (0..batch.len()).for_each(|place| answers.put(place, Ok(()))) }.boxed()
    }

    fn check<'a>(&'a self, _: &'a [Destination]) -> BoxFuture<'a, Result<Vec<String>, Failure>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn probe(&self) -> Option<BoxFuture<'_, Result<(), Failure>>> {
        None
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        std::future::pending().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }
}

/// A connection with the configuration's default time-out, which determines how claims are confirmed.
async fn link(server: &RedisServer) -> Link {
    let options = LinkOptions { scripts: SCRIPTS.all().into_iter().cloned().collect(), ..LinkOptions::default() };
    let endpoint = RedisEndpoint { command_timeout: Duration::from_secs(5), ..server.endpoint() };
    let link = Link::start(Arc::new(endpoint), options);
    let _ = link.ready().await;
    link
}

/// A queue to work on; its elements are traced if there is a tracer.
async fn queue(server: &RedisServer, tracer: Option<Tracer>) -> Arc<ActiveQueue> {
    let yaml = "redis: { url: 'redis://h' }\nsinks: { out: { stdout: {} } }\nqueues: { q: { source: { redisson: { name: q \
                } }, to: [{ sink: out }] } }\n";
    let loaded =
        delaybridge_config::load_str(yaml, "guard.yaml", &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
    let spec = loaded.config.queues[0].clone();
    let link = link(server).await;
    let events = Events::default();
    let budget = Budget::new(10_000, 1 << 30);
    let process = Arc::new(Process::new(OWNER, budget, events.clone()).traced_by(tracer));
    let name: Arc<str> = "out".into();
    let handle =
        Arc::new(SinkHandle::new(name.clone(), Arc::new(Nowhere), None, events.sink(&name), process.gates.clone()));
    let store = Arc::new(RedisStore::new(link, spec.source.build(), OWNER));
    ActiveQueue::new(spec, process, store, |_| Some(handle.clone()))
}

/// The requests to the allocator.
#[derive(Debug, Clone, Copy)]
struct Asked {
    calls: f64,
    bytes: f64,
}

impl Asked {
    fn since(region: &Region<'_, std::alloc::System>, elements: usize) -> Asked {
        let change = region.change();
        // A reallocation counts as a call, and for its additional bytes.
        let calls = change.allocations + change.reallocations;
        Asked { calls: calls as f64 / elements as f64, bytes: change.bytes_allocated as f64 / elements as f64 }
    }
}

/// Measures claims of the maximum size, then claims of one element.
async fn walk() -> [Asked; 2] {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let producer = RedissonQueue::new("q");
    let queue = queue(&server, None).await;
    let heartbeat = queue.process.events.status().heartbeat("claimer", Duration::from_secs(60));
    tokio::spawn(claimer::run(queue.clone(), heartbeat));
    let settled = || queue.settled() as usize;
    let all_of = async |count: usize| {
        while settled() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    // The one-time work: pools, tables, series.
    let load = |count| Load { count, size: SIZE, order: Order::Offers, last_in_ms: -1_000 };
    fill(&mut redis, &producer, load(BATCH), |_| ()).await.expect("fill");
    queue.alarm.ring(Wakeup::Published);
    all_of(BATCH).await;

    fill(&mut redis, &producer, load(CLAIMS * BATCH), |_| ()).await.expect("fill");
    let region = Region::new(ALLOCATOR);
    queue.alarm.ring(Wakeup::Published);
    all_of((CLAIMS + 1) * BATCH).await;
    let many = Asked::since(&region, CLAIMS * BATCH);

    let mut single = Asked { calls: 0.0, bytes: 0.0 };
    for n in 1..=SINGLES {
        fill(&mut redis, &producer, load(1), |_| ()).await.expect("fill");
        let region = Region::new(ALLOCATOR);
        queue.alarm.ring(Wakeup::Published);
        while settled() < (CLAIMS + 1) * BATCH + n {
            tokio::task::yield_now().await;
        }
        let asked = Asked::since(&region, SINGLES);
        single = Asked { calls: single.calls + asked.calls, bytes: single.bytes + asked.bytes };
    }
    let left: usize = redis.zcard(&producer.timeouts).await.expect("count what is left");
    assert_eq!(left, 0);
    [many, single]
}

/// Sends full claims their whole way.
pub async fn send(claims: usize, tracer: Option<Tracer>) {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let queue = queue(&server, tracer).await;
    let load = Load { count: claims * BATCH, size: SIZE, order: Order::Offers, last_in_ms: -1_000 };
    fill(&mut redis, &RedissonQueue::new("q"), load, |_| ()).await.expect("fill");
    let heartbeat = queue.process.events.status().heartbeat("claimer", Duration::from_secs(60));
    tokio::spawn(claimer::run(queue.clone(), heartbeat));
    queue.alarm.ring(Wakeup::Published);
    while (queue.settled() as usize) < claims * BATCH {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Number of queues that are idle at the same time.
const IDLE: usize = 500;
/// Number of idle queues that are looked at together.
const BUSY_AT_ONCE: usize = 10;

/// The memory of an idle queue after its first claim: its configuration, and everything else.
async fn idle() -> [f64; 2] {
    let server = RedisServer::start().await;
    let redis = Redis::one(link(&server).await);
    let events = Events::default();
    let process = Arc::new(Process::new(OWNER, Budget::new(10_000, 1 << 30), events.clone()));
    let name: Arc<str> = "out".into();
    let sink = events.sink(&name);
    let handle = Arc::new(SinkHandle::new(name.clone(), Arc::new(Nowhere), None, sink, process.gates.clone()));
    let mut yaml = "redis: { url: 'redis://h' }\nsinks: { out: { stdout: {} } }\nqueues:\n".to_owned();
    for n in 0..IDLE {
        yaml += &format!("  q{n}: {{ source: {{ redisson: {{ name: many-{n} }} }}, to: [{{ sink: out }}] }}\n");
    }
    let held = |region: &Region<'_, std::alloc::System>| {
        let change = region.change();
        (change.bytes_allocated as f64 - change.bytes_deallocated as f64) / IDLE as f64
    };
    let region = Region::new(ALLOCATOR);
    let loaded =
        delaybridge_config::load_str(&yaml, "guard.yaml", &|_| None).unwrap_or_else(|errors| panic!("{errors}"));
    let specs = loaded.config.queues.clone();
    drop(loaded);
    let config = held(&region);
    let region = Region::new(ALLOCATOR);
    let server = Arc::new(Server::new(&redis));
    let store = move |spec: &QueueSpec, _: [u8; 8]| -> Arc<dyn Store> {
        Arc::new(RedisStore::new(&redis, spec.source.build(), OWNER))
    };
    let parts = QueueParts { store: Box::new(store), sinks: [(name, handle)].into() };
    let registry = Arc::new(QueueRegistry::new(process.clone(), server, &specs, parts));
    tokio::spawn(claimers::run(registry.clone(), Duration::from_secs(60)));
    // A few at a time: shared buffers and tables keep the size of the most queues that were busy at once, and that
    // depends on the load of the machine.
    for places in registry.places().chunks(BUSY_AT_ONCE) {
        registry.look_at(places.iter().copied(), Wakeup::Due);
        while !places.iter().all(|&place| registry.was_looked_at(place)) || !registry.at_work().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    // Ended tasks are freed a little later, on a busy machine much later.
    let mut rest = held(&region);
    let mut same = 0;
    while same < SAME {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = held(&region);
        same = if now == rest { same + 1 } else { 0 };
        rest = now;
    }
    [config, rest]
}

/// Number of equal observations after which everything is freed.
const SAME: usize = 10;

/// The mark of the figures in the output.
pub const FIGURES: &str = "figures:";

/// The figures that an ignored test of this binary prints, alone in a process of its own.
pub fn figures_of(test: &str) -> Vec<f64> {
    let own = std::env::current_exe().expect("the path of this binary");
    let done = std::process::Command::new(own)
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .output()
        .expect("run this binary");
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    let figures = said.lines().find_map(|line| line.split_once(FIGURES)).expect("figures").1;
    figures.split_whitespace().map(|figure| figure.parse().expect("a number")).collect()
}

#[test]
fn an_idle_queue_holds_no_more_bytes_than_its_limit() {
    let found = figures_of("whole_way::idles_alone");
    let [config, rest] = found[..] else { panic!("{found:?}") };
    let all = config + rest;
    let found = format!("{all:.0} bytes: configuration {config}, everything else {rest}");
    println!("an idle queue: {found}");
    assert!(all <= IDLE_QUEUE_BYTES, "{found}; the limit is {IDLE_QUEUE_BYTES}, see tests/guard/limits.rs");
}

#[test]
fn an_element_asks_the_allocator_for_no_more_than_its_limit() {
    let figures = figures_of("whole_way::runs_alone");
    assert_eq!(figures.len(), 2 * WHOLE_WAY.len());
    let mut over = Vec::new();
    for (PerWay { what, allocations, bytes }, found) in WHOLE_WAY.iter().zip(figures.chunks(2)) {
        let found_text = format!("{what}: {:.2} allocations of {:.0} bytes together", found[0], found[1]);
        println!("{found_text}");
        if found[0] > *allocations || found[1] > *bytes {
            over.push(format!("{found_text}; the limits are {allocations} and {bytes}"));
        }
    }
    assert!(over.is_empty(), "an element costs more than its limit, see tests/guard/limits.rs:\n{}", over.join("\n"));
}

#[test]
#[ignore = "the test above runs it, in a process of its own"]
fn runs_alone() {
    // One thread: further ones have caches of their own.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let [many, single] = runtime.block_on(walk());
    println!("{FIGURES} {} {} {} {}", many.calls, many.bytes, single.calls, single.bytes);
}

#[test]
#[ignore = "a test above runs it, in a process of its own"]
fn idles_alone() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let [config, rest] = runtime.block_on(idle());
    println!("{FIGURES} {config} {rest}");
}
