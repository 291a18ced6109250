//! Reading the fields of a JSON object by hand: each with its place, each mistake with what to write instead.
//!
//! Fields are spans of the body ([`Json`]): no values are made of what is not asked for. Values are not quoted in messages: they
//! may be payload.

use std::time::Duration;

use bytes::Bytes;

use super::problem::Problem;
use super::text::{self, clip};
use delaybridge_core::json::{Json, NoParts};
use delaybridge_settings::keys::nearest;

/// Most fields of an object.
const MOST: usize = 64;

/// The fields of one object; a field is taken when it is read, so that what is left is unknown.
pub struct JsonFields {
    /// The place of the object, for messages: `jobs[2].` or nothing.
    place: String,
    fields: Vec<(String, Json)>,
    known: Vec<&'static str>,
}

/// Reads a body that is one JSON value.
///
/// # Errors
/// It is not.
pub fn json(body: Bytes) -> Result<Json, Problem> {
    Json::read(body).map_err(|problem| Problem::bad(format!("read the body: {problem}")))
}

impl JsonFields {
    /// Parses a body. An empty one is an object without fields.
    ///
    /// # Errors
    /// It is not a JSON object.
    pub fn parse(body: Bytes) -> Result<JsonFields, Problem> {
        if body.trim_ascii().is_empty() {
            return Ok(JsonFields { place: String::new(), fields: Vec::new(), known: Vec::new() });
        }
        JsonFields::of(String::new(), &json(body)?)
    }

    /// Reads the fields of a value at a place.
    ///
    /// # Errors
    /// It is not an object, or has too many fields.
    pub fn of(place: String, value: &Json) -> Result<JsonFields, Problem> {
        let what = || if place.is_empty() { "the body" } else { place.trim_end_matches('.') };
        match value.members(MOST) {
            Ok(fields) => Ok(JsonFields { place, fields, known: Vec::new() }),
            Err(NoParts::Kind) => {
                Err(Problem::bad(format!("read {}: expected a JSON object, found {}", what(), value.kind())))
            }
            Err(NoParts::Many(found)) => {
                Err(Problem::bad(format!("read {}: expected at most {MOST} fields, found {found}", what())))
            }
        }
    }

    /// Returns the names of the fields that were not read yet.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }

    /// Returns whether the field is there, and is `null`.
    pub fn is_null(&self, name: &str) -> bool {
        self.fields.iter().any(|(field, value)| field == name && value.is_null())
    }

    /// Takes the field, whatever its value is.
    pub fn any(&mut self, name: &'static str) -> Option<Json> {
        self.known.push(name);
        let at = self.fields.iter().position(|(field, _)| field == name)?;
        Some(self.fields.remove(at).1)
    }

    /// Takes the field, unless it is `null`, which counts as absent.
    pub fn value(&mut self, name: &'static str) -> Option<Json> {
        self.any(name).filter(|value| !value.is_null())
    }

    /// Reads a text, as its bytes in UTF-8.
    ///
    /// # Errors
    /// It is something else.
    pub fn bytes(&mut self, name: &'static str) -> Result<Option<Bytes>, Problem> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value.text().map(Some).ok_or_else(|| self.wrong(name, "a text", &value))
    }

    /// Reads a text.
    ///
    /// # Errors
    /// It is something else.
    pub fn text(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        Ok(self.bytes(name)?.map(|text| String::from_utf8_lossy(&text).into_owned()))
    }

    /// Reads a whole number, not negative.
    ///
    /// # Errors
    /// It is something else, or too large.
    pub fn number(&mut self, name: &'static str) -> Result<Option<u64>, Problem> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value.number().map(Some).ok_or_else(|| self.wrong(name, "a whole number from 0 on", &value))
    }

    /// Reads a time: a duration with its unit, or milliseconds under the name that ends in `_ms`.
    ///
    /// # Errors
    /// It is none of them, or there are both.
    pub fn time(&mut self, [name, name_ms]: [&'static str; 2]) -> Result<Option<Duration>, Problem> {
        match (self.text(name)?, self.number(name_ms)?) {
            (Some(_), Some(_)) => {
                Err(self.problem(&format!("there are both `{name}` and `{name_ms}`; send one of them")))
            }
            (Some(text), None) => match text::time(&text) {
                Ok(time) => Ok(Some(time)),
                Err(problem) => Err(Problem::bad(format!("read `{}{name}`: {problem}", self.place))),
            },
            (None, millis) => Ok(millis.map(Duration::from_millis)),
        }
    }

    /// Reads a flag.
    ///
    /// # Errors
    /// It is something else.
    pub fn flag(&mut self, name: &'static str) -> Result<Option<bool>, Problem> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value.flag().map(Some).ok_or_else(|| self.wrong(name, "true or false", &value))
    }

    /// Reads a list of at most `most` values.
    ///
    /// # Errors
    /// It is something else, empty, or longer.
    pub fn list(&mut self, name: &'static str, most: usize) -> Result<Option<Vec<Json>>, Problem> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let found = match value.items(most) {
            Ok(items) if !items.is_empty() => return Ok(Some(items)),
            Ok(_) => 0,
            Err(NoParts::Many(found)) => found,
            Err(NoParts::Kind) => return Err(self.wrong(name, "a list", &value)),
        };
        let place = &self.place;
        Err(Problem::bad(format!("read `{place}{name}`: expected 1 to {most} items, found {found}")))
    }

    /// Checks that all fields were read.
    ///
    /// # Errors
    /// One is there that is not known; the one that was probably meant.
    pub fn finish(self) -> Result<(), Problem> {
        let Some((unknown, _)) = self.fields.first() else { return Ok(()) };
        let help = match nearest(unknown, self.known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("known are {}", self.known.join(", ")),
        };
        let place = self.place.trim_end_matches('.');
        let of = if place.is_empty() { String::new() } else { format!(" of `{place}`") };
        Err(Problem::bad(format!("read the body: unknown field `{}`{of}; {help}", clip(unknown))))
    }

    /// Returns a problem of the object as a whole.
    pub fn problem(&self, detail: &str) -> Problem {
        let place = self.place.trim_end_matches('.');
        Problem::bad(format!("read {}: {detail}", if place.is_empty() { "the body" } else { place }))
    }

    fn wrong(&self, name: &str, expected: &str, found: &Json) -> Problem {
        Problem::bad(format!("read `{}{name}`: expected {expected}, found {}", self.place, found.kind()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_answered_with_what_to_write() {
        let check = |body: &str, expected: &str| {
            let read = || {
                let mut fields = JsonFields::parse(Bytes::copy_from_slice(body.as_bytes()))?;
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
        assert!(JsonFields::parse(Bytes::from_static(b" ")).unwrap().finish().is_ok());
        // Deep nesting ends the parser, not the process.
        check(&"[".repeat(100_000), "read the body: it is nested deeper than 128 levels");
        let many: Vec<_> = (0..65).map(|n| format!("\"{n}\":1")).collect();
        check(&format!("{{{}}}", many.join(",")), "read the body: expected at most 64 fields, found 65");
    }
}
