//! Elements as claims hold them, and the header of those that have a history.
//!
//! A bare element is exactly what the foreign program wrote. An entry is a header of ours, then the untouched element: what
//! failed, was released, or came from a place without ids. Little-endian, one layout for each version. For readers with
//! redis-cli:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 2 | `db 01`: magic and version |
//! | 2 | 2 | length of the header, where the element begins |
//! | 4 | 4 | attempts that count |
//! | 8 | 1 | origin: `D` sorted set, `R` ready list |
//! | 9 | 1 | class of the last failure, 0 for none, else its place in [`Class::ALL`] plus 1 |
//! | 10 | 1 | number of sinks that have confirmed |
//! | 11 | 1 | 1 if a sink may have had the element, else 0; the other bits are reserved, 0 |
//! | 12 | 8 | owner: random, one for each process |
//! | 20 | 8 | number of the claim in which that owner wrote the header |
//! | 28 | 4 | place in that claim, from 1 |
//! | 32 | 8 | id, for origin `R`; for `D` what the source keeps of the score: zero where scores are ms, else the score, a double, its
//! highest byte first |
//! | 40 | 8 | due time in ms for `D`; time of the first claim for `R` |
//! | 48 | 8 | time of the first attempt in ms, 0 for none |
//! | 56 | 8 | time of the last attempt in ms, 0 for none |
//! | 64 | 16 | code of the last failure, padded with NUL |
//! | 80 | 8 each | [`sink_hash`] of the sinks that have confirmed, and [`RECORD_PENDING`] |
//!
//! Owner, claim number and place make two entries with the same element different members.

use bytes::Bytes;

use crate::batch::BATCH_BYTES;
use crate::body::Body;
use crate::payload::{Junk, junk_id};
use delaybridge_core::message::{Class, Identity, MessageId, Origin};
use delaybridge_link::Score;

const MAGIC: [u8; 2] = [0xdb, 1];
const FIXED: usize = 80;
const CODE: usize = 16;

/// The writer of a header: unique among all entries of all time, short of a collision of random owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Writer {
    /// The process.
    pub owner: [u8; 8],
    /// The claim.
    pub claim: u64,
    /// Place of the element in that claim, from 1.
    pub place: u32,
}

/// The header of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Attempts that count towards `max_attempts`.
    pub attempts: u32,
    /// The place that the element was first claimed from.
    pub origin: Origin,
    /// Class of the last failure.
    pub class: Option<Class>,
    /// A sink may have had the element: an answer was ambiguous or never came, or a lease ran out.
    pub doubt: bool,
    /// The writer.
    pub writer: Writer,
    /// Id given at the claim, for elements of the ready list; for others what the source keeps of the score.
    given_id: [u8; 8],
    /// Due time in ms, or time of the first claim for elements of the ready list.
    pub time_ms: i64,
    /// Time of the first attempt in ms; 0 for none.
    pub first_attempt_ms: i64,
    /// Time of the last attempt in ms; 0 for none.
    pub last_attempt_ms: i64,
    /// Code of the last failure.
    code: [u8; CODE],
    /// [`sink_hash`] of every sink that has confirmed.
    pub confirmed: Vec<u64>,
    /// Stands for a header that cannot be read.
    damaged: bool,
}

/// Stands among the sinks that have confirmed: all that are meant for the element have, and only the record of its delivery is
/// missing.
pub const RECORD_PENDING: u64 = 0;

/// Returns the name of a sink as the header keeps it: not its position, because the configuration may change between
/// attempts.
pub fn sink_hash(name: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(name.as_bytes())
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    Some(*bytes.get(at..)?.first_chunk::<N>()?)
}

impl Header {
    /// Creates the header of an element of the sorted set that has no history.
    pub fn new(due_ms: i64) -> Self {
        Header::redriven(Origin::Delayed, MessageId([0; 8]), due_ms, Vec::new())
    }

    /// Creates a header as a redriven dead letter gets it: a new life of the same element, with what is known of it.
    pub fn redriven(origin: Origin, id: MessageId, time_ms: i64, confirmed: Vec<u64>) -> Self {
        Header {
            attempts: 0,
            origin,
            class: None,
            doubt: false,
            writer: Writer::default(),
            given_id: id.0,
            time_ms,
            first_attempt_ms: 0,
            last_attempt_ms: 0,
            code: [0; CODE],
            confirmed,
            damaged: false,
        }
    }

    /// Returns the id given at the claim, for elements of the ready list, because their bytes carry none. For others
    /// what the source keeps of the score ([`Source::given`](crate::Source::given)).
    pub fn given_id(&self) -> MessageId {
        MessageId(self.given_id)
    }

    /// Returns the score that the element had, where the source keeps it.
    pub fn kept_score(&self) -> Option<Score> {
        let kept = self.origin == Origin::Delayed && self.given_id != [0; 8];
        kept.then(|| Score::from_bytes(self.given_id)).flatten()
    }

    /// Returns the code of the last failure; empty for none.
    pub fn code(&self) -> &str {
        let end = self.code.iter().position(|&b| b == 0).unwrap_or(CODE);
        self.code.get(..end).and_then(|code| std::str::from_utf8(code).ok()).unwrap_or("")
    }

    /// Notes the last failure; a code longer than 16 bytes is cut.
    pub fn set_failure(&mut self, class: Class, code: &str) {
        self.class = Some(class);
        self.code = [0; CODE];
        for (to, from) in self.code.iter_mut().zip(code.bytes()) {
            *to = from;
        }
    }

    /// Returns the due time by Redis's clock; `None` for elements of the ready list.
    pub fn due_ms(&self) -> Option<i64> {
        (self.origin == Origin::Delayed).then_some(self.time_ms)
    }

    /// Notes that a sink has confirmed; more than 255 are not kept (the configuration allows fewer).
    pub fn confirm(&mut self, sink: u64) {
        if !self.confirmed.contains(&sink) && self.confirmed.len() < 255 {
            self.confirmed.push(sink);
        }
    }

    /// Returns the length in bytes.
    pub fn size(&self) -> usize {
        FIXED + 8 * self.confirmed.len()
    }

    /// Returns the bytes in front of the element.
    pub fn encode(&self) -> Vec<u8> {
        let len = self.size();
        let mut out = Vec::with_capacity(len);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&(len as u16).to_le_bytes());
        out.extend_from_slice(&self.attempts.to_le_bytes());
        out.push(match self.origin {
            Origin::Delayed => b'D',
            Origin::Ready => b'R',
        });
        out.push(self.class.and_then(|c| Class::ALL.iter().position(|&x| x == c)).map_or(0, |i| i as u8 + 1));
        out.push(self.confirmed.len() as u8);
        out.push(self.doubt.into());
        out.extend_from_slice(&self.writer.owner);
        out.extend_from_slice(&self.writer.claim.to_le_bytes());
        out.extend_from_slice(&self.writer.place.to_le_bytes());
        out.extend_from_slice(&self.given_id);
        out.extend_from_slice(&self.time_ms.to_le_bytes());
        out.extend_from_slice(&self.first_attempt_ms.to_le_bytes());
        out.extend_from_slice(&self.last_attempt_ms.to_le_bytes());
        out.extend_from_slice(&self.code);
        for sink in &self.confirmed {
            out.extend_from_slice(&sink.to_le_bytes());
        }
        out
    }

    /// Reads the header at the beginning of a member, and where the element begins. `None` for anything that this
    /// version did not write.
    pub fn decode(member: &[u8]) -> Option<(Header, usize)> {
        if field(member, 0)? != MAGIC {
            return None;
        }
        let len = usize::from(u16::from_le_bytes(field(member, 2)?));
        let sinks = usize::from(*member.get(10)?);
        if len != FIXED + 8 * sinks || member.len() < len {
            return None;
        }
        let header = Header {
            attempts: u32::from_le_bytes(field(member, 4)?),
            origin: match member.get(8)? {
                b'D' => Origin::Delayed,
                b'R' => Origin::Ready,
                _ => return None,
            },
            class: match member.get(9)? {
                0 => None,
                n => Some(*Class::ALL.get(usize::from(*n) - 1)?),
            },
            doubt: member.get(11)? & 1 == 1,
            writer: Writer {
                owner: field(member, 12)?,
                claim: u64::from_le_bytes(field(member, 20)?),
                place: u32::from_le_bytes(field(member, 28)?),
            },
            given_id: field(member, 32)?,
            time_ms: i64::from_le_bytes(field(member, 40)?),
            first_attempt_ms: i64::from_le_bytes(field(member, 48)?),
            last_attempt_ms: i64::from_le_bytes(field(member, 56)?),
            code: field(member, 64)?,
            confirmed: (0..sinks)
                .map(|i| field(member, FIXED + 8 * i).map(u64::from_le_bytes))
                .collect::<Option<_>>()?,
            damaged: false,
        };
        Some((header, len))
    }
}

/// The key of a claim that holds a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// `d`: bare elements.
    Bare,
    /// `h`: entries, with a header.
    Entries,
}

/// One element as a claim holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// The exact member of the claim's key.
    pub member: Bytes,
    /// The time that its score means there, in ms: the due time of a bare element (rounded up), the time of this attempt of
    /// an entry.
    pub score_ms: i64,
    /// Of a bare element, what the source keeps of its score.
    given: MessageId,
    /// The history of earlier attempts; none for a bare element.
    pub header: Option<Box<Header>>,
    /// The body as far as it was found; none where the source keeps no bodies beside its elements. Boxed, because most elements
    /// have none, and all of them have the place.
    pub body: Option<Box<Body>>,
}

impl Element {
    /// Creates a bare element.
    pub fn bare(member: Bytes, due_ms: i64) -> Self {
        Element { member, score_ms: due_ms, given: MessageId([0; 8]), header: None, body: None }
    }

    /// Sets what the source keeps of its score.
    pub fn given(self, given: MessageId) -> Self {
        Element { given, ..self }
    }

    /// Reads an entry. `None` for one of a version that this one does not know.
    pub fn entry(member: Bytes, score_ms: i64) -> Option<Self> {
        let (header, _) = Header::decode(&member)?;
        Some(Element { member, score_ms, given: header.given_id(), header: Some(Box::new(header)), body: None })
    }

    /// Returns an entry of this version with a header that cannot be read: something has damaged it. All of its bytes
    /// are the element, which is junk. `None` for any other entry.
    pub fn damaged(member: Bytes, score_ms: i64) -> Option<Self> {
        if !member.starts_with(&MAGIC) || Header::decode(&member).is_some() {
            return None;
        }
        let header = Header { damaged: true, ..Header::new(score_ms) };
        Some(Element { member, score_ms, given: header.given_id(), header: Some(Box::new(header)), body: None })
    }

    /// Returns whether it is what [`damaged`](Element::damaged) makes: it can become a dead letter, and nothing else.
    pub fn is_damaged(&self) -> bool {
        self.header.as_ref().is_some_and(|header| header.damaged)
    }

    /// Returns the identity of a damaged entry, and the reason why it has no payload.
    pub fn as_junk(&self) -> (Identity, Junk) {
        let problem = "the header of the entry is damaged; all bytes of the entry are kept as the element";
        (junk_id(&self.bytes()).into(), Junk(problem.to_owned()))
    }

    /// Returns the key of the claim that holds the element.
    pub fn part(&self) -> Part {
        if self.header.is_some() { Part::Entries } else { Part::Bare }
    }

    /// Returns the bytes that the foreign program wrote; they share the member's memory.
    pub fn bytes(&self) -> Bytes {
        let begin = self.header.as_ref().filter(|header| !header.damaged).map_or(0, |header| header.size());
        self.member.slice(begin..)
    }

    /// Returns the place that it was first claimed from.
    pub fn origin(&self) -> Origin {
        self.header.as_ref().map_or(Origin::Delayed, |header| header.origin)
    }

    /// Returns the id that was given, as [`Header::given_id`] does.
    pub fn given_id(&self) -> MessageId {
        self.given
    }

    /// Returns the due time by Redis's clock; `None` for elements of the ready list.
    pub fn due_ms(&self) -> Option<i64> {
        self.header.as_ref().map_or(Some(self.score_ms), |header| header.due_ms())
    }

    /// Returns the number of attempts that counted so far.
    pub fn attempts(&self) -> u32 {
        self.header.as_ref().map_or(0, |header| header.attempts)
    }

    /// Returns whether a sink may have had it in an attempt that did not count.
    pub fn is_doubtful(&self) -> bool {
        self.header.as_ref().is_some_and(|header| header.doubt)
    }

    /// Returns the header, or the one that the element would get.
    pub fn header(&self) -> Header {
        let new = || Header::redriven(Origin::Delayed, self.given, self.score_ms, Vec::new());
        self.header.as_ref().map_or_else(new, |header| (**header).clone())
    }

    /// Returns the bytes of its body, if they were read.
    pub fn body_bytes(&self) -> Option<&Bytes> {
        match self.body.as_deref() {
            Some(Body::Here { bytes, .. }) => Some(bytes),
            _ => None,
        }
    }

    /// Returns the memory that it takes: its member, and its body.
    pub fn weight(&self) -> usize {
        self.member.len() + self.body_bytes().map_or(0, Bytes::len)
    }

    /// Returns the room that it takes in what may be in flight: see [`room_of`].
    pub fn room(&self) -> u64 {
        room_of(self.weight() as u64)
    }

    /// Returns the member that it becomes under another header.
    pub fn under(&self, header: &Header) -> Bytes {
        let mut member = header.encode();
        member.extend_from_slice(&self.bytes());
        member.into()
    }
}

/// Returns the room of an element of this many bytes. A large one is read and written by itself, and each time the
/// client library of Redis has two copies of it more: in its buffer, and as a value or a command. Of small ones it has
/// a megabyte at a time.
pub fn room_of(bytes: u64) -> u64 {
    if bytes > BATCH_BYTES as u64 { bytes.saturating_mul(3) } else { bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Header {
        let mut header = Header::redriven(Origin::Ready, MessageId(*b"RANDOM8B"), 1_795_251_632_252, vec![1, 2]);
        header.attempts = 3;
        header.doubt = true;
        header.writer = Writer { owner: [9; 8], claim: 11, place: 4 };
        header.first_attempt_ms = 5;
        header.last_attempt_ms = 6;
        header.set_failure(Class::Ambiguous, "timeout");
        header
    }

    #[test]
    fn a_header_reads_back_as_it_was_written() {
        let header = sample();
        let mut member = header.encode();
        assert_eq!((member.len(), header.size()), (80 + 16, 96));
        member.extend_from_slice(b"element");
        let element = Element::entry(member.into(), 7).unwrap();
        assert_eq!(element.header.as_deref(), Some(&header));
        assert_eq!(header.code(), "timeout");
        assert_eq!(&element.bytes()[..], b"element");
        assert_eq!(element.under(&header), element.member);
        assert_eq!((element.due_ms(), element.given_id(), element.part()), (None, header.given_id(), Part::Entries));
    }

    #[test]
    fn a_bare_element_has_the_header_that_it_would_get() {
        let element = Element::bare(Bytes::from_static(b"\xdb\x01 looks like a header"), 77);
        assert_eq!((element.bytes(), element.due_ms(), element.attempts()), (element.member.clone(), Some(77), 0));
        assert_eq!(Header::decode(&element.header().encode()).unwrap().0, Header::new(77));
    }

    #[test]
    fn what_this_version_did_not_write_is_not_read() {
        let good = sample().encode();
        assert!(Header::decode(&good).is_some());
        for at in [0, 1, 2, 8, 9, 10] {
            let mut bad = good.clone();
            bad[at] = 99;
            assert!(Header::decode(&bad).is_none(), "byte {at}");
        }
        for len in 0..good.len() {
            assert!(Header::decode(&good[..len]).is_none(), "cut to {len}");
        }
    }

    #[test]
    fn all_bytes_of_a_damaged_entry_are_the_element() {
        let mut bytes = sample().encode();
        assert_eq!(Element::damaged(bytes.clone().into(), 7), None);
        bytes[8] = b'?';
        let element = Element::damaged(bytes.clone().into(), 7).unwrap();
        assert!(element.is_damaged() && element.bytes() == bytes && element.part() == Part::Entries);
        bytes[1] = 2;
        assert_eq!(Element::damaged(bytes.into(), 7), None, "a newer version's");
    }

    #[test]
    fn no_bytes_make_the_reader_panic() {
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..20_000 {
            let mut member = sample().encode();
            for _ in 0..rng.usize(0..8) {
                let at = rng.usize(..member.len());
                member[at] = rng.u8(..);
            }
            member.truncate(rng.usize(0..=member.len()));
            if let Some(element) = Element::entry(member.into(), 0) {
                let _ = (element.header().code().len(), element.bytes());
            }
        }
    }
}
