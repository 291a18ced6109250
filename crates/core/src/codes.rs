//! The type of an error code with its cause and cure. Each part of the program keeps its own list.

use std::borrow::Cow;

/// One error code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// The word in logs, metrics and dead letters.
    pub code: &'static str,
    /// The cause: what happened.
    pub cause: Cow<'static, str>,
    /// The cure: what a person can do.
    pub cure: Cow<'static, str>,
}

/// The error codes of one part: a section of the reference.
#[derive(Debug, Clone)]
pub struct Codes {
    /// The heading.
    pub title: &'static str,
    /// An introduction to the codes.
    pub text: &'static str,
    /// The codes. Each code is in one list only.
    pub list: Cow<'static, [Code]>,
}

impl Codes {
    /// Creates a section from a fixed list.
    pub const fn of(title: &'static str, text: &'static str, list: &'static [Code]) -> Codes {
        Codes { title, text, list: Cow::Borrowed(list) }
    }
}

/// Creates a code with a fixed cause and cure.
pub const fn code(code: &'static str, cause: &'static str, cure: &'static str) -> Code {
    Code { code, cause: Cow::Borrowed(cause), cure: Cow::Borrowed(cure) }
}

/// The cure of a temporary problem.
pub const AGAIN: &str = "Nothing: the element is retried.";
/// The cure of a defect.
pub const DEFECT: &str = "A defect of delaybridge or of the destination: report it with the log line.";
