//! Redisson's own places as pages of bytes.

use super::Redisson;
use delaybridge_ledger::{Kind, Members, StoreError, members};
use delaybridge_link::Conn;

impl Redisson {
    /// Reads entries of L from the `first` on, whole: at least one unless the end is reached.
    ///
    /// # Errors
    ///
    /// As for [`members`].
    pub async fn listed(&self, conn: &Conn, first: usize) -> Result<Members, StoreError> {
        members(conn, &self.keys.list, Kind::List, first).await
    }
}
