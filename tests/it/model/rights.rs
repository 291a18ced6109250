//! A shadow is granted nothing that it does not use: everything that `acl` prints for it the server sees. That nothing
//! else is needed, every other test shows, because all run under these rights.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use delaybridge::cli::{Purpose, users};
use delaybridge::config::load_str;
use redis::aio::MultiplexedConnection;

use super::world::NAME;
use crate::delivery::PATIENCE;
use crate::harness::redisson::redis_now_ms;
use crate::harness::{Daemon, RedisServer, RedissonQueue, eventually};

/// A command, and the key or channel that it was used on.
type Use = (String, String);

/// What `MONITOR` does not show: a test of `check --live` shows that they are used.
const UNSEEN: [&str; 3] = ["acl|dryrun", "acl|whoami", "client|list"];

/// What a command of these words uses.
fn uses(words: &[String]) -> Vec<Use> {
    let Some(name) = words.first().map(|word| word.to_lowercase()) else { return Vec::new() };
    let on = |keys: &[String]| keys.iter().map(|key| (name.clone(), key.clone())).collect();
    match name.as_str() {
        "acl" | "client" | "script" | "pubsub" => {
            vec![(format!("{name}|{}", words.get(1).map_or("", |word| word).to_lowercase()), String::new())]
        }
        "ping" | "info" | "time" | "select" => vec![(name, String::new())],
        "evalsha" => {
            let keys = words.get(2).and_then(|count| count.parse().ok()).unwrap_or(0);
            on(&words.iter().skip(3).take(keys).cloned().collect::<Vec<_>>())
        }
        "rename" | "sunionstore" | "subscribe" => on(&words[1..]),
        _ => on(&words.iter().skip(1).take(1).cloned().collect::<Vec<_>>()),
    }
}

/// What a server has seen, by the address of the client that sent it.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<String, BTreeSet<Use>>>>);

impl Seen {
    fn of(server: &RedisServer) -> Seen {
        let seen = Seen::default();
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("connect to the test server");
        stream.write_all(b"MONITOR\r\n").expect("ask for everything that is sent");
        let mut lines = BufReader::new(stream);
        let mut line = Vec::new();
        lines.read_until(b'\n', &mut line).expect("an answer");
        let kept = seen.clone();
        std::thread::spawn(move || {
            let mut client = String::new();
            loop {
                line.clear();
                if !lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                    return;
                }
                let text = String::from_utf8_lossy(&line);
                let Some((who, words)) = text.split_once("] ") else { continue };
                // What a script calls follows the line of who called it.
                if !who.ends_with(" lua") {
                    client = who.rsplit(' ').next().unwrap_or_default().to_owned();
                }
                // Nothing but payloads has a quote in it, and no payload is looked at.
                let words: Vec<_> = words.split('"').skip(1).step_by(2).map(str::to_owned).collect();
                let mut all = kept.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                all.entry(client.clone()).or_default().extend(uses(&words));
            }
        });
        seen
    }

    /// What everybody used but the tests themselves, who are the default user and still connected.
    async fn by_others(&self, redis: &mut MultiplexedConnection) -> BTreeSet<Use> {
        let clients: String = redis::cmd("CLIENT").arg("LIST").query_async(redis).await.expect("list the clients");
        let field =
            |line: &str, name: &str| line.split(' ').find_map(|pair| pair.strip_prefix(name).map(str::to_owned));
        let own =
            clients.lines().filter(|line| line.contains(" user=default ")).filter_map(|line| field(line, "addr="));
        let own: BTreeSet<_> = own.collect();
        let all = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        all.iter().filter(|(client, _)| !own.contains(*client)).flat_map(|(_, uses)| uses.clone()).collect()
    }
}

fn granted(yaml: &str, purpose: Purpose) -> BTreeSet<Use> {
    let config = load_str(yaml, "rights.yaml", &|_| None).unwrap_or_else(|errors| panic!("{errors}")).config;
    let grants = users(&config, purpose).into_iter().flat_map(|user| user.grants);
    let text = |word: &bytes::Bytes| String::from_utf8_lossy(word).into_owned();
    let words = grants.flat_map(|grant| grant.single()).map(|(words, _)| words.iter().map(text).collect::<Vec<_>>());
    words.flat_map(|words| uses(&words)).filter(|(name, _)| !UNSEEN.contains(&&**name)).collect()
}

fn config(server: &RedisServer, queue: &str) -> String {
    format!(
        "redis: {{ url: {}, connect_timeout: 30s }}\nsinks: {{ out: {{ redis: {{}} }} }}\nqueues:\n  q:\n    \
         source: {{ redisson: {{ name: {NAME} }} }}\n    {queue}\n",
        server.url()
    )
}

/// A shadow, which is granted the least, and seen to use all of it.
#[tokio::test]
async fn a_shadow_may_only_look() {
    let server = RedisServer::start().await;
    let (seen, mut redis) = (Seen::of(&server), server.client().await);
    let yaml = config(&server, "mode: shadow\n    to: [{ sink: out, list: out }]");
    let now = redis_now_ms(&mut redis).await;
    RedissonQueue::new(NAME).offer(&mut redis, now - 5_000, "x").await;
    let mut daemon = Daemon::start(&yaml).await;
    let unused = |used: BTreeSet<Use>| granted(&yaml, Purpose::Run).difference(&used).cloned().collect::<Vec<_>>();
    eventually("everything that is granted to be used", PATIENCE, async || {
        match unused(seen.by_others(&mut redis.clone()).await) {
            unused if unused.is_empty() => Ok(()),
            unused => Err(format!("{unused:?}")),
        }
    })
    .await;
    assert_eq!(daemon.stop().await, 0);
    let writes: Vec<_> =
        granted(&yaml, Purpose::Run).into_iter().filter(|(name, _)| name.starts_with("zadd")).collect();
    assert!(writes.is_empty(), "{writes:?}");
}
