//! One destination of a queue: the route's own keys first, then those of its sink.

use super::keyspace::{hashed, tagged};
use super::sink::{Destination, Sink};
use crate::config::keys::{nearest, to};
use crate::config::model::{Codec, Envelope, RouteSpec, SinkKind, SinkSpec, TargetSpec};
use crate::config::problem::Spot;
use crate::config::reader::{Section, clip};
use crate::message::Side;
use crate::route::Template;

/// A route as it was read.
pub(super) struct Route {
    pub(super) sink: String,
    pub(super) sink_spot: Spot,
    /// The route and where its destination stands; absent when a problem keeps it from being built.
    pub(super) spec: Option<(RouteSpec, Spot)>,
}

/// Fields of a stream entry that headers must not hide.
const STREAM_FIELDS: [&str; 5] = ["payload", "id", "queue", "due_ms", "attempt"];

/// Reads the item `section`; `None` when it names no sink at all. `alone`: it is the queue's only one.
pub(super) fn read(
    section: &Section<'_>,
    sinks: &[Sink<'_>],
    codec: Codec,
    queue_name: &str,
    alone: bool,
) -> Option<Route> {
    let report = &section.cx.report;
    let own = Destination::read(section, [&to::LIST, &to::STREAM, &to::PUSH, &to::MAX_LEN, &to::EXACTLY_ONCE]);
    let headers = section.headers(&to::HEADERS);
    let envelopes = [("raw", Envelope::Raw), ("decoded", Envelope::Decoded), ("json", Envelope::Json)];
    let envelope = section.word(&to::ENVELOPE, &envelopes).unwrap_or(Envelope::Raw);
    if envelope == Envelope::Decoded && codec == Codec::Raw {
        let help = "name the codec, or write `envelope: raw`";
        report.problem(
            &section.spot(&to::ENVELOPE),
            "codec raw decodes nothing that envelope decoded could send",
            help,
        );
    }
    for (_, template, spot) in &headers {
        payload_fits(section, template, codec, spot);
    }

    let name = section.text(&to::SINK)?;
    let Some(sink) = sinks.iter().find(|sink| sink.name == name.value) else {
        let help = match nearest(&name.value, sinks.iter().map(|sink| sink.name.as_str())) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if sinks.is_empty() => "write it under `sinks:`".to_owned(),
            None => {
                format!("sinks are: {}", sinks.iter().map(|sink| sink.name.as_str()).collect::<Vec<_>>().join(", "))
            }
        };
        report.problem(&name.spot, format!("there is no sink `{}`", clip(&name.written)), help);
        return None;
    };
    let route = Route { sink: name.value, sink_spot: name.spot, spec: None };
    let Some(spec) = &sink.spec else { return Some(route) };
    let target = match &spec.kind {
        SinkKind::Redis { .. } => redis(section, own, sink, spec, codec, queue_name, alone),
        SinkKind::Stdout => stdout(section, &route.sink_spot),
        SinkKind::Kafka(_) | SinkKind::Amqp(_) => None,
    };
    let Some((target, spot)) = target else { return Some(route) };
    check_headers(section, &headers, &target);
    let headers = headers.into_iter().map(|(name, template, _)| (name.into(), template)).collect();
    let spec = RouteSpec { sink: route.sink.as_str().into(), target, headers, envelope };
    Some(Route { spec: Some((spec, spot)), ..route })
}

fn stdout(section: &Section<'_>, spot: &Spot) -> Option<(TargetSpec, Spot)> {
    for key in [&to::LIST, &to::STREAM, &to::PUSH, &to::MAX_LEN, &to::EXACTLY_ONCE] {
        if section.has(key) {
            let message = format!("`{}` means nothing to a sink of kind stdout", key.name);
            section.cx.report.problem(&section.spot(key), message, "remove it, or name a redis sink");
        }
    }
    Some((TargetSpec::Stdout, spot.clone()))
}

fn redis(
    section: &Section<'_>,
    own: Destination,
    sink: &Sink<'_>,
    spec: &SinkSpec,
    codec: Codec,
    queue_name: &str,
    alone: bool,
) -> Option<(TargetSpec, Spot)> {
    let report = &section.cx.report;
    let (own_keys, sinks_keys) = (&own, &sink.destination);
    // A list or stream under `to:` replaces both of the sink's.
    let place = if own.written { own_keys } else { sinks_keys };
    if !place.written {
        let help = "write `list: KEY` or `stream: KEY` here or on the sink";
        report.problem(&section.spot, format!("no destination: sink `{}` names no list or stream", sink.name), help);
    }
    let push = own.push.as_ref().or(sinks_keys.push.as_ref());
    let max_len = own.max_len.as_ref().or(sinks_keys.max_len.as_ref());
    let exactly_once = own.exactly_once.as_ref().or(sinks_keys.exactly_once.as_ref());
    // What stands on the sink as a default for many routes does not disturb a route of the other kind.
    let disturbs = |written: bool, spot: &Spot, on_sink: bool, other: &str| {
        if written && (!on_sink || !own.written) {
            let message = format!("`{}` means nothing to a {other}", spot.path.rsplit('.').next().unwrap_or_default());
            report.problem(spot, message, "remove it");
        }
    };
    match (&place.list, &place.stream) {
        (Some((key, spot)), None) => {
            payload_fits(section, key, codec, spot);
            check_key(section, key, spot);
            if let Some((_, spot)) = max_len {
                disturbs(true, spot, own.max_len.is_none(), "list");
            }
            let exactly_once = exactly_once.filter(|(asked, _)| *asked);
            if let Some((_, spot)) = exactly_once {
                exactly_once_works(section, spot, key, spec, queue_name, alone);
            }
            let target = TargetSpec::RedisList {
                key: key.clone(),
                push: push.map_or(Side::Right, |(side, _)| *side),
                exactly_once: exactly_once.is_some(),
            };
            Some((target, spot.clone()))
        }
        (None, Some((key, spot))) => {
            payload_fits(section, key, codec, spot);
            check_key(section, key, spot);
            if let Some((_, spot)) = push {
                disturbs(true, spot, own.push.is_none(), "stream");
            }
            if let Some((asked, spot)) = exactly_once {
                disturbs(*asked, spot, own.exactly_once.is_none(), "stream");
            }
            let max_len = max_len.and_then(|(max_len, _)| *max_len);
            Some((TargetSpec::RedisStream { key: key.clone(), max_len }, spot.clone()))
        }
        // Both, or one that cannot be read: reported where it was read.
        _ => None,
    }
}

fn check_key(section: &Section<'_>, key: &Template, spot: &Spot) {
    if key.static_text() == Some("") {
        section.cx.report.problem(spot, "the key is empty", "write the name of a list or stream");
    }
}

/// A template on the payload needs a codec that can answer it; with codec `raw` it would be a dead letter for every
/// element, or always the default.
fn payload_fits(section: &Section<'_>, template: &Template, codec: Codec, spot: &Spot) {
    let message = match codec {
        Codec::Json => return,
        Codec::String if !template.uses_payload_path() => return,
        Codec::Raw if !template.uses_payload() => return,
        Codec::String => "the template asks for a field of the payload, and codec string reads plain text",
        Codec::Raw => "the template asks for the payload, and codec raw does not look into it",
    };
    let help = match template.uses_payload_path() {
        true => "write `codec: json`",
        false => "write `codec: string` or `codec: json`",
    };
    section.cx.report.problem(spot, message, help);
}

fn exactly_once_works(
    section: &Section<'_>,
    spot: &Spot,
    key: &Template,
    sink: &SinkSpec,
    queue_name: &str,
    alone: bool,
) {
    let refuse = |message: &str, help: String| section.cx.report.problem(spot, message, help);
    if matches!(&sink.kind, SinkKind::Redis { endpoint: Some(_) }) {
        let help = "remove `url` from the sink, so that it uses the Redis that holds the queues".to_owned();
        refuse("exactly_once needs the Redis that holds the queues, over the same connection", help);
    }
    if !alone {
        let help = "leave the other destinations out, or let `exactly_once` be false".to_owned();
        refuse("exactly_once needs a queue with this destination only", help);
    }
    let tagged = tagged(queue_name);
    let tag = hashed(&tagged);
    match key.static_text() {
        None => refuse("exactly_once needs a fixed key", "write the list's key without `${...}`".to_owned()),
        Some(key) if !queue_name.is_empty() && hashed(key) != tag => {
            let help = format!("write the queue's hash tag into the key, as in `{{{tag}}}:ready`");
            refuse("exactly_once needs a list in the queue's hash slot", help);
        }
        Some(_) => {}
    }
}

fn check_headers(section: &Section<'_>, headers: &[(String, Template, Spot)], target: &TargetSpec) {
    let report = &section.cx.report;
    if let (TargetSpec::RedisList { .. }, false) = (target, headers.is_empty()) {
        let help = "use a stream, or `envelope: json`";
        report.problem(&section.spot(&to::HEADERS), "a list holds bare payloads, without headers", help);
    }
    for (name, _, spot) in headers {
        if name.is_empty() || name.chars().any(char::is_control) {
            report.problem(spot, "the header's name is empty or has control characters", "write a plain name");
        }
        if matches!(target, TargetSpec::RedisStream { .. }) && STREAM_FIELDS.contains(&name.as_str()) {
            let message = format!("every stream entry has a field `{name}` already");
            report.problem(spot, message, "choose another name for the header");
        }
    }
}
