//! What is offered: bytes, as the codec of the queue's consumers reads them.

use serde::Serialize;

/// The bytes of an element, without what Redisson puts around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload(Vec<u8>);

impl Payload {
    /// Encodes a value as JSON, for consumers with a JSON codec and for the daemon's codec `json`.
    ///
    /// # Errors
    ///
    /// If the value cannot be JSON, such as a map with keys that are no strings.
    pub fn json(value: &impl Serialize) -> Result<Payload, serde_json::Error> {
        serde_json::to_vec(value).map(Payload)
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A text as Redisson's `StringCodec` writes it: its UTF-8, and nothing around it.
impl From<&str> for Payload {
    fn from(text: &str) -> Payload {
        Payload(text.as_bytes().to_vec())
    }
}

/// As for `&str`.
impl From<String> for Payload {
    fn from(text: String) -> Payload {
        Payload(text.into_bytes())
    }
}

/// Bytes that are encoded already.
impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Payload {
        Payload(bytes)
    }
}

/// Bytes that are encoded already.
impl From<&[u8]> for Payload {
    fn from(bytes: &[u8]) -> Payload {
        Payload(bytes.to_vec())
    }
}
