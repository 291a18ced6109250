//! The offer of an element, as Redisson makes it.

use std::time::Duration;

use bytes::Bytes;

use super::{Redisson, RedissonSource};
use delaybridge_ledger::{Fields, StoreError, millis, text};
use delaybridge_link::Conn;

impl RedissonSource {
    /// Offers one packed element as Redisson does, `delay` from now by Redis's clock; returns the due time in ms, and
    /// whether it is new (an element with exactly these bytes may be there already).
    ///
    /// # Errors
    ///
    /// On [`LinkError::Unknown`] it may have been offered; sent again it could be offered twice, if it has been
    /// delivered in between.
    pub async fn offer(&self, conn: &Conn, element: Bytes, delay: Duration) -> Result<(i64, bool), StoreError> {
        let k = &self.keys;
        let args = [element, text(millis(delay)), Bytes::from(k.channel.to_string())];
        let reply = conn.script(&self.scripts.offer, &[k.delayed.clone(), k.list.clone()], &args).await?;
        let mut fields = Fields::of("offer", reply)?;
        let new = fields.text()? == "offered";
        Ok((fields.int()?, new))
    }
}

impl Redisson {
    /// As [`RedissonSource::offer`].
    ///
    /// # Errors
    ///
    /// As for [`RedissonSource::offer`].
    pub async fn offer(&self, conn: &Conn, element: Bytes, delay: Duration) -> Result<(i64, bool), StoreError> {
        self.source.offer(conn, element, delay).await
    }
}
