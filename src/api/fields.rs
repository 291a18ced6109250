//! Reading the fields of a JSON object by hand: each with its place, each mistake with what to write instead.
//!
//! The parser of `serde_json` bounds the depth, the body's limit bounds the rest. Values are not quoted in messages: they
//! may be payload.

use std::time::Duration;

use serde_json::{Map, Value};

use super::call;
use super::problem::Problem;
use crate::settings::keys::nearest;

/// The fields of one object; a field is taken when it is read, so that what is left is unknown.
pub struct Fields {
    /// Where the object is, for messages: `jobs[2].` or nothing.
    place: String,
    fields: Map<String, Value>,
    known: Vec<&'static str>,
}

impl Fields {
    /// Parses a body. An empty one is an object without fields.
    ///
    /// # Errors
    /// It is not a JSON object.
    pub fn parse(body: &[u8]) -> Result<Fields, Problem> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Fields { place: String::new(), fields: Map::new(), known: Vec::new() });
        }
        let value = serde_json::from_slice(body).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            Problem::bad(format!("read the body: it is not valid JSON, at line {line}, column {column}"))
        })?;
        Fields::of(String::new(), value)
    }

    /// The fields of a value at a place.
    ///
    /// # Errors
    /// It is not an object.
    pub fn of(place: String, value: Value) -> Result<Fields, Problem> {
        match value {
            Value::Object(fields) => Ok(Fields { place, fields, known: Vec::new() }),
            other => {
                let what = if place.is_empty() { "the body" } else { place.trim_end_matches('.') };
                Err(Problem::bad(format!("read {what}: expected a JSON object, found {}", kind(&other))))
            }
        }
    }

    /// The field, whatever it is; `null` is as good as none.
    pub fn value(&mut self, name: &'static str) -> Option<Value> {
        self.known.push(name);
        self.fields.shift_remove(name).filter(|value| !value.is_null())
    }

    /// A text.
    ///
    /// # Errors
    /// It is something else.
    pub fn text(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, "a text", &other)),
        }
    }

    /// A whole number, not negative.
    ///
    /// # Errors
    /// It is something else, or too large.
    pub fn number(&mut self, name: &'static str) -> Result<Option<u64>, Problem> {
        match self.value(name) {
            None => Ok(None),
            Some(value) => match value.as_u64() {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(name, "a whole number from 0 on", &value)),
            },
        }
    }

    /// A time: a duration with its unit, or milliseconds under the name that ends in `_ms`.
    ///
    /// # Errors
    /// It is none of them, or there are both.
    pub fn time(&mut self, [name, name_ms]: [&'static str; 2]) -> Result<Option<Duration>, Problem> {
        match (self.text(name)?, self.number(name_ms)?) {
            (Some(_), Some(_)) => {
                Err(self.problem(&format!("there are both `{name}` and `{name_ms}`; send one of them")))
            }
            (Some(text), None) => match call::time(&text) {
                Ok(time) => Ok(Some(time)),
                Err(problem) => Err(Problem::bad(format!("read `{}{name}`: {problem}", self.place))),
            },
            (None, millis) => Ok(millis.map(Duration::from_millis)),
        }
    }

    /// A flag.
    ///
    /// # Errors
    /// It is something else.
    pub fn flag(&mut self, name: &'static str) -> Result<Option<bool>, Problem> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.wrong(name, "true or false", &other)),
        }
    }

    /// A list of at most `most` values.
    ///
    /// # Errors
    /// It is something else, empty, or longer.
    pub fn list(&mut self, name: &'static str, most: usize) -> Result<Option<Vec<Value>>, Problem> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Array(items)) if (1..=most).contains(&items.len()) => Ok(Some(items)),
            Some(Value::Array(items)) => {
                let (place, found) = (&self.place, items.len());
                Err(Problem::bad(format!("read `{place}{name}`: expected 1 to {most} items, found {found}")))
            }
            Some(other) => Err(self.wrong(name, "a list", &other)),
        }
    }

    /// All fields were read.
    ///
    /// # Errors
    /// One is there that is not known; the one that was probably meant.
    pub fn finish(self) -> Result<(), Problem> {
        let Some(unknown) = self.fields.keys().next() else { return Ok(()) };
        let help = match nearest(unknown, self.known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("known are {}", self.known.join(", ")),
        };
        let place = self.place.trim_end_matches('.');
        let of = if place.is_empty() { String::new() } else { format!(" of `{place}`") };
        Err(Problem::bad(format!("read the body: unknown field `{}`{of}; {help}", clip(unknown))))
    }

    /// What is wrong with the object as a whole.
    pub fn problem(&self, detail: &str) -> Problem {
        let place = self.place.trim_end_matches('.');
        Problem::bad(format!("read {}: {detail}", if place.is_empty() { "the body" } else { place }))
    }

    fn wrong(&self, name: &str, expected: &str, found: &Value) -> Problem {
        Problem::bad(format!("read `{}{name}`: expected {expected}, found {}", self.place, kind(found)))
    }
}

/// The kind of a value, as messages call it.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "another number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A client's word in a message: short, and nothing that a terminal would obey.
pub fn clip(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_answered_with_what_to_write() {
        let check = |body: &str, expected: &str| {
            let read = || {
                let mut fields = Fields::parse(body.as_bytes())?;
                fields.text("id")?;
                fields.number("delay_ms")?;
                fields.list("jobs", 2)?;
                fields.finish()
            };
            assert_eq!(read().map_err(|problem| problem.detail), Err(expected.to_owned()), "{body}");
        };
        check("{\"id\":", "read the body: it is not valid JSON, at line 1, column 6");
        check("[]", "read the body: expected a JSON object, found a list");
        check(r#"{"id":7}"#, "read `id`: expected a text, found another number");
        check(r#"{"delay_ms":-1}"#, "read `delay_ms`: expected a whole number from 0 on, found another number");
        check(r#"{"delay":1}"#, "read the body: unknown field `delay`; did you mean `delay_ms`?");
        check(r#"{"jobs":[1,2,3]}"#, "read `jobs`: expected 1 to 2 items, found 3");
        check(r#"{"jobs":[]}"#, "read `jobs`: expected 1 to 2 items, found 0");
        assert!(Fields::parse(b" ").unwrap().finish().is_ok());
        // Deep nesting ends the parser, not the process.
        check(&"[".repeat(100_000), "read the body: it is not valid JSON, at line 1, column 128");
    }
}
