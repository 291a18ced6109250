//! The schedule of a run, made from the seed before anything starts.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use fastrand::Rng;

use crate::faults::{lasts, millis, recovers, strands, vary};
use crate::offers::QUEUES;
use crate::options::Options;
use crate::order::Orders;
use crate::profile::Profile;
use crate::what::What;

/// The time before the first fault.
const WARM_UP: Duration = Duration::from_secs(3);
/// Longest time that a broker is away, unless `--lasts` says another.
const USUAL: Duration = Duration::from_secs(5);

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

/// A fault of the schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// The number, for `--only`.
    pub number: usize,
    /// The begin, after the start of the run.
    pub at: Duration,
    pub lasts: Duration,
    pub what: What,
    /// The strand; faults of a strand follow each other.
    pub strand: usize,
}

/// The plan of a run, except for its timing.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
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
        let at = self.at.as_secs_f64();
        let lasts = self.lasts.as_secs_f64();
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
    let length = Duration::from_secs(300);
    let lasts = Some(Duration::from_secs(25));
    let plan = Plan::new(&Options { profile: Profile::Kafka, length, kinds, lasts, ..Options::default() });
    let of_brokers: Vec<_> = plan.faults.iter().filter(|fault| matches!(fault.what, What::Broker(_))).collect();
    assert!(of_brokers.len() > 5 && of_brokers.iter().all(|fault| Some(fault.lasts) == lasts), "{plan}");
    assert!(plan.bound() > Duration::from_secs(25) * of_brokers.len() as u32, "{:?}", plan.bound());
    let others = plan.faults.iter().filter(|fault| matches!(fault.what, What::Kill(_)));
    assert!(others.map(|fault| fault.lasts).all(|lasts| lasts < Duration::from_secs(3)), "{plan}");
}
