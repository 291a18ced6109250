//! The data of one queue in Redis, read by one script, as values that can be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::LazyLock;

use bytes::Bytes;
use delaybridge_ledger::claims::Part;
use delaybridge_source::redisson::Keys;
use redis::aio::MultiplexedConnection;
use redis::{Script, Value};

/// The key of the pushes of exactly-once verdicts.
pub const PUSHED: &str = "pushed";

/// Members with their scores.
pub type Scores = BTreeMap<Bytes, f64>;

/// The content of one claim.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Holding {
    /// The key `d`: bare elements.
    pub bare: Scores,
    /// The key `h`: entries with headers.
    pub entries: Scores,
}

impl Holding {
    pub fn part(&self, part: Part) -> &Scores {
        match part {
            Part::Bare => &self.bare,
            Part::Entries => &self.entries,
        }
    }

    pub fn part_mut(&mut self, part: Part) -> &mut Scores {
        match part {
            Part::Bare => &mut self.bare,
            Part::Entries => &mut self.entries,
        }
    }

    pub fn len(&self) -> usize {
        self.bare.len() + self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn members(&self) -> BTreeSet<(Part, Bytes)> {
        let of = |part| self.part(part).keys().map(move |m| (part, m.clone()));
        of(Part::Bare).chain(of(Part::Entries)).collect()
    }

    /// Members in the order in which a takeover reads them: entries first, each part by score and bytes.
    pub fn in_order(&self) -> Vec<(Part, Bytes)> {
        let mut all: Vec<_> = [Part::Entries, Part::Bare]
            .into_iter()
            .flat_map(|part| self.part(part).iter().map(move |(m, score)| (part == Part::Bare, *score, m)))
            .collect();
        all.sort_by(|a, b| (a.0, a.2).cmp(&(b.0, b.2)));
        all.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        all.into_iter().map(|(bare, _, m)| (if bare { Part::Bare } else { Part::Entries }, m.clone())).collect()
    }
}

/// All keys of a queue, and the destination list.
#[derive(Clone, PartialEq, Default)]
pub struct Snapshot {
    pub z: Scores,
    pub l: Vec<Bytes>,
    pub ready: Vec<Bytes>,
    /// The name of a claim, as text, with the end of its lease.
    pub leases: BTreeMap<Bytes, i64>,
    /// Claims by name. None of them is empty: Redis has no empty keys.
    pub claims: BTreeMap<Bytes, Holding>,
    pub retry: Scores,
    pub dead: Vec<(String, Vec<Bytes>)>,
    pub pushed: Vec<Bytes>,
    pub ghosts: BTreeSet<Bytes>,
    pub turn: BTreeSet<Bytes>,
    pub state: BTreeMap<Bytes, Bytes>,
}

/// The names of a queue's keys by the design, deliberately written independently of the library.
pub struct Names {
    tag: String,
    leases: Bytes,
    claim: Vec<u8>,
}

impl Names {
    /// The names of the queue with this tag.
    pub fn of(tag: &str) -> Names {
        Names {
            tag: tag.to_owned(),
            leases: format!("delaybridge:leases:{tag}").into(),
            claim: b"delaybridge:claim:".to_vec(),
        }
    }

    /// The key of the leases.
    pub fn leases(&self) -> &Bytes {
        &self.leases
    }

    /// A key of the claim with this name.
    pub fn claim(&self, name: &Bytes, part: Part) -> Bytes {
        let letter = if part == Part::Bare { "d" } else { "h" };
        [&self.claim[..], name, format!(":{letter}:{}", self.tag).as_bytes()].concat().into()
    }

    /// The name and the part of a key, if it is a claim's.
    fn read(&self, key: &[u8]) -> Option<(Bytes, Part)> {
        let rest = key.strip_prefix(&self.claim[..])?.strip_suffix(format!(":{}", self.tag).as_bytes())?;
        let (name, part) = rest.split_at(rest.len() - 2);
        let part = match part {
            b":d" => Part::Bare,
            b":h" => Part::Entries,
            other => panic!("the key of a claim ends with {other:?}"),
        };
        Some((Bytes::copy_from_slice(name), part))
    }
}

/// Returns {key, contents, key, contents, ...}.
static READ: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "
local out = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key).ok
  out[#out + 1] = key
  if kind == 'zset' then out[#out + 1] = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'list' then out[#out + 1] = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'set' then out[#out + 1] = redis.call('SMEMBERS', key)
  elseif kind == 'hash' then out[#out + 1] = redis.call('HGETALL', key)
  elseif kind == 'stream' then out[#out + 1] = redis.call('XRANGE', key, '-', '+')
  else out[#out + 1] = {} end
end
return out",
    )
});

fn bytes(value: Value) -> Bytes {
    match value {
        Value::BulkString(bytes) => bytes.into(),
        other => panic!("expected bytes, got {other:?}"),
    }
}

fn array(value: Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values,
        other => panic!("expected an array, got {other:?}"),
    }
}

fn list_of(value: Value) -> Vec<Bytes> {
    array(value).into_iter().map(bytes).collect()
}

fn pairs(value: Value) -> impl Iterator<Item = (Bytes, Bytes)> {
    let mut values = array(value).into_iter().map(bytes);
    std::iter::from_fn(move || Some((values.next()?, values.next()?)))
}

fn scores(value: Value) -> Scores {
    let number = |text: Bytes| std::str::from_utf8(&text).expect("a score").parse().expect("a score");
    pairs(value).map(|(member, score)| (member, number(score))).collect()
}

impl Snapshot {
    pub async fn read(redis: &mut MultiplexedConnection, keys: &Keys, names: &Names) -> Snapshot {
        let mut all = array(READ.invoke_async(redis).await.expect("read all keys")).into_iter();
        let mut seen = Snapshot::default();
        while let (Some(key), Some(value)) = (all.next(), all.next()) {
            let key = bytes(key);
            if key == keys.delayed {
                seen.z = scores(value);
            } else if key == keys.list {
                seen.l = list_of(value);
            } else if key == keys.ready {
                seen.ready = list_of(value);
            } else if key == names.leases {
                seen.leases = scores(value).into_iter().map(|(name, end)| (name, end as i64)).collect();
            } else if key == keys.retry {
                seen.retry = scores(value);
            } else if key == keys.ghosts {
                seen.ghosts = list_of(value).into_iter().collect();
            } else if key == keys.ghosts_turn {
                seen.turn = list_of(value).into_iter().collect();
            } else if key == keys.sweep {
                seen.state = pairs(value).collect();
            } else if key == PUSHED {
                seen.pushed = list_of(value);
            } else if key == keys.dead {
                let letter = |letter| {
                    let mut letter = array(letter).into_iter();
                    let id = bytes(letter.next().expect("an id"));
                    let id = String::from_utf8(id.to_vec()).expect("an id");
                    (id, list_of(letter.next().expect("fields")))
                };
                seen.dead = array(value).into_iter().map(letter).collect();
            } else if let Some((name, part)) = names.read(&key) {
                *seen.claims.entry(name).or_default().part_mut(part) = scores(value);
            }
        }
        seen
    }

    /// The content of the claim; empty if it does not exist.
    pub fn holding(&self, name: &Bytes) -> Holding {
        self.claims.get(name).cloned().unwrap_or_default()
    }

    /// Number of records of the identity: a ghost may be in either set, and two twins in both.
    pub fn records(&self, id: &Bytes) -> usize {
        usize::from(self.ghosts.contains(id)) + usize::from(self.turn.contains(id))
    }

    /// Number of copies of the element in L.
    pub fn copies(&self, element: &Bytes) -> usize {
        self.l.iter().filter(|e| *e == element).count()
    }

    /// Removes empty claims.
    pub fn tidy(&mut self) {
        self.claims.retain(|_, holding| !holding.is_empty());
    }

    /// The differences by the name of the key; `None` without any.
    pub fn difference(&self, other: &Snapshot) -> Option<String> {
        let same = [
            ("L", self.l == other.l),
            ("the sets of ghosts", self.ghosts == other.ghosts && self.turn == other.turn),
            ("the sweep's state", self.state == other.state),
        ];
        let names = same.into_iter().filter(|(_, same)| !same).map(|(name, _)| name);
        let all: Vec<_> = self.difference_of_entries(other).into_iter().chain(names.map(str::to_owned)).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// The differences of the places of elements, without L and its keys.
    pub fn difference_of_entries(&self, other: &Snapshot) -> Option<String> {
        let same_claims = self.claims == other.claims;
        let empty = Holding::default();
        let claims = self.claims.keys().chain(other.claims.keys().filter(|name| !self.claims.contains_key(*name)));
        let claims = claims.filter(|_| !same_claims).filter_map(|name| {
            let a = self.claims.get(name).unwrap_or(&empty);
            let b = other.claims.get(name).unwrap_or(&empty);
            let name = String::from_utf8_lossy(name);
            let parts = [map("d", &a.bare, &b.bare), map("h", &a.entries, &b.entries)];
            let parts: Vec<_> = parts.into_iter().flatten().collect();
            (!parts.is_empty()).then(|| format!("claim {name}: {}", parts.join("; ")))
        });
        let all = [
            map("Z", &self.z, &other.z),
            map("leases", &self.leases, &other.leases),
            map("retry", &self.retry, &other.retry),
            list("ready", &self.ready, &other.ready),
            list("pushed", &self.pushed, &other.pushed),
            (self.dead != other.dead).then(|| format!("dead: {:?} against {:?}", self.dead, other.dead)),
        ];
        let all: Vec<String> = all.into_iter().flatten().chain(claims).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// The differences of two maps, with the name of the key; `None` without any.
fn map<T: PartialEq + fmt::Debug>(name: &str, a: &BTreeMap<Bytes, T>, b: &BTreeMap<Bytes, T>) -> Option<String> {
    if a == b {
        return None;
    }
    let missing: Vec<_> = a.iter().filter(|(k, v)| b.get(*k) != Some(v)).map(|(k, v)| (short(k), v)).collect();
    let more: Vec<_> = b.iter().filter(|(k, v)| a.get(*k) != Some(v)).map(|(k, v)| (short(k), v)).collect();
    Some(format!("{name}: expected {missing:?}, found {more:?}"))
}

/// The same for lists.
fn list(name: &str, a: &[Bytes], b: &[Bytes]) -> Option<String> {
    let show = |l: &[Bytes]| l.iter().map(short).collect::<Vec<_>>();
    (a != b).then(|| format!("{name}: expected {:?}, found {:?}", show(a), show(b)))
}

/// Bytes for a trace, long enough to be distinct.
pub fn short(bytes: &Bytes) -> String {
    match bytes.len() {
        // Long ones are shortened, because every step is traced and few are ever shown.
        0..=40 => hex::encode(bytes),
        n => format!("{}..{} ({n} bytes)", hex::encode(&bytes[..36]), hex::encode(&bytes[n - 12..])),
    }
}

/// The identity of an element in the sets of ghosts.
pub fn identity(element: &Bytes) -> Bytes {
    element.slice(..element.len().min(9))
}
