//! Redisson's two layouts as arguments.

use clap::ValueEnum;

use super::Layout;

/// A layout that Redisson's clients read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ClientLayout {
    /// Redisson up to 3.21.0
    Old,
    /// Redisson from 3.21.1 on
    New,
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

impl From<ClientLayout> for Layout {
    fn from(layout: ClientLayout) -> Layout {
        match layout {
            ClientLayout::Old => Layout::Old,
            ClientLayout::New => Layout::New,
        }
    }
}

impl LayoutArg {
    /// Returns the layout that was named.
    pub fn layout(self) -> Option<Layout> {
        match self {
            LayoutArg::Auto => None,
            LayoutArg::Old => Some(Layout::Old),
            LayoutArg::New => Some(Layout::New),
        }
    }
}
