//! Operations that exist for Redisson only: offers, its two layouts, finding its queues, and the way back to its keys.

pub mod discover;
mod guess;
pub mod migrate;
pub mod offer;
pub mod restore;
mod survey;

use crate::source::redisson::Shape;
pub use crate::source::redisson::layout::Layout;

/// The word for a layout.
pub fn name(layout: Layout) -> &'static str {
    Shape::Packed(layout).as_str()
}
