//! Operations that exist for Redisson only: offers, its two layouts, finding its queues, and the way back to its keys.

pub mod discover;
mod guess;
pub mod migrate;
pub mod offer;
pub mod restore;
mod survey;

use super::session::Queue;
use crate::source::SourceSpec;
use crate::source::redisson::Redisson;
pub use crate::source::redisson::layout::Layout;

impl Queue {
    /// The queue as one of Redisson.
    fn redisson(&self) -> Redisson {
        let spec = &self.spec;
        let SourceSpec::Redisson(source) = &spec.source;
        Redisson::configured(source, [0; 8])
    }
}

/// The word for a layout.
pub fn name(layout: Layout) -> &'static str {
    layout.as_str()
}
