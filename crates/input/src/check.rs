//! The findings of `check --live` about an input.

/// The findings of a check that has found nothing wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputCheck {
    /// What is there, in the order in which it was asked for.
    pub found: Vec<String>,
    /// What is worth a warning, with the advice.
    pub drawbacks: Vec<String>,
}
