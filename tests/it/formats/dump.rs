//! All keys of the daemon with their bytes: read from a server, written to one, kept in a file, and compared without what
//! differs from run to run.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};

/// One member of a key: its bytes, and its score, field or id.
type Item = (Vec<u8>, Vec<u8>);

/// The keys, each with its type and its items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dump {
    pub keys: Vec<(Vec<u8>, String, Vec<Item>)>,
}

impl Dump {
    /// Every key of this prefix.
    pub async fn read(redis: &mut MultiplexedConnection) -> Dump {
        let mut names: Vec<Vec<u8>> =
            redis::cmd("KEYS").arg("delaybridge:*").query_async(redis).await.expect("list the keys");
        names.sort();
        let mut keys = Vec::new();
        for name in names {
            let kind: String = redis::cmd("TYPE").arg(&name).query_async(redis).await.expect("ask for a type");
            keys.push((name.clone(), kind.clone(), items(redis, &name, &kind).await));
        }
        Dump { keys }
    }

    /// Writes all keys to an empty server.
    pub async fn write(&self, redis: &mut MultiplexedConnection) {
        let mut pipe = redis::pipe();
        for (key, kind, items) in &self.keys {
            for (a, b) in items {
                match kind.as_str() {
                    "zset" => pipe.cmd("ZADD").arg(key).arg(b).arg(a).ignore(),
                    "hash" => pipe.cmd("HSET").arg(key).arg(a).arg(b).ignore(),
                    "set" => pipe.cmd("SADD").arg(key).arg(a).ignore(),
                    "string" => pipe.cmd("SET").arg(key).arg(a).ignore(),
                    "stream" => pipe.cmd("XADD").arg(key).arg(a).arg(&fields(b)[..]).ignore(),
                    other => panic!("{other} cannot be written"),
                };
            }
        }
        pipe.exec_async(redis).await.expect("write what was recorded");
    }

    /// Whether this member of this key is the lease of a claim without elements: it is removed later, at a time that depends on the
    /// speed of the machine.
    fn is_ended_claim(&self, key: &str, member: &[u8]) -> bool {
        let claim = [b"delaybridge:claim:", member, b":"].concat();
        key.starts_with("delaybridge:leases:") && !self.keys.iter().any(|(key, ..)| key.starts_with(&claim))
    }

    pub fn load(file: &Path) -> Dump {
        let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("read {}: {e}", file.display()));
        let bytes = |value: &Value| hex::decode(value.as_str().expect("a text")).expect("hexadecimal digits");
        let key = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let items = line["items"].as_array().expect("items").iter().map(|item| (bytes(&item[0]), bytes(&item[1])));
            let name = &line["key"];
            let kind = &line["type"];
            (name.as_str().expect("a name").into(), kind.as_str().expect("a type").to_owned(), items.collect())
        };
        Dump { keys: text.lines().map(key).collect() }
    }

    pub fn save(&self, file: &Path) {
        let line = |(name, kind, items): &(Vec<u8>, String, Vec<Item>)| {
            let items: Vec<_> = items.iter().map(|(a, b)| json!([hex::encode(a), hex::encode(b)])).collect();
            format!("{}\n", json!({ "key": String::from_utf8_lossy(name), "type": kind, "items": items }))
        };
        let text: String = self.keys.iter().map(line).collect();
        fs::write(file, text).unwrap_or_else(|e| panic!("write {}: {e}", file.display()));
    }
}

async fn items(redis: &mut MultiplexedConnection, key: &[u8], kind: &str) -> Vec<Item> {
    let pairs =
        |all: Vec<Vec<u8>>| -> Vec<Item> { all.chunks(2).map(|two| (two[0].clone(), two[1].clone())).collect() };
    let single = |all: Vec<Vec<u8>>| all.into_iter().map(|one| (one, Vec::new())).collect();
    let mut items = match kind {
        "zset" => {
            pairs(redis::cmd("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES").query_async(redis).await.unwrap())
        }
        "hash" => pairs(redis::cmd("HGETALL").arg(key).query_async(redis).await.unwrap()),
        "set" => single(redis::cmd("SMEMBERS").arg(key).query_async(redis).await.unwrap()),
        "string" => single(vec![redis.get(key).await.unwrap()]),
        "stream" => {
            let entries: Vec<(Vec<u8>, Vec<Vec<u8>>)> =
                redis::cmd("XRANGE").arg(key).arg("-").arg("+").query_async(redis).await.unwrap();
            entries.into_iter().map(|(id, fields)| (id, packed(&fields))).collect()
        }
        other => panic!("{} is a {other}", String::from_utf8_lossy(key)),
    };
    items.sort();
    items
}

/// Fields and values of a stream's entry as one piece, each after its length.
fn packed(fields: &[Vec<u8>]) -> Vec<u8> {
    fields.iter().flat_map(|field| [&(field.len() as u32).to_be_bytes()[..], field].concat()).collect()
}

pub fn fields(mut packed: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Some((length, rest)) = packed.split_first_chunk::<4>() {
        let (field, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        all.push(field.to_vec());
        packed = rest;
    }
    all
}

/// What is the same in every run: one line for each item.
pub fn masked(dump: &Dump) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for (name, kind, items) in &dump.keys {
        let name = String::from_utf8_lossy(name);
        let key = words(&name);
        for (a, b) in items {
            let values = if kind == "stream" {
                // A line for each field, so that a difference can be read.
                fields(b).chunks(2).map(|two| format!("{} = {}", mask(&key, &two[0]), mask(&key, &two[1]))).collect()
            } else {
                vec![mask(&key, b)]
            };
            // Since when no other client listens: some daemons live too short to find out.
            if a == b"others" || dump.is_ended_claim(&name, a) {
                continue;
            }
            lines.extend(values.iter().map(|value| format!("{kind} {key}: {} {value}", mask(&key, a))));
        }
    }
    lines
}

/// Owners, times and numbers of claims as words. Binary formats by the places that their files document.
fn mask(key: &str, bytes: &[u8]) -> String {
    let hidden: &[(usize, usize)] = match bytes {
        // An entry from the ready list has its own id and the time of its claim (crates/ledger/src/claims/entry.rs).
        [0xdb, 1, _, _, _, _, _, _, b'R', ..] => &[(12, 64)],
        [0xdb, 1, ..] => &[(12, 32), (48, 64)],
        // A job's record, and its state (crates/jobs/src/record.rs).
        [1, ..] if key.contains(":jobs:records:") => &[(2, 10)],
        [1, ..] if key.contains(":jobs:state:") => &[(13, 21), (29, 45)],
        other => {
            let text = std::str::from_utf8(other).ok().filter(|text| !text.contains('\0'));
            return text.map_or_else(|| hex::encode(other), words);
        }
    };
    let digits = |(at, byte): (usize, &u8)| {
        let is_hidden = hidden.iter().any(|(from, to)| (*from..*to).contains(&at));
        if is_hidden { "..".to_owned() } else { format!("{byte:02x}") }
    };
    bytes.iter().enumerate().map(digits).collect()
}

/// The text with its owners, times and numbers of claims replaced.
fn words(text: &str) -> String {
    let is_time = |word: &str| word.parse::<u64>().is_ok_and(|ms| ms > super::scenario::LATEST_DUE_MS as u64);
    let is_owner = |word: &str| {
        word.len() == 16 && word.bytes().all(|b| b.is_ascii_hexdigit()) && !word.starts_with(super::scenario::OWN_IDS)
    };
    let mut out = String::new();
    let mut after_owner = false;
    for piece in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let word = piece.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let shown = match word {
            word if is_owner(word) => "OWNER",
            word if after_owner && piece.ends_with('.') && word.parse::<u64>().is_ok() => "NUMBER",
            word if is_time(word) => "TIME",
            word => word,
        };
        after_owner = shown == "OWNER" && piece.ends_with('.');
        out += shown;
        out += &piece[word.len()..];
    }
    // The user and the machine of a command.
    while let Some((before, rest)) = out.split_once("(uid ") {
        let after = rest.split_once(')').map_or("", |(_, after)| after);
        out = format!("{before}(USER){after}");
    }
    out
}
