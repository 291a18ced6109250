//! Names of a topic's keys. All have the topic as their hash tag, so that a script may use them together in a Cluster.

use bytes::Bytes;

use super::name::Topic;

/// First characters of all keys of the job queue.
pub const PREFIX: &str = "delaybridge:jobs:";
/// The topics that there are: a zset of their names, all of score zero.
pub const TOPICS: &str = "delaybridge:jobs:topics";
/// Channel on which a script says which topic has a new first job.
pub const WAKE: &str = "delaybridge:jobs:wake";

/// The keys of one topic, in the order in which every script takes them.
#[derive(Debug, Clone)]
pub struct Keys {
    all: [Bytes; 8],
}

/// What each key holds: its word in the name, and its type.
pub const KINDS: [(&str, &str); 8] = [
    ("due", "zset"),
    ("reserved", "zset"),
    ("records", "hash"),
    ("state", "hash"),
    ("dead", "zset"),
    ("expiry", "zset"),
    ("gone", "zset"),
    ("topic", "hash"),
];

impl Keys {
    /// The keys of a topic.
    pub fn of(topic: &Topic) -> Keys {
        Keys::named(topic.as_str())
    }

    /// The keys of the topic with this name, which is not checked.
    pub(crate) fn named(topic: &str) -> Keys {
        Keys { all: KINDS.map(|(word, _)| Bytes::from(format!("{PREFIX}{word}:{{{topic}}}"))) }
    }

    /// What waits: id -> due time, ms.
    pub fn due(&self) -> &Bytes {
        &self.all[0]
    }

    /// What consumers have: id -> end of the reservation, ms.
    pub fn reserved(&self) -> &Bytes {
        &self.all[1]
    }

    /// Jobs that have no tries left.
    pub fn dead(&self) -> &Bytes {
        &self.all[4]
    }

    /// What was added of each job.
    pub fn records(&self) -> &Bytes {
        &self.all[2]
    }

    /// What changes of each job.
    pub fn state(&self) -> &Bytes {
        &self.all[3]
    }

    /// Ends of times to live.
    pub fn expiry(&self) -> &Bytes {
        &self.all[5]
    }

    /// Finished ids of clients, until they are forgotten.
    pub fn gone(&self) -> &Bytes {
        &self.all[6]
    }

    /// The topic's own hash.
    pub fn topic(&self) -> &Bytes {
        &self.all[7]
    }

    /// All of them, in the order of [`KINDS`].
    pub fn all(&self) -> &[Bytes; 8] {
        &self.all
    }
}
