//! The binary format of jobs in Redis: a record, written by `add` and `change`, and a state, written from the first
//! reservation on.
//! Scripts read and write both, with the formats at the head of `prelude.lua`; numbers are little endian.
//!
//! ```text
//! record   version 1 | own id 1 | added 8 | end of its time to live 8, or 0 | time to run 4 | tries 3 | priority 1 | n 1 | content type n | body
//! state    own id 1 | attempts 4 | tries 3 | priority 1 | time to run 4 | last reserved 8 | end of its time to live 8, or 0 | token 16 | reason
//! ```
//!
//! All times and durations are in milliseconds. Versions before there were priorities read tries of four bytes: to them a job
//! with a priority has more tries than it will ever use, and any other is the same.

use bytes::Bytes;

use super::add::MAX_PRIORITY;

/// The version that this program writes.
const VERSION: u8 = 1;
const RECORD_HEAD: usize = 27;
const STATE_HEAD: usize = 45;

/// The data of a job that consumers do not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Whether the client chose the id.
    pub own_id: bool,
    /// The time at which it was added.
    pub added_ms: i64,
    /// The end of its time to live.
    pub expires_ms: Option<i64>,
    /// The time to run.
    pub ttr_ms: u32,
    /// The number of tries.
    pub tries: u32,
    /// The priority.
    pub priority: u8,
    /// The media type that the client declared.
    pub content_type: String,
    /// The body.
    pub body: Bytes,
}

/// The changing data of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) attempts: u32,
    pub(super) tries: u32,
    pub(super) ttr_ms: u32,
    pub(super) reserved_ms: i64,
    pub(super) expires_ms: Option<i64>,
    pub(super) reason: String,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// Reads the tries at this place, and the priority behind them.
fn tries_at(bytes: &[u8], at: usize) -> (u32, u8) {
    let both = u32_at(bytes, at);
    (both & 0xFF_FFFF, bytes[at + 3].min(MAX_PRIORITY))
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    i64::from_le_bytes(word)
}

fn some(ms: i64) -> Option<i64> {
    Some(ms).filter(|ms| *ms > 0)
}

impl Record {
    /// Removes the time to live from a record.
    pub fn for_ever(record: Bytes) -> Bytes {
        let mut bytes = record.to_vec();
        if let Some(ends) = bytes.get_mut(10..18) {
            ends.fill(0);
        }
        bytes.into()
    }

    /// Parses a record; `None` for one that was cut off, or has another version. `is_record` in `state.lua` applies the
    /// same rules.
    pub fn read(bytes: &Bytes) -> Option<Record> {
        if bytes.len() < RECORD_HEAD || bytes[0] != VERSION {
            return None;
        }
        let (tries, priority) = tries_at(bytes, 22);
        let body_at = RECORD_HEAD + usize::from(bytes[RECORD_HEAD - 1]);
        if bytes.len() < body_at {
            return None;
        }
        Some(Record {
            own_id: bytes[1] != 0,
            added_ms: i64_at(bytes, 2),
            expires_ms: some(i64_at(bytes, 10)),
            ttr_ms: u32_at(bytes, 18),
            tries,
            priority,
            content_type: String::from_utf8_lossy(&bytes[RECORD_HEAD..body_at]).into_owned(),
            body: bytes.slice(body_at..),
        })
    }
}

/// The error for a state that was cut off, or has another version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unreadable;

impl State {
    /// Parses a state; the empty one is that of a job that was never reserved. `unpack_state` in `state.lua` applies
    /// the same rules.
    pub(super) fn read(bytes: &Bytes) -> Result<Option<State>, Unreadable> {
        if bytes.is_empty() {
            return Ok(None);
        }
        if bytes.len() < STATE_HEAD || bytes[0] > 1 {
            return Err(Unreadable);
        }
        Ok(Some(State {
            attempts: u32_at(bytes, 1),
            tries: tries_at(bytes, 5).0,
            ttr_ms: u32_at(bytes, 9),
            reserved_ms: i64_at(bytes, 13),
            expires_ms: some(i64_at(bytes, 21)),
            reason: String::from_utf8_lossy(&bytes[STATE_HEAD..]).into_owned(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_short_or_of_another_version_is_refused() {
        let mut whole = vec![0; RECORD_HEAD];
        whole[0] = VERSION;
        whole[RECORD_HEAD - 1] = 4;
        whole.extend_from_slice(b"texthello");
        let record = Record::read(&whole.clone().into()).unwrap();
        assert_eq!((record.content_type.as_str(), &record.body[..]), ("text", &b"hello"[..]));
        for end in 0..RECORD_HEAD + 4 {
            assert!(Record::read(&whole[..end].to_vec().into()).is_none(), "{end}");
        }
        whole[0] = 2;
        assert!(Record::read(&whole.into()).is_none());
        assert_eq!(State::read(&Bytes::new()), Ok(None));
        assert!(State::read(&vec![0; STATE_HEAD - 1].into()).is_err());
        assert!(State::read(&vec![2; STATE_HEAD].into()).is_err());
        assert!(State::read(&vec![0; STATE_HEAD].into()).is_ok());
    }

    #[test]
    fn a_priority_is_beside_the_tries_and_one_that_is_none_is_the_highest() {
        let mut whole = vec![0; RECORD_HEAD];
        (whole[0], whole[22], whole[24]) = (VERSION, 10, 1);
        for (byte, priority) in [(0, 0), (1, 1), (9, 9), (10, 9), (255, 9)] {
            whole[25] = byte;
            let record = Record::read(&whole.clone().into()).unwrap();
            assert_eq!((record.tries, record.priority), (65_546, priority));
        }
        let mut state = vec![0; STATE_HEAD];
        (state[5], state[8]) = (7, 9);
        assert_eq!(State::read(&state.into()).unwrap().unwrap().tries, 7);
    }
}
