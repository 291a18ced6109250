//! The part that all keys of a queue have in common. Only for comparing: the keys that the daemon uses are in `keys`.

use delaybridge_link::{KeyPrefix, hashed};

/// Returns the text that Redisson appends to its prefixes: the name itself if it has a brace, else the name in braces.
pub(crate) fn tagged(name: &str) -> String {
    if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") }
}

/// Returns whether the ready list of the queue shares a slot with the queue's other keys, as Redis Cluster demands.
pub(super) fn works_in_cluster(name: &str) -> bool {
    let companion = format!("{}leases:{}", KeyPrefix::DEFAULT, tagged(name));
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
