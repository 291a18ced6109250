//! The oracle: what must be true of every run, each rule with a name.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use crate::clock::latest;
use crate::evidence::{Arrival, Evidence};
use crate::jobs;
use crate::offers::{Answer, Kind};
use crate::order;
use crate::profile::Profile;

/// Counted attempts after which an element is a dead letter, as configured.
const MAX_ATTEMPTS: u32 = 6;
/// Leases in a row that may run out.
const MAX_EXPIRIES: u32 = 10;
/// Most memory of a daemon: a debug build with elements of 1 MB in flight.
const MEMORY: u64 = 400 << 20;
/// Most commands a second of a daemon with nothing to do.
const IDLE_COMMANDS: f64 = 60.0;
/// The same with topics of jobs: once a second it looks at each of three topics, with twenty commands.
const IDLE_COMMANDS_OF_JOBS: f64 = 80.0;

/// A run with so many faults shows duplicates, takeovers and dead letters.
const LONG: usize = 60;

/// The rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// What was taken arrives, or is a dead letter.
    Lost,
    /// Nothing arrives that was not offered, that was refused, or that was withdrawn in time.
    Unknown,
    /// What arrives is what was offered, byte for byte, with its due time.
    WrongBytes,
    /// Nothing arrives before its due time.
    Early,
    /// Of several arrivals of an element only one says that it is the first attempt.
    Unannounced,
    /// In a queue in order, first deliveries are in the order of the due times.
    Order,
    /// A job is one consumer's at a time, and is finished once.
    TwoOwners,
    /// A dead letter has a cause, and its attempts are used up.
    DeadLetterCause,
    /// What spares the sink spares the attempts.
    AttemptsBurnt,
    /// After all is well again, everything is settled within the bound.
    Stuck,
    /// Nothing is left in Redis when everything is settled, nor under the lease of a process that ended in order.
    Residue,
    /// Each element is counted once where it ended.
    Counters,
    /// Memory and commands of a daemon stay below a line.
    Bounded,
    /// No process ends by itself, or does not end when it is asked to; none panics.
    Died,
    /// The run showed what it is for: each kind of fault struck, something arrived.
    Empty,
}

impl Rule {
    /// As reports and the documentation name it.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Lost => "lost",
            Rule::Unknown => "unknown",
            Rule::WrongBytes => "wrong_bytes",
            Rule::Early => "early",
            Rule::Unannounced => "unannounced",
            Rule::Order => "order",
            Rule::TwoOwners => "two_owners",
            Rule::DeadLetterCause => "dead_letter_cause",
            Rule::AttemptsBurnt => "attempts_burnt",
            Rule::Stuck => "stuck",
            Rule::Residue => "residue",
            Rule::Counters => "counters",
            Rule::Bounded => "bounded",
            Rule::Died => "died",
            Rule::Empty => "empty",
        }
    }
}

/// A rule that a run has broken.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// How.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule.name(), self.text)
    }
}

/// All violations of a run.
pub fn judge(evidence: &Evidence) -> Vec<Violation> {
    let arrived = by_number(evidence);
    let mut found = Found(Vec::new());
    unknown(evidence, &mut found);
    early(evidence, &mut found);
    if evidence.plan.settings.profile.delivers() {
        lost(evidence, &arrived, &mut found);
        unannounced(evidence, &arrived, &mut found);
        order::judge(evidence, &mut found);
        dead_letters(evidence, &mut found);
        attempts(evidence, &arrived, &mut found);
        counters(evidence, &arrived, &mut found);
    } else {
        jobs::judge::judge(evidence, &mut found);
    }
    ends(evidence, &mut found);
    bounded(evidence, &mut found);
    empty(evidence, &mut found);
    found.0
}

/// Violations so far.
pub struct Found(pub Vec<Violation>);

impl Found {
    fn add(&mut self, rule: Rule, text: impl Into<String>) {
        self.0.push(Violation { rule, text: text.into() });
    }

    /// One violation for all of these, with the first of them.
    pub fn all<T: fmt::Debug>(&mut self, rule: Rule, what: &str, which: &[T]) {
        if !which.is_empty() {
            self.add(rule, format!("{} {what}: {:?}", which.len(), &which[..which.len().min(4)]));
        }
    }
}

type ByNumber<'a> = HashMap<u64, Vec<&'a Arrival>>;

fn by_number(evidence: &Evidence) -> ByNumber<'_> {
    let mut arrived: ByNumber<'_> = HashMap::new();
    for arrival in &evidence.arrivals {
        if let Some(n) = arrival.n {
            arrived.entry(n).or_default().push(arrival);
        }
    }
    arrived
}

fn lost(evidence: &Evidence, arrived: &ByNumber<'_>, found: &mut Found) {
    let dead: HashSet<u64> = evidence.dead.iter().filter_map(|dead| dead.n).collect();
    let confirmed = |n: &u64| arrived.get(n).is_some_and(|all| all.iter().any(|arrival| arrival.confirmed));
    let here = |n: u64| confirmed(&n) || dead.contains(&n);
    let all = evidence.offers.iter().zip(0u64..);
    // While something is stuck, it is not lost yet.
    let missing = all.filter(|(offer, n)| {
        let withdrawn = matches!(offer.withdrawn, Some(Answer::Yes | Answer::Unknown));
        offer.taken == Answer::Yes && !withdrawn && !here(*n)
    });
    let missing: Vec<_> = missing.map(|(offer, n)| (n, offer)).collect();
    match evidence.stuck {
        None => found.all(Rule::Lost, "elements did not arrive", &missing),
        Some(_) => found.all(Rule::Stuck, "elements did not arrive in time", &missing),
    }
}

fn unknown(evidence: &Evidence, found: &mut Found) {
    let (mut unknown, mut wrong) = (Vec::new(), Vec::new());
    for arrival in &evidence.arrivals {
        let offer = arrival.n.and_then(|n| evidence.offers.get(usize::try_from(n).ok()?));
        match offer {
            Some(offer)
                if offer.queue == arrival.queue
                    && offer.id == arrival.id
                    && matches!(offer.kind, Kind::Good | Kind::Large)
                    && offer.taken != Answer::No
                    && offer.withdrawn != Some(Answer::Yes) =>
            {
                if !arrival.whole {
                    wrong.push((arrival.n, offer.size));
                }
            }
            _ => unknown.push(arrival),
        }
    }
    found.all(Rule::Unknown, "messages were not to arrive", &unknown);
    found.all(Rule::WrongBytes, "messages arrived with other bytes or another due time (number, size)", &wrong);
}

fn early(evidence: &Evidence, found: &mut Found) {
    let offer = |arrival: &Arrival| evidence.offers.get(usize::try_from(arrival.n?).ok()?);
    let early = evidence.arrivals.iter().filter_map(|arrival| {
        let by = offer(arrival)?.due_ms - latest(&evidence.clock, arrival.at_ms);
        (by > 0).then_some((arrival.n?, by))
    });
    found.all(Rule::Early, "messages arrived before their due time (number, ms)", &early.collect::<Vec<_>>());
}

fn unannounced(evidence: &Evidence, arrived: &ByNumber<'_>, found: &mut Found) {
    let mut twice: Vec<_> = arrived
        .iter()
        .filter(|(_, all)| all.iter().filter(|arrival| arrival.attempt <= 1).count() > 1)
        .map(|(n, all)| {
            (*n, all.iter().map(|arrival| (arrival.life, arrival.attempt, arrival.at_ms)).collect::<Vec<_>>())
        })
        .collect();
    twice.sort();
    // What was claimed and delivered before a failover that has lost the claim. Durable claims are not lost.
    let forgotten = if evidence.plan.settings.durable { 0 } else { replayed(evidence, arrived) };
    if !evidence.plan.settings.durable {
        twice.retain(|(n, _)| !arrived.get(n).is_some_and(|all| at_failover(evidence, all)));
    }
    // The client of Kafka can write a record twice in what it reports as one attempt (docs/guarantees.md).
    if evidence.plan.settings.profile == Profile::Kafka {
        twice.retain(|(_, all)| {
            let mut lives = all.iter().filter(|(_, attempt, _)| *attempt <= 1).map(|(life, ..)| life);
            let first = lives.next();
            lives.any(|life| Some(life) != first)
        });
    }
    found.all(Rule::Unannounced, "elements came twice as a first attempt (life, attempt, time)", &twice);
    let (seen, announced) = (duplicates(evidence) - forgotten, announced(evidence));
    // A process that has ended takes what it counted since its last scrape with it.
    let all_live = evidence.lives.len() == evidence.plan.settings.daemons;
    if seen as f64 > announced && all_live {
        found.add(Rule::Unannounced, format!("{seen} duplicates, {announced} counted"));
    }
}

/// Whether a failover can have lost what was written about the first arrival of an element.
fn at_failover(evidence: &Evidence, all: &[&Arrival]) -> bool {
    const AROUND: i64 = 1_000;
    // A process may go on with a claim that is lost until its lease is over, and a frozen destination takes it later still.
    let lease = i64::try_from(evidence.plan.settings.lease.as_millis()).unwrap_or(i64::MAX);
    let Some(first) = all.iter().map(|arrival| arrival.at_ms).min() else { return false };
    let mut failovers = evidence.struck.iter().filter(|struck| struck.fault.what.may_lose_writes());
    failovers.any(|struck| (struck.from_ms - AROUND..=struck.till_ms + 2 * lease + AROUND).contains(&first))
}

/// Arrivals beyond the first of elements that were delivered at a failover.
pub fn replayed(evidence: &Evidence, arrived: &ByNumber<'_>) -> usize {
    let all = arrived.values().filter(|all| at_failover(evidence, all));
    all.map(|all| all.len() - 1).sum()
}

/// Arrivals beyond the first of each element.
pub fn duplicates(evidence: &Evidence) -> usize {
    let different: HashSet<_> = evidence.arrivals.iter().map(|arrival| (arrival.queue, &arrival.id)).collect();
    evidence.arrivals.len() - different.len()
}

/// Duplicates that the daemons have counted as possible.
pub fn announced(evidence: &Evidence) -> f64 {
    sum(evidence, "delaybridge_possible_duplicates_total") + sum(evidence, "delaybridge_leases_expired_total")
}

/// A counter, summed over all processes, as far as it was seen.
pub fn sum(evidence: &Evidence, metric: &str) -> f64 {
    evidence.lives.iter().filter_map(|life| life.metrics.get(metric)).sum()
}

fn dead_letters(evidence: &Evidence, found: &mut Found) {
    let mut odd = Vec::new();
    for dead in &evidence.dead {
        let offer = dead.n.and_then(|n| evidence.offers.get(usize::try_from(n).ok()?));
        let explained = match (&*dead.reason, offer.map(|offer| offer.kind)) {
            ("undecodable", Some(Kind::Undecodable)) | ("junk", Some(Kind::Junk)) => true,
            ("max_attempts", Some(Kind::Good)) => dead.attempts == MAX_ATTEMPTS,
            (_, Some(Kind::Large)) => true,
            ("lease_expired", Some(_)) => dead.expiries == MAX_EXPIRIES,
            _ => false,
        };
        if !explained {
            odd.push(dead);
        }
    }
    found.all(Rule::DeadLetterCause, "dead letters have no cause", &odd);
}

fn attempts(evidence: &Evidence, arrived: &ByNumber<'_>, found: &mut Found) {
    let lease = i64::try_from(evidence.plan.settings.lease.as_millis()).unwrap_or(i64::MAX);
    // A lost claim is found again a second later: a shorter lease is over by then. What a clock that was ahead has put off waits for
    // that time, which may be long after it.
    if lease < 3_000 || !evidence.clock.is_empty() || evidence.plan.settings.fails {
        return;
    }
    let times = evidence.struck.iter().filter_map(|struck| {
        let short = struck.till_ms - struck.from_ms < lease / 4;
        let spares = struck.fault.what.spares_attempts()
            && (short || !matches!(struck.fault.what, crate::plan::What::Link(..)) || is_lossy(struck));
        // A lease may run out later, and the retry of what failed at the end comes later still.
        (!spares).then_some((struck.from_ms, struck.till_ms + lease + 3_000))
    });
    let stalls = evidence.stalls.iter().map(|(from, till)| (*from, *till + lease + 3_000));
    let times: Vec<(i64, i64)> = times.chain(stalls).collect();
    let mut burnt = Vec::new();
    for (n, all) in arrived {
        let Some(offer) = evidence.offers.get(*n as usize) else { continue };
        let Some(last) = all.iter().max_by_key(|arrival| arrival.attempt) else { continue };
        let disturbed = times.iter().any(|(from, till)| *from <= last.at_ms && offer.due_ms <= *till);
        if last.attempt > 1 && !disturbed {
            burnt.push((*n, last.attempt, last.at_ms - offer.due_ms));
        }
    }
    burnt.sort_unstable();
    found.all(Rule::AttemptsBurnt, "elements have lost an attempt to nothing (number, attempt, ms late)", &burnt);
}

/// A fault that loses single answers: however long it lasts, no lease may run out.
fn is_lossy(struck: &crate::evidence::Struck) -> bool {
    use crate::plan::{Trouble, What};
    matches!(struck.fault.what, What::Link(_, _, Trouble::LoseClaims(_) | Trouble::LoseVerdicts(_)))
}

fn ends(evidence: &Evidence, found: &mut Found) {
    if let Some(left) = &evidence.stuck {
        let bound = evidence.plan.bound();
        found.add(Rule::Stuck, format!("not settled {bound:?} after all was well again: {left}"));
    } else {
        found.all(Rule::Residue, "keys are left", &evidence.residue);
    }
    for life in &evidence.lives {
        // What it dropped because its lease was nearly over stays under that lease. Another process may have it already.
        let dropped = life.metrics.get("delaybridge_stale_drops_total").copied().unwrap_or(0.0);
        if life.left.iter().map(|(_, count)| *count as f64).sum::<f64>() > dropped {
            let (left, counted) = (&life.left, &life.metrics);
            found.add(Rule::Residue, format!("process {} ended with 0 and left {left:?}; {counted:?}", life.number));
        }
        if let Some(odd) = &life.odd_end {
            found.add(Rule::Died, format!("process {}: {odd}", life.number));
        }
        found.all(Rule::Died, "panics", &life.panics);
    }
}

/// Each element leaves Redis once, and is counted once, as delivered or as dead. What a process counted after its last scrape
/// is not known, if it has ended: at most what it sent and had not counted.
fn counters(evidence: &Evidence, arrived: &ByNumber<'_>, found: &mut Found) {
    if evidence.stuck.is_some() {
        return;
    }
    const DELIVERED: &str = "delaybridge_delivered_messages_total";
    let mut sent: BTreeMap<usize, HashSet<u64>> = BTreeMap::new();
    for arrival in &evidence.arrivals {
        if let Some(n) = arrival.n {
            sent.entry(arrival.life).or_default().insert(n);
        }
    }
    let unseen = |life: &crate::evidence::Lived| {
        let (sent, counted) = (sent.get(&life.number).map_or(0, HashSet::len), life.metrics.get(DELIVERED));
        (sent as f64 - counted.copied().unwrap_or(0.0)).max(0.0)
    };
    // Who was scraped when everything was settled has counted everything.
    let last = evidence.lives.len().saturating_sub(evidence.plan.settings.daemons);
    let unseen: f64 = evidence.lives[..last].iter().map(unseen).sum();
    let dead: HashSet<u64> = evidence.dead.iter().filter_map(|dead| dead.n).collect();
    let gone = arrived.keys().filter(|n| !dead.contains(n)).count() as f64;
    let counted = sum(evidence, DELIVERED);
    // Verdicts with a lost answer and a lease that was over before the next one.
    let unknown = sum(evidence, "delaybridge_unknown_acks_total");
    // What a failover brought back was counted before it.
    let again = replayed(evidence, arrived) as f64;
    if counted > gone + again || counted + unseen + unknown < gone {
        found.add(
            Rule::Counters,
            format!(
                "{gone} left Redis as delivered, {counted} were counted, {unseen} may be unseen, {unknown} unknown, \
                 {again} came back at failovers"
            ),
        );
    }
}

fn bounded(evidence: &Evidence, found: &mut Found) {
    let largest = evidence.offers.iter().map(|offer| offer.size as u64).max().unwrap_or(0);
    let line = MEMORY + if largest > 1 << 20 { largest * 8 } else { 0 };
    let fat = evidence.lives.iter().filter(|life| life.resident > line);
    found.all(
        Rule::Bounded,
        "processes had too much memory",
        &fat.map(|life| (life.number, life.resident)).collect::<Vec<_>>(),
    );
    let each = evidence.idle_commands / evidence.plan.settings.daemons as f64;
    let line = if evidence.plan.settings.profile.delivers() { IDLE_COMMANDS } else { IDLE_COMMANDS_OF_JOBS };
    if each > line {
        found.add(Rule::Bounded, format!("{each:.0} commands a second of each daemon, with nothing to do"));
    }
}

fn empty(evidence: &Evidence, found: &mut Found) {
    if evidence.arrivals.is_empty() {
        found.add(Rule::Empty, "nothing arrived");
    }
    let kinds = |times: bool| -> HashSet<&str> {
        let struck = evidence.struck.iter().filter(|struck| !times || struck.times > 0);
        struck.map(|struck| struck.fault.what.kind()).collect()
    };
    let mut never: Vec<_> = kinds(false).difference(&kinds(true)).copied().collect();
    never.sort_unstable();
    // One that had few chances is no failure of a run; a whole strand without effect is.
    if evidence.struck.len() >= 3 && never.len() * 2 > kinds(false).len() {
        found.all(Rule::Empty, "kinds of faults never struck", &never);
    }
    let struck = |kind: &str| kinds(true).contains(kind);
    // A reload breaks nothing off.
    let faults = evidence.plan.faults.iter().filter(|fault| fault.what.kind() != "reload").count();
    if (struck("stop") || struck("kill")) && faults >= LONG {
        if evidence.plan.settings.profile.delivers() && sum(evidence, "delaybridge_leases_expired_total") == 0.0 {
            found.add(Rule::Empty, "no lease has run out");
        }
        if duplicates(evidence) == 0 || evidence.dead.is_empty() {
            let (twice, dead) = (duplicates(evidence), evidence.dead.len());
            found.add(Rule::Empty, format!("{twice} duplicates, {dead} dead letters"));
        }
    }
    if evidence.struck.len() != evidence.plan.faults.len() {
        found.add(Rule::Empty, format!("{} of {} faults were made", evidence.struck.len(), evidence.plan.faults.len()));
    }
}
