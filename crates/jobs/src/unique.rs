//! Keys of callers: while one is held, no other job of the topic is added with it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::name::InvalidName;
use delaybridge_settings::words::words;

const KEY: InvalidName =
    InvalidName { what: "invalid unique key", rule: "use 1 to 255 bytes, without control characters" };

/// A key of the caller's choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueKey(Box<str>);

impl FromStr for UniqueKey {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        if (1..=255).contains(&text.len()) && !text.chars().any(char::is_control) {
            Ok(UniqueKey(text.into()))
        } else {
            Err(KEY)
        }
    }
}

impl fmt::Display for UniqueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

words! {
    /// The end of a unique key, if it comes before the end of its time.
    pub enum UniqueUntil {
        /// The job is gone: finished, deleted, purged, or past its time to live. A dead job is not gone.
        Finished = "finished",
        /// None: the key is held for all of its time.
        Expired = "expired",
    }
}

/// The unique key of a job that is to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unique {
    /// The key.
    pub key: UniqueKey,
    /// The time for which it is held, from now on.
    pub lasts: Duration,
    /// The earlier end, if there is one.
    pub until: UniqueUntil,
}
