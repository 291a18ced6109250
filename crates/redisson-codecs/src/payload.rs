//! A payload and its decoded value.

use bytes::Bytes;
use serde_json::Value;

use super::error::Refusal;

/// The result of a codec: a value, or the offset and the kind of the problem.
pub(super) type Answer = Result<Decoded, Refusal>;

/// A decoded payload: its original bytes and the value in them.
///
/// Created only by [`decode`](crate::decode()), [`guess`](crate::guess()) and [`Payload::opaque`], so that the value
/// always belongs to the bytes. Cheap to create for text and JSON text, which are not copied.
#[derive(Clone, Debug)]
pub struct Payload {
    bytes: Bytes,
    decoded: Decoded,
    media_type: &'static str,
}

/// The media type of arbitrary bytes.
pub(super) const OCTETS: &str = "application/octet-stream";

/// The result of a codec: where possible a part of the payload's own memory, not a copy.
#[derive(Clone, Debug)]
pub(super) enum Decoded {
    /// Bytes, the payload's own or unpacked ones.
    Opaque(Bytes),
    /// Validated UTF-8 text.
    Text(Bytes),
    /// A value, and the JSON text from which it was parsed.
    Json(Bytes, Value),
    /// A value of a format other than JSON.
    Value(Value),
}

/// The value of a payload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum View<'a> {
    /// Only bytes, as `byte[]` or with codec `raw`; [`Payload::decoded`] returns them.
    Opaque,
    /// Plain text.
    Text(&'a str),
    /// Any other value; [`Payload::decoded`] returns its text.
    Json(&'a Value),
}

impl Payload {
    /// Creates a payload that is not decoded, for example because its codec refused it.
    pub fn opaque(bytes: Bytes) -> Self {
        Payload { decoded: Decoded::Opaque(bytes.clone()), bytes, media_type: OCTETS }
    }

    pub(super) fn new(bytes: Bytes, decoded: Decoded, media_type: &'static str) -> Self {
        Payload { bytes, decoded, media_type }
    }

    /// Returns the media type of [`bytes`](Payload::bytes): `application/octet-stream` if the format has none.
    pub fn media_type(&self) -> &'static str {
        self.media_type
    }

    /// Returns the original bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the value.
    pub fn view(&self) -> View<'_> {
        match &self.decoded {
            Decoded::Opaque(_) => View::Opaque,
            // Validated again instead of stored twice: the check is cheaper than a copy, and mostly not needed.
            Decoded::Text(text) => std::str::from_utf8(text).map_or(View::Opaque, View::Text),
            Decoded::Json(_, value) => View::Json(value),
            Decoded::Value(Value::String(text)) => View::Text(text),
            Decoded::Value(value) => View::Json(value),
        }
    }

    /// Reads a text that is a JSON object or list as that.
    pub(super) fn json_in_text(self, budget: usize) -> Result<Payload, Refusal> {
        Ok(Payload { decoded: self.decoded.json_in_text(budget)?, ..self })
    }

    /// Returns the value as bytes: plain text as it is, bytes unpacked, any other value as JSON.
    ///
    /// JSON that came as JSON is the producer's own text, with its spelling of numbers and its spaces. A value of
    /// another format is serialized at every call.
    pub fn decoded(&self) -> Bytes {
        match &self.decoded {
            Decoded::Opaque(bytes) | Decoded::Text(bytes) | Decoded::Json(bytes, _) => bytes.clone(),
            Decoded::Value(Value::String(text)) => Bytes::copy_from_slice(text.as_bytes()),
            Decoded::Value(value) => value.to_string().into(),
        }
    }
}
