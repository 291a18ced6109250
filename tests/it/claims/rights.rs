//! No unnecessary right is granted: a server sees the user use every right that `acl` prints. Every other test shows
//! that no further right is needed, because all run with these rights.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use delaybridge_config::load_str;
use delaybridge_core::message::Origin;
use delaybridge_ledger::claims::ClaimName;
use delaybridge_ledger::{Start, UpkeepRequest};
use delaybridge_link::Side;
use delaybridge_ops::acl::{AclPurpose, users};
use delaybridge_source::redisson::ListCleanup;
use futures_util::future::join_all;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use super::rig::{Rig, source};
use crate::delivery::PATIENCE;
use crate::ledger;
use crate::moving::entry;
use harness::daemon::{ConfigFile, cli};
use harness::monitor::{Executed, Monitor, Use, uses};
use harness::redisson::redis_now_ms;
use harness::{Daemon, Layout, RedisServer, RedissonQueue, eventually};

/// The settings that determine a daemon's rights: the consumed parts of a queue, and its mode and destinations.
const QUEUES: [(&str, &str); 9] = [
    ("", "mode: shadow, to: [{ sink: out, list: out }]"),
    (", rescue_after: 100ms", "mode: rescue"),
    (", rescue_after: 100ms, list_cleanup: exact", "mode: rescue"),
    (", list_cleanup: exact", "to: [{ sink: out, list: out }]"),
    (
        "",
        "to: [{ sink: out, list: '{orders}:out', exactly_once: true }], \
         dead_letter: { stream: { max_len: 1, allow_loss: true } }",
    ),
    ("", "to: [{ sink: out, stream: out }], dead_letter: { sink: out, list: dead }"),
    (", consume: [delayed]", "to: [{ sink: out, list: out, push: left }]"),
    (", consume: [ready]", "to: [{ sink: out, list: out }]"),
    ("", "to: [{ sink: out, list: out, duplicates: look }]"),
];

const NAME: &str = "orders";

/// Log messages about problems, which are expected.
const TROUBLE: [&str; 5] = [
    "would not be delivered",
    "dead letter stored",
    "have no Redisson layout",
    "of a newer format",
    "no queue delivers",
];

/// A configuration with a database of its own, because the first needs no right.
fn config(server: &RedisServer, (consume, rest): (&str, &str)) -> String {
    format!(
        "redis: {{ url: {}/3, connect_timeout: 30s }}\nsinks: {{ out: {{ redis: {{}} }} }}\nqueues:\n  \
         q: {{ source: {{ redisson: {{ name: {NAME}, ghost_max_age: 1s{consume} }} }}, {rest} }}\n",
        server.url().trim_end_matches("/0")
    )
}

async fn client(server: &RedisServer) -> MultiplexedConnection {
    let mut redis = server.client().await;
    redis::cmd("SELECT").arg(3).exec_async(&mut redis).await.unwrap();
    redis
}

fn granted(yaml: &str, purpose: AclPurpose) -> BTreeSet<Use> {
    let config = load_str(yaml, "rights.yaml", &|_| None).unwrap_or_else(|errors| panic!("{errors}")).config;
    let grants: Vec<_> = users(&config, purpose).into_iter().flat_map(|user| user.grants).collect();
    let text = |word: &Bytes| String::from_utf8_lossy(word).into_owned();
    let words =
        grants.iter().flat_map(|grant| grant.single()).map(|(words, _)| words.iter().map(text).collect::<Vec<_>>());
    words.flat_map(|words| uses(&words)).collect()
}

/// Checks that every granted right was used, by a script or without one; uses of these scripts in `rare` situations
/// count.
fn all_used(granted: &BTreeSet<Use>, executed: &Executed, rare: &Executed, calls: &Executed) -> Result<(), String> {
    let rare = executed.keys().filter(|script| !script.is_empty()).filter_map(|script| rare.get(script));
    let used: BTreeSet<_> = executed.values().chain(rare).chain(calls.values()).flatten().collect();
    // The keys of claims are granted by a pattern, and one key is the example of it.
    let claims = |right: &Use| used.iter().any(|used| used.0 == right.0 && is_of_claims(&used.1));
    let is_used = |right: &Use| if is_of_claims(&right.1) { claims(right) } else { used.contains(right) };
    let unused: Vec<_> = granted.iter().filter(|right| !is_used(right)).collect();
    if unused.is_empty() { Ok(()) } else { Err(format!("granted, and used by nothing: {unused:?}")) }
}

fn is_of_claims(key: &str) -> bool {
    key.starts_with("delaybridge:claim:") && key.ends_with(":{orders}")
}

/// The uses of the calls on claims in all variants: a daemon meets some of them only by chance, such as a lost answer.
async fn calls((consume, rest): (&str, &str)) -> Executed {
    let side = if rest.contains("push: left") { Side::Left } else { Side::Right };
    let list = rest.contains("exactly_once").then_some(("{orders}:out", side));
    if rest.starts_with("mode") { Executed::new() } else { ledger::rights::executed(consume, list).await }
}

/// The uses of scripts after a loss: a sweep without its state finds the entries that the last one left.
async fn rare() -> Executed {
    let mut rig = Rig::start().await;
    let queue = RedissonQueue::new(NAME);
    let source = source(NAME, 1, ListCleanup::Auto);
    let mut monitor = Monitor::start(&rig.server, &mut rig.redis).await;
    rig.set_clock(1_800_000_000_000_000).await;
    for part in ["ghosts", "ghosts-turn"] {
        let _: () = rig.redis.sadd(queue.bridge_key(part), "ghost").await.unwrap();
    }
    let request =
        UpkeepRequest { step: None, max_age: Duration::ZERO, bandwidth: 1 << 30, start: Start::Urgent, largest: 0 };
    source.sweep(&rig.conn, &request).await.unwrap();
    monitor.executed(&mut rig.redis).await.clone()
}

/// Runs a daemon, and `check --live` as the same user, until every right was used.
async fn daemon_uses_all(queue: (&str, &str), rare: &Executed) {
    let server = RedisServer::start().await;
    let yaml = config(&server, queue);
    let mut redis = client(&server).await;
    let mut monitor = Monitor::start(&server, &mut redis).await;
    work_for_a_daemon(&mut redis).await;
    let mut daemon = Daemon::spawn(&yaml);
    for text in TROUBLE {
        daemon.expect_log(text);
    }
    let checked = cli(&ConfigFile::new(&yaml), &["check", "--live"]);
    assert!(checked.status.success(), "{checked:?}");
    let mut granted = granted(&yaml, AclPurpose::Run);
    let calls = calls(queue).await;
    // Used only by a reload that removes a queue; `reload` has the same rights.
    granted.retain(|right| right.0 != "unsubscribe");
    // The first is used of a queue at rest, whose size tells whether its gauges have changed; the second for an entry that the
    // older set of ghosts does not have; the last when it stops.
    let rare_uses = [
        ("exists", "delaybridge:dead:{orders}"),
        ("smismember", "delaybridge:ghosts:{orders}"),
        ("hdel", "delaybridge:lookers"),
    ];
    granted.retain(|(command, key)| !rare_uses.contains(&(command.as_str(), key.as_str())));
    eventually(&format!("{queue:?} to use its rights"), PATIENCE, async || {
        all_used(&granted, monitor.executed(&mut redis.clone()).await, rare, &calls)
    })
    .await;
    assert_eq!(daemon.stop().await, 0);
}

/// Offers elements of every kind: junk, retries, ready ones. The list has a ghost at each end and one in the middle,
/// and elements are due near the head and further in while the budget of `LREM` is spent.
async fn work_for_a_daemon(redis: &mut MultiplexedConnection) {
    let queue = RedissonQueue::new(NAME);
    let now = redis_now_ms(redis).await;
    for n in 0..60_u8 {
        if [0, 15, 59].contains(&n) {
            let ghost = Layout::New.pack([n; 8], b"ghost");
            let _: () = redis.rpush(&queue.list, &ghost).await.unwrap();
            let _: () = redis.sadd(queue.bridge_key("ghosts"), &ghost[..9]).await.unwrap();
        } else {
            let delay = if [1, 10, 31].contains(&n) { -5_000 } else { 3_600_000 };
            queue.offer(redis, now + delay, format!("{n}")).await;
        }
    }
    let spent = [("lrem_at", 9_000_000_000_000_000), ("lrem_us", 0), ("oldest", now - 60_000)];
    let _: () = redis.hset_multiple(queue.bridge_key("sweep"), &spent).await.unwrap();
    let _: () = redis.zadd(&queue.timeouts, "junk", now).await.unwrap();
    let retries = [entry(Origin::Delayed, [3; 8], now, 1, vec![], b"junk"), b"\xdb\x02 of a later version".to_vec()];
    let _: () = redis.zadd_multiple(queue.bridge_key("retry"), &retries.map(|retry| (now, retry))).await.unwrap();
    queue.push_ready(redis, &[b"ready".to_vec()]).await;
    // A claim of another daemon, so that a look has leases to read.
    let others = ClaimName { owner: [9; 8], number: 1, expiries: 0 }.to_string();
    let _: () = redis.zadd(queue.bridge_key("leases"), others, now + 3_600_000).await.unwrap();
    bound(redis).await;
    expired(redis, 1, &[("d", &Layout::New.pack([40; 8], b"x"))], now).await;
}

#[tokio::test]
async fn a_daemon_uses_all_that_it_may() {
    let rare = rare().await;
    join_all(QUEUES.map(|queue| daemon_uses_all(queue, &rare))).await;
}

/// Under the default names a daemon with another prefix looks once for what is left there, and marks the queue.
#[tokio::test]
async fn a_daemon_with_a_prefix_uses_all_that_it_may_under_the_default_one() {
    let server = RedisServer::start().await;
    let yaml = config(&server, ("", "to: [{ sink: out, list: out }]")).replace("/3,", "/3, key_prefix: 'team-a:',");
    let mut redis = client(&server).await;
    let ended = ClaimName { owner: [7; 8], number: 1, expiries: 0 }.to_string();
    let _: () = redis.zadd(RedissonQueue::new(NAME).bridge_key("leases"), ended, 1).await.unwrap();
    let mut monitor = Monitor::start(&server, &mut redis).await;
    let mut daemon = Daemon::start(&yaml).await;
    let mut granted = granted(&yaml, AclPurpose::Run);
    granted.retain(|right| right.1.starts_with("delaybridge:"));
    assert!(granted.iter().any(|right| right.0 == "set") && granted.len() > 5, "{granted:?}");
    let none = Executed::new();
    eventually("its rights to be used", PATIENCE, async || {
        all_used(&granted, monitor.executed(&mut redis.clone()).await, &none, &none)
    })
    .await;
    assert_eq!(daemon.stop().await, 0);
}

/// All operator commands, with data for each.
#[tokio::test]
async fn a_person_uses_all_that_a_person_may() {
    let server = RedisServer::start().await;
    let yaml = config(&server, ("", "to: [{ sink: out, list: out }]"));
    let mut redis = client(&server).await;
    let letters = work_for_a_person(&mut redis).await;
    let config = ConfigFile::new(&format!("http: none\n{yaml}"));
    let mut monitor = Monitor::start(&server, &mut redis).await;
    cancel_far_from_both_ends(&mut redis, &config).await;
    let lines = config.path().with_file_name("letters.jsonl");
    let lines = lines.display();
    for line in [
        "queues",
        "offer q --delay 0s --payload first",
        "peek q --state scheduled",
        "peek q --state in-flight",
        "peek q --state retry",
        "peek q --state ready",
        "dead ls q",
        &format!("dead show q {}", letters[0]),
        &format!("dead redrive q {}", letters[0]),
        &format!("dead purge q {} --yes", letters[1]),
        "pause q --why upgrade",
        "resume q",
        "find q --field a=b",
        "search first",
        "peek q --id 0202020202020202",
        "run-now q 0202020202020202",
        "kill q 0202020202020202",
        "dead count q",
        &format!("dead export q --file {lines}"),
        "dead purge q --all --yes",
        &format!("dead import q {lines}"),
        "cancel q 0404040404040404",
        "cancel q 0101010101010101",
        // A missing element is searched for everywhere.
        "cancel q 0000000000000000",
        "migrate q --to new --apply",
        "restore q --layout new --apply --dead",
        "audit",
        "fleet",
    ] {
        let output = cli(&config, &line.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.success(), !line.ends_with("0000000000000000"), "{line}: {output:?}");
    }
    faults_to_repair(&mut redis, &config).await;
    let granted = granted(&yaml, AclPurpose::Operator);
    let executed = monitor.executed(&mut redis).await;
    let calls = Executed::new();
    all_used(&granted, executed, &rare().await, &calls).unwrap_or_else(|unused| panic!("{unused}"));
}

/// Makes faults for `fsck`, which repairs them: an entry of the list without an element, a claim without a lease, and
/// keys of another type.
async fn faults_to_repair(redis: &mut MultiplexedConnection, config: &ConfigFile) {
    let queue = RedissonQueue::new(NAME);
    let claim = ClaimName::new([9; 8], 1);
    let _: () = redis.rpush(&queue.list, Layout::New.pack([13; 8], b"x")).await.unwrap();
    let element = Layout::New.pack([14; 8], b"x");
    let _: () = redis.zadd(queue.bridge_key(&format!("claim:{claim}:d")), element, 1).await.unwrap();
    let looked = cli(config, &["fsck", "q"]);
    assert_eq!(looked.status.code(), Some(1), "{looked:?}");
    for part in ["leases", "retry", "dead", "state", "sweep"] {
        let _: () = redis.del(queue.bridge_key(part)).await.unwrap();
        let _: () = redis.set(queue.bridge_key(part), "of another type").await.unwrap();
    }
    let repaired = cli(config, &["fsck", "q", "--repair"]);
    assert!(repaired.status.success(), "{repaired:?}");
    // Each key of the source with a time to live.
    let ghosts = queue.bridge_key("ghosts");
    let turn = queue.bridge_key("ghosts-turn");
    let sweep = queue.bridge_key("sweep");
    let mut keys = redis::pipe();
    keys.sadd(&ghosts, "x").sadd(&turn, "x").hset(&sweep, "x", "x").rpush(NAME, "x");
    keys.rpush(&queue.list, Layout::New.pack([15; 8], b"x")).zadd(&queue.timeouts, Layout::New.pack([15; 8], b"x"), 1);
    for key in [ghosts.as_str(), &turn, &sweep, NAME, &queue.list, &queue.timeouts] {
        keys.expire(key, 3600);
    }
    keys.exec_async(redis).await.unwrap();
    let repaired = cli(config, &["fsck", "q", "--repair"]);
    assert!(repaired.status.success(), "{repaired:?}");
}

/// Makes an `RBoundedBlockingQueue` of the ready list.
async fn bound(redis: &mut MultiplexedConnection) {
    let _: () = redis.set(format!("redisson_bqs:{{{NAME}}}"), 5).await.unwrap();
}

/// Makes an expired claim with these members in its keys.
async fn expired(redis: &mut MultiplexedConnection, number: u64, members: &[(&str, &[u8])], now: i64) {
    let queue = RedissonQueue::new(NAME);
    let claim = ClaimName::new([8; 8], number);
    let _: () = redis.zadd(queue.bridge_key("leases"), claim.to_string(), now - 1).await.unwrap();
    for (part, member) in members {
        let _: () = redis.zadd(queue.bridge_key(&format!("claim:{claim}:{part}")), *member, now).await.unwrap();
    }
}

/// Puts an element in every place, and a ghost; returns the ids of the dead letters in the stream.
async fn work_for_a_person(redis: &mut MultiplexedConnection) -> Vec<String> {
    let queue = RedissonQueue::new(NAME);
    let now = redis_now_ms(redis).await;
    let later = now + 3_600_000;
    let packed = |n: u8| Layout::New.pack([n; 8], b"x");
    let waiting = |n: u8| entry(Origin::Delayed, [n; 8], now, n.into(), vec![], &packed(n));
    let old = queue.clone().with_layout(Layout::Old);
    old.offer(redis, later, "listed").await;
    let element = old.offer(redis, later, "not listed").await;
    let _: () = redis.lrem(&queue.list, 1, &element.member).await.unwrap();
    let scheduled = packed(4);
    let _: () = redis.zadd(&queue.timeouts, &scheduled, later).await.unwrap();
    let _: () = redis.rpush(&queue.list, &[&scheduled, &packed(9)]).await.unwrap();
    let _: () = redis.sadd(queue.bridge_key("ghosts"), &packed(9)[..9]).await.unwrap();
    queue.push_ready(redis, &[b"ready".to_vec()]).await;
    bound(redis).await;
    let _: () = redis.zadd_multiple(queue.bridge_key("retry"), &[1, 2].map(|n| (later, waiting(n)))).await.unwrap();
    let ready = entry(Origin::Ready, [3; 8], now, 3, vec![], b"back to the ready list");
    // Of letters: MONITOR is a hundred times slower with bytes that it must escape, and blocks Redis.
    let large = |n: u8| Layout::New.pack([n; 8], &[b'x'; 530 << 10]);
    expired(redis, 1, &[("h", &ready), ("d", &packed(8))], now).await;
    // More than one script moves.
    expired(redis, 2, &[("d", &large(10)), ("d", &large(11))], now).await;
    let mut letters = Vec::new();
    for n in [5, 6, 7] {
        let known = [("id", "0505050505050505"), ("reason", "junk"), ("origin", "delayed"), ("due_ms", "1")];
        let known = known.map(|(name, value)| (name, value.as_bytes().to_vec()));
        let rest = [("died_ms", b"1".to_vec()), ("attempts", b"1".to_vec()), ("element", packed(n))];
        let fields: Vec<_> = known.into_iter().chain(rest).collect();
        letters.push(redis.xadd(queue.bridge_key("dead"), "*", &fields).await.unwrap());
    }
    letters
}

/// In a list that is too long to be searched, `cancel` records the entry that it leaves there.
async fn cancel_far_from_both_ends(redis: &mut MultiplexedConnection, config: &ConfigFile) {
    static OTHERS: [&str; 30_000] = ["of others"; 30_000];
    let queue = RedissonQueue::new(NAME);
    let element = Layout::New.pack([12; 8], b"x");
    let due = redis_now_ms(redis).await + 3_600_000;
    let _: () = redis.zadd(&queue.timeouts, &element, due).await.unwrap();
    let _: () = redis.rpush(&queue.list, &OTHERS[..]).await.unwrap();
    let _: () = redis.rpush(&queue.list, &element).await.unwrap();
    let _: () = redis.rpush(&queue.list, &OTHERS[..]).await.unwrap();
    let output = cli(config, &["cancel", "q", "0c0c0c0c0c0c0c0c"]);
    assert!(output.status.success(), "{output:?}");
    let _: () = redis.lrem(&queue.list, 0, OTHERS[0]).await.unwrap();
    let ghosts: bool = redis.sismember(queue.bridge_key("ghosts"), &element[..9]).await.unwrap();
    assert!(ghosts, "the entry in the list is recorded");
}
