//! Queues.

use std::num::NonZeroU64;
use std::sync::Arc;

use redisson_codecs::{Classes, Coding};

use super::audit::{self, AuditDraft};
use super::dead_letter;
use super::destination::{DestinationDraft, Goods};
use super::order;
use super::retry::PolicyDraft;
use super::route::{self, RouteDraft};
use super::sink::SinkDraft;
use super::when;
use crate::tables::{QueueKeys, queue, to, top};
use delaybridge_core::template::Template;
use delaybridge_link::hashed;
use delaybridge_model::{
    MaxInFlight, Mode, ONLY, OnAbsurdDue, OnDecodeError, OnUnroutable, QueueSpec, RetryPolicy, RouteSpec, Unroutable,
};
use delaybridge_settings::keys::{Key, nearest};
use delaybridge_settings::node::{Name, Node};
use delaybridge_settings::problem::{Report, Spot};
use delaybridge_settings::reader::{Context, Scalar, Section, clip};
use delaybridge_settings::{Settings, defaults};
use delaybridge_source::config::SourceSettings;

/// A queue and the places of its parts, for checks of several queues.
pub(super) struct QueueDraft<'a> {
    pub(super) spec: QueueSpec,
    pub(super) report: &'a Report,
    pub(super) name_spot: Spot,
    /// The place of the name of its Redis, if the user wrote one.
    pub(super) redis_spot: Option<Spot>,
    pub(super) lease_spot: Spot,
    pub(super) ahead_spot: Spot,
    /// The place of the limits, if the user wrote them.
    pub(super) in_flight_spot: Option<Spot>,
    pub(super) durability_spot: Option<Spot>,
    pub(super) in_flight_bytes_spot: Option<Spot>,
    /// The places of the destinations of `spec.to`, in the same order.
    pub(super) targets: Vec<Spot>,
    /// Names under `to:`, those of routes with problems included.
    pub(super) names: Vec<String>,
    /// The sink of the dead letters, its route with problems or not.
    pub(super) dead_sink: Option<String>,
    /// The place of the dead letters' destination.
    pub(super) dead_target: Option<Spot>,
    /// The audit trail, its route with problems or not.
    trail: Option<AuditDraft>,
    pub(super) policy: String,
}

impl QueueDraft<'_> {
    /// Returns every route and the place of its destination, including those of the dead letters and of the records.
    pub(super) fn routes(&self) -> impl Iterator<Item = (&RouteSpec, &Spot)> {
        let dead = self.spec.dead_letter_to.as_deref().zip(self.dead_target.as_ref());
        self.spec.to.iter().zip(&self.targets).chain(dead).chain(self.records())
    }

    /// Returns the route of the records, and the place of its destination.
    pub(super) fn records(&self) -> Option<(&RouteSpec, &Spot)> {
        let (spec, spot) = self.trail.as_ref()?.trail.as_ref()?;
        Some((&spec.route, spot))
    }

    /// Returns whether anything of the queue goes to this sink.
    pub(super) fn uses(&self, sink: &str) -> bool {
        let trail = self.trail.as_ref().map(|trail| &trail.sink);
        self.names.iter().chain(&self.dead_sink).chain(trail).any(|name| name == sink)
    }
}

/// Reads all queues, in the order of the file.
pub(super) fn queues<'a>(
    top: &Section<'a>,
    sinks: &[SinkDraft<'_>],
    policies: &[PolicyDraft<'_>],
    classes: &Classes,
) -> Vec<QueueDraft<'a>> {
    let sections = top.named(&top::QUEUES).into_iter();
    sections.map(|(id, section)| one(&id, &section, sinks, policies, classes, Goods::Elements)).collect()
}

/// Reads the queues of inputs, from what [`inputs`](super::inputs) has made of them.
pub(super) fn of_inputs<'a>(
    cx: &'a Context<'a>,
    nodes: &'a [(Name, Node)],
    sinks: &[SinkDraft<'_>],
    policies: &[PolicyDraft<'_>],
    classes: &Classes,
) -> Vec<QueueDraft<'a>> {
    let open = |(name, node): &'a (Name, Node)| {
        let spot = Spot { at: name.at, path: format!("{}.{}", top::INPUTS.name, name.text) };
        let section = Section::open(cx, spot, &queue::TABLE, Some(node));
        one(&name.text, &section, sinks, policies, classes, Goods::Carried)
    };
    nodes.iter().map(open).collect()
}

fn one<'a>(
    id: &str,
    section: &Section<'a>,
    sinks: &[SinkDraft<'_>],
    policies: &[PolicyDraft<'_>],
    classes: &Classes,
    of: Goods,
) -> QueueDraft<'a> {
    let keys = QueueKeys::of(section);
    let (source, redis) = keys.source;
    let codec = Coding {
        java_types: keys.java_types,
        json_in_text: keys.json_in_text,
        max_decoded_size: keys.max_decoded_size,
        ..keys.codec
    };
    check_coding(section, codec);
    if section.has(&queue::ON_EXPIRED) && !section.has(&queue::MAX_LATENESS) {
        let help = "write `max_lateness: 1h`, or remove `on_expired`";
        section.cx.report.problem(
            &section.spot(&queue::ON_EXPIRED),
            "`on_expired` has no effect without `max_lateness`",
            help,
        );
    }
    let mode = mode(section, keys.mode, &source);
    let (policy, retry) = retry(section, keys.retry, policies);
    let tag = source.config.key_tag();
    let slot = hashed(&tag);
    let (to, targets, names) = routes(section, sinks, codec, (slot, keys.order_key.as_ref()), of);
    let dead = dead_letter::read(section, sinks, slot);
    let (dead_letter_to, dead_target) = dead.to.unzip();
    let trail = audit::read(section, sinks, slot);
    let order = order::read(section, (keys.order, keys.order_key), &source.config, mode, codec, &to);
    check_durability(section, keys.durability.is_some(), mode);
    check_unroutable(section, keys.on_unroutable);
    when::check_skipped(section, &to);
    let mut draft = QueueDraft {
        report: &section.cx.report,
        name_spot: source.name_spot,
        redis_spot: redis.as_ref().map(|name| name.spot.clone()),
        lease_spot: section.spot(&queue::LEASE),
        ahead_spot: section.spot(&queue::CLAIM_AHEAD),
        durability_spot: section.has(&queue::DURABILITY).then(|| section.spot(&queue::DURABILITY)),
        in_flight_spot: section.has(&queue::MAX_IN_FLIGHT).then(|| section.spot(&queue::MAX_IN_FLIGHT)),
        in_flight_bytes_spot: section
            .has(&queue::MAX_IN_FLIGHT_BYTES)
            .then(|| section.spot(&queue::MAX_IN_FLIGHT_BYTES)),
        targets,
        names,
        dead_sink: dead.sink,
        dead_target,
        trail,
        policy,
        spec: QueueSpec {
            id: id.into(),
            redis: redis.map_or_else(|| ONLY.into(), |name| name.value.into()),
            source: source.config,
            codec,
            classes: classes.clone(),
            on_decode_error: keys.on_decode_error,
            on_opaque: keys.on_opaque.map_or_else(|| opaque(&to), OnDecodeError::from),
            on_absurd_due: absurd(section, keys.on_absurd_due, order.is_some()),
            lease: keys.lease,
            claim_ahead: keys.claim_ahead,
            max_in_flight: keys.max_in_flight.map_or(MaxInFlight::Auto, MaxInFlight::Fixed),
            max_in_flight_bytes: keys.max_in_flight_bytes,
            max_rate: keys.max_rate.map(Box::new),
            max_lateness: keys.max_lateness,
            on_expired: keys.on_expired,
            on_skipped: keys.on_skipped,
            unroutable: Unroutable { after: keys.unroutable_after, action: keys.on_unroutable },
            durability: keys.durability.map(Box::new),
            order: order.map(Box::new),
            mode,
            to: to.into(),
            retry,
            dead_letter_max_len: dead.max_len.and_then(NonZeroU64::new),
            dead_letter_to: dead_letter_to.map(Box::new),
            audit: None,
        },
    };
    if let Some(trail) = &draft.trail {
        audit::check(draft.report, trail, &draft.spec);
        draft.spec.audit = trail.trail.as_ref().map(|(spec, _)| Box::new(spec.clone()));
    }
    draft
}

fn check_durability(section: &Section<'_>, written: bool, mode: Mode) {
    if written && mode != Mode::Deliver {
        let message = format!("`durability` has no effect with `mode: {}`", mode.as_str());
        section.cx.report.problem(&section.spot(&queue::DURABILITY), message, "nothing is claimed then: remove it");
    }
}

fn check_unroutable(section: &Section<'_>, action: OnUnroutable) {
    if action == OnUnroutable::Hold && section.has(&queue::UNROUTABLE_AFTER) {
        section.cx.report.problem(
            &section.spot(&queue::UNROUTABLE_AFTER),
            "`unroutable_after` has no effect with `on_unroutable: hold`",
            "remove one of the two",
        );
    }
}

/// Reports keys that the codec does not use.
fn check_coding(section: &Section<'_>, coding: Coding) {
    if section.has(&queue::JAVA_TYPES) && !coding.codec.has_java_types() {
        let message = format!("codec {coding} finds no names of Java classes");
        section.cx.report.problem(&section.spot(&queue::JAVA_TYPES), message, "remove `java_types`");
    }
    if section.has(&queue::JSON_IN_TEXT) && !coding.has_texts() {
        let message = format!("codec {coding} reads no texts");
        let help = "write the codec of your producers, as `codec: kryo5` or `codec: string`";
        section.cx.report.problem(&section.spot(&queue::JSON_IN_TEXT), message, help);
    }
    if section.has(&queue::MAX_DECODED_SIZE) && !coding.uses_max_decoded_size() {
        let message = format!("codec {coding} neither unpacks nor builds anything");
        section.cx.report.problem(&section.spot(&queue::MAX_DECODED_SIZE), message, "remove `max_decoded_size`");
    }
}

/// Returns the rule for absurd due times. In order, an element that waits for ever would hold up those behind it.
fn absurd(section: &Section<'_>, written: Option<OnAbsurdDue>, in_order: bool) -> OnAbsurdDue {
    if in_order && written == Some(OnAbsurdDue::Hold) {
        section.cx.report.problem(
            &section.spot(&queue::ON_ABSURD_DUE),
            "an element that is held would hold up all that are behind it in order",
            "write `dead_letter` or `deliver`",
        );
    }
    written.unwrap_or(if in_order { OnAbsurdDue::DeadLetter } else { OnAbsurdDue::Hold })
}

/// Returns the default of `on_opaque`. A consumer of decoded values does not get the bytes of an object instead.
fn opaque(to: &[RouteSpec]) -> OnDecodeError {
    if to.iter().any(|route| route.message.envelope.is_decoded()) {
        OnDecodeError::DeadLetter
    } else {
        OnDecodeError::ForwardRaw
    }
}

fn retry(section: &Section<'_>, name: Option<Scalar>, policies: &[PolicyDraft<'_>]) -> (String, Arc<RetryPolicy>) {
    let find = |name: &str| policies.iter().find(|policy| policy.name == name).map(|policy| policy.policy.clone());
    let written = name.as_ref().map_or("default", |name| name.value.as_str()).to_owned();
    let policy = find(&written).or_else(|| {
        let name = name.as_ref()?;
        let help = match nearest(&written, policies.iter().map(|policy| policy.name.as_str())) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "policies are written under `retry:`".to_owned(),
        };
        section.cx.report.problem(&name.spot, format!("there is no retry policy `{}`", clip(&name.written)), help);
        find("default")
    });
    // `default` is always among the policies.
    (written, policy.unwrap_or_else(|| Arc::new(defaults())))
}

/// Completes the mode, and reports keys that contradict it.
fn mode(section: &Section<'_>, mode: Mode, source: &SourceSettings) -> Mode {
    let mode = match mode {
        Mode::Rescue { .. } => {
            Mode::Rescue { after: source.config.redisson().map(|spec| spec.rescue_after).unwrap_or_default() }
        }
        mode => mode,
    };
    let report = &section.cx.report;
    if matches!(mode, Mode::Rescue { .. }) && source.config.redisson().is_none() {
        let message = format!(
            "a source `{}` has no ready list that overdue elements could be moved to",
            source.config.kind().key.name
        );
        report.problem(&section.spot(&queue::MODE), message, "write `mode: deliver`, with a sink under `to:`");
    }
    if let Mode::Rescue { .. } = mode {
        // Elements are only moved to the ready list: all that is not about the source means nothing.
        let about_source = |key: &Key| [queue::SOURCE.name, queue::MODE.name].contains(&key.name);
        for key in queue::TABLE.keys().filter(|key| !about_source(key) && section.has(key)) {
            let message = format!("`{}` has no effect with `mode: rescue`, which delivers to no sink", key.name);
            report.problem(&section.spot(key), message, "remove it, or write `mode: deliver`");
        }
        return mode;
    }
    for (key, spot) in &source.rescue_only {
        let message = format!("`{key}` has no effect without `mode: rescue`");
        report.problem(spot, message, "write `mode: rescue`, or remove it");
    }
    if !section.has(&queue::TO) {
        report.problem(&section.spot, format!("`{}` is missing", queue::TO.name), queue::TO.help);
    }
    mode
}

fn routes(
    section: &Section<'_>,
    sinks: &[SinkDraft<'_>],
    codec: Coding,
    (slot, order_key): (&str, Option<&Template>),
    of: Goods,
) -> (Vec<RouteSpec>, Vec<Spot>, Vec<String>) {
    let items = section.list(&queue::TO);
    // The specs are kept as long as the process runs: no room to grow, of which a vector takes that of four.
    let mut specs = Vec::with_capacity(items.len());
    let mut spots = Vec::new();
    let mut names = Vec::new();
    // The sinks with a destination that takes every element.
    let mut unconditional = Vec::new();
    for item in &items {
        let at = DestinationDraft { section: item, codec, slot, order_key, alone: items.len() == 1, of };
        let Some(RouteDraft { sink, sink_spot, spec }) = route::read(&at, sinks) else { continue };
        if names.contains(&sink) && unconditional.contains(&sink) {
            let message = format!("no element comes here: the destination before takes all for `{}`", clip(&sink));
            let help = "write `when` at the destination before, or a second sink with a name of its own";
            section.cx.report.problem(&sink_spot, message, help);
        }
        if !item.has(&to::WHEN) {
            unconditional.push(sink.clone());
        }
        names.push(sink);
        if let Some((spec, target)) = spec {
            specs.push(spec);
            spots.push(target);
        }
    }
    (specs, spots, names)
}
