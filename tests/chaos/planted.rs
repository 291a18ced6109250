//! Planted defects: each lie of `src/fault_injection` is detected by the rule that it breaks.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use crate::judge::Rule;
use crate::options::Options;
use crate::order::{Order, Orders};
use crate::plan::Plan;
use crate::profile::Profile;
use crate::report::report;
use crate::run::{run, write};

/// A lie, the faults that expose it, and the rule that must detect it.
pub struct Planted {
    /// The name.
    pub lie: &'static str,
    /// The kinds of faults; empty if it shows without any.
    pub kinds: &'static [&'static str],
    pub rule: Rule,
    pub profile: Profile,
}

pub const ALL: [Planted; 17] = [
    planted("settle_before_ack", &["sink-kill", "link-refuse"], Rule::Lost),
    planted("ack_on_drop", &["rolling", "latency", "lose-claims"], Rule::Lost),
    planted("claim_without_fence", &["latency"], Rule::Unannounced),
    planted("early", &["junk"], Rule::Early),
    planted("flipped_byte", &["junk"], Rule::WrongBytes),
    planted("swallowed_retry", &["lose-messages", "sink-kill"], Rule::Lost),
    planted("forgotten_at_shutdown", &["rolling", "terminate", "sink-freeze"], Rule::Residue),
    planted("dead_at_first_failure", &["lose-messages"], Rule::DeadLetterCause),
    planted("skipped_counter", &["junk"], Rule::Counters),
    planted("dropped_attempt", &["lose-messages", "link-mute"], Rule::Unannounced),
    planted("endless_lease", &["kill"], Rule::Stuck),
    planted("resent_script", &["lose-claims"], Rule::AttemptsBurnt),
    planted("overtaken_retry", &["link-drop", "link-refuse", "sink-wrong-type"], Rule::Order),
    planted("wrong_route", &["latency"], Rule::Route),
    planted("dropped_record", &["latency"], Rule::Trail),
    planted("overtaken_in_run", &["rolling", "latency"], Rule::Order),
    Planted { profile: Profile::Older, ..planted("neighbour_taken_along", &["redis-older"], Rule::Lost) },
];

const fn planted(lie: &'static str, kinds: &'static [&'static str], rule: Rule) -> Planted {
    Planted { lie, kinds, rule, profile: Profile::Fixed }
}

fn plan(planted: &Planted) -> Plan {
    let kinds = planted.kinds.iter().map(|kind| (*kind).to_owned()).collect();
    let trail = matches!(planted.rule, Rule::Route | Rule::Trail);
    let length = Duration::from_secs(12);
    let profile = planted.profile;
    let options = Options { seed: 12, length, kinds, profile, trail, ..Options::default() };
    let mut plan = Plan::new(&options);
    // Data that a server forgot comes back while a claim lives.
    plan.settings.lease = Duration::from_secs(if planted.profile.forgets() { 5 } else { 3 });
    plan.settings.max_in_flight = 60;
    plan.settings.fails = planted.profile.forgets();
    plan.settings.rate = 20;
    plan.settings.orders = match planted.rule {
        Rule::Order => Orders([Order::Queue, Order::Key, Order::None]),
        _ => Orders::NONE,
    };
    plan
}

/// Plays the same plan without the lie; the error lists the violations.
pub async fn honest(planted: &Planted, folder: &Path) -> Result<(), String> {
    let outcome = run(&plan(planted), None, &folder.join(format!("not-{}", planted.lie))).await;
    if outcome.violations.is_empty() { Ok(()) } else { Err(format!("without {}:\n{}", planted.lie, report(&outcome))) }
}

/// Plays a lie; returns the time until it was detected, or the result instead.
pub async fn notice(planted: &Planted, folder: &Path) -> Result<Duration, String> {
    let plan = plan(planted);
    let began = Instant::now();
    let outcome = run(&plan, Some(planted.lie), &folder.join(planted.lie)).await;
    let took = began.elapsed();
    let text = report(&outcome);
    write(&outcome.folder, "report.txt", &text);
    if outcome.violations.iter().any(|violation| violation.rule == planted.rule) {
        Ok(took)
    } else {
        Err(format!("{} was not noticed by `{}`:\n{text}", planted.lie, planted.rule.name()))
    }
}
