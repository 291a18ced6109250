//! A server, the job queue on it, and a plain connection for inspection; the test sets the clock of the scripts.

use std::collections::BTreeMap;
use std::sync::Arc;

use delaybridge_jobs::{JobQueue, JobSettings, Scripts, Topic, rights};
use delaybridge_link::RedisEndpoint;
use delaybridge_link::rights::{Dialect, Rules, to_connect, to_follow_slots, to_load_scripts};
use delaybridge_link::{Address, Clock, ClusterTarget, LinkOptions, Redis, RedisTarget, TEST_CLOCK};
use delaybridge_settings::Secret;
use redis::aio::MultiplexedConnection;

use harness::{RedisServer, ServerOptions, cluster};

/// The environment of one test, or of one thread of the random test.
pub struct Rig {
    servers: Vec<RedisServer>,
    library: Redis,
    /// The connection that reads the keys.
    pub redis: MultiplexedConnection,
    /// The other node, if there are two.
    pub other: Option<MultiplexedConnection>,
}

/// The data of one topic in Redis.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub due: BTreeMap<String, i64>,
    pub reserved: BTreeMap<String, i64>,
    pub records: BTreeMap<String, Vec<u8>>,
    pub state: BTreeMap<String, Vec<u8>>,
    pub dead: BTreeMap<String, i64>,
    pub expiry: BTreeMap<String, i64>,
    pub gone: BTreeMap<String, i64>,
    pub urgent: BTreeMap<String, i64>,
    pub unique: BTreeMap<String, i64>,
    pub holders: BTreeMap<String, Vec<u8>>,
    pub firings: BTreeMap<String, i64>,
    pub recurring: BTreeMap<String, Vec<u8>>,
}

/// The topic of all histories, in the same slot as the test's clock, because scripts read both.
pub const TOPIC: &str = "orders:29648";

pub fn topic() -> Topic {
    TOPIC.parse().expect("a topic")
}

pub fn key(word: &str) -> String {
    format!("delaybridge:jobs:{word}:{{{TOPIC}}}")
}

/// The scripts with the test's clock.
pub fn on_test_clock() -> &'static Scripts {
    static SCRIPTS: std::sync::LazyLock<Scripts> = std::sync::LazyLock::new(|| Scripts::new(Clock::Test));
    &SCRIPTS
}

impl Rig {
    /// Starts a server; the library logs in with exactly the rights that it declares.
    pub async fn start() -> Rig {
        Rig::start_with(ServerOptions::default()).await
    }

    pub async fn start_with(options: ServerOptions) -> Rig {
        let server = RedisServer::start_with(options).await;
        let endpoint = least_rights(&server).await;
        Rig::over(vec![server], RedisTarget::Fixed(Arc::new(endpoint))).await
    }

    /// Starts two nodes of a cluster. The topic begins on the first.
    pub async fn on_two_nodes() -> Rig {
        let nodes = cluster::two_nodes().await;
        let seeds = vec![Address { host: "127.0.0.1".into(), port: nodes[0].port() }];
        let servers = least_rights(&nodes[0]).await;
        least_rights(&nodes[1]).await;
        Rig::over(nodes.into(), RedisTarget::Cluster(Arc::new(ClusterTarget { seeds, servers }))).await
    }

    async fn over(servers: Vec<RedisServer>, target: RedisTarget) -> Rig {
        let library = Redis::start(&target, LinkOptions::default());
        library.at(key("due")).ready().await;
        let redis = servers[0].client().await;
        let other = match servers.get(1) {
            Some(server) => Some(server.client().await),
            None => None,
        };
        Rig { servers, library, redis, other }
    }

    pub fn queue(&self, settings: JobSettings, scripts: &'static Scripts) -> JobQueue {
        JobQueue::new(&self.library, settings, scripts)
    }

    pub fn url(&self) -> String {
        self.servers[0].url()
    }

    /// Exchanges the nodes after the topic has moved to the other one.
    pub fn swap(&mut self) {
        self.servers.swap(0, 1);
        std::mem::swap(&mut self.redis, self.other.as_mut().expect("two nodes"));
    }

    pub fn ports(&self) -> Vec<u16> {
        self.servers.iter().map(RedisServer::port).collect()
    }

    /// The dumps of all keys except the clock.
    pub async fn save(&mut self) -> Dump {
        dump(&mut self.redis, false).await
    }

    /// Restores the saved keys, and removes all others except the clock.
    pub async fn restore(&mut self, saved: &[(Vec<u8>, Vec<u8>)], now_ms: i64) {
        let mut pipe = redis::pipe();
        pipe.atomic().cmd("FLUSHALL");
        for (key, dump) in saved {
            pipe.cmd("RESTORE").arg(key).arg(0).arg(dump);
        }
        pipe.exec_async(&mut self.redis).await.expect("restore all keys");
        self.set_clock(now_ms).await;
    }

    /// Empties the server, and sets the clock of the scripts.
    pub async fn begin(&mut self, now_ms: i64) {
        for node in std::iter::once(&mut self.redis).chain(&mut self.other) {
            redis::cmd("FLUSHALL").exec_async(node).await.expect("empty the server");
        }
        self.set_clock(now_ms).await;
    }

    pub async fn set_clock(&mut self, now_ms: i64) {
        let time = [now_ms / 1000, now_ms % 1000 * 1000];
        let mut pipe = redis::pipe();
        pipe.atomic()
            .del(TEST_CLOCK)
            .rpush(TEST_CLOCK, &time)
            .exec_async(&mut self.redis)
            .await
            .expect("set the clock");
    }

    /// Counts the commands of one call, with those of its script.
    pub async fn commands(&mut self, call: impl Future<Output = ()>) -> u64 {
        redis::cmd("CONFIG").arg("RESETSTAT").exec_async(&mut self.redis).await.expect("reset");
        call.await;
        let info: String = redis::cmd("INFO").arg("commandstats").query_async(&mut self.redis).await.expect("info");
        let of = |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok();
        info.lines().filter(|line| !line.contains("config")).filter_map(of).sum()
    }

    pub async fn snapshot(&mut self) -> Snapshot {
        let mut pipe = redis::pipe();
        for word in ["due", "reserved", "dead", "expiry", "gone", "urgent", "unique", "firings"] {
            pipe.cmd("ZRANGE").arg(key(word)).arg(0).arg(-1).arg("WITHSCORES");
        }
        pipe.hgetall(key("records")).hgetall(key("state")).hgetall(key("holders"));
        pipe.hgetall(key("recurring"));
        type Scores = Vec<(String, i64)>;
        type Fields = BTreeMap<String, Vec<u8>>;
        let (due, reserved, dead, expiry, gone, urgent, unique, firings, records, state, holders, recurring): (
            Scores,
            Scores,
            Scores,
            Scores,
            Scores,
            Scores,
            Scores,
            Scores,
            Fields,
            Fields,
            Fields,
            Fields,
        ) = pipe.query_async(&mut self.redis).await.expect("read the keys");
        let map = |scores: Scores| scores.into_iter().collect();
        Snapshot {
            due: map(due),
            reserved: map(reserved),
            records,
            state,
            dead: map(dead),
            expiry: map(expiry),
            gone: map(gone),
            urgent: map(urgent),
            unique: map(unique),
            holders,
            firings: map(firings),
            recurring,
        }
    }
}

/// Keys with their dumped contents.
pub type Dump = Vec<(Vec<u8>, Vec<u8>)>;

/// Dumps all keys of a server except the clock.
pub async fn dump(node: &mut MultiplexedConnection, ask: bool) -> Dump {
    let mut keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("delaybridge:jobs:*").query_async(node).await.expect("keys");
    keys.sort();
    let mut pipe = redis::pipe();
    for key in &keys {
        if ask {
            pipe.cmd("ASKING").ignore();
        }
        pipe.cmd("DUMP").arg(key);
    }
    let dumps: Vec<Vec<u8>> =
        if keys.is_empty() { Vec::new() } else { pipe.query_async(node).await.expect("their contents") };
    keys.into_iter().zip(dumps).collect()
}

/// A login with the rights that the scripts of the job queue need, and with access to the clock of the test.
async fn least_rights(server: &RedisServer) -> RedisEndpoint {
    let grants = rights(&Default::default())
        .into_iter()
        .chain([to_connect(0), to_load_scripts(), to_follow_slots()])
        .collect::<Vec<_>>();
    let dialect = if server.major() < 7 { Dialect::Flat } else { Dialect::Selectors };
    let mut user = redis::cmd("ACL");
    user.arg("SETUSER").arg("jobs").arg(&["on", ">secret", "resetchannels", "-@all"]);
    Rules::of(&grants, dialect).iter().for_each(|rule| {
        user.arg(rule);
    });
    match dialect {
        Dialect::Flat => user.arg(format!("~{TEST_CLOCK}")).arg("+lrange"),
        Dialect::Selectors => user.arg(format!("(%R~{TEST_CLOCK} +lrange)")),
    };
    user.exec_async(&mut server.client().await).await.expect("make a user");
    let password = Some(Secret::Literal("secret".into()));
    RedisEndpoint { username: Some("jobs".to_owned()), password, ..server.endpoint() }
}
