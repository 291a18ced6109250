//! Typed reading of the tree, with the table of keys at hand and a collector for everything that is wrong.
//!
//! A reader never stops: what it cannot read it reports, and answers with the default, so that the rest of the file is
//! read in the same pass. So the builder of the configuration may get values that the user did not write; they
//! are thrown away with the configuration as soon as one problem was reported.

mod many;
mod values;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

pub use self::values::{STAND_IN, meant, warn_of_constants};
use super::expand::expand;
use super::keys::{Key, Kind, Table, nearest};
use super::node::{Name, Node, Value};
use super::problem::{Position, Report, Spot};

/// The context of every reader.
pub struct Context<'a> {
    /// The problems so far.
    pub report: Report,
    /// The environment.
    pub env: &'a dyn Fn(&str) -> Option<OsString>,
    /// Relative paths in the file start here.
    pub base: PathBuf,
    /// The files that were read.
    pub files: RefCell<Files>,
    /// The secrets that have to be there.
    pub needs: Needs,
}

/// The secrets and variables that the use of a configuration needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Everything, for the daemon.
    Everything,
    /// Only those of the connections to Redis: a command at a queue.
    Redis,
    /// Nothing, for a command that has a connection of its own, or makes none.
    Nothing,
}

/// The value of a variable that is not needed: it passes for a host, a port and a password.
const NOT_NEEDED: &str = "1";

impl Context<'_> {
    /// Returns whether a secret at this place is not needed. Names of queues always are: a command must never act on
    /// another queue.
    pub fn spares(&self, path: &str) -> bool {
        let mut steps = path.split('.');
        match (self.needs, steps.next(), steps.next()) {
            (Needs::Everything, ..) => false,
            (_, Some("sinks" | "inputs" | "http" | "tracing"), _) | (_, Some("jobs"), Some("http" | "lmstfy")) => true,
            (needs, Some("redis"), _) => needs == Needs::Nothing,
            _ => false,
        }
    }
}

/// The files that a configuration names: their places in it, and hashes of their contents.
pub type Files = BTreeMap<Position, (PathBuf, u64)>;

/// One map of the file, or one that was left out.
pub struct Section<'a> {
    /// The context.
    pub cx: &'a Context<'a>,
    /// The place of the map.
    pub spot: Spot,
    table: &'static Table,
    entries: Vec<Entry<'a>>,
    /// Whether the map is empty, reported keys included.
    pub empty: bool,
    /// The keys that were read: an unread key of the table would be accepted and ignored.
    #[cfg(any(test, feature = "testing"))]
    asked: std::cell::RefCell<Vec<&'static str>>,
}

struct Entry<'a> {
    name: &'static str,
    at: Position,
    node: &'a Node,
}

/// A scalar as the user wrote it and as it reads after the variables are replaced.
#[derive(Default)]
pub struct Scalar {
    /// For messages: a replaced variable may be a secret.
    pub written: String,
    /// The text with all variables replaced.
    pub value: String,
    /// The place.
    pub spot: Spot,
    kind: &'static str,
}

impl Scalar {
    /// Returns the kind that YAML took it for, as messages call it.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Returns whether the file has the value itself, and not a variable.
    pub fn is_plain(&self) -> bool {
        self.written == self.value
    }
}

impl<'a> Section<'a> {
    /// Reads the keys of `node`; reports those that the table does not have.
    pub fn open(cx: &'a Context<'a>, spot: Spot, table: &'static Table, node: Option<&'a Node>) -> Self {
        let mut section = Section {
            cx,
            spot,
            table,
            entries: Vec::new(),
            empty: true,
            #[cfg(any(test, feature = "testing"))]
            asked: Default::default(),
        };
        match node.map(|node| (node, &node.value)) {
            // `stdout:` with nothing behind it means the same as `stdout: {}`.
            None | Some((_, Value::Null)) => {}
            Some((_, Value::Map(entries))) => {
                section.empty = entries.is_empty();
                for (name, node) in entries {
                    match table.key(&name.text) {
                        Some(key) => section.entries.push(Entry { name: key.name, at: name.at, node }),
                        None => section.unknown(&name.text, name.at),
                    }
                }
            }
            Some((node, value)) => {
                section.empty = false;
                let spot = Spot { at: node.at, ..section.spot.clone() };
                let names: Vec<_> = table.keys().map(|key| key.name).collect();
                let help = format!("keys are: {}", names.join(", "));
                cx.report.problem(&spot, format!("expected keys with values, found {}", value.kind()), help);
                return section;
            }
        }
        for key in table.keys().filter(|key| key.required) {
            if !section.entries.iter().any(|entry| entry.name == key.name)
                && (node.is_some() || section.spot.path.is_empty())
            {
                cx.report.problem(&section.spot, format!("`{}` is missing", key.name), key.help);
            }
        }
        section
    }

    fn unavailable(&self, spot: &Spot, what: &str) {
        self.cx.report.problem(spot, format!("`{what}` is not available in this version"), "");
    }

    fn unknown(&self, name: &str, at: Position) {
        let keys = || self.table.keys();
        let help = match (nearest(name, keys().map(|key| key.name)), place_of(name, self.table)) {
            (_, Some(place)) => format!("`{name}` belongs under `{place}`"),
            (Some(meant), _) => format!("did you mean `{meant}`?"),
            (None, _) => format!("keys here are: {}", keys().map(|key| key.name).collect::<Vec<_>>().join(", ")),
        };
        self.cx.report.problem(&self.spot.key(name, at), "unknown key", help);
    }

    fn entry(&self, key: &Key) -> Option<&Entry<'a>> {
        #[cfg(any(test, feature = "testing"))]
        self.asked.borrow_mut().push(key.name);
        self.entries.iter().find(|entry| entry.name == key.name)
    }

    /// Returns whether the user wrote the key.
    pub fn has(&self, key: &Key) -> bool {
        self.entry(key).is_some()
    }

    /// Returns the place of the map.
    pub fn place(&self) -> Spot {
        self.spot.clone()
    }

    /// Returns the names that were written, in order.
    pub fn written(&self) -> Vec<&'static str> {
        self.entries.iter().map(|entry| entry.name).collect()
    }

    /// Returns the place of the key's value; the map itself if the key was left out.
    pub fn spot(&self, key: &Key) -> Spot {
        match self.entry(key) {
            Some(entry) => self.spot.key(key.name, value_position(entry)),
            None => self.spot.key(key.name, self.spot.at),
        }
    }

    /// Returns the scalar behind the key, variables replaced; the default if the user did not write it.
    pub fn scalar(&self, key: &Key) -> Option<Scalar> {
        let Some(entry) = self.entry(key) else {
            let value = key.default?.to_owned();
            return Some(Scalar { written: value.clone(), value, spot: self.spot(key), kind: "text" });
        };
        scalar(self.cx, self.spot(key), entry.node, key.kind.is_template())
    }

    /// Returns the map behind the key; empty if it was left out.
    pub fn section(&self, key: &Key) -> Section<'a> {
        self.opt_section(key).unwrap_or_else(|| {
            let table = key.kind.table().unwrap_or(self.table);
            Section::open(self.cx, self.spot(key), table, None)
        })
    }

    /// Returns the map behind the key, if the user wrote it.
    pub fn opt_section(&self, key: &Key) -> Option<Section<'a>> {
        let entry = self.entry(key)?;
        Some(Section::open(self.cx, self.spot.key(key.name, entry.at), key.kind.table()?, Some(entry.node)))
    }

    /// Returns whether the user wrote a text in place of a map.
    pub fn is_text(&self, key: &Key) -> bool {
        self.entry(key).is_some_and(|entry| matches!(&entry.node.value, Value::Text(_)))
    }

    /// Returns whether the user wrote names with maps, and none of the table's own keys.
    pub fn is_named(&self, key: &Key) -> bool {
        let Some(Value::Map(entries)) = self.entry(key).map(|entry| &entry.node.value) else { return false };
        let own = |name: &str| key.kind.table().is_some_and(|table| table.key(name).is_some());
        let named = |(name, node): &(Name, Node)| !own(&name.text) && matches!(node.value, Value::Map(_));
        !entries.is_empty() && entries.iter().all(named)
    }

    /// Returns whether the user wrote `none` in place of a map.
    pub fn is_none(&self, key: &Key) -> bool {
        self.entry(key).is_some_and(|entry| matches!(&entry.node.value, Value::Text(text) if text == "none"))
    }

    /// Returns the maps behind names that the user chose: labels in metrics.
    pub fn named(&self, key: &Key) -> Vec<(String, Section<'a>)> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        self.named_by(key, &|name| {
            if (1..=64).contains(&name.len()) && name.chars().all(allowed) {
                Ok(())
            } else {
                Err("use 1 to 64 letters (a to z), digits, `_`, `.` or `-`: the name is a label in metrics")
            }
        })
    }

    /// Reads the maps behind names that the user chose; `rule` says what is wrong with one.
    pub fn named_by(&self, key: &Key, rule: &dyn Fn(&str) -> Result<(), &'static str>) -> Vec<(String, Section<'a>)> {
        let (Some(entry), Some(table)) = (self.entry(key), key.kind.table()) else { return Vec::new() };
        let entries = match &entry.node.value {
            Value::Map(entries) => entries.as_slice(),
            Value::Null => &[],
            other => {
                let message = format!("expected names with keys below, found {}", other.kind());
                self.cx.report.problem(&self.spot(key), message, key.help);
                return Vec::new();
            }
        };
        let mut sections = Vec::new();
        for (name, node) in entries {
            let spot = self.spot.key(key.name, entry.at).key(&name.text, name.at);
            if let Err(help) = rule(&name.text) {
                self.cx.report.problem(&spot, "the name has characters that it cannot have, or too many", help);
            }
            sections.push((name.text.clone(), Section::open(self.cx, spot, table, Some(node))));
        }
        sections
    }

    /// Returns the maps of a list.
    pub fn list(&self, key: &Key) -> Vec<Section<'a>> {
        let (Some(entry), Some(table)) = (self.entry(key), key.kind.table()) else { return Vec::new() };
        let spot = self.spot(key);
        match &entry.node.value {
            Value::List(items) if !items.is_empty() => {
                let open = |(index, node): (usize, &'a Node)| {
                    Section::open(self.cx, spot.item(index, node.at), table, Some(node))
                };
                items.iter().enumerate().map(open).collect()
            }
            Value::List(_) | Value::Null => {
                self.cx.report.problem(&spot, "the list is empty", key.help);
                Vec::new()
            }
            other => {
                let help = "each item starts with `- `";
                self.cx.report.problem(&spot, format!("expected a list, found {}", other.kind()), help);
                Vec::new()
            }
        }
    }
}

/// In tests, fails if the code never asks for a key of the table: the key would be accepted and ignored.
#[cfg(any(test, feature = "testing"))]
impl Drop for Section<'_> {
    fn drop(&mut self) {
        let asked = self.asked.borrow();
        let forgotten = self.table.keys().find(|key| !asked.contains(&key.name));
        if let (Some(key), false) = (forgotten, std::thread::panicking()) {
            panic!("{}: `{}` is never read", self.table.path, key.name);
        }
    }
}

/// Returns the path below the table of a key of this name: directly below one of its keys, or one level deeper. Not
/// below names that the user chooses.
fn place_of(name: &str, table: &'static Table) -> Option<String> {
    let below =
        |table: &'static Table| table.keys().filter(|key| !matches!(key.kind, Kind::Named(_) | Kind::Classes(_)));
    let has = |key: &Key| key.kind.table().is_some_and(|table| table.key(name).is_some());
    if let Some(key) = below(table).find(|key| has(key)) {
        return Some(key.name.to_owned());
    }
    below(table).find_map(|key| {
        let inner = below(key.kind.table()?).find(|inner| has(inner))?;
        Some(format!("{}.{}", key.name, inner.name))
    })
}

fn value_position(entry: &Entry<'_>) -> Position {
    match entry.node.value {
        // What is missing has no good place of its own.
        Value::Null => entry.at,
        _ => entry.node.at,
    }
}

fn scalar(cx: &Context<'_>, spot: Spot, node: &Node, templates: bool) -> Option<Scalar> {
    let kind = node.value.kind();
    let written = match &node.value {
        Value::Text(text) => text.clone(),
        Value::Number(number) => number.clone(),
        Value::Flag(flag) => flag.to_string(),
        Value::Null => {
            cx.report.problem(&spot, "the key has no value", "write one, or remove the key");
            return None;
        }
        Value::List(_) | Value::Map(_) => {
            cx.report.problem(&spot, format!("expected one value, found {kind}"), "");
            return None;
        }
    };
    let spared = |name: &str| (cx.env)(name).or_else(|| Some(NOT_NEEDED.into()));
    let expanded =
        if cx.spares(&spot.path) { expand(&written, templates, &spared) } else { expand(&written, templates, cx.env) };
    match expanded {
        Ok(value) => Some(Scalar { written, value, spot, kind }),
        Err(bad) => {
            bad.into_iter().for_each(|bad| cx.report.problem(&spot, bad.message, bad.help));
            None
        }
    }
}

/// Returns a value in a message: short enough for a line.
pub fn clip(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
