//! `when` of destinations, and `on_skipped` of their queue.

use super::destination::DestinationDraft;
use crate::tables::queue;
use delaybridge_core::condition::{Condition, ConditionError, Mistake};
use delaybridge_model::RouteSpec;
use delaybridge_settings::keys::nearest;
use delaybridge_settings::reader::{Scalar, Section};

/// Reads the condition of a destination.
pub(super) fn read(at: &DestinationDraft<'_, '_>, text: &Scalar) -> Option<Condition> {
    let report = &at.section.cx.report;
    match Condition::compile(&text.value) {
        Ok(condition) => {
            at.fits_codec("condition", (condition.uses_payload(), condition.uses_payload_path()), &text.spot);
            Some(condition)
        }
        Err(error) => {
            let help = help(&error);
            report.problem(&text.spot, format!("the condition cannot be read at {error}"), help);
            None
        }
    }
}

/// Returns the correction of a mistake.
fn help(error: &ConditionError) -> String {
    match &error.mistake {
        Mistake::UnknownField(name) => {
            let (first, rest) = name.split_at(name.find('.').unwrap_or(name.len()));
            match nearest(first, Condition::FIELDS) {
                // Only a payload has fields inside.
                Some(field) if rest.is_empty() || field == "payload" => format!("did you mean `{field}{rest}`?"),
                _ => format!("a field of the payload is written `payload.{name}`, a text has quotes"),
            }
        }
        Mistake::Attempt => "remove it; `retry` bounds the attempts".to_owned(),
        Mistake::Long | Mistake::Deep => "split it over several destinations, or decide in the producer".to_owned(),
        _ => "as in `payload.amount > 100 and payload.region in [\"eu\", \"uk\"]`".to_owned(),
    }
}

/// Reports an `on_skipped` for a queue that skips nothing.
pub(super) fn check_skipped(section: &Section<'_>, to: &[RouteSpec]) {
    if !section.has(&queue::ON_SKIPPED) {
        return;
    }
    if let Some(route) = to.iter().find(|route| route.when().is_none()) {
        let message = format!("`on_skipped` has no effect: the destination at `{}` takes every element", route.sink);
        let help = "write `when` at every destination, or remove `on_skipped`";
        section.cx.report.problem(&section.spot(&queue::ON_SKIPPED), message, help);
    }
}
