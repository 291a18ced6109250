//! Redisson's own places as pages of bytes.

use super::Redisson;
use crate::link::Conn;
use crate::source::SourceError;
use crate::source::ledger::{Kind, Members, members};

impl Redisson {
    /// Entries of L from the `first` on, whole: at least one unless the end is reached.
    ///
    /// # Errors
    ///
    /// As for [`members`].
    pub async fn listed(&self, conn: &Conn, first: usize) -> Result<Members, SourceError> {
        members(conn, &self.keys.list, Kind::List, first).await
    }
}
