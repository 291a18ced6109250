//! The numbers behind a queue's gauges.

use bytes::Bytes;
use redis::Value;

use super::claims::Header;
use crate::answers::{Depths, InFlight};
use crate::body::AllBodies;
use crate::error::StoreError;
use crate::handle::Ledger;
use delaybridge_core::message::LATEST_MS;
use delaybridge_link::{BadReply, Conn, Fields, LinkError};

/// Entries that wait for a retry and are looked at; one if that is not small.
pub const LOOKED_AT: usize = 64;
/// Bytes of a small entry: together they are as much as one claim reads at once.
const SMALL: usize = 4096;

/// The numbers behind a queue's gauges.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    /// Redis time in ms.
    pub now_ms: i64,
    /// Elements in flight; at least so many, if [`in_flight_more`](Stats::in_flight_more).
    pub in_flight: i64,
    /// There were more claims than were looked at.
    pub in_flight_more: bool,
    /// Entries that wait for another attempt.
    pub retry: i64,
    /// Due time in ms of the oldest of them, as far as was looked: see [`LOOKED_AT`].
    pub retry_oldest_ms: Option<i64>,
    /// Dead letters.
    pub dead: i64,
    /// The numbers of the source.
    pub source: Depths,
    /// Time in ms until Redis deletes a key of the source, which somebody has given a time to live; `None` if none has one.
    pub expires_ms: Option<i64>,
}

impl Stats {
    /// Returns the time that has passed since then, in ms; `None` for a time to come. Bounded: a score of -inf is not
    /// centuries late.
    pub fn overdue_ms(&self, due_ms: i64) -> Option<u64> {
        (due_ms <= self.now_ms).then(|| due_ms.abs_diff(self.now_ms).min(LATEST_MS.unsigned_abs()))
    }

    /// Returns the time for which the oldest element is due that is scheduled or waits for a retry, in ms; `None` if
    /// none is due.
    pub fn oldest_overdue_ms(&self) -> Option<u64> {
        let oldest = [self.source.head_ms, self.retry_oldest_ms];
        oldest.into_iter().flatten().filter_map(|due_ms| self.overdue_ms(due_ms)).max()
    }

    /// Returns whether nothing of the queue was there at all.
    pub fn is_empty(&self) -> bool {
        let Stats { in_flight, retry, dead, source, .. } = *self;
        let Depths { scheduled, ready, leftovers, orphans, .. } = source;
        [in_flight, retry, dead, scheduled, ready, orphans].iter().all(|&n| n == 0)
            && leftovers.count == 0
            && leftovers.of == 0
    }
}

impl Ledger {
    /// Reads the numbers behind the gauges.
    ///
    /// # Errors
    ///
    /// Those of the connection; a key of a wrong type is `Server { code: "WRONGKEY" }`.
    pub async fn stats(&self, conn: &Conn) -> Result<Stats, StoreError> {
        let args = self.source.depth_args();
        let reply = conn.script(&self.scripts.stats, &self.with_source(), &args).await?;
        let mut fields = Fields::of("stats", reply)?;
        let now_ms = fields.int()?;
        let leases = fields.int()?;
        let retry = fields.int()?;
        let dead = fields.int()?;
        let source = self.source.depths(fields.array()?)?;
        let bodies = match self.source.bodies().and_then(|bodies| bodies.all_bodies()) {
            Some(AllBodies::Fields { key }) => self.time_to_live(conn, &[key]).await?,
            _ => Vec::new(),
        };
        let expires_ms = bodies.into_iter().flatten().chain(Some(fields.int()?).filter(|ms| *ms >= 0)).min();
        // Most of ten thousand queues have none.
        let InFlight { elements, more } =
            if leases > 0 { self.claims().in_flight(conn).await? } else { InFlight::default() };
        let in_flight = i64::try_from(elements).unwrap_or(i64::MAX);
        let retry_oldest_ms = if retry > 0 { self.oldest_retry(conn).await? } else { None };
        Ok(Stats { now_ms, in_flight, in_flight_more: more, retry, retry_oldest_ms, dead, source, expires_ms })
    }

    /// Reads the keys of the source that Redis will delete because somebody has given them a time to live, each with
    /// the ms until then.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn expiring(&self, conn: &Conn) -> Result<Vec<(Bytes, i64)>, StoreError> {
        let keys: Vec<Bytes> = self.source.repair().typed_keys().into_iter().map(|(key, _)| key).collect();
        let left = self.time_to_live(conn, &keys).await?;
        Ok(keys.into_iter().zip(left).filter_map(|(key, left)| Some((key, left?))).collect())
    }

    /// Reads the ms until Redis deletes each of these keys; `None` for one that stays.
    async fn time_to_live(&self, conn: &Conn, keys: &[Bytes]) -> Result<Vec<Option<i64>>, StoreError> {
        let mut pipe = redis::pipe();
        for key in keys {
            pipe.cmd("PTTL").arg(&key[..]);
        }
        let left = |answer: Result<Value, LinkError>| match answer? {
            Value::Int(ms) => Ok(Some(ms).filter(|ms| *ms >= 0)),
            _ => Err(BadReply { script: "PTTL", expected: "a number" }.into()),
        };
        conn.pipeline(&pipe).await?.into_iter().map(left).collect()
    }

    /// Reads the due time of the oldest entry that waits for a retry, of those with the next attempts: in an outage
    /// that is where they gather. A plain command, because reading into a script costs more than sending.
    async fn oldest_retry(&self, conn: &Conn) -> Result<Option<i64>, StoreError> {
        let read = async |first: usize, last: usize| -> Result<Vec<Vec<u8>>, StoreError> {
            let mut command = redis::cmd("ZRANGE");
            command.arg(&self.keys.retry[..]).arg(first).arg(last);
            Ok(conn.query(&command).await?)
        };
        let mut entries = read(0, 0).await?;
        if entries.first().is_some_and(|entry| entry.len() <= SMALL) {
            entries.extend(read(1, LOOKED_AT - 1).await?);
        }
        let due = |entry: &Vec<u8>| Header::decode(entry).and_then(|(header, _)| header.due_ms());
        Ok(entries.iter().filter_map(due).min())
    }
}
