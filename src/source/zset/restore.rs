//! The way back: what is held of a queue goes into the set again, with the scores that its members had.

use std::sync::LazyLock;

use bytes::Bytes;

use super::ZsetSource;
use crate::link::{Conn, Script};
use crate::source::ledger::claims::Element;
use crate::source::ledger::{self, BATCH_BYTES, BATCH_ENTRIES, BadReply, Clock, Fields, whole};
use crate::source::{Score, Source, SourceError};

static RESTORE: LazyLock<Script> =
    LazyLock::new(|| Script::new("restore_zset", whole(include_str!("scripts/restore.lua"), Clock::Redis)));

/// Where an element is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// The exact member of the retry set.
    Retry(Bytes),
    /// The place in the dead stream.
    Dead(String),
}

/// An element on its way back.
#[derive(Debug, Clone)]
pub struct Item {
    /// Where it is held.
    pub held: Held,
    /// The score that it had.
    pub score: Score,
    /// The member.
    pub member: Bytes,
}

/// What became of one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// It is back.
    Yes,
    /// It was taken meanwhile.
    Gone,
    /// It stays: the same member is in the set already.
    Twin,
}

/// What a call of the script did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restored {
    /// One for each item.
    Done(Vec<Moved>),
    /// Nothing: daemons hold so many claims, and one forwards dead letters or not.
    AtWork {
        /// Claims with a lease that is not over.
        leases: u64,
        /// A daemon forwards dead letters.
        forwards: bool,
    },
}

impl ZsetSource {
    /// The element of an entry, with the score that it had in the set.
    pub fn item(&self, held: Held, entry: &Element) -> Item {
        let header = entry.header();
        let score = header.kept_score().unwrap_or_else(|| self.until(header.time_ms));
        Item { held, score, member: entry.bytes() }
    }

    /// Puts a batch back; with nothing to put it only looks whether a daemon is at work.
    ///
    /// # Errors
    ///
    /// After any error the same batch may be sent again.
    pub async fn restore(&self, conn: &Conn, items: &[Item]) -> Result<Restored, SourceError> {
        let k = ledger::Keys::of(self.tag());
        let keys = [k.leases, k.retry, k.dead, self.keys.zset.clone(), k.state];
        let mut args = Vec::with_capacity(4 * items.len());
        for Item { held, score, member } in items {
            let (place, name): (&'static [u8], Bytes) = match held {
                Held::Retry(member) => (b"t", member.clone()),
                Held::Dead(stream_id) => (b"d", stream_id.clone().into()),
            };
            args.extend([Bytes::from_static(place), name, score.to_string().into(), member.clone()]);
        }
        const SCRIPT: &str = "restore_zset";
        let mut fields = Fields::of(SCRIPT, conn.script(&RESTORE, &keys, &args).await?)?;
        match fields.text()?.as_str() {
            "work" => Ok(Restored::AtWork { leases: fields.int()?.unsigned_abs(), forwards: fields.int()? == 1 }),
            "done" => {
                let letters = fields.bytes()?;
                let moved = letters.iter().map(|letter| match letter {
                    b'y' => Some(Moved::Yes),
                    b'n' => Some(Moved::Gone),
                    b't' => Some(Moved::Twin),
                    _ => None,
                });
                let moved = moved.collect::<Option<Vec<_>>>().filter(|moved| moved.len() == items.len());
                Ok(Restored::Done(moved.ok_or(BadReply { script: SCRIPT, expected: "a known letter for each" })?))
            }
            _ => Err(BadReply { script: SCRIPT, expected: "work or done" }.into()),
        }
    }
}

/// How many of these items one script may take, by count and by bytes: at least one, if there is one.
pub fn restore_end(items: &[Item]) -> usize {
    let mut bytes = 0;
    let fits = |(place, item): (usize, &Item)| {
        bytes += 2 * item.member.len();
        place == 0 || bytes <= 2 * BATCH_BYTES
    };
    items.iter().take(BATCH_ENTRIES).enumerate().map(fits).take_while(|fits| *fits).count()
}
