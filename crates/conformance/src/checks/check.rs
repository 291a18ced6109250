//! The shape of a check.

use crate::bench::{Bench, Stop};
use crate::statements::Number;

/// One situation.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// The name of the check, for a failure of all of it.
    pub name: &'static str,
    /// The statements that it looks at.
    pub about: &'static [Number],
    /// Drives it.
    pub run: fn(&mut Bench) -> Result<(), Stop>,
}
