//! Bounds of one script: Redis does nothing else while it runs.

/// Most entries that one script moves.
pub const BATCH_ENTRIES: usize = 500;
/// Most bytes that one script moves; a single larger element is moved alone.
pub const BATCH_BYTES: usize = 1 << 20;

/// Returns the number of items with these sizes that one script may take, by count and by bytes: at least one, if there
/// is one.
pub fn fitting(sizes: impl Iterator<Item = usize>, most: usize) -> usize {
    let mut bytes = 0;
    let fits = |(place, size): &(usize, usize)| {
        bytes += size;
        *place == 0 || bytes <= most
    };
    sizes.take(BATCH_ENTRIES).enumerate().take_while(fits).count()
}
