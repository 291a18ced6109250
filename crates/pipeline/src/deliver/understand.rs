//! What the rules of a queue say about an element before any sink is asked. Pure: no clock, no metric, no connection.
//!
//! The daemon asks for every element ([`outbound`](super::outbound)), the tests of a configuration for each of their cases.

use std::time::Duration;

use bytes::Bytes;
use redisson_codecs::DecodeError;

use crate::settle::verdict::{Death, ReleaseCause, Verdict};
use delaybridge_core::message::{Class, Failure};
use delaybridge_core::template::ElementInfo;
use delaybridge_ledger::Junk;
use delaybridge_model::{
    HELD_MS, OnAbsurdDue, OnDecodeError, OnExpired, OnSkipped, Payload, QueueSpec, REPEATED, RouteSpec, Routed,
    SKIPPED, is_absurd, is_in_seconds,
};
use delaybridge_telemetry::labels::DeadReason;

/// The outcome of decoding a payload, and what of that is to be counted.
#[derive(Debug)]
pub struct Understood {
    /// The payload, or why the element needs no sink.
    pub payload: Result<Payload, Verdict>,
    /// Whether it is delivered although it is expired.
    pub expired: bool,
    /// The answer of the codec.
    pub said: CodecSaid,
    /// Only its Java class can read it, and it is delivered as it is; what the codec said.
    pub opaque: Option<String>,
}

/// The answer of a codec to a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodecSaid {
    /// No answer: the codec was not asked.
    Nothing,
    /// A value.
    Read,
    /// An object that only its Java class can read.
    Opaque,
    /// A refusal.
    Refused,
}

impl Understood {
    fn dead(reason: DeadReason, failure: Failure) -> Self {
        Understood { payload: Err(dead(reason, failure)), expired: false, said: CodecSaid::Nothing, opaque: None }
    }
}

/// Decodes a payload by the rules of its queue. `late` is how long ago it was due, where that is known.
pub fn understand(spec: &QueueSpec, payload: &Bytes, late: Option<Duration>) -> Understood {
    understand_by(spec, payload, late, 0, || spec.decode(payload))
}

/// Decodes a payload by the rules of its queue, with the caller's way to [decode](QueueSpec::decode) it. `refused` is
/// the number of payloads that the codec has refused in a row before.
pub fn understand_by(
    spec: &QueueSpec,
    payload: &Bytes,
    late: Option<Duration>,
    refused: u32,
    decode: impl FnOnce() -> Result<Payload, DecodeError>,
) -> Understood {
    if let (Some(limit), Some(late)) = (spec.max_lateness, late)
        && late > limit
    {
        if spec.on_expired == OnExpired::Deliver {
            return Understood { expired: true, ..decoded(spec, payload, refused, decode()) };
        }
        let text = format!("{} ms late, max_lateness is {} ms", late.as_millis(), limit.as_millis());
        return Understood::dead(DeadReason::Expired, Failure::new(Class::MessagePermanent, "expired", text));
    }
    decoded(spec, payload, refused, decode())
}

fn decoded(spec: &QueueSpec, payload: &Bytes, refused: u32, decoded: Result<Payload, DecodeError>) -> Understood {
    let error = match decoded {
        Ok(payload) => return Understood { payload: Ok(payload), expired: false, said: CodecSaid::Read, opaque: None },
        Err(error) => error,
    };
    let said = if error.is_opaque() { CodecSaid::Opaque } else { CodecSaid::Refused };
    let failure = Failure::new(Class::MessagePermanent, error.code(), error.to_string());
    let (payload, opaque) = match spec.on_refusal(&error) {
        OnDecodeError::ForwardRaw => {
            (Ok(Payload::opaque(payload.clone())), error.is_opaque().then_some(failure.message))
        }
        OnDecodeError::HoldRepeated if said == CodecSaid::Refused && refused + 1 >= REPEATED => {
            let message = format!("{}; it is not the first in a row: {}", failure.message, mismatch(spec, payload));
            let failure = Failure { class: Class::TargetPermanent, message, ..failure };
            (Err(Verdict::Release { why: ReleaseCause::Hold { sink: None, failure } }), None)
        }
        OnDecodeError::HoldRepeated if said == CodecSaid::Refused => {
            let likely = other_codec(spec, payload);
            let likely = likely.map(|codec| format!("; it looks like {codec}: {SHOWS_CODECS}")).unwrap_or_default();
            let failure = Failure { message: failure.message + &likely, ..failure };
            (Err(dead(DeadReason::Undecodable, failure)), None)
        }
        OnDecodeError::HoldRepeated | OnDecodeError::DeadLetter => (Err(dead(DeadReason::Undecodable, failure)), None),
        OnDecodeError::Hold => {
            let failure = Failure { class: Class::TargetPermanent, ..failure };
            (Err(Verdict::Release { why: ReleaseCause::Hold { sink: None, failure } }), None)
        }
    };
    Understood { payload, expired: false, said, opaque }
}

/// The command that shows which codec wrote the elements of a queue.
const SHOWS_CODECS: &str = "`delaybridge discover` shows the codec of what is scheduled";

/// Returns the codec that a refused payload looks like, and the remedy.
fn mismatch(spec: &QueueSpec, payload: &Bytes) -> String {
    let codec = spec.codec.as_str();
    match other_codec(spec, payload) {
        Some(found) => format!(
            "it looks like {found}, and `codec` is {codec}: {SHOWS_CODECS}; correct `codec`, or write `on_decode_error: dead_letter`"
        ),
        None => format!("`codec` is {codec}; correct it, or write `on_decode_error: dead_letter`"),
    }
}

/// Returns the codec that a refused payload looks like, if it is another one than the queue's.
fn other_codec(spec: &QueueSpec, payload: &Bytes) -> Option<&'static str> {
    let guess = redisson_codecs::guess_with(payload, spec.codec, &spec.classes)?;
    Some(guess.coding.as_str()).filter(|found| *found != spec.codec.as_str())
}

/// Returns the verdict on an element that is due at this time by its source's score; none if it is delivered.
pub fn absurd(spec: &QueueSpec, due_ms: i64) -> Option<Verdict> {
    if spec.on_absurd_due == OnAbsurdDue::Deliver || !is_absurd(due_ms) {
        return None;
    }
    let why = if is_in_seconds(due_ms) {
        "which looks like a time in a unit a thousand times larger (seconds read as milliseconds): correct the unit of the source, or the producer"
    } else {
        "which is an overflow: its time was meant to come"
    };
    let text = format!("it is due at {due_ms} ms since 1970, {why}");
    let failure = Failure::new(Class::MessagePermanent, ABSURD_DUE, text);
    Some(match spec.on_absurd_due {
        OnAbsurdDue::DeadLetter => dead(DeadReason::AbsurdDue, failure),
        _ => {
            let after = Duration::from_millis(HELD_MS);
            let class = failure.class;
            Verdict::Retry { after, counted: false, class, code: ABSURD_DUE }
        }
    })
}

/// The code of an absurd due time.
const ABSURD_DUE: &str = "absurd_due";

/// Returns the verdict on bytes that are in no format of their source.
pub fn junk(junk: &Junk) -> Verdict {
    dead(DeadReason::Junk, Failure::new(Class::MessagePermanent, "junk", junk.to_string()))
}

/// Fills the templates of a destination; a failure if one has no value.
///
/// # Errors
/// What [`unroutable`] makes a verdict of.
pub fn routed(spec: &RouteSpec, element: &ElementInfo<'_>, payload: &Payload) -> Result<Routed, Failure> {
    let failure = |error: delaybridge_core::template::FillError| {
        Failure::new(Class::MessagePermanent, error.code(), error.to_string())
    };
    spec.fill(element, payload).map_err(failure)
}

/// Returns the verdict on an element for which a template has no value.
pub fn unroutable(place: usize, failure: Failure) -> Verdict {
    let reason = DeadReason::Unroutable;
    let sink = Some(place);
    Verdict::Dead(Death { reason, sink, destination: None, failure: Some(failure), shown: None })
}

/// Returns the verdict on an element that no destination is meant for.
pub fn skipped(spec: &QueueSpec) -> Verdict {
    match spec.on_skipped {
        OnSkipped::DeadLetter => dead(DeadReason::Skipped, Failure::new(Class::MessagePermanent, "skipped", SKIPPED)),
        OnSkipped::Drop => Verdict::Skipped,
    }
}

pub(super) fn dead(reason: DeadReason, failure: Failure) -> Verdict {
    Verdict::Dead(Death::without_sink(reason, failure))
}
