//! The half of a URL that elements may choose: path and query, with holes whose values are percent-encoded.
//!
//! A value of an element stays within its place: it cannot add a step to the path, a parameter to the query, or go up
//! with `..`. So what a producer writes into a payload never leads to another endpoint of the server.

use std::fmt;

use serde::{Serialize, Serializer};

use delaybridge_core::template::{FillError, Filler, Template, TemplateError};

/// Longest path with its query that is sent; servers take about as much.
const LONGEST: usize = 8_000;
/// The name of the key, for messages.
pub(super) const KEY: &str = "path";

/// Path and query with `${...}` holes, compiled.
#[derive(Clone)]
pub struct Path {
    parts: Vec<PathPart>,
    whole: Template,
    /// A part came from the environment, and may be a secret.
    secret: bool,
}

#[derive(Clone)]
enum PathPart {
    Text(String),
    Hole { value: Template, in_query: bool },
}

/// The text is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Not a template.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A text that a URL cannot have there.
    #[error("{0}")]
    Unfit(&'static str),
}

impl Path {
    /// Compiles a path, which begins with `/`. With `secret` nothing of it is shown.
    ///
    /// # Errors
    /// When a hole is not closed or names no field, or the rest is no path.
    pub fn compile(text: &str, secret: bool) -> Result<Path, PathError> {
        if !text.starts_with('/') {
            return Err(PathError::Unfit("a path begins with `/`"));
        }
        let whole = Template::compile(text)?;
        let mut parts = Vec::new();
        let mut rest = text;
        let mut in_query = false;
        while let Some(at) = rest.find("${") {
            // The text is a template, so every hole ends. `$${` is no hole, and `{` no letter of a URL.
            let end = rest[at..].find('}').map_or(rest.len(), |length| at + length + 1);
            let before = &rest[..at];
            unfit(before).map_or(Ok(()), |why| Err(PathError::Unfit(why)))?;
            if before.ends_with('$') {
                return Err(PathError::Unfit(LETTERS));
            }
            in_query = in_query || before.contains('?');
            parts.push(PathPart::Text(before.to_owned()));
            parts.push(PathPart::Hole { value: Template::compile(&rest[at..end])?, in_query });
            rest = &rest[end..];
        }
        unfit(rest).map_or(Ok(()), |why| Err(PathError::Unfit(why)))?;
        parts.push(PathPart::Text(rest.to_owned()));
        Ok(Path { parts, whole, secret })
    }

    /// Returns the text as a template, without what is peculiar to URLs.
    pub fn template(&self) -> &Template {
        &self.whole
    }

    /// Returns whether nothing of it may be shown.
    pub fn is_secret(&self) -> bool {
        self.secret
    }

    /// Fills path and query for one element.
    ///
    /// # Errors
    /// When the element lacks a field that has no default, or a value that makes no path.
    pub fn fill(&self, from: &Filler<'_>) -> Result<String, FillError> {
        let mut filled = String::with_capacity(self.whole.source().len() + 32);
        for part in &self.parts {
            match part {
                PathPart::Text(text) => filled.push_str(text),
                PathPart::Hole { value, in_query } => {
                    let value = from.text(value, &KEY)?;
                    if value.is_empty() && !in_query {
                        return Err(FillError::empty(KEY));
                    }
                    encode(&mut filled, &value);
                }
            }
        }
        match unfit_request(&filled) {
            Some(why) => Err(FillError::Unfit { place: KEY.to_owned(), why }),
            None => Ok(filled),
        }
    }

    /// Returns the path and query of every element, if there are no holes to fill and they can be requested.
    pub fn constant(&self) -> Option<String> {
        let text = self.whole.static_text().filter(|text| unfit_request(text).is_none())?;
        Some(text.to_owned())
    }
}

/// Returns the reason why a filled path and query cannot be requested.
fn unfit_request(filled: &str) -> Option<&'static str> {
    let path = filled.split('?').next().unwrap_or_default();
    if filled.len() > LONGEST {
        Some("path and query are longer than 8000 bytes")
    } else if path.split('/').any(|step| matches!(step, "." | "..")) {
        Some("a step of the path is `.` or `..`")
    } else {
        None
    }
}

/// For a person: the query and what came from the environment are hidden.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(self.whole.source(), self.secret))
    }
}

/// Returns the part of a path with its query that may be shown.
pub(super) fn shown(path: &str, secret: bool) -> String {
    match path.split_once('?') {
        _ if secret => "/(hidden)".to_owned(),
        Some((path, _)) => format!("{path}?(hidden)"),
        None => path.to_owned(),
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Path {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

const LETTERS: &str = "the path has a character that no URL has there: percent-encode it";

/// Explains what is wrong with a fixed part.
fn unfit(text: &str) -> Option<&'static str> {
    if text.contains('#') {
        return Some("the part behind `#` is never sent to a server");
    }
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let fits = match byte {
            b'%' => [rest.next(), rest.next()].iter().all(|digit| digit.is_some_and(|digit| digit.is_ascii_hexdigit())),
            _ => byte.is_ascii_alphanumeric() || b"-._~:/?[]@!$&'()*+,;=".contains(&byte),
        };
        if !fits {
            return Some(LETTERS);
        }
    }
    None
}

/// Appends a value, with all but the letters that mean nothing in a URL percent-encoded.
fn encode(to: &mut String, value: &str) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            to.push(char::from(byte));
        } else {
            to.push('%');
            to.push(char::from(DIGITS[usize::from(byte >> 4)]));
            to.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_core::message::MessageId;
    use delaybridge_core::template::{ElementInfo, FieldValue, Fields};

    struct Text(&'static str);

    impl Fields for Text {
        fn value(&self, path: &[String]) -> Option<FieldValue<'_>> {
            path.is_empty().then(|| FieldValue::Text(self.0.into()))
        }
    }

    fn fill(path: &str, payload: &'static str) -> Result<String, FillError> {
        let id = MessageId([0; 8]).into();
        let element = ElementInfo { id: &id, queue: "q.1", due_ms: Some(7), attempt: 1, topic: None, carried: None };
        let payload = Text(payload);
        Path::compile(path, false).unwrap().fill(&Filler::new(&element, &payload, None))
    }

    #[test]
    fn a_value_stays_in_its_place() {
        let rows = [
            ("/a", "", "/a"),
            ("/", "", "/"),
            ("/${queue}/${due_ms}?n=${attempt}", "", "/q.1/7?n=1"),
            ("/o/${payload}", "a/../b?c=d&e#f%g h", "/o/a%2F..%2Fb%3Fc%3Dd%26e%23f%25g%20h"),
            ("/o/${payload}", "ü€", "/o/%C3%BC%E2%82%AC"),
            ("/o/x${payload}", "..", "/o/x.."),
            ("/o?x=${payload}&y=1", "", "/o?x=&y=1"),
            ("/o?x=${payload}", "../a&b", "/o?x=..%2Fa%26b"),
            ("/o/${payload.missing:-none}", "", "/o/none"),
            ("/a%20b/$x", "", "/a%20b/$x"),
        ];
        for (path, payload, filled) in rows {
            assert_eq!(fill(path, payload).as_deref(), Ok(filled), "{path}");
        }
    }

    #[test]
    fn a_value_that_makes_no_path_is_refused() {
        for dots in [".", ".."] {
            assert!(fill("/o/${payload}/x", dots).unwrap_err().to_string().contains("a step of the path"));
        }
        assert_eq!(fill("/o/${payload}", ""), Err(FillError::empty("path")));
        assert_eq!(fill("/${payload.x}", "").unwrap_err().code(), "template_field_missing");
        let long: &'static str = "x".repeat(9000).leak();
        let error = fill("/${payload}", long).unwrap_err();
        assert!(error.to_string().contains("8000 bytes") && !error.to_string().contains("xx"));
    }

    #[test]
    fn a_text_that_is_no_path_is_refused() {
        for text in ["orders", "", "?a=b", "/a#b", "/a b", "/ä", "/a%2", "/a%zz", "/$${id}", "/{x}", "/${id", "/${ID}"]
        {
            assert!(Path::compile(text, false).is_err(), "{text}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = |text, secret| Path::compile(text, secret).unwrap().to_string();
        assert_eq!(shown("/o/${id}", false), "/o/${id}");
        assert_eq!(shown("/o?token=geheim", false), "/o?(hidden)");
        assert_eq!(shown("/services/geheim", true), "/(hidden)");
    }
}
