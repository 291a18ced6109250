//! A queue on a server of its own, as one daemon uses it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use delaybridge_config::load_str;
use delaybridge_core::template::Template;
use delaybridge_ledger::Hints;
use delaybridge_ledger::claims::{ClaimName, ClaimReply, ClaimRequest, ClaimScripts, Claimed, Element};
use delaybridge_link::{Conn, Link, LinkOptions, Side};
use delaybridge_link::{RedisEndpoint, TEST_CLOCK};
use delaybridge_sink_redis::KeyTarget;
use delaybridge_source::redisson::Redisson;
use redis::aio::MultiplexedConnection;

use harness::{RedisServer, least};

/// The owner that claims.
pub const A: [u8; 8] = [1; 8];
/// Another owner.
pub const B: [u8; 8] = [2; 8];
/// The lease of the claims.
pub const LEASE: Duration = Duration::from_secs(10);

/// The environment of one test.
pub struct Rig {
    /// The time of Redis in ms.
    pub now_ms: i64,
    /// The connection for the calls.
    pub conn: Conn,
    /// The connection that plays all other clients.
    pub redis: MultiplexedConnection,
    pub queue: Redisson,
    _link: Link,
    pub server: RedisServer,
}

impl Rig {
    /// Starts a queue of which everything is consumed, with the list cleaned up as far as that is cheap.
    pub async fn start() -> Rig {
        Rig::with("").await
    }

    /// The same with an addition to the configuration of the source. The calls are made with the rights of a daemon.
    pub async fn with(source: &str) -> Rig {
        let server = RedisServer::start().await;
        let options = LinkOptions { heartbeat: Duration::from_secs(30), ..LinkOptions::default() };
        let (endpoint, queue) = queue(&server, source);
        let link = Link::start(Arc::new(endpoint), options);
        let conn = link.ready().await;
        let redis = server.client().await;
        let mut rig = Rig { now_ms: 1_800_000_000_000, conn, redis, queue, _link: link, server };
        rig.advance(Duration::ZERO).await;
        rig
    }

    /// Advances the clock of the scripts.
    pub async fn advance(&mut self, by: Duration) {
        self.now_ms += by.as_millis() as i64;
        let time = [self.now_ms / 1_000, self.now_ms % 1_000 * 1_000];
        redis::pipe().atomic().del(TEST_CLOCK).rpush(TEST_CLOCK, &time).exec_async(&mut self.redis).await.unwrap();
    }

    /// Offers elements, due this long from now, as Redisson does.
    pub async fn offer(&mut self, elements: &[(Vec<u8>, i64)]) {
        let zset = self.queue.keys.delayed.clone();
        let list = self.queue.keys.list.clone();
        let mut pipe = redis::pipe();
        for (element, after_ms) in elements {
            pipe.zadd(&zset[..], &element[..], self.now_ms + after_ms).rpush(&list[..], &element[..]);
        }
        pipe.exec_async(&mut self.redis).await.unwrap();
    }

    /// Runs a command, and returns its answer.
    pub async fn ask<T: redis::FromRedisValue>(&mut self, command: &mut redis::Cmd) -> T {
        command.query_async(&mut self.redis).await.unwrap()
    }

    /// The content of L.
    pub async fn list(&mut self) -> Vec<Vec<u8>> {
        let list = self.queue.keys.list.clone();
        self.ask(redis::cmd("LRANGE").arg(&list[..]).arg(0).arg(-1)).await
    }

    /// The calls on claims.
    pub fn claims(&self) -> ClaimScripts<'_> {
        self.queue.claims()
    }

    /// A request for a claim without limits.
    pub fn request(&self, number: u64) -> ClaimRequest {
        ClaimRequest {
            name: ClaimName::new(A, number),
            not_after_ms: self.now_ms + 1_000,
            lease: LEASE,
            ahead: Duration::ZERO,
            most: 500,
            bytes: 1 << 20,
            rotation: 0,
            hints: Hints::default(),
            back_before_ms: None,
        }
    }

    /// Claims without limits.
    pub async fn claim(&self, number: u64) -> Claimed {
        match self.claims().claim(&self.conn, &self.request(number)).await.unwrap() {
            ClaimReply::Claimed(claimed) => claimed,
            other => panic!("{other:?}"),
        }
    }
}

const CONFIG: &str = "
redis: { url: URL }
sinks: { out: { redis: {} } }
queues:
  orders:
    source: { redisson: { name: ordersSOURCE } }
    to: [{ sink: out, list: pushed }]
    dead_letter: { stream: { max_len: 5, allow_loss: true } }
";

/// A login with the rights of a daemon and access to the clock of the test, and the queue.
fn queue(server: &RedisServer, source: &str) -> (RedisEndpoint, Redisson) {
    let yaml = CONFIG.replace("URL", &server.url()).replace("SOURCE", source);
    let mut config = load_str(&yaml, "ledger.yaml", &|_| None).unwrap_or_else(|errors| panic!("{errors}")).config;
    let spec = config.queues[0].clone();
    // Lists with pushes at both ends, which one queue cannot have.
    let right = ["pushed", "text", "{orders}:out"].map(|list| (list, Side::Right));
    for (list, push) in right.into_iter().chain([("pushed", Side::Left)]) {
        let mut spec = (*spec).clone();
        let list = Template::compile(list).expect("a text");
        spec.to[0].target = Arc::new(KeyTarget::list(list, push, true));
        config.queues.push(Arc::new(spec));
    }
    let source = spec.source.redisson().expect("a queue of Redisson");
    let clock = format!("(%R~{TEST_CLOCK} +lrange)");
    (least::endpoint(server.endpoint(), &config, &[&clock]), Redisson::configured(source, A).on_test_clock())
}

/// An element with this number as Redisson writes it: the id in the first bytes.
pub fn element(n: u64) -> Vec<u8> {
    [&n.to_be_bytes()[..], &[7; 24]].concat()
}

/// The bytes that the producer wrote.
pub fn bytes(elements: &[Element]) -> Vec<Bytes> {
    elements.iter().map(Element::bytes).collect()
}
