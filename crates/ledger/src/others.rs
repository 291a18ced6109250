//! Whether clients other than daemons listen to a queue's channel, and since when none does.
//!
//! Daemons look at the channel anyway, and note in the state hash what they saw. `others.lua` documents the field.

use std::time::Duration;

use crate::args::{millis, text};
use crate::error::StoreError;
use crate::handle::Ledger;
use bytes::Bytes;
use delaybridge_link::Conn;

/// The field in the state hash.
const FIELD: &str = "others";

/// Notes of daemons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Others {
    /// The time from which on daemons have looked without a gap, in ms by Redis's clock.
    pub since_ms: i64,
    /// The time at which they saw one last.
    pub seen_ms: Option<i64>,
    /// The time until which they have looked, or will have: a note holds for a while.
    pub until_ms: i64,
}

impl Others {
    fn read(text: &[u8]) -> Option<Others> {
        let mut parts = std::str::from_utf8(text).ok()?.split(' ');
        let since = parts.next()?;
        let seen = parts.next()?;
        let until = parts.next()?;
        let seen_ms = if seen.is_empty() { None } else { Some(seen.parse().ok()?) };
        Some(Others { since_ms: since.parse().ok()?, seen_ms, until_ms: until.parse().ok()? })
    }

    /// Returns the time since which none listens, if none does now.
    pub fn none_since_ms(&self) -> i64 {
        self.seen_ms.map_or(self.since_ms, |seen| seen.max(self.since_ms))
    }
}

impl Ledger {
    /// Notes whether others listen: how long ago one was seen last, zero for now. The note holds for a while, in which
    /// the next one must follow.
    ///
    /// # Errors
    ///
    /// Those of the connection. After any error it may be sent again.
    pub async fn note_others(&self, conn: &Conn, seen: Option<Duration>, holds: Duration) -> Result<(), StoreError> {
        let args = [seen.map_or(Bytes::new(), |ago| text(millis(ago))), text(millis(holds))];
        conn.script(&self.scripts.others, std::slice::from_ref(&self.keys.state), &args).await?;
        Ok(())
    }

    /// Reads the notes of daemons; `None` if there is none, or in a way that this version cannot read.
    ///
    /// # Errors
    ///
    /// Those of the connection, and a state key of another type.
    pub async fn others(&self, conn: &Conn) -> Result<Option<Others>, StoreError> {
        let mut command = redis::cmd("HMGET");
        command.arg(&self.keys.state[..]).arg(FIELD);
        let answer: Vec<Option<Vec<u8>>> = redis::from_redis_value(conn.query(&command).await?)
            .map_err(|error| StoreError::Malformed(error.to_string()))?;
        Ok(answer.into_iter().flatten().next().and_then(|text| Others::read(&text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let check = |text: &str, expected| assert_eq!(Others::read(text.as_bytes()), expected, "{text}");
        check("5 7 9", Some(Others { since_ms: 5, seen_ms: Some(7), until_ms: 9 }));
        check("5  9", Some(Others { since_ms: 5, seen_ms: None, until_ms: 9 }));
        for strange in ["", "5", "5 7", "x 7 9", "5 x 9", "5 7 x"] {
            check(strange, None);
        }
    }
}
