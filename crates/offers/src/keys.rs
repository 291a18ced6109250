//! The names of a queue in Redis, as Redisson makes them from the name of the destination queue.

/// Returns the text that follows Redisson's prefixes, and ours: the name itself if it contains `{`, else the name in
/// braces, so that all keys of a queue share a slot of Redis Cluster.
pub fn tagged(name: &str) -> String {
    if name.contains('{') { name.to_owned() } else { ["{", name, "}"].concat() }
}

/// The prefix of our own keys, unless the daemon's configuration has another `redis.key_prefix`.
const DEFAULT_PREFIX: &str = "delaybridge:";
/// The beginning of the name of the sorted set.
const TIMEOUT: &str = "redisson_delay_queue_timeout:";
/// Longest prefix.
const LONGEST: usize = 64;

/// Returns whether it can be a prefix: visible ASCII without braces and the characters of patterns, and a colon at the
/// end.
pub(crate) fn is_prefix(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"{}*?[]^\\\"'".contains(&byte);
    text.len() <= LONGEST && text.ends_with(':') && text.bytes().all(is_plain)
}

/// The keys of a queue that a producer uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// The sorted set: element -> due time in ms.
    pub timeout: String,
    /// The list of the same elements, in the order of the offers.
    pub list: String,
    /// The channel on which the due time of a new head is announced.
    pub channel: String,
    /// The beginning of the keys of offers with an id of the caller; the id follows.
    pub mark: String,
}

impl Keys {
    /// Creates the keys of the queue whose destination has this name, after any mapping of names.
    pub fn of(name: &str) -> Keys {
        let tagged = tagged(name);
        Keys {
            timeout: [TIMEOUT, &tagged].concat(),
            list: ["redisson_delay_queue:", &tagged].concat(),
            channel: ["redisson_delay_queue_channel:", &tagged].concat(),
            mark: mark(DEFAULT_PREFIX, &tagged),
        }
    }

    /// Sets the prefix of our own keys.
    pub(crate) fn with_prefix(self, prefix: &str) -> Keys {
        let tagged = self.timeout.strip_prefix(TIMEOUT).unwrap_or_default();
        Keys { mark: mark(prefix, tagged), ..self }
    }
}

fn mark(prefix: &str, tagged: &str) -> String {
    [prefix, "offer:", tagged, ":"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_an_opening_brace_is_taken_as_it_is() {
        for (name, tag) in [
            ("orders", "{orders}"),
            ("app:orders", "{app:orders}"),
            ("{app}:orders", "{app}:orders"),
            ("a{b", "a{b"),
            ("x}y", "{x}y}"),
            ("заказы", "{заказы}"),
        ] {
            let keys = Keys::of(name);
            assert_eq!(keys.timeout, format!("redisson_delay_queue_timeout:{tag}"));
            assert_eq!(keys.list, format!("redisson_delay_queue:{tag}"));
            assert_eq!(keys.channel, format!("redisson_delay_queue_channel:{tag}"));
            assert_eq!(keys.mark, format!("delaybridge:offer:{tag}:"));
        }
    }

    #[test]
    fn only_the_mark_has_the_prefix() {
        let keys = Keys::of("offer:s").with_prefix("team-a:");
        assert_eq!(keys.mark, "team-a:offer:{offer:s}:");
        assert_eq!(keys.clone().with_prefix("offer:").mark, "offer:offer:{offer:s}:");
        assert_eq!(Keys { mark: Keys::of("offer:s").mark, ..keys }, Keys::of("offer:s"));
        for (text, expected) in [("a:", true), (":", true), ("a", false), ("a{:", false), ("a b:", false), ("", false)]
        {
            assert_eq!(is_prefix(text), expected, "{text}");
        }
    }
}
