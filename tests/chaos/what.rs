//! What a fault does: its kind, its target, and what the rules expect of it.

use crate::receiver::Manner;
use harness::failovers::Failover;
use harness::toxic::Toxic;

/// The kind of the fault that needs another binary.
pub const UPGRADE: &str = "upgrade";

/// The other end of a daemon's link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The Redis with the queues.
    Source,
    /// The Redis with the destinations.
    Target,
}

/// A problem of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Connections are open, but no byte passes.
    Freeze,
    /// Commands arrive, but answers do not.
    Mute,
    /// Connections are refused.
    Refuse,
    /// Connections are dropped repeatedly.
    Drop,
    /// The answers to every n-th claim are lost after it ran.
    LoseClaims(u64),
    /// The answers to every n-th verdict are lost after it was written.
    LoseVerdicts(u64),
    /// The answers to every n-th extension of leases are lost.
    LoseExtensions(u64),
    /// The answers to every n-th message are lost after it arrived.
    LoseMessages(u64),
    /// A toxic of toxiproxy.
    Toxic(Toxic),
}

/// A problem of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ill {
    /// Suspended with SIGSTOP.
    Freeze,
    /// Killed with SIGKILL, and started with its append-only file.
    Kill,
    /// `maxmemory` is reached.
    Full,
    /// SCRIPT FLUSH, several times.
    ScriptFlush,
    /// CLIENT KILL of all connections.
    Disconnect,
    /// Daemons may not run any command.
    Rights,
    /// The disk is full.
    Disk {
        /// Whether the server writes before each answer, and so exits; otherwise it refuses writes.
        ends: bool,
    },
}

/// A problem of a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ailment {
    /// Suspended with SIGSTOP.
    Freeze,
    /// Killed with SIGKILL, and started with its data.
    Kill,
    /// RabbitMQ's disk alarm, the limit of a stream of NATS, or of an address of AMQP 1.0: nothing is accepted.
    Full,
    /// All connections are closed by an operator.
    Disconnect,
    /// RabbitMQ's exchange, or topics of Kafka, are deleted and created again. Streams of NATS listen to other subjects.
    Gone,
    /// Daemons may not publish.
    Rights,
    /// The disk of one of two brokers is full, and it exits.
    Disk,
    /// One of two brokers is suspended or killed, and comes back.
    Half {
        /// The number of the broker, from 1.
        node: usize,
        /// Whether it is killed.
        killed: bool,
    },
    /// A topic of Kafka requires more replicas than exist, and refuses all records.
    Refuse,
    /// The name server of RocketMQ is killed, and started again.
    NameServer,
}

/// A kind of fault, with its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A daemon is killed with SIGKILL, and started again at the end.
    Kill(usize),
    /// A daemon is suspended with SIGSTOP, and resumed at the end.
    Stop(usize),
    /// A daemon is stopped with SIGTERM, and started again at the end.
    Terminate(usize),
    /// Each daemon is stopped with SIGTERM and started, one after the other.
    Rolling,
    /// A daemon is replaced by the other binary, and back at the end.
    Upgrade(usize),
    /// A problem of a daemon's link.
    Link(usize, Side, Trouble),
    /// A problem of a server.
    Server(Side, Ill),
    /// A problem of a broker.
    Broker(Ailment),
    /// A behaviour of the receiver of webhooks.
    Receiver(Manner),
    /// All consumers of jobs are killed.
    Consumers,
    /// The destination of a queue has the wrong type.
    WrongType(usize),
    /// The master of a queue is replaced.
    FailOver(Failover, usize),
    /// The replicas of a queue's master are disconnected for this many ms, then it is killed.
    FailOverBehind(usize, u64),
    /// The Redis with the queues restarts with its state of this many ms ago.
    Older(u64),
    /// The master of a queue is suspended, and replaced if that lasts long enough.
    FreezeMaster(usize),
    /// A sentinel is suspended.
    FreezeSentinel(usize),
    /// The slot of a queue moves to another master.
    MoveSlot(usize),
    /// The clock of the Redis with the queues is this many ms ahead; negative if behind.
    Clock(i64),
    /// The configuration of a daemon changes: to a broken one, to another one, and back.
    Reload(usize),
    /// An element kills every daemon that sends it.
    Poison,
    /// A person pauses and resumes a queue.
    Pause(usize),
    /// Members that no known program wrote.
    Junk(usize),
    /// For some time, the leases and the retries of a queue have members of another program.
    ForeignMembers(usize),
    /// For some time, a text is at the key of a queue's retries.
    ForeignKey(usize),
    /// Until the end, every key of a queue or a topic has data of other programs, of newer versions and of broken
    /// disks.
    Strangers(usize),
    /// For some time, a key of a queue or a topic contains a text; the second value selects the key.
    OwnType(usize, usize),
    /// An element of this many MB.
    Large(usize),
}

impl What {
    /// The kind, as in `--faults` and the tables.
    pub fn kind(&self) -> &'static str {
        match self {
            What::Kill(_) => "kill",
            What::Stop(_) => "stop",
            What::Terminate(_) => "terminate",
            What::Rolling => "rolling",
            What::Upgrade(_) => UPGRADE,
            What::Link(_, _, Trouble::Freeze) => "link-freeze",
            What::Link(_, _, Trouble::Mute) => "link-mute",
            What::Link(_, _, Trouble::Refuse) => "link-refuse",
            What::Link(_, _, Trouble::Drop) => "link-drop",
            What::Link(_, _, Trouble::LoseClaims(_)) => "lose-claims",
            What::Link(_, _, Trouble::LoseVerdicts(_)) => "lose-verdicts",
            What::Link(_, _, Trouble::LoseExtensions(_)) => "lose-extensions",
            What::Link(_, _, Trouble::LoseMessages(_)) => "lose-messages",
            What::Link(_, _, Trouble::Toxic(Toxic::Latency { .. })) => "latency",
            What::Link(_, _, Trouble::Toxic(Toxic::Bandwidth { .. })) => "bandwidth",
            What::Link(_, _, Trouble::Toxic(Toxic::Slicer { .. })) => "slicer",
            What::Link(_, _, Trouble::Toxic(Toxic::LimitData { .. })) => "limit-data",
            What::Server(Side::Source, Ill::Freeze) => "redis-freeze",
            What::Server(Side::Source, Ill::Kill) => "redis-kill",
            What::Server(Side::Source, Ill::Full) => "redis-full",
            What::Server(Side::Source, Ill::ScriptFlush) => "script-flush",
            What::Server(Side::Source, Ill::Disconnect) => "client-kill",
            What::Server(_, Ill::Disk { .. }) => "redis-disk",
            What::Server(Side::Target, Ill::Freeze) => "sink-freeze",
            What::Server(Side::Target, Ill::Kill) => "sink-kill",
            What::Server(Side::Target, Ill::Full) => "sink-full",
            What::Server(Side::Target, Ill::ScriptFlush | Ill::Disconnect) => "sink-disconnect",
            What::Server(Side::Source, Ill::Rights) => "redis-rights",
            What::Server(Side::Target, Ill::Rights) => "sink-rights",
            What::Broker(Ailment::Freeze) => "broker-freeze",
            What::Broker(Ailment::Kill) => "broker-kill",
            What::Broker(Ailment::Full) => "broker-full",
            What::Broker(Ailment::Disconnect) => "broker-disconnect",
            What::Broker(Ailment::Gone) => "broker-gone",
            What::Broker(Ailment::Rights) => "broker-rights",
            What::Broker(Ailment::Refuse) => "broker-refuse",
            What::Broker(Ailment::Half { .. }) => "broker-half",
            What::Broker(Ailment::NameServer) => "name-server",
            What::Broker(Ailment::Disk) => "broker-disk",
            What::Receiver(Manner::Slow { .. }) => "hook-slow",
            What::Receiver(Manner::Fail { .. }) => "hook-fail",
            What::Receiver(Manner::Busy { .. }) => "hook-busy",
            What::Receiver(Manner::Cut { .. }) => "hook-cut",
            What::Receiver(Manner::Mute) => "hook-mute",
            What::Receiver(Manner::Refuse) => "hook-refuse",
            What::Consumers => "consumers-kill",
            What::WrongType(_) => "sink-wrong-type",
            What::FailOver(Failover::Command, _) => "failover",
            What::FailOver(Failover::Kill, _) => "failover-kill",
            What::FailOverBehind(..) => "failover-behind",
            What::Older(_) => "redis-older",
            What::FreezeMaster(_) => "master-freeze",
            What::FreezeSentinel(_) => "sentinel-freeze",
            What::MoveSlot(_) => "slot-move",
            What::Clock(0..) => "clock-ahead",
            What::Clock(_) => "clock-behind",
            What::Reload(_) => "reload",
            What::Poison => "poison",
            What::Pause(_) => "pause",
            What::Junk(_) => "junk",
            What::ForeignMembers(_) => "foreign-members",
            What::ForeignKey(_) => "foreign-key",
            What::Strangers(_) => "strangers",
            What::OwnType(..) => "own-type",
            What::Large(_) => "large",
        }
    }

    /// Whether the fault is made only on request.
    pub fn is_rare(&self) -> bool {
        matches!(self, What::Poison | What::Large(_))
    }

    /// Whether `--lasts` says how long it lasts.
    pub fn lasts_as_asked(&self) -> bool {
        matches!(self, What::Broker(Ailment::Freeze | Ailment::Kill))
    }

    /// Whether the fault needs a file system of its own, and so rights that not every machine gives.
    pub fn needs_a_disk(&self) -> bool {
        matches!(self, What::Server(_, Ill::Disk { .. }) | What::Broker(Ailment::Disk))
    }

    /// Whether a sink or Redis may appear broken.
    pub fn opens_breakers(&self) -> bool {
        self.may_lose_writes()
            || matches!(
                self,
                What::Link(..)
                    | What::Server(..)
                    | What::Broker(_)
                    | What::Receiver(_)
                    | What::WrongType(_)
                    | What::ForeignKey(_)
                    | What::OwnType(..)
                    | What::Large(_)
                    | What::MoveSlot(_)
            )
    }

    /// Whether writes may be lost that a replica did not have.
    pub fn may_lose_writes(&self) -> bool {
        matches!(self, What::FailOver(..) | What::FailOverBehind(..) | What::FreezeMaster(_) | What::Older(_))
    }

    /// Whether the attempts of elements must not change, if the fault ends well before the lease.
    pub fn spares_attempts(&self) -> bool {
        matches!(
            self,
            What::Terminate(_)
                | What::Rolling
                | What::Upgrade(_)
                | What::Pause(_)
                | What::Reload(_)
                | What::Junk(_)
                | What::ForeignMembers(_)
                | What::Strangers(_)
                | What::Receiver(Manner::Busy { .. })
                | What::Server(Side::Source, Ill::ScriptFlush | Ill::Disconnect | Ill::Full)
                | What::Link(
                    _,
                    Side::Source,
                    Trouble::Drop
                        | Trouble::LoseClaims(_)
                        | Trouble::LoseVerdicts(_)
                        | Trouble::LoseExtensions(_)
                        | Trouble::Toxic(Toxic::Slicer { .. } | Toxic::LimitData { .. })
                )
        )
    }
}
