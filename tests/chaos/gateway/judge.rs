//! The rules of a run. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::plan::GatewayPlan;
use super::{CameOut, GatewayBook, Way};

/// A rule that was broken, with some of the messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    pub rule: &'static str,
    pub count: usize,
    pub some: Vec<String>,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} messages, as {}", self.rule, self.count, self.some.join(", "))
    }
}

/// The messages that a broker has confirmed and that have not come out.
pub fn missing(book: &GatewayBook) -> Vec<String> {
    let came: BTreeSet<String> = book.came().iter().map(|came| came.name.clone()).collect();
    let published = book.published();
    let confirmed = published.iter().filter(|(_, message)| message.confirmed);
    confirmed.map(|(name, _)| name.clone()).filter(|name| !came.contains(name)).collect()
}

/// The sendings of each message: what a reader got twice counts once.
fn sendings(came: &[CameOut]) -> BTreeMap<&str, BTreeMap<(Way, &str), &CameOut>> {
    let mut all: BTreeMap<&str, BTreeMap<_, _>> = BTreeMap::new();
    for one in came {
        all.entry(&one.name).or_default().insert((one.way, one.sending.as_str()), one);
    }
    all
}

/// Judges a run with this number of refused messages.
pub fn judge(book: &GatewayBook, refused: usize) -> Vec<Broken> {
    let published = book.published().clone();
    let came = book.came().clone();
    let early = |one: &&CameOut| {
        let Some(message) = published.get(&one.name) else { return false };
        let Some(due_ms) = one.due_ms else { return true };
        one.at_ms < due_ms || due_ms < message.from_ms
    };
    let unknown = |one: &&CameOut| published.get(&one.name).is_none_or(|message| message.way != one.way);
    let names = |rule: &dyn Fn(&&CameOut) -> bool| came.iter().filter(rule).map(|one| one.name.clone()).collect();
    let all = sendings(&came);
    // Only one sending may say that it is the first.
    let twice = all.iter().filter(|(_, sent)| sent.values().filter(|one| one.attempt <= 1).count() > 1);
    let rules: [(&'static str, Vec<String>); 4] = [
        ("lost", missing(book)),
        ("early", names(&early)),
        ("unknown", names(&unknown)),
        ("unannounced", twice.map(|(name, _)| (*name).to_owned()).collect()),
    ];
    let broken = rules.into_iter().filter(|(_, names)| !names.is_empty()).map(|(rule, names)| {
        let count = names.len();
        Broken { rule, count, some: names.into_iter().take(5).collect() }
    });
    let refused = (refused > 0).then(|| Broken { rule: "refused", count: refused, some: Vec::new() });
    broken.chain(refused).collect()
}

/// The figures of a run.
pub fn report(plan: &GatewayPlan, book: &GatewayBook, settled: Duration) -> String {
    let published = book.published().clone();
    let came = book.came().clone();
    let all = sendings(&came);
    let mut text = format!("gateway, seed {}: {}\n", plan.seed, plan.counts());
    for way in [Way::Amqp, Way::Kafka] {
        let of_way = published.iter().filter(|(_, message)| message.way == way);
        let confirmed = of_way.clone().filter(|(_, message)| message.confirmed).count();
        let arrived = of_way.clone().filter(|(name, _)| all.contains_key(name.as_str())).count();
        let twice = of_way.clone().filter_map(|(name, _)| all.get(name.as_str())).filter(|sent| sent.len() > 1).count();
        let published = of_way.count();
        text += &format!(
            "{way:?}: {published} published, {confirmed} confirmed, {arrived} arrived, {twice} more than once\n"
        );
    }
    text + &format!("settled {:.0} s after the last fault\n", settled.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::Published;

    fn book(came: &[(&str, i64, u32)]) -> GatewayBook {
        let book = GatewayBook::default();
        let message = Published { way: Way::Amqp, from_ms: 1_000, confirmed: true };
        book.published().insert("a-1".to_owned(), message);
        for (number, (name, at_ms, attempt)) in came.iter().enumerate() {
            let sending = number.to_string();
            let came = CameOut {
                way: Way::Amqp,
                name: (*name).to_owned(),
                at_ms: *at_ms,
                due_ms: Some(1_000),
                attempt: *attempt,
                sending,
            };
            book.came().push(came);
        }
        book
    }

    #[test]
    fn each_rule_notices_what_breaks_it() {
        fn check(came: &[(&str, i64, u32)], refused: usize, expected: &[&str]) {
            let broken: Vec<_> = judge(&book(came), refused).into_iter().map(|broken| broken.rule).collect();
            assert_eq!(broken, expected, "{came:?}");
        }
        check(&[("a-1", 1_000, 1)], 0, &[]);
        check(&[("a-1", 1_000, 1), ("a-1", 2_000, 2)], 0, &[]);
        check(&[], 0, &["lost"]);
        check(&[("a-1", 999, 1)], 0, &["early"]);
        check(&[("a-1", 1_000, 1), ("a-1", 1_001, 1)], 0, &["unannounced"]);
        check(&[("a-1", 1_000, 1), ("b-1", 1_000, 1)], 0, &["unknown"]);
        check(&[("a-1", 1_000, 1)], 1, &["refused"]);
    }
}
