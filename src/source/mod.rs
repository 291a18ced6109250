//! Where elements come from.
pub mod redisson;
