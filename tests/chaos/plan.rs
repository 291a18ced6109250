//! The schedule: what happens when, made from the seed before anything starts.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use fastrand::Rng;

use crate::failovers::Failover;
use crate::faults::{lasts, millis, recovers, strands, vary};
use crate::options::Options;
use crate::order::InOrder;
use crate::profile::Profile;
use crate::receiver::Manner;
use crate::toxic::Toxic;

/// Time before the first fault.
const WARM_UP: Duration = Duration::from_secs(3);

/// The fault that needs another binary.
pub const UPGRADE: &str = "upgrade";

/// How the daemons are set up, and what they have to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The servers.
    pub profile: Profile,
    /// Whether claims wait for a replica.
    pub durable: bool,
    /// Daemons on the same queues.
    pub daemons: usize,
    /// Lease of all queues.
    pub lease: Duration,
    /// `max_in_flight` of all queues.
    pub max_in_flight: usize,
    /// `in_flight_bytes` of a daemon in MiB, if it is not the usual one.
    pub in_flight_mib: Option<u32>,
    /// Elements a second, to each queue.
    pub rate: u32,
    /// The destination is a webhook that fails three requests of ten and is late with every second one, all the time, and elements
    /// are due in bursts: claims lose some of their elements long before the rest.
    pub fails: bool,
    /// Two of the queues deliver in order.
    pub order: Option<InOrder>,
    /// A binary of another version, which daemons run for some time.
    pub old: Option<PathBuf>,
}

/// The other end of a daemon's link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The Redis with the queues.
    Source,
    /// The Redis with the destinations.
    Target,
}

/// What is wrong with a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Open, and not a byte passes.
    Freeze,
    /// Commands arrive, answers do not.
    Mute,
    /// Connections are refused.
    Refuse,
    /// Connections are dropped again and again.
    Drop,
    /// The answers to each n-th claim are lost, after it ran.
    LoseClaims(u64),
    /// The answers to each n-th verdict are lost, after it was written.
    LoseVerdicts(u64),
    /// The answers to each n-th extension of leases are lost.
    LoseExtensions(u64),
    /// The answers to each n-th message are lost, after it arrived.
    LoseMessages(u64),
    /// The toxics of toxiproxy.
    Toxic(Toxic),
}

/// What is wrong with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ill {
    /// SIGSTOP.
    Freeze,
    /// SIGKILL, and a start with what the append-only file has.
    Kill,
    /// `maxmemory` reached.
    Full,
    /// SCRIPT FLUSH, several times.
    ScriptFlush,
    /// CLIENT KILL of all connections.
    Disconnect,
    /// Daemons may run no command.
    Rights,
    /// Its disk is full.
    Disk {
        /// Whether it is to write before each answer, and so ends by itself; else it refuses.
        ends: bool,
    },
}

/// What is wrong with a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ailment {
    /// SIGSTOP.
    Freeze,
    /// SIGKILL, and a start with its data.
    Kill,
    /// RabbitMQ's alarm of a full disk: it takes nothing.
    Full,
    /// All connections are closed by an operator.
    Disconnect,
    /// RabbitMQ's exchange, or topics of Kafka, are deleted, and made again.
    Gone,
    /// Daemons may not publish.
    Rights,
    /// The disk of one broker of two is full: it ends.
    Disk,
    /// One broker of two is frozen or killed, and comes back.
    Half {
        /// Which, from 1 on.
        node: usize,
        /// Whether it is killed.
        killed: bool,
    },
    /// A topic of Kafka asks for more replicas than there are: it refuses all records.
    Refuse,
}

/// A kind of fault, with its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// SIGKILL; started again when the fault ends.
    Kill(usize),
    /// SIGSTOP; SIGCONT when the fault ends.
    Stop(usize),
    /// SIGTERM; started again when the fault ends.
    Terminate(usize),
    /// SIGTERM and a start of each daemon, one after the other.
    Rolling,
    /// SIGTERM of a daemon and a start of the other binary; the same back to ours when the fault ends.
    Upgrade(usize),
    /// A link of a daemon.
    Link(usize, Side, Trouble),
    /// A server.
    Server(Side, Ill),
    /// A broker.
    Broker(Ailment),
    /// The receiver of webhooks.
    Receiver(Manner),
    /// All consumers of jobs are killed.
    Consumers,
    /// The destination of a queue has a wrong type.
    WrongType(usize),
    /// The master of a queue is replaced.
    FailOver(Failover, usize),
    /// The replicas of a queue's master are cut off for so many ms, then it is killed.
    FailOverBehind(usize, u64),
    /// The Redis with the queues restarts with the state of so many ms ago.
    Older(u64),
    /// The master of a queue is stopped: long enough, and it is replaced.
    FreezeMaster(usize),
    /// A sentinel is stopped.
    FreezeSentinel(usize),
    /// The slot of a queue moves to another master.
    MoveSlot(usize),
    /// The clock of the Redis with the queues is so many ms ahead, or behind.
    Clock(i64),
    /// The configuration of a daemon changes: to one that is broken, to another one, and back.
    Reload(usize),
    /// An element that kills whoever sends it.
    Poison,
    /// A queue is paused by a person, and resumed.
    Pause(usize),
    /// Members that no program of ours wrote.
    Junk(usize),
    /// Members of another program among the leases and the retries of a queue, for some time.
    ForeignMembers(usize),
    /// A text where the retries of a queue should be, for some time.
    ForeignKey(usize),
    /// What other programs, newer versions and broken disks leave in every key of a queue or a topic, until all is settled.
    Strangers(usize),
    /// A key of a queue or a topic holds a text, for some time: which one of them.
    OwnType(usize, usize),
    /// An element of so many MB.
    Large(usize),
}

impl What {
    /// The kind, as `--faults` names it and the tables show it.
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

    /// Whether it is made only when it is asked for.
    fn is_rare(&self) -> bool {
        matches!(self, What::Poison | What::Large(_))
    }

    /// Whether it needs a file system of its own, which takes rights that not every machine gives.
    pub fn needs_a_disk(&self) -> bool {
        matches!(self, What::Server(_, Ill::Disk { .. }) | What::Broker(Ailment::Disk))
    }

    /// Whether a sink or Redis may be taken for broken.
    fn opens_breakers(&self) -> bool {
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

    /// Whether what a replica did not have is lost.
    pub fn may_lose_writes(&self) -> bool {
        matches!(self, What::FailOver(..) | What::FailOverBehind(..) | What::FreezeMaster(_) | What::Older(_))
    }

    /// Whether it leaves the attempts of elements alone, provided that it ends well before the lease.
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

/// A fault of the schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// Its number, for `--only`.
    pub number: usize,
    /// When it begins, from the start of the run.
    pub at: Duration,
    /// How long it lasts.
    pub lasts: Duration,
    /// What happens.
    pub what: What,
    /// Faults of the same strand follow each other.
    pub strand: usize,
}

/// Everything about a run but its timing.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What it was made from.
    pub seed: u64,
    /// Faults end before.
    pub length: Duration,
    /// How the daemons are set up.
    pub settings: Settings,
    /// The faults in the order of their beginnings.
    pub faults: Vec<Fault>,
}

impl Plan {
    /// The schedule of these options.
    pub fn new(options: &Options) -> Plan {
        let mut random = Rng::with_seed(options.seed);
        let settings = Settings::random(options, &mut random);
        let mut faults = Vec::new();
        for (strand, choices) in strands(&settings).into_iter().enumerate() {
            let named = |what: &What| options.kinds.iter().any(|kind| kind == what.kind());
            let drawn = |what: &What| !what.is_rare() && (options.disks || !what.needs_a_disk());
            let wanted = |what: &What| options.kinds.is_empty() && drawn(what) || named(what);
            let choices: Vec<What> = choices.into_iter().filter(wanted).collect();
            // Of its own, so that a strand more changes nothing of the others.
            let mut random = Rng::with_seed(options.seed.wrapping_mul(31).wrapping_add(strand as u64));
            // Fewer kinds come more often.
            let gap = if options.kinds.is_empty() { 9_000 } else { 2_500 };
            let mut at = WARM_UP + millis(&mut random, 0, gap);
            while let Some(&what) = random.choice(&choices) {
                let what = vary(what, &mut random);
                let lasts = lasts(what, &settings, &mut random);
                if at + lasts > options.length {
                    break;
                }
                faults.push(Fault { number: 0, at, lasts, what, strand });
                at += lasts + recovers(what) + millis(&mut random, 500, gap);
            }
        }
        faults.sort_by_key(|fault| (fault.at, fault.strand));
        for (place, fault) in faults.iter_mut().enumerate() {
            fault.number = place + 1;
        }
        let plan = Plan { seed: options.seed, length: options.length, settings, faults };
        options.only.as_ref().map_or_else(|| plan.clone(), |only| plan.only(only))
    }

    /// The same with these faults alone.
    pub fn only(&self, numbers: &BTreeSet<usize>) -> Plan {
        let faults = self.faults.iter().filter(|fault| numbers.contains(&fault.number)).cloned().collect();
        Plan { faults, ..self.clone() }
    }

    /// How long everything may take to finish once all is healed: leases run out, and the breaker of a sink that was away
    /// probes every 30 s at the latest, as does a claim that Redis refused.
    pub fn bound(&self) -> Duration {
        let probes = self.faults.iter().any(|fault| fault.what.opens_breakers());
        // What was claimed or is to be retried by a clock that was ahead waits until that time has come.
        let jumps = self.faults.iter().filter_map(|fault| match fault.what {
            What::Clock(ahead) => u64::try_from(ahead).ok(),
            _ => None,
        });
        let jumps = Duration::from_millis(jumps.max().unwrap_or(0));
        self.settings.lease * 3 + Duration::from_secs(if probes { 45 } else { 15 }) + jumps
    }
}

impl Settings {
    /// The profile whose destinations this run has.
    pub fn destinations(&self) -> Profile {
        if self.fails { Profile::Webhook } else { self.profile }
    }

    fn random(options: &Options, random: &mut Rng) -> Settings {
        let Options { profile, seed, .. } = *options;
        let max_in_flight = [1, 2, 7, 60, 500][random.usize(..5)];
        Settings {
            profile,
            // Of its own, so that the rest is the same for all profiles.
            durable: profile.replicates() && Rng::with_seed(seed.wrapping_mul(131)).bool(),
            daemons: random.usize(2..=3),
            lease: match (profile.has_broker(), random.usize(..4)) {
                (false, n) => Duration::from_millis([1_000, 2_000, 3_000, 5_000][n]),
                // The client of Kafka waits for a second at least.
                (true, n) => Duration::from_millis([2_000, 3_000, 5_000, 8_000][n]),
            },
            max_in_flight,
            // As above.
            in_flight_mib: [None, None, Some(2), Some(8)][Rng::with_seed(seed.wrapping_mul(139)).usize(..4)],
            // As above.
            fails: profile.forgets() && Rng::with_seed(seed.wrapping_mul(149)).bool(),
            rate: if max_in_flight < 3 { 8 } else { random.u32(15..=40) },
            // As above.
            order: InOrder::random(seed).filter(|_| profile.delivers()),
            old: options.old.clone(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, lasts) = (self.at.as_secs_f64(), self.lasts.as_secs_f64());
        write!(f, "{:>4}  at {at:>7.2} s  for {lasts:>5.2} s  {:<16} {:?}", self.number, self.what.kind(), self.what)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { profile, durable, daemons, lease, max_in_flight, in_flight_mib, rate, fails, order, old } =
            &self.settings;
        writeln!(
            f,
            "seed {}, faults for {:?}, then at most {:?} until all is settled",
            self.seed,
            self.length,
            self.bound()
        )?;
        writeln!(
            f,
            "{profile}, {daemons} daemons, lease {lease:?}, max_in_flight {max_in_flight}, {rate} elements/s to each queue{}{}{}{}{}",
            in_flight_mib.map(|mib| format!(", {mib} MiB in flight")).unwrap_or_default(),
            if *durable { ", durable claims" } else { "" },
            if *fails { ", a webhook that fails three of ten and is late with every second" } else { "" },
            order.map(|order| format!(", {order}")).unwrap_or_default(),
            old.as_ref().map(|old| format!(", upgrades from {}", old.display())).unwrap_or_default()
        )?;
        self.faults.iter().try_for_each(|fault| writeln!(f, "{fault}"))
    }
}

#[test]
fn a_seed_is_one_schedule_and_a_subset_keeps_its_numbers() {
    let options = Options { seed: 5, length: Duration::from_secs(300), ..Options::default() };
    let plan = Plan::new(&options);
    assert_eq!(plan, Plan::new(&options));
    assert_ne!(plan.faults, Plan::new(&Options { seed: 6, ..options.clone() }).faults);
    assert!(plan.faults.len() > 50, "{plan}");
    assert!(plan.faults.iter().all(|fault| fault.at >= WARM_UP && fault.at + fault.lasts <= plan.length), "{plan}");
    // What runs everywhere as a part of the tests mounts nothing.
    let disks = |disks: bool| {
        let plan = Plan::new(&Options { disks, ..options.clone() });
        plan.faults.iter().any(|fault| fault.what.needs_a_disk())
    };
    assert_eq!((disks(false), disks(true)), (false, true));
    let some = Plan::new(&Options { only: Some([2, 9].into()), ..options });
    assert_eq!(some.faults, [plan.faults[1].clone(), plan.faults[8].clone()]);
}
