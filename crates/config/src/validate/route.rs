//! One destination of a queue: the route's own keys first, then those of its sink.

use std::sync::Arc;

use redisson_codecs::JavaTypes;

use super::destination::DestinationDraft;
use super::sink::{self, SinkDraft};
use super::when;
use crate::tables::{cloud_events, headers_from_message, to};
use crate::words::{Envelopes, EventBodies, EventModes};
use delaybridge_core::template::Template;
use delaybridge_model::{
    Duplicates, EVENT_SOURCE, EVENT_TYPE, Envelope, EventData, EventMode, EventSpec, HeaderFilter, MessageSpec,
    RouteRules, RouteSpec,
};
use delaybridge_settings::keys::Key;
use delaybridge_settings::problem::Spot;
use delaybridge_settings::reader::{Scalar, Section};
use delaybridge_sink::{HeaderFate, Recognition, RouteHeaders, Target};

/// A route as it was read.
pub(super) struct RouteDraft {
    pub(super) sink: String,
    pub(super) sink_spot: Spot,
    /// The route and where its destination is written; absent when a problem keeps it from being built.
    pub(super) spec: Option<(RouteSpec, Spot)>,
}

/// Reads the item `at.section`; `None` when it names no sink at all.
pub(super) fn read(at: &DestinationDraft<'_, '_>, sinks: &[SinkDraft<'_>]) -> Option<RouteDraft> {
    let section = at.section;
    let headers = section.headers(&to::HEADERS);
    let envelope = envelope(at);
    let when = when::read(at);
    let duplicates = section.one_of::<Duplicates>(&to::DUPLICATES).unwrap_or(Duplicates::Allow);
    let filter = header_filter(section);
    for (_, template, spot) in &headers {
        at.fits(template, spot);
    }
    let named = section.text(&to::SINK).and_then(|name| Some((sink::find(section, sinks, &name)?, name)));
    let Some((sink, name)) = named else {
        at.pass_over();
        return None;
    };
    let route = RouteDraft { sink: name.value, sink_spot: name.spot, spec: None };
    let Some((target, spot)) = at.read(sink, &route.sink_spot) else { return Some(route) };
    check_headers(section, &headers, &*target, &envelope);
    let (filter, kept) = filter.unzip();
    check_kept(section, &kept.unwrap_or_default(), &*target);
    check_duplicates(section, duplicates, &*target, sink);
    let headers = headers.into_iter().map(|(name, template, _)| (name.into(), template)).collect();
    // Its name is there once, for ten thousand queues too.
    let name = sink.known.as_ref().map_or_else(|| route.sink.as_str().into(), |known| known.spec.name.clone());
    let spec = RouteSpec {
        sink: name,
        target,
        message: MessageSpec { headers, envelope },
        rules: RouteRules::of(when, duplicates, filter),
    };
    Some(RouteDraft { spec: Some((spec, spot)), ..route })
}

/// Returns the headers of messages that the route wants, and those that it names to be kept.
fn header_filter(section: &Section<'_>) -> Option<(HeaderFilter, Vec<Scalar>)> {
    let section = section.opt_section(&to::HEADERS_FROM_MESSAGE)?;
    let has_keep = section.has(&headers_from_message::KEEP);
    let keep = section.texts(&headers_from_message::KEEP);
    let has_drop = section.has(&headers_from_message::DROP);
    let drop = section.texts(&headers_from_message::DROP);
    if !has_keep && !has_drop {
        let message = "`headers_from_message` has neither `keep` nor `drop`";
        section.cx.report.problem(&section.spot, message, "write `drop: [x-internal-*]`, or remove it");
    }
    let spelled = |patterns: &[Scalar]| patterns.iter().map(|pattern| pattern.value.to_ascii_lowercase()).collect();
    Some((HeaderFilter { keep: has_keep.then(|| spelled(&keep)), drop: spelled(&drop) }, keep))
}

/// Refuses to keep, by its whole name, a header that never passes.
fn check_kept(section: &Section<'_>, kept: &[Scalar], target: &dyn Target) {
    let rules = target.header_rules();
    for pattern in kept {
        let never = !pattern.value.contains('*') && rules.fate(&pattern.value, Some("x")) != HeaderFate::Passes;
        if never || target.has_header(&pattern.value) {
            let message = format!("`{}` never passes to this destination ({})", pattern.value, rules.title);
            section.cx.report.problem(&pattern.spot, message, "remove it");
        }
    }
}

/// Refuses a look where nothing can be seen.
fn check_duplicates(section: &Section<'_>, duplicates: Duplicates, target: &dyn Target, sink: &SinkDraft<'_>) {
    if duplicates == Duplicates::Look && target.recognition() == Recognition::None {
        let kind = sink.known.as_ref().map_or("", |known| known.kind.key.name);
        let message = match target.redis_write() {
            Some(_) => "a push with `exactly_once` is never made twice".to_owned(),
            None => format!("a destination of kind {kind} does not tell what it has already"),
        };
        let help = "remove `duplicates`; consumers know a repeat by its id";
        section.cx.report.problem(&section.spot(&to::DUPLICATES), message, help);
    }
}

fn envelope(at: &DestinationDraft<'_, '_>) -> Envelope {
    let section = at.section;
    let codec = at.codec;
    let report = &section.cx.report;
    let envelope = match section.one_of::<Envelopes>(&to::ENVELOPE) {
        Some(Envelopes::Decoded) => Envelope::Decoded,
        Some(Envelopes::Json) => Envelope::Json,
        Some(Envelopes::CloudEvents) => Envelope::CloudEvents(Arc::new(event(at))),
        Some(Envelopes::Raw) | None => Envelope::Raw,
    };
    if section.has(&to::CLOUDEVENTS) && !matches!(envelope, Envelope::CloudEvents(_)) {
        let message = "`cloudevents` has no effect without `envelope: cloudevents`";
        report.problem(&section.spot(&to::CLOUDEVENTS), message, "write `envelope: cloudevents`, or remove it");
        // Its mistakes are reported too.
        let _ = event(at);
    }
    if envelope.is_decoded() && codec.is_raw() {
        let (what, spot) = match &envelope {
            Envelope::CloudEvents(_) => ("data", section.spot(&to::CLOUDEVENTS)),
            _ => ("envelope", section.spot(&to::ENVELOPE)),
        };
        let message = format!("codec raw decodes nothing that {what} decoded could send");
        report.problem(&spot, message, format!("name the codec, or write `{what}: raw`"));
    }
    envelope
}

/// Reads the settings of the event for `envelope: cloudevents`.
fn event(at: &DestinationDraft<'_, '_>) -> EventSpec {
    let section = at.section.section(&to::CLOUDEVENTS);
    let mode = section.one_of::<EventModes>(&cloud_events::MODE).unwrap_or(EventMode::Binary);
    let data = section.one_of::<EventBodies>(&cloud_events::DATA);
    if (mode, data) == (EventMode::Structured, Some(EventData::Raw)) {
        let message = "the data of a structured event is a part of its JSON, and no bytes";
        let help = "write `data: decoded`, or `mode: binary`";
        section.cx.report.problem(&section.spot(&cloud_events::DATA), message, help);
    }
    // Of decoded values only can the types be gone, and only they are what is in a text.
    let is_changed = at.codec.java_types == JavaTypes::Strip || at.codec.json_in_text;
    let data = data.unwrap_or(match mode {
        EventMode::Binary if !is_changed => EventData::Raw,
        EventMode::Binary | EventMode::Structured => EventData::Decoded,
    });
    let template = |key: &Key, needed: bool| {
        let template = section.template(key)?;
        at.fits(&template, &section.spot(key));
        if needed && template.static_text() == Some("") {
            let message = format!("an event has no empty `{}`", key.name);
            section.cx.report.problem(&section.spot(key), message, "write a text, or remove it");
        }
        Some(template)
    };
    let default = |text: &str| Template::compile(text).expect("the text is a template");
    EventSpec {
        mode,
        data,
        kind: template(&cloud_events::TYPE, true).unwrap_or_else(|| default(EVENT_TYPE)),
        source: template(&cloud_events::SOURCE, true).unwrap_or_else(|| default(EVENT_SOURCE)),
        subject: template(&cloud_events::SUBJECT, false),
    }
}

fn check_headers(
    section: &Section<'_>,
    headers: &[(String, Template, Spot)],
    target: &dyn Target,
    envelope: &Envelope,
) {
    let names: Vec<_> = headers.iter().map(|(name, _, spot)| (name.as_str(), spot)).collect();
    for (_, spot) in names.iter().filter(|(name, _)| name.is_empty() || name.chars().any(char::is_control)) {
        let message = "the header's name is empty or has control characters";
        section.cx.report.problem(spot, message, "write a plain name");
    }
    let event = match envelope {
        Envelope::CloudEvents(event) => Some(event),
        Envelope::Raw | Envelope::Decoded | Envelope::Json => None,
    };
    let needs_headers = event.is_some_and(|event| event.mode == EventMode::Binary);
    let envelope = event.map(|_| section.spot(&to::ENVELOPE));
    let spot = section.spot(&to::HEADERS);
    let headers = RouteHeaders { section, names: &names, spot, envelope, needs_headers };
    target.check_headers(&headers);
    if headers.envelope.is_some() {
        headers.refuse("envelope cloudevents", |name| {
            let name = name.to_ascii_lowercase();
            name.starts_with("ce_") || name == "content-type"
        });
    }
}
