//! The profiles: the servers of the queues, and the kind of destination.

use std::fmt;

/// The servers of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// One Redis with the queues, one with the destinations.
    #[default]
    Fixed,
    /// The queues are on a master with two replicas, behind three sentinels.
    Sentinel,
    /// The queues are on a cluster of three masters, each with a replica.
    Cluster,
    /// One Redis with the queues, and a Kafka with the destinations.
    Kafka,
    /// One Redis with the queues, and a RabbitMQ with the destinations.
    Amqp,
    /// One Redis with the queues, and a NATS server with the destinations.
    Nats,
    /// One Redis with the queues, and a broker of AMQP 1.0 with the destinations.
    Amqp1,
    /// One Redis with the queues, and a server that behaves as SQS with the destinations.
    Sqs,
    /// One Redis with the queues, and a RocketMQ with the destinations.
    RocketMq,
    /// One Redis with the queues, and an HTTP server that receives requests.
    Webhook,
    /// One Redis with topics of the job queue, and HTTP clients of the daemons.
    Jobs,
    /// Like `Jobs`, with the topics on a master with two replicas, behind three sentinels.
    JobsSentinel,
    /// Like `Fixed`, with jumps of the clock of the Redis with the queues.
    Clock,
    /// Like `Fixed`, with restarts of the Redis with the queues with older data.
    Older,
    /// Like `Fixed`, with other programs and versions that write to every key of the daemon.
    Hostile,
    /// Like `Jobs`, with the same.
    HostileJobs,
}

/// The names of all profiles, as in `--profile`.
const NAMES: [(&str, Profile); 16] = [
    ("fixed", Profile::Fixed),
    ("sentinel", Profile::Sentinel),
    ("cluster", Profile::Cluster),
    ("kafka", Profile::Kafka),
    ("amqp", Profile::Amqp),
    ("nats", Profile::Nats),
    ("amqp1", Profile::Amqp1),
    ("sqs", Profile::Sqs),
    ("rocketmq", Profile::RocketMq),
    ("webhook", Profile::Webhook),
    ("jobs", Profile::Jobs),
    ("jobs-sentinel", Profile::JobsSentinel),
    ("clock", Profile::Clock),
    ("older", Profile::Older),
    ("hostile", Profile::Hostile),
    ("hostile-jobs", Profile::HostileJobs),
];

impl Profile {
    pub fn named(name: &str) -> Result<Profile, String> {
        let found = NAMES.into_iter().find_map(|(known, profile)| (known == name).then_some(profile));
        found.ok_or_else(|| format!("--profile {name}: there are {}", NAMES.map(|(name, _)| name).join(", ")))
    }

    /// Whether the queues may be partly forgotten: by a failover, or by a restart with older data.
    pub fn forgets(self) -> bool {
        self.replicates() || self == Profile::Older
    }

    /// Whether the queues are replicated, so that a failover loses writes that the replicas did not have.
    pub fn replicates(self) -> bool {
        self.replicas() > 0
    }

    /// Number of replicas of each master. A failover by command can promote any of them.
    pub fn replicas(self) -> usize {
        match self {
            Profile::Sentinel | Profile::JobsSentinel => 2,
            Profile::Cluster => 1,
            _ => 0,
        }
    }

    /// Whether the destinations are at a broker.
    pub fn has_broker(self) -> bool {
        use Profile::{Amqp, Amqp1, Kafka, Nats, RocketMq, Sqs};
        matches!(self, Kafka | Amqp | Nats | Amqp1 | Sqs | RocketMq)
    }

    /// Whether daemons deliver elements of queues to destinations; jobs are fetched by consumers.
    pub fn delivers(self) -> bool {
        !matches!(self, Profile::Jobs | Profile::JobsSentinel | Profile::HostileJobs)
    }

    /// Whether the destinations keep the order in which they took messages.
    pub fn keeps_order(self) -> bool {
        self != Profile::Sqs
    }

    /// Whether the destinations are streams of a Redis.
    pub fn has_streams(self) -> bool {
        self.has_target_links() && self.delivers() && self != Profile::Webhook
    }

    /// Whether the destinations tell what they have already.
    pub fn tells_what_is_there(self) -> bool {
        self.has_streams() || matches!(self, Profile::Kafka | Profile::Nats)
    }

    /// Whether daemons reach the destinations through proxies; in `Jobs`, whether clients reach the daemons through
    /// proxies.
    pub fn has_target_links(self) -> bool {
        !self.has_broker()
    }

    /// Whether other programs write to the daemon's keys all the time.
    pub fn is_hostile(self) -> bool {
        matches!(self, Profile::Hostile | Profile::HostileJobs)
    }

    /// Whether daemons reach the Redis with the queues through proxies. Sentinels and clusters announce addresses of
    /// their own.
    pub fn has_source_links(self) -> bool {
        !self.replicates()
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.into_iter().find_map(|(name, profile)| (profile == *self).then_some(name));
        f.write_str(name.unwrap_or_default())
    }
}
