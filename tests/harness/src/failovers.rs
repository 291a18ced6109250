//! Elements offered through failovers like by a client of an application: it follows the master, and knows which of its
//! offers have reached all replicas.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinHandle;

use super::oracle::{Delivery, Oracle};
use super::redisson::{Element, RedissonQueue};
use super::{cluster, sentinels};

/// The interval between two batches of offers.
const BATCH: Duration = Duration::from_millis(50);
/// The time from an offer to its due time, in ms.
const AHEAD_MS: i64 = 1_000;

/// The way in which a master is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failover {
    /// By a command, gracefully.
    Command,
    /// By a SIGKILL of the master.
    Kill,
}

/// The result of a failover.
#[derive(Debug, Clone, Copy)]
pub struct FailedOver {
    /// The index of the former master among the servers.
    pub old: usize,
    /// The index of the new master.
    pub new: usize,
    /// The begin, in ms since the epoch by the servers' clock.
    pub began_ms: i64,
    /// The time until the new one considers itself the master, and clients are directed to it.
    pub took: Duration,
}

impl FailedOver {
    /// A failover that has just ended.
    pub fn ended(old: usize, new: usize, began: Instant) -> FailedOver {
        let took = began.elapsed();
        FailedOver { old, new, began_ms: now_ms().saturating_sub(millis(took)), took }
    }
}

/// Whether this time in ms is within a failover, or at most this long before its begin or after its end.
pub fn is_around(failovers: &[FailedOver], at_ms: i64, before_ms: i64, after_ms: i64) -> bool {
    let around = |failover: &FailedOver| {
        let end = failover.began_ms + millis(failover.took);
        (failover.began_ms - before_ms..=end + after_ms).contains(&at_ms)
    };
    failovers.iter().any(around)
}

/// Twenty failovers, half of them by a kill, for the long version.
pub fn many() -> Vec<Failover> {
    (0..20).map(|n| [Failover::Command, Failover::Kill][n % 2]).collect()
}

/// The time of this machine, and so of all servers on it, in ms.
#[allow(clippy::disallowed_methods, reason = "events of several servers are compared")]
pub fn now_ms() -> i64 {
    millis(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time after 1970"))
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).expect("a time before the year 292 million")
}

/// The source that names the master.
#[derive(Debug, Clone)]
pub enum Guide {
    /// The sentinel on this port.
    Sentinel(u16),
    /// The nodes on these ports, for this slot.
    Cluster(Vec<u16>, u64),
}

/// The offers.
#[derive(Default)]
pub struct Offered {
    /// What must arrive.
    pub oracle: Oracle,
    /// The due times by id.
    pub due: HashMap<String, i64>,
    /// The ids that all replicas acknowledged: no failover may lose them.
    pub sure: HashSet<String>,
    /// The ids that the master acknowledged.
    pub acknowledged: HashSet<String>,
}

/// A producer, which offers until it is stopped.
pub struct Producer {
    offered: Arc<Mutex<Offered>>,
    task: JoinHandle<()>,
}

impl Producer {
    /// Begins to offer `per_second` elements a second to the master, which has `replicas` replicas.
    pub fn start(guide: Guide, replicas: u32, queue: RedissonQueue, per_second: usize) -> Producer {
        let offered = Arc::new(Mutex::new(Offered::default()));
        let task = tokio::spawn(offer(guide, replicas, queue, per_second * 50 / 1_000, offered.clone()));
        Producer { offered, task }
    }

    /// Ends the producer, and returns the offers.
    pub async fn stop(self) -> Offered {
        self.task.abort();
        drop(self.task.await);
        Arc::into_inner(self.offered).expect("the task has ended").into_inner()
    }
}

async fn offer(guide: Guide, replicas: u32, queue: RedissonQueue, batch: usize, offered: Arc<Mutex<Offered>>) {
    let mut ticks = tokio::time::interval(BATCH);
    let mut connection = None;
    let mut at = None;
    loop {
        ticks.tick().await;
        let master = match &guide {
            // A former master may accept writes for ten more seconds, until a sentinel makes it a replica. A client
            // that follows the sentinels does not write there.
            Guide::Sentinel(port) => sentinels::master_of(*port).await.ok().flatten(),
            // A former master of a cluster answers MOVED.
            Guide::Cluster(..) if connection.is_some() => at,
            Guide::Cluster(ports, slot) => cluster::master_of(ports, *slot).await,
        };
        if connection.is_none() || master != at {
            at = master;
            connection = match at {
                Some(port) => connect(port).await,
                None => None,
            };
        }
        let Some(redis) = &mut connection else { continue };
        let now = match tokio::time::timeout(Duration::from_secs(1), time(redis)).await {
            Ok(Ok(now)) => now,
            _ => {
                connection = None;
                continue;
            }
        };
        let elements: Vec<_> = (0..batch)
            .map(|_| {
                Element::new(queue.layout, now + fastrand::i64(0..AHEAD_MS), format!("{:016x}", fastrand::u64(..)))
            })
            .collect();
        {
            // Recorded before they are sent, because they may arrive before the answer.
            let mut offered = offered.lock();
            offered.oracle.offered(&elements);
            offered.due.extend(elements.iter().map(|element| (element.id_text(), element.due_ms)));
        }
        match send(redis, replicas, &queue, &elements).await {
            Ok(have_it) => {
                let mut offered = offered.lock();
                offered.acknowledged.extend(elements.iter().map(Element::id_text));
                if have_it >= replicas {
                    offered.sure.extend(elements.iter().map(Element::id_text));
                }
            }
            Err(_) => connection = None,
        }
    }
}

async fn connect(port: u16) -> Option<MultiplexedConnection> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}/")).ok()?;
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(Duration::from_secs(1)))
        .set_response_timeout(Some(Duration::from_secs(2)));
    client.get_multiplexed_async_connection_with_config(&config).await.ok()
}

async fn time(redis: &mut MultiplexedConnection) -> redis::RedisResult<i64> {
    let (seconds, micros): (i64, i64) = redis::cmd("TIME").query_async(redis).await?;
    Ok(seconds * 1_000 + micros / 1_000)
}

/// Offers at once, and returns the number of replicas that have it.
async fn send(
    redis: &mut MultiplexedConnection,
    replicas: u32,
    queue: &RedissonQueue,
    elements: &[Element],
) -> redis::RedisResult<u32> {
    let scored: Vec<(i64, &[u8])> = elements.iter().map(|e| (e.due_ms, &e.member[..])).collect();
    let members: Vec<&[u8]> = elements.iter().map(|e| &e.member[..]).collect();
    let first = elements.iter().map(|e| e.due_ms).min().unwrap_or_default();
    let mut pipeline = redis::pipe();
    pipeline.atomic().zadd_multiple(&queue.timeouts, &scored).ignore().rpush(&queue.list, members).ignore();
    pipeline.publish(&queue.channel, first).ignore();
    pipeline.exec_async(redis).await?;
    redis::cmd("WAIT").arg(replicas).arg(200).query_async(redis).await
}

/// The verdict.
pub struct Judged {
    /// Number of elements that the master had acknowledged, and that the new one did not have.
    pub lost: usize,
    /// Number of repeated deliveries.
    pub duplicates: usize,
    /// Number of repeated deliveries that the daemon had not announced.
    pub unannounced: usize,
    /// The longest time without a delivery around each failover.
    pub pauses: Vec<Pause>,
}

/// The longest time without a delivery around a failover.
#[derive(Debug, Clone, Copy)]
pub struct Pause {
    /// The time in ms.
    pub length: i64,
    /// The time in ms from the begin of the failover to the next delivery.
    pub over_from_begin: i64,
    /// The time in ms from the switch of the servers to the next delivery.
    pub over_from_switch: i64,
}

impl Pause {
    /// The longest gap between these times (in order), of those that begin before the servers have another master.
    fn of(failover: &FailedOver, arrivals: &[i64]) -> Pause {
        let switch = failover.began_ms + millis(failover.took);
        let around = failover.began_ms - 100..=switch;
        let gaps = arrivals.windows(2).filter(|pair| around.contains(&pair[0]));
        let longest = gaps.max_by_key(|pair| pair[1] - pair[0]);
        let longest = longest.unwrap_or_else(|| panic!("nothing was delivered around {failover:?}"));
        let over = longest[1];
        Pause { length: over - longest[0], over_from_begin: over - failover.began_ms, over_from_switch: over - switch }
    }
}

/// Judges the deliveries; panics if an element is lost that the replicas had, was early, or was never offered.
pub fn judge(offered: &Offered, deliveries: &[Delivery], failovers: &[FailedOver], announced: usize) -> Judged {
    let report = offered.oracle.judge(deliveries);
    assert!(report.foreign.is_empty() && report.altered.is_empty(), "{report}");
    let lost: Vec<_> = report.missing.iter().filter(|id| offered.sure.contains(*id)).collect();
    assert!(lost.is_empty(), "{} elements that all replicas had are lost: {lost:?}; {report}", lost.len());
    let arrived = |delivery: &Delivery| delivery.arrived_ms.expect("a time");
    let early = deliveries.iter().filter(|delivery| {
        delivery.id.as_ref().and_then(|id| offered.due.get(id)).is_some_and(|due| arrived(delivery) < *due)
    });
    assert_eq!(early.count(), 0, "deliveries before their due time");
    Judged {
        lost: report.missing.iter().filter(|id| offered.acknowledged.contains(*id)).count(),
        duplicates: report.duplicates,
        unannounced: report.duplicates.saturating_sub(announced),
        pauses: pauses(failovers, deliveries),
    }
}

/// The longest time without a delivery around each failover.
pub fn pauses(failovers: &[FailedOver], deliveries: &[Delivery]) -> Vec<Pause> {
    let mut arrivals: Vec<_> = deliveries.iter().map(|delivery| delivery.arrived_ms.expect("a time")).collect();
    arrivals.sort_unstable();
    failovers.iter().map(|failover| Pause::of(failover, &arrivals)).collect()
}

/// The ids that were delivered more than once, with the times of their deliveries in ms.
pub fn doubled(deliveries: &[Delivery]) -> Vec<(String, Vec<i64>)> {
    let mut times: HashMap<&str, Vec<i64>> = HashMap::new();
    for delivery in deliveries {
        let id = delivery.id.as_deref().expect("an id");
        let at = delivery.arrived_ms.expect("a time");
        times.entry(id).or_default().push(at);
    }
    let doubled = times.into_iter().filter(|(_, times)| times.len() > 1);
    doubled.map(|(id, times)| (id.to_owned(), times)).collect()
}

/// Prints the times of the servers and the times without a delivery, for each way.
pub fn show(failovers: &[FailedOver], ways: &[Failover], pauses: &[Pause]) {
    for way in [Failover::Command, Failover::Kill] {
        let of_way = failovers.iter().zip(ways).zip(pauses).filter(|((_, of), _)| **of == way);
        let (took, pauses): (Vec<_>, Vec<_>) = of_way.map(|((done, _), pause)| (done.took, *pause)).unzip();
        println!("  {way:?}: {pauses:?}");
        summary("the servers took", took.into_iter().map(millis).collect());
        summary("without a delivery", pauses.iter().map(|pause| pause.length).collect());
        summary("deliveries from the begin", pauses.iter().map(|pause| pause.over_from_begin).collect());
    }
}

fn summary(what: &str, mut millis: Vec<i64>) {
    millis.sort_unstable();
    if let (Some(p50), Some(max)) = (millis.get(millis.len() / 2), millis.last()) {
        println!("  {what}: p50 {p50} ms, max {max} ms");
    }
}
