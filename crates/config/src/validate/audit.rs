//! The audit trail of a queue.

use redisson_codecs::Codec;

use super::destination::{DestinationDraft, Goods};
use super::sink::{self, SinkDraft};
use crate::tables::{AuditKeys, audit, queue};
use delaybridge_model::{AuditFate, AuditSpec, Envelope, MessageSpec, Mode, OnExpired, QueueSpec, RouteSpec};
use delaybridge_settings::Settings;
use delaybridge_settings::problem::{Report, Spot};
use delaybridge_settings::reader::Section;

/// The settings under `audit:`.
pub(super) struct AuditDraft {
    /// The sink that was named, its route with problems or not.
    pub(super) sink: String,
    /// The trail, and where its destination is written.
    pub(super) trail: Option<(AuditSpec, Spot)>,
    spot: Spot,
    /// The place of `on`, if the user wrote it.
    on_spot: Option<Spot>,
}

/// Reads the part of the queue `section`.
pub(super) fn read(section: &Section<'_>, sinks: &[SinkDraft<'_>], slot: &str) -> Option<AuditDraft> {
    let section = section.opt_section(&queue::AUDIT)?;
    let AuditKeys { sink, on } = AuditKeys::of(&section);
    let on = fates(&section, on);
    let on_spot = section.has(&audit::ON).then(|| section.spot(&audit::ON));
    let of = Goods::Records;
    let at = DestinationDraft { section: &section, codec: Codec::Raw.into(), slot, order_key: None, alone: false, of };
    let named = sink.and_then(|name| Some((sink::find(&section, sinks, &name)?, name)));
    let Some((sink, name)) = named else {
        at.pass_over();
        return None;
    };
    let message = MessageSpec { headers: Box::default(), envelope: Envelope::Raw };
    let trail = at.read(sink, &name.spot).map(|(target, spot)| {
        let route = RouteSpec { sink: name.value.as_str().into(), target, message, rules: None };
        (AuditSpec { route, on: on.into() }, spot)
    });
    Some(AuditDraft { sink: sink.name.clone(), trail, spot: section.spot.clone(), on_spot })
}

/// Returns the fates that are recorded. One that no daemon sees is refused.
fn fates(section: &Section<'_>, fates: Vec<Option<AuditFate>>) -> Vec<AuditFate> {
    if section.has(&audit::ON) && fates.contains(&None) {
        let message = "`cancelled` cannot be recorded before the element leaves: it is cancelled in Redis, where no daemon sees it";
        let help = "remove it from `on`; the log of every daemon names what people cancel by command";
        section.cx.report.problem(&section.spot(&audit::ON), message, help);
    }
    fates.into_iter().flatten().collect()
}

/// Reports a trail, or a fate in it, that no element of the queue can have.
pub(super) fn check(report: &Report, draft: &AuditDraft, spec: &QueueSpec) {
    let Some((trail, _)) = &draft.trail else { return };
    if spec.mode != Mode::Deliver {
        let message = format!("`audit` has no effect with `mode: {}`, which delivers nothing", spec.mode.as_str());
        return report.problem(&draft.spot, message, "remove it");
    }
    let pushes =
        |route: &RouteSpec| route.target.redis_write().is_some_and(|write| write.push_with_verdict().is_some());
    if trail.records(AuditFate::Delivered) && spec.to.iter().any(pushes) {
        let message =
            "a delivery cannot be recorded with `exactly_once`, which pushes and removes the element in one step";
        let spot = draft.on_spot.as_ref().unwrap_or(&draft.spot);
        report.problem(spot, message, "remove `exactly_once`, or write `on` without `delivered`");
    }
    let Some(spot) = &draft.on_spot else { return };
    if trail.records(AuditFate::Expired) {
        if spec.source.jobs().is_some() {
            let message = "`expired` cannot be recorded for topics: jobs expire by their TTL in Redis itself";
            report.problem(spot, message, "remove it from `on`");
        } else if spec.max_lateness.is_none() || spec.on_expired != OnExpired::DeadLetter {
            let help = "write `max_lateness: 1h`, with `on_expired: dead_letter`, or remove it from `on`";
            report.problem(spot, "`expired` never happens: no element of the queue expires", help);
        }
    }
    if trail.records(AuditFate::Skipped) && spec.to.iter().any(|route| route.when().is_none()) {
        let message = "`skipped` never happens: a destination without `when` takes every element";
        report.problem(spot, message, "write `when` at every destination, or remove it from `on`");
    }
}
