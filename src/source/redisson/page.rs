//! The places of a queue as pages of bytes.

use bytes::Bytes;

use super::{Place, Redisson, SourceError};
use crate::link::Conn;
use crate::source::ledger::{Kind, Members, RawPage, members, page};

impl Redisson {
    /// What is at a place from the `first` on, whole, with the scores (none for a list): at least one unless the end is
    /// reached.
    ///
    /// # Errors
    ///
    /// As for [`peek`](Redisson::peek).
    pub async fn members(&self, conn: &Conn, place: Place, first: usize) -> Result<Members, SourceError> {
        members(conn, self.key(place), kind(place), first).await
    }

    /// The same, as bytes: score, size, and the first `shown` bytes of each.
    pub(super) async fn page(
        &self,
        conn: &Conn,
        place: Place,
        first: usize,
        count: usize,
        shown: usize,
    ) -> Result<RawPage, SourceError> {
        page(conn, self.key(place), kind(place), first, count, shown).await
    }

    pub(super) fn key(&self, place: Place) -> &Bytes {
        match place {
            Place::Scheduled => &self.keys.delayed,
            Place::Retry => &self.keys.retry,
            Place::InFlight => &self.keys.in_flight,
            Place::Ready => &self.keys.ready,
            Place::Listed => &self.keys.list,
        }
    }
}

fn kind(place: Place) -> Kind {
    if matches!(place, Place::Ready | Place::Listed) { Kind::List } else { Kind::Zset }
}
