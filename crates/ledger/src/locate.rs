//! The search for one element by its id, in steps: whoever waits sees how far it is, and may end it between two of them.
//!
//! A schedule may have fifty million elements, and the server has no index by id. What is asked for is mostly in trouble, and so not in
//! the schedule: the small places come first. They come once more at the end, because elements move from the schedule to them.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;

use crate::claims::Part;
use crate::error::StoreError;
use crate::handle::Ledger;
use crate::in_flight::ClaimKey;
use crate::inspect::Place;
use crate::packed::Shape;
use crate::page::{ANY_SIZE, Kind, page_of};
use delaybridge_core::message::Identity;
use delaybridge_link::{Conn, Score};

/// Elements of a schedule that the server compares in a step.
const OF_SCHEDULE: usize = 1_000;
/// Elements of another place that it compares at a time: their ids are behind headers of variable length, so all their bytes may be
/// compared.
const OF_OTHERS: usize = 100;
/// Elements with the same due time that are compared one by one; with more of them the schedule is searched.
const AT_A_TIME: usize = 20_000;
/// The mean size in bytes up to which they are, because all of them travel; a few are in any case.
const SMALL: usize = 4_096;
const FEW: usize = 100;
/// Looks at the small places at the end: one look misses an element that moves from a place that is still to be looked at to one that
/// was.
const LAST_LOOKS: usize = 2;

/// The place where an element was found.
#[derive(Debug, Clone)]
pub struct Located {
    /// The place.
    pub place: Place,
    /// The key that it is in.
    pub key: Bytes,
    /// The exact member.
    pub member: Bytes,
    /// The score there, if that is known.
    pub score: Option<Score>,
    /// The claim that has it, if it is in flight.
    pub claim: Option<ClaimKey>,
}

/// A place in the schedules that a search goes on at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleCursor {
    /// The pattern, by its number.
    pattern: usize,
    /// The schedule, by its number.
    schedule: usize,
    /// The cursor of ZSCAN.
    scan: u64,
    /// Elements that were compared before.
    compared: u64,
}

impl fmt::Display for ScheduleCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:{}", self.pattern, self.schedule, self.scan, self.compared)
    }
}

impl FromStr for ScheduleCursor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let problem = "it is the `next` of the search before";
        let mut numbers = text.splitn(4, ':').map(str::parse::<u64>);
        let mut number = || numbers.next().and_then(Result::ok).ok_or(problem);
        let small = |number: u64| usize::try_from(number).map_err(|_| problem);
        let (pattern, schedule) = (small(number()?)?, small(number()?)?);
        Ok(ScheduleCursor { pattern, schedule, scan: number()?, compared: number()? })
    }
}

/// The outcome of a step.
#[derive(Debug)]
pub enum SearchStep {
    /// The element.
    Found(Box<Located>),
    /// A part without the element; there is more to search.
    GoOn,
    /// The end: the element is nowhere.
    Nowhere,
}

/// A search for the element with an id: at the due time that the caller knows, in the retry zset and in flight, in the schedules, and
/// once more in the former. Junk has no id of its own and is not found.
pub struct IdSearch<'a> {
    ledger: &'a Ledger,
    wanted: Identity,
    patterns: Vec<Vec<u8>>,
    schedules: Vec<Bytes>,
    next: Stage,
    /// Elements that the parts before have compared, once with each pattern.
    before: u64,
    /// Scheduled elements.
    of: u64,
}

/// The next thing that a search does.
#[derive(Debug, Clone)]
enum Stage {
    /// Looks at what is due at this time.
    At(i64),
    /// Looks at what was claimed before.
    Claimed,
    /// Compares a part of the schedules.
    Schedules(ScheduleCursor),
    /// Looks at what was claimed meanwhile.
    Moved,
    Over,
}

impl Ledger {
    /// Begins a search for the element with this id; `due_ms` is its due time, if that is known, at least to the second. `after` goes on
    /// where another one ended.
    pub fn search_id(&self, wanted: &Identity, due_ms: Option<i64>, after: Option<ScheduleCursor>) -> IdSearch<'_> {
        let before = after.as_ref().map_or(0, |after| after.compared);
        let next = match (after, due_ms) {
            (Some(after), _) => Stage::Schedules(after),
            (None, Some(due_ms)) => Stage::At(due_ms),
            (None, None) => Stage::Claimed,
        };
        IdSearch {
            ledger: self,
            wanted: wanted.clone(),
            patterns: self.source().search().patterns(wanted),
            schedules: self.source().schedules(),
            next,
            before,
            of: 0,
        }
    }
}

impl IdSearch<'_> {
    /// Returns how many elements of the schedules were compared, about, here and in the parts before, and how many there are; 0 of 0
    /// before the first step there.
    pub fn progress(&self) -> (u64, u64) {
        let done = match &self.next {
            Stage::Schedules(cursor) => self.whole(cursor.compared).min(self.of),
            Stage::At(_) | Stage::Claimed => 0,
            Stage::Moved | Stage::Over => self.of,
        };
        (done, self.of)
    }

    /// Returns how many elements of the schedules were compared here, about.
    pub fn compared(&self) -> u64 {
        self.progress().0.saturating_sub(self.whole(self.before))
    }

    /// Returns the number of elements for one of comparisons: one with each pattern.
    fn whole(&self, compared: u64) -> u64 {
        compared / (self.patterns.len() as u64).max(1)
    }

    /// Returns the place in the schedules to go on at; none where that is not there.
    pub fn cursor(&self) -> Option<ScheduleCursor> {
        if let Stage::Schedules(cursor) = &self.next { Some(cursor.clone()) } else { None }
    }

    /// Does the next part of the search. A part of the schedules is a thousand elements.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn step(&mut self, conn: &Conn) -> Result<SearchStep, StoreError> {
        let (found, next) = match self.next.clone() {
            Stage::At(due_ms) => (self.at(conn, due_ms).await?, Stage::Claimed),
            Stage::Claimed => {
                let first = ScheduleCursor { pattern: 0, schedule: 0, scan: 0, compared: 0 };
                (self.claimed(conn).await?, Stage::Schedules(first))
            }
            Stage::Schedules(cursor) => self.schedule(conn, cursor).await?,
            Stage::Moved => {
                let mut found = None;
                for _ in 0..LAST_LOOKS {
                    if found.is_none() {
                        found = self.claimed(conn).await?;
                    }
                }
                (found, Stage::Over)
            }
            Stage::Over => return Ok(SearchStep::Nowhere),
        };
        self.next = next;
        Ok(found.map_or(SearchStep::GoOn, |located| SearchStep::Found(Box::new(located))))
    }

    /// Finds it among those that fall due at this time, if they are not too many.
    async fn at(&self, conn: &Conn, due_ms: i64) -> Result<Option<Located>, StoreError> {
        // People see times without their milliseconds.
        let within_ms = if due_ms % 1_000 == 0 { 1_000 } else { 1 };
        for (number, key) in self.schedules.iter().enumerate() {
            let first = self.ledger.due_before(conn, number, due_ms).await?;
            let behind = self.ledger.due_before(conn, number, due_ms.saturating_add(within_ms)).await?;
            if behind.saturating_sub(first) > AT_A_TIME {
                continue;
            }
            let mean = if behind.saturating_sub(first) <= FEW { ANY_SIZE } else { SMALL };
            let mut at = first;
            while at < behind {
                let page = page_of(conn, key, Kind::Zset, at, behind - at, (ANY_SIZE, mean)).await?.members;
                if page.is_empty() {
                    break;
                }
                at += page.len();
                let found = page.into_iter().find(|(score, _, member)| self.is_it(Place::Scheduled, *score, member));
                if let Some((score, _, member)) = found {
                    return Ok(Some(located(Place::Scheduled, key, member, score)));
                }
            }
        }
        Ok(None)
    }

    /// Finds it in the retry zset, or in flight.
    async fn claimed(&self, conn: &Conn) -> Result<Option<Located>, StoreError> {
        let patterns = self.ledger.source().search().patterns_inside(&self.wanted);
        let retry = &self.ledger.keys.retry;
        if let Some((member, score)) = self.in_key(conn, retry, Place::Retry, &patterns).await? {
            return Ok(Some(located(Place::Retry, retry, member, score)));
        }
        for claim in self.ledger.claim_keys(conn).await? {
            let found = match claim.part {
                Part::Bare => self.in_key(conn, &claim.key, Place::Scheduled, &self.patterns).await?,
                Part::Entries => self.in_key(conn, &claim.key, Place::InFlight, &patterns).await?,
            };
            if let Some((member, score)) = found {
                let located = located(Place::InFlight, &claim.key, member, score);
                return Ok(Some(Located { claim: Some(claim), ..located }));
            }
        }
        Ok(None)
    }

    /// Compares a part of the schedules. Returns what was found, and what comes next.
    async fn schedule(&mut self, conn: &Conn, cursor: ScheduleCursor) -> Result<(Option<Located>, Stage), StoreError> {
        let ScheduleCursor { pattern, schedule, scan, compared } = cursor;
        let (Some(like), Some(key)) = (self.patterns.get(pattern), self.schedules.get(schedule)) else {
            return Ok((None, Stage::Moved));
        };
        if self.of == 0 {
            self.of = self.count(conn).await?;
        }
        let (found, scan) = self.scan(conn, key, Place::Scheduled, like, scan).await?;
        let located = found.map(|(member, score)| located(Place::Scheduled, key, member, score));
        let (pattern, schedule) = match scan {
            0 if schedule + 1 < self.schedules.len() => (pattern, schedule + 1),
            0 => (pattern + 1, 0),
            _ => (pattern, schedule),
        };
        let compared = compared.saturating_add(OF_SCHEDULE as u64);
        let is_over = pattern >= self.patterns.len();
        let next = ScheduleCursor { pattern, schedule, scan, compared };
        Ok((located, if is_over { Stage::Moved } else { Stage::Schedules(next) }))
    }

    async fn count(&self, conn: &Conn) -> Result<u64, StoreError> {
        let mut all = 0;
        for key in &self.schedules {
            let count: u64 = conn.query(redis::cmd("ZCARD").arg(&key[..])).await?;
            all += count;
        }
        Ok(all)
    }

    /// Finds it in one key, however many steps that takes.
    async fn in_key(
        &self,
        conn: &Conn,
        key: &Bytes,
        place: Place,
        patterns: &[Vec<u8>],
    ) -> Result<Option<(Bytes, Option<Score>)>, StoreError> {
        for pattern in patterns {
            let mut scan = 0;
            loop {
                let (found, next) = self.scan(conn, key, place, pattern, scan).await?;
                if found.is_some() {
                    return Ok(found);
                }
                if next == 0 {
                    break;
                }
                scan = next;
            }
        }
        Ok(None)
    }

    /// Compares some members of a key. The server does it, so that only what matches travels. Returns what was found, and the next cursor.
    async fn scan(
        &self,
        conn: &Conn,
        key: &Bytes,
        place: Place,
        pattern: &[u8],
        cursor: u64,
    ) -> Result<(Option<(Bytes, Option<Score>)>, u64), StoreError> {
        // In a schedule the id is mostly at the beginning: a mismatch is seen at once, however long the member is.
        let step = if place == Place::Scheduled { OF_SCHEDULE } else { OF_OTHERS };
        let mut scan = redis::cmd("ZSCAN");
        scan.arg(&key[..]).arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(step);
        let (next, found): (u64, Vec<Vec<u8>>) = conn.query(&scan).await?;
        // Members and scores in turn.
        let exact = found.chunks_exact(2).find_map(|pair| {
            let score = std::str::from_utf8(&pair[1]).ok().and_then(Score::parse);
            let member = Bytes::copy_from_slice(&pair[0]);
            self.is_it(place, score, &member).then_some((member, score))
        });
        Ok((exact, next))
    }

    fn is_it(&self, place: Place, score: Option<Score>, member: &Bytes) -> bool {
        let seen = self.ledger.read(place, score, member.len(), member.clone());
        seen.id.is_some_and(|found| found.id == self.wanted.id) && seen.shape != Shape::Junk
    }
}

fn located(place: Place, key: &Bytes, member: Bytes, score: Option<Score>) -> Located {
    Located { place, key: key.clone(), member, score, claim: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let cursor = ScheduleCursor { pattern: 1, schedule: 2, scan: u64::MAX, compared: 50_000_000 };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in ["", "0", "0:0:0", "0:0:0:x", "0:0:0:0:0", "-1:0:0:0", "0:0:18446744073709551616:0"] {
            assert!(text.parse::<ScheduleCursor>().is_err(), "{text}");
        }
    }
}
