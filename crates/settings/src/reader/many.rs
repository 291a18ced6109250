//! Lists of values, and maps with names from the user.

use super::values::compile;
use super::{Scalar, Section, clip, scalar};
use crate::keys::{Key, Kind, Words};
use crate::node::{Name, Node, Value};
use crate::problem::Spot;
use crate::units::BadUnit;
use delaybridge_core::template::Template;

impl<'a> Section<'a> {
    /// Reads names with templates, in the order of the file.
    pub fn headers(&self, key: &Key) -> Vec<(String, Template, Spot)> {
        let mut headers = Vec::new();
        for (name, scalar) in self.entries(key, true, "write `headers: { tenant: acme }`") {
            let spot = scalar.spot.clone();
            if scalar.kind != "text" {
                let help = "if it is meant as text, write it in quotes";
                self.cx.report.problem(&spot, format!("expected text, found {}", scalar.kind), help);
            } else if let Some(template) = compile(self.cx, &scalar) {
                headers.push((name.text.clone(), template, Spot { at: name.at, ..spot }));
            }
        }
        headers
    }

    /// Reads names with scalars of any kind, in the order of the file.
    pub fn scalars(&self, key: &Key) -> Vec<(String, Scalar)> {
        let entries = self.entries(key, false, key.help).into_iter();
        entries.map(|(name, scalar)| (name.text.clone(), scalar)).collect()
    }

    /// Returns the names and scalars of the map behind the key.
    fn entries(&self, key: &Key, templates: bool, help: &str) -> Vec<(&'a Name, Scalar)> {
        let Some(entry) = self.entry(key) else { return Vec::new() };
        let spot = self.spot(key);
        let Value::Map(entries) = &entry.node.value else {
            let message = format!("expected names with values, found {}", entry.node.value.kind());
            self.cx.report.problem(&spot, message, help);
            return Vec::new();
        };
        let read = |(name, node): &'a (Name, Node)| {
            Some((name, scalar(self.cx, spot.key(&name.text, node.at), node, templates)?))
        };
        entries.iter().filter_map(read).collect()
    }

    /// Reads the texts of a list, none of them empty.
    pub fn texts(&self, key: &Key) -> Vec<Scalar> {
        let Some(entry) = self.entry(key) else { return Vec::new() };
        let spot = self.spot(key);
        let items = match &entry.node.value {
            Value::List(items) if !items.is_empty() => items,
            other => {
                let found = if matches!(other, Value::List(_)) { "an empty list" } else { other.kind() };
                let help = "each item starts with `- `, or all are between `[ ]`";
                self.cx.report.problem(&spot, format!("expected a list, found {found}"), help);
                return Vec::new();
            }
        };
        let read = |(index, node): (usize, &Node)| {
            let scalar = scalar(self.cx, spot.item(index, node.at), node, false)?;
            self.checked_text(key, scalar)
        };
        items.iter().enumerate().filter_map(read).collect()
    }

    /// Reads the texts of a list, or how many of them there are.
    pub fn texts_or_count(&self, key: &Key) -> Result<Vec<Scalar>, u64> {
        let (Kind::TextsOrCount { max }, Some(entry)) = (key.kind, self.entry(key)) else { return Ok(Vec::new()) };
        if matches!(entry.node.value, Value::List(_) | Value::Map(_)) {
            return Ok(self.texts(key));
        }
        let help = format!("write a number from 1 to {max}, or a list");
        let parse = |text: &str| match text.parse() {
            Ok(count) if (1..=max).contains(&count) => Ok(count),
            Ok(_) => Err(BadUnit { message: format!("{} is out of range", clip(text)), help: help.clone() }),
            Err(_) => Err(BadUnit { message: format!("`{}` is not a whole number", clip(text)), help: help.clone() }),
        };
        self.parsed(key, parse).map_or(Ok(Vec::new()), Err)
    }

    /// Returns the values of a list of words; all of them if the user did not write the key.
    pub fn some_of<T: Words>(&self, key: &Key) -> Vec<T::Value> {
        self.words(key, T::VALUES)
    }

    /// Returns the values that belong to the words of a list.
    fn words<T: Copy>(&self, key: &Key, values: &[(&str, T)]) -> Vec<T> {
        let Kind::Words(words) = key.kind else { return Vec::new() };
        let Some(entry) = self.entry(key) else { return values.iter().map(|(_, value)| *value).collect() };
        let spot = self.spot(key);
        let items = match &entry.node.value {
            Value::List(items) if !items.is_empty() => items,
            other => {
                let found = if matches!(other, Value::List(_)) { "an empty list" } else { other.kind() };
                let names: Vec<_> = words.iter().map(|word| word.text).collect();
                let help = format!("write one or more of: [{}]", names.join(", "));
                self.cx.report.problem(&spot, format!("expected a list, found {found}"), help);
                return Vec::new();
            }
        };
        let read = |(index, node): (usize, &Node)| {
            let scalar = scalar(self.cx, spot.item(index, node.at), node, false)?;
            let word = self.checked_word(words, &scalar)?;
            values.iter().find(|(text, _)| *text == word).map(|(_, value)| *value)
        };
        items.iter().enumerate().filter_map(read).collect()
    }
}
