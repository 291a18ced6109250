//! A row in the table of a kind's errors: the class of a code, what happened, and what a person can do.

use std::fmt::Display;

use delaybridge_core::message::{Class, Failure};

/// An error code of a kind, from the one row that documents it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorRow {
    /// The class of its failures.
    pub class: Class,
    /// The word in logs, metrics and dead letters.
    pub code: &'static str,
    /// The cure, as the reference has it.
    pub cure: &'static str,
}

impl ErrorRow {
    /// Returns the row for a failure of another class.
    pub fn of_class(self, class: Class) -> ErrorRow {
        ErrorRow { class, ..self }
    }

    /// Builds the failure. The text says what was attempted, what happened and what to do.
    pub fn failure(self, text: String) -> Failure {
        Failure::new(self.class, self.code, text)
    }

    /// Builds the failure. The text says what was attempted and what happened; the cure of the row follows it.
    pub fn with_cure(self, text: impl Display) -> Failure {
        let cure = self.cure.strip_prefix("Nothing: ").unwrap_or(self.cure).trim_end_matches('.');
        let mut letters = cure.chars();
        let first = letters.next().map(|first| first.to_ascii_lowercase()).unwrap_or_default();
        self.failure(format!("{text}: {first}{}", letters.as_str()))
    }
}

/// Declares the errors of a kind: a constant for each row, and `CODES` with their causes and cures for the reference.
#[macro_export]
macro_rules! error_table {
    ($($name:ident = $class:ident $code:literal: $cause:expr, $cure:expr;)*) => {
        $(
            pub(super) const $name: $crate::ErrorRow =
                $crate::ErrorRow { class: delaybridge_core::message::Class::$class, code: $code, cure: $cure };
        )*
        pub(super) const CODES: &[delaybridge_core::codes::Code] =
            &[$(delaybridge_core::codes::code($code, $cause, $cure)),*];
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_ends_with_the_cure_of_its_row() {
        fn check(cure: &'static str, expected: &str) {
            let row = ErrorRow { class: Class::Transient, code: "full", cure };
            let failure = row.of_class(Class::Backpressure).with_cure("send to a: it answered 7");
            assert_eq!((failure.class, failure.code), (Class::Backpressure, "full"));
            assert_eq!(failure.message, format!("send to a: it answered 7: {expected}"));
        }
        check("Raise its limit.", "raise its limit");
        check("`x` is too small. Raise it.", "`x` is too small. Raise it");
        check("Nothing: the element is retried.", "the element is retried");
    }
}
