//! Large values are built one at a time.
//!
//! What an element becomes is charged to what may be in flight when it is there ([`growth`](super::growth)). While it is made it
//! takes more: the value, its text, what is unpacked; a few bytes may take as much as `max_decoded_size`. So each thread could need
//! that at the same moment, beside everything that is in flight. Small values need no turn.
//!
//! A plain lock: it is held while one body is made, never over an await, and who holds it waits for nothing.
//!
//! A value that may take more than 1 MiB takes a turn.

use parking_lot::{Mutex, MutexGuard};

/// The bytes that a value may take without a turn.
pub const SMALL: usize = 1 << 20;

/// The turn of a process.
#[derive(Debug, Default)]
pub struct Large(Mutex<()>);

/// The right to build a large value.
#[derive(Debug)]
pub struct LargeTurn<'a> {
    _held: MutexGuard<'a, ()>,
}

impl Large {
    /// Waits until no other large value is being built.
    pub fn turn(&self) -> LargeTurn<'_> {
        LargeTurn { _held: self.0.lock() }
    }
}
