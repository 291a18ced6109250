//! Conditions on elements, such as `payload.amount > 100 and payload.region in ["eu", "uk"]`: compiled when the configuration is
//! loaded, and tested for every element.
//!
//! Operands are the fields of templates and literals. A comparison with a field that is missing does not hold, also with `!=`. Values
//! of different types are never equal, and none of them is less than the other. Numbers are compared exactly, by their digits.
//!
//! The number of the attempt is no operand: an element that a sink has refused must not find at its next attempt that no destination
//! is meant for it.

mod expression;
mod number;
mod parse;
#[cfg(test)]
mod tests;
mod token;

use std::sync::Arc;

use self::expression::Test;
pub use self::token::{ConditionError, Mistake};
use crate::template::{Field, Filler};

/// A compiled condition.
#[derive(Debug)]
pub struct Condition {
    source: Arc<str>,
    test: Test,
}

impl Condition {
    /// The fields that a condition may name.
    pub const FIELDS: [&'static str; 5] = ["id", "queue", "due_ms", "topic", "payload"];

    /// Maximum length of a condition, in bytes.
    pub const LONGEST: usize = token::LONGEST;

    /// Maximum depth of `not` and parentheses in a condition.
    pub const DEEPEST: usize = token::DEEPEST;

    /// Compiles `text`.
    ///
    /// # Errors
    /// Returns the first mistake, with its column.
    pub fn compile(text: &str) -> Result<Condition, ConditionError> {
        Ok(Condition { source: text.into(), test: parse::parse(text)? })
    }

    /// Returns the original text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns whether the condition holds for an element.
    pub fn holds(&self, element: &Filler<'_>) -> bool {
        self.test.holds(element)
    }

    /// Returns whether the condition reads the payload.
    pub fn uses_payload(&self) -> bool {
        self.test.names(&|field| matches!(field, Field::Payload(_)))
    }

    /// Returns whether the condition reads a field inside the payload, which only a structured codec provides.
    pub fn uses_payload_path(&self) -> bool {
        self.test.names(&|field| matches!(field, Field::Payload(path) if !path.is_empty()))
    }
}
