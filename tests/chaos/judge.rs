//! The oracle: the named rules that every run must obey.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use crate::clock::latest;
use crate::evidence::{Arrival, Evidence, LeftClaim};
use crate::fates;
use crate::jobs;
use crate::offers::{Answer, Kind};
use crate::order::{self, Order};
use crate::profile::Profile;
use crate::what::{Trouble, What};

/// The configured number of counted attempts after which an element is a dead letter.
const MAX_ATTEMPTS: u32 = 6;
/// Maximum number of consecutive expired leases.
const MAX_EXPIRIES: u32 = 10;
/// Maximum memory of a daemon: a debug build with elements of 1 MB in flight.
const MEMORY: u64 = 400 << 20;
/// Maximum number of commands per second of an idle daemon.
const IDLE_COMMANDS: f64 = 60.0;

/// Number of faults from which on a run must show duplicates, takeovers and dead letters.
const LONG: usize = 60;

/// The rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Accepted elements arrive, or are dead letters.
    Lost,
    /// Nothing arrives that was not offered, that was refused, or that was withdrawn in time.
    Unknown,
    /// Arrivals equal the offers, byte for byte, with their due times.
    WrongBytes,
    /// Nothing arrives before its due time.
    Early,
    /// Only one of several arrivals of an element claims to be the first attempt.
    Unannounced,
    /// In a queue with order, first deliveries are in the order of the due times.
    Order,
    /// With conditions, each element takes its own route, or none.
    Route,
    /// With an audit trail, each element has the record of its fate.
    Trail,
    /// A job belongs to one consumer at a time, and is finished once.
    TwoOwners,
    /// A dead letter has a cause, and its attempts are used up.
    DeadLetterCause,
    /// Elements lose attempts only to faults that may cost them.
    AttemptsBurnt,
    /// After the faults, everything is settled within the bound.
    Stuck,
    /// Nothing remains in Redis after everything is settled, nor under the lease of a process that ended gracefully.
    Residue,
    /// Each element is counted once, under its end.
    Counters,
    /// Memory and commands of a daemon are limited.
    Bounded,
    /// No process ends by itself or ignores a stop; none panics.
    Died,
    /// The run was effective: each kind of fault struck, and something arrived.
    Empty,
}

impl Rule {
    /// The name in reports and the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Lost => "lost",
            Rule::Unknown => "unknown",
            Rule::WrongBytes => "wrong_bytes",
            Rule::Early => "early",
            Rule::Unannounced => "unannounced",
            Rule::Order => "order",
            Rule::Route => "route",
            Rule::Trail => "trail",
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

/// A broken rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    pub rule: Rule,
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule.name(), self.text)
    }
}

/// Finds all violations of a run.
pub fn judge(evidence: &Evidence) -> Vec<Violation> {
    let arrived = by_number(evidence);
    let mut found = Found(Vec::new());
    unknown(evidence, &mut found);
    early(evidence, &mut found);
    if evidence.plan.settings.profile.delivers() {
        lost(evidence, &arrived, &mut found);
        unannounced(evidence, &arrived, &mut found);
        order::judge(evidence, &mut found);
        fates::judge(evidence, &mut found);
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

/// The violations so far.
pub struct Found(pub Vec<Violation>);

impl Found {
    fn add(&mut self, rule: Rule, text: impl Into<String>) {
        self.0.push(Violation { rule, text: text.into() });
    }

    /// Adds one violation for all of these, which quotes the first ones.
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
    // Elements that are still stuck are not lost.
    let missing = all.filter(|(offer, n)| {
        let withdrawn = matches!(offer.withdrawn, Some(Answer::Yes | Answer::Unknown));
        let skipped = evidence.plan.settings.trail && fates::route(*n).is_none();
        offer.taken == Answer::Yes && !withdrawn && !skipped && !here(*n)
    });
    let missing: Vec<_> = missing.map(|(offer, n)| (n, offer)).collect();
    match evidence.stuck {
        None => found.all(Rule::Lost, "elements did not arrive", &missing),
        Some(_) => found.all(Rule::Stuck, "elements did not arrive in time", &missing),
    }
}

fn unknown(evidence: &Evidence, found: &mut Found) {
    let mut unknown = Vec::new();
    let mut wrong = Vec::new();
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
    // Deliveries before a failover that lost the claim. Durable claims are not lost.
    let forgotten = if evidence.plan.settings.durable { 0 } else { replayed(evidence, arrived) };
    if !evidence.plan.settings.durable {
        twice.retain(|(n, _)| !arrived.get(n).is_some_and(|all| at_failover(evidence, all)));
    }
    // Kafka's client can write a record twice in a single reported attempt (docs/guarantees.md).
    if evidence.plan.settings.profile == Profile::Kafka {
        twice.retain(|(_, all)| {
            let mut lives = all.iter().filter(|(_, attempt, _)| *attempt <= 1).map(|(life, ..)| life);
            let first = lives.next();
            lives.any(|life| Some(life) != first)
        });
    }
    found.all(Rule::Unannounced, "elements came twice as a first attempt (life, attempt, time)", &twice);
    if drops_repeats(evidence) {
        let all = arrived.iter().filter(|(_, all)| all.len() > 1).map(|(n, all)| (*n, all.len()));
        found.all(
            Rule::Unannounced,
            "elements are in a stream that drops repeats (number, times)",
            &all.collect::<Vec<_>>(),
        );
    }
    let seen = duplicates(evidence) - forgotten;
    let announced = announced(evidence);
    // A process loses its counts since the last scrape when it ends.
    let all_live = evidence.lives.len() == evidence.plan.settings.daemons;
    if seen as f64 > announced && all_live {
        found.add(Rule::Unannounced, format!("{seen} duplicates, {announced} counted"));
    }
}

/// Whether the destinations drop what is sent again. Their window is longer than the retries of a run.
fn drops_repeats(evidence: &Evidence) -> bool {
    evidence.plan.settings.profile == Profile::Nats
}

/// Whether a failover may have lost the record of an element's first arrival.
fn at_failover(evidence: &Evidence, all: &[&Arrival]) -> bool {
    const AROUND: i64 = 1_000;
    // A process may continue with a lost claim until its lease ends, and a suspended destination takes the delivery
    // even later.
    let lease = i64::try_from(evidence.plan.settings.lease.as_millis()).unwrap_or(i64::MAX);
    let Some(first) = all.iter().map(|arrival| arrival.at_ms).min() else { return false };
    let mut failovers = evidence.struck.iter().filter(|struck| struck.fault.what.may_lose_writes());
    failovers.any(|struck| (struck.from_ms - AROUND..=struck.till_ms + 2 * lease + AROUND).contains(&first))
}

/// Number of repeated arrivals of elements that were delivered at a failover.
pub fn replayed(evidence: &Evidence, arrived: &ByNumber<'_>) -> usize {
    let all = arrived.values().filter(|all| at_failover(evidence, all));
    all.map(|all| all.len() - 1).sum()
}

/// Number of repeated arrivals.
pub fn duplicates(evidence: &Evidence) -> usize {
    let different: HashSet<_> = evidence.arrivals.iter().map(|arrival| (arrival.queue, &arrival.id)).collect();
    evidence.arrivals.len() - different.len()
}

/// Number of duplicates that the daemons counted as possible.
pub fn announced(evidence: &Evidence) -> f64 {
    sum(evidence, "delaybridge_possible_duplicates_total") + sum(evidence, "delaybridge_leases_expired_total")
}

/// The sum of a counter over all processes, as far as it was scraped.
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
    // A lost claim is found a second later, after the end of a shorter lease. With a clock that was ahead, postponed
    // elements wait for that time, possibly long after the run.
    if lease < 3_000 || !evidence.clock.is_empty() || evidence.plan.settings.fails {
        return;
    }
    let times = evidence.struck.iter().filter_map(|struck| {
        let short = struck.till_ms - struck.from_ms < lease / 4;
        let spares = struck.fault.what.spares_attempts()
            && (short || !matches!(struck.fault.what, crate::what::What::Link(..)) || is_lossy(struck));
        // A lease may run out later, and the retry of a failed element comes even later.
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

/// Whether a fault loses only single answers; however long it lasts, no lease may run out.
fn is_lossy(struck: &crate::evidence::Struck) -> bool {
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
        // Claims dropped because their lease was nearly over stay under that lease, unless another process has them
        // already.
        let dropped = life.metrics.get("delaybridge_stale_drops_total").copied().unwrap_or(0.0);
        let left: Vec<_> = life.left.iter().filter(|claim| !was_brought_back(claim, evidence)).collect();
        if left.iter().map(|claim| claim.elements as f64).sum::<f64>() > dropped {
            let shown = |claim: &&LeftClaim| {
                let LeftClaim { claim, elements, till_ms, seen_ms } = *claim;
                format!("{claim} with {elements} elements, {} ms left", till_ms - seen_ms)
            };
            let (left, counted): (Vec<_>, _) = (left.iter().map(shown).collect(), &life.metrics);
            found.add(Rule::Residue, format!("process {} ended with 0 and left {left:?}; {counted:?}", life.number));
        }
        if let Some(odd) = &life.odd_end {
            found.add(Rule::Died, format!("process {}: {odd}", life.number));
        }
        found.all(Rule::Died, "panics", &life.panics);
    }
}

/// Whether a server that came back with older data may have brought a claim back that its process had ended before.
fn was_brought_back(claim: &LeftClaim, evidence: &Evidence) -> bool {
    let leased_ms = claim.till_ms - evidence.plan.settings.lease.as_millis() as i64;
    let older = evidence.struck.iter().filter(|struck| matches!(struck.fault.what, What::Older(_)));
    older.into_iter().any(|struck| leased_ms <= struck.from_ms && struck.till_ms <= claim.seen_ms)
}

/// Checks that each element leaves Redis once, and is counted once, as delivered or as dead. The counts of a process
/// since its last scrape are unknown if it has ended: at most the elements sent but not counted.
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
        let sent = sent.get(&life.number).map_or(0, HashSet::len);
        let counted = life.metrics.get(DELIVERED);
        (sent as f64 - counted.copied().unwrap_or(0.0)).max(0.0)
    };
    // Processes that were scraped when everything was settled have counted everything.
    let last = evidence.lives.len().saturating_sub(evidence.plan.settings.daemons);
    let unseen: f64 = evidence.lives[..last].iter().map(unseen).sum();
    let dead: HashSet<u64> = evidence.dead.iter().filter_map(|dead| dead.n).collect();
    let gone = arrived.keys().filter(|n| !dead.contains(n)).count() as f64;
    let counted = sum(evidence, DELIVERED);
    // Verdicts with a lost answer, whose lease ended before the next one.
    let unknown = sum(evidence, "delaybridge_unknown_acks_total");
    // Elements that a failover brought back were counted before it.
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
    if each > IDLE_COMMANDS {
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
    // A single fault with few chances is no failure of a run; a whole strand without effect is.
    if evidence.struck.len() >= 3 && never.len() * 2 > kinds(false).len() {
        found.all(Rule::Empty, "kinds of faults never struck", &never);
    }
    let struck = |kind: &str| kinds(true).contains(kind);
    // A reload interrupts nothing.
    let faults = evidence.plan.faults.iter().filter(|fault| fault.what.kind() != "reload").count();
    if (struck("stop") || struck("kill")) && faults >= LONG {
        let settings = &evidence.plan.settings;
        // Of a queue in order, one daemon has elements, and few faults meet it.
        let crowded = settings.profile.delivers() && settings.orders.0.contains(&Order::None);
        if crowded && sum(evidence, "delaybridge_leases_expired_total") == 0.0 {
            found.add(Rule::Empty, "no lease has run out");
        }
        let twice = sum(evidence, "delaybridge_duplicates_avoided_total") + duplicates(evidence) as f64;
        if twice == 0.0 || evidence.dead.is_empty() {
            found.add(Rule::Empty, format!("{twice} duplicates, {} dead letters", evidence.dead.len()));
        }
    }
    if evidence.struck.len() != evidence.plan.faults.len() {
        found.add(Rule::Empty, format!("{} of {} faults were made", evidence.struck.len(), evidence.plan.faults.len()));
    }
}
