//! A server, the job queue over it, and a plain connection that looks; the clock of the scripts is in the test's hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use delaybridge::config::{RedisEndpoint, Secret};
use delaybridge::jobs::{JobQueue, JobSettings, Scripts, Topic, rights};
use delaybridge::link::rights::{Dialect, Rules, to_connect, to_load_scripts};
use delaybridge::link::{Clock, Link, LinkOptions, TEST_CLOCK};
use redis::aio::MultiplexedConnection;

use crate::harness::{RedisServer, ServerOptions};

/// What one test, or one thread of the random test, runs against.
pub struct Rig {
    /// Ends with it.
    _server: RedisServer,
    pub link: Link,
    /// Reads the keys.
    pub redis: MultiplexedConnection,
}

/// What is in Redis of one topic.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub due: BTreeMap<String, i64>,
    pub reserved: BTreeMap<String, i64>,
    pub records: BTreeMap<String, Vec<u8>>,
    pub state: BTreeMap<String, Vec<u8>>,
    pub dead: BTreeMap<String, i64>,
    pub expiry: BTreeMap<String, i64>,
    pub gone: BTreeMap<String, i64>,
}

pub fn topic() -> Topic {
    "orders:1".parse().expect("a topic")
}

pub fn key(word: &str) -> String {
    format!("delaybridge:jobs:{word}:{{orders:1}}")
}

/// The scripts under the test's clock.
pub fn on_test_clock() -> &'static Scripts {
    static SCRIPTS: std::sync::LazyLock<Scripts> = std::sync::LazyLock::new(|| Scripts::new(Clock::Test));
    &SCRIPTS
}

impl Rig {
    /// The library logs in with the rights that it says it needs, and no others.
    pub async fn start() -> Rig {
        Rig::start_with(ServerOptions::default()).await
    }

    pub async fn start_with(options: ServerOptions) -> Rig {
        let server = RedisServer::start_with(options).await;
        let mut redis = server.client().await;
        let grants: Vec<_> = rights().into_iter().chain([to_connect(0), to_load_scripts()]).collect();
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
        user.exec_async(&mut redis).await.expect("make a user");
        let password = Some(Secret::Literal("secret".into()));
        let endpoint = RedisEndpoint { username: Some("jobs".to_owned()), password, ..server.endpoint() };
        let link = Link::start(Arc::new(endpoint), LinkOptions::default());
        link.ready().await;
        Rig { _server: server, link, redis }
    }

    pub fn queue(&self, settings: JobSettings, scripts: &'static Scripts) -> JobQueue {
        JobQueue::new(self.link.clone(), settings, scripts)
    }

    /// Empties the server, and sets the clock of the scripts.
    pub async fn begin(&mut self, now_ms: i64) {
        redis::cmd("FLUSHALL").exec_async(&mut self.redis).await.expect("empty the server");
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

    pub async fn snapshot(&mut self) -> Snapshot {
        let mut pipe = redis::pipe();
        for word in ["due", "reserved", "dead", "expiry", "gone"] {
            pipe.cmd("ZRANGE").arg(key(word)).arg(0).arg(-1).arg("WITHSCORES");
        }
        pipe.hgetall(key("records")).hgetall(key("state"));
        type Scores = Vec<(String, i64)>;
        type Fields = BTreeMap<String, Vec<u8>>;
        let (due, reserved, dead, expiry, gone, records, state): (
            Scores,
            Scores,
            Scores,
            Scores,
            Scores,
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
        }
    }
}
