//! Where in a sink elements go: the keys under `to:` and `dead_letter:`, and the same keys as defaults on the sink.

use redisson_codecs::{Coding, Reads};

use super::amqp_place::AmqpPlace;
use super::kafka::KafkaPlace;
use super::redis_place::RedisPlace;
use super::sink::Sink;
use crate::config::keys::{Key, to};
use crate::config::model::{SinkKind, SinkSpec, TargetSpec};
use crate::config::problem::Spot;
use crate::config::reader::Section;
use crate::route::Template;

/// The destination keys of every kind of sink; what was not written is absent.
#[derive(Default)]
pub(super) struct Place {
    pub(super) redis: RedisPlace,
    pub(super) kafka: KafkaPlace,
    pub(super) amqp: AmqpPlace,
}

/// Which kind of sink each destination key belongs to.
const KEYS: [(&str, &[&Key]); 3] = [
    ("redis", &[&to::LIST, &to::STREAM, &to::PUSH, &to::MAX_LEN, &to::EXACTLY_ONCE]),
    ("kafka", &[&to::TOPIC, &to::KEY]),
    ("amqp", &[&to::EXCHANGE, &to::ROUTING_KEY, &to::PROPERTIES]),
];

/// Where a destination is written, and for whom.
pub(super) struct At<'a, 's> {
    pub(super) section: &'a Section<'s>,
    pub(super) codec: Coding,
    /// Mapped name of the Redisson queue.
    pub(super) queue_name: &'a str,
    /// Whether it is the queue's only destination.
    pub(super) alone: bool,
    /// Whether dead letters go there, and not elements.
    pub(super) dead: bool,
}

impl Place {
    /// Reads the keys of all kinds.
    pub(super) fn read(at: &At<'_, '_>) -> Place {
        // Under `dead_letter:` the name `stream` means the stream that the queue keeps.
        let stream = (!at.dead).then_some(&to::STREAM);
        Place {
            redis: RedisPlace::read(at.section, stream),
            kafka: KafkaPlace::read(at.section),
            amqp: AmqpPlace::read(at.section),
        }
    }

    /// The destination that these keys and those of the sink make, and where it stands.
    pub(super) fn target(
        &self,
        at: &At<'_, '_>,
        sink: &Sink<'_>,
        spec: &SinkSpec,
        spot: &Spot,
    ) -> Option<(TargetSpec, Spot)> {
        match &spec.kind {
            SinkKind::Redis { .. } => {
                at.refuse_others("redis");
                self.redis.target(at, sink, spec)
            }
            SinkKind::Kafka(_) => {
                at.refuse_others("kafka");
                self.kafka.target(at, sink)
            }
            SinkKind::Amqp(_) => {
                at.refuse_others("amqp");
                self.amqp.target(at, sink)
            }
            SinkKind::Stdout => {
                at.refuse_others("stdout");
                Some((TargetSpec::Stdout, spot.clone()))
            }
        }
    }
}

impl At<'_, '_> {
    fn refuse_others(&self, own: &str) {
        let others = KEYS.iter().filter(|(kind, _)| *kind != own);
        for (kind, key) in others.flat_map(|(kind, keys)| keys.iter().map(move |key| (kind, key))) {
            let settings = self.dead && key.name == to::STREAM.name;
            if self.section.has(key) && !settings {
                let message = format!("`{}` means nothing to a sink of kind {own}", key.name);
                let help = format!("remove it, or name a sink of kind {kind}");
                self.section.cx.report.problem(&self.section.spot(key), message, help);
            }
        }
    }

    /// A template on the payload needs a codec that can answer it; with codec `raw` it would be a dead letter for every
    /// element, or always the default.
    pub(super) fn fits(&self, template: &Template, spot: &Spot) {
        if self.dead {
            return self.fits_dead(template, spot);
        }
        let reads = self.codec.codec.reads();
        let message = match reads {
            Reads::Nothing if template.uses_payload() => {
                format!("the template asks for the payload, and codec {} does not look into it", self.codec)
            }
            Reads::Scalars if template.uses_payload_path() => {
                format!("the template asks for a field of the payload, and codec {} reads no fields", self.codec)
            }
            Reads::Nothing | Reads::Scalars | Reads::Structures => return,
        };
        let help = match template.uses_payload_path() {
            true => "write the codec of your producers, as `codec: json`",
            false => "write the codec of your producers, as `codec: string` or `codec: json`",
        };
        self.section.cx.report.problem(spot, message, help);
    }

    /// A dead letter may be one because nobody can read it, and nothing may keep it from being moved on.
    fn fits_dead(&self, template: &Template, spot: &Spot) {
        if template.needs_due() {
            let message = "the template asks for the due time, which elements of the ready list lack";
            self.section.cx.report.problem(spot, message, "write a default, as in `${due_ms:-0}`");
        }
        if template.uses_payload() {
            let message = "the template asks for the payload, and that of a dead letter may be unreadable";
            let key = spot.path.rsplit('.').next().unwrap_or_default();
            let help = format!("write a `{key}` under `dead_letter:` with id, queue, due_ms or attempt at most");
            self.section.cx.report.problem(spot, message, help);
        }
    }
}
