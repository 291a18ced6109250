//! The catalogue of error codes: what each means and what to do. `docs/errors.md` is written from it.
//!
//! A code stands here once, whoever gives it; where places differ, the cause says so.

mod table;

use std::borrow::Cow;
use std::fmt::Write as _;

use table::SECTIONS;

/// One code.
#[derive(Debug, Clone)]
pub struct Entry {
    /// As it stands in logs, metrics and dead letters.
    pub code: &'static str,
    /// What happened.
    pub cause: Cow<'static, str>,
    /// What a person can do.
    pub cure: Cow<'static, str>,
}

/// Codes that come from one place.
#[derive(Debug, Clone, Copy)]
struct Section {
    title: &'static str,
    text: &'static str,
    entries: &'static [Entry],
}

/// What is known of a code; of a long one, its first 16 bytes are enough, which is what an entry in Redis keeps.
pub fn explain(code: &str) -> Option<Entry> {
    let means = |entry: &Entry| entry.code == code || code.len() == 16 && entry.code.starts_with(code);
    entries().find(means)
}

fn entries() -> impl Iterator<Item = Entry> {
    SECTIONS.iter().flat_map(|section| section.entries).cloned().chain(of_kafka())
}

/// Kafka's codes stand with their treatment in the sink's own table.
#[cfg(feature = "kafka")]
fn of_kafka() -> impl Iterator<Item = Entry> {
    use crate::message::Class;

    crate::sink::kafka::documented().into_iter().map(|(code, class, cause, advice)| {
        let mut letters = advice.chars();
        let cure = match (letters.next(), class) {
            (Some(first), _) => format!("{}{}.", first.to_uppercase(), letters.as_str()).into(),
            (None, Class::TargetPermanent) => "Look into the brokers' log; the queue is held meanwhile.".into(),
            (None, _) => "Nothing: it is tried again. Look at the brokers if it lasts.".into(),
        };
        Entry { code, cause: format!("{cause}.").into(), cure }
    })
}

#[cfg(not(feature = "kafka"))]
fn of_kafka() -> impl Iterator<Item = Entry> {
    std::iter::empty()
}

/// The page, as it stands in `docs/errors.md`.
pub fn reference() -> String {
    let mut page = String::from(table::HEAD);
    let mut section = |title: &str, text: &str, entries: &mut dyn Iterator<Item = Entry>| {
        // Writing to a String cannot fail.
        let _ = write!(page, "\n## {title}\n\n{text}\n\n| code | cause | cure |\n|---|---|---|\n");
        for Entry { code, cause, cure } in entries {
            let _ = writeln!(page, "| `{code}` | {cause} | {cure} |");
        }
    };
    for Section { title, text, entries } in SECTIONS {
        section(title, text, &mut entries.iter().cloned());
    }
    section("Kafka", table::KAFKA, &mut of_kafka());
    page
}

#[cfg(test)]
mod tests;
