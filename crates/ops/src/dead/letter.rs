//! A dead letter as its fields say: a line of a list, or everything.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use redisson_codecs::{Classes, Coding};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::content::{Content, base64};
use delaybridge_ledger::claims::Element;
use delaybridge_ledger::{DeadLetter, Ledger};

/// A dead letter in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The letter's place in the stream.
    pub stream_id: String,
    /// The element's id.
    pub id: String,
    /// Why it died.
    pub reason: String,
    /// Class of the last failure.
    pub class: String,
    /// Code of the last failure.
    pub code: String,
    /// Message of the last failure.
    pub message: String,
    /// The sink that decided.
    pub sink: String,
    /// The destination there.
    pub destination: String,
    /// The due time of the element.
    pub due_ms: Option<i64>,
    /// The time at which it died.
    pub died_ms: Option<i64>,
    /// Attempts that counted.
    pub attempts: Option<i64>,
    /// Bytes of the payload.
    pub size: usize,
}

/// Everything that a dead letter keeps.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct Letter {
    /// The letter's place in the stream.
    pub stream_id: String,
    /// The fields in their order, by name; the element's bytes are `element_base64`.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
    /// The payload.
    #[serde(flatten)]
    pub content: Content,
    /// The element, byte for byte.
    #[serde(skip)]
    pub element: Bytes,
}

/// Returns the payload inside the element; of a letter that another program wrote, all of its bytes.
fn payload(ledger: &Ledger, letter: &DeadLetter) -> Bytes {
    let entry = letter.reborn().ok().and_then(|entry| Element::entry(entry, 0));
    let payload = entry.and_then(|entry| ledger.open(&entry).1.ok());
    payload.unwrap_or_else(|| letter.bytes("element").cloned().unwrap_or_default())
}

/// The parts of a letter's answer that are none of its fields.
const APART: [&str; 5] = ["stream_id", "payload", "payload_base64", "payload_cut", "value"];

impl TryFrom<Value> for Letter {
    type Error = &'static str;

    /// Reads a letter of a daemon's answer, with its fields in their order.
    fn try_from(answer: Value) -> Result<Letter, &'static str> {
        let content = Content::answered(&answer).ok_or("a letter without a payload")?;
        let Value::Object(mut fields) = answer else { return Err("a letter that is no object") };
        let stream_id = fields.get("stream_id").and_then(Value::as_str).ok_or("a letter without a place")?.to_owned();
        fields.retain(|name, _| !APART.contains(&name.as_str()));
        let element = fields.get("element_base64").and_then(|text| STANDARD.decode(text.as_str()?).ok());
        Ok(Letter { stream_id, fields, content, element: element.unwrap_or_default().into() })
    }
}

impl Summary {
    pub(crate) fn of(ledger: &Ledger, letter: &DeadLetter) -> Self {
        let text = |field| letter.text(field).to_owned();
        Summary {
            stream_id: letter.stream_id.clone(),
            id: text("id"),
            reason: text("reason"),
            class: text("class"),
            code: text("code"),
            message: text("message"),
            sink: text("sink"),
            destination: text("destination"),
            due_ms: letter.number("due_ms"),
            died_ms: letter.number("died_ms"),
            attempts: letter.number("attempts"),
            size: payload(ledger, letter).len(),
        }
    }
}

impl Letter {
    pub(crate) fn of(ledger: &Ledger, letter: DeadLetter, codec: Coding, classes: &Classes) -> Self {
        let fields = letter.fields.iter().map(|(name, bytes)| match name.as_str() {
            "element" => ("element_base64".to_owned(), base64(bytes).into()),
            name => (name.to_owned(), typed(&letter, name, bytes)),
        });
        Letter {
            fields: fields.collect(),
            content: Content::new(codec, payload(ledger, &letter), true).with(classes),
            element: letter.bytes("element").cloned().unwrap_or_default(),
            stream_id: letter.stream_id,
        }
    }
}

/// Returns a field as the type that it has.
fn typed(letter: &DeadLetter, name: &str, bytes: &Bytes) -> Value {
    let text = || String::from_utf8_lossy(bytes);
    match name {
        "confirmed" => text().split(',').filter(|sink| !sink.is_empty()).collect(),
        // Written by the daemon as JSON.
        "attempts_seen" => serde_json::from_slice(bytes).unwrap_or_else(|_| text().into()),
        "attempts" | "expiries" => letter.number(name).into(),
        name if name.ends_with("_ms") => letter.number(name).into(),
        _ => text().into(),
    }
}

#[cfg(test)]
mod tests {
    use redisson_codecs::Codec;
    use serde_json::json;

    use super::super::sample::sample;
    use super::*;

    #[test]
    fn a_letter_of_an_answer_is_the_letter() {
        let own = sample(Codec::String);
        let read = Letter::try_from(serde_json::to_value(&own).unwrap()).unwrap();
        assert_eq!((&read.stream_id, &read.fields, &read.element), (&own.stream_id, &own.fields, &own.element));
        // As text: the order is the same.
        assert_eq!(serde_json::to_string(&read).unwrap(), serde_json::to_string(&own).unwrap());
        assert!(Letter::try_from(json!({ "stream_id": "1-0" })).is_err());
    }

    #[test]
    fn a_program_gets_values_of_their_own_types() {
        let all = serde_json::to_value(sample(Codec::Raw)).unwrap();
        assert_eq!((&all["attempts"], &all["first_attempt_ms"]), (&json!(3), &Value::Null));
        assert_eq!(all["confirmed"], json!(["audit", "lines"]));
        assert_eq!(all["attempts_seen"][0]["code"], "timeout");
        assert_eq!(
            (&all["payload"], &all["element_base64"]),
            (&json!("hello"), &json!("CFJBTkRPTThCBQAAAAAAAABoZWxsbw=="))
        );
    }
}
