//! The recovery of the elements of a claim with a lost reply.

use std::time::Duration;

use super::entry::Entry;
use super::reply::Fields;
use super::{BATCH_BYTES, BATCH_ENTRIES, Ledger};
use crate::link::Conn;
use crate::source::{SourceError, millis, text};
use bytes::Bytes;

/// Which claim to look for, and where.
#[derive(Debug, Clone)]
pub struct RecoverRequest {
    /// The lost claim.
    pub number: u64,
    /// Its `not_after`.
    pub not_after_ms: i64,
    /// Last score that its entries can have.
    pub until_ms: i64,
    /// The new lease.
    pub lease: Duration,
    /// Where to begin.
    pub cursor: Cursor,
}

/// Where in the in-flight zset a search for a lost claim continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// First score.
    pub from: String,
    /// Members to skip at that score.
    pub skip: i64,
}

/// What recover found of a claim.
#[derive(Debug)]
pub enum Recovered {
    /// The lost claim may still run.
    Wait {
        /// Redis time in ms.
        now_ms: i64,
    },
    /// One slice.
    Slice {
        /// Redis time in ms.
        now_ms: i64,
        /// Entries of the claim, under a new lease.
        entries: Vec<Entry>,
        /// Where to continue, or `None` at the end.
        next: Option<Cursor>,
    },
}

impl Ledger {
    /// Searches for the entries of a claim with a lost reply; one slice.
    ///
    /// # Errors
    ///
    /// After any error it may be asked again from the same cursor.
    pub async fn recover(&self, conn: &Conn, request: &RecoverRequest) -> Result<Recovered, SourceError> {
        let args = [
            Bytes::copy_from_slice(&self.owner),
            Bytes::copy_from_slice(&request.number.to_le_bytes()),
            text(millis(request.lease)),
            text(request.not_after_ms),
            request.cursor.from.clone().into(),
            text(request.until_ms),
            text(request.cursor.skip),
            text(BATCH_ENTRIES),
            text(BATCH_BYTES),
            text(0),
        ];
        let reply = conn.script(&self.scripts.recover, std::slice::from_ref(&self.keys.in_flight), &args).await?;
        let mut fields = Fields::of("recover", reply)?;
        if fields.text()? == "wait" {
            return Ok(Recovered::Wait { now_ms: fields.int()? });
        }
        let now_ms = fields.int()?;
        let entries = fields.all_bytes()?.into_iter().filter_map(Entry::decode).collect();
        let cursor = Cursor { from: fields.text()?, skip: fields.int()? };
        let next = (fields.int()? == 0).then_some(cursor);
        Ok(Recovered::Slice { now_ms, entries, next })
    }
}
