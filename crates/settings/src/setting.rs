//! Structs whose fields are keys: how the value of each type is read, and how it is shown.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use super::keys::{Key, Kind, Table};
use super::problem::{Position, Report, Spot};
use super::reader::{Context, Needs, Scalar, Section};
use super::units::{show_duration, show_size};
use super::{Listen, TlsFiles, shown, tls};
use delaybridge_core::template::Template;

/// A struct whose fields are the keys of a table. `#[derive(Settings)]` makes all of it.
pub trait Settings: Sized {
    /// The table.
    const TABLE: &'static Table;

    /// Reads the keys. What is wrong is reported.
    fn of(section: &Section<'_>) -> Self;

    /// Returns the keys with their values in effect, in the units of the YAML and without secrets.
    fn shown(&self) -> Map<String, Value>;
}

/// A type of the values of keys.
pub trait Setting: Sized {
    /// Reads the value, or the default. `None` for a key that has neither, for `none` and such words, and after a problem
    /// that was reported.
    fn read(section: &Section<'_>, key: &Key) -> Option<Self>;

    /// Reads a value as [`read`](Setting::read) does, with a value in place of `None`.
    fn take(section: &Section<'_>, key: &Key) -> Self;

    /// Shows the value as it is written in the file; `None` if it is not shown.
    fn show(&self, key: &Key) -> Option<Value>;
}

/// Returns the settings of a map that is empty.
pub fn defaults<T: Settings>() -> T {
    let at = Position { line: 1, column: 1 };
    let path = String::new();
    let cx = Context {
        report: Report::new(""),
        env: &|_| None,
        base: PathBuf::new(),
        files: RefCell::default(),
        needs: Needs::Nothing,
    };
    T::of(&Section::open(&cx, Spot { at, path }, T::TABLE, None))
}

/// Returns the word that a key has in place of a value.
fn instead(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::DurationOrNone | Kind::Rate => Some("none"),
        Kind::DurationOrNever => Some("never"),
        Kind::DurationOrAuto { .. } => Some("auto"),
        Kind::Count { word, .. } => word,
        _ => None,
    }
}

impl<T: Setting> Setting for Option<T> {
    fn read(section: &Section<'_>, key: &Key) -> Option<Self> {
        Some(T::read(section, key))
    }

    fn take(section: &Section<'_>, key: &Key) -> Self {
        T::read(section, key)
    }

    fn show(&self, key: &Key) -> Option<Value> {
        match self {
            Some(value) => value.show(key),
            None => instead(key.kind).map(Value::from),
        }
    }
}

/// A value that was written, with its place; a default is none.
impl<T: Setting> Setting for (T, Spot) {
    fn read(section: &Section<'_>, key: &Key) -> Option<Self> {
        section.has(key).then(|| Some((T::read(section, key)?, section.spot(key)))).flatten()
    }

    fn take(section: &Section<'_>, key: &Key) -> Self {
        (T::take(section, key), section.spot(key))
    }

    fn show(&self, key: &Key) -> Option<Value> {
        self.0.show(key)
    }
}

/// The maps of a list.
impl<T: Settings> Setting for Vec<T> {
    fn read(section: &Section<'_>, key: &Key) -> Option<Self> {
        Some(Self::take(section, key))
    }

    fn take(section: &Section<'_>, key: &Key) -> Self {
        section.list(key).iter().map(T::of).collect()
    }

    fn show(&self, _key: &Key) -> Option<Value> {
        Some(self.iter().map(T::shown).collect())
    }
}

/// The maps behind names that the user chose.
impl<T: Settings> Setting for Vec<(String, T)> {
    fn read(section: &Section<'_>, key: &Key) -> Option<Self> {
        Some(Self::take(section, key))
    }

    fn take(section: &Section<'_>, key: &Key) -> Self {
        section.named(key).into_iter().map(|(name, section)| (name, T::of(&section))).collect()
    }

    fn show(&self, _key: &Key) -> Option<Value> {
        Some(self.iter().map(|(name, of)| (name.clone(), of.shown().into())).collect::<Map<_, _>>().into())
    }
}

/// Types with a value of their own in place of one that cannot be read: the configuration is thrown away then.
macro_rules! setting {
    ($($type:ty: $read:expr, $show:expr;)*) => {
        $(impl Setting for $type {
            fn read(section: &Section<'_>, key: &Key) -> Option<Self> {
                let read: fn(&Section<'_>, &Key) -> Option<$type> = $read;
                read(section, key)
            }

            fn take(section: &Section<'_>, key: &Key) -> Self {
                Self::read(section, key).unwrap_or_default()
            }

            fn show(&self, key: &Key) -> Option<Value> {
                let show: fn(&$type, Kind) -> Value = $show;
                Some(show(self, key.kind))
            }
        })*
    };
}

impl Setting for SocketAddr {
    fn read(section: &Section<'_>, key: &Key) -> Option<SocketAddr> {
        section.address(key)
    }

    fn take(section: &Section<'_>, key: &Key) -> SocketAddr {
        section.address(key).unwrap_or_else(nowhere)
    }

    fn show(&self, _key: &Key) -> Option<Value> {
        Some(self.to_string().into())
    }
}

impl Setting for Listen {
    fn read(section: &Section<'_>, key: &Key) -> Option<Listen> {
        section.listen(key)
    }

    fn take(section: &Section<'_>, key: &Key) -> Listen {
        section.listen(key).unwrap_or_else(|| nowhere().into())
    }

    fn show(&self, _key: &Key) -> Option<Value> {
        Some(self.to_string().into())
    }
}

/// Returns the address in place of one that cannot be read.
fn nowhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Returns a count, or bytes.
fn number<T: TryFrom<u64>>(section: &Section<'_>, key: &Key) -> Option<T> {
    let number = match key.kind {
        Kind::Size => Some(section.size(key)),
        _ => section.count(key),
    };
    number.and_then(|number| T::try_from(number).ok())
}

fn show_number(number: u64, kind: Kind) -> Value {
    match kind {
        Kind::Size => show_size(number).into(),
        _ => number.into(),
    }
}

setting! {
    bool: |section, key| section.flag(key), |flag, _| (*flag).into();
    u32: number, |count, kind| show_number((*count).into(), kind);
    u64: number, |count, kind| show_number(*count, kind);
    usize: number, |count, kind| show_number(*count as u64, kind);
    f64: |section, key| match key.kind {
        Kind::Rate => section.rate(key),
        _ => Some(section.factor(key)),
    }, |number, kind| match kind {
        Kind::Rate => format!("{number}/s").into(),
        _ => (*number).into(),
    };
    Duration: |section, key| match key.kind {
        Kind::DurationOrNone => section.duration_or_none(key),
        Kind::DurationOrNever => section.duration_or_never(key),
        Kind::DurationOrAuto { .. } => section.duration_or_auto(key),
        _ => Some(section.duration(key)),
    }, |time, _| show_duration(*time).into();
    String: |section, key| section.text(key).map(|text| text.value), |text, _| text.as_str().into();
    Box<str>: |section, key| section.text(key).map(|text| text.value.into()), |text, _| (**text).into();
    Vec<String>: |section, key| section.has(key).then(|| section.texts(key).into_iter().map(|text| text.value).collect()),
        |texts, _| texts.as_slice().into();
    Scalar: |section, key| section.text(key), |text, _| text.value.as_str().into();
    Vec<Scalar>: |section, key| section.has(key).then(|| section.texts(key)),
        |texts, _| texts.iter().map(|text| text.value.as_str()).collect();
    Template: |section, key| section.template(key), |template, _| template.source().into();
    PathBuf: |section, key| section.file(key).map(|(path, _)| path), |path, _| path.display().to_string().into();
    TlsFiles: |section, key| section.opt_section(key).map(|section| tls::settings(&section)),
        |files, _| shown::fields(files).into();
}
