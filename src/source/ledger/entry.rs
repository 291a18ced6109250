//! Entries: what delaybridge keeps in its own zsets. A header, then the untouched bytes of the element.
//!
//! Little-endian, one layout for each version. For readers with redis-cli:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 2 | `db 01`: magic and version |
//! | 2 | 2 | length of the header, where the element begins |
//! | 4 | 4 | generation: grows by one at every claim and never goes back; it is the fence (R3) |
//! | 8 | 4 | attempts that count |
//! | 12 | 2 | expiries: leases in a row that expired without a verdict |
//! | 14 | 1 | origin: `D` sorted set, `R` ready list |
//! | 15 | 1 | class of the last failure, 0 for none, else its place in [`Class::ALL`] plus 1 |
//! | 16 | 8 | owner: random, one for each process |
//! | 24 | 8 | claim number of that owner |
//! | 32 | 4 | place in that claim's batch, from 1 |
//! | 36 | 8 | id, for origin `R`; zero for `D`, because the element carries it |
//! | 44 | 8 | due time in ms for `D`; time of the first claim for `R` |
//! | 52 | 8 | time of the first attempt in ms, 0 for none |
//! | 60 | 8 | time of the last attempt in ms, 0 for none |
//! | 68 | 16 | code of the last failure, padded with NUL |
//! | 84 | 1 | reserved, 0 |
//! | 85 | 1 | number of sinks that have confirmed |
//! | 86 | 8 each | [`sink_hash`] of their names |
//!
//! Owner, claim number and place make a member unique. The scripts write and compare the fields up to 36 by offset.

use bytes::Bytes;

use crate::message::{Class, MessageId, Origin};

const MAGIC: [u8; 2] = [0xdb, 1];
const FIXED: usize = 86;
const CODE: usize = 16;

/// Which claim an entry belongs to: unique among all entries of all time, short of a collision of random owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClaimKey {
    /// Claim number of this process.
    pub claim: u64,
    /// Place in the batch.
    pub index: u32,
}

/// What the header of an entry says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The fence.
    pub generation: u32,
    /// Attempts that count towards `max_attempts`.
    pub attempts: u32,
    /// Leases in a row that expired.
    pub expiries: u16,
    /// Where the element was claimed from first.
    pub origin: Origin,
    /// Class of the last failure.
    pub class: Option<Class>,
    /// The process that claimed it last.
    pub owner: [u8; 8],
    /// Its claim.
    pub key: ClaimKey,
    /// Id given at the claim; only for elements of the ready list.
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
}

/// The name of a sink as the header keeps it: not its position, because the configuration may change between attempts.
pub fn sink_hash(name: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(name.as_bytes())
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    Some(*bytes.get(at..)?.first_chunk::<N>()?)
}

impl Header {
    /// A header as a redriven dead letter gets it: a new life of the same element, with what is known of it.
    pub fn redriven(origin: Origin, id: MessageId, time_ms: i64, owner: [u8; 8], confirmed: Vec<u64>) -> Self {
        Header {
            generation: 0,
            attempts: 0,
            expiries: 0,
            origin,
            class: None,
            owner,
            key: ClaimKey { claim: 0, index: 0 },
            given_id: id.0,
            time_ms,
            first_attempt_ms: 0,
            last_attempt_ms: 0,
            code: [0; CODE],
            confirmed,
        }
    }

    /// Id given at the claim: meaningful for elements of the ready list, because their bytes carry none.
    pub fn given_id(&self) -> MessageId {
        MessageId(self.given_id)
    }

    /// Code of the last failure; empty for none.
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

    /// Due time by Redis's clock; none for elements of the ready list.
    pub fn due_ms(&self) -> Option<i64> {
        (self.origin == Origin::Delayed).then_some(self.time_ms)
    }

    /// Notes that a sink has confirmed; more than 255 are not kept (the configuration allows fewer).
    pub fn confirm(&mut self, sink: u64) {
        if !self.confirmed.contains(&sink) && self.confirmed.len() < 255 {
            self.confirmed.push(sink);
        }
    }

    /// The bytes in front of the element.
    pub fn encode(&self) -> Vec<u8> {
        let len = FIXED + 8 * self.confirmed.len();
        let mut out = Vec::with_capacity(len);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&(len as u16).to_le_bytes());
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.attempts.to_le_bytes());
        out.extend_from_slice(&self.expiries.to_le_bytes());
        out.push(match self.origin {
            Origin::Delayed => b'D',
            Origin::Ready => b'R',
        });
        out.push(self.class.and_then(|c| Class::ALL.iter().position(|&x| x == c)).map_or(0, |i| i as u8 + 1));
        out.extend_from_slice(&self.owner);
        out.extend_from_slice(&self.key.claim.to_le_bytes());
        out.extend_from_slice(&self.key.index.to_le_bytes());
        out.extend_from_slice(&self.given_id);
        out.extend_from_slice(&self.time_ms.to_le_bytes());
        out.extend_from_slice(&self.first_attempt_ms.to_le_bytes());
        out.extend_from_slice(&self.last_attempt_ms.to_le_bytes());
        out.extend_from_slice(&self.code);
        out.push(0);
        out.push(self.confirmed.len() as u8);
        for sink in &self.confirmed {
            out.extend_from_slice(&sink.to_le_bytes());
        }
        out
    }

    /// Reads a header, and says where the element begins. `None` for anything that this version did not write.
    pub fn decode(member: &[u8]) -> Option<(Header, usize)> {
        if field(member, 0)? != MAGIC {
            return None;
        }
        let len = usize::from(u16::from_le_bytes(field(member, 2)?));
        let sinks = usize::from(*member.get(85)?);
        if len != FIXED + 8 * sinks || member.len() < len {
            return None;
        }
        let header = Header {
            generation: u32::from_le_bytes(field(member, 4)?),
            attempts: u32::from_le_bytes(field(member, 8)?),
            expiries: u16::from_le_bytes(field(member, 12)?),
            origin: match member.get(14)? {
                b'D' => Origin::Delayed,
                b'R' => Origin::Ready,
                _ => return None,
            },
            class: match member.get(15)? {
                0 => None,
                n => Some(*Class::ALL.get(usize::from(*n) - 1)?),
            },
            owner: field(member, 16)?,
            key: ClaimKey {
                claim: u64::from_le_bytes(field(member, 24)?),
                index: u32::from_le_bytes(field(member, 32)?),
            },
            given_id: field(member, 36)?,
            time_ms: i64::from_le_bytes(field(member, 44)?),
            first_attempt_ms: i64::from_le_bytes(field(member, 52)?),
            last_attempt_ms: i64::from_le_bytes(field(member, 60)?),
            code: field(member, 68)?,
            confirmed: (0..sinks)
                .map(|i| field(member, FIXED + 8 * i).map(u64::from_le_bytes))
                .collect::<Option<_>>()?,
        };
        Some((header, len))
    }
}

/// An entry read from Redis.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The exact bytes of the member: what settle and extend name.
    pub member: Bytes,
    /// What its header says.
    pub header: Header,
    /// The element inside; shares the member's memory.
    pub element: Bytes,
}

impl Entry {
    /// Reads a member. `None` for an entry of a version that this one does not know.
    pub fn decode(member: Bytes) -> Option<Entry> {
        let (header, at) = Header::decode(&member)?;
        Some(Entry { element: member.slice(at..), header, member })
    }

    /// The member that this entry becomes under another header.
    pub fn under(&self, header: &Header) -> Bytes {
        let mut member = header.encode();
        member.extend_from_slice(&self.element);
        member.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Header {
        let mut header =
            Header::redriven(Origin::Ready, MessageId(*b"RANDOM8B"), 1_795_251_632_252, [9; 8], vec![1, 2]);
        header.generation = 7;
        header.attempts = 3;
        header.expiries = 2;
        header.key = ClaimKey { claim: 11, index: 4 };
        header.first_attempt_ms = 5;
        header.last_attempt_ms = 6;
        header.set_failure(Class::Ambiguous, "timeout");
        header
    }

    #[test]
    fn a_header_reads_back_as_it_was_written() {
        let header = sample();
        let mut member = header.encode();
        assert_eq!(member.len(), 86 + 16);
        member.extend_from_slice(b"element");
        let entry = Entry::decode(member.into()).unwrap();
        assert_eq!(entry.header, header);
        assert_eq!(entry.header.code(), "timeout");
        assert_eq!(&entry.element[..], b"element");
        assert_eq!(entry.under(&header), entry.member);
    }

    #[test]
    fn what_this_version_did_not_write_is_not_read() {
        let good = sample().encode();
        assert!(Header::decode(&good).is_some());
        for at in [0, 1, 2, 14, 15, 85] {
            let mut bad = good.clone();
            bad[at] = 99;
            assert!(Header::decode(&bad).is_none(), "byte {at}");
        }
        for len in 0..good.len() {
            assert!(Header::decode(&good[..len]).is_none(), "cut to {len}");
        }
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
            if let Some(entry) = Entry::decode(member.into()) {
                let _ = entry.header.code();
            }
        }
    }
}
