//! The refusal of a queue that is delivered with another prefix of our keys.

use std::fmt;

use delaybridge_link::KeyPrefix;

/// A queue that is delivered with another prefix.
#[derive(Debug)]
pub struct OtherPrefix {
    /// The prefix of this configuration.
    pub(super) ours: KeyPrefix,
    /// The prefix that the queue was delivered with: as it was found, it may be none.
    pub(super) theirs: String,
    /// The name of the marker.
    pub(super) marker: String,
    pub(super) found: FoundThere,
}

/// What is known of the other prefix.
#[derive(Debug)]
pub(super) enum FoundThere {
    /// Daemons listen there.
    Daemons(u64),
    /// These keys are there.
    Left(Vec<String>),
    /// It was not looked for.
    NotAsked,
    /// The user may not look.
    NoRight(String),
    /// It is no prefix of this version.
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
