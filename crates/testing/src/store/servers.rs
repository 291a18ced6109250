//! What a queue of a test on Redis is kept on: one server, a master with a replica, or two nodes of a cluster.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redis::aio::MultiplexedConnection;

use super::LIST;
use delaybridge_ledger::redis::RedisStore;
use delaybridge_ledger::{Source, to_share_looks};
use delaybridge_link::rights::command::LRANGE;
use delaybridge_link::rights::{Grant, Pattern, to_connect, to_follow_slots, to_load_scripts, to_wait};
use delaybridge_link::test_server::{TestServer, eventually, free_port, soon};
use delaybridge_link::{
    Address, ClusterTarget, Conn, Durability, DurableRedis, KeyPrefix, LinkOptions, Redis, RedisTarget, Script,
    TEST_CLOCK, slot,
};

/// The durability of claims on a master with a replica.
const NEED: Durability = Durability { replicas: 1, aof: false, timeout: Duration::from_millis(30) };

/// The servers. Clones share them; they end with the last.
#[derive(Clone)]
pub enum Servers {
    One(Arc<TestServer>),
    /// A master, and a replica that claims wait for.
    Replicated(Arc<[TestServer; 2]>),
    /// Two nodes with half of the slots each. The queue begins on the first.
    Cluster(Arc<[TestServer; 2]>),
}

impl Servers {
    pub fn one() -> Self {
        Servers::One(Arc::new(TestServer::start()))
    }

    pub fn replicated() -> Self {
        Servers::replicated_by(Path::new("redis-server"))
    }

    /// The same with servers of this program.
    pub fn replicated_by(program: &Path) -> Self {
        const AT_ONCE: [&str; 2] = ["--repl-diskless-sync-delay", "0"];
        let master = TestServer::of(program, &AT_ONCE);
        let port = master.port().to_string();
        let replica = TestServer::of(program, &[&AT_ONCE[..], &["--replicaof", "127.0.0.1", &port]].concat());
        Servers::Replicated(Arc::new([master, replica]))
    }

    pub async fn cluster() -> Self {
        let node = |epoch: &str| {
            let bus = free_port().to_string();
            let lines = ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", &bus];
            (TestServer::with(&lines), epoch.to_owned(), bus)
        };
        let nodes = [node("1"), node("2")];
        for (node, epoch, _) in &nodes {
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", epoch]).await;
        }
        let [(first, ..), (second, _, bus)] = &nodes;
        // The slot that moves is one of the first. A node that gave away its only slot would become a replica.
        first.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "8191"]).await;
        second.command(&["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"]).await;
        let port = second.port().to_string();
        let meet = ["CLUSTER", "MEET", "127.0.0.1", &port, bus];
        first.command(&meet).await;
        for (node, ..) in &nodes {
            let mut admin = node.admin().await;
            eventually("two nodes to be a cluster", async || {
                let info: String = redis::cmd("CLUSTER").arg("INFO").query_async(&mut admin).await.expect("an answer");
                if info.contains("cluster_known_nodes:1") {
                    // A meeting that takes longer than the time-out of a node, on a busy machine, is forgotten.
                    first.command(&meet).await;
                }
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2")
            })
            .await;
        }
        Servers::Cluster(Arc::new(nodes.map(|(node, ..)| node)))
    }

    pub fn all(&self) -> &[TestServer] {
        match self {
            Servers::One(server) => std::slice::from_ref(server),
            Servers::Replicated(servers) | Servers::Cluster(servers) => &servers[..],
        }
    }

    /// A connection with all rights to each of them.
    pub async fn admins(&self) -> Vec<MultiplexedConnection> {
        let mut admins = Vec::new();
        for server in self.all() {
            admins.push(server.admin().await);
        }
        admins
    }

    /// The same without keys.
    pub async fn emptied(&self) -> Self {
        for mut admin in self.admins().await {
            let emptied: Result<(), _> = redis::cmd("FLUSHALL").query_async(&mut admin).await;
            // A replica is emptied by its master.
            assert!(emptied.is_ok() || matches!(self, Servers::Replicated(_)), "{emptied:?}");
        }
        self.clone()
    }

    /// A name for a queue. In a cluster its slot is that of the test's clock, because scripts read both.
    pub fn name(&self, stem: &str) -> String {
        let beside = |name: &String| slot(name.as_bytes()) == slot(TEST_CLOCK.as_bytes());
        match self {
            Servers::Cluster(_) => (0..).map(|n| format!("{stem}{n}")).find(beside).expect("one in 16,384"),
            _ => stem.to_owned(),
        }
    }

    /// The key of the list of exactly-once pushes of the queue with this tag.
    pub fn list(&self, tag: &str) -> Bytes {
        match self {
            Servers::Cluster(_) => format!("pushed:{tag}").into(),
            _ => LIST,
        }
    }

    /// The connections of a daemon with these rights, and that to the clock of the test.
    pub async fn daemon(&self, user: &str, grants: impl IntoIterator<Item = Grant>, scripts: Vec<Script>) -> Daemon {
        let more = match self {
            Servers::One(_) => None,
            Servers::Replicated(_) => Some(to_wait(&NEED)),
            Servers::Cluster(_) => Some(to_follow_slots()),
        };
        let clock = Grant::on([Pattern::exact(TEST_CLOCK)], [LRANGE]);
        let share = to_share_looks(&KeyPrefix::default());
        let grants: Vec<_> =
            grants.into_iter().chain(more).chain([to_connect(0), to_load_scripts(), share, clock]).collect();
        let mut endpoints = self.all().iter().map(|server| server.endpoint_within(user, &grants));
        let servers = endpoints.next().expect("a server");
        let target = match self {
            Servers::One(_) | Servers::Replicated(_) => RedisTarget::Fixed(Arc::new(servers)),
            Servers::Cluster(_) => {
                // Every node has the user.
                assert_eq!(endpoints.count(), 1);
                let seed = Address { host: servers.host.as_str().into(), port: servers.port };
                RedisTarget::Cluster(Arc::new(ClusterTarget { seeds: vec![seed], servers }))
            }
        };
        let options = LinkOptions { scripts, heartbeat: Duration::from_secs(30), ..LinkOptions::default() };
        let redis = Redis::start(&target, options.clone());
        let durable = match self {
            Servers::Replicated(_) => Some(DurableRedis::beside(&redis, options, NEED)),
            _ => None,
        };
        let conn = soon("a connection", redis.at(TEST_CLOCK).ready()).await;
        drop(conn);
        Daemon { redis, durable }
    }
}

/// The connections of a daemon to its servers.
#[derive(Clone)]
pub struct Daemon {
    pub redis: Redis,
    /// The connection of its claims, where they wait for a replica.
    pub durable: Option<DurableRedis>,
}

impl Daemon {
    /// The queue of this source.
    pub fn store(&self, source: Arc<dyn Source>, owner: u8) -> RedisStore {
        RedisStore::new(&self.redis, source, [owner; 8]).durable(self.durable.as_ref())
    }

    /// The connection of everything else.
    pub fn conn(&self) -> Conn {
        self.redis.any().expect("a connection")
    }
}
