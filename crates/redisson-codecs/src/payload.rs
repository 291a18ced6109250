//! A payload and what its codec saw in it.

use bytes::Bytes;
use serde_json::Value;

/// A payload whose bytes have been looked at: the bytes as they came, and what the codec saw in them.
///
/// Built only by [`decode`](super::decode()) and [`Payload::opaque`], so that the value always belongs to the bytes.
#[derive(Clone, Debug)]
pub struct Payload {
    bytes: Bytes,
    decoded: Decoded,
    media_type: &'static str,
}

/// The media type of bytes that are nothing more.
pub(super) const OCTETS: &str = "application/octet-stream";

/// What the codec found out. Whatever can is a part of the payload's own memory, not a copy.
#[derive(Clone, Debug)]
pub(super) enum Decoded {
    /// Bytes that nobody looked into; the payload's own, or what it unpacked to.
    Opaque(Bytes),
    /// UTF-8 text that was checked.
    Text(Bytes),
    /// A value, and the JSON text that it was read from.
    Json(Bytes, Value),
    /// A value of a format that is not JSON.
    Value(Value),
}

/// A payload as templates and envelopes see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum View<'a> {
    /// Bytes that nobody looked into.
    Opaque,
    /// Plain text.
    Text(&'a str),
    /// A JSON value; [`Payload::decoded`] is its text.
    Json(&'a Value),
}

impl Payload {
    /// A payload that is not looked into: codec `raw`, or bytes that the codec refused and that go on all the same
    /// (`on_decode_error: forward_raw`).
    pub fn opaque(bytes: Bytes) -> Self {
        Payload { decoded: Decoded::Opaque(bytes.clone()), bytes, media_type: OCTETS }
    }

    pub(super) fn new(bytes: Bytes, decoded: Decoded, media_type: &'static str) -> Self {
        Payload { bytes, decoded, media_type }
    }

    /// The media type of [`bytes`](Payload::bytes), as far as the codec says.
    pub fn media_type(&self) -> &'static str {
        self.media_type
    }

    /// The bytes exactly as they came.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What the codec saw.
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

    /// The decoded value as bytes: plain text as it is, any other value as JSON, and what nobody looked into as it is,
    /// unpacked.
    ///
    /// JSON that came as JSON stays the producer's own text, with its spelling of numbers and its spaces. Only a value
    /// that came in another format is written anew, at every call.
    pub fn decoded(&self) -> Bytes {
        match &self.decoded {
            Decoded::Opaque(bytes) | Decoded::Text(bytes) | Decoded::Json(bytes, _) => bytes.clone(),
            Decoded::Value(Value::String(text)) => Bytes::copy_from_slice(text.as_bytes()),
            Decoded::Value(value) => value.to_string().into(),
        }
    }
}
