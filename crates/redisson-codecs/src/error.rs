//! The errors of decoding. They say where and what, and never quote the payload.

use std::fmt;

use crate::coding::Coding;

/// The refusal of a payload by a codec: where and why. It quotes nothing of the payload except the name of a Java
/// class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("decode payload as {codec}: {problem} at byte {offset}")]
#[non_exhaustive]
pub struct DecodeError {
    /// The name of the codec, with its compression: [`Coding::as_str`].
    pub codec: &'static str,
    /// Offset in bytes from the start of the payload, 0-based; inside of a compression, from the start of the unpacked
    /// data.
    pub offset: usize,
    /// The problem at this offset.
    pub problem: DecodeProblem,
}

impl DecodeError {
    pub(super) fn new(coding: Coding, refusal: Refusal) -> Self {
        DecodeError { codec: coding.as_str(), offset: refusal.offset, problem: refusal.problem }
    }

    /// Returns whether the payload is an object of a named class that only a program with that class can read: code
    /// `opaque_class`. The payload is valid, so most programs pass it on as bytes ([`Payload::opaque`]).
    ///
    /// [`Payload::opaque`]: crate::Payload::opaque
    pub fn is_opaque(&self) -> bool {
        matches!(&self.problem, DecodeProblem::Opaque(ClassName(Some(_))))
    }

    /// Returns a short code for metrics, logs and programs. Codes are stable across versions.
    ///
    /// | code | meaning |
    /// |---|---|
    /// | `not_utf8`, `not_json`, `json_truncated`, `json_too_deep`, `json_trailing`, `not_number` | no such text |
    /// | `truncated`, `trailing`, `malformed` | not what this codec writes: probably another codec |
    /// | `opaque_class` | an object that only its Java class can read |
    /// | `unsupported` | a part of the format that is not decoded |
    /// | `lone_surrogate` | text with half of a surrogate pair |
    /// | `too_deep`, `too_large` | beyond the limits |
    /// | `not_recognised` | nothing that [`Codec::Auto`](crate::Codec::Auto) recognises |
    pub fn code(&self) -> &'static str {
        match self.problem {
            DecodeProblem::NotUtf8 => "not_utf8",
            DecodeProblem::NotJson => "not_json",
            DecodeProblem::JsonTruncated => "json_truncated",
            DecodeProblem::JsonTooDeep => "json_too_deep",
            DecodeProblem::JsonTrailing => "json_trailing",
            DecodeProblem::NotNumber => "not_number",
            DecodeProblem::Truncated => "truncated",
            DecodeProblem::TooDeep => "too_deep",
            DecodeProblem::Trailing => "trailing",
            DecodeProblem::Malformed(_) => "malformed",
            DecodeProblem::LoneSurrogate => "lone_surrogate",
            DecodeProblem::TooLarge => "too_large",
            DecodeProblem::Opaque(_) => "opaque_class",
            DecodeProblem::Unsupported(_) => "unsupported",
            DecodeProblem::NotRecognised => "not_recognised",
        }
    }
}

/// A problem and its offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) offset: usize,
    pub(super) problem: DecodeProblem,
}

impl Refusal {
    pub(super) fn at(offset: usize, problem: DecodeProblem) -> Self {
        Refusal { offset, problem }
    }
}

/// The kinds of decoding problems.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeProblem {
    /// Invalid UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// Invalid JSON.
    #[error("not JSON")]
    NotJson,
    /// An unfinished JSON value.
    #[error("JSON ends too early")]
    JsonTruncated,
    /// More levels than [`MAX_DEPTH`](crate::MAX_DEPTH).
    #[error("JSON nested deeper than 127 levels")]
    JsonTooDeep,
    /// More than one JSON value.
    #[error("text after the JSON value")]
    JsonTrailing,
    /// Not a decimal number.
    #[error("not a number in decimal digits")]
    NotNumber,
    /// The bytes end within a value.
    #[error("it ends too early")]
    Truncated,
    /// More levels than [`MAX_DEPTH`](crate::MAX_DEPTH).
    #[error("nested deeper than 127 levels")]
    TooDeep,
    /// The value ends before the bytes do.
    #[error("bytes after the value")]
    Trailing,
    /// A byte that is invalid in the format.
    #[error("not {0}")]
    Malformed(&'static str),
    /// An unpaired UTF-16 surrogate, which no Unicode text contains.
    #[error("half of a surrogate pair, which is no character")]
    LoneSurrogate,
    /// The value, or the unpacked payload, exceeds [`Coding::max_decoded_size`].
    #[error("larger than max_decoded_size")]
    TooLarge,
    /// An object that can only be read with its class.
    #[error("an object of the class {0}, which only Java can read")]
    Opaque(ClassName),
    /// A part of the format that has no form in JSON, or that is not decoded.
    #[error("{0}, which is not read")]
    Unsupported(&'static str),
    /// A payload that codec `auto` does not recognise.
    #[error("nothing that any codec recognises")]
    NotRecognised,
}

/// The name of a Java class in a payload.
///
/// The only part of a payload that an error quotes, because its reader needs it. A name consists of identifiers of
/// ASCII letters and digits, separated by dots, and has at most 200 characters; any other text is omitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassName(Option<Box<str>>);

impl ClassName {
    const LONGEST: usize = 200;

    /// Returns the name; `None` if the text in the payload cannot be one.
    pub fn as_str(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Wraps `text` if it can be a class name; otherwise no name is kept.
    pub(super) fn of(text: &str) -> Self {
        ClassName(Self::is_plausible(text).then(|| text.into()))
    }

    /// Returns whether the text has a package, and consists of identifiers.
    pub(super) fn is_plausible(text: &str) -> bool {
        let array = text.trim_start_matches('[');
        let name = if array.len() < text.len() {
            match array.strip_prefix('L').and_then(|name| name.strip_suffix(';')) {
                Some(name) => name,
                None => return matches!(array, "B" | "C" | "D" | "F" | "I" | "J" | "S" | "Z"),
            }
        } else {
            text
        };
        let identifier = |part: &str| {
            part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'))
                && part.bytes().next().is_some_and(|first| !first.is_ascii_digit())
        };
        text.len() <= Self::LONGEST && name.contains('.') && name.split('.').all(identifier)
    }
}

impl fmt::Display for ClassName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str().unwrap_or("(a name that no class has)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_a_class_is_named() {
        for name in
            ["com.example.Order", "a.B$C", "[Lcom.example.Order;", "[[I", "[B", "java.util.Collections$SetFromMap"]
        {
            assert_eq!(ClassName::of(name).to_string(), name);
            assert_eq!(ClassName::of(name).as_str(), Some(name));
        }
        for name in ["", "secret", "4111 1111", "a..B", ".a", "a.b c", "a.\u{e9}", "[", "[Q", "x.1a", &"a.".repeat(200)]
        {
            assert!(ClassName::of(name).to_string().starts_with('('), "{name}");
        }
    }
}
