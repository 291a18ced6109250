//! What our keys and channels in a Redis begin with, and the number of its database.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// Longest prefix.
const LONGEST: usize = 64;
/// First characters of Redisson's own keys.
const REDISSON: &str = "redisson_";

/// The first words of our keys and channels, behind the prefix. What follows one of them begins with `:`.
pub const WORDS: [&str; 18] = [
    "aside",
    "audit",
    "claim",
    "dead",
    "fleet",
    "ghosts",
    "ghosts-turn",
    "jobs",
    "leases",
    "lives",
    "lookers",
    "offer",
    "prefix",
    "presence",
    "retry",
    "sent",
    "state",
    "sweep",
];

/// The prefix of all keys and channels that we write in a Redis: `redis.key_prefix`. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPrefix(Arc<str>);

impl KeyPrefix {
    /// The prefix where none is configured.
    pub const DEFAULT: &'static str = "delaybridge:";

    /// Returns whether it is the one where none is configured.
    pub fn is_default(&self) -> bool {
        *self.0 == *KeyPrefix::DEFAULT
    }

    /// Returns the name of a key or channel.
    pub fn name(&self, rest: impl fmt::Display) -> String {
        format!("{}{rest}", self.0)
    }

    /// Returns whether a key of this name could be one of ours. Keys of applications may have the same prefix, which is
    /// what policies by prefix are for.
    pub fn is_of(&self, key: &str) -> bool {
        let rest = key.strip_prefix(&*self.0);
        rest.is_some_and(|rest| WORDS.iter().any(|word| rest == *word || begins(rest, word)))
    }
}

fn begins(text: &str, word: &str) -> bool {
    text.strip_prefix(word).is_some_and(|rest| rest.starts_with(':'))
}

impl Default for KeyPrefix {
    fn default() -> Self {
        KeyPrefix(KeyPrefix::DEFAULT.into())
    }
}

impl Deref for KeyPrefix {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Serialize for KeyPrefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Why a text is no prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPrefix {
    /// An empty text, or one that is too long.
    #[error("a prefix has 1 to {LONGEST} characters")]
    Length,
    /// A character that hash tags, patterns or lists of keys would misread.
    #[error("a prefix has visible ASCII characters only, and none of {{ }} * ? [ ] ^ \\ \" '")]
    Character,
    /// A text without a colon at its end.
    #[error("a prefix ends with `:`, so that `a` is never the beginning of `ab`")]
    End,
    /// The beginning of Redisson's own keys.
    #[error("keys that begin with `{REDISSON}` are Redisson's own")]
    Redisson,
    /// A text that begins keys under the default prefix.
    #[error("keys that begin so are written under the default prefix `delaybridge:`")]
    Ours,
}

impl FromStr for KeyPrefix {
    type Err = BadPrefix;

    fn from_str(text: &str) -> Result<KeyPrefix, BadPrefix> {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"{}*?[]^\\\"'".contains(&byte);
        match text {
            _ if text.is_empty() || text.len() > LONGEST => Err(BadPrefix::Length),
            _ if !text.bytes().all(is_plain) => Err(BadPrefix::Character),
            _ if !text.ends_with(':') => Err(BadPrefix::End),
            _ if text.starts_with(REDISSON) => Err(BadPrefix::Redisson),
            _ if KeyPrefix::default().is_of(text) => Err(BadPrefix::Ours),
            _ => Ok(KeyPrefix(text.into())),
        }
    }
}

/// The namespace of our keys and channels in a Redis: the prefix and the database. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct KeySpace {
    /// The prefix.
    pub prefix: KeyPrefix,
    /// The number of the database. Keys are inside of it, channels know none.
    pub database: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_plain_text_that_ends_with_a_colon() {
        for good in [
            "delaybridge:",
            "team-a:",
            ":",
            "a:b:",
            "delaybridge:team-a:",
            "@/+=,.;:",
            &format!("{:>64}", ':').replace(' ', "x"),
        ] {
            assert_eq!(good.parse::<KeyPrefix>().map(|prefix| prefix.to_string()), Ok(good.to_owned()));
        }
        for (bad, why) in [
            ("", BadPrefix::Length),
            (&*format!("{:>65}", ':').replace(' ', "x"), BadPrefix::Length),
            ("a b:", BadPrefix::Character),
            ("a{b:", BadPrefix::Character),
            ("a}:", BadPrefix::Character),
            ("a*:", BadPrefix::Character),
            ("a?:", BadPrefix::Character),
            ("[a]:", BadPrefix::Character),
            ("a\\:", BadPrefix::Character),
            ("\u{e9}:", BadPrefix::Character),
            ("a\n:", BadPrefix::Character),
            ("team-a", BadPrefix::End),
            ("redisson_delay_queue:", BadPrefix::Redisson),
            ("redisson_x:", BadPrefix::Redisson),
            ("delaybridge:jobs:", BadPrefix::Ours),
            ("delaybridge:claim:x:", BadPrefix::Ours),
        ] {
            assert_eq!(bad.parse::<KeyPrefix>(), Err(why), "{bad}");
        }
    }

    #[test]
    fn only_keys_with_our_words_behind_the_prefix_are_ours() {
        let prefix: KeyPrefix = "team-a:".parse().expect("a prefix");
        for (key, expected) in [
            ("team-a:leases:{q}", true),
            ("team-a:fleet", true),
            ("team-a:orders", false),
            ("team-a:leases-of-cars", false),
            ("delaybridge:leases:{q}", false),
        ] {
            assert_eq!(prefix.is_of(key), expected, "{key}");
        }
    }
}
