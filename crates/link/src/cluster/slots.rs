//! The map from slots to nodes, as a node of the cluster reports it. Pure.

use std::collections::{HashMap, HashSet};

use redis::Value;

use crate::address::Address;
use crate::slot::SLOTS;

/// The index of no master.
const NO_MASTER: u16 = u16::MAX;
/// Maximum number of ranges and of nodes in a reply: more than one for each slot is not a reply of a cluster.
const MOST: usize = SLOTS as usize;

/// The owners of all slots.
#[derive(Debug, Clone)]
pub(super) struct Slots {
    /// For each slot the index of its master in `masters`.
    owners: Vec<u16>,
    masters: Vec<Address>,
    replicas: Vec<Address>,
}

impl Slots {
    /// Creates an empty map.
    pub(super) fn unknown() -> Slots {
        Slots { owners: vec![NO_MASTER; usize::from(SLOTS)], masters: Vec::new(), replicas: Vec::new() }
    }

    /// Parses the reply to `CLUSTER SLOTS` of the node `asked`. With `names`, host names are preferred to addresses,
    /// because certificates contain names. A node with an unknown host owns nothing.
    ///
    /// # Errors
    ///
    /// Returns an error for a reply of another shape.
    pub(super) fn parse(answer: Value, asked: &Address, names: bool) -> Result<Slots, &'static str> {
        const SHAPE: &str = "the answer to CLUSTER SLOTS has an unknown shape";
        const SIZE: &str = "the answer to CLUSTER SLOTS names more than a cluster can have";
        let Value::Array(ranges) = answer else { return Err(SHAPE) };
        if ranges.len() > MOST {
            return Err(SIZE);
        }
        let mut slots = Slots::unknown();
        // A list of many ranges repeats the same nodes.
        let mut places = HashMap::new();
        let mut replicas = HashSet::new();
        for range in ranges {
            let Value::Array(fields) = range else { return Err(SHAPE) };
            let mut fields = fields.into_iter();
            let (Some(Value::Int(first)), Some(Value::Int(last))) = (fields.next(), fields.next()) else {
                return Err(SHAPE);
            };
            let (Ok(first), Ok(last)) = (u16::try_from(first), u16::try_from(last)) else { return Err(SHAPE) };
            if first > last || last >= SLOTS {
                return Err(SHAPE);
            }
            let mut nodes = fields.map(|node| address(node, asked, names).ok_or(SHAPE));
            if let Some(master) = nodes.next().transpose()?.flatten() {
                let place = *places.entry(master).or_insert_with_key(|master| {
                    slots.masters.push(master.clone());
                    u16::try_from(slots.masters.len() - 1).unwrap_or(NO_MASTER)
                });
                slots.owners[usize::from(first)..=usize::from(last)].fill(place);
            }
            for replica in nodes {
                if let Some(replica) = replica?
                    && replicas.insert(replica.clone())
                {
                    slots.replicas.push(replica);
                }
                if replicas.len() > MOST {
                    return Err(SIZE);
                }
            }
        }
        Ok(slots)
    }

    /// Returns the master of a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<&Address> {
        self.masters.get(usize::from(*self.owners.get(usize::from(slot))?))
    }

    /// Returns the masters that own a slot.
    pub(super) fn masters(&self) -> impl Iterator<Item = &Address> {
        let mut owns = vec![false; self.masters.len()];
        for owner in &self.owners {
            if let Some(owns) = owns.get_mut(usize::from(*owner)) {
                *owns = true;
            }
        }
        self.masters.iter().zip(owns).filter(|(_, owns)| *owns).map(|(master, _)| master)
    }

    /// Returns all nodes of the map, replicas included.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Address> {
        self.masters.iter().chain(&self.replicas)
    }

    /// Sets the master of a slot; returns whether it has changed.
    pub(super) fn moved(&mut self, slot: u16, to: Address) -> bool {
        if self.owner(slot) == Some(&to) {
            return false;
        }
        let place = self.place(to);
        if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
            *owner = place;
        }
        true
    }

    fn place(&mut self, master: Address) -> u16 {
        let found = self.masters.iter().position(|known| *known == master);
        let place = found.unwrap_or_else(|| {
            self.masters.push(master);
            self.masters.len() - 1
        });
        u16::try_from(place).unwrap_or(NO_MASTER)
    }
}

/// Returns the address of a node: `Some(None)` if it is unknown, `None` for an unknown shape.
fn address(node: Value, asked: &Address, names: bool) -> Option<Option<Address>> {
    let Value::Array(fields) = node else { return None };
    let mut fields = fields.into_iter();
    let host = match fields.next()? {
        Value::Nil => String::new(),
        other => text(other)?,
    };
    let Value::Int(port) = fields.next()? else { return None };
    let port = u16::try_from(port).ok()?;
    let metadata = fields.nth(1).map(pairs).unwrap_or_default();
    let of = |name: &str| metadata.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let preferred = if names { of("hostname").filter(|name| !name.is_empty()) } else { None };
    let host = preferred.or(match host.as_str() {
        "" => Some(asked.host.to_string()),
        "?" => of("ip").filter(|ip| !ip.is_empty()),
        _ => Some(host),
    });
    Some(host.filter(|_| port != 0).map(|host| Address::new(host, port)))
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

/// Returns the metadata of a node, since Redis 7.0: names and values, as a list or a map.
fn pairs(value: Value) -> Vec<(String, String)> {
    match value {
        Value::Array(fields) => {
            let mut fields = fields.into_iter();
            std::iter::from_fn(|| Some((fields.next()?, fields.next()?)))
                .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
                .collect()
        }
        Value::Map(pairs) => pairs.into_iter().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LinkError;
    use crate::cluster::redirect::Redirect;
    use crate::fuzz::fuzz;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn node(host: Value, port: i64, metadata: &[&str]) -> Value {
        let metadata = Value::Array(metadata.iter().map(|text| bulk(text)).collect());
        Value::Array(vec![host, Value::Int(port), bulk("id"), metadata])
    }

    fn range(first: i64, last: i64, nodes: Vec<Value>) -> Value {
        Value::Array([vec![Value::Int(first), Value::Int(last)], nodes].concat())
    }

    fn parsed(ranges: Vec<Value>, names: bool) -> Result<Slots, &'static str> {
        Slots::parse(Value::Array(ranges), &Address::new("asked", 1), names)
    }

    #[test]
    fn owners_are_read_in_every_spelling_of_a_host() {
        fn check(host: Value, metadata: &[&str], names: bool, expected: Option<&str>) {
            let slots = parsed(vec![range(0, 16_383, vec![node(host, 7000, metadata)])], names).unwrap();
            assert_eq!(slots.owner(7).map(ToString::to_string).as_deref(), expected);
        }
        check(bulk("10.0.0.1"), &[], false, Some("10.0.0.1:7000"));
        check(bulk("::1"), &[], false, Some("[::1]:7000"));
        check(bulk(""), &[], false, Some("asked:7000"));
        check(Value::Nil, &[], true, Some("asked:7000"));
        check(bulk("?"), &[], false, None);
        check(bulk("?"), &["ip", "10.0.0.1"], false, Some("10.0.0.1:7000"));
        check(bulk("10.0.0.1"), &["hostname", "node-1"], false, Some("10.0.0.1:7000"));
        check(bulk("10.0.0.1"), &["hostname", "node-1"], true, Some("node-1:7000"));
        check(bulk("10.0.0.1"), &["hostname", ""], true, Some("10.0.0.1:7000"));
    }

    #[test]
    fn masters_and_replicas_are_told_apart_and_what_is_not_covered_has_no_owner() {
        let a = node(bulk("a"), 1, &[]);
        let b = node(bulk("b"), 2, &[]);
        let c = node(bulk("c"), 3, &[]);
        let mut slots =
            parsed(vec![range(0, 9, vec![a.clone(), c]), range(20, 30, vec![b]), range(31, 31, vec![a])], false)
                .unwrap();
        let show = |nodes: &mut dyn Iterator<Item = &Address>| nodes.map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(show(&mut slots.masters()), ["a:1", "b:2"]);
        assert_eq!(show(&mut slots.nodes()), ["a:1", "b:2", "c:3"]);
        assert_eq!((slots.owner(10), slots.owner(16_383), slots.owner(20_000)), (None, None, None));
        assert!(slots.moved(20, Address::new("a", 1)) && !slots.moved(20, Address::new("a", 1)));
        for slot in 20..=30 {
            slots.moved(slot, Address::new("d", 4));
        }
        assert_eq!(show(&mut slots.masters()), ["a:1", "d:4"], "b owns nothing any more");
    }

    #[test]
    fn an_answer_of_another_shape_is_refused() {
        for ranges in [
            vec![Value::Int(1)],
            vec![range(5, 4, vec![])],
            vec![range(0, 16_384, vec![])],
            vec![range(-1, 3, vec![])],
            vec![range(0, 3, vec![Value::Nil])],
            vec![Value::Array(vec![Value::Int(1)])],
        ] {
            assert!(parsed(ranges.clone(), false).is_err(), "{ranges:?}");
        }
        assert!(Slots::parse(Value::Nil, &Address::new("a", 1), false).is_err());
    }

    #[test]
    fn what_an_answer_may_name_is_bounded() {
        let named = |n: i64| node(bulk(&format!("h{n}")), 1, &[]);
        let ranges = |many: i64| (0..many).map(|n| range(n % 16_384, n % 16_384, vec![named(n)])).collect();
        assert_eq!(parsed(ranges(16_384), false).unwrap().masters().count(), 16_384);
        assert!(parsed(ranges(16_385), false).unwrap_err().contains("more than a cluster can have"));
        let one = |replicas: i64| vec![range(0, 16_383, (0..=replicas).map(named).collect())];
        assert_eq!(parsed(one(16_384), false).unwrap().nodes().count(), 16_385);
        assert!(parsed(one(16_385), false).is_err());
    }

    /// Replies of a cluster with two masters, as bytes.
    const ANSWERS: [&str; 3] = [
        "*2\r\n*4\r\n:0\r\n:8191\r\n*4\r\n$9\r\n127.0.0.1\r\n:7000\r\n$2\r\naa\r\n*2\r\n$8\r\nhostname\r\n$1\r\na\r\n\
         *4\r\n$0\r\n\r\n:7003\r\n$2\r\nad\r\n*0\r\n*3\r\n:8192\r\n:16383\r\n*4\r\n$1\r\n?\r\n:7001\r\n$2\r\nab\r\n*2\r\n$2\r\nip\r\n$3\r\n::1\r\n",
        "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$-1\r\n:0\r\n+id\r\n",
        "*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n+h\r\n:65535\r\n+id\r\n%1\r\n+hostname\r\n+n\r\n",
    ];

    #[test]
    fn fuzz_answers_to_cluster_slots() {
        fuzz("CLUSTER SLOTS", &ANSWERS, |bytes| {
            let answer = redis::parse_redis_value(bytes).ok()?;
            let slots = Slots::parse(answer, &Address::new("asked", 1), bytes.len() % 2 == 0).ok()?;
            // Every node comes from the reply, except the host that was asked.
            assert!(slots.nodes().count() * 3 <= bytes.len() && slots.masters().count() <= slots.masters.len());
            assert!((0..=SLOTS).all(|slot| slots.owner(slot).is_none_or(|owner| slots.masters.contains(owner))));
            Some(())
        });
    }

    #[test]
    fn fuzz_redirections() {
        fuzz("MOVED", &["-MOVED 3999 127.0.0.1:6381\r\n", "-ASK 3999 ::1:6381\r\n", "-MOVED 1 ?:1\r\n"], |bytes| {
            let Value::ServerError(error) = redis::parse_redis_value(bytes).ok()? else { return None };
            let (code, message) = crate::server_code(error.code(), error.details().unwrap_or_default());
            let code = ["MOVED", "ASK"].into_iter().find(|known| *known == code)?;
            let message = message.to_owned();
            let way = Redirect::of(&LinkError::Server { code, message }, "asked")?;
            assert!(way.to().port != 0 && way.to().host.len() <= bytes.len().max(5));
            // Any slot number: numbers beyond the last one are ignored.
            if let Redirect::Moved(slot, to) = &way {
                let mut slots = Slots::unknown();
                slots.moved(*slot, to.clone());
                assert_eq!(slots.owner(*slot).is_some(), *slot < SLOTS);
            }
            Some(())
        });
    }
}
