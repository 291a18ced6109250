//! One destination of a queue: the route's own keys first, then those of its sink.

use redisson_codecs::Coding;

use super::destination::Destination;
use super::sink::{self, Sink};
use crate::config::model::RouteSpec;
use crate::config::tables::to;
use crate::route::{Envelope, MessageSpec};
use crate::settings::problem::Spot;
use crate::settings::reader::Section;
use crate::sink::{RouteHeaders, Target};
use crate::template::Template;

/// A route as it was read.
pub(super) struct Route {
    pub(super) sink: String,
    pub(super) sink_spot: Spot,
    /// The route and where its destination is written; absent when a problem keeps it from being built.
    pub(super) spec: Option<(RouteSpec, Spot)>,
}

/// Reads the item `at.section`; `None` when it names no sink at all.
pub(super) fn read(at: &Destination<'_, '_>, sinks: &[Sink<'_>]) -> Option<Route> {
    let section = at.section;
    let headers = section.headers(&to::HEADERS);
    let envelope = envelope(section, at.codec);
    for (_, template, spot) in &headers {
        at.fits(template, spot);
    }
    let named = section.text(&to::SINK).and_then(|name| Some((sink::find(section, sinks, &name)?, name)));
    let Some((sink, name)) = named else {
        at.pass_over();
        return None;
    };
    let route = Route { sink: name.value, sink_spot: name.spot, spec: None };
    let Some((target, spot)) = at.read(sink, &route.sink_spot) else { return Some(route) };
    check_headers(section, &headers, &*target, envelope);
    let headers = headers.into_iter().map(|(name, template, _)| (name.into(), template)).collect();
    // Its name is there once, for ten thousand queues too.
    let name = sink.known.as_ref().map_or_else(|| route.sink.as_str().into(), |known| known.spec.name.clone());
    let spec = RouteSpec { sink: name, target, message: MessageSpec { headers, envelope } };
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

fn check_headers(section: &Section<'_>, headers: &[(String, Template, Spot)], target: &dyn Target, envelope: Envelope) {
    let names: Vec<_> = headers.iter().map(|(name, _, spot)| (name.as_str(), spot)).collect();
    for (_, spot) in names.iter().filter(|(name, _)| name.is_empty() || name.chars().any(char::is_control)) {
        let message = "the header's name is empty or has control characters";
        section.cx.report.problem(spot, message, "write a plain name");
    }
    let events = (envelope == Envelope::CloudEvents).then(|| section.spot(&to::ENVELOPE));
    let headers = RouteHeaders { section, names: &names, spot: section.spot(&to::HEADERS), envelope: events };
    target.check_headers(&headers);
    if headers.envelope.is_some() {
        headers.refuse("envelope cloudevents", |name| {
            let name = name.to_ascii_lowercase();
            name.starts_with("ce_") || name == "content-type"
        });
    }
}
