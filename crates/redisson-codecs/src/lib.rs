//! Decodes payloads of Redisson's codecs, without Java and within limits.
//!
#![doc = include_str!("../README.md")]

mod auto;
mod cbor;
mod class_specs;
mod classes;
mod coding;
mod compression;
mod error;
mod jackson;
mod java;
mod java_types;
mod json;
mod kryo5;
mod marshalling;
mod msgpack;
mod number;
mod objects;
mod payload;
mod raw;
mod reader;
mod smile;
mod string;
mod time;
mod value;

use bytes::Bytes;

pub use self::auto::{Confidence, Guess, guess, guess_with};
pub use self::class_specs::{ClassError, ClassProblem, ClassSpec, Content};
pub use self::classes::Classes;
pub use self::coding::{Codec, Coding, Compression, JavaTypes, ParseCodecError, Reads};
pub use self::error::{ClassName, DecodeError, DecodeProblem};
pub use self::payload::{Payload, View};
pub use self::reader::MAX_DEPTH;
#[doc(no_inline)]
pub use {bytes, serde_json};

use self::error::Refusal;
use self::payload::Decoded;

/// The result of a codec: a value, or the offset and the kind of the problem.
type Answer = Result<Decoded, Refusal>;

/// Decodes `payload` with a [`Codec`] or a [`Coding`].
///
/// Any bytes give a value or an error, never a panic. The work is linear in the payload and in its unpacked size; the
/// depth of recursion is at most [`MAX_DEPTH`]. Memory beside the payload's own bytes is deducted from
/// [`Coding::max_decoded_size`] before it is allocated.
///
/// # Errors
/// Returns an error if the bytes are not what the codec writes, exceed a limit, or need a Java class to be read;
/// [`DecodeError::code`] lists the codes.
pub fn decode(coding: impl Into<Coding>, payload: &Bytes) -> Result<Payload, DecodeError> {
    decode_with(coding, &Classes::default(), payload)
}

/// Like [`decode`], for an application with declared classes, whose objects codec `kryo5` can read.
///
/// # Errors
/// As [`decode`].
pub fn decode_with(coding: impl Into<Coding>, classes: &Classes, payload: &Bytes) -> Result<Payload, DecodeError> {
    let coding = coding.into();
    if coding.codec == Codec::Auto {
        return match guess_with(payload, coding, classes) {
            Some(guess) => guess.payload,
            None => Err(DecodeError::new(coding, Refusal::at(0, DecodeProblem::NotRecognised))),
        };
    }
    let decoded = match coding.compression {
        None => plain(coding, classes, payload),
        Some(compression) => compression::unpack(compression, payload, coding.max_decoded_size)
            .and_then(|inner| plain(coding, classes, &inner)),
    };
    let decoded = match decoded {
        Ok(decoded) if coding.json_in_text => decoded.json_in_text(coding.max_decoded_size),
        decoded => decoded,
    };
    match decoded {
        Ok(decoded) => Ok(Payload::new(payload.clone(), decoded, media_type(coding))),
        Err(refusal) => Err(DecodeError::new(coding, refusal)),
    }
}

/// The media type of the payload's own bytes.
fn media_type(coding: Coding) -> &'static str {
    match coding.codec {
        _ if coding.compression.is_some() => payload::OCTETS,
        Codec::Json | Codec::Jackson => "application/json",
        Codec::String | Codec::Number => "text/plain; charset=utf-8",
        Codec::Cbor => "application/cbor",
        Codec::Msgpack => "application/vnd.msgpack",
        Codec::Java => "application/x-java-serialized-object",
        Codec::Smile => "application/x-jackson-smile",
        Codec::Raw | Codec::Kryo5 | Codec::Kryo5Refs | Codec::Marshalling | Codec::Auto => payload::OCTETS,
    }
}

/// Decodes unpacked bytes.
fn plain(coding: Coding, classes: &Classes, bytes: &Bytes) -> Answer {
    let budget = coding.max_decoded_size;
    let kryo = |references| kryo5::decode(bytes, budget, references, classes, coding.java_types);
    let typed = |item| java_types::apply(coding.java_types, classes, item);
    match coding.codec {
        Codec::Raw => Ok(raw::decode(bytes)),
        Codec::String => string::decode(bytes),
        Codec::Number => number::decode(bytes),
        Codec::Json => json::decode(bytes, budget),
        Codec::Jackson => jackson::decode(bytes, budget, coding.java_types, classes),
        Codec::Kryo5 => kryo(kryo5::References::Off),
        Codec::Kryo5Refs => kryo(kryo5::References::On),
        Codec::Marshalling => marshalling::decode(bytes, budget, coding.java_types),
        Codec::Java => java::decode(bytes, budget, coding.java_types),
        Codec::Cbor => cbor::decode(bytes, budget).map(typed),
        Codec::Msgpack => msgpack::decode(bytes, budget).map(typed),
        Codec::Smile => smile::decode(bytes, budget).map(typed),
        Codec::Auto => Err(Refusal::at(0, DecodeProblem::NotRecognised)),
    }
}
