//! The keys of a sorted set that is a queue.

use std::sync::Arc;

use bytes::Bytes;

use delaybridge_link::hashed;

/// The key, what the ledger's keys share with it, and its channel.
#[derive(Debug, Clone)]
pub struct Keys {
    /// The part that all keys have in common: the key itself if it has a hash tag, else the key in braces.
    pub tag: String,
    /// The sorted set: payload -> due time.
    pub zset: Bytes,
    /// The channel on which Redis announces changes of the set, if it is configured to.
    pub channel: Arc<str>,
}

impl Keys {
    /// Creates the keys of the set with this name, in this database. `bytes`: those of the key where it is no text.
    pub fn of(key: &str, bytes: Option<&Bytes>, database: u32) -> Self {
        Keys {
            tag: tag(key),
            zset: bytes.cloned().unwrap_or_else(|| Bytes::from(key.to_owned())),
            channel: format!("__keyspace@{database}__:{key}").into(),
        }
    }
}

/// Returns the part that all keys of the queue have in common.
///
/// Redis Cluster hashes what is between the first `{` and the next `}`, unless that is empty. A key that has such a tag
/// is its own; braces that are none stay inside of new ones.
pub fn tag(key: &str) -> String {
    if hashed(key) == key { format!("{{{key}}}") } else { key.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::works_in_cluster;

    #[test]
    fn our_keys_share_the_slot_of_any_key() {
        for (key, tagged) in [
            ("orders", "{orders}"),
            ("app:orders", "{app:orders}"),
            ("queues:{default}:delayed", "queues:{default}:delayed"),
            ("{default}", "{default}"),
            ("a{b", "{a{b}"),
            ("a{b{c", "{a{b{c}"),
        ] {
            assert_eq!((tag(key).as_str(), works_in_cluster(key, &tag(key))), (tagged, true), "{key}");
        }
        for key in ["a}b", "a{}b", "{}", "{}{b}", "a}{b"] {
            assert!(!works_in_cluster(key, &tag(key)), "{key}");
        }
    }
}
