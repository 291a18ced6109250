//! The schedule of a run, made from the seed before anything starts.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use fastrand::Rng;

use crate::failovers::Failover;
use crate::faults::{lasts, millis, recovers, strands, vary};
use crate::offers::QUEUES;
use crate::options::Options;
use crate::order::Orders;
use crate::profile::Profile;
use crate::receiver::Manner;
use crate::toxic::Toxic;

/// The time before the first fault.
const WARM_UP: Duration = Duration::from_secs(3);
/// Longest time that a broker is away, unless `--lasts` says another.
const USUAL: Duration = Duration::from_secs(5);

/// The kind of the fault that needs another binary.
pub const UPGRADE: &str = "upgrade";

/// The settings of the daemons, and their load.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The servers.
    pub profile: Profile,
    /// Whether claims wait for a replica.
    pub durable: bool,
    /// Number of daemons on the same queues.
    pub daemons: usize,
    /// The lease of all queues.
    pub lease: Duration,
    /// `max_in_flight` of all queues.
    pub max_in_flight: usize,
    /// `in_flight_bytes` of a daemon in MiB; `None` for the default.
    pub in_flight_mib: Option<u32>,
    /// Elements per second for each queue.
    pub rate: u32,
    /// Whether the destination is a webhook that fails three requests of ten and delays every second one, all the time,
    /// and elements are due in bursts, so that claims lose some of their elements long before the rest.
    pub fails: bool,
    /// Whether daemons look for what may be at its destination already.
    pub looks: bool,
    /// Whether queues have two destinations with conditions, which some elements do not meet, and an audit trail.
    pub trail: bool,
    /// The order of each queue.
    pub orders: Orders,
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
    fn is_rare(&self) -> bool {
        matches!(self, What::Poison | What::Large(_))
    }

    /// Whether `--lasts` says how long it lasts.
    fn lasts_as_asked(&self) -> bool {
        matches!(self, What::Broker(Ailment::Freeze | Ailment::Kill))
    }

    /// Whether the fault needs a file system of its own, and so rights that not every machine gives.
    pub fn needs_a_disk(&self) -> bool {
        matches!(self, What::Server(_, Ill::Disk { .. }) | What::Broker(Ailment::Disk))
    }

    /// Whether a sink or Redis may appear broken.
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

/// A fault of the schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// The number, for `--only`.
    pub number: usize,
    /// The begin, after the start of the run.
    pub at: Duration,
    /// The duration.
    pub lasts: Duration,
    /// The fault.
    pub what: What,
    /// The strand; faults of a strand follow each other.
    pub strand: usize,
}

/// The plan of a run, except for its timing.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// The end of all faults.
    pub length: Duration,
    /// The settings of the daemons.
    pub settings: Settings,
    /// The faults, in the order of their begins.
    pub faults: Vec<Fault>,
}

impl Plan {
    /// Makes the schedule for these options.
    pub fn new(options: &Options) -> Plan {
        let mut random = Rng::with_seed(options.seed);
        let settings = Settings::random(options, &mut random);
        let mut faults = Vec::new();
        for (strand, choices) in strands(&settings).into_iter().enumerate() {
            let named = |what: &What| options.kinds.iter().any(|kind| kind == what.kind());
            let drawn = |what: &What| !what.is_rare() && (options.disks || !what.needs_a_disk());
            let wanted = |what: &What| options.kinds.is_empty() && drawn(what) || named(what);
            let choices: Vec<What> = choices.into_iter().filter(wanted).collect();
            // A generator of its own, so that an additional strand does not change the others.
            let mut random = Rng::with_seed(options.seed.wrapping_mul(31).wrapping_add(strand as u64));
            // With fewer kinds, each is more frequent.
            let gap = if options.kinds.is_empty() { 9_000 } else { 2_500 };
            let mut at = WARM_UP + millis(&mut random, 0, gap);
            while let Some(&what) = random.choice(&choices) {
                let what = vary(what, &mut random);
                // Drawn in any case, so that what is behind it stays the same.
                let drawn = lasts(what, &settings, &mut random);
                let lasts = options.lasts.filter(|_| what.lasts_as_asked()).unwrap_or(drawn);
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

    /// The same plan with only these faults.
    pub fn only(&self, numbers: &BTreeSet<usize>) -> Plan {
        let faults = self.faults.iter().filter(|fault| numbers.contains(&fault.number)).cloned().collect();
        Plan { faults, ..self.clone() }
    }

    /// Maximum time for settling everything after the faults: leases run out, and the breaker of a broken sink is
    /// probed every 30 s at the latest, and so is a claim that Redis refused.
    pub fn bound(&self) -> Duration {
        let probes = self.faults.iter().any(|fault| fault.what.opens_breakers());
        // Elements claimed or scheduled for a retry by a clock that was ahead wait until that time.
        let jumps = self.faults.iter().filter_map(|fault| match fault.what {
            What::Clock(ahead) => u64::try_from(ahead).ok(),
            _ => None,
        });
        let jumps = Duration::from_millis(jumps.max().unwrap_or(0));
        // The backlog of an outage is delivered after it, slowly if `max_in_flight` is small.
        let away = self.faults.iter().filter(|fault| fault.what.lasts_as_asked() && fault.lasts > USUAL);
        let away: Duration = away.map(|fault| fault.lasts).sum();
        self.settings.lease * 3 + Duration::from_secs(if probes { 45 } else { 15 }) + jumps + away
    }
}

impl Settings {
    /// The profile of the destinations.
    pub fn destinations(&self) -> Profile {
        if self.fails { Profile::Webhook } else { self.profile }
    }

    fn random(options: &Options, random: &mut Rng) -> Settings {
        let Options { profile, seed, .. } = *options;
        let max_in_flight = [1, 2, 7, 60, 500][random.usize(..5)];
        // A generator of its own, so that the rest is the same for all profiles.
        let fails = profile.forgets()
            && profile.delivers()
            && options.fails.unwrap_or_else(|| Rng::with_seed(seed.wrapping_mul(149)).bool());
        Settings {
            profile,
            // A generator of its own, as above.
            durable: profile.replicates()
                && profile.delivers()
                && options.durable.unwrap_or_else(|| Rng::with_seed(seed.wrapping_mul(131)).bool()),
            daemons: random.usize(2..=3),
            lease: match (profile.has_broker(), fails, random.usize(..4)) {
                // A claim outlives a failover, and is then confirmed as a whole.
                (_, true, n) => Duration::from_millis([5_000, 5_000, 8_000, 8_000][n]),
                (false, false, n) => Duration::from_millis([1_000, 2_000, 3_000, 5_000][n]),
                // Kafka's client waits for at least a second.
                (true, false, n) => Duration::from_millis([2_000, 3_000, 5_000, 8_000][n]),
            },
            max_in_flight,
            // A generator of its own, as above.
            in_flight_mib: [None, None, Some(2), Some(8)][Rng::with_seed(seed.wrapping_mul(139)).usize(..4)],
            fails,
            looks: options.looks && !fails && profile.tells_what_is_there(),
            trail: options.trail && !fails && profile.has_streams(),
            rate: if max_in_flight < 3 { 8 } else { random.u32(15..=40) },
            // A generator of its own, as above.
            orders: match options.order {
                _ if !profile.delivers() || !profile.keeps_order() => Orders::NONE,
                // A queue with two destinations has no order of its own.
                _ if options.trail => Orders::NONE,
                Some(order) => Orders([order; QUEUES.len()]),
                None => Orders::random(seed),
            },
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
        let Settings {
            profile,
            durable,
            daemons,
            lease,
            max_in_flight,
            in_flight_mib,
            rate,
            fails,
            looks,
            trail,
            orders,
            old,
        } = &self.settings;
        writeln!(
            f,
            "seed {}, faults for {:?}, then at most {:?} until all is settled",
            self.seed,
            self.length,
            self.bound()
        )?;
        writeln!(
            f,
            "{profile}, {daemons} daemons, lease {lease:?}, max_in_flight {max_in_flight}, {rate} elements/s to each queue{}{}{}{}{}{}{}",
            in_flight_mib.map(|mib| format!(", {mib} MiB in flight")).unwrap_or_default(),
            if *durable { ", durable claims" } else { "" },
            if *looks { ", a look before what may be there is sent again" } else { "" },
            if *trail { ", conditions and an audit trail" } else { "" },
            if *fails { ", a webhook that fails three of ten and is late with every second" } else { "" },
            orders,
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
    // The fixed seed of the tests mounts nothing, because it runs everywhere.
    let disks = |disks: bool| {
        let plan = Plan::new(&Options { disks, ..options.clone() });
        plan.faults.iter().any(|fault| fault.what.needs_a_disk())
    };
    assert_eq!((disks(false), disks(true)), (false, true));
    let some = Plan::new(&Options { only: Some([2, 9].into()), ..options });
    assert_eq!(some.faults, [plan.faults[1].clone(), plan.faults[8].clone()]);
}

#[test]
fn brokers_are_away_for_as_long_as_asked() {
    let kinds = ["broker-freeze", "broker-kill", "kill"].map(str::to_owned).to_vec();
    let (length, lasts) = (Duration::from_secs(300), Some(Duration::from_secs(25)));
    let plan = Plan::new(&Options { profile: Profile::Kafka, length, kinds, lasts, ..Options::default() });
    let of_brokers: Vec<_> = plan.faults.iter().filter(|fault| matches!(fault.what, What::Broker(_))).collect();
    assert!(of_brokers.len() > 5 && of_brokers.iter().all(|fault| Some(fault.lasts) == lasts), "{plan}");
    assert!(plan.bound() > Duration::from_secs(25) * of_brokers.len() as u32, "{:?}", plan.bound());
    let others = plan.faults.iter().filter(|fault| matches!(fault.what, What::Kill(_)));
    assert!(others.map(|fault| fault.lasts).all(|lasts| lasts < Duration::from_secs(3)), "{plan}");
}
