//! The schedule of a run, made from its seed.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use fastrand::Rng;

/// The time before the first fault.
const WARM_UP: Duration = Duration::from_secs(3);
/// Daemons of a run.
pub const DAEMONS: usize = 2;

/// The server or daemon that is struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Struck {
    /// A daemon.
    Daemon(usize),
    /// The Redis with the jobs.
    Redis,
    /// RabbitMQ.
    Rabbit,
    /// Kafka.
    Kafka,
}

/// The fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    /// SIGKILL, and a new start at the end.
    Kill,
    /// SIGSTOP, and SIGCONT at the end.
    Freeze,
    /// SIGTERM, and a new start at the end. A daemon leaves its group then.
    Terminate,
}

/// A fault of the schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GatewayFault {
    /// The number, for `--only`.
    pub number: usize,
    /// The begin, after the start of the run.
    pub at: Duration,
    pub lasts: Duration,
    pub what: (Struck, Blow),
}

/// The schedule of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct GatewayPlan {
    pub seed: u64,
    /// The time of publishing and of all faults.
    pub length: Duration,
    faults: Vec<GatewayFault>,
}

impl GatewayPlan {
    /// Makes the schedule.
    pub fn new(seed: u64, length: Duration, only: Option<&BTreeSet<usize>>) -> GatewayPlan {
        let mut faults = Vec::new();
        let strands = (0..DAEMONS).map(Struck::Daemon).chain([Struck::Redis, Struck::Rabbit, Struck::Kafka]);
        for (strand, struck) in strands.enumerate() {
            // A generator of its own, so that another strand does not change the others.
            let mut random = Rng::with_seed(seed.wrapping_mul(31).wrapping_add(strand as u64));
            // A broker needs seconds for its start.
            let (gap, starts) = match struck {
                Struck::Daemon(_) => (9_000, 0),
                Struck::Redis => (15_000, 0),
                Struck::Rabbit | Struck::Kafka => (25_000, 10_000),
            };
            let mut at = WARM_UP + Duration::from_millis(random.u64(..gap));
            loop {
                let blow = match (struck, random.u32(..10)) {
                    (Struck::Daemon(_), 0..2) => Blow::Terminate,
                    (_, 0..6) => Blow::Kill,
                    _ => Blow::Freeze,
                };
                let lasts = Duration::from_millis(match blow {
                    Blow::Freeze => random.u64(500..8_000),
                    Blow::Kill | Blow::Terminate => random.u64(..3_000),
                });
                if at + lasts > length {
                    break;
                }
                faults.push(GatewayFault { number: 0, at, lasts, what: (struck, blow) });
                at += lasts + Duration::from_millis(starts + random.u64(1_000..gap));
            }
        }
        faults.sort_by_key(|fault| fault.at);
        (1..).zip(&mut faults).for_each(|(number, fault)| fault.number = number);
        faults.retain(|fault| only.is_none_or(|only| only.contains(&fault.number)));
        GatewayPlan { seed, length, faults }
    }

    /// The faults of each that is struck: they follow each other.
    pub fn strands(&self) -> Vec<Vec<GatewayFault>> {
        let all = (0..DAEMONS).map(Struck::Daemon).chain([Struck::Redis, Struck::Rabbit, Struck::Kafka]);
        all.map(|struck| self.faults.iter().filter(|fault| fault.what.0 == struck).copied().collect()).collect()
    }

    /// The number of faults of each kind.
    pub fn counts(&self) -> String {
        let mut all: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
        for (struck, blow) in self.faults.iter().map(|fault| fault.what) {
            let name = if let Struck::Daemon(_) = struck { "daemon".to_owned() } else { format!("{struck:?}") };
            *all.entry(format!("{} {}", name.to_lowercase(), format!("{blow:?}").to_lowercase())).or_default() += 1;
        }
        let all: Vec<_> = all.into_iter().map(|(name, count)| format!("{name} {count}")).collect();
        all.join(", ")
    }
}

impl fmt::Display for GatewayPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "gateway, seed {}, faults for {:?}", self.seed, self.length)?;
        self.faults.iter().try_for_each(|fault| {
            let GatewayFault { number, at, lasts, what } = fault;
            writeln!(f, "{number:>4}  at {:>7.2} s  for {:>5.2} s  {what:?}", at.as_secs_f64(), lasts.as_secs_f64())
        })
    }
}

#[test]
fn a_seed_is_one_schedule_with_faults_of_everything() {
    let plan = GatewayPlan::new(5, Duration::from_secs(180), None);
    assert_eq!(plan, GatewayPlan::new(5, Duration::from_secs(180), None));
    assert!(plan.strands().iter().all(|faults| faults.len() > 3), "{plan}");
    assert!(plan.faults.iter().all(|fault| fault.at >= WARM_UP && fault.at + fault.lasts <= plan.length), "{plan}");
    let some = GatewayPlan::new(5, Duration::from_secs(180), Some(&[2, 9].into()));
    assert_eq!(some.faults, [plan.faults[1], plan.faults[8]]);
}
