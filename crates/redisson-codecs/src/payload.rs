//! A payload and its decoded value.

use bytes::Bytes;
use serde_json::Value;

/// A decoded payload: its bytes as they came, and the value in them.
///
/// Made only by [`decode`](crate::decode()), [`guess`](crate::guess()) and [`Payload::opaque`], so that the value always
/// belongs to the bytes. Cheap to make for text and JSON text, which stay where they are in the bytes.
#[derive(Clone, Debug)]
pub struct Payload {
    bytes: Bytes,
    decoded: Decoded,
    media_type: &'static str,
}

/// The media type of bytes that are nothing more.
pub(super) const OCTETS: &str = "application/octet-stream";

/// What the codec found. Where possible a part of the payload's own memory, not a copy.
#[derive(Clone, Debug)]
pub(super) enum Decoded {
    /// Bytes, the payload's own or what they unpack to.
    Opaque(Bytes),
    /// UTF-8 text that was checked.
    Text(Bytes),
    /// A value, and the JSON text that it was read from.
    Json(Bytes, Value),
    /// A value of a format that is not JSON.
    Value(Value),
}

/// The value of a payload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum View<'a> {
    /// Bytes and nothing else, as `byte[]` or with codec `raw`; [`Payload::decoded`] has them.
    Opaque,
    /// Plain text.
    Text(&'a str),
    /// Any other value; [`Payload::decoded`] has its text.
    Json(&'a Value),
}

impl Payload {
    /// A payload that is not decoded, for example because its codec refused it.
    pub fn opaque(bytes: Bytes) -> Self {
        Payload { decoded: Decoded::Opaque(bytes.clone()), bytes, media_type: OCTETS }
    }

    pub(super) fn new(bytes: Bytes, decoded: Decoded, media_type: &'static str) -> Self {
        Payload { bytes, decoded, media_type }
    }

    /// The media type of [`bytes`](Payload::bytes): `application/octet-stream` where the format has none.
    pub fn media_type(&self) -> &'static str {
        self.media_type
    }

    /// The bytes exactly as they came.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The value.
    pub fn view(&self) -> View<'_> {
        match &self.decoded {
            Decoded::Opaque(_) => View::Opaque,
            // Checked again instead of kept a second time: the check is cheaper than the copy, and mostly not asked for.
            Decoded::Text(text) => std::str::from_utf8(text).map_or(View::Opaque, View::Text),
            Decoded::Json(_, value) => View::Json(value),
            Decoded::Value(Value::String(text)) => View::Text(text),
            Decoded::Value(value) => View::Json(value),
        }
    }

    /// The value as bytes: plain text as it is, any other value as JSON, bytes as they are, unpacked.
    ///
    /// JSON that came as JSON is the producer's own text, with its spelling of numbers and its spaces. A value that came
    /// in another format is serialized at every call.
    pub fn decoded(&self) -> Bytes {
        match &self.decoded {
            Decoded::Opaque(bytes) | Decoded::Text(bytes) | Decoded::Json(bytes, _) => bytes.clone(),
            Decoded::Value(Value::String(text)) => Bytes::copy_from_slice(text.as_bytes()),
            Decoded::Value(value) => value.to_string().into(),
        }
    }
}
