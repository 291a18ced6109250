//! Every element that Redisson clients of twelve versions wrote decodes to the offered value.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redisson_codecs::bytes::Bytes;
use redisson_codecs::serde_json::{self, Value};
use redisson_codecs::{
    Classes, Codec, Coding, Compression, Confidence, JavaTypes, Payload, View, decode_with, guess_with,
};

use super::types::{declared_in, is_same};

/// One recorded element.
pub(super) struct Vector {
    redisson: String,
    pub(super) codec: String,
    kind: String,
    value: Value,
    pub(super) payload: Bytes,
}

/// All vectors, without repetitions of equal bytes.
pub(super) fn vectors() -> Vec<Vector> {
    let mut seen = std::collections::HashSet::new();
    let text = include_str!("../../../../tests/vectors/redisson.jsonl");
    let read = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let field = |name: &str| line[name].as_str().unwrap().to_owned();
        let member = Bytes::from(hex::decode(field("member_hex")).unwrap());
        Vector {
            redisson: field("redisson"),
            codec: field("codec"),
            kind: field("value_kind"),
            value: line["value"].clone(),
            payload: member.slice(if field("layout") == "dLc0" { 16 } else { 17 }..),
        }
    };
    text.lines().map(read).filter(|v| seen.insert((v.codec.clone(), v.kind.clone(), v.payload.clone()))).collect()
}

/// The codec for this class of Redisson; the default of the wrappers changed between versions.
pub(super) fn coding(vector: &Vector) -> Option<Coding> {
    let class = vector.codec.strip_prefix("default(").map_or(vector.codec.as_str(), |rest| rest.trim_end_matches(')'));
    let (outer, inner) = match class.split_once('(') {
        Some((outer, inner)) => (outer, Some(inner.trim_end_matches(')'))),
        None => (class, None),
    };
    let compression = match outer {
        "LZ4Codec" | "LZ4CodecV2" => Some(Compression::Lz4),
        "SnappyCodec" | "SnappyCodecV2" => Some(Compression::Snappy),
        "ZStdCodec" => Some(Compression::Zstd),
        _ => None,
    };
    let codec = match (compression, outer, inner) {
        (Some(_), _, Some("StringCodec")) | (None, "StringCodec", _) => Codec::String,
        (Some(_), ..) if vector.redisson.starts_with("3.16.") || vector.redisson.starts_with("3.18.") => {
            Codec::Marshalling
        }
        (Some(_), ..) => Codec::Kryo5,
        (None, "Kryo5Codec", Some("refs")) => Codec::Kryo5Refs,
        (None, "Kryo5Codec", _) => Codec::Kryo5,
        (None, "MarshallingCodec", _) => Codec::Marshalling,
        (None, "SerializationCodec", _) => Codec::Java,
        (None, "JsonJacksonCodec", _) => Codec::Jackson,
        (None, "TypedJsonJacksonCodec", _) => Codec::Json,
        (None, "CborJacksonCodec", _) => Codec::Cbor,
        (None, "MsgPackJacksonCodec", _) => Codec::Msgpack,
        (None, "SmileJacksonCodec", _) => Codec::Smile,
        (None, "LongCodec", _) => Codec::Number,
        (None, "ByteArrayCodec", _) => Codec::Raw,
        // Removed in 4.1.0, and the default of 3.10 to 3.12 only.
        (None, "FstCodec", _) => return None,
        other => panic!("a codec that this test does not know: {other:?}"),
    };
    Some(Coding { compression, java_types: JavaTypes::Strip, ..codec.into() })
}

/// The declarations of the classes in the elements, except one.
fn declared() -> Classes {
    declared_in(include_str!("../recorder/elements.yaml"))
}

fn is_value(vector: &Vector, coding: Coding, payload: &Payload) -> bool {
    let bytes =
        vector.value.as_str().and_then(|text| text.strip_prefix("hex:")).map(|digits| hex::decode(digits).unwrap());
    match (payload.view(), bytes) {
        (View::Opaque, Some(bytes)) => payload.decoded() == bytes,
        // JSON has no bytes; Jackson writes them as base64, too.
        (View::Text(text), Some(bytes)) => text == STANDARD.encode(bytes),
        (View::Json(Value::String(text)), Some(bytes)) => *text == STANDARD.encode(bytes),
        // This codec writes everything as text.
        (View::Text(text), None) if coding.codec == Codec::String && !vector.value.is_string() => {
            *text == *vector.value.to_string()
        }
        (View::Text(text), None) => vector.value == text,
        (View::Json(value), None) => is_same(value, &vector.value),
        (View::Json(_), Some(_)) | (View::Opaque, None) => false,
    }
}

#[test]
fn every_recorded_value_is_read_as_it_was_offered() {
    let mut unread = std::collections::BTreeMap::<String, usize>::new();
    let mut wrong = Vec::new();
    let mut read = 0;
    let classes = declared();
    for vector in vectors() {
        let Some(coding) = coding(&vector) else {
            *unread.entry(format!("{}: not a codec that is read", vector.codec)).or_default() += 1;
            continue;
        };
        // The other codecs need no declarations.
        let is_kryo = matches!(coding.codec, Codec::Kryo5 | Codec::Kryo5Refs);
        let classes = if is_kryo { &classes } else { &Classes::default() };
        match decode_with(coding, classes, &vector.payload) {
            Ok(payload) if is_value(&vector, coding, &payload) => read += 1,
            Ok(payload) => wrong.push(format!(
                "{} {} {}: {:?}, not {}",
                vector.redisson,
                vector.codec,
                vector.kind,
                payload.view(),
                vector.value
            )),
            Err(error) => *unread.entry(format!("{} {}: {error}", vector.codec, vector.kind)).or_default() += 1,
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Only its class can read what Kryo writes of an object. Of an address, Redisson 3.18.1 wrote the class alone.
    let opaque = "an object of the class com.example.Order, which only Java can read at byte 0";
    for (what, count) in &unread {
        let expected = what.starts_with("FstCodec")
            || what.starts_with("default(FstCodec)")
            || (what.contains(" pojo: ") && what.contains("kryo5") && what.ends_with(opaque))
            || (what.starts_with("Kryo5Codec inet_") && what.contains("of the class java.net.Inet"));
        assert!(expected, "{count} x {what}");
    }
    println!("{read} read, unread: {unread:#?}");
    assert!(read > 950, "{read}");
}

#[test]
fn what_wrote_a_recorded_payload_is_guessed_or_left_open() {
    let mut right = 0;
    let mut total = 0;
    let mut wrong = Vec::new();
    let classes = declared();
    for vector in vectors() {
        let Some(coding) = coding(&vector) else { continue };
        total += 1;
        match guess_with(&vector.payload, coding, &classes) {
            Some(guess) if (guess.coding.compression, guess.coding.codec) == (coding.compression, coding.codec) => {
                right += 1
            }
            // A number, text or flag that several codecs write alike.
            Some(guess) if guess.confidence < Confidence::Certain => {
                wrong.push(format!("{} {}: {} {}", vector.codec, vector.kind, guess.confidence.as_str(), guess.coding))
            }
            Some(guess) => {
                // The same text may be JSON, Jackson's JSON or plain text; the value is the same.
                let same = guess.payload.as_ref().is_ok_and(|payload| {
                    is_value(&vector, coding, payload)
                        || payload.decoded() == decode_with(coding, &classes, &vector.payload).unwrap().decoded()
                });
                assert!(same, "{} {}: certainly {}", vector.codec, vector.kind, guess.coding);
            }
            None => wrong.push(format!("{} {}: nothing", vector.codec, vector.kind)),
        }
    }
    println!("{right} of {total}\n{}", wrong.join("\n"));
    assert!(right * 100 >= total * 80, "{right} of {total}\n{}", wrong.join("\n"));
}
