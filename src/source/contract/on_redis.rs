//! What the rigs on a real server share: the test's clock, and the keys of the ledger.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::{LIST, Parts, Places};
use crate::link::test_server::TestServer;
use crate::source::Score;
use crate::source::ledger::claims::ClaimName;
use crate::source::ledger::{DeadLetter, Keys, TEST_CLOCK};

/// The server's time when a rig is made, in ms: that of the store in memory.
const START_MS: i64 = 1_800_000_000_000;

/// The ledger of one queue, as an operator with all rights sees it.
pub(crate) struct OnRedis {
    pub admin: redis::aio::MultiplexedConnection,
    pub now_ms: i64,
    pub keys: Keys,
}

impl OnRedis {
    /// The clock of this server starts.
    pub(crate) async fn new(server: &TestServer, keys: Keys) -> Self {
        let mut on = OnRedis { admin: server.admin().await, now_ms: START_MS, keys };
        on.advance(Duration::ZERO).await;
        on
    }

    /// Sends commands that must succeed.
    pub(crate) async fn run(&mut self, pipe: &redis::Pipeline) {
        pipe.exec_async(&mut self.admin).await.expect("the server takes it");
    }

    pub(crate) async fn advance(&mut self, by: Duration) {
        self.now_ms += by.as_millis() as i64;
        let time = [self.now_ms / 1_000, self.now_ms % 1_000 * 1_000];
        self.run(redis::pipe().atomic().del(TEST_CLOCK).rpush(TEST_CLOCK, &time)).await;
    }

    pub(crate) async fn spoil_list(&mut self) {
        self.run(redis::pipe().set(&LIST[..], "no list")).await;
    }

    pub(crate) async fn add_lease(&mut self, name: &str, end_ms: i64) {
        let leases = self.keys.leases.clone();
        self.run(redis::pipe().zadd(&leases[..], name, end_ms)).await;
    }

    pub(crate) async fn forget_leases(&mut self) {
        let leases = self.keys.leases.clone();
        self.run(redis::pipe().del(&leases[..])).await;
    }

    pub(crate) async fn add_waiting(&mut self, member: &Bytes, at_ms: i64) {
        let retry = self.keys.retry.clone();
        self.run(redis::pipe().zadd(&retry[..], &member[..], at_ms)).await;
    }

    /// Members of a sorted set with their scores as Redis writes them.
    pub(crate) async fn scores(&mut self, key: &[u8]) -> Vec<(Bytes, Score)> {
        let mut command = redis::cmd("ZRANGE");
        command.arg(key).arg(0).arg(-1).arg("WITHSCORES");
        let flat: Vec<Vec<u8>> = command.query_async(&mut self.admin).await.expect("a sorted set");
        let score = |text: &[u8]| std::str::from_utf8(text).ok().and_then(Score::parse).expect("a score");
        flat.chunks(2).map(|pair| (pair[0].clone().into(), score(&pair[1]))).collect()
    }

    /// Members of a sorted set with their times in ms.
    pub(crate) async fn times(&mut self, key: &[u8]) -> Vec<(i64, Bytes)> {
        self.scores(key).await.into_iter().map(|(member, score)| (score.ceil_ms(), member)).collect()
    }

    /// All of a list; nothing where a test has made it something else.
    pub(crate) async fn list(&mut self, key: &[u8]) -> Vec<Bytes> {
        let found = redis::Cmd::lrange(key, 0, -1).query_async::<Vec<Vec<u8>>>(&mut self.admin).await;
        found.unwrap_or_default().into_iter().map(Bytes::from).collect()
    }

    /// The keys of claims of this queue.
    pub(crate) async fn claim_keys(&mut self) -> Vec<String> {
        let pattern = format!("delaybridge:claim:*:{}", self.keys.tag).replace('[', "\\[");
        redis::cmd("KEYS").arg(pattern).query_async(&mut self.admin).await.expect("the server answers")
    }

    /// The places of the ledger. `due_ms` reads the score of a bare element; those of the source are empty.
    pub(crate) async fn places(&mut self, due_ms: impl Fn(Score) -> i64) -> Places {
        let keys = self.keys.clone();
        let mut claims = BTreeMap::<ClaimName, Parts>::new();
        for key in self.claim_keys().await {
            let fields: Vec<_> = key.splitn(5, ':').collect();
            let held = self.scores(key.as_bytes()).await.into_iter();
            let parts = claims.entry(fields[2].parse().expect("the name of a claim")).or_default();
            match fields[3] {
                "d" => parts.bare = held.map(|(member, score)| (due_ms(score), member)).collect(),
                _ => parts.entries = held.map(|(member, score)| (score.ceil_ms(), member)).collect(),
            }
        }
        let letters: Vec<(String, Vec<Vec<u8>>)> =
            redis::Cmd::xrange_all(&keys.dead[..]).query_async(&mut self.admin).await.expect("a stream");
        let letter = |(stream_id, fields): (String, Vec<Vec<u8>>)| DeadLetter {
            stream_id,
            fields: fields
                .chunks(2)
                .map(|pair| (String::from_utf8_lossy(&pair[0]).into_owned(), pair[1].clone().into()))
                .collect(),
        };
        let name = |(end_ms, name): (i64, Bytes)| (end_ms, String::from_utf8_lossy(&name).into_owned());
        Places {
            scheduled: Vec::new(),
            ready: Vec::new(),
            leases: self.times(&keys.leases).await.into_iter().map(name).collect(),
            claims,
            waiting: self.times(&keys.retry).await,
            dead: letters.into_iter().map(letter).collect(),
            pushed: self.list(&LIST).await,
        }
    }
}
