//! The ledger's keys of a queue: everything under `delaybridge:` that is the same for every kind of source.

use std::sync::Arc;

use bytes::Bytes;

use super::claims::ClaimName;
use delaybridge_link::rights::command::RENAME;
use delaybridge_link::rights::{Grant, Pattern};

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
    /// Every daemon that delivers from the queue listens here, so that others see that it is there. That a pause begins or
    /// ends is announced here.
    pub presence: Arc<str>,
    /// The hash tag of all keys.
    pub tag: Arc<str>,
}

/// Keys in one piece of memory, each of a prefix and the rest: ten thousand queues have many keys, and a queue at rest has its
/// keys made at each look.
pub fn together<const N: usize>(keys: [(&str, &str); N]) -> [Bytes; N] {
    let mut all = Vec::with_capacity(keys.iter().map(|(prefix, rest)| prefix.len() + rest.len()).sum());
    let ends = keys.map(|(prefix, rest)| {
        all.extend_from_slice(prefix.as_bytes());
        all.extend_from_slice(rest.as_bytes());
        all.len()
    });
    let all = Bytes::from(all);
    let mut begin = 0;
    ends.map(|end| all.slice(std::mem::replace(&mut begin, end)..end))
}

impl Keys {
    /// The keys of the queue with this tag: `{NAME}`, or a name that has a hash tag of its own.
    pub fn of(tag: &str) -> Self {
        let [leases, retry, dead, state] = together(
            ["delaybridge:leases:", "delaybridge:retry:", "delaybridge:dead:", "delaybridge:state:"]
                .map(|kind| (kind, tag)),
        );
        Keys { leases, retry, dead, state, presence: ["delaybridge:presence:", tag].concat().into(), tag: tag.into() }
    }

    /// The keys of a claim: d with bare elements, h with entries.
    pub fn of_claim(&self, name: ClaimName) -> [Bytes; 2] {
        let tag = &self.tag;
        [format!("delaybridge:claim:{name}:d:{tag}").into(), format!("delaybridge:claim:{name}:h:{tag}").into()]
    }

    /// For a source with bodies: `n` and an element -> how many lives of it claims and retries hold, because a body goes with the last
    /// of them; `b` and an element -> SHA-1 of the body that the last of those ended with that had others beside it.
    pub fn lives(&self) -> Bytes {
        format!("delaybridge:lives:{}", self.tag).into()
    }

    /// The latest changes of operators. No part of the structure: ten thousand queues have no operator most of the time.
    pub fn audit(&self) -> Bytes {
        format!("delaybridge:audit:{}", self.tag).into()
    }

    /// The keys of all claims.
    pub fn of_claims(&self) -> Pattern {
        let [example, _] = self.of_claim(ClaimName::new([0; 8], 0));
        Pattern::around([Some("delaybridge:claim:".to_owned()), None, Some(format!(":{}", self.tag))])
            .with_example(example)
    }

    /// The key to which `fsck` moves a foreign value under one of our keys; `None` for keys of others.
    pub fn aside(&self, key: &[u8]) -> Option<Bytes> {
        let kind = key.strip_prefix(b"delaybridge:")?.strip_suffix(self.tag.as_bytes())?;
        Some([b"delaybridge:aside:", kind, self.tag.as_bytes()].concat().into())
    }

    /// All such keys.
    pub fn all_aside(&self) -> Pattern {
        Pattern::around([Some("delaybridge:aside:".to_owned()), None, Some(format!(":{}", self.tag))])
            .with_example(Bytes::from(format!("delaybridge:aside:leases:{}", self.tag)))
    }

    /// The right to rename one of our keys to there.
    pub fn to_put_aside(&self, key: &Bytes) -> Grant {
        Grant::on([Pattern::exact(key.clone()), self.all_aside()], [RENAME])
    }

    /// Every key that is ever stored under a name that does not change.
    pub fn stored(&self) -> [&Bytes; 4] {
        let Keys { leases, retry, dead, state, presence: _, tag: _ } = self;
        [leases, retry, dead, state]
    }
}
