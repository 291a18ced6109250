//! Payloads as a person or a program reads them: text where it is text, else bytes. Pure.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use redisson_codecs::{Classes, Codec, Coding, Confidence, DecodeError, Payload, View};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// A payload, or its beginning, and the codec that should read it.
///
/// As JSON: `payload` if it is text, else `payload_base64`; `payload_cut` if it is only the beginning; `value` if a codec
/// found one that is not this text.
#[derive(Debug, Clone)]
pub struct Content {
    bytes: Bytes,
    complete: bool,
    coding: Coding,
    classes: Classes,
    /// The value that a daemon has read in it, where a daemon was asked; nothing is read again then.
    answered: Option<Option<Value>>,
}

impl Default for Content {
    fn default() -> Self {
        Content::new(Codec::Raw, Bytes::new(), true)
    }
}

impl Content {
    /// Returns the payload; `complete` unless it is only the beginning.
    pub fn new(coding: impl Into<Coding>, bytes: Bytes, complete: bool) -> Self {
        Content { bytes, complete, coding: coding.into(), classes: Classes::default(), answered: None }
    }

    /// Returns the payload that an answer of a daemon has: its `payload` and so on, as they are serialised; `None` if
    /// it has none.
    pub(super) fn answered(answer: &Value) -> Option<Content> {
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        let bytes = match (text("payload"), text("payload_base64")) {
            (Some(text), _) => Bytes::copy_from_slice(text.as_bytes()),
            (None, Some(digits)) => STANDARD.decode(digits).ok()?.into(),
            (None, None) => return None,
        };
        let complete = answer.get("payload_cut").is_none();
        Some(Content { answered: Some(answer.get("value").cloned()), ..Content::new(Codec::Raw, bytes, complete) })
    }

    /// Returns the beginning of the payload, at most so many bytes.
    pub fn shortened(self, most: usize) -> Self {
        if self.bytes.len() > most {
            Content { bytes: self.bytes.slice(..most), complete: false, ..self }
        } else {
            self
        }
    }

    /// Returns the same, read with the application's declared classes.
    pub fn with(self, classes: &Classes) -> Self {
        Content { classes: classes.clone(), ..self }
    }

    /// Returns one line for a person, at most `most` characters: what the codec makes of the payload if it is complete
    /// and the codec takes it, else text if it is some, else hexadecimal digits. Where the codec is `raw`, what is
    /// certainly or most likely written by another codec is read with that one.
    pub fn preview(&self, most: usize) -> String {
        if let Some(Some(value)) = &self.answered {
            let text = value.as_str().map_or_else(|| escaped(&value.to_string()), escaped);
            return cut(&text, self.complete, most);
        }
        let shown = match self.read() {
            Some(Ok(decoded)) => match value(&decoded) {
                Some(Value::String(text)) => escaped(&text),
                Some(value) => escaped(&value.to_string()),
                None => plain(&decoded.decoded(), true),
            },
            Some(Err(error)) => {
                format!("({} at byte {}) {}", error.problem, error.offset, plain(&self.bytes, true))
            }
            None => plain(&self.bytes, self.complete),
        };
        cut(&shown, self.complete, most)
    }

    /// Many lines for a person, at most `most` bytes: what the codec makes of the payload, JSON indented; else text if it is some,
    /// else hexadecimal digits.
    pub fn shown(&self, most: usize) -> PayloadText {
        let indented = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
        let (text, note) = match self.read() {
            Some(Ok(decoded)) => match value(&decoded) {
                Some(Value::String(text)) => (text, None),
                Some(value) => (indented(&value), None),
                None => (plain(&decoded.decoded(), true), None),
            },
            Some(Err(error)) => {
                let note = format!("The codec refused it: {} at byte {}.", error.problem, error.offset);
                (plain(&self.bytes, true), Some(note))
            }
            None => match text_of(&self.bytes, self.complete).filter(|text| !looks_binary(text)) {
                Some(text) => match serde_json::from_str::<Value>(text) {
                    Ok(value @ (Value::Object(_) | Value::Array(_))) => (indented(&value), None),
                    _ => (text.to_owned(), None),
                },
                None => (plain(&self.bytes, self.complete), None),
            },
        };
        let end = (0..=most.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        let cut = end < text.len() || !self.complete;
        // Line breaks and tabs may be there; what a terminal or a reader's direction would obey may not.
        let text = text[..end].split_inclusive(['\n', '\t']).map(kept).collect();
        PayloadText { text, cut, note }
    }

    /// Returns whether this text is in the payload: in its bytes, or in a value that the codec finds.
    pub fn holds(&self, part: &str) -> bool {
        String::from_utf8_lossy(&self.bytes).contains(part)
            || self
                .read()
                .and_then(Result::ok)
                .and_then(|payload| value(&payload))
                .is_some_and(|value| holds(&value, part))
    }

    /// Returns the payload as a codec reads it; `None` where none is meant, and for a beginning.
    fn read(&self) -> Option<Result<Payload, DecodeError>> {
        match self.coding.is_raw() {
            _ if !self.complete || self.answered.is_some() => None,
            true => {
                let guess = redisson_codecs::guess_with(&self.bytes, self.coding, &self.classes)
                    .filter(|guess| guess.confidence > Confidence::Guess);
                guess.map(|guess| guess.payload)
            }
            false => Some(redisson_codecs::decode_with(self.coding, &self.classes, &self.bytes)),
        }
    }
}

/// A payload in many lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadText {
    /// The text, not escaped for any page.
    pub text: String,
    /// Whether there is more.
    pub cut: bool,
    /// A note for the person who reads it.
    pub note: Option<String>,
}

/// Returns a part of a text that ends with at most one line break or tab.
fn kept(part: &str) -> String {
    let body = part.trim_end_matches(['\n', '\t']);
    escaped(body) + &part[body.len()..]
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        match text_of(&self.bytes, self.complete) {
            Some(text) => fields.serialize_entry("payload", text)?,
            None => fields.serialize_entry("payload_base64", &base64(&self.bytes))?,
        }
        if !self.complete {
            fields.serialize_entry("payload_cut", &true)?;
        }
        if let Some(Some(value)) = &self.answered {
            fields.serialize_entry("value", value)?;
        }
        if let Some(Ok(decoded)) = self.read()
            && decoded.decoded() != self.bytes
            && let Some(value) = value(&decoded)
        {
            fields.serialize_entry("value", &value)?;
        }
        fields.end()
    }
}

/// Implements reading and writing of a type with a payload among its fields, which derives both as `remote = "Self"`. The payload is read
/// apart: a flattened field has no numbers beyond 64 bits.
macro_rules! with_content {
    ($kind:ident) => {
        impl serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $kind::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $kind {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<$kind, D::Error> {
                let answer = serde_json::Value::deserialize(deserializer)?;
                let content = Content::answered(&answer).ok_or_else(|| serde::de::Error::missing_field("payload"))?;
                let own = $kind::deserialize(answer).map_err(serde::de::Error::custom)?;
                Ok($kind { content, ..own })
            }
        }
    };
}
pub(super) use with_content;

impl JsonSchema for Content {
    fn schema_name() -> Cow<'static, str> {
        "Content".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "payload": { "type": "string", "description": "The payload as text, or the beginning of it." },
                "payload_base64": { "type": "string", "description": "The same where it is no text." },
            },
        })
    }
}

/// Returns the decoded value as JSON; bytes that no codec looked into have none.
pub(super) fn value(payload: &Payload) -> Option<Value> {
    match payload.view() {
        View::Opaque => None,
        View::Text(text) => Some(text.into()),
        View::Json(value) => Some(value.clone()),
    }
}

/// Returns whether a text or number in the value has this in it.
fn holds(value: &Value, part: &str) -> bool {
    match value {
        Value::String(text) => text.contains(part),
        Value::Number(number) => number.to_string().contains(part),
        Value::Array(items) => items.iter().any(|item| holds(item, part)),
        Value::Object(fields) => fields.values().any(|item| holds(item, part)),
        Value::Null | Value::Bool(_) => false,
    }
}

/// Bytes as JSON carries them.
pub(super) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn plain(payload: &Bytes, complete: bool) -> String {
    match text_of(payload, complete).filter(|text| !looks_binary(text)) {
        Some(text) => escaped(text),
        None => {
            let mut digits = "0x".to_owned();
            for byte in payload {
                // Writing to a String cannot fail.
                let _ = write!(digits, "{byte:02x}");
            }
            digits
        }
    }
}

/// Returns the payload as UTF-8; where it was cut, a character may be cut too.
fn text_of(payload: &Bytes, complete: bool) -> Option<&str> {
    match std::str::from_utf8(payload) {
        Ok(text) => Some(text),
        Err(error) if !complete && error.error_len().is_none() => {
            std::str::from_utf8(&payload[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}

/// Serialised objects are sometimes UTF-8 by chance; they are not text.
fn looks_binary(text: &str) -> bool {
    text.chars().any(|letter| letter.is_control() && !matches!(letter, '\t' | '\n' | '\r'))
}

/// On one line, and without anything that a terminal would obey.
pub fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            letter
                if letter.is_control()
                    || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                line.extend(letter.escape_default());
            }
            letter => line.push(letter),
        }
    }
    line
}

/// Characters of a text that someone else wrote, such as the reason of a pause.
const LONGEST: usize = 500;

/// Returns a text that someone else wrote: on one line, without anything that a terminal would obey, and not too long.
pub fn bounded(text: &str) -> String {
    // Each character is one at least, so that no more of them have to be looked at.
    let end = text.char_indices().nth(LONGEST + 1).map_or(text.len(), |(end, _)| end);
    cut(&escaped(&text[..end]), true, LONGEST)
}

fn cut(text: &str, complete: bool, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None if complete => text.to_owned(),
        None => format!("{text}..."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_someone_else_is_one_line_that_ends() {
        assert_eq!(bounded("a deployment, für Ann"), "a deployment, für Ann");
        assert_eq!(bounded("x\u{1b}]0;owned\u{7}\ny\u{202e}z"), r"x\u{1b}]0;owned\u{7}\ny\u{202e}z");
        let long = bounded(&"ä".repeat(4 << 20));
        assert_eq!((long.chars().count(), long.ends_with("ä...")), (LONGEST + 3, true));
        assert_eq!(bounded(&"a".repeat(LONGEST)).len(), LONGEST);
        assert!(bounded(&"\u{1b}".repeat(LONGEST)).len() <= LONGEST + 3);
    }

    #[test]
    fn what_a_daemon_has_answered_is_shown_as_it_has_read_it() {
        let own = Content::new(Codec::Json, Bytes::from_static(b"{ \"n\": 12345678901234567890123 }"), true);
        let binary = Content::new(Codec::Raw, Bytes::from_static(b"\x00\xff"), true);
        let start = Content::new(Codec::Json, Bytes::from_static(b"{\"n"), false);
        for content in [own, binary, start] {
            let answer = serde_json::to_value(&content).unwrap();
            let read = Content::answered(&answer).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), answer);
            assert_eq!(read.preview(100).replace(' ', ""), content.preview(100).replace(' ', ""));
        }
        assert!(Content::answered(&serde_json::json!({ "id": "x" })).is_none());
    }

    #[test]
    fn a_preview_is_what_the_codec_reads_else_text_else_digits() {
        let check = |codec, payload: &'static [u8], complete, expected: &str| {
            let content = Content::new(codec, Bytes::from_static(payload), complete);
            assert_eq!(content.preview(20), expected);
        };
        check(Codec::String, b"hello", true, "hello");
        check(Codec::Raw, b"hello", true, "hello");
        check(Codec::Raw, b"a\nb\x7f", true, "0x610a627f");
        check(Codec::Raw, b"\x03\x61\x62\xe3", true, "abc");
        check(Codec::Kryo5, b"\x09\x0e", true, "7");
        check(Codec::Kryo5, b"\x01\x00\x5b\xc2\x03\xff\x00", true, "0xff00");
        check(Codec::Kryo5, b"\x03", true, "(it ends too early a...");
        check(Codec::String, b"a\nb\x1b[31m", true, "a\\nb\\u{1b}[31m");
        check(Codec::Json, b"{ \"a\" : 1.10 }", true, "{\"a\":1.10}");
        check(Codec::Json, b"{oops", true, "(not JSON at byte 1)...");
        check(Codec::Raw, b"\xff\x00", true, "0xff00");
        check(Codec::Json, b"{\"a\":", false, "{\"a\":...");
        check(Codec::String, b"012345678901234567890123", true, "01234567890123456789...");
        check(Codec::String, b"ab\xe2\x82", false, "ab...");
        check(Codec::String, b"", true, "");
    }

    #[test]
    fn many_lines_are_what_the_codec_reads_and_no_longer_than_asked() {
        let check = |codec, payload: &'static [u8], most, text: &str, cut| {
            let shown = Content::new(codec, Bytes::from_static(payload), true).shown(most);
            assert_eq!((shown.text.as_str(), shown.cut), (text, cut));
        };
        check(Codec::Json, b"{\"a\":[1]}", 100, "{\n  \"a\": [\n    1\n  ]\n}", false);
        check(Codec::Raw, b"{\"a\":1}", 100, "{\n  \"a\": 1\n}", false);
        check(Codec::String, b"a\nb\x1b[31m", 100, "a\nb\\u{1b}[31m", false);
        check(Codec::String, "ää".as_bytes(), 3, "ä", true);
        check(Codec::Raw, b"\xff\x00", 100, "0xff00", false);
        let refused = Content::new(Codec::Json, Bytes::from_static(b"{oops"), true).shown(100);
        assert_eq!((refused.text.as_str(), refused.note.is_some()), ("{oops", true));
    }

    #[test]
    fn a_program_gets_text_or_base64() {
        let check = |payload: &'static [u8], complete, expected: &str| {
            let content = Content::new(Codec::Raw, Bytes::from_static(payload), complete);
            assert_eq!(serde_json::to_string(&content).unwrap(), expected);
        };
        check(b"hello", true, r#"{"payload":"hello"}"#);
        check(b"\x00\xff", true, r#"{"payload_base64":"AP8="}"#);
        check(b"\x03\x61\x62\xe3", true, r#"{"payload_base64":"A2Fi4w==","value":"abc"}"#);
        check(b"ab\xe2\x82", false, r#"{"payload":"ab","payload_cut":true}"#);
        check(b"ab\xe2\x82", true, r#"{"payload_base64":"YWLigg=="}"#);
    }
}
