//! One destination of a queue: the route's own keys first, then those of its sink.

use std::sync::Arc;

use redisson_codecs::JavaTypes;

use super::destination::DestinationDraft;
use super::sink::{self, SinkDraft};
use super::when;
use crate::tables::{EventKeys, FilterKeys, RouteKeys, cloud_events, to};
use crate::words::Envelopes;
use delaybridge_core::template::Template;
use delaybridge_model::{
    Duplicates, EVENT_SOURCE, EVENT_TYPE, Envelope, EventData, EventMode, EventSpec, HeaderFilter, MessageSpec,
    RouteRules, RouteSpec,
};
use delaybridge_settings::keys::Key;
use delaybridge_settings::problem::Spot;
use delaybridge_settings::reader::{Scalar, Section};
use delaybridge_settings::{Settings, defaults};
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
    let keys = RouteKeys::of(section);
    let RouteKeys { sink, when, duplicates, headers, headers_from_message, .. } = keys;
    let envelope = envelope(at, keys.envelope, keys.cloudevents);
    let when = when.and_then(|text| when::read(at, &text));
    let filter = headers_from_message.map(|keys| header_filter(section, keys));
    for (_, template, spot) in &headers {
        at.fits(template, spot);
    }
    let named = sink.and_then(|name| Some((sink::find(section, sinks, &name)?, name)));
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
fn header_filter(section: &Section<'_>, keys: FilterKeys) -> (HeaderFilter, Vec<Scalar>) {
    let FilterKeys { place, keep, drop } = keys;
    if keep.is_none() && drop.is_none() {
        let message = "`headers_from_message` has neither `keep` nor `drop`";
        section.cx.report.problem(&place, message, "write `drop: [x-internal-*]`, or remove it");
    }
    let spelled = |patterns: &[Scalar]| patterns.iter().map(|pattern| pattern.value.to_ascii_lowercase()).collect();
    let filter = HeaderFilter { keep: keep.as_deref().map(spelled), drop: spelled(&drop.unwrap_or_default()) };
    (filter, keep.unwrap_or_default())
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

fn envelope(at: &DestinationDraft<'_, '_>, envelope: Envelopes, keys: Option<EventKeys>) -> Envelope {
    let section = at.section;
    let codec = at.codec;
    let report = &section.cx.report;
    if section.has(&to::CLOUDEVENTS) && envelope != Envelopes::CloudEvents {
        let message = "`cloudevents` has no effect without `envelope: cloudevents`";
        report.problem(&section.spot(&to::CLOUDEVENTS), message, "write `envelope: cloudevents`, or remove it");
    }
    // The mistakes of one without effect are reported too.
    let event = keys.map(|keys| event(at, keys));
    let envelope = match envelope {
        Envelopes::Raw => Envelope::Raw,
        Envelopes::Decoded => Envelope::Decoded,
        Envelopes::Json => Envelope::Json,
        Envelopes::CloudEvents => Envelope::CloudEvents(Arc::new(event.unwrap_or_else(|| self::event(at, defaults())))),
    };
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
fn event(at: &DestinationDraft<'_, '_>, keys: EventKeys) -> EventSpec {
    let report = &at.section.cx.report;
    let EventKeys { mode, data, kind, source, subject } = keys;
    if let (EventMode::Structured, Some((EventData::Raw, spot))) = (mode, &data) {
        let message = "the data of a structured event is a part of its JSON, and no bytes";
        report.problem(spot, message, "write `data: decoded`, or `mode: binary`");
    }
    // Of decoded values only can the types be gone, and only they are what is in a text.
    let is_changed = at.codec.java_types == JavaTypes::Strip || at.codec.json_in_text;
    let data = data.map(|(data, _)| data).unwrap_or(match mode {
        EventMode::Binary if !is_changed => EventData::Raw,
        EventMode::Binary | EventMode::Structured => EventData::Decoded,
    });
    for (template, spot) in kind.iter().chain(&source).chain(&subject) {
        at.fits(template, spot);
    }
    let needed = |key: &Key, written: Option<(Template, Spot)>, default: &str| {
        let Some((template, spot)) = written else {
            return Template::compile(default).expect("the text is a template");
        };
        if template.static_text() == Some("") {
            let message = format!("an event has no empty `{}`", key.name);
            report.problem(&spot, message, "write a text, or remove it");
        }
        template
    };
    EventSpec {
        mode,
        data,
        kind: needed(&cloud_events::TYPE, kind, EVENT_TYPE),
        source: needed(&cloud_events::SOURCE, source, EVENT_SOURCE),
        subject: subject.map(|(template, _)| template),
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
