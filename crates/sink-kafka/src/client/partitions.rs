//! The partitions of topics of which some are in trouble, and the one that a record goes to.
//!
//! A record with a key goes to one partition, and to no other while that has no leader. So elements with this partition have
//! a destination of their own while some partitions work and others do not. Records without a key avoid a partition without
//! a leader.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use delaybridge_core::clock::Instant;

/// Topics that are remembered.
const MOST: usize = 1_000;
/// Time for which they are remembered; a topic in trouble is asked for again with each record that fails.
const REMEMBERED: Duration = Duration::from_secs(600);

/// The number of partitions of topics of which some are in trouble.
#[derive(Debug, Default)]
pub(super) struct Partitions {
    /// There is one: asked for every element.
    any: AtomicBool,
    topics: Mutex<HashMap<Arc<str>, (u32, Instant)>>,
}

impl Partitions {
    /// Notes how many partitions a topic has of which some are in trouble; `None` where none or all are.
    pub(super) fn note(&self, topic: &Arc<str>, count: Option<u32>) {
        let now = Instant::now();
        let mut topics = self.topics.lock();
        topics.retain(|_, (_, since)| now.since(*since) < REMEMBERED);
        match count {
            Some(count) if topics.len() < MOST || topics.contains_key(topic) => {
                topics.insert(topic.clone(), (count, now));
            }
            Some(_) => {}
            None => drop(topics.remove(topic)),
        }
        self.any.store(!topics.is_empty(), Ordering::Release);
    }

    /// The partition of a record with this key, where partitions of the topic differ.
    pub(super) fn of(&self, topic: &str, key: &[u8]) -> Option<u32> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let topics = self.topics.lock();
        let (count, since) = topics.get(topic)?;
        (since.elapsed() < REMEMBERED && *count > 0).then(|| partition(key, *count))
    }
}

/// The partition that a record with this key goes to, of so many.
pub(super) fn partition(key: &[u8], count: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff) % count.max(1)
}

/// The hash that Kafka's clients choose partitions with.
fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mix = |word: u32| {
        let word = word.wrapping_mul(M);
        (word ^ (word >> 24)).wrapping_mul(M)
    };
    let length = u32::try_from(key.len()).unwrap_or(u32::MAX);
    let (words, rest) = key.as_chunks::<4>();
    let mut hash = 0x9747_b28c ^ length;
    for word in words {
        hash = hash.wrapping_mul(M) ^ mix(u32::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |last, byte| last << 8 | u32::from(*byte));
        hash = (hash ^ last).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_partition_that_kafka_gives_it() {
        // From the tests of Kafka's own clients.
        let check = |key: &str, hash: i32| assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        check("21", -973_932_308);
        check("foobar", -790_332_482);
        check("a-little-bit-long-string", -985_981_536);
        check("a-little-bit-longer-string", -1_486_304_829);
        check("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971);
        check("abc", 479_470_107);
    }

    #[test]
    fn partitions_are_told_apart_only_while_some_are_in_trouble() {
        let partitions = Partitions::default();
        let topic: Arc<str> = "t".into();
        assert_eq!(partitions.of("t", b"21"), None);
        partitions.note(&topic, Some(3));
        assert_eq!(partitions.of("t", b"21"), Some(((-973_932_308_i32).cast_unsigned() & 0x7fff_ffff) % 3));
        assert_eq!(partitions.of("other", b"21"), None);
        partitions.note(&topic, None);
        assert_eq!(partitions.of("t", b"21"), None);
        for n in 0..2 * MOST {
            partitions.note(&format!("t{n}").into(), Some(3));
        }
        assert_eq!(partitions.topics.lock().len(), MOST);
    }
}
