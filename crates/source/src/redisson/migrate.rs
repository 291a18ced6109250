//! One layout for all elements of a queue, each in its place.
//!
//! An element's bytes are replaced in place, at the index where they were seen. The index only saves a search.

use std::sync::LazyLock;

use bytes::Bytes;

use super::Redisson;
use super::restore::Moved;
use super::scripts::of_the_command_line;
use delaybridge_ledger::{BATCH_BYTES, StoreError, fitting, text};
use delaybridge_link::{Conn, Fields, Script};

static MIGRATE: LazyLock<Script> =
    LazyLock::new(|| of_the_command_line("migrate", include_str!("scripts/migrate.lua")));

/// An element to convert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repack {
    /// The place where it was seen in L.
    pub place: Option<usize>,
    /// As it is.
    pub was: Bytes,
    /// As it is to be: see [`repacked`](super::repacked).
    pub is: Bytes,
}

impl Redisson {
    /// Converts a batch; returns the outcomes of the first ones. If there are fewer outcomes, send the rest.
    ///
    /// # Errors
    ///
    /// After any error the same batch may be sent again.
    pub async fn migrate(&self, conn: &Conn, batch: &[Repack]) -> Result<Vec<Moved>, StoreError> {
        let keys = [self.keys.delayed.clone(), self.keys.list.clone()];
        let mut args = Vec::with_capacity(3 * batch.len());
        for Repack { place, was, is } in batch {
            args.extend([place.map_or(Bytes::from_static(b"-1"), text), was.clone(), is.clone()]);
        }
        let letters = Fields::of("migrate", conn.script(&MIGRATE, &keys, &args).await?)?.bytes()?;
        Ok(Moved::read("migrate", &letters, batch.len())?)
    }
}

/// Returns the number of these that one script may take, by count and by bytes: at least one, if there is one.
pub fn migrate_end(batch: &[Repack]) -> usize {
    fitting(batch.iter().map(|repack| repack.was.len() + repack.is.len()), 2 * BATCH_BYTES)
}
