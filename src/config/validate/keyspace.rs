//! Which keys belong to a queue, and which of them share a slot.
//!
//! Only for comparing: the keys that the daemon uses are built beside the scripts.

use crate::link::hashed;

/// First characters of keys that belong to Redisson's delayed queues or to the daemon.
pub(super) const RESERVED: [&str; 2] = ["redisson_delay_queue", "delaybridge:"];

/// What Redisson appends to its prefixes: the name itself if it has a brace, else the name in braces.
pub(super) fn tagged(name: &str) -> String {
    if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") }
}

/// Whether the ready list of the queue shares a slot with the queue's other keys, as Redis Cluster demands.
pub(super) fn works_in_cluster(name: &str) -> bool {
    let companion = format!("delaybridge:inflight:{}", tagged(name));
    hashed(name) == hashed(&companion)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_whole_tag_does_not_work_in_cluster() {
        for name in ["orders", "app:orders", "{app}:orders", "app:{orders}:q", "a}b{c}d", "a{b}{c}"] {
            assert!(works_in_cluster(name), "{name}");
        }
        for name in ["a{b", "{a", "a{}b", "{}", "x}y"] {
            assert!(!works_in_cluster(name), "{name}");
        }
    }
}
