//! Keys of callers: while one is held, no other job of the topic is added with it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;

use super::error::JobError;
use super::name::InvalidName;
use super::settings::MAX_DELAY;
use delaybridge_settings::words::words;

const KEY: InvalidName =
    InvalidName { what: "invalid unique key", rule: "use 1 to 255 bytes, without control characters" };

/// A key of the caller's choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueKey(Box<str>);

impl FromStr for UniqueKey {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        match (1..=255).contains(&text.len()) && !text.chars().any(char::is_control) {
            true => Ok(UniqueKey(text.into())),
            false => Err(KEY),
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
    /// What ends it earlier.
    pub until: UniqueUntil,
}

impl Unique {
    /// The argument of `add.lua`.
    ///
    /// # Errors
    ///
    /// Returns [`JobError::Invalid`] for a time that is out of bounds.
    pub(super) fn argument(&self) -> Result<Bytes, JobError> {
        let Unique { key, lasts, until } = self;
        if !(Duration::from_millis(1)..=MAX_DELAY).contains(lasts) {
            return Err(JobError::Invalid("the time of a unique key must be 1 ms to ten years".to_owned()));
        }
        let mode = match until {
            UniqueUntil::Finished => 'f',
            UniqueUntil::Expired => 'e',
        };
        Ok(Bytes::from(format!("{mode}{} {key}", lasts.as_millis())))
    }
}
