//! Dead letters: their fields, the [`Filter`] that chooses some, and the reader of those that are meant, which never holds more than a
//! page. What is done with them is in [`operations`](crate::operations).

mod aside;
mod back;
pub(crate) mod export;
mod filter;
pub(crate) mod import;
pub(crate) mod letter;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod selection;
mod which;

pub use self::aside::{Broken, BrokenFile, Imported};
pub use self::back::{can_go_back, import_from, open};
pub use self::filter::{FILTER_NAMES, FieldIs, Filter, REASONS};
pub(crate) use self::import::PAST_IT;
pub use self::letter::{Letter, Summary};
pub use self::which::{Letters, Pace, SweepPlace, is_place, rate};
pub(crate) use self::which::{check_after, check_name};
use super::error::Error;

/// Letters that one part of an operation looks at, at most: the next one goes on behind them.
pub(crate) const LOOKED_AT: u64 = 10_000;
/// Lines of an import that are named, because they are no letters.
const NAMED: usize = 100;

/// The end of an operation that was given names which fit no letter.
pub(crate) fn none_of(queue: &str, names: &[String], done: &str) -> Error {
    let shown = names.iter().take(10).cloned().collect::<Vec<_>>().join(", ");
    let more = if names.len() > 10 { format!(" and {} more", names.len() - 10) } else { String::new() };
    Error::not_found(format!(
        "find dead letters {shown}{more} in `{queue}`: there are none; {done}; `delaybridge dead ls {queue}` lists those that are \
         there"
    ))
}

/// Returns the message about unknown sinks in a filter; `None` if all are known.
pub fn unknown_sinks(queue: &str, sinks: &[String]) -> Option<String> {
    (!sinks.is_empty()).then(|| {
        format!(
            "filter the dead letters of `{queue}` by sink `{}`: the configuration has no such sink, and no letter that was looked at \
             names it; `delaybridge dead count {queue}` shows the sinks of the letters",
            sinks.join("`, `")
        )
    })
}

/// Keeps those sinks that the next part does not know either.
pub(crate) fn still_unknown(all: &mut Vec<String>, rest: &[String]) {
    all.retain(|sink| rest.contains(sink));
}
