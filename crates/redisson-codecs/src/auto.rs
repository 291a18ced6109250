//! Codec `auto`: guesses which codec wrote a payload, with a degree of confidence.
//!
//! A codec is a candidate only if it reads the payload to its last byte. Formats with a mark of their own, and
//! structured values, leave no doubt; short text and small numbers are ambiguous.

use bytes::Bytes;
use serde_json::Value;

use super::classes::Classes;
use super::error::{ClassName, DecodeError, DecodeProblem};
use super::named::decode_named;
use super::payload::{Payload, View};
use super::{java, java_types, json, marshalling, number, smile};
use crate::coding::{Codec, Coding, Compression, JavaTypes};

/// The confidence of a guess, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// Several codecs could have written these bytes: a small number of Kryo, short text that is CBOR as well.
    Guess,
    /// Other codecs could write these bytes, but are unlikely to: plain text, a number in digits, a list in CBOR.
    Likely,
    /// The format has a mark of its own, or the value has a structure that no other codec of Redisson writes.
    Certain,
}

impl Confidence {
    /// Returns the name in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Confidence::Guess => "guess",
            Confidence::Likely => "likely",
            Confidence::Certain => "certain",
        }
    }
}

/// The most probable codec of a payload.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Guess {
    /// The codec, with its compression.
    pub coding: Coding,
    /// The confidence of the guess.
    pub confidence: Confidence,
    /// The decoded payload; an error if it is an object that only its Java class can read.
    pub payload: Result<Payload, DecodeError>,
}

/// Guesses the codec of `payload`. Of `settings` all but the codec and the compression are used.
///
/// A codec is a candidate only if it reads the payload to its last byte. Returns `None` if there is no candidate. All
/// codecs are tried in turn, which is still linear in the payload and in its unpacked size. Numbers and short text are
/// the weak point: name the codec if it is known.
///
/// ```
/// use redisson_codecs::{Codec, Confidence, bytes::Bytes, guess};
///
/// let guess = guess(&Bytes::from_static(b"\x03ab\xe3"), Codec::Auto).expect("a codec");
/// assert_eq!((guess.coding.codec, guess.confidence), (Codec::Kryo5, Confidence::Certain));
/// ```
pub fn guess(payload: &Bytes, settings: impl Into<Coding>) -> Option<Guess> {
    guess_with(payload, settings, &Classes::default())
}

/// Guesses as [`guess`] does, for an application with declared classes.
pub fn guess_with(payload: &Bytes, settings: impl Into<Coding>, classes: &Classes) -> Option<Guess> {
    let settings: Coding = settings.into();
    // What is in a text says nothing about its codec.
    let outer = Coding { json_in_text: false, ..settings };
    let plain = plain(payload, outer, classes);
    let guess = match plain {
        Some(guess) if guess.confidence > Confidence::Guess => guess,
        plain => packed(payload, outer, classes).or(plain)?,
    };
    if !settings.json_in_text {
        return Some(guess);
    }
    let coding = Coding { json_in_text: true, ..guess.coding };
    let refused = |refusal| DecodeError::new(coding, refusal);
    let payload = guess.payload.and_then(|payload| payload.json_in_text(coding.max_decoded_size).map_err(refused));
    Some(Guess { coding, payload, ..guess })
}

fn plain(payload: &Bytes, settings: Coding, classes: &Classes) -> Option<Guess> {
    let read = |codec| {
        let coding = Coding { compression: None, codec, ..settings };
        (coding, decode_named(coding, classes, payload))
    };
    let guess = |codec, confidence| {
        let (coding, payload) = read(codec);
        Some(Guess { coding, confidence, payload })
    };
    let reads = |codec| read(codec).1.is_ok();
    // An object that only Java can read still shows its codec.
    let names_class = |codec| match read(codec).1 {
        Ok(_) => true,
        Err(error) => matches!(error.problem, DecodeProblem::Opaque(class) if class != ClassName::of("")),
    };
    let first = payload.first().copied();
    match first {
        None => return guess(Codec::String, Confidence::Guess),
        Some(_) if payload.starts_with(java::MAGIC) && names_class(Codec::Java) => {
            return guess(Codec::Java, Confidence::Certain);
        }
        Some(_) if payload.starts_with(smile::MAGIC) && reads(Codec::Smile) => {
            return guess(Codec::Smile, Confidence::Certain);
        }
        // Numbers of an unknown length can be read as both.
        Some(0x01) if reads(Codec::Kryo5) => {
            let both = reads(Codec::Kryo5Refs);
            return guess(Codec::Kryo5, if both { Confidence::Likely } else { Confidence::Certain });
        }
        Some(0x01) if reads(Codec::Kryo5Refs) => return guess(Codec::Kryo5Refs, Confidence::Certain),
        // Only the class's content shows whether there are references.
        Some(0x01) if names_class(Codec::Kryo5) => return guess(Codec::Kryo5, Confidence::Likely),
        // A text that starts with the character 1 is rarer than a codec with references.
        Some(0x03) if payload.get(1) == Some(&0x01) && reads(Codec::Kryo5Refs) => {
            return guess(Codec::Kryo5Refs, Confidence::Likely);
        }
        Some(0x03) if reads(Codec::Kryo5) => return guess(Codec::Kryo5, Confidence::Certain),
        // Five bytes can also be a Float of Kryo.
        Some(marshalling::VERSION) if payload.len() != 5 && names_class(Codec::Marshalling) => {
            return guess(Codec::Marshalling, Confidence::Certain);
        }
        Some(marshalling::VERSION) if reads(Codec::Marshalling) => {
            return guess(Codec::Marshalling, Confidence::Likely);
        }
        _ => {}
    }
    if let Some((codec, confidence)) = text(payload, settings.max_decoded_size) {
        let (coding, payload) = read(codec);
        // Short texts of CBOR start with a letter.
        let confidence = if codec == Codec::String && reads(Codec::Cbor) { Confidence::Guess } else { confidence };
        return Some(Guess { coding, confidence, payload });
    }
    if matches!(first, Some(0x02..=0x0b)) && reads(Codec::Kryo5) {
        return guess(Codec::Kryo5, Confidence::Guess);
    }
    [Codec::Cbor, Codec::Msgpack].into_iter().find_map(|codec| {
        let (coding, _) = read(codec);
        let kept = Coding { java_types: JavaTypes::Keep, ..coding };
        let typed = decode_named(kept, &Classes::default(), payload).ok()?;
        guess(codec, structure(&typed))
    })
}

/// Returns the confidence that a value gives for a format without a mark.
fn structure(payload: &Payload) -> Confidence {
    match payload.view() {
        View::Json(value) if java_types::present(value) => Confidence::Certain,
        View::Json(Value::Array(_) | Value::Object(_)) => Confidence::Likely,
        View::Text(text) if text.len() > 3 => Confidence::Likely,
        _ => Confidence::Guess,
    }
}

/// Guesses the codec of UTF-8 text without control characters.
fn text(payload: &Bytes, budget: usize) -> Option<(Codec, Confidence)> {
    let text = std::str::from_utf8(payload).ok()?;
    match json::parse(payload, budget) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => {
            return Some((if java_types::present(&value) { Codec::Jackson } else { Codec::Json }, Confidence::Certain));
        }
        Ok(Value::Number(_)) if number::decode(payload).is_ok() => {
            return Some((Codec::Number, Confidence::Likely));
        }
        // Jackson writes text in quotes.
        Ok(Value::String(_)) => return Some((Codec::Jackson, Confidence::Likely)),
        Ok(Value::Bool(_)) => return Some((Codec::Json, Confidence::Guess)),
        _ => {}
    }
    let control = |letter: char| letter.is_control() && !matches!(letter, '\t' | '\n' | '\r');
    (!text.chars().any(control)).then_some((Codec::String, Confidence::Likely))
}

/// Guesses the compression and the codec inside.
fn packed(payload: &Bytes, settings: Coding, classes: &Classes) -> Option<Guess> {
    // A block of Snappy has no mark, so its content must be recognised.
    let marked = |compression| match compression {
        Compression::Zstd => payload.get(4..8) == Some(b"\x28\xb5\x2f\xfd"),
        Compression::Snappy => payload.starts_with(&[0, 0]),
        Compression::Lz4 => payload.len() > 4,
    };
    [Compression::Zstd, Compression::Snappy, Compression::Lz4]
        .into_iter()
        .filter(|compression| marked(*compression))
        .find_map(|compression| unpacked(compression, payload, settings, classes))
        .or_else(|| {
            let guess = unpacked(Compression::Snappy, payload, settings, classes)?;
            (guess.confidence > Confidence::Guess).then_some(Guess { confidence: Confidence::Likely, ..guess })
        })
}

fn unpacked(compression: Compression, payload: &Bytes, settings: Coding, classes: &Classes) -> Option<Guess> {
    let inner = super::compression::unpack(compression, payload, settings.max_decoded_size).ok()?;
    let (codec, confidence) = match plain(&inner, settings, classes) {
        Some(guess) => (guess.coding.codec, guess.confidence),
        None => (Codec::Raw, Confidence::Guess),
    };
    let coding = Coding { compression: Some(compression), codec, ..settings };
    Some(Guess { coding, confidence, payload: decode_named(coding, classes, payload) })
}
