//! A server, a connection of the library to it, and a plain one that looks; the clock of the scripts in the test's hand.

use std::sync::Arc;
use std::time::Duration;

use delaybridge::config::{RedisEndpoint, load_str};
use delaybridge::link::{Conn, Link, LinkOptions, Side};
use delaybridge::sink::redis::RedisTarget;
use delaybridge::source::ledger::TEST_CLOCK;
use delaybridge::source::redisson::ListCleanup;
use delaybridge::source::redisson::Redisson;
use delaybridge::template::Template;
use redis::aio::MultiplexedConnection;

use crate::harness::{RedisServer, ServerOptions, least};

/// What one test, or one thread of the random test, runs against.
pub struct Rig {
    /// What it runs on.
    pub server: RedisServer,
    /// Kept: the connection ends with it.
    _link: Link,
    /// What the library's wrappers are called with.
    pub conn: Conn,
    /// Reads the keys and plays all other clients.
    pub redis: MultiplexedConnection,
}

impl Rig {
    /// A rig on a server without limits.
    pub async fn start() -> Rig {
        Rig::start_with(ServerOptions::default()).await
    }

    /// A rig on a server of that kind.
    pub async fn start_with(options: ServerOptions) -> Rig {
        let server = RedisServer::start_with(options).await;
        // The silence of a server that is busy with a neighbour's work is not what is tested here.
        let options = LinkOptions { heartbeat: Duration::from_secs(30), ..LinkOptions::default() };
        let link = Link::start(Arc::new(least_rights(&server)), options);
        let conn = link.ready().await;
        let redis = server.client().await;
        Rig { server, _link: link, conn, redis }
    }

    /// Sets the clock of the scripts.
    pub async fn set_clock(&mut self, now_us: i64) {
        redis::pipe()
            .atomic()
            .del(TEST_CLOCK)
            .rpush(TEST_CLOCK, &[now_us / 1_000_000, now_us % 1_000_000])
            .exec_async(&mut self.redis)
            .await
            .unwrap();
    }

    /// Runs one command and drops its answer.
    pub async fn run(&mut self, command: &mut redis::Cmd) {
        command.exec_async(&mut self.redis).await.unwrap();
    }
}

/// A login that may do what the scripts of the queue need, and read the clock of the test.
fn least_rights(server: &RedisServer) -> RedisEndpoint {
    let config = load_str(&CONFIG.replace("URL", &server.url()), "model.yaml", &|_| None);
    let mut config = config.unwrap_or_else(|errors| panic!("{errors}")).config;
    // Lists with pushes at both ends, which one queue cannot have.
    let spec = config.queues[0].clone();
    for (list, push) in [("pushed", Side::Left), ("pushed", Side::Right), ("no list", Side::Right)] {
        let mut spec = (*spec).clone();
        let list = Template::compile(list).expect("a text");
        spec.to[0].target = Arc::new(RedisTarget::List { list, push, exactly_once: true });
        // Dead letters are forwarded as well.
        spec.dead_letter_to = Some(spec.to[0].clone());
        config.queues.push(Arc::new(spec));
    }
    least::endpoint(server.endpoint(), &config, &[&format!("(%R~{TEST_CLOCK} +lrange)")])
}

const CONFIG: &str = "
redis: { url: URL }
sinks: { out: { redis: {} } }
queues:
  orders:
    source: { redisson: { name: orders } }
    to: [{ sink: out, list: pushed }]
    dead_letter: { stream: { max_len: 5, allow_loss: true } }
";

/// A daemon's view of the queue, under the test's clock.
pub fn source(name: &str, owner: u8, cleanup: ListCleanup) -> Redisson {
    Redisson::new(name, [owner; 8], true, true, cleanup).on_test_clock()
}
