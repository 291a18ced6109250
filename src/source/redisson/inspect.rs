//! What a person wants to see of a queue: who stands where, and where one element is. Takes nothing, changes nothing.
//!
//! Every read is bounded by count and by bytes, whatever lies in the keys. Formats nothing.

use bytes::Bytes;

use super::layout::{self, Layout};
use super::{Redisson, SourceError};
use crate::link::Conn;
use crate::message::{MessageId, Origin};
use crate::source::ledger::Fields;
use crate::source::ledger::Header;

/// The places of a queue that elements stand in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Redisson's sorted set.
    Scheduled,
    /// Waits for another attempt, or was handed back.
    Retry,
    /// Claimed.
    InFlight,
    /// The ready list.
    Ready,
    /// Redisson's list of what is scheduled.
    Listed,
}

/// How much of each element is read over the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// So many bytes, and what is needed to read the header.
    Start(usize),
    /// Everything.
    All,
}

/// What stands at one place, as far as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Identity; none for elements of the ready list, and for what could not be read.
    pub id: Option<MessageId>,
    /// Due time in ms; none for what came from the ready list.
    pub due_ms: Option<i64>,
    /// The score: due time, time of the next attempt, or end of the lease; none for the ready list.
    pub score_ms: Option<i64>,
    /// Attempts that counted so far.
    pub attempts: u32,
    /// Code of the last failure; empty for none.
    pub code: String,
    /// What it is.
    pub shape: Shape,
    /// Length of the payload in bytes.
    pub size: usize,
    /// The payload, or its beginning.
    pub payload: Bytes,
}

impl Seen {
    /// Whether the payload was read to its end.
    pub fn is_complete(&self) -> bool {
        self.payload.len() == self.size
    }
}

/// What the bytes of an element are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// An element of Redisson.
    Packed(Layout),
    /// A payload of the ready list.
    Bare,
    /// Neither layout of Redisson; the payload is all of its bytes.
    Junk,
    /// An entry whose header this version does not know; the payload is all of its bytes.
    Unknown,
}

impl Shape {
    /// The word for a person.
    pub fn as_str(self) -> &'static str {
        match self {
            Shape::Packed(Layout::Old) => "old",
            Shape::Packed(Layout::New) => "new",
            Shape::Bare => "bare",
            Shape::Junk => "junk",
            Shape::Unknown => "unknown",
        }
    }
}

/// Some of what stands at a place.
#[derive(Debug, Clone)]
pub struct Page {
    /// Redis time in ms.
    pub now_ms: i64,
    /// How many stand there in all.
    pub total: usize,
    /// Those that were read: at least one unless the place ends before.
    pub seen: Vec<Seen>,
}

/// Where an element was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The place.
    pub place: Place,
    /// The exact member there.
    pub member: Bytes,
}

/// The longest header that an entry can have (255 sinks), so that it is always read as a whole.
const LONGEST_HEADER: usize = 86 + 8 * 255;
/// Elements at either end of Z whose layout is looked at.
const ENDS: usize = 50;

impl Redisson {
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
    ) -> Result<Page, SourceError> {
        let shown = match show {
            Show::Start(bytes) => bytes.saturating_add(LONGEST_HEADER + layout::FIXED),
            Show::All => usize::MAX >> 12, // exact as a Lua number, and more than a string of Redis can hold
        };
        let raw = self.page(conn, place, first, count, shown).await?;
        let seen = raw.members.into_iter().map(|(score, size, start)| read(place, score, size, start)).collect();
        Ok(Page { now_ms: raw.now_ms, total: raw.total, seen })
    }

    /// The layout of what stands first in Z, as far as it can be told from the first few; `None` for an empty one.
    ///
    /// # Errors
    ///
    /// As for [`peek`](Redisson::peek).
    pub async fn layout_in_use(&self, conn: &Conn) -> Result<Option<Layout>, SourceError> {
        let page = self.peek(conn, Place::Scheduled, 0, 10, Show::Start(0)).await?;
        Ok(page.seen.iter().find_map(|seen| match seen.shape {
            Shape::Packed(layout) => Some(layout),
            _ => None,
        }))
    }

    /// The layouts of what stands first and last in Z, each once: two where elements of both are scheduled, as far as the
    /// ends tell.
    ///
    /// # Errors
    ///
    /// As for [`peek`](Redisson::peek).
    pub async fn layouts_scheduled(&self, conn: &Conn) -> Result<Vec<Layout>, SourceError> {
        let first = self.peek(conn, Place::Scheduled, 0, ENDS, Show::Start(0)).await?;
        let behind = first.total.saturating_sub(ENDS);
        let last = self.peek(conn, Place::Scheduled, behind, ENDS, Show::Start(0)).await?;
        let mut layouts = Vec::new();
        for seen in first.seen.iter().chain(&last.seen) {
            if let Shape::Packed(layout) = seen.shape
                && !layouts.contains(&layout)
            {
                layouts.push(layout);
            }
        }
        Ok(layouts)
    }

    /// Where the element with this id stands; Z, then the retry zset, then in flight. What moves from one to another
    /// meanwhile can be missed. Junk has no id of its own and is not found.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn locate(&self, conn: &Conn, id: MessageId) -> Result<Option<Located>, SourceError> {
        for place in [Place::Scheduled, Place::Retry, Place::InFlight] {
            if let Some(member) = self.scan(conn, place, id).await? {
                return Ok(Some(Located { place, member }));
            }
        }
        Ok(None)
    }

    /// The server compares, so that only what matches travels.
    async fn scan(&self, conn: &Conn, place: Place, id: MessageId) -> Result<Option<Bytes>, SourceError> {
        let literal = glob_literal(&id.0);
        let (patterns, step) = match place {
            // The id stands at the beginning: a mismatch is seen at once, however long the member is.
            Place::Scheduled => (vec![[b"\x08", &literal[..], b"*"].concat(), [&literal[..], b"*"].concat()], 1000),
            // It stands behind a header of variable length: all bytes may be compared, so fewer at a time.
            _ => (vec![[b"*", &literal[..], b"*"].concat()], 100),
        };
        let key = self.key(place);
        for pattern in patterns {
            let mut cursor = Bytes::from_static(b"0");
            loop {
                let mut scan = redis::cmd("ZSCAN");
                scan.arg(&key[..]).arg(&cursor[..]).arg("MATCH").arg(&pattern[..]).arg("COUNT").arg(step);
                let mut fields = Fields::of("ZSCAN", conn.query(&scan).await?)?;
                cursor = fields.bytes()?;
                // Members and scores in turn.
                let found = fields.all_bytes()?;
                let exact = found.into_iter().step_by(2).find(|member| {
                    let seen = read(place, None, member.len(), member.clone());
                    seen.id == Some(id) && seen.shape != Shape::Junk
                });
                if exact.is_some() {
                    return Ok(exact);
                }
                if &cursor[..] == b"0" {
                    break;
                }
            }
        }
        Ok(None)
    }
}

/// Bytes as a pattern that matches themselves and nothing else.
fn glob_literal(bytes: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(2 * bytes.len());
    for &byte in bytes {
        if matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\' | b'^' | b'-') {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern
}

/// Reads one element of `size` bytes from its beginning.
fn read(place: Place, score_ms: Option<i64>, size: usize, start: Bytes) -> Seen {
    let bare = |shape| Seen {
        id: None,
        due_ms: None,
        score_ms,
        attempts: 0,
        code: String::new(),
        shape,
        size,
        payload: start.clone(),
    };
    match place {
        Place::Ready => bare(Shape::Bare),
        Place::Scheduled | Place::Listed => {
            Seen { due_ms: score_ms, score_ms, attempts: 0, code: String::new(), ..packed(&start, size) }
        }
        Place::Retry | Place::InFlight => {
            let Some((header, at)) = Header::decode(&start) else { return bare(Shape::Unknown) };
            let (element, size) = (start.slice(at..), size - at);
            let inner = match header.origin {
                Origin::Delayed => packed(&element, size),
                Origin::Ready => Seen { id: Some(header.given_id()), size, payload: element, ..bare(Shape::Bare) },
            };
            Seen {
                due_ms: header.due_ms(),
                score_ms,
                attempts: header.attempts,
                code: header.code().to_owned(),
                ..inner
            }
        }
    }
}

/// An element as Redisson packs it, or junk. The id of junk is a hash of all its bytes.
fn packed(start: &Bytes, size: usize) -> Seen {
    let seen = |id, shape, size, payload| Seen {
        id,
        due_ms: None,
        score_ms: None,
        attempts: 0,
        code: String::new(),
        shape,
        size,
        payload,
    };
    match layout::parse_start(start, size) {
        Ok(element) => {
            let fixed = if element.layout == Layout::New { 17 } else { 16 };
            seen(Some(element.id), Shape::Packed(element.layout), size - fixed, element.payload)
        }
        Err(_) => {
            let id = (start.len() == size).then(|| layout::junk_id(start));
            seen(id, Shape::Junk, size, start.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_of_any_bytes_matches_only_those_bytes() {
        assert_eq!(glob_literal(b"a*?[]\\^-\x00"), b"a\\*\\?\\[\\]\\\\\\^\\-\x00");
    }

    #[test]
    fn each_place_is_read_as_what_stands_there() {
        let id = MessageId(*b"RANDOM8B");
        let element = layout::pack(Layout::New, id, b"hello");
        let header = Header::redriven(Origin::Delayed, id, 5_000, [0; 8], vec![7]);
        let mut entry = header.encode();
        entry.extend_from_slice(&element);
        let mut given = Header::redriven(Origin::Ready, id, 5_000, [0; 8], vec![]).encode();
        given.extend_from_slice(b"hello");
        let check = |place, bytes: &[u8], shape, id: Option<MessageId>, due_ms| {
            for shown in [bytes.len(), bytes.len() - 3] {
                let start = Bytes::copy_from_slice(&bytes[..shown]);
                let seen = read(place, Some(9_000), bytes.len(), start);
                assert_eq!((seen.shape, seen.id, seen.due_ms), (shape, id, due_ms), "{place:?}");
                assert_eq!((seen.size, seen.is_complete()), (5, shown == bytes.len()));
                assert_eq!(&seen.payload[..], &b"hello"[..5 - (bytes.len() - shown)]);
            }
        };
        check(Place::Scheduled, &element, Shape::Packed(Layout::New), Some(id), Some(9_000));
        check(Place::Retry, &entry, Shape::Packed(Layout::New), Some(id), Some(5_000));
        check(Place::InFlight, &given, Shape::Bare, Some(id), None);
        check(Place::Ready, b"hello", Shape::Bare, None, None);
    }

    #[test]
    fn what_cannot_be_read_is_shown_as_it_is() {
        let junk = read(Place::Scheduled, Some(1), 4, Bytes::from_static(b"junk"));
        assert_eq!((junk.shape, junk.id), (Shape::Junk, Some(layout::junk_id(b"junk"))));
        assert_eq!(read(Place::Scheduled, Some(1), 9, Bytes::from_static(b"junk")).id, None);
        let newer = read(Place::Retry, Some(1), 4, Bytes::from_static(b"\xdb\x02.."));
        assert_eq!((newer.shape, newer.size), (Shape::Unknown, 4));
    }
}
