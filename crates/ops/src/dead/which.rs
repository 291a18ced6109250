//! The letters that an operator means, and how fast they are worked through.

use std::ops::Not;

use clap::Args;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::LOOKED_AT;
use super::filter::Filter;
use crate::error::Error;
use crate::plural;
use delaybridge_model::Config;

/// Letters that one part of a sweep changes, at most: a daemon answers in time, however far its Redis is.
const PART: u64 = 500;
/// Most names of letters in a request.
const NAMES: usize = 1_000;
/// Ids that a log line has; more are counted.
const NAMED: usize = 10;

/// The letters of a queue that are meant: by name, by filter, or all.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize, JsonSchema)]
#[group(skip)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "WhichLetters", extend("required" = []))]
pub struct Letters {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    #[schemars(skip)]
    pub queue: String,
    /// Stream ids (1795251632252-0) or element ids (as `peek` shows it); `-` for those on standard input, one a line
    #[arg(value_name = "ID", conflicts_with = "all")]
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "some_ids")]
    pub ids: Option<Vec<String>>,
    /// All current dead letters
    #[arg(long)]
    #[serde(skip_serializing_if = "Not::not")]
    pub all: bool,
    /// The filter of the letters
    #[command(flatten)]
    #[serde(skip_serializing_if = "Filter::is_empty")]
    pub filter: Filter,
    /// Only count them; nothing is changed
    #[arg(long)]
    #[serde(skip_serializing_if = "Not::not")]
    pub dry_run: bool,
    /// At most so many a second: 50, or 50/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// At most so many, of at most 10,000 that are looked at: `part` of the answer says where to go on
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Only those behind this place, in the order of the reading: a stream id, or the `next` of the part before as it is
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
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

fn some_ids<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<String>>, D::Error> {
    match Vec::deserialize(from)? {
        ids if ids.is_empty() => Err(D::Error::custom(format!("expected 1 to {NAMES} items, found 0"))),
        ids => Ok(Some(ids)),
    }
}

/// Reads a rate: `50`, or `50/s`.
///
/// # Errors
///
/// The way to write it.
pub fn rate(text: &str) -> Result<f64, String> {
    let rate = text.strip_suffix("/s").unwrap_or(text).trim().parse().ok().filter(is_rate);
    rate.ok_or_else(|| "write 50 or 50/s: at least 0.001, at most 1000000".to_owned())
}

fn is_rate(rate: &f64) -> bool {
    (0.001..=1_000_000.0).contains(rate)
}

impl Letters {
    /// Returns the letters in words, for a log; without values of payloads.
    pub fn words(&self) -> String {
        let ids = self.ids.as_deref().unwrap_or_default();
        match ids.len() {
            0 => match self.after.as_deref().filter(|after| !after.is_empty()) {
                Some(after) => format!("{}, after {}", self.filter.words(), PartAfter::of(after).place),
                None => self.filter.words(),
            },
            1..=NAMED => ids.join(", "),
            n => plural::count(n, "dead letter"),
        }
    }

    /// Refuses letters that are named in no way or in two, and what can be no name of one.
    pub(crate) fn check(&self, config: &Config, verb: &str) -> Result<(), Error> {
        let what = format!("{verb} dead letters of `{}`", self.queue);
        let invalid = |problem: &str| Err(Error::invalid(format!("{what}: {problem}")));
        self.filter.check()?;
        check_after(self.after.as_deref())?;
        if self.rate.is_some_and(|rate| !is_rate(&rate)) {
            return invalid("read `rate`: it is letters a second, more than 0");
        }
        match &self.ids {
            Some(_) if self.all => return invalid("there are both `ids` and `all`"),
            Some(ids) if ids.len() > 1 && ids.iter().any(|id| id == "-") => {
                return invalid("write ids, or `-` for those on standard input");
            }
            None if !self.all && self.filter.is_empty() => {
                return invalid(
                    "say which letters: name them by id, by a filter (--reason, --code, --field, ...), or write --all",
                );
            }
            _ => {}
        }
        crate::session::find(config, &self.queue)?;
        let mut names = self.ids.iter().flatten();
        names.try_for_each(|name| check_name(config, &self.queue, name))
    }

    /// Returns the part that one request works through: few at a time where there is a rate.
    pub(crate) fn portion(&self) -> Letters {
        let most = self.rate.filter(|_| !self.dry_run).map_or(PART, |rate| rate as u64).clamp(1, PART);
        let most = if self.dry_run && self.ids.is_none() { LOOKED_AT } else { most };
        let ids = self.ids.as_ref().map(|ids| ids.iter().take(most as usize).cloned().collect());
        Letters { limit: self.ids.is_none().then_some(most), ids, rate: None, ..self.clone() }
    }

    /// Returns the letters behind that part.
    pub(crate) fn rest(&self, place: Option<&SweepPlace>) -> Option<Letters> {
        let Some(ids) = &self.ids else {
            let after = Some(place?.next.clone()?);
            return Some(Letters { after, ..self.clone() });
        };
        let done = self.portion().ids.map_or(0, |ids| ids.len());
        let ids = ids.get(done..).filter(|ids| !ids.is_empty())?.to_vec();
        Some(Letters { ids: Some(ids), ..self.clone() })
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

/// Refuses what can be no name of a letter of the queue.
pub(crate) fn check_name(config: &Config, queue: &str, name: &str) -> Result<(), Error> {
    if is_place(name) {
        return Ok(());
    }
    crate::session::check_id(config, queue, name).map_err(|error| {
        Error::invalid(format!("{}; a letter's own name is its stream id (1795251632252-0)", error.message))
    })
}

/// The place behind which a part begins: `PLACE`, `PLACE..END`, or with the time of the first part `PLACE..END..MS`.
pub(super) struct PartAfter<'a> {
    /// The last letter of the part before.
    pub(super) place: &'a str,
    /// The end of the last part.
    pub(super) until: Option<&'a str>,
    /// The time in ms by Redis's clock at which the first part began.
    pub(super) now_ms: Option<i64>,
}

impl PartAfter<'_> {
    /// Splits the text, which [`check_after`] has accepted.
    pub(super) fn of(text: &str) -> PartAfter<'_> {
        let mut parts = text.split("..");
        let place = parts.next().unwrap_or_default();
        let until = parts.next();
        PartAfter { place, until, now_ms: parts.next().and_then(|ms| ms.parse().ok()) }
    }
}

/// Refuses what is no [`PartAfter`], and no empty text.
pub(crate) fn check_after(after: Option<&str>) -> Result<(), Error> {
    let is_time = |text: &str| text.parse::<i64>().is_ok_and(|ms| ms >= 0);
    let is_end = |text: &str| is_place(text) || is_time(text);
    let is_good = |after: &str| match after.split("..").collect::<Vec<_>>()[..] {
        [place] => place.is_empty() || is_place(place),
        [place, end] => is_place(place) && is_end(end),
        [place, end, now] => is_place(place) && is_end(end) && is_time(now),
        _ => false,
    };
    if after.is_none_or(is_good) {
        Ok(())
    } else {
        Err(Error::invalid("read `after`: it is the `next` of the page before"))
    }
}

/// Returns whether the text is a place in a stream (`1795251632252-0`), and so names a letter. An element's own text
/// may look like one: then the stream comes first.
pub fn is_place(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('-').is_some_and(|(ms, number)| digits(ms) && digits(number))
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
        for (after, good) in [
            ("", true),
            ("5-0", true),
            ("5-0..9-1", true),
            ("5-0..9", true),
            ("5-0..9-1..17", true),
            ("..9-0", false),
            ("5-0..9-1..x", false),
            ("5-0..9-1..17..1", false),
            ("x", false),
        ] {
            assert_eq!(check_after(Some(after)).is_ok(), good, "{after}");
        }
    }

    #[test]
    fn a_rate_is_so_many_a_second() {
        assert_eq!((rate("50"), rate("50/s"), rate("0.5/s")), (Ok(50.0), Ok(50.0), Ok(0.5)));
        for bad in ["0", "-1", "fast", "1/m", "inf", ""] {
            assert!(rate(bad).unwrap_err().contains("50/s"), "{bad}");
        }
    }

    #[test]
    fn parts_are_small_where_there_is_a_rate_and_names_come_in_their_order() {
        let all = Letters { all: true, ..Letters::default() };
        let limit = |rate, dry_run| Letters { rate, dry_run, ..all.clone() }.portion().limit;
        assert_eq!(
            (limit(None, false), limit(Some(200.0), false), limit(Some(0.1), false)),
            (Some(PART), Some(200), Some(1))
        );
        assert_eq!(limit(Some(1.0), true), Some(LOOKED_AT), "nothing is changed");
        let next = |next: &str| SweepPlace { next: Some(next.to_owned()), ..SweepPlace::default() };
        assert_eq!(all.rest(Some(&next("5-0..9-0"))).and_then(|rest| rest.after).as_deref(), Some("5-0..9-0"));
        assert!(all.rest(Some(&SweepPlace::default())).is_none());
        let ids: Vec<_> = (0..25).map(|n| format!("{n}-0")).collect();
        let mut named = Some(Letters { ids: Some(ids.clone()), rate: Some(100.0), ..Letters::default() });
        let mut met = vec![];
        while let Some(some) = named {
            let part = some.portion();
            assert!(part.limit.is_none() && part.rate.is_none());
            met.extend(part.ids.unwrap());
            named = some.rest(None);
        }
        assert_eq!(met, ids);
    }
}
