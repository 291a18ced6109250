//! The value of a field of a record.

use bytes::Bytes;

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// A text or bytes.
    Bytes(Bytes),
    /// A number, in decimal digits.
    Number(String),
    /// Anything else, as it is written in the record; a JSON value as JSON.
    Other(Bytes),
}

impl Field {
    /// Returns the value as bytes.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Field::Bytes(bytes) | Field::Other(bytes) => bytes,
            Field::Number(text) => text.into(),
        }
    }

    /// Returns the value as a whole number, also one that is written as text.
    pub fn number(&self) -> Option<i64> {
        match self {
            Field::Number(text) => text.parse().ok(),
            Field::Bytes(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
            Field::Other(_) => None,
        }
    }
}
