//! Copies of elements as jobs of a topic: their ids, and the count of an import.

use bytes::Bytes;
use serde::Serialize;

use super::Jobs;
use crate::progress::Progress;
use delaybridge_jobs::{Added, JobError, LocalId};

/// The outcome of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ImportedElements {
    /// The queue that the elements came from.
    pub queue: String,
    /// The topic that the jobs went to.
    pub topic: String,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// Elements that are jobs now, or would be.
    pub moved: u64,
    /// Elements of these that an earlier run had copied already.
    pub copied_before: u64,
    /// Elements that another client took meanwhile: their copies were withdrawn.
    pub taken: u64,
    /// Ids of a pool without a job: its user has deleted it.
    pub deleted: u64,
    /// Elements that cannot be read, are too large for the topic, or have the id of another job there; they stay.
    pub left: u64,
    /// Elements that are in flight or on a ready list; they stay where they are.
    pub elsewhere: u64,
}

impl ImportedElements {
    pub(super) fn step(&self, of: u64) -> Progress {
        Progress { done: self.moved + self.taken + self.deleted + self.left, of: Some(of), acted: self.moved }
    }
}

/// Returns whether the job that was added is a copy of this payload: now, or by an earlier run. A job that is gone was
/// one, and a consumer has finished it.
pub(super) async fn is_copy(jobs: &Jobs, added: &Added, payload: &Bytes) -> Result<bool, JobError> {
    Ok(added.created || jobs.queue.get(&added.id).await?.is_none_or(|there| there.body == *payload))
}

/// Returns the id of an element as one of a job: as it is where it can be, else as hexadecimal digits.
pub(super) fn local_id(id: &str) -> LocalId {
    id.parse().unwrap_or_else(|_| {
        let digits = hex::encode(id);
        // Ids have at most 128 characters; the hash of what is longer is as good.
        let short =
            if digits.len() <= 128 { digits } else { format!("{:032x}", xxhash_rust::xxh3::xxh3_128(id.as_bytes())) };
        short.parse().unwrap_or_else(|_| LocalId::ulid(0, 0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_s_id_is_the_job_s_where_it_can_be() {
        assert_eq!(local_id("52414e444f4d3842").as_str(), "52414e444f4d3842");
        assert_eq!(local_id("a b").as_str(), "612062");
        assert_eq!(local_id(&"ü".repeat(100)).as_str().len(), 32);
    }
}
