//! The topics that a producer knows: librdkafka keeps each that a record was ever made for, with all of its partitions, so their
//! number is bounded. Only hashes of their names are kept, because payloads may choose them.
//!
//! The bound is 2,000 topics.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

/// Most topics of one producer: with ten partitions each, some 30 MB.
pub(super) const TOPICS: usize = 2_000;

/// The text that is shown in place of a topic's name.
const HIDDEN: &str = "(topic)";

/// Topics of one producer.
#[derive(Debug, Default)]
pub(super) struct KnownTopics {
    hashes: Mutex<HashSet<u64>>,
    /// Whether a record was refused because its topic was one too many.
    full: AtomicBool,
}

impl KnownTopics {
    /// Returns whether a record for the topic may be made: it is one of those known, or there is room for it.
    pub(super) fn admits(&self, topic: &str) -> bool {
        let hash = xxh3_64(topic.as_bytes());
        let mut hashes = self.hashes.lock();
        if hashes.len() < TOPICS {
            hashes.insert(hash);
            return true;
        }
        let known = hashes.contains(&hash);
        if !known {
            self.full.store(true, Ordering::Release);
        }
        known
    }

    /// Returns whether there was a topic that found no room.
    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    /// Returns a line of librdkafka without the names of these topics.
    pub(super) fn hide<'a>(&self, line: &'a str) -> Cow<'a, str> {
        let hashes = self.hashes.lock();
        let is_known = |word: &str| !word.is_empty() && hashes.contains(&xxh3_64(word.as_bytes()));
        let mut shown = Cow::Borrowed("");
        let mut rest = line;
        let mut hidden = false;
        while !rest.is_empty() {
            let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            let end = rest.find(|c| !legal(c)).unwrap_or(rest.len());
            let (word, others) = rest.split_at(end);
            // The full stop of a sentence could be a part of a name.
            let bare = word.trim_end_matches('.');
            match (is_known(word), is_known(bare)) {
                (true, _) => shown.to_mut().push_str(HIDDEN),
                (false, true) => shown.to_mut().extend([HIDDEN, &word[bare.len()..]]),
                (false, false) => shown.to_mut().push_str(word),
            }
            hidden |= is_known(word) || is_known(bare);
            let next = others.find(legal).unwrap_or(others.len());
            shown.to_mut().push_str(&others[..next]);
            rest = &others[next..];
        }
        if hidden { shown } else { Cow::Borrowed(line) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_do_not_name_the_topics_of_records() {
        let known = KnownTopics::default();
        ["orders.eu", "a"].iter().for_each(|topic| assert!(known.admits(topic)));
        let check = |line: &str, expected: &str| assert_eq!(known.hide(line), expected);
        check("[thrd:main]: orders.eu [3]: leader is -1", "[thrd:main]: (topic) [3]: leader is -1");
        check("Topic orders.eu: unknown", "Topic (topic): unknown");
        check("no such topic: orders.eu.", "no such topic: (topic).");
        check("orders.eu.old and orders are others", "orders.eu.old and orders are others");
        check("für a", "für (topic)");
        check("", "");
        check("127.0.0.1:9092/1: Disconnected", "127.0.0.1:9092/1: Disconnected");
    }

    #[test]
    fn their_number_is_bounded() {
        let known = KnownTopics::default();
        assert!((0..TOPICS).all(|n| known.admits(&n.to_string())) && !known.is_full());
        assert!(known.admits("7") && !known.is_full());
        assert!(!known.admits("one more") && known.is_full());
        assert!(known.admits("7"), "those that are known");
    }
}
