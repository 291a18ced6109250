//! Named retry policies.

use std::sync::Arc;

use crate::tables::top;
use delaybridge_model::RetryPolicy;
use delaybridge_model::keys::retry;
use delaybridge_settings::Settings;
use delaybridge_settings::problem::Spot;
use delaybridge_settings::reader::Section;
use delaybridge_settings::units::show_duration;

/// A policy and its place; the built-in `default` has none.
pub(super) struct PolicyDraft<'a> {
    pub(super) name: String,
    pub(super) policy: Arc<RetryPolicy>,
    pub(super) written: Option<(Spot, &'a delaybridge_settings::problem::Report)>,
}

/// Returns all policies. `default` is always among them.
pub(super) fn policies<'a>(top: &Section<'a>) -> Vec<PolicyDraft<'a>> {
    let mut policies: Vec<_> = top
        .named(&top::RETRY)
        .into_iter()
        .map(|(name, section)| {
            let written = Some((section.spot.clone(), &section.cx.report));
            PolicyDraft { name, policy: policy(&section).into(), written }
        })
        .collect();
    if !policies.iter().any(|policy| policy.name == "default") {
        let section = Section::open(top.cx, top.spot(&top::RETRY), &retry::TABLE, None);
        policies.push(PolicyDraft { name: "default".to_owned(), policy: policy(&section).into(), written: None });
    }
    policies
}

fn policy(section: &Section<'_>) -> RetryPolicy {
    let policy = RetryPolicy::of(section);
    if policy.initial_interval > policy.max_interval {
        let initial = show_duration(policy.initial_interval);
        let max = show_duration(policy.max_interval);
        let message = format!("initial_interval ({initial}) is longer than max_interval ({max})");
        section.cx.report.problem(&section.spot(&retry::INITIAL_INTERVAL), message, "raise `max_interval`");
    }
    policy
}
