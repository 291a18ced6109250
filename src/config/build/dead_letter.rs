//! Dead letters: the stream that keeps them, and the sink that they are moved on to.

use redisson_codecs::Codec;

use super::place::{At, Place};
use super::sink::{self, Sink};
use crate::config::keys::{dead_letter, dead_stream, queue, to};
use crate::config::model::{Envelope, RouteSpec};
use crate::config::problem::Spot;
use crate::config::reader::Section;

/// What is read under `dead_letter:`.
#[derive(Default)]
pub(super) struct DeadLetters {
    pub(super) max_len: Option<u64>,
    /// The sink that was named, its route with problems or not.
    pub(super) sink: Option<String>,
    /// The route, and where its destination stands.
    pub(super) to: Option<(RouteSpec, Spot)>,
}

/// Reads the part of the queue `section`.
pub(super) fn read(section: &Section<'_>, sinks: &[Sink<'_>], queue_name: &str) -> DeadLetters {
    let Some(section) = section.opt_section(&queue::DEAD_LETTER) else { return DeadLetters::default() };
    let max_len = stream(&section);
    // A dead letter is its bytes, whatever the codec made of them.
    let at = At { section: &section, codec: Codec::Raw.into(), queue_name, alone: false, dead: true };
    let own = Place::read(&at);
    let Some(name) = section.text(&dead_letter::SINK) else {
        for key in [&to::TOPIC, &to::KEY, &to::EXCHANGE, &to::ROUTING_KEY, &to::LIST] {
            if section.has(key) && !section.has(&dead_letter::SINK) {
                let message = format!("`{}` has no effect without `sink`", key.name);
                section.cx.report.problem(&section.spot(key), message, "write `sink: NAME`");
            }
        }
        return DeadLetters { max_len, ..DeadLetters::default() };
    };
    let sink = sink::find(&section, sinks, &name);
    let target = sink.and_then(|sink| own.target(&at, sink, sink.spec.as_ref()?, &name.spot));
    let to = target.map(|(target, spot)| {
        let spec = RouteSpec { sink: name.value.as_str().into(), target, headers: Vec::new(), envelope: Envelope::Raw };
        (spec, spot)
    });
    DeadLetters { max_len, sink: sink.map(|sink| sink.name.clone()), to }
}

/// The length that the stream is trimmed to.
fn stream(section: &Section<'_>) -> Option<u64> {
    if section.is_text(&dead_letter::STREAM) {
        let message = "`stream` is the stream that the queue keeps, and has keys of its own";
        let help = "a stream that dead letters are moved on to is named on the sink, as `redis: { stream: KEY }`";
        section.cx.report.problem(&section.spot(&dead_letter::STREAM), message, help);
        return None;
    }
    let stream = section.section(&dead_letter::STREAM);
    let max_len = stream.count(&dead_stream::MAX_LEN);
    let allow_loss = stream.flag(&dead_stream::ALLOW_LOSS) == Some(true);
    if max_len.is_some() && !allow_loss {
        let help = "add `allow_loss: true` if the oldest may go, or leave `max_len` out";
        let message = "`max_len` trims dead letters, which loses elements";
        section.cx.report.problem(&stream.spot(&dead_stream::MAX_LEN), message, help);
    }
    max_len
}
