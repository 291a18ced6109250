//! The ledger's keys of a queue: everything under our prefix that is the same for every kind of source.

use std::sync::Arc;

use bytes::Bytes;

use super::claims::ClaimName;
use delaybridge_link::rights::command::RENAME;
use delaybridge_link::rights::{Grant, Pattern};
use delaybridge_link::{KeyPrefix, KeySpace};

/// The keys of one queue. They share its hash tag, so that everything works in Redis Cluster.
#[derive(Debug, Clone)]
pub struct Keys {
    /// Name of a claim -> end of its lease in ms.
    pub leases: Bytes,
    /// Entry -> time of the next attempt in ms.
    pub retry: Bytes,
    /// Dead letters.
    pub dead: Bytes,
    /// The forwarder of dead letters, and the end of its lease; what is paused.
    pub state: Bytes,
    /// Every daemon that delivers from a queue of this name listens here, whatever the database: channels know none. That a
    /// pause begins or ends is announced here.
    pub presence: Arc<str>,
    /// Every daemon that delivers from this queue listens here, so that others see that it is there.
    pub in_database: Arc<str>,
    /// The hash tag of all keys.
    pub tag: Arc<str>,
    /// The names of all keys and channels.
    pub space: KeySpace,
}

/// The number of databases that a server has by default.
const DATABASES: usize = 16;

/// Builds the name of the presence channel of a queue in a database. The number precedes the first colon, because a tag
/// may contain one.
fn in_database(prefix: &KeyPrefix, database: u32, tag: &str) -> Arc<str> {
    format!("{prefix}presence.{database}:{tag}").into()
}

/// Builds several keys, each of parts, in one piece of memory: ten thousand queues have many keys, and those of an idle
/// queue are built at each look.
pub fn together<const N: usize>(keys: [[&str; 3]; N]) -> [Bytes; N] {
    let mut all = Vec::with_capacity(keys.iter().flatten().map(|part| part.len()).sum());
    let ends = keys.map(|parts| {
        parts.into_iter().for_each(|part| all.extend_from_slice(part.as_bytes()));
        all.len()
    });
    let all = Bytes::from(all);
    let mut begin = 0;
    ends.map(|end| all.slice(std::mem::replace(&mut begin, end)..end))
}

impl Keys {
    /// Creates the keys of the queue with this tag: `{NAME}`, or a name that has a hash tag of its own.
    pub fn of(space: &KeySpace, tag: &str) -> Self {
        let KeySpace { prefix, database } = space;
        let [leases, retry, dead, state] =
            together(["leases:", "retry:", "dead:", "state:"].map(|kind| [&**prefix, kind, tag]));
        Keys {
            leases,
            retry,
            dead,
            state,
            presence: [prefix, "presence:", tag].concat().into(),
            in_database: in_database(prefix, *database, tag),
            tag: tag.into(),
            space: space.clone(),
        }
    }

    /// Returns the keys of the same queue with another prefix.
    pub(super) fn under(&self, prefix: KeyPrefix) -> Keys {
        Keys::of(&KeySpace { prefix, ..self.space.clone() }, &self.tag)
    }

    /// Returns a name of ours that belongs to the queue.
    pub(super) fn named(&self, word: &str) -> Bytes {
        [&*self.space.prefix, word, &self.tag].concat().into()
    }

    /// Returns the channels of the daemons that deliver from a queue of this name in one of the databases that a server
    /// has by default.
    pub fn in_databases(&self) -> [Arc<str>; DATABASES] {
        std::array::from_fn(|database| in_database(&self.space.prefix, database as u32, &self.tag))
    }

    /// Returns the keys of a claim: d with bare elements, h with entries.
    pub fn of_claim(&self, name: ClaimName) -> [Bytes; 2] {
        let Keys { space: KeySpace { prefix, .. }, tag, .. } = self;
        [format!("{prefix}claim:{name}:d:{tag}").into(), format!("{prefix}claim:{name}:h:{tag}").into()]
    }

    /// Returns the key that counts lives, for a source with bodies: `n` and an element -> how many lives of it claims
    /// and retries hold, because a body goes with the last of them; `b` and an element -> SHA-1 of the body that the
    /// last of those ended with that had others beside it.
    pub fn lives(&self) -> Bytes {
        self.named("lives:")
    }

    /// Returns the latest changes of operators. No part of the structure: ten thousand queues have no operator most of
    /// the time.
    pub fn audit(&self) -> Bytes {
        self.named("audit:")
    }

    /// Returns the keys of all claims.
    pub fn of_claims(&self) -> Pattern {
        let [example, _] = self.of_claim(ClaimName::new([0; 8], 0));
        Pattern::around([Some(self.space.prefix.name("claim:")), None, Some(format!(":{}", self.tag))])
            .with_example(example)
    }

    /// Returns the key to which `fsck` moves a foreign value under one of our keys; `None` for keys of others.
    pub fn aside(&self, key: &[u8]) -> Option<Bytes> {
        let kind = key.strip_prefix(self.space.prefix.as_bytes())?.strip_suffix(self.tag.as_bytes())?;
        Some([self.space.prefix.as_bytes(), b"aside:", kind, self.tag.as_bytes()].concat().into())
    }

    /// Returns all such keys.
    pub fn all_aside(&self) -> Pattern {
        Pattern::around([Some(self.space.prefix.name("aside:")), None, Some(format!(":{}", self.tag))])
            .with_example(self.named("aside:leases:"))
    }

    /// Returns the right to rename one of our keys to there.
    pub fn to_put_aside(&self, key: &Bytes) -> Grant {
        Grant::on([Pattern::exact(key.clone()), self.all_aside()], [RENAME])
    }

    /// Returns every key that is ever stored under a name that does not change.
    pub fn stored(&self) -> [&Bytes; 4] {
        let Keys { leases, retry, dead, state, presence: _, in_database: _, tag: _, space: _ } = self;
        [leases, retry, dead, state]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_and_channel_has_the_prefix_but_the_marker() {
        let space = KeySpace { prefix: "team-a:".parse().expect("a prefix"), database: 3 };
        let keys = Keys::of(&space, "{q}");
        let [claim, _] = keys.of_claim(ClaimName::new([0; 8], 1));
        let all = keys.stored().into_iter().chain([&claim]);
        assert!(all.chain([&keys.lives(), &keys.audit()]).all(|key| key.starts_with(b"team-a:")), "{keys:?}");
        assert_eq!((&*keys.presence, &*keys.in_database), ("team-a:presence:{q}", "team-a:presence.3:{q}"));
        assert_eq!(keys.aside(b"team-a:retry:{q}").as_deref(), Some(&b"team-a:aside:retry:{q}"[..]));
        assert_eq!(keys.aside(b"delaybridge:retry:{q}"), None);
        assert_eq!(keys.marker(), "delaybridge:prefix:{q}");
    }

    #[test]
    fn no_queue_is_taken_for_that_of_another_database() {
        let of = |database, tag: &str| Keys::of(&KeySpace { database, ..KeySpace::default() }, tag);
        let one = of(3, "{q}");
        let other = of(0, "3:{q}");
        assert!(one.in_databases().contains(&one.in_database));
        assert!(![&other.presence, &other.in_database].contains(&&one.in_database), "{other:?}");
    }
}
