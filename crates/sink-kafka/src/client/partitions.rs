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

/// Time for which the number of partitions of a topic is taken as it is: less than that after which librdkafka asks again.
const FRESH: Duration = Duration::from_secs(60);

/// The number of partitions of topics of which some are in trouble.
#[derive(Debug, Default)]
pub(super) struct Partitions {
    /// Whether there is any; a lock for every element would cost more.
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
            None => {
                topics.remove(topic);
            }
        }
        self.any.store(!topics.is_empty(), Ordering::Release);
    }

    /// Returns the partition of a record with this key, where partitions of the topic differ.
    pub(super) fn of(&self, topic: &str, key: &[u8]) -> Option<u32> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let topics = self.topics.lock();
        let (count, since) = topics.get(topic)?;
        (since.elapsed() < REMEMBERED && *count > 0).then(|| partition(key, *count))
    }
}

/// The numbers of partitions of topics, for records whose order matters.
#[derive(Debug, Default)]
pub(super) struct PartitionCounts(Mutex<HashMap<Arc<str>, PartitionCount>>);

#[derive(Debug, Clone, Copy)]
struct PartitionCount {
    count: u32,
    asked: Instant,
    /// The time of the last change, where there was one.
    changed: Option<Instant>,
}

impl PartitionCounts {
    pub(super) fn note(&self, topic: &Arc<str>, count: u32) {
        let mut counts = self.0.lock();
        let asked = Instant::now();
        let before = counts.get(topic).copied();
        if before.is_none() && counts.len() >= MOST {
            counts.retain(|_, known| known.asked.elapsed() < REMEMBERED);
            if counts.len() >= MOST {
                return;
            }
        }
        let changed = before.and_then(|before| if before.count == count { before.changed } else { Some(asked) });
        counts.insert(topic.clone(), PartitionCount { count, asked, changed });
    }

    /// Marks a topic that may be gone, and come back with another number.
    pub(super) fn doubt(&self, topic: &str) {
        if let Some(known) = self.0.lock().get_mut(topic) {
            known.changed = Some(Instant::now());
        }
    }

    /// Returns the partition of a record with this key. A record without one has any, unless there is only one. `None`
    /// for a while after the number has changed: what was on one partition by the number before may be on two now.
    pub(super) fn of(&self, topic: &str, key: Option<&[u8]>) -> Option<u32> {
        let PartitionCount { count, changed, .. } = *self.0.lock().get(topic)?;
        match (count, key) {
            _ if changed.is_some_and(|changed| changed.elapsed() < FRESH) => None,
            (1, _) => Some(0),
            (2.., Some(key)) => Some(partition(key, count)),
            _ => None,
        }
    }

    /// Returns whether the number is not known, or so old that partitions may have been added.
    pub(super) fn is_old(&self, topic: &str) -> bool {
        self.0.lock().get(topic).is_none_or(|known| known.asked.elapsed() > FRESH)
    }
}

/// Returns the partition that a record with this key goes to, of so many.
pub(super) fn partition(key: &[u8], count: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff) % count.max(1)
}

/// Returns the hash that Kafka's clients choose partitions with.
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
    fn records_have_a_partition_while_the_number_is_certain() {
        let counts = PartitionCounts::default();
        let topic = Arc::from("t");
        assert!(counts.is_old("t") && counts.of("t", Some(b"21")).is_none());
        counts.note(&topic, 3);
        assert!(!counts.is_old("t"));
        assert_eq!(counts.of("t", Some(b"21")), Some(partition(b"21", 3)));
        assert_eq!(counts.of("t", None), None);
        counts.note(&topic, 3);
        assert!(counts.of("t", Some(b"21")).is_some());
        counts.note(&topic, 4);
        assert_eq!(counts.of("t", Some(b"21")), None, "a partition was added just now");
        let one = Arc::from("one");
        counts.note(&one, 1);
        assert_eq!((counts.of("one", Some(b"21")), counts.of("one", None)), (Some(0), Some(0)));
        counts.doubt("one");
        assert_eq!(counts.of("one", None), None);
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
