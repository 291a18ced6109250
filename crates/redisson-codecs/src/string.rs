//! Codec `string`: UTF-8 text, as Redisson's `StringCodec` writes it.

use bytes::Bytes;

use super::error::{DecodeProblem, Refusal};
use super::payload::{Answer, Decoded};

/// Validates the UTF-8 without copying.
pub(super) fn decode(payload: &Bytes) -> Answer {
    match std::str::from_utf8(payload) {
        Ok(_) => Ok(Decoded::Text(payload.clone())),
        Err(error) => Err(Refusal::at(error.valid_up_to(), DecodeProblem::NotUtf8)),
    }
}
