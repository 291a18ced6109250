//! The times of a cron pattern in a time zone, with the rules of cron for a clock that is put forward or back.
//!
//! The pattern is searched in local time alone, which knows no such change; each local time found becomes an instant here.

use croner::Cron;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

/// More than two offsets of a zone differ by, and a local time from an instant.
const FAR: SignedDuration = SignedDuration::from_hours(60);

/// A pattern in a time zone.
#[derive(Clone)]
pub(super) struct Occurrences {
    pub(super) cron: Cron,
    pub(super) tz: TimeZone,
    /// Whether the pattern is one of fixed times: each local time is one instant. Otherwise each is as many instants as the
    /// clock shows it: none, one, or two.
    pub(super) fixed: bool,
}

impl Occurrences {
    /// Returns the first occurrence after an instant.
    pub(super) fn after(&self, at: Timestamp) -> Option<Timestamp> {
        if self.fixed { self.fixed_after(at) } else { self.shown_after(at) }
    }

    /// Returns the last occurrence before or at an instant.
    pub(super) fn until(&self, at: Timestamp) -> Option<Timestamp> {
        if self.fixed { self.fixed_until(at) } else { self.shown_until(at) }
    }

    fn fixed_after(&self, at: Timestamp) -> Option<Timestamp> {
        let mut local = shown(at, self.tz.to_offset(at))?;
        loop {
            local = self.next(local, false)?;
            let found = self.instant(local)?;
            // Of local times that come twice, the first was before.
            if found > at {
                return Some(found);
            }
        }
    }

    fn fixed_until(&self, at: Timestamp) -> Option<Timestamp> {
        let local = shown(at, self.tz.to_offset(at))?;
        // While local times come again, those up to the end of the first round are over.
        let mut local = match self.tz.to_ambiguous_timestamp(Offset::UTC.to_datetime(local)).offset() {
            AmbiguousOffset::Fold { before, .. } => shown(at, before)?,
            _ => local,
        };
        let mut inclusive = true;
        loop {
            local = self.previous(local, inclusive)?;
            inclusive = false;
            let found = self.instant(local)?;
            if found <= at {
                return Some(found);
            }
        }
    }

    /// Returns the instant of a fixed local time: the first of two, and the end of the gap that it is in.
    fn instant(&self, local: Timestamp) -> Option<Timestamp> {
        match self.tz.to_ambiguous_timestamp(Offset::UTC.to_datetime(local)).offset() {
            AmbiguousOffset::Unambiguous { offset } => meant(local, offset),
            AmbiguousOffset::Fold { before, .. } => meant(local, before),
            AmbiguousOffset::Gap { before, .. } => self.change_until(meant(local, before)?),
        }
    }

    fn shown_after(&self, at: Timestamp) -> Option<Timestamp> {
        let mut from = at;
        let mut inclusive = false;
        loop {
            let offset = self.tz.to_offset(from);
            let found = meant(self.next(shown(from, offset)?, inclusive)?, offset)?;
            match self.tz.following(from).next().map(|change| change.timestamp()) {
                Some(change) if found >= change => from = change.max(found.checked_sub(FAR).ok()?),
                _ => return Some(found),
            }
            inclusive = true;
        }
    }

    fn shown_until(&self, at: Timestamp) -> Option<Timestamp> {
        let mut from = at;
        loop {
            let offset = self.tz.to_offset(from);
            let found = meant(self.previous(shown(from, offset)?, true)?, offset)?;
            match self.change_until(from) {
                Some(change) if found < change => {
                    from = change.checked_sub(SignedDuration::from_millis(1)).ok()?.min(found.checked_add(FAR).ok()?);
                }
                _ => return Some(found),
            }
        }
    }

    /// Returns the last change of the clock before or at an instant.
    fn change_until(&self, at: Timestamp) -> Option<Timestamp> {
        let behind = at.checked_add(SignedDuration::from_nanos(1)).ok()?;
        self.tz.preceding(behind).next().map(|change| change.timestamp())
    }

    fn next(&self, local: Timestamp, inclusive: bool) -> Option<Timestamp> {
        let found = self.cron.find_next_occurrence(&local.to_zoned(TimeZone::UTC), inclusive);
        found.ok().map(|found| found.timestamp())
    }

    fn previous(&self, local: Timestamp, inclusive: bool) -> Option<Timestamp> {
        let found = self.cron.find_previous_occurrence(&local.to_zoned(TimeZone::UTC), inclusive);
        found.ok().map(|found| found.timestamp())
    }
}

/// Returns the local time that a clock with this offset shows, as the instant at which one of UTC shows the same.
fn shown(at: Timestamp, offset: Offset) -> Option<Timestamp> {
    at.checked_add(SignedDuration::from_secs(offset.seconds().into())).ok()
}

/// Returns the instant at which a clock with this offset shows a local time.
fn meant(local: Timestamp, offset: Offset) -> Option<Timestamp> {
    local.checked_sub(SignedDuration::from_secs(offset.seconds().into())).ok()
}
