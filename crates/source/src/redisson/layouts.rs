//! The layouts that the elements of a queue have.

use super::Redisson;
use super::layout::Layout;
use delaybridge_ledger::{Place, Shape, Show, StoreError};
use delaybridge_link::Conn;

/// Elements at either end of Z whose layout is read.
const ENDS: usize = 50;

impl Redisson {
    /// Reads the layout of the first elements of Z, as far as the first few show it; `None` for an empty one.
    ///
    /// # Errors
    ///
    /// As for [`peek`](super::Ledger::peek).
    pub async fn layout_in_use(&self, conn: &Conn) -> Result<Option<Layout>, StoreError> {
        let page = self.peek(conn, Place::Scheduled, 0, 10, Show::Start(0)).await?;
        Ok(page.seen.iter().find_map(|seen| layout(seen.shape)))
    }

    /// Reads the layouts of the first and last elements of Z, each once: two if elements of both are scheduled, as far
    /// as the ends show.
    ///
    /// # Errors
    ///
    /// As for [`peek`](super::Ledger::peek).
    pub async fn layouts_scheduled(&self, conn: &Conn) -> Result<Vec<Layout>, StoreError> {
        let first = self.peek(conn, Place::Scheduled, 0, ENDS, Show::Start(0)).await?;
        let behind = first.total.saturating_sub(ENDS);
        let last = self.peek(conn, Place::Scheduled, behind, ENDS, Show::Start(0)).await?;
        let mut layouts = Vec::new();
        for layout in first.seen.iter().chain(&last.seen).filter_map(|seen| layout(seen.shape)) {
            if !layouts.contains(&layout) {
                layouts.push(layout);
            }
        }
        Ok(layouts)
    }
}

fn layout(shape: Shape) -> Option<Layout> {
    [Layout::Old, Layout::New].into_iter().find(|layout| shape == Shape::Packed(layout.as_str()))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use crate::redisson::layout::{self, Layout};
    use crate::redisson::{ListCleanup, RedissonSource};
    use delaybridge_core::message::{Identity, MessageId, Origin};
    use delaybridge_ledger::claims::Header;
    use delaybridge_ledger::{Ledger, Place, Shape, junk_id};
    use delaybridge_link::{KeySpace, Score};

    fn ledger() -> Ledger {
        Ledger::new(
            std::sync::Arc::new(RedissonSource::new(&KeySpace::default(), "q", true, true, ListCleanup::Auto)),
            [0; 8],
        )
    }

    #[test]
    fn each_place_is_read_with_its_own_format() {
        let id = MessageId(*b"RANDOM8B");
        let element = layout::pack(Layout::New, id, b"hello");
        let header = Header::redriven(Origin::Delayed, id, 5_000, vec![7]);
        let mut entry = header.encode();
        entry.extend_from_slice(&element);
        let mut given = Header::redriven(Origin::Ready, id, 5_000, vec![]).encode();
        given.extend_from_slice(b"hello");
        let check = |place, bytes: &[u8], shape, id: Option<MessageId>, due_ms| {
            for shown in [bytes.len(), bytes.len() - 3] {
                let start = Bytes::copy_from_slice(&bytes[..shown]);
                let seen = ledger().read(place, Some(Score::of_ms(9_000)), bytes.len(), start);
                assert_eq!(
                    (seen.shape, seen.id.clone(), seen.due_ms),
                    (shape, id.map(Identity::from), due_ms),
                    "{place:?}"
                );
                assert_eq!((seen.size, seen.is_complete()), (5, shown == bytes.len()));
                assert_eq!(&seen.payload[..], &b"hello"[..5 - (bytes.len() - shown)]);
            }
        };
        check(Place::Scheduled, &element, Shape::Packed("new"), Some(id), Some(9_000));
        check(Place::Retry, &entry, Shape::Packed("new"), Some(id), Some(5_000));
        check(Place::InFlight, &given, Shape::Bare, Some(id), None);
        check(Place::Ready, b"hello", Shape::Bare, None, None);
    }

    #[test]
    fn what_cannot_be_read_is_shown_as_it_is() {
        let junk = ledger().read(Place::Scheduled, Some(Score::of_ms(1)), 4, Bytes::from_static(b"junk"));
        assert_eq!((junk.shape, junk.id), (Shape::Junk, Some(junk_id(b"junk").into())));
        assert_eq!(ledger().read(Place::Scheduled, Some(Score::of_ms(1)), 9, Bytes::from_static(b"junk")).id, None);
        let newer = ledger().read(Place::Retry, Some(Score::of_ms(1)), 4, Bytes::from_static(b"\xdb\x02.."));
        assert_eq!((newer.shape, newer.size), (Shape::Unknown, 4));
    }
}
