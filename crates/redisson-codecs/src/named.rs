//! Decoding with a codec that is named, and the list of the codecs.

use bytes::Bytes;

use super::classes::Classes;
use super::coding::{Codec, Coding};
use super::error::{DecodeError, DecodeProblem, Refusal};
use super::payload::{self, Answer, Payload};
use super::{
    cbor, compression, jackson, java, java_types, json, kryo5, marshalling, msgpack, number, raw, smile, string,
};

/// Decodes with the codec that `coding` names, which is not [`Codec::Auto`].
pub(super) fn decode_named(coding: Coding, classes: &Classes, payload: &Bytes) -> Result<Payload, DecodeError> {
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

/// Returns the media type of the payload's own bytes.
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
