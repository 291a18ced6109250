//! Named sinks, with the destinations that stand on them.

use std::sync::Arc;
use std::time::Duration;

use super::amqp_place::AmqpPlace;
use super::kafka::{self, KafkaPlace};
use super::place::Place;
use super::queue::Queue;
use super::redis_place::RedisPlace;
use super::{amqp, redis};
use crate::config::keys::{Key, nearest, sink, sink_amqp, sink_kafka, sink_redis, sink_stdout, to, top};
use crate::config::model::{SinkKind, SinkSpec};
use crate::config::problem::{Report, Spot};
use crate::config::reader::{Scalar, Section, clip};

/// A sink and where it stands.
pub(super) struct Sink<'a> {
    pub(super) name: String,
    pub(super) spot: Spot,
    pub(super) report: &'a Report,
    /// `None` when its kind could not be told; the problem is reported.
    pub(super) spec: Option<Arc<SinkSpec>>,
    /// Where the time-out stands, if the user left it to the leases.
    pub(super) auto_timeout: Option<Spot>,
    /// The destination keys that stand on it, for every queue that names none of its own.
    pub(super) place: Place,
}

impl Sink<'_> {
    /// Whether a queue delivers to it.
    pub(super) fn used(&self, queues: &[Queue<'_>]) -> bool {
        queues.iter().any(|queue| queue.uses(&self.name))
    }
}

/// The sink of this name; if there is none, that is reported.
pub(super) fn find<'a, 's>(section: &Section<'_>, sinks: &'a [Sink<'s>], name: &Scalar) -> Option<&'a Sink<'s>> {
    let found = sinks.iter().find(|sink| sink.name == name.value);
    if found.is_none() {
        let names = || sinks.iter().map(|sink| sink.name.as_str());
        let help = match nearest(&name.value, names()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if sinks.is_empty() => "write it under `sinks:`".to_owned(),
            None => format!("sinks are: {}", names().collect::<Vec<_>>().join(", ")),
        };
        section.cx.report.problem(&name.spot, format!("there is no sink `{}`", clip(&name.written)), help);
    }
    found
}

/// All sinks, in the order of the file.
pub(super) fn sinks<'a>(top: &Section<'a>) -> Vec<Sink<'a>> {
    top.named(&top::SINKS).into_iter().map(|(name, section)| one(name, &section)).collect()
}

/// What is read of one kind.
struct Kind {
    kind: SinkKind,
    /// `None` is `auto`.
    timeout: Option<Duration>,
    timeout_spot: Spot,
    max_rate: Option<f64>,
    place: Place,
}

fn one<'a>(name: String, section: &Section<'a>) -> Sink<'a> {
    let (spot, report) = (section.spot.clone(), &section.cx.report);
    let written = section.written();
    if written.len() > 1 {
        let message = format!("a sink has one kind, and this one has {}", written.len());
        report.problem(&spot, message, format!("keep one of: {}", written.join(", ")));
    }
    if written.is_empty() && section.empty {
        let help = "write `kafka:`, `amqp:`, `redis:` or `stdout: {}`";
        report.problem(&spot, "the sink has no kind", help);
    }
    // All are read, so that the problems of all are told.
    let kinds = [
        section.opt_section(&sink::REDIS).map(|section| redis(&section)),
        section.opt_section(&sink::STDOUT).map(|section| stdout(&section)),
        section.opt_section(&sink::KAFKA).map(|section| kafka(&section)),
        section.opt_section(&sink::AMQP).map(|section| amqp(&section)),
    ];
    not_built(section, &sink::KAFKA, "Kafka", cfg!(feature = "kafka"));
    not_built(section, &sink::AMQP, "AMQP", cfg!(feature = "amqp"));
    let Some(Kind { kind, timeout, timeout_spot, max_rate, place }) = kinds.into_iter().flatten().next() else {
        return Sink { name, spot, report, spec: None, auto_timeout: None, place: Place::default() };
    };
    let auto_timeout = timeout.is_none().then_some(timeout_spot);
    let spec = SinkSpec { name: name.as_str().into(), kind, timeout: timeout.unwrap_or_default(), max_rate };
    Sink { name, spot, report, spec: Some(Arc::new(spec)), auto_timeout, place }
}

/// A kind whose client was left out of the binary.
fn not_built(section: &Section<'_>, key: &Key, what: &str, built: bool) {
    if section.has(key) && !built {
        let message = format!("this binary was built without {what}");
        let help = format!("use one that was built with the feature `{}`, which is on by default", key.name);
        section.cx.report.problem(&section.spot(key), message, help);
    }
}

fn stdout(section: &Section<'_>) -> Kind {
    Kind {
        kind: SinkKind::Stdout,
        timeout: Some(section.duration(&sink_stdout::TIMEOUT)),
        timeout_spot: section.spot(&sink_stdout::TIMEOUT),
        max_rate: section.rate(&sink_stdout::MAX_RATE),
        place: Place::default(),
    }
}

fn kafka(section: &Section<'_>) -> Kind {
    Kind {
        kind: SinkKind::Kafka(Arc::new(kafka::spec(section))),
        timeout: section.duration_or_auto(&sink_kafka::TIMEOUT),
        timeout_spot: section.spot(&sink_kafka::TIMEOUT),
        max_rate: section.rate(&sink_kafka::MAX_RATE),
        place: Place { kafka: KafkaPlace::read(section), ..Place::default() },
    }
}

fn amqp(section: &Section<'_>) -> Kind {
    let place = AmqpPlace::read(section);
    Kind {
        kind: SinkKind::Amqp(Arc::new(amqp::spec(section, &place))),
        timeout: Some(section.duration(&sink_amqp::TIMEOUT)),
        timeout_spot: section.spot(&sink_amqp::TIMEOUT),
        max_rate: section.rate(&sink_amqp::MAX_RATE),
        place: Place { amqp: place, ..Place::default() },
    }
}

fn redis(section: &Section<'_>) -> Kind {
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
    Kind {
        kind: SinkKind::Redis { endpoint },
        timeout: Some(section.duration(&sink_redis::TIMEOUT)),
        timeout_spot: section.spot(&sink_redis::TIMEOUT),
        max_rate: section.rate(&sink_redis::MAX_RATE),
        place: Place { redis: RedisPlace::read(section, Some(&to::STREAM)), ..Place::default() },
    }
}
