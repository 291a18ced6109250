//! The daemon on a Redis Cluster of real servers: three masters, each with a replica. It delivers to a stream on
//! another server, so that no delivery is lost with a node.

mod failures;
mod jobs;
pub mod redisson;
mod slots;
mod tls;

use std::ops::RangeBounds;
use std::time::{Duration, Instant};

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use harness::failovers::{FailedOver, Failover};
use harness::oracle::{Report, read_stream};
use harness::redisson::redis_now_ms;
use harness::{Daemon, Delivery, Element, Layout, Oracle, RedisCluster, RedisServer, RedissonQueue, eventually};

const PATIENCE: Duration = Duration::from_secs(60);

/// Number of queues, all in different slots and distributed over the three masters.
const QUEUES: usize = 12;

/// Whether the long versions run.
fn long() -> bool {
    std::env::var_os("DELAYBRIDGE_LONG").is_some()
}

/// A cluster with queues, a stream on another server, and the offers.
struct World {
    cluster: RedisCluster,
    done: RedisServer,
    queues: Vec<RedissonQueue>,
    oracle: Oracle,
    offered: Vec<usize>,
    /// The time from an offer to the due time of its last element.
    last: Duration,
}

impl World {
    async fn start(queues: usize) -> World {
        let (cluster, done) = tokio::join!(RedisCluster::start(), RedisServer::start());
        let queues: Vec<_> = (0..queues).map(|number| RedissonQueue::new(&format!("queue-{number}"))).collect();
        let offered = vec![0; queues.len()];
        World { cluster, done, queues, oracle: Oracle::new(), offered, last: Duration::ZERO }
    }

    async fn daemon(&self) -> Daemon {
        let queue = |queue: &RedissonQueue| {
            let name = &queue.name;
            format!("  {name}: {{ source: {{ redisson: {{ name: {name} }} }}, to: [{{ sink: done }}], lease: 15s }}\n")
        };
        let queues: String = self.queues.iter().map(queue).collect();
        let cluster = self.cluster.yaml();
        let done = self.done.url();
        let sinks = format!("{{ done: {{ redis: {{ url: {done}, stream: done, timeout: 10s }} }} }}");
        let mut daemon = Daemon::spawn(&format!("redis: {cluster}\nsinks: {sinks}\nqueues:\n{queues}"));
        daemon.wait_ready().await;
        daemon
    }

    /// Offers elements to one queue that fall due one after the other, the first after `first_ms`.
    async fn offer(&mut self, queue: usize, count: i64, first_ms: i64, apart_ms: i64) {
        let number = queue;
        let queue = &self.queues[queue];
        let mut redis = self.cluster.at(&queue.timeouts).await;
        let now = redis_now_ms(&mut redis).await;
        let element = |n| Element::new(Layout::New, now + first_ms + n * apart_ms, format!("{} {n}", queue.name));
        let elements: Vec<_> = (0..count).map(element).collect();
        queue.offer_bulk(&mut redis, &elements).await;
        self.oracle.offered(&elements);
        self.offered[number] += elements.len();
        self.last = self.last.max(Duration::from_millis(u64::try_from(first_ms + count * apart_ms).unwrap_or(0)));
    }

    async fn delivered(&self) -> Vec<Delivery> {
        read_stream(&mut self.done.client().await, "done").await
    }

    /// Waits until each of these queues has this many more deliveries than now, or all that were offered.
    async fn deliveries_go_on(&self, queues: &[usize], more: usize) {
        let counts = async || {
            let deliveries = self.delivered().await;
            let of = |queue: usize| {
                let name = Some(self.queues[queue].name.as_str());
                deliveries.iter().filter(|delivery| delivery.queue.as_deref() == name).count()
            };
            queues.iter().map(|queue| of(*queue)).collect::<Vec<_>>()
        };
        let before = counts().await;
        let wanted: Vec<_> = queues.iter().zip(before).map(|(queue, n)| self.offered[*queue].min(n + more)).collect();
        eventually("deliveries of every queue", PATIENCE, async || {
            let now = counts().await;
            if now.iter().zip(&wanted).all(|(now, wanted)| now >= wanted) {
                Ok(())
            } else {
                Err(format!("{now:?} of {wanted:?}"))
            }
        })
        .await;
    }

    async fn complete(&self) -> Report {
        let mut report = None;
        eventually("everything to arrive", self.last + PATIENCE, async || {
            report = Some(self.oracle.judge(&self.delivered().await).complete()?);
            Ok(())
        })
        .await;
        report.expect("it is complete")
    }

    async fn more_delivered(&self, count: usize) {
        let mut done = self.done.client().await;
        let so_far: usize = done.xlen("done").await.expect("count what arrived");
        eventually("deliveries", PATIENCE, async || match done.xlen::<_, usize>("done").await {
            Ok(found) if found >= so_far + count => Ok(()),
            found => Err(format!("{found:?} of {}", so_far + count)),
        })
        .await;
    }

    async fn emptied(&self, queue: usize) {
        let queue = &self.queues[queue];
        eventually("the queue to be empty", PATIENCE, async || {
            let mut redis = self.cluster.at(&queue.timeouts).await;
            let in_flight = queue.in_flight(&redis).await.map_err(|e| e.to_string())?;
            let scheduled: usize = redis.zcard(&queue.timeouts).await.map_err(|e| e.to_string())?;
            let retry: usize = redis.zcard(queue.bridge_key("retry")).await.map_err(|e| e.to_string())?;
            match scheduled + in_flight + retry {
                0 => Ok(()),
                _ => Err(format!("{scheduled} scheduled, {in_flight} in flight, {retry} to be retried")),
            }
        })
        .await;
    }

    /// Replaces the master of a queue in each of these ways, with `deliveries` deliveries before and after each.
    async fn fail_over(&mut self, queue: &RedissonQueue, ways: &[Failover], deliveries: usize) -> Vec<FailedOver> {
        let mut done = Vec::new();
        for way in ways {
            self.more_delivered(deliveries).await;
            self.cluster.let_votes_expire().await;
            let old = self.cluster.owner(&queue.timeouts).await;
            let began = Instant::now();
            let new = match way {
                Failover::Command => self.cluster.fail_over(old).await,
                Failover::Kill => self.cluster.kill(old).await,
            };
            done.push(FailedOver::ended(old, new, began));
            self.more_delivered(deliveries).await;
            if *way == Failover::Kill {
                self.cluster.nodes[old].boot().await.expect("a killed node starts again");
            }
            assert_eq!(self.cluster.replica_of(new).await, old);
        }
        done
    }

    /// The lateness of these queues' elements with due times in this range, in ms.
    async fn lateness(&self, queues: &[usize], due_ms: impl RangeBounds<i64>) -> Vec<i64> {
        let of = |delivery: &Delivery| {
            queues.iter().any(|number| delivery.queue.as_deref() == Some(&*self.queues[*number].name))
                && delivery.due_ms.is_some_and(|due| due_ms.contains(&due))
        };
        let late = |delivery: Delivery| Some(delivery.arrived_ms? - delivery.due_ms?);
        self.delivered().await.into_iter().filter(|delivery| of(delivery)).filter_map(late).collect()
    }

    /// The queues with this node as their master, and the others.
    async fn queues_at(&self, node: usize) -> (Vec<usize>, Vec<usize>) {
        let mut at = Vec::new();
        let mut elsewhere = Vec::new();
        for (number, queue) in self.queues.iter().enumerate() {
            if self.cluster.owner(&queue.timeouts).await == node { at.push(number) } else { elsewhere.push(number) }
        }
        (at, elsewhere)
    }
}

fn assert_first_attempts(deliveries: &[Delivery]) {
    let counted: Vec<_> = deliveries.iter().filter(|delivery| delivery.attempt != Some(1)).collect();
    assert!(counted.is_empty(), "attempts were counted: {counted:?}");
}

fn show_lateness(what: &str, mut late: Vec<i64>) {
    late.sort_unstable();
    let at = |share: f64| late.get(((late.len() as f64 - 1.0) * share) as usize).copied().unwrap_or(0);
    println!("{what}: {} elements, late p50 {} ms, p99 {} ms, max {} ms", late.len(), at(0.5), at(0.99), at(1.0));
}

#[tokio::test]
async fn twelve_queues_on_three_masters_are_drained() {
    let mut world = World::start(QUEUES).await;
    let mut used: Vec<usize> = Vec::new();
    for queue in 0..QUEUES {
        world.offer(queue, 200, -1_000, 5).await;
        used.push(world.cluster.owner(&world.queues[queue].timeouts).await);
    }
    used.sort_unstable();
    used.dedup();
    assert_eq!(used, [0, 1, 2], "every master has some of the queues");
    let mut daemon = world.daemon().await;
    assert_eq!(world.complete().await.duplicates, 0);
    assert_first_attempts(&world.delivered().await);
    // An announcement on any node reaches the one subscription.
    for queue in 0..QUEUES {
        let mut redis = world.cluster.at(&world.queues[queue].timeouts).await;
        let due = redis_now_ms(&mut redis).await + 300;
        let element = world.queues[queue].offer(&mut redis, due, "announced").await;
        world.oracle.offered([&element]);
    }
    world.complete().await;
    let announced: Vec<_> = world.delivered().await.split_off(200 * QUEUES);
    let late: Vec<_> =
        announced.iter().map(|delivery| delivery.arrived_ms.unwrap() - delivery.due_ms.unwrap()).collect();
    show_lateness("announced", late);
    // One connection for each master in use, one subscription on any node, and one that sometimes asks for the slot
    // map.
    let mut subscribed = 0;
    for node in &world.cluster.nodes {
        let clients: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut node.client().await).await.unwrap();
        let of = |what: &str| clients.lines().filter(|line| line.contains(what)).count();
        assert!(of("name=delaybridge") <= 1, "{clients}");
        subscribed += clients.lines().filter(|line| !line.contains(" sub=0 ")).count();
    }
    assert_eq!(subscribed, 1);
    assert_eq!(daemon.stop().await, 0);
    for queue in 0..QUEUES {
        world.emptied(queue).await;
    }
}

#[tokio::test]
async fn a_list_in_the_cluster_is_pushed_to_where_it_is() {
    let mut world = World::start(3).await;
    for queue in 0..3 {
        world.offer(queue, 50, -1_000, 1).await;
    }
    let queues: String = (0..3)
        .map(|n| {
            let name = format!("queue-{n}");
            let exactly = if n == 0 { ", list: '{queue-0}:ready', exactly_once: true" } else { "" };
            let list = if n == 0 { String::new() } else { format!(", list: 'ready-{n}'") };
            format!(
                "  {name}: {{ source: {{ redisson: {{ name: {name} }} }}, to: [{{ sink: own{list}{exactly} }}] }}\n"
            )
        })
        .collect();
    let yaml = format!("redis: {}\nsinks: {{ own: {{ redis: {{}} }} }}\nqueues:\n{queues}", world.cluster.yaml());
    let mut daemon = Daemon::start(&yaml).await;
    for list in ["{queue-0}:ready", "ready-1", "ready-2"] {
        let mut redis: MultiplexedConnection = world.cluster.at(list).await;
        eventually("the list to be full", PATIENCE, async || match redis.llen::<_, usize>(list).await {
            Ok(50) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test]
async fn streams_in_the_cluster_are_written_to_where_they_are() {
    let mut world = World::start(3).await;
    let queues: String = (0..3)
        .map(|n| {
            let to = format!("to: [{{ sink: own, stream: 'out-{n}' }}]");
            format!("  queue-{n}: {{ source: {{ redisson: {{ name: queue-{n} }} }}, {to} }}\n")
        })
        .collect();
    let yaml = format!("redis: {}\nsinks: {{ own: {{ redis: {{}} }} }}\nqueues:\n{queues}", world.cluster.yaml());
    let mut daemon = Daemon::start(&yaml).await;
    let arrived = async |world: &World, count: usize| {
        for stream in ["out-0", "out-1", "out-2"] {
            eventually("the stream to be full", PATIENCE, async || {
                let mut redis = world.cluster.at(stream).await;
                match redis.xlen::<_, usize>(stream).await {
                    Ok(found) if found == count => Ok(()),
                    other => Err(format!("{stream}: {other:?}")),
                }
            })
            .await;
        }
    };
    for queue in 0..3 {
        world.offer(queue, 50, -1_000, 1).await;
    }
    arrived(&world, 50).await;
    // One of them moves to another master while elements are written to it.
    let to = (world.cluster.owner("out-0").await + 1) % 3;
    for queue in 0..3 {
        world.offer(queue, 50, 0, 10).await;
    }
    world.cluster.move_slot("out-0", to).await;
    arrived(&world, 100).await;
    assert_eq!(daemon.metric("delaybridge_possible_duplicates_total").await, 0.0);
    assert_eq!(daemon.stop().await, 0);
}
