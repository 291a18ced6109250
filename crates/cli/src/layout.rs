//! Redisson's two layouts as arguments.

use clap::ValueEnum;

use super::choice::{Choice, Choices};
use delaybridge_ops::redisson::Layout;

impl Choices for Layout {
    fn all() -> &'static [Choice<Self>] {
        &[Choice(Layout::Old), Choice(Layout::New)]
    }

    fn name(&self) -> (&'static str, &'static str) {
        match self {
            Layout::Old => ("old", "Redisson up to 3.21.0"),
            Layout::New => ("new", "Redisson from 3.21.1 on"),
        }
    }
}

/// A layout, or none named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LayoutArg {
    /// As found in the queue.
    Auto,
    /// Redisson up to 3.21.0.
    Old,
    /// Redisson from 3.21.1 on.
    New,
}

impl LayoutArg {
    /// Returns the layout that was named.
    pub(super) fn layout(self) -> Option<Layout> {
        match self {
            LayoutArg::Auto => None,
            LayoutArg::Old => Some(Layout::Old),
            LayoutArg::New => Some(Layout::New),
        }
    }
}
