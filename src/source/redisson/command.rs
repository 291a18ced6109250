//! What a person asks for: offer, cancel, redrive.

use std::time::Duration;

use bytes::Bytes;

use super::reply::{BadReply, Fields};
use super::{Redisson, SourceError, millis, text};
use crate::link::Conn;

impl Redisson {
    /// Offers one packed element as Redisson does, `delay` from now by Redis's clock; returns the due time in ms, and
    /// whether it is new (an element with these very bytes may stand there already).
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

    /// Removes an element from Z and L, or an entry from the retry zset; `false` when it was not there.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again.
    pub async fn cancel(&self, conn: &Conn, member: Bytes, in_retry: bool) -> Result<bool, SourceError> {
        let k = &self.keys;
        let args = [Bytes::from_static(if in_retry { b"retry" } else { b"scheduled" }), member];
        let keys = [k.delayed.clone(), k.list.clone(), k.retry.clone()];
        Ok(truth("cancel", conn.script(&self.scripts.cancel, &keys, &args).await?)?)
    }

    /// Moves a dead letter to the retry zset under a new header; `false` when it was not there, or when the very same
    /// member waits there already, from a dead letter with the same bytes: redrive this one later.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again.
    pub async fn redrive(&self, conn: &Conn, stream_id: &str, member: Bytes) -> Result<bool, SourceError> {
        let args = [Bytes::from(stream_id.to_owned()), member];
        let keys = [self.keys.dead.clone(), self.keys.retry.clone()];
        Ok(truth("redrive", conn.script(&self.scripts.redrive, &keys, &args).await?)?)
    }
}

fn truth(script: &'static str, reply: redis::Value) -> Result<bool, BadReply> {
    match reply {
        redis::Value::Int(n) => Ok(n == 1),
        _ => Err(BadReply { script, expected: "0 or 1" }),
    }
}
