//! The rules for jobs.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Handed, TRIES, Way};
use crate::evidence::{Arrival, Dead, Evidence};
use crate::fates::Route;
use crate::judge::{Found, Rule};
use crate::offers::Answer;

/// The jobs that consumers got, as arrivals.
pub fn arrivals(handed: &[Handed]) -> Vec<Arrival> {
    let arrival = |handed: &Handed| Arrival {
        route: Route::First,
        queue: handed.topic,
        n: handed.n,
        id: handed.id.clone(),
        attempt: handed.attempt,
        at_ms: handed.got_ms,
        life: 0,
        whole: handed.whole,
        confirmed: handed.verdict.is_some_and(|verdict| verdict.answer == Answer::Yes),
    };
    handed.iter().map(arrival).collect()
}

/// The numbers of consumers' verdicts, for a report.
pub fn counts(handed: &[Handed]) -> String {
    let verdicts = |which: fn(Way) -> bool, answer| {
        let all = handed.iter().filter_map(|handed| handed.verdict);
        all.filter(|verdict| which(verdict.way) && verdict.answer == answer).count()
    };
    let finish = |way| way == Way::Finish;
    format!(
        "jobs were handed out {} times: {} finished, {} without an answer, {} refused; {} released; {} buried; {} without a word",
        handed.len(),
        verdicts(finish, Answer::Yes),
        verdicts(finish, Answer::Unknown),
        verdicts(finish, Answer::No),
        verdicts(|way| matches!(way, Way::Release(..)), Answer::Yes),
        verdicts(|way| way == Way::Bury, Answer::Yes),
        handed.iter().filter(|handed| handed.verdict.is_none()).count(),
    )
}

pub fn judge(evidence: &Evidence, found: &mut Found) {
    let mut jobs: BTreeMap<u64, Vec<&Handed>> = BTreeMap::new();
    for handed in &evidence.handed {
        if let Some(n) = handed.n {
            jobs.entry(n).or_default().push(handed);
        }
    }
    let dead: HashMap<u64, &Dead> = evidence.dead.iter().filter_map(|dead| Some((dead.n?, dead))).collect();
    jobs.values_mut().for_each(|all| all.sort_by_key(|handed| handed.reserved_ms));
    vanished(evidence, &jobs, &dead, found);
    let forgotten = Forgotten::of(evidence);
    two_owners(&jobs, &dead, &forgotten, found);
    early(&jobs, &forgotten, found);
    dead_jobs(evidence, &jobs, found);
}

/// The times at which a failover may have lost reservations and verdicts, in ms.
struct Forgotten(Vec<(i64, i64)>);

impl Forgotten {
    fn of(evidence: &Evidence) -> Forgotten {
        /// A write that no replica had may be older than the fault, and its answer later.
        const AROUND: i64 = 2_000;
        let struck = evidence.struck.iter().filter(|struck| struck.fault.what.may_lose_writes());
        Forgotten(struck.map(|struck| (struck.from_ms - AROUND, struck.till_ms + AROUND)).collect())
    }

    /// Whether something that was written at the first time or later may have been lost before the second.
    fn between(&self, from_ms: i64, till_ms: i64) -> bool {
        self.0.iter().any(|(from, till)| from_ms <= *till && *from <= till_ms)
    }
}

/// Whether a consumer finished the job with this answer.
fn finished(all: &[&Handed], answer: Answer) -> bool {
    let mut verdicts = all.iter().filter_map(|handed| handed.verdict);
    verdicts.any(|verdict| verdict.way == Way::Finish && verdict.answer == answer)
}

fn vanished(evidence: &Evidence, jobs: &BTreeMap<u64, Vec<&Handed>>, dead: &HashMap<u64, &Dead>, found: &mut Found) {
    let all = evidence.offers.iter().zip(0u64..);
    let missing = all.filter(|(offer, n)| {
        let done = |answer| jobs.get(n).is_some_and(|all| finished(all, answer));
        offer.taken == Answer::Yes
            && !matches!(offer.withdrawn, Some(Answer::Yes | Answer::Unknown))
            && !done(Answer::Yes)
            && !done(Answer::Unknown)
            && !dead.contains_key(n)
    });
    let missing: Vec<_> = missing.map(|(offer, n)| (n, offer, jobs.get(&n))).collect();
    let rule = if evidence.stuck.is_some() { Rule::Stuck } else { Rule::Lost };
    found.all(rule, "jobs were neither finished nor are they dead", &missing);
}

fn two_owners(
    jobs: &BTreeMap<u64, Vec<&Handed>>,
    dead: &HashMap<u64, &Dead>,
    forgotten: &Forgotten,
    found: &mut Found,
) {
    let mut twice = Vec::new();
    let mut after = Vec::new();
    let mut both = Vec::new();
    let mut overlap = Vec::new();
    for (n, all) in jobs {
        let finishes: Vec<&Handed> = all.iter().copied().filter(|handed| finished(&[*handed], Answer::Yes)).collect();
        let first_ms = finishes.iter().map(|finish| finish.reserved_ms).min().unwrap_or(0);
        let last_ms = finishes.iter().map(|finish| finish.reserved_ms).max().unwrap_or(0);
        if finishes.len() > 1 && !forgotten.between(first_ms, last_ms) {
            twice.push((n, finishes.clone()));
        }
        if !finishes.is_empty() && dead.contains_key(n) && !forgotten.between(last_ms, i64::MAX) {
            both.push((n, finishes.clone()));
        }
        for finish in &finishes {
            // A stopped daemon may answer late with an old reservation.
            let answered_ms = finish.verdict.map_or(i64::MAX, |verdict| verdict.answered_ms);
            let late = all.iter().filter(|handed| {
                handed.reserved_ms > answered_ms && !forgotten.between(finish.reserved_ms, handed.reserved_ms)
            });
            after.extend(late.map(|late| (n, *late)));
        }
        for (place, one) in all.iter().enumerate() {
            // After any verdict of its consumer, the job may be another's.
            let until = one.verdict.map_or(one.deadline_ms, |verdict| verdict.sent_ms.min(one.deadline_ms));
            let others = all
                .iter()
                .skip(place + 1)
                .filter(|other| other.reserved_ms < until && !forgotten.between(one.reserved_ms, other.reserved_ms));
            overlap.extend(others.map(|other| (n, *one, *other)));
        }
    }
    found.all(Rule::TwoOwners, "jobs were finished by two", &twice);
    found.all(Rule::TwoOwners, "jobs were finished, and are dead", &both);
    found.all(Rule::TwoOwners, "jobs were reserved after they had been finished", &after);
    found.all(Rule::TwoOwners, "jobs had two reservations at the same time", &overlap);
    let mut seen = HashSet::new();
    let again = jobs.values().flatten().filter(|handed| !seen.insert((&handed.id, &handed.token)));
    found.all(Rule::TwoOwners, "reservations were handed to two", &again.collect::<Vec<_>>());
}

/// Checks that released jobs do not come back before their delay.
fn early(jobs: &BTreeMap<u64, Vec<&Handed>>, forgotten: &Forgotten, found: &mut Found) {
    let mut early = Vec::new();
    for (n, all) in jobs {
        for handed in all {
            let Some(verdict) = handed.verdict.filter(|verdict| verdict.answer == Answer::Yes) else { continue };
            let Way::Release(delay_ms, _) = verdict.way else { continue };
            let since = |other: &&&Handed| {
                other.token != handed.token
                    && (verdict.answered_ms + 1..verdict.sent_ms + delay_ms).contains(&other.reserved_ms)
                    && !forgotten.between(handed.reserved_ms, other.reserved_ms)
            };
            early.extend(all.iter().find(since).map(|other| (n, verdict, *other)));
        }
    }
    found.all(Rule::Early, "jobs came back before the time that they were released for", &early);
}

fn dead_jobs(evidence: &Evidence, jobs: &BTreeMap<u64, Vec<&Handed>>, found: &mut Found) {
    let buried = |dead: &Dead| {
        let all = dead.n.and_then(|n| jobs.get(&n));
        let mut verdicts = all.into_iter().flatten().filter_map(|handed| handed.verdict);
        verdicts.any(|verdict| verdict.way == Way::Bury && verdict.answer != Answer::No)
    };
    let odd = |dead: &&Dead| !(buried(dead) || dead.attempts == TRIES && dead.expiries == TRIES);
    found.all(Rule::DeadLetterCause, "dead jobs have no cause", &evidence.dead.iter().filter(odd).collect::<Vec<_>>());
    let beyond = evidence.handed.iter().filter(|handed| handed.attempt > TRIES || handed.attempt == 0);
    found.all(Rule::DeadLetterCause, "jobs were handed out beyond their tries", &beyond.collect::<Vec<_>>());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::Verdict;

    /// A job reserved at this time for 100 ms, with its consumer's verdict, the time of it, and the time of its answer.
    fn handed(token: &str, reserved_ms: i64, verdict: Option<(Way, i64, i64, Answer)>) -> Handed {
        Handed {
            topic: 0,
            n: Some(7),
            id: "orders~j7".to_owned(),
            token: token.to_owned(),
            attempt: 1,
            reserved_ms,
            deadline_ms: reserved_ms + 100,
            got_ms: reserved_ms + 1,
            whole: true,
            verdict: verdict.map(|(way, sent_ms, answered_ms, answer)| Verdict { way, sent_ms, answered_ms, answer }),
        }
    }

    fn check(all: &[Handed], is_dead: bool, expected: &[&str]) {
        check_with(&Forgotten(Vec::new()), all, is_dead, expected);
        // A failover at the beginning explains everything but a token that comes twice.
        let twice = expected.iter().copied().filter(|text| text.contains("handed to two")).collect::<Vec<_>>();
        check_with(&Forgotten(vec![(-10, 1_000)]), all, is_dead, &twice);
    }

    fn check_with(forgotten: &Forgotten, all: &[Handed], is_dead: bool, expected: &[&str]) {
        let dead = Dead { queue: 0, n: Some(7), reason: String::new(), attempts: TRIES, expiries: TRIES };
        let dead: HashMap<u64, &Dead> = is_dead.then_some((7, &dead)).into_iter().collect();
        let jobs: BTreeMap<u64, Vec<&Handed>> = [(7, all.iter().collect())].into();
        let mut found = Found(Vec::new());
        two_owners(&jobs, &dead, forgotten, &mut found);
        early(&jobs, forgotten, &mut found);
        assert_eq!(found.0.len(), expected.len(), "{:?}", found.0);
        for (violation, text) in found.0.iter().zip(expected) {
            assert!(violation.text.contains(text), "{violation}, and not {text}");
        }
    }

    #[test]
    fn a_job_of_two_owners_is_noticed() {
        let finish = |from, till| Some((Way::Finish, from, till, Answer::Yes));
        let release = |delay, from, till| Some((Way::Release(delay, true), from, till, Answer::Yes));
        // The normal case: forgotten, released, finished.
        check(
            &[handed("a", 0, None), handed("b", 100, release(50, 110, 112)), handed("c", 165, finish(170, 171))],
            false,
            &[],
        );
        check(&[handed("a", 0, finish(10, 11)), handed("b", 200, finish(210, 211))], false, &["by two", "after"]);
        check(&[handed("a", 0, finish(10, 11))], true, &["are dead"]);
        check(&[handed("a", 0, None), handed("b", 99, None)], false, &["same time"]);
        check(&[handed("a", 0, None), handed("a", 300, None)], false, &["handed to two"]);
        check(&[handed("a", 0, release(50, 10, 12)), handed("b", 40, None)], false, &["came back before"]);
        // A stopped daemon answers with an old reservation.
        check(&[handed("a", 0, None), handed("b", 100, finish(110, 111))], false, &[]);
    }
}
