//! Dead letters: listed, counted, shown, redriven, purged, exported and imported. All of it takes the same [`Filter`], reads the
//! stream page by page, and never holds more than a page.

mod aside;
mod back;
mod export;
mod filter;
mod import;
pub(crate) mod letter;
#[cfg(any(test, feature = "testing"))]
pub mod sample;
pub(super) mod selection;
mod which;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use self::aside::{Broken, BrokenFile, Imported};
pub use self::back::{can_go_back, import_from, open};
pub use self::export::{ExportPage, Exported, export, export_page};
pub use self::filter::{FILTER_NAMES, FieldIs, Filter, REASONS};
pub(crate) use self::import::PAST_IT;
pub use self::import::{LINES, LineBatch, LineOutcome, LineReport, import_lines};
pub use self::letter::{Letter, Summary};
use self::selection::Selection;
pub(crate) use self::which::check_after;
pub use self::which::{Letters, LettersBody, Pace, SweepPlace, is_place};
use super::error::{Attempted, Error};
use super::progress::{Pacer, ProgressWatch, Unwatched};
use super::session::Queue;
use delaybridge_ledger::{DeadLetter, Order, redis_now_ms};

/// Letters that one page of a list looks at, at most: the next page goes on behind them.
pub(crate) const LOOKED_AT: u64 = 10_000;
/// Letters with errors that are named.
const NAMED: usize = 100;

/// Some dead letters of a queue.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub struct LetterList {
    /// The queue.
    pub queue: String,
    /// Redis time.
    pub now_ms: i64,
    /// Letters of the queue in all.
    pub total: usize,
    /// Letters that were examined.
    pub examined: u64,
    /// The letters, the latest first.
    #[schemars(skip)]
    pub dead_letters: Vec<Summary>,
    /// The cursor of the next page; none at the end.
    pub next: Option<String>,
}

/// Dead letters with everything that they keep.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "DeadLetter", extend("additionalProperties" = true))]
pub struct ShownLetters {
    /// The queue.
    pub queue: String,
    /// The letters, the latest first.
    #[schemars(skip)]
    pub dead_letters: Vec<Letter>,
}

/// The outcome of redriving letters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub struct Redriven {
    /// The queue.
    pub queue: String,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// Letters that were meant.
    pub matched: usize,
    /// Letters that were redriven.
    pub redriven: usize,
    /// Letters that stay: the same element waits already, or its job was written again, or another client took it.
    pub left: usize,
    /// Whether it was ended early: run it again, and it goes on.
    pub stopped: bool,
    /// Letters that cannot be redriven; the first hundred.
    pub errors: Vec<LetterError>,
    /// Letters that cannot be redriven, in all.
    pub failed: usize,
    /// Names that fit no letter.
    pub not_found: Vec<String>,
}

/// The outcome of redriving or purging letters, which may come in several parts.
pub trait Swept: Default + DeserializeOwned {
    /// Adds the outcome of the next letters.
    fn add(&mut self, next: Self);

    /// Letters that were redriven or removed.
    fn done(&self) -> usize;

    /// Whether it was ended early.
    fn is_stopped(&self) -> bool;
}

impl Swept for Redriven {
    fn add(&mut self, next: Redriven) {
        (self.queue, self.dry_run, self.stopped) = (next.queue, next.dry_run, next.stopped);
        self.matched += next.matched;
        self.redriven += next.redriven;
        self.left += next.left;
        self.failed += next.failed;
        let room = NAMED.saturating_sub(self.errors.len());
        self.errors.extend(next.errors.into_iter().take(room));
        keep_named(&mut self.not_found, next.not_found);
    }

    fn done(&self) -> usize {
        self.redriven
    }

    fn is_stopped(&self) -> bool {
        self.stopped
    }
}

impl Swept for Purged {
    fn add(&mut self, next: Purged) {
        (self.queue, self.dry_run, self.stopped) = (next.queue, next.dry_run, next.stopped);
        self.matched += next.matched;
        self.purged += next.purged;
        keep_named(&mut self.not_found, next.not_found);
    }

    fn done(&self) -> usize {
        self.purged
    }

    fn is_stopped(&self) -> bool {
        self.stopped
    }
}

/// The first of the names that fit nothing: a million of them need not be in memory.
fn keep_named(all: &mut Vec<String>, next: Vec<String>) {
    let room = NAMED.saturating_sub(all.len());
    all.extend(next.into_iter().take(room));
}

/// A letter that stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LetterError {
    /// The letter's place in the stream.
    pub stream_id: String,
    /// The problem.
    pub message: String,
}

/// The outcome of removing letters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub struct Purged {
    /// The queue.
    pub queue: String,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// Letters that were meant.
    pub matched: usize,
    /// Letters that were removed.
    pub purged: usize,
    /// Whether it was ended early: run it again, and it goes on.
    pub stopped: bool,
    /// Names that fit no letter.
    pub not_found: Vec<String>,
}

/// One page of the letters that fit, the latest first: at most `limit`, of at most 10,000 that are looked at. `after` is the
/// `next` of the page before.
///
/// # Errors
///
/// When the filter or the place cannot be, and when Redis cannot be asked.
pub async fn page(queue: &Queue, filter: &Filter, limit: usize, after: Option<&str>) -> Result<LetterList, Error> {
    let what = format!("list the dead letters of `{}`", queue.id());
    if after.is_some_and(|after| !is_place(after)) {
        return Err(Error::invalid(format!("{what}: a page begins behind a stream id (1795251632252-0)")));
    }
    let now_ms = redis_now_ms(&queue.conn).await.attempt(&what)?;
    let which = Letters { filter: filter.clone(), after: after.map(str::to_owned), ..Letters::default() };
    let mut selection = Selection::open(queue, &which, Order::Newest).await?;
    let total = queue.ledger.dead_count(&queue.conn).await.attempt(&what)?;
    let (mut dead_letters, mut last, mut at_end) = (Vec::new(), None, false);
    while dead_letters.len() < limit && selection.step.done < LOOKED_AT {
        // Without a filter every letter fits, so that no more are read than are shown.
        let most = if filter.is_empty() { limit - dead_letters.len() } else { usize::MAX };
        let Some(page) = selection.next(most, &mut Unwatched).await? else {
            at_end = true;
            break;
        };
        for letter in &page.letters {
            if dead_letters.len() == limit {
                break;
            }
            // The elements are not kept: a thousand letters may hold gigabytes.
            dead_letters.push(Summary::of(&queue.ledger, letter));
        }
        last = match dead_letters.len() == limit {
            // What is behind the last one that is shown comes with the next page.
            true => dead_letters.last().map(|letter| letter.stream_id.clone()),
            false => page.last,
        };
    }
    let next = last.filter(|_| !at_end);
    Ok(LetterList { queue: queue.id().to_owned(), now_ms, total, examined: selection.step.done, dead_letters, next })
}

/// Lists at most `limit` letters that fit, the latest first, however many have to be looked at.
///
/// # Errors
///
/// As for [`page`].
pub async fn list(
    queue: &Queue,
    filter: &Filter,
    limit: usize,
    watch: &mut dyn ProgressWatch,
) -> Result<LetterList, Error> {
    let mut all = page(queue, filter, limit, None).await?;
    while let Some(next) = all.next.take_if(|_| all.dead_letters.len() < limit) {
        watch.at(super::progress::Progress {
            done: all.examined,
            of: Some(all.total as u64),
            acted: all.dead_letters.len() as u64,
        });
        if watch.is_stopped() {
            all.next = Some(next);
            break;
        }
        let more = page(queue, filter, limit - all.dead_letters.len(), Some(&next)).await?;
        all.examined += more.examined;
        all.dead_letters.extend(more.dead_letters);
        all.next = more.next;
    }
    Ok(all)
}

/// Shows everything that letters keep, the latest first: of several with a named element's id only the latest, of those that fit a
/// filter at most `limit`.
///
/// # Errors
///
/// When there is none of this name, and when Redis cannot be asked.
pub async fn show(queue: &Queue, which: &Letters, limit: usize) -> Result<ShownLetters, Error> {
    let limit = if which.ids.is_empty() { limit } else { 1 };
    let mut selection = Selection::open(queue, which, Order::Newest).await?;
    let mut dead_letters = Vec::new();
    while dead_letters.len() < limit {
        let Some(page) = selection.next(usize::MAX, &mut Unwatched).await? else { break };
        let rest = limit - dead_letters.len();
        let letter = |letter| Letter::of(&queue.ledger, letter, queue.spec.codec, &queue.spec.classes);
        dead_letters.extend(page.letters.into_iter().take(rest).map(letter));
    }
    if dead_letters.is_empty() && !which.ids.is_empty() {
        return Err(none_of(queue.id(), &which.ids, "nothing was shown"));
    }
    Ok(ShownLetters { queue: queue.id().to_owned(), dead_letters })
}

/// Makes elements of dead letters again, byte for byte, due now. What was redriven is not redriven twice; ended early or
/// interrupted, it goes on when it is run again.
///
/// # Errors
///
/// When Redis cannot be asked; the message says how many were redriven before.
pub async fn redrive(
    queue: &Queue,
    which: &Letters,
    pace: Pace,
    watch: &mut dyn ProgressWatch,
) -> Result<Redriven, Error> {
    which.check(&format!("redrive dead letters of `{}`", queue.id()))?;
    let mut answer = Redriven { queue: queue.id().to_owned(), dry_run: pace.dry_run, ..Redriven::default() };
    let mut selection = Selection::open(queue, which, Order::Oldest).await?;
    let mut rate = Pacer::new(pace.rate);
    while let Some(page) = selection.next(usize::MAX, watch).await? {
        for letter in page.letters {
            if watch.is_stopped() {
                answer.stopped = true;
                break;
            }
            answer.matched += 1;
            if !pace.dry_run {
                rate.turn().await;
                redrive_one(queue, letter, &mut answer).await?;
                selection.step.acted = answer.redriven as u64;
                if rate.is_bounded() {
                    watch.at(selection.step);
                }
            }
        }
    }
    answer.stopped |= watch.is_stopped();
    if answer.redriven > 0 {
        // Daemons look by themselves too, only later.
        let _ = queue.ledger.announce_change(&queue.conn).await;
    }
    if !answer.stopped {
        answer.not_found = selection.not_found();
    }
    Ok(answer)
}

async fn redrive_one(queue: &Queue, letter: DeadLetter, answer: &mut Redriven) -> Result<(), Error> {
    let member = match letter.reborn() {
        Ok(member) => member,
        Err(error) => {
            answer.failed += 1;
            if answer.errors.len() < NAMED {
                answer.errors.push(LetterError { stream_id: letter.stream_id, message: error.to_string() });
            }
            return Ok(());
        }
    };
    let what = format!(
        "redrive dead letter {} of `{}` ({} redriven before it; run the command again, nothing is redriven twice)",
        letter.stream_id, answer.queue, answer.redriven
    );
    // False: another client took it meanwhile, or its like waits.
    let moved = queue.ledger.redrive(&queue.conn, &letter, member, None).await.attempt(&what)?;
    answer.redriven += usize::from(moved);
    answer.left += usize::from(!moved);
    Ok(())
}

/// Removes dead letters for good. Ended early or interrupted, it goes on when it is run again.
///
/// # Errors
///
/// When Redis cannot be asked; the message says how many were removed before.
pub async fn purge(queue: &Queue, which: &Letters, pace: Pace, watch: &mut dyn ProgressWatch) -> Result<Purged, Error> {
    which.check(&format!("purge dead letters of `{}`", queue.id()))?;
    let mut answer = Purged { queue: queue.id().to_owned(), dry_run: pace.dry_run, ..Purged::default() };
    let mut selection = Selection::open(queue, which, Order::Oldest).await?;
    let mut rate = Pacer::new(pace.rate);
    while let Some(page) = selection.next(usize::MAX, watch).await? {
        let ids: Vec<_> = page.letters.into_iter().map(|letter| letter.stream_id).collect();
        answer.matched += ids.len();
        if pace.dry_run {
            continue;
        }
        for ids in ids.chunks(if rate.is_bounded() { 1 } else { ids.len().max(1) }) {
            if watch.is_stopped() {
                break;
            }
            rate.turn().await;
            let what = format!("purge dead letters of `{}` ({} removed before)", answer.queue, answer.purged);
            answer.purged += queue.ledger.purge(&queue.conn, ids).await.attempt(&what)?;
            selection.step.acted = answer.purged as u64;
        }
    }
    answer.stopped = watch.is_stopped();
    if !answer.stopped {
        answer.not_found = selection.not_found();
    }
    Ok(answer)
}

/// The end of an operation that was given names which fit no letter.
pub fn none_of(queue: &str, names: &[String], done: &str) -> Error {
    let shown = names.iter().take(10).cloned().collect::<Vec<_>>().join(", ");
    let more = if names.len() > 10 { format!(" and {} more", names.len() - 10) } else { String::new() };
    Error::not_found(format!(
        "find dead letters {shown}{more} in `{queue}`: there are none; {done}; `delaybridge dead ls {queue}` lists those that are \
         there"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_id_is_no_element_id() {
        for (text, good) in [
            ("1795251632252-0", true),
            ("52414e444f4d3842", false),
            ("0f6b9a1e-58a3-4a52-9a9e-6c4bfb7d3a11", false),
            ("1795251632252", false),
            ("a-b", false),
            ("-", false),
        ] {
            assert_eq!(is_place(text), good, "{text}");
        }
    }
}
