//! The numbers behind a queue's gauges.

use super::{Fields, Hints, Ledger};
use crate::link::Conn;
use crate::source::{Depths, SourceError};

/// The numbers behind a queue's gauges.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    /// Redis time in ms.
    pub now_ms: i64,
    /// Entries in flight.
    pub in_flight: i64,
    /// Entries that wait for another attempt.
    pub retry: i64,
    /// Dead letters.
    pub dead: i64,
    /// What the source holds.
    pub source: Depths,
}

impl Stats {
    /// Whether nothing of the queue was there at all.
    pub fn is_empty(&self) -> bool {
        let Stats { in_flight, retry, dead, source, .. } = *self;
        let Depths { scheduled, ready, leftovers, orphans, .. } = source;
        [in_flight, retry, dead, scheduled, ready, orphans].iter().all(|&n| n == 0)
            && leftovers.count == 0
            && leftovers.of == 0
    }
}

impl Ledger {
    /// The numbers behind the gauges.
    ///
    /// # Errors
    ///
    /// Those of the connection; a key of a wrong type is `Server { code: "WRONGKEY" }`.
    pub async fn stats(&self, conn: &Conn, hints: &mut Hints) -> Result<Stats, SourceError> {
        let args = self.source.depth_args(hints);
        let reply = conn.script(&self.scripts.stats, &self.with_source(), &args).await?;
        let mut fields = Fields::of("stats", reply)?;
        let stats = Stats {
            now_ms: fields.int()?,
            in_flight: fields.int()?,
            retry: fields.int()?,
            dead: fields.int()?,
            source: self.source.depths(fields.array()?)?,
        };
        hints.large_due = stats.source.large;
        Ok(stats)
    }
}
