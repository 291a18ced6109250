//! Elements of a queue as an operator sees them, a page of a place. Takes nothing, changes nothing.
//!
//! Every read is bounded by count and by bytes, whatever is in the keys. Formats nothing.

use bytes::Bytes;

use super::claims::{Header, Part};
use crate::error::StoreError;
use crate::handle::Ledger;
use crate::packed::{Packed, Shape};
use crate::page::{ANY_SIZE, Kind, Members, members, page_of, redis_now_ms};
use delaybridge_core::message::{Identity, MessageId, Origin};
use delaybridge_link::{Conn, Score};

/// The places of a queue that hold elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The source's schedule.
    Scheduled,
    /// Waits for another attempt, or was released.
    Retry,
    /// Claimed.
    InFlight,
    /// Made ready by the source's own clients.
    Ready,
}

/// The amount of each element that is read over the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// So many bytes, and what is needed to read the header.
    Start(usize),
    /// The same, and nothing at all of a place whose elements have more bytes than this on average: the server reads them whole.
    Small(usize),
    /// Everything.
    All,
}

/// An element, as far as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Identity; none for elements of the ready list, and for what could not be read.
    pub id: Option<Identity>,
    /// Due time in ms; none for what came from the ready list.
    pub due_ms: Option<i64>,
    /// The score: due time, time of the next attempt, or end of the lease; none for the ready list.
    pub score_ms: Option<i64>,
    /// Attempts that counted so far.
    pub attempts: u32,
    /// Code of the last failure; empty for none.
    pub code: String,
    /// The kind of bytes.
    pub shape: Shape,
    /// The exact bytes in Redis, or their beginning.
    pub member: Bytes,
    /// Length of the payload in bytes.
    pub size: usize,
    /// The payload, or its beginning.
    pub payload: Bytes,
}

impl Seen {
    /// Returns whether the payload was read to its end.
    pub fn is_complete(&self) -> bool {
        self.payload.len() == self.size
    }
}

/// Some elements of a place.
#[derive(Debug, Clone)]
pub struct Page {
    /// Redis time in ms.
    pub now_ms: i64,
    /// The number of all elements there.
    pub total: usize,
    /// The elements that were read: at least one unless the end is reached.
    pub seen: Vec<Seen>,
}

/// The longest header that an entry can have (255 sinks), so that it is always read as a whole.
const LONGEST_HEADER: usize = 80 + 8 * 255;

impl Ledger {
    /// Looks at up to `count` elements from the `first` on (0 is the head). Fewer may come where they are large: ask
    /// again from the next.
    ///
    /// # Errors
    ///
    /// Those of the connection; a key of a wrong type is `Server { code: "WRONGKEY" }`.
    pub async fn peek(
        &self,
        conn: &Conn,
        place: Place,
        first: usize,
        count: usize,
        show: Show,
    ) -> Result<Page, StoreError> {
        let shown = match show {
            Show::Start(bytes) | Show::Small(bytes) => {
                bytes.saturating_add(LONGEST_HEADER + self.source.search().overhead())
            }
            Show::All => ANY_SIZE,
        };
        let mean = if matches!(show, Show::Small(_)) { shown } else { ANY_SIZE };
        if place == Place::InFlight {
            let (raw, keys) = self.in_flight_page(conn, first, count, shown).await?;
            let seen = raw.members.into_iter().zip(keys).map(|((score, size, start), key)| {
                let held = if key.part == Part::Bare { Place::Scheduled } else { Place::InFlight };
                Seen { score_ms: Some(key.until_ms), ..self.read(held, score, size, start) }
            });
            return Ok(Page { now_ms: raw.now_ms, total: raw.total, seen: seen.collect() });
        }
        let mut now_ms = 0;
        let mut total = 0;
        let mut seen = Vec::new();
        for (key, kind) in self.places(place) {
            // Of the keys behind the page only the size is asked for.
            let begin = first.saturating_sub(total);
            let raw = page_of(conn, &key, kind, begin, count.saturating_sub(seen.len()), (shown, mean)).await?;
            seen.extend(raw.members.into_iter().map(|(score, size, start)| self.read(place, score, size, start)));
            (now_ms, total) = (raw.now_ms, total + raw.total);
        }
        if now_ms == 0 {
            now_ms = redis_now_ms(conn).await?;
        }
        Ok(Page { now_ms, total, seen })
    }

    /// Reads the members of a place with one key from the `first` on, whole, with the scores (none for a list): at
    /// least one unless the end is reached.
    ///
    /// # Errors
    ///
    /// As for [`peek`](Ledger::peek).
    pub async fn members(&self, conn: &Conn, place: Place, first: usize) -> Result<Members, StoreError> {
        match self.place(place) {
            Some((key, kind)) => members(conn, &key, kind, first).await,
            None => Ok(Members { now_ms: redis_now_ms(conn).await?, members: Vec::new() }),
        }
    }

    /// Returns the key of a place, and what it holds, the first if there are several; `None` for a place that the
    /// source has not, and for what is in flight.
    pub fn place(&self, place: Place) -> Option<(Bytes, Kind)> {
        self.places(place).into_iter().next()
    }

    /// Returns the keys of a place, and what they hold; none for what is in flight.
    fn places(&self, place: Place) -> Vec<(Bytes, Kind)> {
        let (keys, kind) = match place {
            Place::Scheduled => (self.source.schedules(), Kind::Zset),
            Place::Ready => (self.source.ready_lists(), Kind::List),
            Place::Retry => (vec![self.keys.retry.clone()], Kind::Zset),
            // Each claim has keys of its own.
            Place::InFlight => (Vec::new(), Kind::Zset),
        };
        keys.into_iter().map(|key| (key, kind)).collect()
    }

    /// Reads one element of `size` bytes from its beginning.
    pub fn read(&self, place: Place, score: Option<Score>, size: usize, start: Bytes) -> Seen {
        let bare = |id, shape, size, payload| Packed { id, shape, size, payload };
        let member = start.clone();
        let (header, packed) = match place {
            Place::Ready => (None, bare(None, Shape::Bare, size, start)),
            Place::Scheduled => (
                None,
                self.source.search().read(
                    score.map_or(MessageId([0; 8]), |score| self.source.id_from_score(score)),
                    &start,
                    size,
                ),
            ),
            Place::Retry | Place::InFlight => match Header::decode(&start) {
                None => (None, bare(None, Shape::Unknown, size, start)),
                Some((header, at)) => {
                    let element = start.slice(at..);
                    let size = size - at;
                    let packed = match header.origin {
                        Origin::Delayed => self.source.search().read(header.given_id(), &element, size),
                        Origin::Ready => bare(Some(header.given_id().into()), Shape::Bare, size, element),
                    };
                    (Some(header), packed)
                }
            },
        };
        let Packed { id, shape, size, payload } = packed;
        let score_ms = score.map(|score| match place {
            Place::Scheduled => self.source.unit().due_ms(score),
            _ => score.ceil_ms(),
        });
        let scheduled_ms = score_ms.filter(|_| place == Place::Scheduled);
        Seen {
            id,
            due_ms: header.as_ref().map_or(scheduled_ms, Header::due_ms),
            score_ms: score_ms.filter(|_| place != Place::Ready),
            attempts: header.as_ref().map_or(0, |header| header.attempts),
            code: header.as_ref().map_or_else(String::new, |header| header.code().to_owned()),
            shape,
            member,
            size,
            payload,
        }
    }
}
