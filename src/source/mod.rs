//! Where elements come from: one folder a kind of source.
//!
//! A queue has two halves in Redis. What lives under `delaybridge:*` is ours and the same for every kind: leases, retries,
//! dead letters, and the scripts that move elements between them ([`ledger`]). Where due elements are, how they are packed,
//! and what else has to go with them belongs to a foreign program; each kind of it is an implementation of [`Source`].
//! A script is put together from our half and the half of the source.

pub mod competitors;
#[cfg(test)]
pub(crate) mod contract;
pub mod job_pool;
pub mod jobs;
#[doc(hidden)]
pub mod memory;
pub mod redisson;
pub(crate) mod spec;
pub mod zset;

use std::sync::Arc;

use bytes::Bytes;

pub(crate) use self::spec::SourceSettings;
pub use self::spec::SourceSpec;
use crate::ledger::Packed;
pub use crate::ledger::{
    self, Activity, AllBodies, Announcement, Beside, ClaimAdded, Depths, Junk, Leftovers, NoPayload, Noted, Read,
    Score, Source, Start, StoreError, UpkeepRequest, UpkeepState, Upkept, junk_id, millis, redis, score, store,
};
use crate::link::{Script, slot};
use crate::metric::SourceTerms;

/// The source that a queue's configuration describes.
pub fn build(spec: &SourceSpec) -> Arc<dyn Source> {
    match spec {
        SourceSpec::Redisson(spec) => Arc::new(redisson::RedissonSource::of(spec)),
        SourceSpec::Zset(spec) => Arc::new(zset::ZsetSource::of(spec)),
        SourceSpec::JobPool(spec) => Arc::new(job_pool::JobPool::of(spec)),
        SourceSpec::Jobs(spec) => Arc::new(jobs::JobsSource::of(spec)),
    }
}

/// Two keys of a queue that a Redis Cluster may keep on different nodes, if there are such. Scripts name many keys at once.
pub fn apart(spec: &SourceSpec) -> Option<(String, String)> {
    let source = build(spec);
    let ledger = source.ledger_keys();
    // A member that is an id, for keys that have it in their names.
    let body = source.body_at(&Bytes::from_static(b"1")).map(|at| at.key().clone());
    let stored = source.stored().into_iter().chain(source.due_sets()).chain(source.ready_lists()).chain(body);
    let first = source.schedule();
    let same = |key: &Bytes| slot(key) == slot(first);
    let other = ledger.stored().into_iter().cloned().chain(stored).find(|key| !same(key))?;
    let text = |key: &Bytes| String::from_utf8_lossy(key).into_owned();
    Some((text(first), text(&other)))
}

/// What an element is that comes without its queue; `None` for bytes in no format of any source.
pub fn recognise(element: &Bytes) -> Option<Packed> {
    redisson::recognise(element)
}

/// The terms of every kind of source that has some.
pub fn terms() -> Vec<&'static SourceTerms> {
    vec![&redisson::TERMS]
}

/// Every script that a daemon runs for these queues, to be loaded when a connection is made.
pub fn scripts<'a>(specs: impl Iterator<Item = &'a SourceSpec>) -> Vec<&'static Script> {
    let mut kinds: Vec<Arc<dyn Source>> = Vec::new();
    for spec in specs {
        let source = build(spec);
        if kinds.iter().all(|known| known.kind() != source.kind()) {
            kinds.push(source);
        }
    }
    kinds.iter().flat_map(|source| source.scripts().all().into_iter().chain(source.own_scripts())).collect()
}
