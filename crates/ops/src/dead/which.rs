//! The letters that an operator means, and how fast they are worked through.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::filter::Filter;
use crate::error::Error;
use crate::plural;

/// The letters that are meant.
#[derive(Debug, Clone, Default)]
pub struct Letters {
    /// Stream ids, or ids of elements; none for all that fit.
    pub ids: Vec<String>,
    /// All of them, also if there are ids.
    pub all: bool,
    /// The filter that all of them fit.
    pub filter: Filter,
    /// Only those behind this place, in the order of the reading; with `..` and a place, up to that one.
    pub after: Option<String>,
    /// At most so many that are meant, of at most 10,000 that are looked at: the next part goes on behind them.
    pub limit: Option<u64>,
}

/// The place that an operation on many letters has come to, where it was asked for a part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SweepPlace {
    /// The `after` of the next part; none at the end.
    pub next: Option<String>,
    /// Letters that were examined.
    pub examined: u64,
    /// Letters that are to be examined in all, as it was at the beginning of this part.
    pub total: u64,
}

/// The body of a request to redrive or remove letters: `ids`, a `filter`, or `all`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "WhichLetters", extend("required" = []))]
pub struct LettersBody {
    /// Places in the stream, or ids of elements; 1,000 at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<String>>,
    /// All current dead letters.
    pub all: bool,
    /// The letters that fit.
    #[serde(skip_serializing_if = "Filter::is_empty")]
    pub filter: Filter,
    /// Only count them.
    pub dry_run: bool,
    /// At most so many a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
}

impl LettersBody {
    /// The letters, and the pace.
    ///
    /// # Errors
    ///
    /// When it does not say which letters, or says it in two ways.
    pub fn read(self) -> Result<(Letters, Pace), Error> {
        let LettersBody { ids, all, filter, dry_run, rate } = self;
        filter.check()?;
        if ids.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::invalid("read `ids`: expected 1 to 1000 items, found 0"));
        }
        let ids = ids.unwrap_or_default();
        match [!ids.is_empty(), all, !filter.is_empty()].iter().filter(|one| **one).count() {
            0 => {
                return Err(Error::invalid(
                    "read the body: say which letters: by `ids`, by a `filter`, or by `all: true`",
                ));
            }
            1 => {}
            _ => return Err(Error::invalid("read the body: it has more than one of `ids`, `filter` and `all`")),
        }
        if rate == Some(0) {
            return Err(Error::invalid("read `rate`: it is letters a second, from 1 on"));
        }
        let pace = Pace { dry_run, rate: rate.map(|rate| rate as f64) };
        Ok((Letters { all, ids, filter, ..Letters::default() }, pace))
    }
}

/// Ids that a log line has; more are counted.
const NAMED: usize = 10;

impl Letters {
    /// The letters in words, for a log; without values of payloads.
    pub fn words(&self) -> String {
        match self.ids.len() {
            0 => self.filter.words(),
            1..=NAMED => self.ids.join(", "),
            n => plural::count(n, "dead letter"),
        }
    }

    /// Rejects an empty selection.
    pub(super) fn check(&self, what: &str) -> Result<(), Error> {
        match self.ids.is_empty() && !self.all && self.filter.is_empty() {
            true => Err(Error::invalid(format!("{what}: name letters by id or by a filter, or ask for all"))),
            false => Ok(()),
        }
    }
}

/// The pace of an operation on letters.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    /// Whether letters are only counted, and nothing is changed.
    pub dry_run: bool,
    /// At most so many a second.
    pub rate: Option<f64>,
}

/// Refuses what is neither a place nor a place, `..` and another one.
pub(crate) fn check_after(after: Option<&str>) -> Result<(), Error> {
    let (from, until) =
        after.map_or(("", None), |after| after.split_once("..").map_or((after, None), |(a, b)| (a, Some(b))));
    let is_end = |text: &str| is_place(text) || text.bytes().all(|byte| byte.is_ascii_digit());
    match (from.is_empty() || is_place(from)) && until.is_none_or(is_end) {
        true => Ok(()),
        false => Err(Error::invalid("read `after`: it is the `next` of the page before")),
    }
}

/// Whether the text is a place in a stream (`1795251632252-0`), and so names a letter. An element's own text may look like one:
/// then the stream comes first.
pub fn is_place(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('-').is_some_and(|(ms, number)| digits(ms) && digits(number))
}
