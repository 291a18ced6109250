//! Dead letters: the stream that keeps them, and the sink to which they are forwarded.

use redisson_codecs::Codec;

use super::destination::{DestinationDraft, Goods};
use super::sink::{self, SinkDraft};
use crate::tables::{DEAD_LETTER, DeadStream, dead_letter, dead_stream};
use delaybridge_model::{Envelope, MessageSpec, RouteSpec};
use delaybridge_settings::Settings;
use delaybridge_settings::problem::Spot;
use delaybridge_settings::reader::Section;

/// The settings under `dead_letter:`.
#[derive(Default)]
pub(super) struct DeadLetterDraft {
    pub(super) max_len: Option<u64>,
    /// The sink that was named, its route with problems or not.
    pub(super) sink: Option<String>,
    /// The route, and where its destination is written.
    pub(super) to: Option<(RouteSpec, Spot)>,
}

/// Reads the part of the queue `section`.
pub(super) fn read(section: &Section<'_>, sinks: &[SinkDraft<'_>], slot: &str) -> DeadLetterDraft {
    let Some(section) = section.opt_section(&DEAD_LETTER) else { return DeadLetterDraft::default() };
    let max_len = stream(&section);
    // A dead letter is its bytes, whatever the codec made of them.
    let of = Goods::DeadLetters;
    let at = DestinationDraft { section: &section, codec: Codec::Raw.into(), slot, order_key: None, alone: false, of };
    let Some(name) = section.text(&dead_letter::SINK) else {
        for key in dead_letter::TABLE.offered.iter().flat_map(|group| group.keys) {
            if section.has(key) && !section.has(&dead_letter::SINK) {
                let message = format!("`{}` has no effect without `sink`", key.name);
                section.cx.report.problem(&section.spot(key), message, "write `sink: NAME`");
            }
        }
        return DeadLetterDraft { max_len, ..DeadLetterDraft::default() };
    };
    let Some(sink) = sink::find(&section, sinks, &name) else {
        at.pass_over();
        return DeadLetterDraft { max_len, ..DeadLetterDraft::default() };
    };
    let to = at.read(sink, &name.spot).map(|(target, spot)| {
        let message = MessageSpec { headers: Box::default(), envelope: Envelope::Raw };
        (RouteSpec { sink: name.value.as_str().into(), target, message, rules: None }, spot)
    });
    DeadLetterDraft { max_len, sink: Some(sink.name.clone()), to }
}

/// Returns the length that the stream is trimmed to.
fn stream(section: &Section<'_>) -> Option<u64> {
    if section.is_text(&dead_letter::STREAM) {
        let message = "`stream` is the stream that the queue keeps, and has keys of its own";
        let help = "set the stream for forwarded dead letters on the sink, as `redis: { stream: KEY }`";
        section.cx.report.problem(&section.spot(&dead_letter::STREAM), message, help);
        return None;
    }
    let stream = section.section(&dead_letter::STREAM);
    let DeadStream { max_len, allow_loss } = DeadStream::of(&stream);
    if max_len.is_some() && !allow_loss {
        let help = "add `allow_loss: true` if the oldest may go, or leave `max_len` out";
        let message = "`max_len` trims dead letters, which loses elements";
        section.cx.report.problem(&stream.spot(&dead_stream::MAX_LEN), message, help);
    }
    max_len
}
