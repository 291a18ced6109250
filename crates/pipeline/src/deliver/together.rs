//! The extent to which elements of a queue in order go to their sink together. The queue and the sink decide it
//! ([`Queue::together`](crate::queue::Queue::together)).

/// The extent to which elements in order go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Together {
    /// Not at all: each element goes by itself.
    Never,
    /// The next one of each key, in one batch.
    FirstOfKeys,
    /// All of each key, in runs.
    Runs,
}
