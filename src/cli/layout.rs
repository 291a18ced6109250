//! Redisson's two layouts as arguments.

use clap::ValueEnum;

use crate::operate::redisson::Layout;

/// A layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LayoutName {
    /// Redisson up to 3.21.0
    Old,
    /// Redisson from 3.21.1 on
    New,
}

impl From<LayoutName> for Layout {
    fn from(name: LayoutName) -> Layout {
        match name {
            LayoutName::Old => Layout::Old,
            LayoutName::New => Layout::New,
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
    /// The layout that was named.
    pub(super) fn layout(self) -> Option<Layout> {
        match self {
            LayoutArg::Auto => None,
            LayoutArg::Old => Some(Layout::Old),
            LayoutArg::New => Some(Layout::New),
        }
    }
}
