//! Redisson's two layouts as arguments.

use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::operate::redisson::Layout;

impl ValueEnum for Layout {
    fn value_variants<'a>() -> &'a [Self] {
        &[Layout::Old, Layout::New]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Layout::Old => PossibleValue::new("old").help("Redisson up to 3.21.0"),
            Layout::New => PossibleValue::new("new").help("Redisson from 3.21.1 on"),
        })
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
    /// The layout that was named.
    pub(super) fn layout(self) -> Option<Layout> {
        match self {
            LayoutArg::Auto => None,
            LayoutArg::Old => Some(Layout::Old),
            LayoutArg::New => Some(Layout::New),
        }
    }
}
