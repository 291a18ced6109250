//! Bounds of one script: Redis does nothing else while it runs.

/// Most entries that one script moves.
pub const BATCH_ENTRIES: usize = 500;
/// Most bytes that one script moves; a single larger element is moved alone.
pub const BATCH_BYTES: usize = 1 << 20;
