//! Dead letters: the stream that keeps them, and the sink to which they are forwarded.

use redisson_codecs::Codec;

use super::destination::{DestinationDraft, Goods};
use super::sink::{self, SinkDraft};
use crate::tables::{DeadLetterKeys, dead_letter, queue};
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
    let Some(section) = section.opt_section(&queue::DEAD_LETTER) else { return DeadLetterDraft::default() };
    let DeadLetterKeys { max_len, sink } = DeadLetterKeys::of(&section);
    // A dead letter is its bytes, whatever the codec made of them.
    let of = Goods::DeadLetters;
    let at = DestinationDraft { section: &section, codec: Codec::Raw.into(), slot, order_key: None, alone: false, of };
    let Some(name) = sink else {
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
