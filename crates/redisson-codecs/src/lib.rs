//! From bytes to a value that templates and envelopes can use. Pure, one codec a file.
//!
//! Knows nothing of queues, destinations or Redis. What is decoded here came from somebody else's process: any bytes
//! whatsoever end as a value or as a [`DecodeError`], never as a panic, and no error repeats what it read, but for the
//! name of a Java class.
//!
//! The binary formats read through one bounded `reader` into one kind of `value`, so that depth, memory and the form of
//! numbers, bytes and maps in JSON are decided once. Crates for these formats build trees of their own without a bound
//! on memory, and know nothing of Java's text or Jackson's types; only compression is left to crates.

mod auto;
mod cbor;
mod error;
mod jackson;
mod java;
mod json;
mod kryo5;
mod marshalling;
mod msgpack;
mod number;
mod objects;
#[path = "compression.rs"]
mod packing;
mod payload;
mod raw;
mod reader;
mod smile;
mod string;
#[path = "java_types.rs"]
mod types;
mod value;

use bytes::Bytes;

pub use self::auto::{Guess, Sure, guess};
pub use self::error::{ClassName, DecodeError, DecodeProblem};
pub use self::payload::{Payload, View};

use self::error::Refusal;
use self::payload::Decoded;
use crate::config::{Codec, Coding};

/// What a codec answers: a value, or the offset and the kind of the problem.
type Answer = Result<Decoded, Refusal>;

/// Looks into `payload` as `coding` says.
///
/// Work is linear in the payload and in what it unpacks to; the depth of recursion is bounded. What is built beside the
/// payload's own bytes takes at most `max_decoded_size`, but for `json` and `jackson`, whose values are in proportion to
/// their text.
///
/// # Errors
/// When the bytes are not what the codec reads.
pub fn decode(coding: impl Into<Coding>, payload: &Bytes) -> Result<Payload, DecodeError> {
    let coding = coding.into();
    if coding.codec == Codec::Auto {
        return match guess(payload, coding) {
            Some(guess) => guess.payload,
            None => Err(DecodeError::new(coding, Refusal::at(0, DecodeProblem::NotRecognised))),
        };
    }
    let decoded = match coding.packing {
        None => plain(coding, payload),
        Some(packing) => {
            packing::unpack(packing, payload, coding.max_decoded_size).and_then(|inner| plain(coding, &inner))
        }
    };
    match decoded {
        Ok(decoded) => Ok(Payload::new(payload.clone(), decoded, media_type(coding))),
        Err(refusal) => Err(DecodeError::new(coding, refusal)),
    }
}

/// The media type of the payload's own bytes.
fn media_type(coding: Coding) -> &'static str {
    match coding.codec {
        _ if coding.packing.is_some() => payload::OCTETS,
        Codec::Json | Codec::Jackson => "application/json",
        Codec::String | Codec::Number => "text/plain; charset=utf-8",
        Codec::Cbor => "application/cbor",
        Codec::Msgpack => "application/vnd.msgpack",
        Codec::Java => "application/x-java-serialized-object",
        Codec::Smile => "application/x-jackson-smile",
        Codec::Raw | Codec::Kryo5 | Codec::Kryo5Refs | Codec::Marshalling | Codec::Auto => payload::OCTETS,
    }
}

/// Without the compression.
fn plain(coding: Coding, bytes: &Bytes) -> Answer {
    let budget = coding.max_decoded_size;
    match coding.codec {
        Codec::Raw => Ok(raw::decode(bytes)),
        Codec::String => string::decode(bytes),
        Codec::Number => number::decode(bytes),
        Codec::Json => json::decode(bytes),
        Codec::Jackson => jackson::decode(bytes, coding.java_types),
        Codec::Kryo5 => kryo5::decode(bytes, budget, kryo5::References::Off),
        Codec::Kryo5Refs => kryo5::decode(bytes, budget, kryo5::References::On),
        Codec::Marshalling => marshalling::decode(bytes, budget, coding.java_types),
        Codec::Java => java::decode(bytes, budget, coding.java_types),
        Codec::Cbor => cbor::decode(bytes, budget).map(|item| types::apply(coding.java_types, item)),
        Codec::Msgpack => msgpack::decode(bytes, budget).map(|item| types::apply(coding.java_types, item)),
        Codec::Smile => smile::decode(bytes, budget).map(|item| types::apply(coding.java_types, item)),
        Codec::Auto => Err(Refusal::at(0, DecodeProblem::NotRecognised)),
    }
}

#[cfg(test)]
#[path = "../tests/codecs/main.rs"]
mod tests;
