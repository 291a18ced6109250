//! Codec `auto`: which codec wrote a payload, and how sure that is. For those who look, and for queues whose producers
//! use several; a configured codec is never second-guessed.
//!
//! A codec is a candidate only if it reads the payload to its last byte. Formats with a mark of their own, and values
//! with structure, leave no doubt; short text and small numbers can be several things at once.

use bytes::Bytes;
use serde_json::Value;

use super::error::{ClassName, DecodeError, DecodeProblem};
use super::payload::{Payload, View};
use super::{decode, java, marshalling, smile, types};
use crate::config::{Codec, Coding, JavaTypes, Packing};

/// How sure a guess is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sure {
    /// Other codecs could have written the same bytes.
    Guess,
    /// Other codecs could have, but hardly this.
    Likely,
    /// No other codec of Redisson writes such bytes.
    Certain,
}

impl Sure {
    /// The word for a person.
    pub fn as_str(self) -> &'static str {
        match self {
            Sure::Guess => "guess",
            Sure::Likely => "likely",
            Sure::Certain => "certain",
        }
    }
}

/// What a payload seems to be.
#[derive(Clone, Debug)]
pub struct Guess {
    /// The codec.
    pub coding: Coding,
    /// How sure that is.
    pub sure: Sure,
    /// What it reads; or why not, where an object needs its class.
    pub payload: Result<Payload, DecodeError>,
}

/// Guesses which codec wrote `payload`; `settings` says what becomes of class names and how large a value may be.
///
/// None if no codec reads it.
pub fn guess(payload: &Bytes, settings: impl Into<Coding>) -> Option<Guess> {
    let settings = settings.into();
    let plain = plain(payload, settings);
    match plain {
        Some(guess) if guess.sure > Sure::Guess => Some(guess),
        plain => packed(payload, settings).or(plain),
    }
}

fn plain(payload: &Bytes, settings: Coding) -> Option<Guess> {
    let read = |codec| {
        let coding = Coding { packing: None, codec, ..settings };
        (coding, decode(coding, payload))
    };
    let guess = |codec, sure| {
        let (coding, payload) = read(codec);
        Some(Guess { coding, sure, payload })
    };
    let reads = |codec| read(codec).1.is_ok();
    // An object that only Java can read still says which codec wrote it.
    let names_class = |codec| match read(codec).1 {
        Ok(_) => true,
        Err(error) => matches!(error.problem, DecodeProblem::Opaque(class) if class != ClassName::of("")),
    };
    let first = payload.first().copied();
    match first {
        None => return guess(Codec::String, Sure::Guess),
        Some(_) if payload.starts_with(java::MAGIC) && names_class(Codec::Java) => {
            return guess(Codec::Java, Sure::Certain);
        }
        Some(_) if payload.starts_with(smile::MAGIC) && reads(Codec::Smile) => {
            return guess(Codec::Smile, Sure::Certain);
        }
        Some(0x01) if reads(Codec::Kryo5) => return guess(Codec::Kryo5, Sure::Certain),
        Some(0x01) if reads(Codec::Kryo5Refs) => return guess(Codec::Kryo5Refs, Sure::Certain),
        // Whether it has references cannot be told without the class.
        Some(0x01) if names_class(Codec::Kryo5) => return guess(Codec::Kryo5, Sure::Likely),
        // A text that begins with the character 1 is rarer than a codec with references.
        Some(0x03) if payload.get(1) == Some(&0x01) && reads(Codec::Kryo5Refs) => {
            return guess(Codec::Kryo5Refs, Sure::Likely);
        }
        Some(0x03) if reads(Codec::Kryo5) => return guess(Codec::Kryo5, Sure::Certain),
        // Five bytes can be a Float of Kryo.
        Some(marshalling::VERSION) if payload.len() != 5 && names_class(Codec::Marshalling) => {
            return guess(Codec::Marshalling, Sure::Certain);
        }
        Some(marshalling::VERSION) if reads(Codec::Marshalling) => return guess(Codec::Marshalling, Sure::Likely),
        _ => {}
    }
    if let Some((codec, sure)) = text(payload) {
        let (coding, payload) = read(codec);
        // Short texts of CBOR begin with a letter.
        let sure = if codec == Codec::String && reads(Codec::Cbor) { Sure::Guess } else { sure };
        return Some(Guess { coding, sure, payload });
    }
    if matches!(first, Some(0x02..=0x0b)) && reads(Codec::Kryo5) {
        return guess(Codec::Kryo5, Sure::Guess);
    }
    [Codec::Cbor, Codec::Msgpack].into_iter().find_map(|codec| {
        let (coding, _) = read(codec);
        let typed = decode(Coding { java_types: JavaTypes::Keep, ..coding }, payload).ok()?;
        guess(codec, structure(&typed))
    })
}

/// How much a value of a format without a mark says about the format.
fn structure(payload: &Payload) -> Sure {
    match payload.view() {
        View::Json(value) if types::present(value) => Sure::Certain,
        View::Json(Value::Array(_) | Value::Object(_)) => Sure::Likely,
        View::Text(text) if text.len() > 3 => Sure::Likely,
        _ => Sure::Guess,
    }
}

/// The codec of what is UTF-8 and nothing that nobody would write.
fn text(payload: &Bytes) -> Option<(Codec, Sure)> {
    let text = std::str::from_utf8(payload).ok()?;
    match serde_json::from_str(text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => {
            return Some((if types::present(&value) { Codec::Jackson } else { Codec::Json }, Sure::Certain));
        }
        Ok(Value::Number(_)) if decode(Codec::Number, payload).is_ok() => return Some((Codec::Number, Sure::Likely)),
        // Text in quotes is what Jackson makes of text.
        Ok(Value::String(_)) => return Some((Codec::Jackson, Sure::Likely)),
        Ok(Value::Bool(_)) => return Some((Codec::Json, Sure::Guess)),
        _ => {}
    }
    let control = |letter: char| letter.is_control() && !matches!(letter, '\t' | '\n' | '\r');
    (!text.chars().any(control)).then_some((Codec::String, Sure::Likely))
}

/// Whether it unpacks, and to what.
fn packed(payload: &Bytes, settings: Coding) -> Option<Guess> {
    // A block of Snappy has no mark, so it has to hold something that is known.
    let marked = |packing| match packing {
        Packing::Zstd => payload.get(4..8) == Some(b"\x28\xb5\x2f\xfd"),
        Packing::Snappy => payload.starts_with(&[0, 0]),
        Packing::Lz4 => payload.len() > 4,
    };
    [Packing::Zstd, Packing::Snappy, Packing::Lz4]
        .into_iter()
        .filter(|packing| marked(*packing))
        .find_map(|packing| unpacked(packing, payload, settings))
        .or_else(|| {
            let guess = unpacked(Packing::Snappy, payload, settings)?;
            (guess.sure > Sure::Guess).then_some(Guess { sure: Sure::Likely, ..guess })
        })
}

fn unpacked(packing: Packing, payload: &Bytes, settings: Coding) -> Option<Guess> {
    let inner = super::packing::unpack(packing, payload, settings.max_decoded_size).ok()?;
    let (codec, sure) = match plain(&inner, settings) {
        Some(guess) => (guess.coding.codec, guess.sure),
        None => (Codec::Raw, Sure::Guess),
    };
    let coding = Coding { packing: Some(packing), codec, ..settings };
    Some(Guess { coding, sure, payload: decode(coding, payload) })
}
