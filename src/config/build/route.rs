//! One destination of a queue: the route's own keys first, then those of its sink.

use redisson_codecs::Coding;

use super::place::{At, Place};
use super::sink::{self, Sink};
use crate::config::keys::to;
use crate::config::model::{Envelope, RouteSpec, TargetSpec};
use crate::config::problem::Spot;
use crate::config::reader::Section;
use crate::message::AmqpProperty;
use crate::route::{Template, fit};

/// A route as it was read.
pub(super) struct Route {
    pub(super) sink: String,
    pub(super) sink_spot: Spot,
    /// The route and where its destination stands; absent when a problem keeps it from being built.
    pub(super) spec: Option<(RouteSpec, Spot)>,
}

/// Fields of a stream entry that headers must not hide.
const STREAM_FIELDS: [&str; 5] = ["payload", "id", "queue", "due_ms", "attempt"];

/// Reads the item `at.section`; `None` when it names no sink at all.
pub(super) fn read(at: &At<'_, '_>, sinks: &[Sink<'_>]) -> Option<Route> {
    let section = at.section;
    let own = Place::read(at);
    let headers = section.headers(&to::HEADERS);
    let envelope = envelope(section, at.codec);
    for (_, template, spot) in &headers {
        at.fits(template, spot);
    }

    let name = section.text(&to::SINK)?;
    let sink = sink::find(section, sinks, &name)?;
    let route = Route { sink: name.value, sink_spot: name.spot, spec: None };
    let Some(spec) = &sink.spec else { return Some(route) };
    let Some((target, spot)) = own.target(at, sink, spec, &route.sink_spot) else { return Some(route) };
    check_headers(section, &headers, &target, envelope);
    let headers = headers.into_iter().map(|(name, template, _)| (name.into(), template)).collect();
    let spec = RouteSpec { sink: route.sink.as_str().into(), target, headers, envelope };
    Some(Route { spec: Some((spec, spot)), ..route })
}

fn envelope(section: &Section<'_>, codec: Coding) -> Envelope {
    let envelopes = [
        ("raw", Envelope::Raw),
        ("decoded", Envelope::Decoded),
        ("json", Envelope::Json),
        ("cloudevents", Envelope::CloudEvents),
    ];
    let envelope = section.word(&to::ENVELOPE, &envelopes).unwrap_or(Envelope::Raw);
    if envelope == Envelope::Decoded && codec.is_raw() {
        let message = "codec raw decodes nothing that envelope decoded could send";
        let help = "name the codec, or write `envelope: raw`";
        section.cx.report.problem(&section.spot(&to::ENVELOPE), message, help);
    }
    envelope
}

fn check_headers(section: &Section<'_>, headers: &[(String, Template, Spot)], target: &TargetSpec, envelope: Envelope) {
    let report = &section.cx.report;
    if let TargetSpec::RedisList { .. } = target {
        let message = "a list holds bare payloads, without headers";
        if !headers.is_empty() {
            report.problem(&section.spot(&to::HEADERS), message, "use a stream, or `envelope: json`");
        }
        if envelope == Envelope::CloudEvents {
            report.problem(&section.spot(&to::ENVELOPE), message, "use a stream, or `envelope: json`");
        }
    }
    if let (TargetSpec::AmqpExchange { properties, .. }, Envelope::CloudEvents) = (target, envelope)
        && properties.iter().any(|(property, _)| *property == AmqpProperty::ContentType)
    {
        let message = "envelope cloudevents has `content_type` already";
        report.problem(&section.spot(&to::PROPERTIES), message, "remove it: the codec says what the payload is");
    }
    for (name, _, spot) in headers {
        if name.is_empty() || name.chars().any(char::is_control) {
            report.problem(spot, "the header's name is empty or has control characters", "write a plain name");
        }
        if matches!(target, TargetSpec::AmqpExchange { .. }) && fit::amqp_text(name).is_some() {
            report.problem(spot, "the header's name is longer than 255 bytes", "AMQP cannot carry more");
        }
        if let Some(owner) = taken(name, target, envelope) {
            report.problem(spot, format!("{owner} has `{name}` already"), "choose another name for the header");
        }
    }
}

/// Who has the name already, if somebody has.
fn taken(name: &str, target: &TargetSpec, envelope: Envelope) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    match target {
        TargetSpec::RedisStream { .. } if STREAM_FIELDS.contains(&name) => return Some("every stream entry"),
        TargetSpec::KafkaTopic { .. } if lower.starts_with("delaybridge-") => return Some("every record"),
        TargetSpec::AmqpExchange { .. } if lower.starts_with("delaybridge-") => return Some("every message"),
        _ => {}
    }
    let ours = lower.starts_with("ce_") || lower == "content-type";
    (envelope == Envelope::CloudEvents && ours).then_some("envelope cloudevents")
}
