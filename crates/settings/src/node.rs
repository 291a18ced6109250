//! From YAML text to a tree in which everything knows its place. The only file that knows the YAML library.
//!
//! The tree is read by hand afterwards, because a typed deserializer stops at its first error, and a user wants all.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::{DuplicateKeyPolicy, Location, Spanned};

use super::problem::{Position, Report};

/// The largest file: far above what a person writes, far below what hurts.
const MAX_BYTES: usize = 4 << 20;
const MAX_DEPTH: usize = 32;
const MAX_NODES: usize = 200_000;
const MAX_ALIAS_REPLAYS: usize = 100_000;

/// A value and its place.
#[derive(Debug, Clone)]
pub struct Node {
    /// The place.
    pub at: Position,
    /// The value.
    pub value: Value,
}

/// A value as YAML writes it.
#[derive(Debug, Clone)]
pub enum Value {
    /// No value.
    Null,
    /// `true` or `false`.
    Flag(bool),
    /// An integer or a float, as text.
    Number(String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A map, in the order of the file.
    Map(Vec<(Name, Node)>),
}

/// A key of a map and its place.
#[derive(Debug, Clone)]
pub struct Name {
    /// The place.
    pub at: Position,
    /// The key itself.
    pub text: String,
}

impl Value {
    /// Returns the kind, as messages call it. A value is never shown where only its kind is wrong: it may be a secret.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "nothing",
            Value::Flag(_) => "true or false",
            Value::Number(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "keys with values",
        }
    }
}

/// Parses `text`. Duplicate keys are reported, and reading continues: two maps are merged, so that nothing seems to be
/// missing, else the first value counts. Any other syntax error ends the reading.
pub fn parse(text: &str, report: &Report) -> Option<Node> {
    if text.len() > MAX_BYTES {
        report.of_file(None, "the file is larger than 4 MiB", None);
        return None;
    }
    let error = match read(text, DuplicateKeyPolicy::Error) {
        Ok(node) => return Some(node),
        Err(error) => error,
    };
    if matches!(error.without_snippet(), serde_yaml::Error::DuplicateMappingKey { .. })
        // This way all of them come.
        && let Ok(mut node) = read(text, DuplicateKeyPolicy::LastWins)
        && unite(&mut node, report)
    {
        return Some(node);
    }
    fail(text, report, &error);
    None
}

/// Reports duplicate keys and merges them. Returns whether there were any.
fn unite(node: &mut Node, report: &Report) -> bool {
    match &mut node.value {
        Value::Map(entries) => {
            let mut united: Vec<(Name, Node)> = Vec::with_capacity(entries.len());
            let mut found = false;
            for (name, value) in std::mem::take(entries) {
                let Some((first, kept)) = united.iter_mut().find(|(other, _)| other.text == name.text) else {
                    united.push((name, value));
                    continue;
                };
                found = true;
                let message = format!("the key `{}` is there twice, first on line {}", name.text, first.at.line);
                report.of_file(Some(name.at), message, Some("merge the two, or remove one".to_owned()));
                if let (Value::Map(kept), Value::Map(more)) = (&mut kept.value, value.value) {
                    // What is in both was said with their key.
                    let new = |(name, _): &(Name, Node)| kept.iter().all(|(other, _)| other.text != name.text);
                    let more: Vec<_> = more.into_iter().filter(new).collect();
                    kept.extend(more);
                }
            }
            *entries = united;
            entries.iter_mut().fold(found, |found, (_, node)| unite(node, report) | found)
        }
        Value::List(items) => items.iter_mut().fold(false, |found, node| unite(node, report) | found),
        Value::Null | Value::Flag(_) | Value::Number(_) | Value::Text(_) => false,
    }
}

fn read(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Node, serde_yaml::Error> {
    let options = serde_yaml::options! {
        duplicate_keys: duplicate_keys,
        // `no` and `on` are words here, as in YAML 1.2.
        strict_booleans: true,
        // A snippet would print the lines around the error, passwords included.
        with_snippet: false,
        alias_limits: serde_yaml::alias_limits! { max_total_replayed_events: MAX_ALIAS_REPLAYS },
        budget: serde_yaml::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 4 * MAX_NODES,
        },
    };
    serde_yaml::from_str_with_options::<Spanned<Value>>(text, options).map(Node::from)
}

/// Returns the first tab in the indentation of a line near this one: the parser reports it somewhere else.
fn tab(source: &str, near: u64) -> Option<Position> {
    let lines = (1..).zip(source.lines()).skip_while(|(line, _)| line + 1 < near).take(3);
    let mut indented = lines
        .filter(|(_, text)| !text.trim().is_empty())
        .map(|(line, text)| (line, &text[..text.len() - text.trim_start().len()]));
    indented.find_map(|(line, indent)| {
        let column = indent.chars().position(|c| c == '\t')?;
        Some(Position { line, column: u64::try_from(column).ok()?.saturating_add(1) })
    })
}

fn fail(source: &str, report: &Report, error: &serde_yaml::Error) {
    let position = error.location().map(position);
    if let Some(at) = position.and_then(|position| tab(source, position.line)) {
        let help = "YAML is indented with spaces; use spaces".to_owned();
        return report.of_file(Some(at), "there is a tab in the indentation", Some(help));
    }
    let text = error.without_snippet().to_string();
    // The position is ours to print, once.
    let text = text.split_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    let line = position.and_then(|at| source.lines().nth(usize::try_from(at.line).ok()?.checked_sub(1)?));
    let help =
        line.filter(|line| line.contains("${") && line.contains(['{', '[']) && text.contains("flow")).map(|_| {
            // The braces of the hole end the map around it: the mistake that every example of one line invites.
            "between `{ }` and `[ ]`, a value with `${...}` needs quotes".to_owned()
        });
    report.of_file(position, reworded(text).unwrap_or_else(|| format!("read YAML: {text}")), help);
}

/// Rewords the library's messages about its own interface. Other messages are shown as they are.
fn reworded(text: &str) -> Option<String> {
    if text.starts_with("multiple YAML documents") {
        return Some("a second YAML document begins here; a configuration is one document".to_owned());
    }
    if text.starts_with("alias replay limit") {
        return Some(format!("aliases (`*name`) repeat more than {MAX_ALIAS_REPLAYS} parts"));
    }
    if text.starts_with("recursion limit") || text.starts_with("budget breached: Depth") {
        return Some(format!("the file is nested deeper than {MAX_DEPTH} levels"));
    }
    text.strip_prefix("budget breached: ").map(|what| format!("the file is larger than any configuration ({what})"))
}

fn position(location: Location) -> Position {
    Position { line: location.line(), column: location.column() }
}

impl From<Spanned<Value>> for Node {
    fn from(spanned: Spanned<Value>) -> Self {
        // For an alias, the place where the value is written: it is corrected there.
        let place = if spanned.defined == Location::UNKNOWN { spanned.referenced } else { spanned.defined };
        Node { at: position(place), value: spanned.value }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Flag(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Value>>()? {
            list.push(item.into());
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry::<Spanned<String>, Spanned<Value>>()? {
            map.push((Name { at: position(key.defined), text: key.value }, value.into()));
        }
        Ok(Value::Map(map))
    }
}
