//! The letters that an operator means, and how fast they are worked through.

use schemars::JsonSchema;
use serde::Serialize;

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
    /// Only those behind this place, in the order of the reading.
    pub after: Option<String>,
}

/// The body of a request to redrive or remove letters: `ids`, a `filter`, or `all`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[schemars(rename = "WhichLetters")]
pub struct LettersBody {
    /// Places in the stream, or ids of elements; 1,000 at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<String>>,
    /// All current dead letters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
    /// The letters that fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<FilterBody>,
    /// Only count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// At most so many a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
}

/// A filter in the body of a request. Lists of one text may be the text.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[schemars(rename = "LetterFilter", extend("required" = []))]
pub struct FilterBody {
    /// Reasons of the letters.
    pub reason: Option<Vec<String>>,
    /// Classes of the last failure.
    pub class: Option<Vec<String>>,
    /// Codes of the last failure.
    pub code: Option<Vec<String>>,
    /// Sinks that decided.
    pub sink: Option<Vec<String>>,
    /// Dead for longer than this, as 2h.
    pub older_than: Option<String>,
    /// Dead for less than this, as 2h.
    pub newer_than: Option<String>,
    /// The beginning of the element's id.
    pub id_prefix: Option<String>,
    /// Fields of the decoded payload, as orderId=7.
    pub field: Option<Vec<String>>,
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

/// Whether the text is a place in a stream (`1795251632252-0`), and so names a letter. An element's own text may look like one:
/// then the stream comes first.
pub fn is_place(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('-').is_some_and(|(ms, number)| digits(ms) && digits(number))
}
