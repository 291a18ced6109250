//! Tables of keys: the name, the kind, the default and the meaning of everything that may be written.
//!
//! Reading, suggestions, the JSON Schema and the reference all follow the tables, so none of them can drift. A word
//! that is named there for later is refused with "not available in this version", never ignored.

/// The keys of one map in the YAML.
#[derive(Debug)]
pub struct Table {
    /// The path of the map, as the reference's heading.
    pub path: &'static str,
    /// The purpose of the map.
    pub help: &'static str,
    /// The keys, in the order of the reference.
    pub own: &'static [Key],
    /// Keys of other parts for this map, behind its own.
    pub offered: &'static [Group],
}

/// Keys that one of several parts offers for a map that all of them share.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The owner of the keys (`Kafka`), if the reference shows it with each of them.
    pub of: Option<&'static str>,
    /// The keys.
    pub keys: &'static [Key],
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The name in the file.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// As the user would write it.
    pub default: Option<&'static str>,
    /// Whether the map is incomplete without it.
    pub required: bool,
    /// The text of the reference.
    pub help: &'static str,
}

/// The kind of a key's value.
#[allow(missing_docs, reason = "the text of a variant has the meaning of its fields")]
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `30s`, from this many milliseconds on.
    Duration { min_ms: u64 },
    /// `15s`, from this many milliseconds on, or `auto`.
    DurationOrAuto { min_ms: u64 },
    /// `1h`, more than zero, or `none`.
    DurationOrNone,
    /// `10m`, or `never`.
    DurationOrNever,
    /// `16MiB`, more than zero.
    Size,
    /// `5000/s`, more than zero, or `none`.
    Rate,
    /// A whole number in this range, or one word instead.
    Count { min: u64, max: u64, word: Option<&'static str> },
    /// A number in this range.
    Factor { min: f64, max: f64 },
    /// `true` or `false`.
    Flag,
    /// Text.
    Text,
    /// At least one text.
    Texts,
    /// At least one text, or how many of them there are.
    TextsOrCount { max: u64 },
    /// Text that is never shown.
    Secret,
    /// Path of a file that is there.
    File,
    /// `address:port`.
    Address,
    /// `address:port`, or `unix:/path`.
    Listen,
    /// Text with `${...}` holes that are filled for every element.
    Template,
    /// Text that may be empty.
    TextOrEmpty,
    /// A template, which may be empty.
    TemplateOrEmpty,
    /// A template, or a whole number.
    NumberTemplate,
    /// Names with templates.
    Headers,
    /// Names with texts, numbers or flags.
    Scalars,
    /// One of these words.
    Word(&'static [Word]),
    /// At least one of these words.
    Words(&'static [Word]),
    /// One of many names: all of them, the few that messages list, how the reference sums them up, and what is meant by a
    /// name that others use.
    Name {
        all: fn() -> Vec<&'static str>,
        main: fn() -> Vec<&'static str>,
        summary: fn() -> String,
        by_another_name: fn(&str) -> Option<&'static str>,
    },
    /// Keys of their own.
    Section(&'static Table),
    /// Keys of their own, or `none`.
    SectionOrNone(&'static Table),
    /// Keys of their own, or names that the user chooses, with these keys behind each.
    SectionOrNamed(&'static Table),
    /// Names that the user chooses, with the same keys behind each.
    Named(&'static Table),
    /// Names of Java classes, with the same keys behind each.
    Classes(&'static Table),
    /// A list of maps, at least one.
    List(&'static Table),
}

/// A word that a key takes.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// The word itself.
    pub text: &'static str,
    /// Whether this build can do what the word asks for.
    pub available: bool,
}

/// Returns a word of this version.
pub const fn now(text: &'static str) -> Word {
    Word { text, available: true }
}

/// Returns a word that is known and refused.
pub const fn later(text: &'static str) -> Word {
    Word { text, available: false }
}

/// The words of a key and their values; [`words!`](crate::words!) makes one.
pub trait Words {
    /// The type of the values.
    type Value: Copy + 'static;
    /// The words, in the order of the reference, behind them those that are refused in this version.
    const WORDS: &'static [Word];
    /// The words of this version, each with its value.
    const VALUES: &'static [(&'static str, Self::Value)];

    /// Returns the word for this value; empty if there is none.
    fn text(value: Self::Value) -> &'static str
    where
        Self::Value: PartialEq,
    {
        Self::VALUES.iter().find(|(_, of)| *of == value).map_or("", |(text, _)| text)
    }
}

/// Describes a key with one of these words.
pub const fn word<T: Words>() -> Kind {
    Kind::Word(T::WORDS)
}

/// Describes a key with at least one of these words.
pub const fn words<T: Words>() -> Kind {
    Kind::Words(T::WORDS)
}

/// Returns a key that may be left out and has no default.
pub const fn key(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key { name, kind, default: None, required: false, help }
}

/// Returns the number of keys in these lists.
pub const fn total(lists: &[&[Key]]) -> usize {
    let (mut total, mut list) = (0, 0);
    while list < lists.len() {
        total += lists[list].len();
        list += 1;
    }
    total
}

/// Returns the keys of these lists, of which there are `N`.
pub const fn joined<const N: usize>(lists: &[&[Key]]) -> [Key; N] {
    let mut all = [key("", Kind::Flag, ""); N];
    let (mut list, mut before) = (0, 0);
    while list < lists.len() {
        let mut at = 0;
        while at < lists[list].len() {
            all[before + at] = lists[list][at];
            at += 1;
        }
        before += at;
        list += 1;
    }
    all
}

impl Key {
    /// Adds a default, as the user would write it.
    pub const fn default(self, text: &'static str) -> Key {
        Key { default: Some(text), ..self }
    }

    /// Makes the key required.
    pub const fn required(self) -> Key {
        Key { required: true, ..self }
    }
}

/// Returns a duration from this many milliseconds on.
pub const fn duration(min_ms: u64) -> Kind {
    Kind::Duration { min_ms }
}

/// Returns a whole number in this range.
pub const fn count(min: u64, max: u64) -> Kind {
    Kind::Count { min, max, word: None }
}

/// Returns a whole number in this range, or this word.
pub const fn count_or(word: &'static str, min: u64, max: u64) -> Kind {
    Kind::Count { min, max, word: Some(word) }
}

impl Table {
    /// Returns every key, in the order of the reference.
    pub fn keys(&self) -> impl Iterator<Item = &'static Key> + use<> {
        self.own.iter().chain(self.offered.iter().flat_map(|group| group.keys))
    }

    /// Returns the key of this name.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys().find(|key| key.name == name)
    }
}

impl Kind {
    /// Returns whether the value may have template fields.
    pub fn is_template(self) -> bool {
        matches!(self, Kind::Template | Kind::TemplateOrEmpty | Kind::NumberTemplate)
    }

    /// Returns the table below the key, if there is one.
    pub fn table(self) -> Option<&'static Table> {
        match self {
            Kind::Section(table)
            | Kind::SectionOrNone(table)
            | Kind::SectionOrNamed(table)
            | Kind::Named(table)
            | Kind::Classes(table)
            | Kind::List(table) => Some(table),
            _ => None,
        }
    }
}

/// Returns the most probable candidate for the spelling `written`.
pub fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // `maxInFlight` and `max-in-flight` are the same word in another spelling.
    let plain =
        |text: &str| text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect::<String>();
    let written = plain(written);
    let scored =
        candidates.into_iter().map(|name| (strsim::normalized_damerau_levenshtein(&written, &plain(name)), name));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= 0.5).then_some(best.1)
}

/// Tables of keys that are read by hand, as those of a file of cases are: for each a module with a constant for each key and
/// the `TABLE` itself. Elsewhere a key is a field of a struct that derives [`Settings`](crate::Settings).
#[macro_export]
macro_rules! tables {
    ($(mod $module:ident at $path:literal, $help:literal { $($name:ident = $key:expr;)* })*) => {
        $(#[allow(missing_docs, reason = "the text of a table and of a key is their own")]
        pub mod $module {
            #[allow(unused_imports, reason = "not every table needs every helper")]
            use $crate::keys::{Key, Kind, Table, count, count_or, duration, key, later, now, word, words};
            #[allow(unused_imports, reason = "tables and keys of the file around")]
            use super::*;
            $(pub const $name: Key = $key;)*
            pub static TABLE: Table = Table { path: $path, help: $help, own: &[$($name),*], offered: &[] };
        })*
    };
}

pub use crate::tables;
