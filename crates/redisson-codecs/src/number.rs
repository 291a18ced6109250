//! Codec `number`: a number in decimal digits, as Redisson's `LongCodec`, `IntegerCodec` and `DoubleCodec` write it.
//!
//! Java spells every finite number as JSON does, so the digits stay as they are; what is not finite becomes text.

use bytes::Bytes;
use serde_json::{Number, Value};

use super::Answer;
use super::error::{DecodeProblem, Refusal};
use super::payload::Decoded;

/// Reads the payload.
pub(super) fn decode(payload: &Bytes) -> Answer {
    match &payload[..] {
        b"NaN" | b"Infinity" | b"-Infinity" => return Ok(Decoded::Text(payload.clone())),
        _ => {}
    }
    // The parser would take spaces around it, which Java never writes.
    let bare = !payload.iter().any(u8::is_ascii_whitespace);
    match serde_json::from_slice::<Number>(payload) {
        Ok(number) if bare => Ok(Decoded::Json(payload.clone(), Value::Number(number))),
        _ => Err(Refusal::at(0, DecodeProblem::NotNumber)),
    }
}
