//! Codec `string`: the payload is UTF-8 text, as Redisson's `StringCodec` writes it.

use super::{Answer, DecodeProblem, Decoded};

/// Checks that the payload is UTF-8; copies nothing.
pub(super) fn decode(payload: &[u8]) -> Answer {
    match std::str::from_utf8(payload) {
        Ok(_) => Ok(Decoded::Text),
        Err(error) => Err((error.valid_up_to(), DecodeProblem::NotUtf8)),
    }
}
