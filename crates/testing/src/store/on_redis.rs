//! What the rigs on a real server share: the test's clock, and the keys of the ledger.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;

use super::servers::Servers;
use super::{Parts, Places, Rig};
use delaybridge_ledger::claims::ClaimName;
use delaybridge_ledger::{DeadLetter, Keys};
use delaybridge_link::{Score, TEST_CLOCK};

/// A rig on a real Redis.
pub trait Served: Rig {
    /// The keys of the queue, and the servers that have them.
    fn on(&mut self) -> &mut OnRedis;
}

/// The server's time when a rig is made, in ms: that of the store in memory.
const START_MS: i64 = 1_800_000_000_000;

/// All keys of a server but the clock, with what they hold, as Redis dumps it.
pub(super) async fn dump(node: &mut MultiplexedConnection, ask: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query_async(node).await.expect("the server answers");
    keys.retain(|key| key != TEST_CLOCK.as_bytes());
    keys.sort();
    let mut pipe = redis::pipe();
    for key in &keys {
        if ask {
            pipe.cmd("ASKING").ignore();
        }
        pipe.cmd("DUMP").arg(key);
    }
    let dumps: Vec<Vec<u8>> =
        if keys.is_empty() { Vec::new() } else { pipe.query_async(node).await.expect("the server answers") };
    keys.into_iter().zip(dumps).collect()
}

/// The ledger of one queue, as an operator with all rights sees it.
pub struct OnRedis {
    pub admin: MultiplexedConnection,
    /// The replica, or the other node of the cluster.
    pub(super) beside: Option<MultiplexedConnection>,
    /// The ports of both servers.
    pub(super) ports: Vec<u16>,
    /// Whether the slot of the queue is on its way from one node to the other.
    pub(super) moving: bool,
    /// A state of the server that was noted.
    saved: Vec<(Vec<u8>, Vec<u8>)>,
    pub now_ms: i64,
    pub keys: Keys,
    /// The list of exactly-once pushes.
    pub list: Bytes,
}

impl OnRedis {
    /// The clock of this server starts.
    pub async fn new(servers: &Servers, keys: Keys) -> Self {
        let mut admins = servers.admins().await.into_iter();
        let mut on = OnRedis {
            admin: admins.next().expect("a server"),
            beside: admins.next(),
            ports: servers.all().iter().map(|server| server.port()).collect(),
            moving: false,
            saved: Vec::new(),
            now_ms: START_MS,
            list: servers.list(&keys.tag),
            keys,
        };
        on.advance(Duration::ZERO).await;
        on
    }

    /// Sends commands that must succeed.
    pub async fn run(&mut self, pipe: &redis::Pipeline) {
        pipe.exec_async(&mut self.admin).await.expect("the server takes it");
    }

    pub async fn advance(&mut self, by: Duration) {
        self.now_ms += by.as_millis() as i64;
        let time = [self.now_ms / 1_000, self.now_ms % 1_000 * 1_000];
        self.run(redis::pipe().atomic().del(TEST_CLOCK).rpush(TEST_CLOCK, &time)).await;
        if self.moving {
            let mut pipe = redis::pipe();
            pipe.cmd("ASKING").ignore().del(TEST_CLOCK).cmd("ASKING").ignore().rpush(TEST_CLOCK, &time);
            pipe.exec_async(self.beside()).await.expect("the other node takes the clock");
        }
    }

    /// The replica, or the other node of the cluster.
    pub(super) fn beside(&mut self) -> &mut MultiplexedConnection {
        self.beside.as_mut().expect("two servers")
    }

    /// Reads one key, wherever it is while its slot moves.
    async fn read<T: FromRedisValue>(&mut self, command: &redis::Cmd) -> redis::RedisResult<T> {
        let found = command.query_async(&mut self.admin).await;
        match (found, &mut self.beside) {
            (Err(error), Some(beside)) if error.code() == Some("ASK") => {
                let mut pipe = redis::pipe();
                let (found,): (T,) =
                    pipe.cmd("ASKING").ignore().add_command(command.clone()).query_async(beside).await?;
                Ok(found)
            }
            (found, _) => found,
        }
    }

    pub async fn save(&mut self) {
        self.saved = dump(&mut self.admin, false).await;
    }

    pub async fn fall_back(&mut self) {
        let mut pipe = redis::pipe();
        pipe.atomic().cmd("FLUSHDB");
        for (key, dump) in &self.saved {
            pipe.cmd("RESTORE").arg(key).arg(0).arg(dump);
        }
        self.run(&pipe).await;
        self.advance(Duration::ZERO).await;
    }

    pub async fn spoil_list(&mut self) {
        let list = self.list.clone();
        self.run(redis::pipe().set(&list[..], "no list")).await;
    }

    pub async fn add_lease(&mut self, name: &str, end_ms: i64) {
        let leases = self.keys.leases.clone();
        self.run(redis::pipe().zadd(&leases[..], name, end_ms)).await;
    }

    pub async fn forget_leases(&mut self) {
        let leases = self.keys.leases.clone();
        self.run(redis::pipe().del(&leases[..])).await;
    }

    pub async fn add_waiting(&mut self, member: &Bytes, at_ms: i64) {
        let retry = self.keys.retry.clone();
        self.run(redis::pipe().zadd(&retry[..], &member[..], at_ms)).await;
    }

    /// Members of a sorted set with their scores as Redis writes them.
    pub async fn scores(&mut self, key: &[u8]) -> Vec<(Bytes, Score)> {
        let mut command = redis::cmd("ZRANGE");
        command.arg(key).arg(0).arg(-1).arg("WITHSCORES");
        let flat: Vec<Vec<u8>> = self.read(&command).await.expect("a sorted set");
        let score = |text: &[u8]| std::str::from_utf8(text).ok().and_then(Score::parse).expect("a score");
        flat.chunks(2).map(|pair| (pair[0].clone().into(), score(&pair[1]))).collect()
    }

    /// Members of a sorted set with their times in ms.
    pub async fn times(&mut self, key: &[u8]) -> Vec<(i64, Bytes)> {
        self.scores(key).await.into_iter().map(|(member, score)| (score.ceil_ms(), member)).collect()
    }

    /// All of a list; nothing where a test has made it something else.
    pub async fn list(&mut self, key: &[u8]) -> Vec<Bytes> {
        let found = self.read::<Vec<Vec<u8>>>(&redis::Cmd::lrange(key, 0, -1)).await;
        found.unwrap_or_default().into_iter().map(Bytes::from).collect()
    }

    /// The keys of claims of this queue.
    pub async fn claim_keys(&mut self) -> Vec<String> {
        let pattern = format!("delaybridge:claim:*:{}", self.keys.tag).replace('[', "\\[");
        let mut keys = Vec::new();
        let other = self.beside.as_mut().filter(|_| self.moving);
        for node in std::iter::once(&mut self.admin).chain(other) {
            let some: Vec<String> =
                redis::cmd("KEYS").arg(&pattern).query_async(node).await.expect("the server answers");
            keys.extend(some);
        }
        keys
    }

    /// The places of the ledger. `due_ms` reads the score of a bare element; those of the source are empty.
    pub async fn places(&mut self, due_ms: impl Fn(Score) -> i64) -> Places {
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
            self.read(&redis::Cmd::xrange_all(&keys.dead[..])).await.expect("a stream");
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
            pushed: self.list(&self.list.clone()).await,
        }
    }
}
