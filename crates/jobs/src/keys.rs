//! The names of a topic's keys. All have the topic as their hash tag, so that a script may use them together in a
//! Cluster.

use bytes::Bytes;

use super::name::Topic;
use delaybridge_link::KeyPrefix;

/// Returns the index of topics: a zset of their names, all with score zero.
pub fn topics(prefix: &KeyPrefix) -> String {
    prefix.name("jobs:topics")
}

/// Returns the channel on which scripts announce topics with a new first job. They make its name of the first of their
/// keys.
pub fn wake(prefix: &KeyPrefix) -> String {
    prefix.name("jobs:wake")
}

/// The keys of one topic, in the order in which every script takes them.
#[derive(Debug, Clone)]
pub struct Keys {
    all: [Bytes; 13],
}

/// The number of kinds that every script takes; the others are of scripts that need them.
const OF_JOBS: usize = 8;
/// The number of kinds that scripts take which move waiting jobs.
const OF_WAITING: usize = 9;

/// The kinds of keys, each with its word in the name and its type.
pub const KINDS: [(&str, &str); 13] = [
    ("due", "zset"),
    ("reserved", "zset"),
    ("records", "hash"),
    ("state", "hash"),
    ("dead", "zset"),
    ("expiry", "zset"),
    ("gone", "zset"),
    ("topic", "hash"),
    ("urgent", "zset"),
    ("unique", "zset"),
    ("holders", "hash"),
    ("firings", "zset"),
    ("recurring", "hash"),
];

impl Keys {
    /// Creates the keys of a topic.
    pub fn of(prefix: &KeyPrefix, topic: &Topic) -> Keys {
        Keys::named(prefix, topic.as_str())
    }

    /// Returns the keys of the topic with this name, which is not validated.
    pub fn named(prefix: &KeyPrefix, topic: &str) -> Keys {
        Keys { all: KINDS.map(|(word, _)| Bytes::from(format!("{prefix}jobs:{word}:{{{topic}}}"))) }
    }

    /// Returns the waiting jobs: id -> due time, ms.
    pub fn due(&self) -> &Bytes {
        &self.all[0]
    }

    /// Returns the reserved jobs: id -> end of the reservation, ms.
    pub fn reserved(&self) -> &Bytes {
        &self.all[1]
    }

    /// Returns the jobs without tries left.
    pub fn dead(&self) -> &Bytes {
        &self.all[4]
    }

    /// Returns the data of each job that consumers do not change.
    pub fn records(&self) -> &Bytes {
        &self.all[2]
    }

    /// Returns the changing data of each job.
    pub fn state(&self) -> &Bytes {
        &self.all[3]
    }

    /// Returns the key of the ends of the jobs' times to live.
    pub fn expiry(&self) -> &Bytes {
        &self.all[5]
    }

    /// Returns the key of the clients' ids of finished jobs, until they are forgotten.
    pub fn gone(&self) -> &Bytes {
        &self.all[6]
    }

    /// Returns the hash of the topic itself.
    pub fn topic(&self) -> &Bytes {
        &self.all[7]
    }

    /// Returns the keys with the states of jobs, and the topic's own: the first eight of [`KINDS`].
    pub fn of_jobs(&self) -> &[Bytes] {
        &self.all[..OF_JOBS]
    }

    /// Returns the waiting jobs with a priority: id -> their order.
    pub fn urgent(&self) -> &Bytes {
        &self.all[8]
    }

    /// Returns the keys with the states of jobs, the topic's own, and the order of jobs with a priority: the first nine
    /// of [`KINDS`].
    pub fn of_waiting(&self) -> &[Bytes] {
        &self.all[..OF_WAITING]
    }

    /// Returns all keys, in the order of [`KINDS`].
    pub fn all(&self) -> &[Bytes] {
        &self.all
    }
}
