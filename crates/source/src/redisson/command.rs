//! The offer of an element, as Redisson makes it.

use std::time::Duration;

use bytes::Bytes;

use super::{Redisson, RedissonSource};
use delaybridge_ledger::{StoreError, millis};
use delaybridge_link::{BadReply, Conn, Fields};
use delaybridge_offers::{Call, Keys};

impl RedissonSource {
    /// Offers one packed element as Redisson and the other producers do, `delay` from now by Redis's clock; returns the due
    /// time in ms, that of the first offer if an element with exactly these bytes is there already.
    ///
    /// # Errors
    ///
    /// On [`LinkError::Unknown`] it may have been offered; sent again it could be offered twice, if it has been
    /// delivered in between.
    pub async fn offer(&self, conn: &Conn, element: Bytes, delay: Duration) -> Result<i64, StoreError> {
        let unreadable = BadReply { script: "offer", expected: "a due time" };
        let time = format!("+{}", millis(delay));
        let call = Call::offer(&Keys::of(&self.keys.tag), [(time, element.into(), None)]);
        let reply = conn.script(&self.scripts.offer, &call.keys, &call.args).await?;
        let due = Fields::of("offer", reply)?.text()?.parse();
        Ok(due.map_err(|_| unreadable)?)
    }
}

impl Redisson {
    /// Offers an element as [`RedissonSource::offer`] does.
    ///
    /// # Errors
    ///
    /// As for [`RedissonSource::offer`].
    pub async fn offer(&self, conn: &Conn, element: Bytes, delay: Duration) -> Result<i64, StoreError> {
        self.source.offer(conn, element, delay).await
    }
}
