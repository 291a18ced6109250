//! Requests of an operator: another time for an element that waits, its end, another life for a dead letter.
//!
//! Each request is one script. It compares the member and the score that were seen, and the hash of a body, and changes
//! nothing if one differs; then the element is searched again. A new first due time is announced where Redisson's clients
//! listen, otherwise on the presence channel.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;

use super::claims::{BodyAt, Element};
use super::inspect::Place;
use super::keys::Keys;
use super::locate::Located;
use crate::args::{text, truth};
use crate::body::CompanionKey;
use crate::dead::DeadLetter;
use crate::error::StoreError;
use crate::handle::Ledger;
use crate::scripts::whole;
use delaybridge_link::{BadReply, Clock, Conn, Score, Script, listeners};

static IMPORT: LazyLock<Script> =
    LazyLock::new(|| Script::new("import", whole(include_str!("scripts/import.lua"), Clock::Redis)));

/// A line of an import.
#[derive(Debug, Clone, Copy)]
pub struct Import {
    /// Distinguishes this import from every other one.
    pub run: u64,
    /// Number of the line.
    pub line: u64,
}

/// The message on the presence channel that something may fall due earlier than the daemons know.
pub const CHANGED: &[u8] = b"changed";

/// The beginning of a message on the presence channel about what an operator did; the rest is for a log.
pub const NOTE: &[u8] = b"operated ";

/// The outcome for an element that was to be moved. Only the first has changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acted {
    /// The element was moved.
    Done,
    /// The element has that time already.
    Already,
    /// The element is not there any more.
    Gone,
    /// The element has another time than the one that it was seen with, or is scheduled once more.
    Moved,
    /// The body was written anew since it was read.
    Rewritten,
}

impl Acted {
    fn read(script: &'static str, reply: redis::Value) -> Result<Acted, BadReply> {
        match reply {
            redis::Value::BulkString(letter) => match &letter[..] {
                b"y" => Some(Acted::Done),
                b"a" => Some(Acted::Already),
                b"n" => Some(Acted::Gone),
                b"c" => Some(Acted::Moved),
                b"b" => Some(Acted::Rewritten),
                _ => None,
            },
            _ => None,
        }
        .ok_or(BadReply { script, expected: "a known letter" })
    }
}

/// Another body in the place of the one that was read.
#[derive(Debug, Clone)]
pub struct NewBody {
    /// The one that was read.
    pub was: Bytes,
    /// The new one.
    pub is: Bytes,
}

/// The end of an element that is removed.
#[derive(Debug, Clone)]
pub enum Removal {
    /// The element is gone for good, its body too, whatever that is by now.
    ForGood,
    /// A dead letter with these fields, and the body that was read.
    Dead {
        /// The fields of the letter.
        fields: Vec<(&'static str, Bytes)>,
        /// The body, where it is not in the element.
        body: Option<Bytes>,
    },
}

impl Ledger {
    /// Gives an element that was found scheduled, or waiting for a retry, this time, and tells those who wait for the first.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again.
    pub async fn reschedule(
        &self,
        conn: &Conn,
        found: &Located,
        at_ms: i64,
        body: Option<&NewBody>,
    ) -> Result<Acted, StoreError> {
        let score = self.score_at(found.place, at_ms);
        let own = self.source.announcements().filter(|_| found.place == Place::Scheduled);
        let own = own.and_then(|own| Some((own.channel().clone(), own.announce(at_ms)?)));
        let (channel, words) = own.unwrap_or_else(|| (self.keys.presence.clone(), Bytes::from_static(CHANGED)));
        let mut keys = vec![found.key.clone()];
        let seen = found.score.map(text).unwrap_or_default();
        let mut args = vec![found.member.clone(), seen, text(score), channel.to_string().into(), words];
        if let Some((at, body)) = self.source.body_at(&found.element()).zip(body) {
            keys.push(at.key().clone());
            args.extend([kind_of(&at), at.field().cloned().unwrap_or_default(), sha1(&body.was), body.is.clone()]);
        }
        Ok(Acted::read("reschedule", conn.script(&self.scripts.reschedule, &keys, &args).await?)?)
    }

    fn score_at(&self, place: Place, at_ms: i64) -> Score {
        if place == Place::Scheduled { self.source.unit().whole(at_ms) } else { Score::of_ms(at_ms) }
    }

    /// Returns the due time of an element at this place that was given this time: scores of whole seconds are up to one
    /// earlier.
    pub fn due_at(&self, place: Place, at_ms: i64) -> i64 {
        let score = self.score_at(place, at_ms);
        if place == Place::Scheduled { self.source.unit().due_ms(score) } else { score.ceil_ms() }
    }

    /// Takes an element that was found scheduled, or waiting for a retry, out of the queue.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again.
    pub async fn remove(&self, conn: &Conn, found: &Located, removal: &Removal) -> Result<Acted, StoreError> {
        let (half, word) = self.source.repair().removal();
        let mut keys = vec![found.key.clone(), self.keys.dead.clone()];
        let place: &'static [u8] = if found.place == Place::Scheduled { b"s" } else { b"r" };
        let seen = found.score.map(text).unwrap_or_default();
        let mut args = vec![found.member.clone(), seen, Bytes::from_static(place), text(half.len()), word];
        keys.extend(half);
        let fields = match removal {
            Removal::ForGood => &[][..],
            Removal::Dead { fields, .. } => fields,
        };
        args.push(text(2 * fields.len()));
        for (name, value) in fields {
            args.extend([Bytes::from_static(name.as_bytes()), value.clone()]);
        }
        let element = found.element();
        let at = self.source.body_at(&element);
        match (at, removal) {
            (Some(at), Removal::ForGood) => {
                let marks = self.cancelled(conn, &at, &element).await?;
                self.body_to_remove(&at, &element, (None, marks), &mut keys, &mut args);
            }
            (Some(at), Removal::Dead { body: Some(body), .. }) => {
                self.body_to_remove(&at, &element, (Some(body), Vec::new()), &mut keys, &mut args);
            }
            _ => {}
        }
        Ok(Acted::read("remove", conn.script(&self.scripts.remove, &keys, &args).await?)?)
    }

    /// Reads the element's body and returns the keys that remember that it is cancelled. The body is not compared
    /// when it is removed: one that is changed meanwhile is not remembered.
    async fn cancelled(&self, conn: &Conn, at: &BodyAt, element: &Bytes) -> Result<Vec<CompanionKey>, StoreError> {
        let remembers = self.source.bodies().is_some_and(|bodies| bodies.remembers_cancelled());
        let Some(field) = at.field().filter(|_| remembers) else { return Ok(Vec::new()) };
        let mut read = redis::cmd("HGET");
        read.arg(&at.key()[..]).arg(&field[..]);
        let body: Option<Vec<u8>> = conn.query(&read).await?;
        let bodies = self.source.bodies();
        Ok(bodies.zip(body).map(|(bodies, body)| bodies.cancelled(element, &body.into())).unwrap_or_default())
    }

    /// Appends the key of a body and of what goes with it, and what the script has to know of them. `seen` is what the body has
    /// to be; none for any.
    fn body_to_remove(
        &self,
        at: &BodyAt,
        element: &Bytes,
        (seen, marks): (Option<&Bytes>, Vec<CompanionKey>),
        keys: &mut Vec<Bytes>,
        args: &mut Vec<Bytes>,
    ) {
        keys.extend([at.key().clone(), self.keys.lives()]);
        let place = text(keys.len() - 1);
        let field = at.field().cloned().unwrap_or_default();
        let word = Bytes::from_static(at.word().as_bytes());
        let bodies = self.source.bodies();
        let mut companions =
            bodies.map(|bodies| bodies.companions(element, seen.unwrap_or(&Bytes::new()))).unwrap_or_default();
        companions.extend(marks);
        args.extend([place, word, field, seen.map(sha1).unwrap_or_default(), text(companions.len())]);
        for companion in companions {
            let (what, key, name, ms) = match companion {
                CompanionKey::Whole { key } => (&b"u"[..], key, Bytes::new(), Bytes::new()),
                CompanionKey::Field { key, field } => (&b"h"[..], key, field, Bytes::new()),
                CompanionKey::Member { key, member } => (&b"z"[..], key, member, Bytes::new()),
                CompanionKey::Remembered { key, member, ms } => (&b"k"[..], key, member, text(ms)),
            };
            keys.push(key);
            args.extend([Bytes::from_static(what), text(keys.len()), name, ms]);
        }
    }

    /// Moves a dead letter to the retry zset under a new header, due at this time (none: now), and its body back to where it
    /// was; `false` when it was not there, when the very same member waits there already, from a dead letter with the same bytes,
    /// or when there is another body for the same id: redrive this one later.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again.
    pub async fn redrive(
        &self,
        conn: &Conn,
        letter: &DeadLetter,
        member: Bytes,
        at_ms: Option<i64>,
    ) -> Result<bool, StoreError> {
        let mut args = vec![Bytes::from(letter.stream_id.clone()), member, at_ms.map(text).unwrap_or_default()];
        let mut keys = vec![self.keys.dead.clone(), self.keys.retry.clone()];
        if let Some((at, body)) = self.body_of(letter) {
            let word = Bytes::from_static(at.word().as_bytes());
            args.extend([word, at.field().cloned().unwrap_or_default(), body]);
            keys.extend([at.key().clone(), self.keys.lives()]);
        }
        Ok(truth("redrive", conn.script(&self.scripts.redrive, &keys, &args).await?)?)
    }

    /// Stores a dead letter that comes from outside. A line that was stored before is not stored again.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again.
    pub async fn import(&self, conn: &Conn, import: Import, fields: &[(String, Bytes)]) -> Result<(), StoreError> {
        let keys = [self.keys.dead.clone(), self.keys.state.clone()];
        let mut args = vec![text(import.run), text(import.line)];
        for (name, value) in fields {
            args.extend([Bytes::from(name.clone()), value.clone()]);
        }
        truth("import", conn.script(&IMPORT, &keys, &args).await?)?;
        Ok(())
    }

    /// Tells the daemons that serve the queue to look for what is due.
    ///
    /// # Errors
    ///
    /// Those of the connection, and a missing right to `PUBLISH`.
    pub async fn announce_change(&self, conn: &Conn) -> Result<(), StoreError> {
        conn.query::<i64>(redis::cmd("PUBLISH").arg(&*self.keys.presence).arg(CHANGED)).await?;
        Ok(())
    }

    /// Sends the daemons that serve the queue a note of what an operator did.
    ///
    /// # Errors
    ///
    /// Those of the connection, and a missing right to `PUBLISH`.
    pub async fn publish_note(&self, conn: &Conn, note: &[u8]) -> Result<(), StoreError> {
        conn.query::<i64>(redis::cmd("PUBLISH").arg(&*self.keys.presence).arg([NOTE, note].concat())).await?;
        Ok(())
    }

    /// Counts the connected daemons that deliver from this queue, by their subscription to its presence channels. One
    /// that is just connecting, or cut off from Redis, is not among them. One of a version without a channel for each
    /// database counts whatever its database is.
    ///
    /// # Errors
    ///
    /// Those of the connection, and a missing right to `PUBSUB`.
    pub async fn daemons(&self, conn: &Conn) -> Result<u64, StoreError> {
        daemons(conn, &self.keys).await
    }
}

/// Counts the connected daemons that deliver from the queue with these keys.
pub(super) async fn daemons(conn: &Conn, keys: &Keys) -> Result<u64, StoreError> {
    let mut channels: Vec<Arc<str>> = [&keys.presence, &keys.in_database].map(Clone::clone).into();
    channels.extend(keys.in_databases().into_iter().filter(|channel| *channel != keys.in_database));
    let channels: Vec<&str> = channels.iter().map(|channel| &**channel).collect();
    Ok(present(&listeners(conn, &channels).await?))
}

/// Returns the daemons of a queue by the listeners of its channels: that of all databases, its own, and those of
/// others.
fn present(listeners: &[i64]) -> u64 {
    let [all, own, others @ ..] = listeners else { return 0 };
    let newer = own + others.iter().sum::<i64>();
    (own + (all - newer).max(0)).unsigned_abs()
}

impl Located {
    /// Returns the bytes that the source's program wrote.
    pub fn element(&self) -> Bytes {
        let entry = (self.place != Place::Scheduled).then(|| Element::entry(self.member.clone(), 0)).flatten();
        entry.map_or_else(|| self.member.clone(), |entry| entry.bytes())
    }
}

fn kind_of(at: &BodyAt) -> Bytes {
    Bytes::from_static(if matches!(at, BodyAt::Value { .. }) { b"s" } else { b"h" })
}

fn sha1(body: &Bytes) -> Bytes {
    sha1_smol::Sha1::from(body).digest().to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_of_other_databases_do_not_count_unless_they_may_be_older() {
        let check = |all, own, others: &[i64], expected| {
            assert_eq!(present(&[&[all, own], others].concat()), expected, "{all} {own} {others:?}");
        };
        check(0, 0, &[0, 0], 0);
        check(2, 2, &[0, 0], 2);
        check(3, 1, &[2, 0], 1);
        // One that does not say which database is its own.
        check(4, 1, &[2, 0], 2);
        // One that has just subscribed to one of its channels.
        check(1, 1, &[1, 0], 1);
    }
}
