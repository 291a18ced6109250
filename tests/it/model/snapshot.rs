//! Everything that Redis holds of one queue, as values that can be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use delaybridge::source::redisson::Keys;
use redis::aio::MultiplexedConnection;

/// Key that exactly-once verdicts push to.
pub const PUSHED: &str = "pushed";

/// All keys of a queue, and the destination list.
#[derive(Clone, PartialEq, Default)]
pub struct Snapshot {
    pub z: BTreeMap<Bytes, f64>,
    pub l: Vec<Bytes>,
    pub ready: Vec<Bytes>,
    pub in_flight: BTreeMap<Bytes, i64>,
    pub retry: BTreeMap<Bytes, i64>,
    pub dead: Vec<(String, Vec<Bytes>)>,
    pub pushed: Vec<Bytes>,
    pub ghosts: BTreeSet<Bytes>,
    pub turn: BTreeSet<Bytes>,
    pub state: BTreeMap<String, String>,
}

type Raw = Vec<u8>;
type Scored = Vec<(Raw, f64)>;
type All =
    (Scored, Vec<Raw>, Vec<Raw>, Scored, Scored, Vec<(String, Vec<Raw>)>, Vec<Raw>, Vec<Raw>, Vec<Raw>, StateFields);
type StateFields = BTreeMap<String, Raw>;

impl Snapshot {
    /// Reads all keys in one round trip.
    pub async fn read(redis: &mut MultiplexedConnection, keys: &Keys) -> Snapshot {
        let mut pipe = redis::pipe();
        pipe.zrange_withscores(&keys.delayed[..], 0, -1)
            .lrange(&keys.list[..], 0, -1)
            .lrange(&keys.ready[..], 0, -1)
            .zrange_withscores(&keys.in_flight[..], 0, -1)
            .zrange_withscores(&keys.retry[..], 0, -1);
        pipe.cmd("XRANGE").arg(&keys.dead[..]).arg("-").arg("+");
        pipe.lrange(PUSHED, 0, -1).smembers(&keys.ghosts[..]).smembers(&keys.ghosts_turn[..]).hgetall(&keys.sweep[..]);
        let all: All = pipe.query_async(redis).await.unwrap();
        let (z, l, ready, in_flight, retry, dead, pushed, ghosts, turn, state) = all;
        let scored = |zset: Scored| zset.into_iter().map(|(m, score)| (Bytes::from(m), score as i64)).collect();
        let list = |list: Vec<Raw>| list.into_iter().map(Bytes::from).collect::<Vec<_>>();
        Snapshot {
            z: z.into_iter().map(|(m, score)| (Bytes::from(m), score)).collect(),
            l: list(l),
            ready: list(ready),
            in_flight: scored(in_flight),
            retry: scored(retry),
            dead: dead.into_iter().map(|(id, fields)| (id, list(fields))).collect(),
            pushed: list(pushed),
            ghosts: ghosts.into_iter().map(Bytes::from).collect(),
            turn: turn.into_iter().map(Bytes::from).collect(),
            state: state
                .into_iter()
                .map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned()))
                .collect(),
        }
    }

    /// How many times the identity is recorded: a ghost may be in either set, and two twins in both.
    pub fn records(&self, id: &Bytes) -> usize {
        usize::from(self.ghosts.contains(id)) + usize::from(self.turn.contains(id))
    }

    /// How many copies of the element L has.
    pub fn copies(&self, element: &Bytes) -> usize {
        self.l.iter().filter(|e| *e == element).count()
    }

    /// What differs, by the name of the key; `None` if nothing does.
    pub fn difference(&self, other: &Snapshot) -> Option<String> {
        let same = [
            ("Z", self.z == other.z),
            ("L", self.l == other.l),
            ("the sets of ghosts", self.ghosts == other.ghosts && self.turn == other.turn),
            ("the state hash", self.state == other.state),
        ];
        let names = same.into_iter().filter(|(_, same)| !same).map(|(name, _)| name);
        let all: Vec<_> = self.difference_of_entries(other).into_iter().chain(names.map(str::to_owned)).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// The same for where elements can be, less L and what belongs to it.
    pub fn difference_of_entries(&self, other: &Snapshot) -> Option<String> {
        let all = [
            map("Z", &self.z, &other.z),
            map("in flight", &self.in_flight, &other.in_flight),
            map("retry", &self.retry, &other.retry),
            list("ready", &self.ready, &other.ready),
            list("pushed", &self.pushed, &other.pushed),
            (self.dead != other.dead).then(|| format!("dead: {:?} against {:?}", self.dead, other.dead)),
        ];
        let all: Vec<String> = all.into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

fn map<T: PartialEq + fmt::Debug>(name: &str, a: &BTreeMap<Bytes, T>, b: &BTreeMap<Bytes, T>) -> Option<String> {
    if a == b {
        return None;
    }
    let missing: Vec<_> = a.iter().filter(|(k, v)| b.get(*k) != Some(v)).map(|(k, v)| (short(k), v)).collect();
    let more: Vec<_> = b.iter().filter(|(k, v)| a.get(*k) != Some(v)).map(|(k, v)| (short(k), v)).collect();
    Some(format!("{name}: expected {missing:?}, found {more:?}"))
}

fn list(name: &str, a: &[Bytes], b: &[Bytes]) -> Option<String> {
    let show = |l: &[Bytes]| l.iter().map(short).collect::<Vec<_>>();
    (a != b).then(|| format!("{name}: expected {:?}, found {:?}", show(a), show(b)))
}

/// Bytes for a trace: long enough to be distinct.
pub fn short(bytes: &Bytes) -> String {
    match bytes.len() {
        // Not all of a long one: it is a trace of every step, and few of them are ever shown.
        0..=40 => hex::encode(bytes),
        n => format!("{}..{} ({n} bytes)", hex::encode(&bytes[..36]), hex::encode(&bytes[n - 12..])),
    }
}

/// What the sets of ghosts know an element by.
pub fn identity(element: &Bytes) -> Bytes {
    element.slice(..element.len().min(16))
}
