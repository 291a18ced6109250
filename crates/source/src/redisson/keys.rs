//! Redisson's keys of a queue, as Redisson maps names, and what we record beside them. The only place that spells them.

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;

use delaybridge_link::KeySpace;

/// Returns the text that Redisson appends to its prefixes (`RedissonObject.prefixName`): the name itself if it has a brace,
/// else the name in braces.
pub(crate) fn tagged(name: &str) -> String {
    if name.contains('{') { name.to_owned() } else { ["{", name, "}"].concat() }
}

/// All keys of one queue. They share one hash tag, so that everything works in Redis Cluster.
#[derive(Debug, Clone)]
pub struct Keys {
    /// The part that all keys have in common: the hash tag, with what Redisson puts around it.
    pub tag: String,
    /// Z: element -> due time in ms.
    pub delayed: Bytes,
    /// L: the same elements in the order offered.
    pub list: Bytes,
    /// The ready list: the mapped name itself.
    pub ready: Bytes,
    /// First 9 bytes of every entry that a claim left in L: in both layouts its random id is among them.
    pub ghosts: Bytes,
    /// The ghosts from before the current turn of the sweep.
    pub ghosts_turn: Bytes,
    /// State of the sweep and of the `LREM` budget.
    pub sweep: Bytes,
    /// The free places of an `RBoundedBlockingQueue`: exists only where the ready list is one.
    pub permits: Bytes,
    /// Redisson announces the due time of a new head here.
    pub channel: Arc<str>,
    ledger: delaybridge_ledger::Keys,
}

impl Keys {
    /// Creates the keys of the queue with this mapped name.
    pub fn of(space: &KeySpace, name: &str) -> Self {
        let prefix = &*space.prefix;
        let tagged = tagged(name);
        let [delayed, list, ready, ghosts, ghosts_turn, sweep, permits] = delaybridge_ledger::together([
            ["redisson_delay_queue_timeout:", &tagged, ""],
            ["redisson_delay_queue:", &tagged, ""],
            [name, "", ""],
            [prefix, "ghosts:", &tagged],
            [prefix, "ghosts-turn:", &tagged],
            [prefix, "sweep:", &tagged],
            ["redisson_bqs:", &tagged, ""],
        ]);
        Keys {
            delayed,
            list,
            ready,
            ghosts,
            ghosts_turn,
            sweep,
            permits,
            channel: ["redisson_delay_queue_channel:", &tagged].concat().into(),
            ledger: delaybridge_ledger::Keys::of(space, &tagged),
            tag: tagged,
        }
    }

    /// Returns the channel on which Redisson announces how many places are free: producers that wait in `put` listen
    /// there.
    pub fn permits_channel(&self) -> Bytes {
        [b"redisson_sc:", &self.permits[..]].concat().into()
    }

    /// Returns the keys in the order of `keys.lua`.
    pub(super) fn in_scripts(&self) -> [&Bytes; 6] {
        [&self.delayed, &self.list, &self.ready, &self.ghosts, &self.ghosts_turn, &self.sweep]
    }
}

impl Deref for Keys {
    type Target = delaybridge_ledger::Keys;

    fn deref(&self) -> &delaybridge_ledger::Keys {
        &self.ledger
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::works_in_cluster;

    #[test]
    fn names_map_as_redisson_maps_them() {
        for (name, tagged) in [
            ("orders", "{orders}"),
            ("app:orders", "{app:orders}"),
            ("{app}:orders", "{app}:orders"),
            ("app:{orders}:q", "app:{orders}:q"),
            ("a{b", "a{b"),
        ] {
            let keys = Keys::of(&KeySpace::default(), name);
            assert_eq!(keys.delayed, format!("redisson_delay_queue_timeout:{tagged}"));
            assert_eq!(keys.list, format!("redisson_delay_queue:{tagged}"));
            assert_eq!(&*keys.channel, format!("redisson_delay_queue_channel:{tagged}"));
            assert_eq!(keys.ready, name);
            assert_eq!(keys.permits, format!("redisson_bqs:{tagged}"));
            assert_eq!(keys.permits_channel(), format!("redisson_sc:redisson_bqs:{tagged}"));
            assert_eq!(keys.leases, format!("delaybridge:leases:{tagged}"));
        }
    }

    #[test]
    fn a_name_without_a_whole_tag_does_not_work_in_cluster() {
        for name in ["orders", "app:orders", "{app}:orders", "app:{orders}:q", "a}b{c}d", "a{b}{c}"] {
            assert!(works_in_cluster(name, &tagged(name)), "{name}");
        }
        for name in ["a{b", "{a", "a{}b", "{}", "x}y"] {
            assert!(!works_in_cluster(name, &tagged(name)), "{name}");
        }
    }
}
