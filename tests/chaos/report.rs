//! The report of a run: a table of its faults, and the verdict.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use crate::evidence::{Evidence, Struck};
use crate::jobs;
use crate::judge::{announced, duplicates, sum};
use crate::offers::{Answer, Kind};
use crate::run::Outcome;

/// The report as text.
pub fn report(outcome: &Outcome) -> String {
    let evidence = &outcome.evidence;
    let mut text = String::new();
    let settings = &evidence.plan.settings;
    let _ = writeln!(
        text,
        "seed {}: {}, {:?} of faults, {} daemons, lease {:?}, max_in_flight {}, {} processes",
        evidence.plan.seed,
        settings.profile,
        evidence.plan.length,
        settings.daemons,
        settings.lease,
        settings.max_in_flight,
        evidence.lives.len()
    );
    let _ = writeln!(text, "{}", counts(evidence));
    if !evidence.handed.is_empty() {
        let _ = writeln!(text, "{}", jobs::judge::counts(&evidence.handed));
    }
    let _ = writeln!(text, "\n| fault | planned | struck | recovery p50 | recovery max |\n|---|---|---|---|---|");
    for (kind, all) in by_kind(evidence) {
        let struck: u64 = all.iter().map(|struck| struck.times).sum();
        let mut recovery: Vec<i64> =
            all.iter().filter(|one| one.times > 0).map(|one| recovered(evidence, one)).collect();
        recovery.sort_unstable();
        let at = |share: usize| recovery.get(recovery.len().saturating_sub(1) * share / 100).copied().unwrap_or(0);
        let _ = writeln!(text, "| {kind} | {} | {struck} | {} ms | {} ms |", all.len(), at(50), at(100));
    }
    let _ = writeln!(text, "\nsettled {:.1} s after the last fault", evidence.settled_after.as_secs_f64());
    match outcome.violations.len() {
        0 => text.push_str("0 violations\n"),
        count => {
            let _ = writeln!(text, "{count} violations:");
            for violation in &outcome.violations {
                let _ = writeln!(text, "  {violation}");
            }
        }
    }
    text
}

fn counts(evidence: &Evidence) -> String {
    let offers = &evidence.offers;
    let taken = |answer| offers.iter().filter(|offer| offer.taken == answer).count();
    let arrived: HashMap<u64, usize> =
        evidence.arrivals.iter().filter_map(|arrival| arrival.n).fold(HashMap::new(), |mut counts, n| {
            *counts.entry(n).or_default() += 1;
            counts
        });
    let recovered = offers
        .iter()
        .zip(0u64..)
        .filter(|(offer, n)| offer.taken == Answer::Unknown && arrived.contains_key(n))
        .count();
    let withdrawn = offers.iter().filter(|offer| offer.withdrawn == Some(Answer::Yes)).count();
    let bad = offers.iter().filter(|offer| offer.kind != Kind::Good).count();
    format!(
        "{} offered: {} taken, {} refused, {} without an answer ({recovered} of them arrived); {withdrawn} withdrawn, \
         {bad} that cannot be delivered\n\
         {} arrived, {} duplicates ({} counted as possible); {} dead letters; taken over {}, recovered after a lost reply {}, \
         refused late verdicts {}, jobs without a body {}; {} stalls of the machine",
        offers.len(),
        taken(Answer::Yes),
        taken(Answer::No),
        taken(Answer::Unknown),
        arrived.len(),
        duplicates(evidence),
        announced(evidence),
        evidence.dead.len(),
        sum(evidence, "delaybridge_leases_expired_total"),
        sum(evidence, "delaybridge_recovered_messages_total"),
        sum(evidence, "delaybridge_stale_acks_total"),
        sum(evidence, "delaybridge_jobs_without_body_total"),
        evidence.stalls.len(),
    )
}

fn by_kind(evidence: &Evidence) -> BTreeMap<&'static str, Vec<&Struck>> {
    let mut kinds: BTreeMap<&'static str, Vec<&Struck>> = BTreeMap::new();
    for struck in &evidence.struck {
        kinds.entry(struck.fault.what.kind()).or_default().push(struck);
    }
    kinds
}

/// The time from the end of a fault until everything due by then had arrived, in ms. It is an upper bound, because
/// other faults continue.
fn recovered(evidence: &Evidence, struck: &Struck) -> i64 {
    let mut first: HashMap<u64, i64> = HashMap::new();
    for arrival in &evidence.arrivals {
        if let Some(n) = arrival.n {
            let at = first.entry(n).or_insert(arrival.at_ms);
            *at = (*at).min(arrival.at_ms);
        }
    }
    let due = first
        .iter()
        .filter(|(n, _)| evidence.offers.get(**n as usize).is_some_and(|offer| offer.due_ms <= struck.till_ms));
    due.map(|(_, at)| at - struck.till_ms).max().unwrap_or(0).max(0)
}
