//! The transfer that Redisson's clients do, done for them: overdue elements to the ready list, as bare payloads.
//!
//! Overdue elements are read in Rust, because scripts parse nothing. Removal from Redisson's list follows the rules of a
//! claim (`scripts/claims/list.lua`), so the sweep runs too.

use std::time::Duration;

use bytes::Bytes;

use super::layout::{self, Junk};
use super::{Redisson, RedissonSource};
use delaybridge_ledger::{BATCH_BYTES, StoreError, fitting, millis, text};
use delaybridge_link::{BadReply, Conn, Fields};

/// An element and the payload in it, of either layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overdue {
    /// The exact member.
    pub element: Bytes,
    /// The payload that its consumer gets; shares the element's memory.
    pub payload: Bytes,
}

impl Overdue {
    /// Takes an element apart.
    ///
    /// # Errors
    ///
    /// [`Junk`], which no consumer could read: it is left alone.
    pub fn of(element: Bytes) -> Result<Overdue, Junk> {
        let payload = layout::parse(&element)?.payload;
        Ok(Overdue { element, payload })
    }
}

impl RedissonSource {
    /// Transfers those of the elements that are overdue by at least `after`; answers how many were.
    ///
    /// # Errors
    ///
    /// After any error the same batch may be sent again.
    pub async fn rescue(&self, conn: &Conn, after: Duration, batch: &[Overdue]) -> Result<usize, StoreError> {
        let k = &self.keys;
        let keys = k.in_scripts().map(Bytes::clone);
        let mut args = vec![self.cleanup_word(), text(millis(after))];
        for overdue in batch {
            args.extend([overdue.element.clone(), overdue.payload.clone()]);
        }
        let mut fields = Fields::of("rescue", conn.script(&self.scripts.rescue, &keys, &args).await?)?;
        fields.int()?;
        let letters = fields.bytes()?;
        if letters.len() == batch.len() {
            Ok(letters.iter().filter(|letter| **letter == b'y').count())
        } else {
            Err(BadReply { script: "rescue", expected: "a letter for each element" }.into())
        }
    }
}

impl Redisson {
    /// Rescues elements as [`RedissonSource::rescue`] does.
    ///
    /// # Errors
    ///
    /// As for [`RedissonSource::rescue`].
    pub async fn rescue(&self, conn: &Conn, after: Duration, batch: &[Overdue]) -> Result<usize, StoreError> {
        self.source.rescue(conn, after, batch).await
    }
}

/// Returns the number of these that one script may take, by count and by bytes: at least one, if there is one.
pub fn rescue_end(batch: &[Overdue]) -> usize {
    fitting(batch.iter().map(|overdue| overdue.element.len()), BATCH_BYTES)
}
