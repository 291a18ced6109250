//! Why a codec refuses a payload. Says where and what, never what it read.

use std::fmt;

use crate::config::Coding;

/// The codec refuses the payload. Says where, never what it read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("decode payload as {codec}: {problem} at byte {offset}")]
pub struct DecodeError {
    /// The name of the codec that refused.
    pub codec: &'static str,
    /// Offset in bytes from the start of the payload, 0-based; behind a compression, from the start of what it unpacks
    /// to.
    pub offset: usize,
    /// What is wrong there.
    pub problem: DecodeProblem,
}

impl DecodeError {
    pub(super) fn new(coding: Coding, refusal: Refusal) -> Self {
        DecodeError { codec: coding.as_str(), offset: refusal.offset, problem: refusal.problem }
    }

    /// Whether it is an object as the codec writes them, with the name of its class, but one that only a program with that
    /// class can read. It goes on as bytes: there is nothing that anybody could mend.
    pub fn is_opaque(&self) -> bool {
        matches!(&self.problem, DecodeProblem::Opaque(ClassName(Some(_))))
    }

    /// Short stable code, safe as a metric label and in dead letters.
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

/// An offset and what is wrong there.
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

/// The ways in which bytes are not what the codec reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeProblem {
    /// A byte that UTF-8 does not have there.
    #[error("not UTF-8")]
    NotUtf8,
    /// A byte that JSON does not have there.
    #[error("not JSON")]
    NotJson,
    /// The JSON value is not finished.
    #[error("JSON ends too early")]
    JsonTruncated,
    /// More levels than anybody means; a bound on our stack.
    #[error("JSON nested deeper than 127 levels")]
    JsonTooDeep,
    /// More than one JSON value.
    #[error("text after the JSON value")]
    JsonTrailing,
    /// No decimal number.
    #[error("not a number in decimal digits")]
    NotNumber,
    /// The bytes end within a value.
    #[error("it ends too early")]
    Truncated,
    /// More levels than anybody means; a bound on our stack.
    #[error("nested deeper than 127 levels")]
    TooDeep,
    /// The value ends before the bytes do.
    #[error("bytes after the value")]
    Trailing,
    /// A byte that the format does not have there.
    #[error("not {0}")]
    Malformed(&'static str),
    /// Half of a pair of UTF-16: no text has it, and JSON could not say it.
    #[error("half of a surrogate pair, which is no character")]
    LoneSurrogate,
    /// The value, or what is unpacked, is larger than it may be.
    #[error("larger than max_decoded_size")]
    TooLarge,
    /// An object that can only be read with its class at hand.
    #[error("an object of the class {0}, which only Java can read")]
    Opaque(ClassName),
    /// Something of the format that has no form in JSON, or that is not read.
    #[error("{0}, which is not read")]
    Unsupported(&'static str),
    /// Nothing that codec `auto` knows.
    #[error("nothing that any codec recognises")]
    NotRecognised,
}

/// The name of a Java class that stood in a payload.
///
/// The one thing that an error takes out of a payload, so that the user knows what to do about it. It is made only of
/// what can be a class's name: identifiers of ASCII letters and digits with dots between, 200 characters at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassName(Option<Box<str>>);

impl ClassName {
    const LONGEST: usize = 200;

    /// The name, if `text` can be one; else one that says that there is none.
    pub(super) fn of(text: &str) -> Self {
        ClassName(Self::is_plausible(text).then(|| text.into()))
    }

    /// Whether it has a package, and consists of identifiers.
    pub(super) fn is_plausible(text: &str) -> bool {
        let array = text.trim_start_matches('[');
        let name = match array.len() < text.len() {
            true => match array.strip_prefix('L').and_then(|name| name.strip_suffix(';')) {
                Some(name) => name,
                None => return matches!(array, "B" | "C" | "D" | "F" | "I" | "J" | "S" | "Z"),
            },
            false => text,
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
        f.write_str(self.0.as_deref().unwrap_or("(a name that no class has)"))
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
        }
        for name in ["", "secret", "4111 1111", "a..B", ".a", "a.b c", "a.\u{e9}", "[", "[Q", "x.1a", &"a.".repeat(200)]
        {
            assert!(ClassName::of(name).to_string().starts_with('('), "{name}");
        }
    }
}
