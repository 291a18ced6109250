//! The letters that are meant, page by page, in the order of the stream: never more in memory than a page.

use std::collections::{HashMap, HashSet};

use super::LOOKED_AT;
use super::which::{Letters, SweepPlace, check_after, is_place};
use crate::error::{Attempted, Error};
use crate::session::Queue;
use delaybridge_core::message::MessageId;
use delaybridge_ledger::{DeadLetter, DeadLetters, Order, redis_now_ms};

/// A reader of the letters that are meant.
pub struct Selection<'a> {
    queue: &'a Queue,
    which: &'a Letters,
    what: String,
    /// Places that were named and are still to be asked for.
    places: Vec<&'a str>,
    /// Ids of elements that were named.
    elements: HashMap<MessageId, &'a str>,
    /// The stream, where it is searched.
    letters: Option<DeadLetters<'a>>,
    met: HashSet<&'a str>,
    /// Letters that are meant.
    matched: u64,
    /// The end of the range.
    newest: Option<String>,
    /// The last letter that was looked at; none behind the end.
    pub last: Option<String>,
    /// Letters that were looked at.
    pub examined: u64,
    /// Letters to look at, as it was at the beginning.
    pub total: u64,
}

/// Some letters.
pub struct LetterPage {
    /// The letters that are meant.
    pub letters: Vec<DeadLetter>,
    /// The place of the last one that was looked at.
    pub last: Option<String>,
}

impl<'a> Selection<'a> {
    /// Begins to read. What dies from now on is not among them.
    ///
    /// # Errors
    ///
    /// When the filter cannot be, and when Redis cannot be asked.
    pub async fn open(queue: &'a Queue, which: &'a Letters, order: Order) -> Result<Selection<'a>, Error> {
        which.filter.check()?;
        check_after(which.after.as_deref())?;
        let what = format!("read the dead letters of `{}`", queue.id());
        let now_ms = redis_now_ms(&queue.conn).await.attempt(&what)?;
        let mut places = Vec::new();
        let mut elements = HashMap::new();
        for name in which.ids.iter().flatten() {
            if is_place(name) {
                places.push(name.as_str());
            } else {
                elements.insert(MessageId::of_text(name), name.as_str());
            }
        }
        let searches = which.all || !elements.is_empty() || which.ids.is_none();
        let (mut oldest, mut newest) = which.filter.range(now_ms);
        match (order, which.after.as_deref().filter(|after| !after.is_empty())) {
            (Order::Oldest, Some(after)) => {
                let (after, until) =
                    after.split_once("..").map_or((after, None), |(after, until)| (after, Some(until)));
                oldest = Some(format!("({after}"));
                newest = until.map(str::to_owned).or(newest);
            }
            (Order::Newest, Some(after)) => newest = Some(format!("({after}")),
            (_, None) => {}
        }
        let mut letters = None;
        let mut total = places.len() as u64;
        if searches {
            total += queue.ledger.dead_count(&queue.conn).await.attempt(&what)? as u64;
            if newest.is_none() {
                let last = queue.ledger.dead_range(&queue.conn, Order::Newest, "+", "-", 1).await.attempt(&what)?;
                newest = last.into_iter().next().map(|letter| letter.stream_id);
            }
            if newest.is_some() {
                let range = queue.ledger.dead_letters_between(&queue.conn, order, oldest, newest.clone());
                letters = Some(range.await.attempt(&what)?);
            }
        }
        places.reverse();
        let met = HashSet::new();
        let matched = 0;
        let last = None;
        let examined = 0;
        Ok(Selection { queue, which, what, places, elements, letters, met, matched, newest, last, examined, total })
    }

    /// Returns the next page, of at most `most` letters that are looked at; `None` at the end, also of the part that
    /// was asked for.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked.
    pub async fn next(&mut self, most: usize) -> Result<Option<LetterPage>, Error> {
        let conn = &self.queue.conn;
        if let Some(place) = self.places.pop() {
            self.examined += 1;
            let found = self.queue.ledger.dead_letter(conn, place).await.attempt(&self.what)?;
            let letters: Vec<_> = found.into_iter().collect();
            if !letters.is_empty() {
                self.met.insert(place);
            }
            let letters = self.fitting(letters, true);
            return Ok(Some(LetterPage { letters, last: None }));
        }
        let rest = self.which.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.matched));
        let full = self.which.limit.is_some() && self.examined >= LOOKED_AT;
        let Some(reader) = self.letters.as_mut().filter(|_| rest > 0 && !full) else { return Ok(None) };
        let rest = usize::try_from(rest).unwrap_or(usize::MAX);
        // Without a filter every letter is meant, so that no more are read than those.
        let most = if self.which.filter.is_empty() { most.min(rest) } else { most };
        let page = reader.next(conn, most).await.attempt(&self.what)?;
        self.last = page.last().map(|letter| letter.stream_id.clone());
        if page.is_empty() {
            return Ok(None);
        }
        self.examined += page.len() as u64;
        let mut letters = self.fitting(page, false);
        if letters.len() > rest {
            letters.truncate(rest);
            self.last = letters.last().map(|letter| letter.stream_id.clone());
        }
        self.matched += letters.len() as u64;
        Ok(Some(LetterPage { letters, last: self.last.clone() }))
    }

    /// Returns the place that it has come to, if a part was asked for.
    pub fn place(&self) -> Option<SweepPlace> {
        self.which.limit?;
        let next = self.last.as_ref().zip(self.newest.as_ref()).map(|(last, newest)| format!("{last}..{newest}"));
        Some(SweepPlace { next, examined: self.examined, total: self.total })
    }

    fn fitting(&mut self, mut page: Vec<DeadLetter>, named: bool) -> Vec<DeadLetter> {
        page.retain(|letter| {
            if !named && !self.elements.is_empty() && !self.which.all {
                let id = letter.identity().map(|own| own.id);
                let Some(name) = id.and_then(|id| self.elements.get(&id)) else { return false };
                self.met.insert(name);
            }
            self.which.filter.is_empty() || self.which.filter.fits(self.queue, letter)
        });
        page
    }

    /// Returns the names that fit no letter, as far as was searched.
    pub fn not_found(&self) -> Vec<String> {
        self.which.ids.iter().flatten().filter(|name| !self.met.contains(name.as_str())).cloned().collect()
    }
}
