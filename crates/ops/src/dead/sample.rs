//! A dead letter, for the tests of what shows one.

use bytes::Bytes;
use redisson_codecs::{Classes, Codec};

use super::Letter;
use delaybridge_core::message::MessageId;
use delaybridge_ledger::DeadLetter;
use delaybridge_source::redisson::layout::{Layout, pack};
use delaybridge_source::redisson::{ListCleanup, Redisson};

/// Returns a letter with every kind of field.
pub fn sample(codec: Codec) -> Letter {
    let element = pack(Layout::New, MessageId(*b"RANDOM8B"), b"hello");
    let fields = [
        ("id", "52414e444f4d3842".into()),
        ("origin", "delayed".into()),
        ("due_ms", "1795251632252".into()),
        ("attempts", "3".into()),
        ("first_attempt_ms", "".into()),
        ("code", "NO_ROUTE".into()),
        ("message", "a\u{1b}[31m".into()),
        ("confirmed", "audit,lines".into()),
        ("attempts_seen", "[{\"code\":\"timeout\"}]".into()),
        ("element", Bytes::from(element)),
    ];
    let fields = fields.map(|(name, value)| (name.to_owned(), value)).into();
    let ledger = Redisson::new("n", [0; 8], true, true, ListCleanup::Auto);
    Letter::of(&ledger, DeadLetter { stream_id: "1-0".to_owned(), fields }, codec.into(), &Classes::default())
}
