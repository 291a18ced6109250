//! The way out: elements that delaybridge holds go back to where Redisson sees them.
//!
//! [`put_back`] decides, without Redis, what becomes of one entry; [`Redisson::restore`] moves a batch of them.
//!
//! A restore works only while no daemon does: no listener on the presence channel, no unexpired lease, no sweep by another
//! process. The script checks the last two with every batch. A full turn of the sweep comes first, and counts orphans. The
//! list is searched only if there are orphans.

use std::sync::LazyLock;

use bytes::Bytes;

use super::Redisson;
use super::layout::{self, Layout};
use super::scripts::of_the_command_line;
use delaybridge_ledger::claims::Element;
use delaybridge_ledger::{BATCH_BYTES, StoreError, fitting, text};
use delaybridge_link::{BadReply, Conn, Fields, Script};

static RESTORE: LazyLock<Script> =
    LazyLock::new(|| of_the_command_line("restore", include_str!("scripts/restore.lua")));

/// The place where an entry is held now.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// Waiting for an attempt, or released: the exact member.
    Retry(Bytes),
    /// A dead letter: its place in the stream.
    Dead(String),
}

/// The place that an entry goes back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Back {
    /// Into Redisson's sorted set and list.
    Scheduled {
        /// The packed element.
        element: Bytes,
        /// The due time in ms.
        due_ms: i64,
    },
    /// To the head of the ready list.
    Ready {
        /// The bare payload.
        payload: Bytes,
    },
}

/// Why an entry is not returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kept {
    /// Bytes of no layout would block every Redisson client.
    Junk,
    /// An entry of a newer delaybridge.
    Unknown,
    /// The one shape that, repacked, would be read as the other layout.
    Ambiguous,
    /// The same bytes are scheduled already: the two would become one.
    Twin,
}

impl Kept {
    /// Returns the word for a person.
    pub fn as_str(self) -> &'static str {
        match self {
            Kept::Junk => "of no layout of Redisson, which would block its clients",
            Kept::Unknown => "written by a newer delaybridge",
            Kept::Ambiguous => "ambiguous: the converted bytes also fit the other layout",
            Kept::Twin => "scheduled already with the very same bytes",
        }
    }
}

/// Converts an entry for clients that read `fleet`. An element of the other layout is converted with the same eight
/// bytes of id and the same payload, so that its id stays.
///
/// # Errors
///
/// [`Kept`], when it must stay where it is.
pub fn put_back(entry: &Element, fleet: Layout) -> Result<Back, Kept> {
    let Some(due_ms) = entry.due_ms() else {
        return Ok(Back::Ready { payload: entry.bytes() });
    };
    Ok(Back::Scheduled { element: repacked(&entry.bytes(), fleet)?, due_ms })
}

/// Converts the element to this layout, with its id and payload; the very same bytes if it has it already.
///
/// # Errors
///
/// [`Kept::Junk`], and [`Kept::Ambiguous`] where readers would take the result for the other layout.
pub fn repacked(element: &Bytes, to: Layout) -> Result<Bytes, Kept> {
    let parsed = layout::parse(element).map_err(|_| Kept::Junk)?;
    if parsed.layout == to {
        return Ok(element.clone());
    }
    let packed = Bytes::from(layout::pack(to, parsed.id, &parsed.payload));
    match layout::parse(&packed) {
        Ok(read) if read.layout == to => Ok(packed),
        _ => Err(Kept::Ambiguous),
    }
}

/// The outcome for one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// The element is back.
    Yes,
    /// Another client took it meanwhile.
    Gone,
    /// [`Kept::Twin`].
    Twin,
}

impl Moved {
    /// Reads the letters of a script that moves one after the other: at most one for each of `most`.
    pub(super) fn read(script: &'static str, letters: &[u8], most: usize) -> Result<Vec<Moved>, BadReply> {
        let moved = letters.iter().map(|letter| match letter {
            b'y' => Some(Moved::Yes),
            b'n' => Some(Moved::Gone),
            b't' => Some(Moved::Twin),
            _ => None,
        });
        let moved = moved.collect::<Option<Vec<_>>>().filter(|moved| moved.len() <= most);
        // None for any would be asked again for ever.
        let moved = moved.filter(|moved| most == 0 || !moved.is_empty());
        moved.ok_or(BadReply { script, expected: "a known letter for each" })
    }
}

/// The signs that a daemon is at work on the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtWork {
    /// Claims with a lease that is not over.
    pub leases: u64,
    /// A daemon sweeps the list.
    pub sweeps: bool,
    /// A daemon forwards dead letters.
    pub forwards: bool,
}

/// The answer of the restore script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restored {
    /// One for each of the first items; send the rest again if there are fewer.
    Done(Vec<Moved>),
    /// Nothing: a daemon is at work.
    AtWork(AtWork),
    /// Nothing: so many ghosts must be swept first.
    Ghosts(u64),
}

impl Redisson {
    /// Moves a batch back; with nothing to move it only looks whether a daemon is at work. `search` where L may hold
    /// entries of the returned elements.
    ///
    /// # Errors
    ///
    /// After any error the same batch may be sent again.
    pub async fn restore(&self, conn: &Conn, items: &[(Held, Back)], search: bool) -> Result<Restored, StoreError> {
        let k = &self.keys;
        let keys: Vec<Bytes> = [&k.leases, &k.retry, &k.dead]
            .into_iter()
            .chain(k.in_scripts())
            .chain([&k.state, &k.permits])
            .cloned()
            .collect();
        let mut args = vec![Bytes::from(k.channel.to_string()), Bytes::from_static(if search { b"1" } else { b"0" })];
        for (held, back) in items {
            let (place, name): (&'static [u8], Bytes) = match held {
                Held::Retry(member) => (b"t", member.clone()),
                Held::Dead(stream_id) => (b"d", stream_id.clone().into()),
            };
            let (to, due, bytes): (&'static [u8], _, _) = match back {
                Back::Scheduled { element, due_ms } => (b"z", text(due_ms), element.clone()),
                Back::Ready { payload } => (b"l", Bytes::new(), payload.clone()),
            };
            args.extend([Bytes::from_static(place), name, Bytes::from_static(to), due, bytes]);
        }
        let mut fields = Fields::of("restore", conn.script(&RESTORE, &keys, &args).await?)?;
        match fields.text()?.as_str() {
            "work" => Ok(Restored::AtWork(AtWork {
                leases: fields.int()?.unsigned_abs(),
                sweeps: fields.int()? == 1,
                forwards: fields.int()? == 1,
            })),
            "ghosts" => Ok(Restored::Ghosts(fields.int()?.unsigned_abs())),
            "done" => Ok(Restored::Done(Moved::read("restore", &fields.bytes()?, items.len())?)),
            _ => Err(BadReply { script: "restore", expected: "work, ghosts or done" }.into()),
        }
    }
}

/// Returns the number of these items that one script may take, by count and by bytes: at least one, if there is one.
pub fn restore_end(items: &[(Held, Back)]) -> usize {
    let held = |held: &Held| match held {
        Held::Retry(member) => member.len(),
        Held::Dead(_) => 0,
    };
    let back = |back: &Back| match back {
        Back::Scheduled { element, .. } => element.len(),
        Back::Ready { payload } => payload.len(),
    };
    fitting(items.iter().map(|(from, to)| held(from) + back(to)), 2 * BATCH_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_core::message::{MessageId, Origin};
    use delaybridge_ledger::BATCH_ENTRIES;
    use delaybridge_ledger::claims::Header;

    fn entry(origin: Origin, element: &[u8]) -> Element {
        let mut member = Header::redriven(origin, MessageId(*b"RANDOM8B"), 5_000, vec![]).encode();
        member.extend_from_slice(element);
        Element::entry(member.into(), 0).unwrap()
    }

    #[test]
    fn an_element_goes_back_as_it_was_or_in_the_fleet_s_layout_under_the_same_id() {
        let id = MessageId(*b"RANDOM8B");
        for from in [Layout::Old, Layout::New] {
            for to in [Layout::Old, Layout::New] {
                let Ok(Back::Scheduled { element, due_ms }) =
                    put_back(&entry(Origin::Delayed, &layout::pack(from, id, b"hello")), to)
                else {
                    panic!("{from:?} to {to:?}")
                };
                let read = layout::parse(&element).unwrap();
                assert_eq!((read.layout, read.id, &read.payload[..], due_ms), (to, id, &b"hello"[..], 5_000));
            }
        }
        let ready = put_back(&entry(Origin::Ready, b"bare"), Layout::New);
        assert_eq!(ready, Ok(Back::Ready { payload: Bytes::from_static(b"bare") }));
    }

    #[test]
    fn junk_and_what_would_be_misread_stay() {
        assert_eq!(put_back(&entry(Origin::Delayed, b"junk"), Layout::New), Err(Kept::Junk));
        // Old, payload 00: unambiguous as new; new and empty with these bytes is read as old.
        let id = MessageId([0, 0, 0, 0, 0, 0, 0x43, 1]);
        let old = layout::pack(Layout::Old, id, b"");
        assert_eq!(put_back(&entry(Origin::Delayed, &old), Layout::New), Err(Kept::Ambiguous));
    }

    #[test]
    fn a_batch_is_bounded_by_count_and_bytes_but_takes_one() {
        let item = |size: usize| (Held::Retry(vec![0; size].into()), Back::Ready { payload: vec![0; size].into() });
        assert_eq!(restore_end(&[item(10 << 20), item(1)]), 1);
        assert_eq!(restore_end(&vec![item(1); 700]), BATCH_ENTRIES);
        assert_eq!(restore_end(&vec![item(400 << 10); 5]), 2);
        assert_eq!(restore_end(&[]), 0);
    }
}
