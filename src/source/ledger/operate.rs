//! What an operator asks for: another life for a dead letter, the end of an element that waits.

use bytes::Bytes;

use super::claims::Element;
use super::{BadReply, DeadLetter, Ledger};
use crate::link::{Conn, listeners};
use crate::source::SourceError;

impl Ledger {
    /// Removes an entry from the retry zset; `false` when it was not there.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again.
    pub async fn cancel_retry(&self, conn: &Conn, member: Bytes) -> Result<bool, SourceError> {
        // The job first: an entry without a job is one that its user has deleted.
        if let Some(entry) = Element::entry(member.clone(), 0).filter(|_| self.source.has_bodies()) {
            self.source.cancel(conn, &entry.bytes()).await?;
        }
        let keys = std::slice::from_ref(&self.keys.retry);
        Ok(truth("cancel", conn.script(&self.scripts.cancel, keys, &[member]).await?)?)
    }

    /// Moves a dead letter to the retry zset under a new header, and its body back to where it was; `false` when it was not
    /// there, when the very same member waits there already, from a dead letter with the same bytes, or when there is another
    /// body for the same id: redrive this one later.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again.
    pub async fn redrive(&self, conn: &Conn, letter: &DeadLetter, member: Bytes) -> Result<bool, SourceError> {
        let mut args = vec![Bytes::from(letter.stream_id.clone()), member];
        let mut keys = vec![self.keys.dead.clone(), self.keys.retry.clone()];
        if let Some((at, body)) = self.body_of(letter) {
            let word = Bytes::from_static(at.word().as_bytes());
            args.extend([word, at.field().cloned().unwrap_or_default(), body]);
            keys.push(at.key().clone());
        }
        Ok(truth("redrive", conn.script(&self.scripts.redrive, &keys, &args).await?)?)
    }

    /// How many daemons that deliver from this queue are connected, by their subscription to its presence channel. One
    /// that is just connecting, or cut off from Redis, is not among them.
    ///
    /// # Errors
    ///
    /// Those of the connection, and a missing right to `PUBSUB`.
    pub async fn daemons(&self, conn: &Conn) -> Result<u64, SourceError> {
        let daemons: i64 = listeners(conn, &[&self.keys.presence]).await?.into_iter().sum();
        Ok(daemons.unsigned_abs())
    }
}

/// Reads the answer of a script that says whether it did something.
pub(crate) fn truth(script: &'static str, reply: redis::Value) -> Result<bool, BadReply> {
    match reply {
        redis::Value::Int(n) => Ok(n == 1),
        _ => Err(BadReply { script, expected: "0 or 1" }),
    }
}
