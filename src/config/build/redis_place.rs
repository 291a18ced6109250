//! Lists and streams as destinations.

use super::keyspace::{hashed, tagged};
use super::place::At;
use super::sink::Sink;
use crate::config::keys::{Key, to};
use crate::config::model::{SinkKind, SinkSpec, TargetSpec};
use crate::config::problem::Spot;
use crate::config::reader::Section;
use crate::message::Side;
use crate::route::Template;

/// The destination keys of a Redis sink; absent is what was not written.
#[derive(Default)]
pub(super) struct RedisPlace {
    list: Option<(Template, Spot)>,
    stream: Option<(Template, Spot)>,
    push: Option<(Side, Spot)>,
    /// `Some((None, _))` is the word `none`.
    max_len: Option<(Option<u64>, Spot)>,
    exactly_once: Option<(bool, Spot)>,
    /// Whether a list or a stream was written, be it one that cannot be read.
    written: bool,
}

impl RedisPlace {
    /// Reads the keys of a sink or a route. `stream` is absent where that name means something else.
    pub(super) fn read(section: &Section<'_>, stream: Option<&'static Key>) -> RedisPlace {
        let sides = [("right", Side::Right), ("left", Side::Left)];
        let side = section.word(&to::PUSH, &sides).filter(|_| section.has(&to::PUSH));
        let exactly_once = section.flag(&to::EXACTLY_ONCE).filter(|_| section.has(&to::EXACTLY_ONCE));
        let place = RedisPlace {
            list: section.template(&to::LIST).map(|key| (key, section.spot(&to::LIST))),
            stream: stream.and_then(|stream| section.template(stream).map(|key| (key, section.spot(stream)))),
            push: side.map(|side| (side, section.spot(&to::PUSH))),
            max_len: section.has(&to::MAX_LEN).then(|| (section.count(&to::MAX_LEN), section.spot(&to::MAX_LEN))),
            exactly_once: exactly_once.map(|flag| (flag, section.spot(&to::EXACTLY_ONCE))),
            written: section.has(&to::LIST) || stream.is_some_and(|stream| section.has(stream)),
        };
        if let (true, Some(stream)) = (section.has(&to::LIST), stream.filter(|stream| section.has(stream))) {
            let help = "an element goes to one of them; for both, use two sinks";
            section.cx.report.problem(&section.spot(stream), "there is both `list` and `stream`", help);
        }
        place
    }

    /// The target, from these keys of the route and those of its sink.
    pub(super) fn target(&self, at: &At<'_, '_>, sink: &Sink<'_>, spec: &SinkSpec) -> Option<(TargetSpec, Spot)> {
        let report = &at.section.cx.report;
        let sinks = &sink.place.redis;
        // A list or stream under `to:` replaces both of the sink's.
        let place = if self.written { self } else { sinks };
        if !place.written {
            let message = format!("no destination: sink `{}` names no list or stream", sink.name);
            let help = match at.dead {
                true => "write `list: KEY` here, or `list: KEY` or `stream: KEY` on the sink",
                false => "write `list: KEY` or `stream: KEY` here or on the sink",
            };
            report.problem(&at.section.spot, message, help);
        }
        let push = self.push.as_ref().or(sinks.push.as_ref());
        let max_len = self.max_len.as_ref().or(sinks.max_len.as_ref());
        let exactly_once = self.exactly_once.as_ref().or(sinks.exactly_once.as_ref());
        // What stands on the sink as a default for many routes does not disturb a route of the other kind.
        let disturbs = |spot: &Spot, on_sink: bool, other: &str| {
            if !on_sink || !self.written {
                let name = spot.path.rsplit('.').next().unwrap_or_default();
                report.problem(spot, format!("`{name}` means nothing to a {other}"), "remove it");
            }
        };
        match (&place.list, &place.stream) {
            (Some((key, spot)), None) => {
                at.fits(key, spot);
                check_key(at, key, spot);
                if let Some((_, spot)) = max_len {
                    disturbs(spot, self.max_len.is_none(), "list");
                }
                let exactly_once = exactly_once.filter(|(asked, _)| *asked);
                if let Some((_, spot)) = exactly_once {
                    exactly_once_works(at, spot, key, spec);
                }
                let push = push.map_or(Side::Right, |(side, _)| *side);
                let target = TargetSpec::RedisList { key: key.clone(), push, exactly_once: exactly_once.is_some() };
                Some((target, spot.clone()))
            }
            (None, Some((key, spot))) => {
                at.fits(key, spot);
                check_key(at, key, spot);
                if let Some((_, spot)) = push {
                    disturbs(spot, self.push.is_none(), "stream");
                }
                if let Some((true, spot)) = exactly_once {
                    disturbs(spot, self.exactly_once.is_none(), "stream");
                }
                let max_len = max_len.and_then(|(max_len, _)| *max_len);
                Some((TargetSpec::RedisStream { key: key.clone(), max_len }, spot.clone()))
            }
            // Both, or one that cannot be read: reported where it was read.
            _ => None,
        }
    }
}

fn check_key(at: &At<'_, '_>, key: &Template, spot: &Spot) {
    if key.static_text() == Some("") {
        at.section.cx.report.problem(spot, "the key is empty", "write the name of a list or stream");
    }
}

fn exactly_once_works(at: &At<'_, '_>, spot: &Spot, key: &Template, sink: &SinkSpec) {
    let refuse = |message: &str, help: String| at.section.cx.report.problem(spot, message, help);
    if at.dead {
        let help = "name a sink without it; a dead letter may come twice".to_owned();
        return refuse("exactly_once is for elements, and dead letters go to this sink", help);
    }
    if matches!(&sink.kind, SinkKind::Redis { endpoint: Some(_) }) {
        let help = "remove `url` from the sink, so that it uses the Redis that holds the queues".to_owned();
        refuse("exactly_once needs the Redis that holds the queues, over the same connection", help);
    }
    if !at.alone {
        let help = "leave the other destinations out, or let `exactly_once` be false".to_owned();
        refuse("exactly_once needs a queue with this destination only", help);
    }
    let tagged = tagged(at.queue_name);
    let tag = hashed(&tagged);
    match key.static_text() {
        None => refuse("exactly_once needs a fixed key", "write the list's key without `${...}`".to_owned()),
        Some(key) if !at.queue_name.is_empty() && hashed(key) != tag => {
            let help = format!("write the queue's hash tag into the key, as in `{{{tag}}}:ready`");
            refuse("exactly_once needs a list in the queue's hash slot", help);
        }
        Some(_) => {}
    }
}
