//! The letters that are meant, page by page, in the order of the stream: never more in memory than a page.

use std::collections::{HashMap, HashSet};

use super::LOOKED_AT;
use super::which::{Letters, PartAfter, SweepPlace, check_after, is_place};
use crate::error::{Attempted, Error};
use crate::session::Queue;
use delaybridge_core::message::MessageId;
use delaybridge_ledger::{DeadLetter, DeadLetters, Order, redis_now_ms};
use delaybridge_model::Config;

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
    /// Sinks of the filter that no letter had so far.
    unmet_sinks: Vec<&'a str>,
    /// Letters that are meant.
    matched: u64,
    /// The end of the range.
    newest: Option<String>,
    /// The time in ms from which the filter counts ages: the beginning of the first part.
    now_ms: i64,
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
        let after = which.after.as_deref().filter(|after| !after.is_empty()).map(PartAfter::of);
        let now_ms = match after.as_ref().and_then(|after| after.now_ms) {
            Some(now_ms) => now_ms,
            None => redis_now_ms(&queue.conn).await.attempt(&what)?,
        };
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
        // Where the range begins and ends saves reading; what fits is decided for each letter.
        let (oldest, newest) = which.filter.range(now_ms);
        let mut oldest = oldest.map(|ms| ms.to_string());
        let mut newest = newest.map(|ms| ms.to_string());
        match (order, after) {
            (Order::Oldest, Some(after)) => {
                oldest = Some(format!("({}", after.place));
                newest = after.until.map(str::to_owned).or(newest);
            }
            (Order::Newest, Some(after)) => newest = Some(format!("({}", after.place)),
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
        // Of letters that are named by their places, the others are not looked at.
        let unmet_sinks = which.filter.sink.iter().map(String::as_str).filter(|_| searches).collect();
        let matched = 0;
        let last = None;
        let examined = 0;
        Ok(Selection {
            queue,
            which,
            what,
            places,
            elements,
            letters,
            met,
            unmet_sinks,
            matched,
            newest,
            now_ms,
            last,
            examined,
            total,
        })
    }

    /// Returns the next page, of at most `most` letters that are looked at; `None` at the end, also of the part that
    /// was asked for.
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
        let looked_at: Vec<_> = page.iter().map(|letter| letter.stream_id.clone()).collect();
        let mut letters = self.fitting(page, false);
        if letters.len() > rest {
            letters.truncate(rest);
            self.last = letters.last().map(|letter| letter.stream_id.clone());
        }
        // Those behind the last one are looked at again by the next part.
        let end = looked_at.iter().position(|place| Some(place) == self.last.as_ref());
        self.examined += end.map_or(looked_at.len(), |end| end + 1) as u64;
        self.matched += letters.len() as u64;
        Ok(Some(LetterPage { letters, last: self.last.clone() }))
    }

    /// Returns the place that it has come to, if a part was asked for.
    pub fn place(&self) -> Option<SweepPlace> {
        self.which.limit?;
        let next = self.last.as_ref().map(|last| self.after(last));
        Some(SweepPlace { next, examined: self.examined, total: self.total })
    }

    /// Returns the `after` of a part that begins behind this letter, and means the same letters as this one.
    pub fn after(&self, place: &str) -> String {
        // A letter was read, so that there is an end.
        let newest = self.newest.as_deref().unwrap_or(place);
        format!("{place}..{newest}..{}", self.now_ms)
    }

    fn fitting(&mut self, mut page: Vec<DeadLetter>, named: bool) -> Vec<DeadLetter> {
        let (oldest, newest) = self.which.filter.range(self.now_ms);
        self.unmet_sinks.retain(|sink| !page.iter().any(|letter| letter.text("sink") == *sink));
        page.retain(|letter| {
            let stored_ms = letter.stream_id.split('-').next().and_then(|ms| ms.parse::<i64>().ok());
            let has_age = stored_ms
                .is_none_or(|ms| oldest.is_none_or(|oldest| ms >= oldest) && newest.is_none_or(|newest| ms <= newest));
            if !has_age {
                return false;
            }
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

    /// Returns the sinks of the filter that neither the configuration has nor a letter that was looked at. Letters of a sink that was
    /// removed from the configuration can be found.
    pub fn unknown_sinks(&self, config: &Config) -> Vec<String> {
        let unknown = |name: &&&str| !config.sinks.iter().any(|sink| *sink.name == ***name);
        self.unmet_sinks.iter().filter(unknown).map(|name| (*name).to_owned()).collect()
    }
}
