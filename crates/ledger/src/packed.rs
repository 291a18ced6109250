//! An element as a source reads it from its beginning, for a person.

use bytes::Bytes;

use delaybridge_core::message::Identity;

/// The kind of an element's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// An element of the source, in the format with this name.
    Packed(&'static str),
    /// A bare payload.
    Bare,
    /// In no format of the source; the payload is all of its bytes.
    Junk,
    /// An entry with a header that this version does not know; the payload is all of its bytes.
    Unknown,
}

impl Shape {
    /// Returns the word for a person.
    pub fn as_str(self) -> &'static str {
        match self {
            Shape::Packed(format) => format,
            Shape::Bare => "bare",
            Shape::Junk => "junk",
            Shape::Unknown => "unknown",
        }
    }
}

/// The beginning of an element, as its source reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// Identity; none where all bytes are needed for it and were not read.
    pub id: Option<Identity>,
    /// The name of its format, or junk.
    pub shape: Shape,
    /// Length of the payload in bytes.
    pub size: usize,
    /// The payload, or its beginning.
    pub payload: Bytes,
}

/// Escapes bytes to a pattern that matches themselves and nothing else.
pub fn glob_literal(bytes: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(2 * bytes.len());
    for &byte in bytes {
        if matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\' | b'^' | b'-') {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_of_any_bytes_matches_only_those_bytes() {
        assert_eq!(glob_literal(b"a*?[]\\^-\x00"), b"a\\*\\?\\[\\]\\\\\\^\\-\x00");
    }
}
