//! The refusal of a queue that is delivered with another prefix of our keys.

use std::fmt;

use delaybridge_link::KeyPrefix;

/// A queue that is delivered with another prefix.
#[derive(Debug)]
pub struct OtherPrefix {
    /// The prefix of this configuration.
    pub(super) ours: KeyPrefix,
    /// The marker as it was found; it may be no valid prefix.
    pub(super) theirs: String,
    pub(super) marker: String,
    pub(super) found: FoundThere,
}

/// The state under the other prefix.
#[derive(Debug)]
pub(super) enum FoundThere {
    Daemons(u64),
    /// Keys that exist there, three at most.
    Left(Vec<String>),
    /// An unknown state: only the marker was read.
    NotAsked,
    /// A state that the user has no right to read, with the server's words.
    NoRight(String),
    /// A marker that is no valid prefix.
    Unreadable,
}

impl fmt::Display for OtherPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OtherPrefix { ours, theirs, marker, found } = self;
        write!(f, "the queue is delivered with `key_prefix: '{theirs}'`, and this configuration has '{ours}': ")?;
        match found {
            FoundThere::Daemons(1) => {
                f.write_str("a daemon works under the other prefix; configure one prefix for all")
            }
            FoundThere::Daemons(count) => {
                write!(f, "{count} daemons work under the other prefix; configure one prefix for all")
            }
            FoundThere::Left(keys) => write!(
                f,
                "left under the other prefix: {}. Run a daemon with it until nothing is in flight, waits for a retry, is dead or \
                 paused, then change the prefix",
                keys.join(", ")
            ),
            FoundThere::NotAsked => f.write_str("configure the same prefix"),
            FoundThere::NoRight(problem) => write!(
                f,
                "this user may not look whether anything is left under the other prefix ({problem}). If nothing is, and no \
                 daemon has it, remove the key {marker}"
            ),
            FoundThere::Unreadable => write!(f, "this version does not know such a prefix; see the key {marker}"),
        }
    }
}

impl std::error::Error for OtherPrefix {}
