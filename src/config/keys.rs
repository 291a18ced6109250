//! The one table of keys: what may be written where, what it means, what it is when left out.
//!
//! Reading, suggestions, the JSON Schema and the reference all follow this table, so none of them can drift. A key that
//! is named here as planned is refused with "not available in this version", never ignored.

mod tables;

pub(super) use tables::*;

/// The keys of one map in the YAML.
#[derive(Debug)]
pub(super) struct Table {
    /// Where the map stands, as the reference's heading.
    pub(super) path: &'static str,
    /// What the map is for.
    pub(super) help: &'static str,
    /// The keys, in the order of the reference.
    pub(super) keys: &'static [Key],
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// As the user would write it.
    pub(super) default: Option<&'static str>,
    pub(super) required: bool,
    pub(super) available: bool,
    pub(super) help: &'static str,
}

/// What stands behind a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// `30s`, from this many milliseconds on.
    Duration { min_ms: u64 },
    /// `15s`, from this many milliseconds on, or `auto`.
    DurationOrAuto { min_ms: u64 },
    /// `1h`, more than zero, or `none`.
    DurationOrNone,
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
    /// Text that is never shown.
    Secret,
    /// Path of a file that is there.
    File,
    /// `address:port`.
    Address,
    /// Text with `${...}` holes that are filled for every element.
    Template,
    /// Text that may be empty.
    TextOrEmpty,
    /// Same as [`Template`](Kind::Template), or empty.
    TemplateOrEmpty,
    /// Same as [`Template`](Kind::Template), or a whole number.
    NumberTemplate,
    /// Names with templates.
    Headers,
    /// Names with texts, numbers or flags.
    Scalars,
    /// One of these words.
    Word(&'static [Word]),
    /// At least one of these words.
    Words(&'static [Word]),
    /// Name of a codec, with that of a compression in front.
    Codec,
    /// Keys of their own.
    Section(&'static Table),
    /// Keys of their own, or `none`.
    SectionOrNone(&'static Table),
    /// Names that the user chooses, with the same keys behind each.
    Named(&'static Table),
    /// A list of maps, at least one.
    List(&'static Table),
    /// Not described, because there is nothing yet that reads it.
    Planned,
}

/// A word that a key takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    pub(super) text: &'static str,
    pub(super) available: bool,
}

const fn now(text: &'static str) -> Word {
    Word { text, available: true }
}

const fn later(text: &'static str) -> Word {
    Word { text, available: false }
}

const fn key(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key { name, kind, default: None, required: false, available: true, help }
}

const fn planned(name: &'static str, help: &'static str) -> Key {
    Key { name, kind: Kind::Planned, default: None, required: false, available: false, help }
}

impl Key {
    const fn default(self, text: &'static str) -> Key {
        Key { default: Some(text), ..self }
    }

    const fn required(self) -> Key {
        Key { required: true, ..self }
    }
}

const fn duration(min_ms: u64) -> Kind {
    Kind::Duration { min_ms }
}

const fn count(min: u64, max: u64) -> Kind {
    Kind::Count { min, max, word: None }
}

const fn count_or(word: &'static str, min: u64, max: u64) -> Kind {
    Kind::Count { min, max, word: Some(word) }
}

impl Table {
    /// The key of this name.
    pub(super) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

impl Kind {
    /// Whether holes of templates may stand in the value.
    pub(super) fn is_template(self) -> bool {
        matches!(self, Kind::Template | Kind::TemplateOrEmpty | Kind::NumberTemplate)
    }

    /// The table below the key, if there is one.
    pub(super) fn table(self) -> Option<&'static Table> {
        match self {
            Kind::Section(table) | Kind::SectionOrNone(table) | Kind::Named(table) | Kind::List(table) => Some(table),
            _ => None,
        }
    }
}

/// The candidate that somebody who wrote `written` most probably meant.
pub(super) fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // `maxInFlight` and `max-in-flight` are the same word in another spelling.
    let plain =
        |text: &str| text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect::<String>();
    let written = plain(written);
    let scored =
        candidates.into_iter().map(|name| (strsim::normalized_damerau_levenshtein(&written, &plain(name)), name));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= 0.5).then_some(best.1)
}
