//! Answers of a source: announcements, cheap reads, the findings of a claim and of the gauges.

use super::upkeep::Leftovers;
use delaybridge_link::{BadReply, Fields, Score};

/// The meaning of an announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announcement {
    /// Something falls due at this Redis time in ms.
    DueAt(i64),
    /// Something has changed: look.
    Changed,
    /// A pause begins or ends: see what is paused.
    Pause,
    /// An operator did something over Redis. The rest of the message, from this byte on, is a note for the log.
    Note(usize),
}

/// The knowledge that the source's half of a claim gained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClaimAdded {
    /// The time at which something falls due next at the source, in Redis ms.
    pub next_ms: Option<i64>,
    /// A score before which nothing is due, because the head is large.
    pub large: Option<Score>,
    /// The leftovers of claims, if the claim looked.
    pub leftovers: Option<Leftovers>,
}

/// The numbers of what a source holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depths {
    /// Elements that wait for their due time or are due.
    pub scheduled: i64,
    /// The number of those that are due.
    pub due: i64,
    /// Elements that the source's own clients have made ready.
    pub ready: i64,
    /// Due time of the first, in ms. That of a large one is not read: how far it is from now is right to a factor of two,
    /// and never too much.
    pub head_ms: Option<i64>,
    /// Counts of what is not due yet.
    pub ahead: Ahead,
    /// The leftovers of claims.
    pub leftovers: Leftovers,
    /// Entries without an element that no claim recorded: at least this many.
    pub orphans: i64,
}

/// Elements that are not due yet, by when they will be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Elements that fall due within each of [`HORIZONS_MS`].
    pub within: [i64; HORIZONS_MS.len()],
    /// Elements with due times that are hardly meant: before 2001, as seconds that were taken for milliseconds are, or more than a
    /// year ahead.
    pub absurd: i64,
    /// Due time of the last, in ms: exact to a second, or to a thousandth of the time until then. It is found by counting, because
    /// the last may be large.
    pub last_ms: Option<i64>,
}

/// The horizons of [`Ahead`], in ms from now.
pub const HORIZONS_MS: [i64; 5] = [60_000, 600_000, 3_600_000, 21_600_000, 86_400_000];

impl Ahead {
    /// Reads what `ahead` of `stats.lua` found.
    ///
    /// # Errors
    ///
    /// For a reply of another form.
    pub fn read(mut found: Fields) -> Result<Ahead, BadReply> {
        let mut ahead = Ahead { absurd: found.int()?, ..Ahead::default() };
        if found.is_empty() {
            return Ok(ahead);
        }
        for within in &mut ahead.within {
            *within = found.int()?;
        }
        ahead.last_ms = Some(found.int()?);
        Ok(ahead)
    }
}

/// The number of elements in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Elements.
    pub elements: u64,
    /// Whether there were more claims than were looked at.
    pub more: bool,
}

/// The outcome for elements that were to be transferred in place of the source's clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rescued {
    /// Elements that were transferred.
    pub moved: u64,
    /// Elements that no consumer could read, left where they are.
    pub junk: u64,
}
