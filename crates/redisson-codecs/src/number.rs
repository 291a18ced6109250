//! Codec `number`: a number in decimal digits, as Redisson's `LongCodec`, `IntegerCodec` and `DoubleCodec` write it.
//!
//! Java spells every finite number as JSON does, so the digits are kept; numbers that are not finite become text.

use bytes::Bytes;
use serde_json::{Number, Value};

use super::error::{DecodeProblem, Refusal};
use super::payload::{Answer, Decoded};

pub(super) fn decode(payload: &Bytes) -> Answer {
    match &payload[..] {
        b"NaN" | b"Infinity" | b"-Infinity" => return Ok(Decoded::Text(payload.clone())),
        _ => {}
    }
    // The parser would accept surrounding spaces, which Java never writes.
    let bare = !payload.iter().any(u8::is_ascii_whitespace);
    match serde_json::from_slice::<Number>(payload) {
        Ok(number) if bare => Ok(Decoded::Json(payload.clone(), Value::Number(number))),
        _ => Err(Refusal::at(0, DecodeProblem::NotNumber)),
    }
}
