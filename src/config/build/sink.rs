//! Named sinks, with the destinations that stand on them.

use std::sync::Arc;
use std::time::Duration;

use super::queue::Queue;
use super::redis;
use crate::config::keys::{sink, sink_redis, sink_stdout, top};
use crate::config::model::{SinkKind, SinkSpec};
use crate::config::problem::{Report, Spot};
use crate::config::reader::Section;
use crate::message::Side;
use crate::route::Template;

/// A sink and where it stands.
pub(super) struct Sink<'a> {
    pub(super) name: String,
    pub(super) spot: Spot,
    pub(super) report: &'a Report,
    /// `None` when its kind could not be told; the problem is reported.
    pub(super) spec: Option<Arc<SinkSpec>>,
    pub(super) destination: Destination,
}

/// The destination keys of a Redis sink, on the sink or under `to:`; absent is what was not written.
#[derive(Default)]
pub(super) struct Destination {
    pub(super) list: Option<(Template, Spot)>,
    pub(super) stream: Option<(Template, Spot)>,
    pub(super) push: Option<(Side, Spot)>,
    /// `Some((None, _))` is the word `none`.
    pub(super) max_len: Option<(Option<u64>, Spot)>,
    pub(super) exactly_once: Option<(bool, Spot)>,
    /// Whether a list or a stream was written, be it one that cannot be read.
    pub(super) written: bool,
}

impl Sink<'_> {
    /// Whether a queue delivers to it.
    pub(super) fn used(&self, queues: &[Queue<'_>]) -> bool {
        queues.iter().any(|queue| queue.names.contains(&self.name))
    }
}

/// All sinks, in the order of the file.
pub(super) fn sinks<'a>(top: &Section<'a>) -> Vec<Sink<'a>> {
    let sinks = top.named(&top::SINKS).into_iter();
    sinks
        .map(|(name, section)| {
            let (kind, destination) = kind(&section);
            let spec =
                kind.map(|(kind, timeout, max_rate)| SinkSpec { name: name.as_str().into(), kind, timeout, max_rate });
            let (spot, report) = (section.spot.clone(), &section.cx.report);
            Sink { name, spot, report, spec: spec.map(Arc::new), destination }
        })
        .collect()
}

type Kind = (SinkKind, Duration, Option<f64>);

fn kind(section: &Section<'_>) -> (Option<Kind>, Destination) {
    let redis = section.opt_section(&sink::REDIS);
    let stdout = section.opt_section(&sink::STDOUT);
    let written = section.written();
    if written.len() > 1 {
        let message = format!("a sink has one kind, and this one has {}", written.len());
        section.cx.report.problem(&section.spot, message, format!("keep one of: {}", written.join(", ")));
    }
    if written.is_empty() && section.empty {
        let help = "write `redis: { list: KEY }` or `stdout: {}`";
        section.cx.report.problem(&section.spot, "the sink has no kind", help);
    }
    // Both are read, so that the problems of both are told.
    let stdout = stdout.map(|section| {
        (SinkKind::Stdout, section.duration(&sink_stdout::TIMEOUT), section.rate(&sink_stdout::MAX_RATE))
    });
    match redis.map(|section| self::redis(&section)) {
        Some((kind, destination)) => (Some(kind), destination),
        None => (stdout, Destination::default()),
    }
}

fn redis(section: &Section<'_>) -> (Kind, Destination) {
    let has_url = section.has(&sink_redis::URL);
    let endpoint = redis::endpoint(section);
    let connects = [
        &sink_redis::USERNAME,
        &sink_redis::PASSWORD,
        &sink_redis::PASSWORD_FILE,
        &sink_redis::TLS,
        &sink_redis::CONNECT_TIMEOUT,
        &sink_redis::COMMAND_TIMEOUT,
    ];
    for key in connects.into_iter().filter(|key| !has_url && section.has(key)) {
        let message = format!("`{}` has no effect without `url`", key.name);
        let help = "without `url` the sink uses the Redis that holds the queues, over its settings";
        section.cx.report.problem(&section.spot(key), message, help);
    }
    let kind = SinkKind::Redis { endpoint };
    let destination = Destination::read(
        section,
        [&sink_redis::LIST, &sink_redis::STREAM, &sink_redis::PUSH, &sink_redis::MAX_LEN, &sink_redis::EXACTLY_ONCE],
    );
    let kind = (kind, section.duration(&sink_redis::TIMEOUT), section.rate(&sink_redis::MAX_RATE));
    (kind, destination)
}

impl Destination {
    /// Reads the keys `list`, `stream`, `push`, `max_len`, `exactly_once` of a sink or a route.
    pub(super) fn read(section: &Section<'_>, keys: [&'static crate::config::keys::Key; 5]) -> Destination {
        let [list, stream, push, max_len, exactly_once] = keys;
        let sides = [("right", Side::Right), ("left", Side::Left)];
        let destination = Destination {
            list: section.template(list).map(|list_key| (list_key, section.spot(list))),
            stream: section.template(stream).map(|stream_key| (stream_key, section.spot(stream))),
            push: section.word(push, &sides).filter(|_| section.has(push)).map(|side| (side, section.spot(push))),
            max_len: section.has(max_len).then(|| (section.count(max_len), section.spot(max_len))),
            exactly_once: section
                .flag(exactly_once)
                .filter(|_| section.has(exactly_once))
                .map(|flag| (flag, section.spot(exactly_once))),
            written: section.has(list) || section.has(stream),
        };
        if section.has(list) && section.has(stream) {
            let help = "an element goes to one of them; for both, use two sinks";
            section.cx.report.problem(&section.spot(stream), "there is both `list` and `stream`", help);
        }
        destination
    }
}
