//! One element as one line of JSON. Pure.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::IgnoredAny;
use serde::ser::{Serialize, SerializeMap, Serializer};

use delaybridge_core::message::{Class, Failure, lateness};
use delaybridge_sink::Outbound;

/// Appends the element's line, newline included. Strings, numbers and checked JSON always serialise, so an error is a
/// defect; nothing is appended, and it must not count as delivered.
pub(super) fn append(lines: &mut Vec<u8>, message: &Outbound) -> Result<(), Failure> {
    let start = lines.len();
    let body = LineBody::of(&message.body);
    serde_json::to_writer(&mut *lines, &ElementLine(message, &body)).map_err(|error| {
        lines.truncate(start);
        Failure::new(Class::Unknown, "encode", format!("encode a line of JSON: {error}"))
    })?;
    if let LineBody::Json(text) = body {
        // Into the object that was just closed.
        lines.truncate(lines.len() - 1);
        lines.extend_from_slice(b",\"payload\":");
        lines.extend_from_slice(text.as_bytes());
        lines.push(b'}');
    }
    lines.push(b'\n');
    Ok(())
}

/// The line without a payload that is JSON.
struct ElementLine<'a>(&'a Outbound, &'a LineBody<'a>);

impl Serialize for ElementLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let message = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &format_args!("{}", message.id))?;
        map.serialize_entry("queue", &*message.queue)?;
        if let Some(due_ms) = message.due_ms {
            map.serialize_entry("due_ms", &due_ms)?;
            if lateness(due_ms, message.now_ms).is_some() {
                map.serialize_entry("late_ms", &message.now_ms.saturating_sub(due_ms))?;
            }
        }
        map.serialize_entry("attempt", &message.attempt)?;
        if !message.headers.is_empty() {
            map.serialize_entry("headers", &Headers(message))?;
        }
        match self.1 {
            LineBody::Json(_) => {}
            LineBody::Text(text) => map.serialize_entry("payload", text)?,
            LineBody::Bytes(bytes) => map.serialize_entry("payload_base64", &STANDARD.encode(bytes))?,
        }
        map.end()
    }
}

struct Headers<'a>(&'a Outbound);

impl Serialize for Headers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.headers.iter().map(|(name, value)| (&**name, value)))
    }
}

enum LineBody<'a> {
    /// A JSON value, kept to the letter (numbers beyond 64 bits, order and repetition of keys), on one line.
    Json(Cow<'a, str>),
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl LineBody<'_> {
    fn of(bytes: &[u8]) -> LineBody<'_> {
        let Ok(text) = std::str::from_utf8(bytes) else { return LineBody::Bytes(bytes) };
        if serde_json::from_str::<IgnoredAny>(text).is_err() {
            return LineBody::Text(text);
        }
        // In valid JSON a raw line break occurs only between tokens, where a space means the same.
        if text.contains(['\n', '\r']) {
            LineBody::Json(text.replace(['\n', '\r'], " ").into())
        } else {
            LineBody::Json(text.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_testing::sink::{anywhere, outbound};

    fn line(message: &Outbound) -> String {
        let mut lines = Vec::new();
        append(&mut lines, message).unwrap();
        String::from_utf8(lines).unwrap()
    }

    #[test]
    fn the_payload_is_json_text_or_base64() {
        fn check(body: &[u8], expected: &str) {
            let message = outbound(1, anywhere(), body);
            let head = r#"{"id":"0000000000000001","queue":"q","due_ms":1000,"late_ms":5,"attempt":1,"#;
            assert_eq!(line(&message), format!("{head}{expected}}}\n"));
        }
        check(br#"{"b":1,"a":[true,null]}"#, r#""payload":{"b":1,"a":[true,null]}"#);
        check(b"12345678901234567890123", r#""payload":12345678901234567890123"#);
        check(b"\"quoted\"", r#""payload":"quoted""#);
        check(b"{\n  \"a\": \"x\\ny\"\r\n}", r#""payload":{   "a": "x\ny"  }"#);
        check(b"plain \"text\"\n", r#""payload":"plain \"text\"\n""#);
        check(b"{broken", r#""payload":"{broken""#);
        check(b"", r#""payload":"""#);
        check("é".as_bytes(), r#""payload":"é""#);
        check(&[0xff, 0x00], r#""payload_base64":"/wA=""#);
    }

    #[test]
    fn what_is_absent_is_left_out_and_headers_keep_their_order() {
        let mut message = outbound(1, anywhere(), "x");
        message.due_ms = None;
        message.headers = vec![("z".into(), "1".to_owned()), ("a".into(), "\"".to_owned())];
        let expected =
            r#"{"id":"0000000000000001","queue":"q","attempt":1,"headers":{"z":"1","a":"\""},"payload":"x"}"#;
        assert_eq!(line(&message), format!("{expected}\n"));
    }
}
