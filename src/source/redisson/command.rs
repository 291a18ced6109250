//! What an operator asks of Redisson's keys: offer an element, cancel one.

use std::time::Duration;

use bytes::Bytes;

use super::{Redisson, RedissonSource};
use crate::link::Conn;
use crate::source::ledger::{Fields, truth};
use crate::source::{SourceError, millis, text};

impl RedissonSource {
    /// Offers one packed element as Redisson does, `delay` from now by Redis's clock; returns the due time in ms, and
    /// whether it is new (an element with exactly these bytes may be there already).
    ///
    /// # Errors
    ///
    /// On [`LinkError::Unknown`] it may have been offered; sent again it could be offered twice, if it has been
    /// delivered in between.
    pub async fn offer(&self, conn: &Conn, element: Bytes, delay: Duration) -> Result<(i64, bool), SourceError> {
        let k = &self.keys;
        let args = [element, text(millis(delay)), Bytes::from(k.channel.to_string())];
        let reply = conn.script(&self.scripts.offer, &[k.delayed.clone(), k.list.clone()], &args).await?;
        let mut fields = Fields::of("offer", reply)?;
        let new = fields.text()? == "offered";
        Ok((fields.int()?, new))
    }

    /// Removes an element from Z and L; `false` when it was not there.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again.
    pub async fn cancel_scheduled(&self, conn: &Conn, element: Bytes) -> Result<bool, SourceError> {
        let k = &self.keys;
        let keys = [&k.delayed, &k.list, &k.ghosts, &k.sweep].map(Bytes::clone);
        let args = [element, self.cleanup_word()];
        Ok(truth("cancel_scheduled", conn.script(&self.scripts.cancel, &keys, &args).await?)?)
    }
}

impl Redisson {
    /// As [`RedissonSource::offer`].
    ///
    /// # Errors
    ///
    /// As for [`RedissonSource::offer`].
    pub async fn offer(&self, conn: &Conn, element: Bytes, delay: Duration) -> Result<(i64, bool), SourceError> {
        self.source.offer(conn, element, delay).await
    }

    /// Removes an element that is scheduled, or an entry that waits for a retry; `false` when it was not there.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again.
    pub async fn cancel(&self, conn: &Conn, member: Bytes, in_retry: bool) -> Result<bool, SourceError> {
        match in_retry {
            true => self.cancel_retry(conn, member).await,
            false => self.source.cancel_scheduled(conn, member).await,
        }
    }
}
