//! The daemon and a real RabbitMQ: deliveries, refusals and outages of the broker, and the resumption.

mod held;
mod messages;
mod outages;
mod parts;
mod quorum;

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use brokers::{Rabbit, RabbitOptions};

use crate::faults::rig::{PATIENCE, assert_complete, elements, settled};
use harness::amqp::Rabbits;
use harness::redisson::redis_now_ms;
use harness::{Daemon, Delivery, Oracle, RedisServer, RedissonQueue, Stopwatch, eventually};

/// Runs blocking code without blocking the other tasks of the test.
#[allow(clippy::disallowed_methods, reason = "the tests of this folder run on a runtime of several threads")]
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

/// A RabbitMQ for one test.
pub struct Broker {
    node: Arc<Rabbit>,
    /// The vhost as it follows in a URL.
    vhost: String,
}

impl Broker {
    /// A node for this test alone.
    fn own(rabbit: Rabbit) -> Self {
        Broker { node: Arc::new(rabbit), vhost: String::new() }
    }
}

impl Deref for Broker {
    type Target = Rabbit;

    fn deref(&self) -> &Rabbit {
        &self.node
    }
}

/// Starts a node for a test that stops it, limits it, or looks at all of it. A start keeps a processor busy for four
/// seconds: others take [`shared`].
pub fn start() -> Broker {
    start_with(RabbitOptions::default())
}

/// The same as [`start`], with these properties.
pub fn start_with(options: RabbitOptions) -> Broker {
    Broker::own(started(options))
}

/// A vhost of its own on a node that all such tests share.
pub fn shared() -> Broker {
    static NODE: OnceLock<Arc<Rabbit>> = OnceLock::new();
    static VHOSTS: AtomicU32 = AtomicU32::new(1);
    blocking(|| {
        let node = NODE.get_or_init(|| Arc::new(started(RabbitOptions::default())));
        let vhost = format!("v{}", VHOSTS.fetch_add(1, Ordering::Relaxed));
        node.add_vhost(&vhost).expect("create a vhost");
        node.set_permissions(&vhost, "guest", [".*", ".*", ".*"]).expect("give guest all rights");
        Broker { node: node.clone(), vhost: format!("/{vhost}") }
    })
}

fn started(options: RabbitOptions) -> Rabbit {
    blocking(|| Rabbit::start_with(options)).unwrap_or_else(|e| panic!("start RabbitMQ: {e}"))
}

pub fn url(rabbit: &Broker) -> String {
    format!("amqp://127.0.0.1:{}{}", rabbit.port(), rabbit.vhost)
}

/// A queue `q` into the exchange `orders` and from there into the queue `arrived`; `amqp` has further keys of the sink.
fn yaml(server: &RedisServer, rabbit: &Broker, amqp: &str, queue: &str) -> String {
    format!(
        "redis: {{ url: '{}' }}\n\
         retry: {{ strict: {{ max_attempts: 3, initial_interval: 10ms, max_interval: 100ms }} }}\n\
         sinks: {{ out: {{ amqp: {{ url: '{}', exchange: orders, routing_key: due, heartbeat: 2s, timeout: 5s, {amqp} }} }} }}\n\
         queues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, retry: strict, lease: 20s, {queue}, \
         to: [{{ sink: out }}] }} }}\n",
        server.url(),
        url(rabbit)
    )
}

/// The keys that declare the exchange and a durable queue on it, so that deliveries survive the broker.
const DECLARE: &str = "topology: declare, declare: { queue: { name: arrived, type: classic } }";

/// Offers `count` elements that fall due within `spread`, and records them.
async fn offer(server: &RedisServer, oracle: &mut Oracle, name: &str, count: usize, spread: Duration) {
    let mut redis = server.client().await;
    let queue = RedissonQueue::new("q");
    let now = redis_now_ms(&mut redis).await;
    let offered = elements(&queue, name, count, now, i64::try_from(spread.as_millis()).expect("a short time"));
    oracle.offered(&offered);
    queue.offer_bulk(&mut redis, &offered).await;
}

/// The deliveries so far, taken out of the broker's queue.
struct Arrived {
    url: String,
    deliveries: Vec<Delivery>,
    /// The message ids so far: a killed broker forgets the last acknowledgements, and delivers those messages again.
    /// Each publish has an id of its own, so that a second publish differs.
    message_ids: HashSet<Vec<u8>>,
}

impl Arrived {
    fn at(rabbit: &Broker) -> Self {
        Arrived { url: url(rabbit), deliveries: Vec::new(), message_ids: HashSet::new() }
    }

    /// Waits until every element has arrived.
    async fn all(&mut self, queue: &str, oracle: &Oracle) -> &[Delivery] {
        eventually("every element to arrive in the queue", 2 * PATIENCE, async || {
            // A connection for each look: the broker may be restarting.
            let mut rabbits = Rabbits::connect(&self.url).await?;
            for delivery in rabbits.take_all(queue).await? {
                let message_id = delivery.headers.get("property:message_id").expect("a message id").clone();
                if self.message_ids.insert(message_id) {
                    self.deliveries.push(delivery);
                }
            }
            oracle.judge(&self.deliveries).complete().map(drop)
        })
        .await;
        &self.deliveries
    }
}

/// Checks that everything has arrived, with nothing left in Redis, no dead letter, and no unannounced duplicate.
async fn judge(what: &str, daemon: &Daemon, server: &RedisServer, arrived: &mut Arrived, oracle: &Oracle) {
    arrived.all("arrived", oracle).await;
    settled(&mut server.client().await, &RedissonQueue::new("q")).await;
    // The last settled elements may still be in the broker's queue.
    let report = oracle.judge(arrived.all("arrived", oracle).await);
    let announced = assert_complete(&report, &[daemon]).await;
    println!("{what}: {report}, {announced} announced; {} MiB resident", daemon.usage().resident >> 20);
}

/// Whether to run longer, with `DELAYBRIDGE_LONG=1`.
fn long() -> bool {
    std::env::var_os("DELAYBRIDGE_LONG").is_some()
}
