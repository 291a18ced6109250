//! The numbers behind a queue's gauges.

use super::claim::{Hints, large_head};
use super::reply::Fields;
use super::{Redisson, SourceError};
use crate::link::Conn;
use bytes::Bytes;

/// The numbers behind a queue's gauges.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    /// Redis time in ms.
    pub now_ms: i64,
    /// Elements in Z.
    pub scheduled: i64,
    /// Those of them that are due.
    pub due: i64,
    /// Entries in flight.
    pub in_flight: i64,
    /// Entries that wait for another attempt.
    pub retry: i64,
    /// Dead letters.
    pub dead: i64,
    /// Elements on the ready list.
    pub ready: i64,
    /// Entries in L.
    pub listed: i64,
    /// Ghosts recorded.
    pub ghosts: i64,
    /// Age of the oldest ghost, in ms.
    pub oldest_ghost_ms: Option<i64>,
    /// Entries of L that are in no zset and that nobody recorded: at least this many.
    pub orphans: i64,
    /// Due time of the head of Z, in ms.
    pub head_ms: Option<i64>,
}

impl Stats {
    /// Whether nothing of the queue was there at all.
    pub fn is_empty(&self) -> bool {
        let Stats { scheduled, in_flight, retry, dead, ready, listed, ghosts, orphans, .. } = *self;
        [scheduled, in_flight, retry, dead, ready, listed, ghosts, orphans].iter().all(|&n| n == 0)
    }
}

impl Redisson {
    /// The numbers behind the gauges.
    ///
    /// # Errors
    ///
    /// Those of the connection; a key of a wrong type is `Server { code: "WRONGKEY" }`.
    pub async fn stats(&self, conn: &Conn, hints: &mut Hints) -> Result<Stats, SourceError> {
        let k = &self.keys;
        let keys =
            [&k.delayed, &k.list, &k.ready, &k.in_flight, &k.retry, &k.ghosts, &k.ghosts_turn, &k.state, &k.dead]
                .map(Bytes::clone);
        let large = hints.large_delayed.map(|s| s.to_string()).unwrap_or_default();
        let reply = conn.script(&self.scripts.stats, &keys, &[Bytes::from(large)]).await?;
        let mut f = Fields::of("stats", reply)?;
        let mut stats = Stats {
            now_ms: f.int()?,
            scheduled: f.int()?,
            due: f.int()?,
            in_flight: f.int()?,
            retry: f.int()?,
            dead: f.int()?,
            ready: f.int()?,
            listed: f.int()?,
            ghosts: f.int()?,
            oldest_ghost_ms: Some(f.int()?).filter(|&age| age >= 0),
            orphans: f.int()?,
            head_ms: f.score()?,
        };
        hints.large_delayed = large_head(stats.head_ms, f.int()?);
        // Z gone while L is not shows at once, without waiting for a turn of the sweep.
        stats.orphans = stats.orphans.max(stats.listed - stats.scheduled - stats.ghosts).max(0);
        Ok(stats)
    }
}
