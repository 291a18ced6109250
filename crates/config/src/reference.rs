//! The configuration reference as Markdown, from the table of keys. A test keeps `docs/configuration.md` current.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::tables;
use delaybridge_settings::keys::{Key, Kind, Table, Word};
use delaybridge_settings::units::show_duration;

const INTRODUCTION: &str = include_str!("reference_intro.md");

/// Returns the text of `docs/configuration.md`.
pub fn reference() -> String {
    let mut text = String::from(INTRODUCTION);
    text.push_str("\n## Keys\n");
    for table in tables::all() {
        section(&mut text, table);
    }
    text.push_str("\n## Not available in this version\n\n");
    text.push_str("These are known, and refused with a message that says so:\n\n");
    for table in tables::all() {
        for key in table.keys() {
            let path = join(table.path, key.name);
            let words = words(key.kind, false);
            if !words.is_empty() {
                line(&mut text, format_args!("- `{path}` with the value {words}"));
            }
        }
    }
    text
}

fn section(text: &mut String, table: &'static Table) {
    let path = if table.path.is_empty() { "Top level".to_owned() } else { format!("`{}`", table.path) };
    line(text, format_args!("\n### {path}\n\n{}\n", table.help));
    let mut own = Vec::new();
    let mut elsewhere: BTreeMap<&str, (&Table, Vec<String>)> = BTreeMap::new();
    for row in rows(table) {
        match explained_elsewhere(row, table) {
            Some(at) => elsewhere.entry(at.path).or_insert((at, Vec::new())).1.push(format!("`{}`", row.key.name)),
            None => own.push(row),
        }
    }
    let defaults = own.iter().any(|row| !row.default().is_empty());
    let head =
        if defaults { "| key | value | default | |\n|---|---|---|---|" } else { "| key | value | |\n|---|---|---|" };
    line(text, format_args!("{head}"));
    for row in own {
        let of = row.of.map(|of| format!("{of}: ")).unwrap_or_default();
        let default = if defaults { format!(" {} |", row.default()) } else { String::new() };
        line(text, format_args!("| `{}` | {} |{default} {of}{} |", row.key.name, value(row.key), row.key.help));
    }
    if !elsewhere.is_empty() {
        line(text, format_args!("\nFurther keys:\n"));
    }
    for (table, keys) in elsewhere.into_values() {
        line(text, format_args!("- [`{}`](#{}): {}", table.path, anchor(table), keys.join(", ")));
    }
}

/// A key in a table, with its owner if the reference shows it.
#[derive(Clone, Copy)]
struct Row {
    of: Option<&'static str>,
    key: &'static Key,
}

impl Row {
    fn default(self) -> String {
        match (self.of, self.key.default, self.key.required) {
            // Left out on a route, it is what the sink says.
            (Some(_), _, _) => String::new(),
            (None, Some(default), _) => format!("`{default}`"),
            (None, None, true) => "required".to_owned(),
            (None, None, false) => String::new(),
        }
    }

    /// Tells whether `other` explains the same key: on a route, or in another section.
    fn is_same(self, other: Row) -> bool {
        let same_default = self.of.is_some() || self.default() == other.default();
        let (key, other) = (self.key, other.key);
        same_default && key.name == other.name && key.help == other.help && value(key) == value(other)
    }
}

fn rows(table: &'static Table) -> impl Iterator<Item = Row> {
    let own = table.own.iter().map(|key| Row { of: None, key });
    own.chain(table.offered.iter().flat_map(|group| group.keys.iter().map(|key| Row { of: group.of, key })))
}

/// Finds the section that explains the key of this table: a key that several have in the same words is explained in the
/// uppermost one.
fn explained_elsewhere(row: Row, table: &'static Table) -> Option<&'static Table> {
    // A link would be longer.
    if row.of.is_none() && row.key.help.len() < 20 {
        return None;
    }
    let all = tables::all().into_iter().flat_map(|table| rows(table).map(move |row| (table, row)));
    let same = all.filter(|(_, other)| row.is_same(*other));
    let uppermost = same.min_by_key(|(table, other)| (other.of.is_some(), table.path.matches('.').count()));
    uppermost.map(|(at, _)| at).filter(|at| !std::ptr::eq(*at, table))
}

fn value(key: &Key) -> String {
    match key.kind {
        Kind::Duration { min_ms } if min_ms > 1 => {
            format!("duration, at least {}", show_duration(std::time::Duration::from_millis(min_ms)))
        }
        Kind::Duration { .. } => "duration".to_owned(),
        Kind::DurationOrAuto { min_ms } => {
            format!("`auto` or duration, at least {}", show_duration(std::time::Duration::from_millis(min_ms)))
        }
        Kind::DurationOrNone => "duration or `none`".to_owned(),
        Kind::DurationOrNever => "duration or `never`".to_owned(),
        Kind::Size => "size".to_owned(),
        Kind::Rate => "rate or `none`".to_owned(),
        Kind::Count { min, max, word } => {
            let range = if max == u64::MAX { format!("number from {min}") } else { format!("{min} to {max}") };
            word.map(|word| format!("`{word}` or {range}")).unwrap_or(range)
        }
        Kind::Factor { min, max } => format!("{min} to {max}"),
        Kind::Flag => "`true`, `false`".to_owned(),
        Kind::Text | Kind::TextOrEmpty => "text".to_owned(),
        Kind::Texts => "list of texts".to_owned(),
        Kind::TextsOrCount { max } => format!("list of texts, or 1 to {max}"),
        Kind::Secret => "text, never shown".to_owned(),
        Kind::File => "path".to_owned(),
        Kind::Address => "address:port".to_owned(),
        Kind::Listen => "address:port or `unix:/path`".to_owned(),
        Kind::Template | Kind::TemplateOrEmpty => "template".to_owned(),
        Kind::NumberTemplate => "number or template".to_owned(),
        Kind::Headers => "names with templates".to_owned(),
        Kind::Scalars => "names with values".to_owned(),
        Kind::Word(_) => words(key.kind, true),
        Kind::Name { summary, .. } => summary(),
        Kind::Words(_) => format!("list of {}", words(key.kind, true)),
        Kind::Section(table) => link(table),
        Kind::SectionOrNone(table) => format!("{} or `none`", link(table)),
        Kind::SectionOrNamed(table) => format!("{0}, or names with {0}", link(table)),
        Kind::Named(table) => format!("names with {}", link(table)),
        Kind::Classes(table) => format!("names of Java classes with {}", link(table)),
        Kind::List(table) => format!("list of {}", link(table)),
    }
}

fn words(kind: Kind, available: bool) -> String {
    let (Kind::Word(words) | Kind::Words(words)) = kind else { return String::new() };
    let fits = |word: &&Word| word.available == available;
    words.iter().filter(fits).map(|word| format!("`{}`", word.text)).collect::<Vec<_>>().join(", ")
}

fn link(table: &Table) -> String {
    format!("[keys](#{})", anchor(table))
}

/// Returns the anchor of the table's heading, in the form that GitHub gives its headings.
fn anchor(table: &Table) -> String {
    let anchor: String = table.path.chars().filter(|c| c.is_alphanumeric() || *c == '_').collect();
    anchor.to_lowercase()
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{arguments}");
}
