//! Data of other programs, of newer versions and of broken disks in every key of the daemon, and keys of another type;
//! for the profiles `hostile` and `hostile-jobs`. They stay until everything is settled, and are then removed for the
//! oracle.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::time::sleep;

use crate::offers::{QUEUES, now_ms};
use crate::quiet::tag;
use crate::stage::Stage;

/// Foreign ids, names and members. The fourth has the form of a daemon's id.
const NAMES: [&[u8]; 6] = [b"", b"\xff\xfe\0", b"a b{c}", b"s-1", b"7.other.1", b"1.other.1"];
/// Number of foreign leases, more than a claim reads.
const LEASES: usize = 12;

/// A command for a pipeline.
type Words = Vec<Vec<u8>>;

/// Writes to every key of the queue or topic; returns whether anything succeeded. Redis may be full, or unavailable
/// again.
pub async fn come(stage: &Stage, queue: usize) -> u64 {
    let mut redis = well(stage, queue).await;
    let mut came = false;
    for words in &writes(stage, queue).0 {
        came |= send(&mut redis, words).await.is_ok();
    }
    if !stage.crowded {
        in_claims(&mut redis, queue).await;
    }
    came.into()
}

/// Removes all of it.
pub async fn go(stage: &Stage, queue: usize) {
    let mut redis = well(stage, queue).await;
    for words in writes(stage, queue).1 {
        while send(&mut redis, &words).await.is_err() {
            sleep(Duration::from_millis(100)).await;
            redis = well(stage, queue).await;
        }
    }
    while !stage.crowded && remove_from_claims(&mut redis).await.is_err() {
        sleep(Duration::from_millis(100)).await;
        redis = well(stage, queue).await;
    }
}

/// The commands that add the data, and those that remove it.
fn writes(stage: &Stage, queue: usize) -> (Vec<Words>, Vec<Words>) {
    if stage.crowded { of_topic(queue) } else { of_queue(queue) }
}

/// Whether a member of the leases or the retries of a queue is foreign.
pub fn is_one(member: &[u8]) -> bool {
    member.starts_with(b"2.0.") || entries().iter().any(|known| known == member)
}

async fn well(stage: &Stage, queue: usize) -> MultiplexedConnection {
    stage.guide.clients_when_well().await.0.swap_remove(queue)
}

async fn send(redis: &mut MultiplexedConnection, words: &Words) -> redis::RedisResult<()> {
    let mut command = redis::Cmd::new();
    words.iter().for_each(|word| {
        command.arg(&word[..]);
    });
    match command.exec_async(redis).await {
        // A key with a text contains nothing else.
        Err(error) if error.code() == Some("WRONGTYPE") => Ok(()),
        sent => sent,
    }
}

fn words(words: &[&[u8]]) -> Words {
    words.iter().map(|word| word.to_vec()).collect()
}

/// An entry of a newer version, a truncated one, and arbitrary bytes.
fn entries() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = NAMES.iter().map(|name| name.to_vec()).collect();
    all.extend([newer_entry(), b"\xdb\x01\x50".to_vec()]);
    all
}

/// The commands that add and remove the data of a queue.
fn of_queue(queue: usize) -> (Vec<Words>, Vec<Words>) {
    let key = |word: &str| format!("delaybridge:{word}:{}", tag(queue)).into_bytes();
    let now = now_ms().to_string();
    let mut add = Vec::new();
    let mut remove = Vec::new();
    let names = NAMES.iter().map(|name| name.to_vec()).chain((0..LEASES).map(|n| format!("2.0.{n}").into_bytes()));
    for (member, score) in names.zip([&b"-inf"[..], b"0", now.as_bytes(), b"1.5"].into_iter().cycle()) {
        add.push(words(&[b"ZADD", &key("leases"), score, &member]));
        remove.push(words(&[b"ZREM", &key("leases"), &member]));
    }
    for (member, score) in entries().into_iter().zip([&b"-inf"[..], now.as_bytes()].into_iter().cycle()) {
        add.push(words(&[b"ZADD", &key("retry"), score, &member]));
        remove.push(words(&[b"ZREM", &key("retry"), &member]));
    }
    // Before all others, so that readers in order meet them first.
    for id in ["1-1", "1-2"] {
        add.push(words(&[b"XADD", &key("dead"), id.as_bytes(), b"\xff", b"\xfe"]));
        remove.push(words(&[b"XDEL", &key("dead"), id.as_bytes()]));
    }
    add.push(words(&[b"HSET", &key("state"), b"\xff", b"\xfe", b"", b""]));
    remove.push(words(&[b"HDEL", &key("state"), b"\xff", b""]));
    if queue == 0 {
        add.push(words(&[b"SADD", &key("ghosts"), b"\xff", b""]));
        for set in ["ghosts", "ghosts-turn"] {
            remove.push(words(&[b"SREM", &key(set), b"\xff", b""]));
        }
        add.push(words(&[b"HSET", &key("sweep"), b"\xff", b"\xfe"]));
        remove.push(words(&[b"HDEL", &key("sweep"), b"\xff"]));
    }
    (add, remove)
}

/// An entry of a newer version, which this version cannot handle.
pub fn newer_entry() -> Vec<u8> {
    [&b"\xdb\x02"[..], &[0; 100]].concat()
}

/// Adds one to some claims with entries: no program makes a key without its claim.
async fn in_claims(redis: &mut MultiplexedConnection, queue: usize) {
    let mut read = redis::cmd("ZRANGE");
    read.arg(format!("delaybridge:leases:{}", tag(queue))).arg(0).arg(40);
    let names: Vec<Vec<u8>> = read.query_async(redis).await.unwrap_or_default();
    let ours =
        names.iter().filter_map(|name| std::str::from_utf8(name).ok()).filter(|name| name.split('.').count() == 4);
    for name in ours.filter(|name| name.starts_with("1.")).take(2) {
        let key = format!("delaybridge:claim:{name}:h:{}", tag(queue));
        let mut add = redis::cmd("EVAL");
        add.arg("if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('ZADD', KEYS[1], 1, ARGV[1]) end");
        // The claim may be gone, or Redis full.
        let _ = add.arg(1).arg(key).arg(newer_entry()).exec_async(redis).await;
    }
}

async fn remove_from_claims(redis: &mut MultiplexedConnection) -> redis::RedisResult<()> {
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("delaybridge:claim:*:h:*").query_async(redis).await?;
    for key in keys {
        send(redis, &words(&[b"ZREM", &key, &newer_entry()])).await?;
    }
    Ok(())
}

/// The commands that add and remove the data of a topic.
fn of_topic(topic: usize) -> (Vec<Words>, Vec<Words>) {
    let key = |word: &str| format!("delaybridge:jobs:{word}:{{{}}}", QUEUES[topic]).into_bytes();
    let now = now_ms().to_string();
    let mut add = Vec::new();
    let mut remove = Vec::new();
    let whole =
        [&[1, 1][..], &[0; 16], &60_000_u32.to_le_bytes(), &5_u32.to_le_bytes(), &[0], b"a stranger's"].concat();
    let records: [Vec<u8>; 4] =
        [b"\x01short".to_vec(), [&[2][..], &[7; 60]].concat(), [&[1; 26][..], &[200]].concat(), whole.clone()];
    let states: [Option<Vec<u8>>; 3] = [None, Some(b"short".to_vec()), Some(vec![2; 60])];
    let sets = ["due", "reserved", "dead", "expiry", "gone"];
    let scores = [&b"-inf"[..], b"0", b"1.5", now.as_bytes()];
    // Valid ids with records and states of all kinds; only a readable record with a readable state would be a job.
    let strange = NAMES.iter().map(|name| name.to_vec());
    let of_ours = (0..24).map(|n| format!("s-{n}").into_bytes());
    for (n, id) in strange.chain(of_ours).enumerate() {
        let mut record = &records[n % 4];
        let state = &states[n / 4 % 3];
        let is_id = id.starts_with(b"s-");
        if is_id && n % 4 == 3 && state.is_none() {
            record = &records[0];
        }
        if n % 5 > 0 {
            add.push(words(&[b"HSET", &key("records"), &id, record]));
            if let Some(state) = state {
                add.push(words(&[b"HSET", &key("state"), &id, state]));
            }
        }
        for (place, set) in sets.iter().enumerate().filter(|(place, _)| (n + place) % 3 == 0) {
            add.push(words(&[b"ZADD", &key(set), scores[(n + place) % 4], &id]));
        }
        sets.iter().for_each(|set| remove.push(words(&[b"ZREM", &key(set), &id])));
        ["records", "state"].iter().for_each(|hash| remove.push(words(&[b"HDEL", &key(hash), &id])));
    }
    let limits: [&[u8]; 7] = [b"ttr", b"tries", b"ttl", b"max_jobs", b"max_body", b"dead_max_len", b"\xff"];
    for (field, value) in limits.into_iter().zip([&b"abc"[..], b"-1", b"\xff", b"nan", b"", b"1e99", b"x"]) {
        add.push(words(&[b"HSET", &key("topic"), field, value]));
        remove.push(words(&[b"HDEL", &key("topic"), field]));
    }
    for name in [&b""[..], b"\xff\xfe", b"a b{c}"] {
        add.push(words(&[b"ZADD", b"delaybridge:jobs:topics", b"0", name]));
        remove.push(words(&[b"ZREM", b"delaybridge:jobs:topics", name]));
    }
    (add, remove)
}

/// The keys of a queue or a topic that may exist in any case.
fn keys(crowded: bool, queue: usize) -> Vec<String> {
    if !crowded {
        let words = ["leases", "retry", "dead", "state"].iter();
        return words.map(|word| format!("delaybridge:{word}:{}", tag(queue))).collect();
    }
    let words = ["due", "reserved", "records", "state", "dead", "expiry", "gone", "topic"].iter();
    let keys = words.map(|word| format!("delaybridge:jobs:{word}:{{{}}}", QUEUES[queue]));
    keys.chain(["delaybridge:jobs:topics".to_owned()]).collect()
}

/// Atomically renames a key, or renames it back.
const ASIDE: &str = "if redis.call('TYPE', KEYS[1]).ok == 'string' then return 0 end
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('RENAME', KEYS[1], KEYS[2]) end
redis.call('SET', KEYS[1], 'a text of another program')
return 1";
const BACK: &str = "if redis.call('TYPE', KEYS[1]).ok ~= 'string' then return end
redis.call('DEL', KEYS[1])
if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('RENAME', KEYS[2], KEYS[1]) end";

/// Renames a key of the queue or topic, and puts a text in its place. Scripts check the types of their keys first, and
/// refuse.
pub async fn wrong_type(stage: &Stage, queue: usize, which: usize, lasts: Duration) -> u64 {
    let keys = keys(stage.crowded, queue);
    let key = &keys[which % keys.len()];
    // The index is shared by all topics: the first strand renames it.
    let aside = format!("aside-{queue}:{key}");
    let mut redis = well(stage, queue).await;
    let call = |script: &str| {
        let mut eval = redis::cmd("EVAL");
        eval.arg(script).arg(2).arg(key).arg(&aside);
        eval
    };
    if call(ASIDE).query_async::<u64>(&mut redis).await.unwrap_or(0) == 0 {
        return 0;
    }
    sleep(lasts).await;
    while call(BACK).exec_async(&mut redis).await.is_err() {
        sleep(Duration::from_millis(100)).await;
        redis = well(stage, queue).await;
    }
    1
}
