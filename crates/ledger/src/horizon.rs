//! Numbers of elements that fall due before each of many points in time. Counts by the index, and reads no element.

use crate::error::StoreError;
use crate::handle::Ledger;
use crate::page::redis_now_ms;
use delaybridge_link::Conn;

impl Ledger {
    /// Reads the Redis time in ms; and how many elements are due before each of these points in time, which are in ms
    /// from now; and how many there are in all, as the last count.
    ///
    /// # Errors
    ///
    /// Those of the connection; a key of another type is `Server { code: "WRONGTYPE" }`.
    pub async fn due_before_each(&self, conn: &Conn, offsets: &[i64]) -> Result<(i64, Vec<u64>), StoreError> {
        let now_ms = redis_now_ms(conn).await?;
        let mut counts = vec![0; offsets.len() + 1];
        for key in self.source.schedules() {
            let mut pipe = redis::pipe();
            for offset in offsets {
                let before = now_ms.saturating_add(*offset).saturating_sub(1);
                pipe.cmd("ZCOUNT").arg(&key[..]).arg("-inf").arg(self.source.unit().until(before));
            }
            pipe.cmd("ZCARD").arg(&key[..]);
            for (sum, answer) in counts.iter_mut().zip(conn.pipeline(&pipe).await?) {
                let count: u64 =
                    redis::from_redis_value(answer?).map_err(|error| StoreError::Malformed(error.to_string()))?;
                *sum += count;
            }
        }
        Ok((now_ms, counts))
    }

    /// Counts the elements that fall due after the first and at the second of each of these pairs of times in ms, at
    /// the latest.
    ///
    /// # Errors
    ///
    /// As for [`due_before_each`](Ledger::due_before_each).
    pub async fn due_between(&self, conn: &Conn, bounds: &[(i64, i64)]) -> Result<Vec<u64>, StoreError> {
        let mut counts = vec![0; bounds.len()];
        if bounds.is_empty() {
            return Ok(counts);
        }
        let until = |ms: i64| self.source.unit().until(ms);
        for key in self.source.schedules() {
            let mut pipe = redis::pipe();
            for (from_ms, until_ms) in bounds {
                pipe.cmd("ZCOUNT").arg(&key[..]).arg(format!("({}", until(*from_ms))).arg(until(*until_ms));
            }
            for (sum, answer) in counts.iter_mut().zip(conn.pipeline(&pipe).await?) {
                let count: u64 =
                    redis::from_redis_value(answer?).map_err(|error| StoreError::Malformed(error.to_string()))?;
                *sum += count;
            }
        }
        Ok(counts)
    }
}
