//! The way back: elements that are held of a queue go into the source's sorted sets again, with the scores that they had.
//! Redisson's queues have a way of their own, because their elements are in a list as well.

use std::sync::LazyLock;

use bytes::Bytes;

use super::claims::{BodyAt, Element};
use crate::args::text;
use crate::batch::{BATCH_BYTES, fitting};
use crate::dead::DeadLetter;
use crate::error::StoreError;
use crate::handle::Ledger;
use crate::scripts::whole;
use delaybridge_link::{BadReply, Clock, Conn, Fields, Score, Script};

static RESTORE: LazyLock<Script> =
    LazyLock::new(|| Script::new("restore", whole(include_str!("scripts/restore.lua"), Clock::Redis)));

/// The place where an element is held.
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
    held: Held,
    score: Score,
    member: Bytes,
    /// The body that a dead letter has, and where it belongs.
    body: Option<(BodyAt, Bytes)>,
}

/// The outcome for one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// The element is back.
    Yes,
    /// The element was taken meanwhile.
    Gone,
    /// The element stays: the same member is in the set already, or there is another body for it.
    Twin,
}

/// The answer of the script.
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

impl Ledger {
    /// Returns the item of an entry that waits for a retry, with the score that it had in the set; `None` for an entry
    /// of a version that this one does not know.
    pub fn waiting(&self, member: &Bytes) -> Option<Item> {
        let entry = Element::entry(member.clone(), 0)?;
        Some(self.item(Held::Retry(member.clone()), &entry, None))
    }

    /// Returns the element of a dead letter, and its body; `None` for a letter that cannot be read, and for one that
    /// lacks its body: without it the element would be of no use.
    pub fn buried(&self, letter: &DeadLetter) -> Option<Item> {
        let entry = Element::entry(letter.reborn().ok()?, 0)?;
        let body = self.body_of(letter);
        if self.source.bodies().is_some() && body.is_none() {
            return None;
        }
        Some(self.item(Held::Dead(letter.stream_id.clone()), &entry, body))
    }

    fn item(&self, held: Held, entry: &Element, body: Option<(BodyAt, Bytes)>) -> Item {
        let header = entry.header();
        let score = header.kept_score().unwrap_or_else(|| self.source.unit().until(header.time_ms));
        Item { held, score, member: entry.bytes(), body }
    }

    /// Puts a batch back; with nothing to put it only looks whether a daemon is at work.
    ///
    /// # Errors
    ///
    /// After any error the same batch may be sent again.
    pub async fn restore(&self, conn: &Conn, items: &[Item]) -> Result<Restored, StoreError> {
        const SCRIPT: &str = "restore";
        let waits = |item: &Item| match &item.held {
            Held::Retry(member) => Element::entry(member.clone(), 0),
            // The letter has the body.
            Held::Dead(_) => None,
        };
        self.note_back(conn, items.iter().filter_map(waits).collect()).await?;
        let k = &self.keys;
        let mut keys = vec![k.leases.clone(), k.retry.clone(), k.dead.clone(), k.state.clone()];
        let sets = self.source.schedules();
        let mut args = vec![text(sets.len()), text(u8::from(self.source.bodies().is_some()))];
        keys.extend(sets);
        for Item { held, score, member, body } in items {
            let (place, name): (&'static [u8], Bytes) = match held {
                Held::Retry(member) => (b"t", member.clone()),
                Held::Dead(stream_id) => (b"d", stream_id.clone().into()),
            };
            args.extend([Bytes::from_static(place), name, score.to_string().into(), member.clone()]);
            match body {
                None => args.extend([const { Bytes::new() }; 4]),
                Some((at, body)) => {
                    // Bodies in one hash have one key.
                    if keys.last() != Some(at.key()) {
                        keys.push(at.key().clone());
                    }
                    let field = at.field().cloned().unwrap_or_default();
                    args.extend([Bytes::from_static(at.word().as_bytes()), text(keys.len()), field, body.clone()]);
                }
            }
        }
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
                let moved = moved.ok_or(BadReply { script: SCRIPT, expected: "a known letter for each" })?;
                self.end_lives(conn, items, &moved).await?;
                Ok(Restored::Done(moved))
            }
            _ => Err(BadReply { script: SCRIPT, expected: "work or done" }.into()),
        }
    }
}

impl Ledger {
    /// Ends the counted lives of what went back to the source: it is in flight no more.
    async fn end_lives(&self, conn: &Conn, items: &[Item], moved: &[Moved]) -> Result<(), StoreError> {
        let back = items.iter().zip(moved).filter(|(_, moved)| self.source.bodies().is_some() && **moved == Moved::Yes);
        let fields = back.flat_map(|(item, _)| [&b"n"[..], &b"b"[..]].map(|kind| [kind, &item.member[..]].concat()));
        let back: Vec<Vec<u8>> = fields.collect();
        if back.is_empty() {
            return Ok(());
        }
        conn.query::<i64>(redis::cmd("HDEL").arg(&self.keys.lives()[..]).arg(back)).await?;
        Ok(())
    }
}

/// Returns the number of these items that one script may take, by count and by bytes: at least one, if there is one.
pub fn restore_end(items: &[Item]) -> usize {
    let size = |item: &Item| 2 * item.member.len() + item.body.as_ref().map_or(0, |(_, body)| 2 * body.len());
    fitting(items.iter().map(size), 2 * BATCH_BYTES)
}
