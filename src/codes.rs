//! Error codes with their cause and cure: the type of the entries. Each part of the program keeps its own list.

use std::borrow::Cow;

/// One code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// The word in logs, metrics and dead letters.
    pub code: &'static str,
    /// What happened.
    pub cause: Cow<'static, str>,
    /// What a person can do.
    pub cure: Cow<'static, str>,
}

/// The codes of one part: a section of the reference.
#[derive(Debug, Clone)]
pub struct Codes {
    /// The heading.
    pub title: &'static str,
    /// What they have in common.
    pub text: &'static str,
    /// The codes; a code is in one list only.
    pub list: Cow<'static, [Code]>,
}

impl Codes {
    /// A section of a fixed list.
    pub const fn of(title: &'static str, text: &'static str, list: &'static [Code]) -> Codes {
        Codes { title, text, list: Cow::Borrowed(list) }
    }
}

/// A code with a fixed cause and cure.
pub const fn code(code: &'static str, cause: &'static str, cure: &'static str) -> Code {
    Code { code, cause: Cow::Borrowed(cause), cure: Cow::Borrowed(cure) }
}

/// The cure of what goes away.
pub const AGAIN: &str = "Nothing: the element is retried.";
/// The cure of what should not happen.
pub const DEFECT: &str = "A defect of delaybridge or of the destination: please report it with the log line.";
