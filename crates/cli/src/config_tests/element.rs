//! The element of a case, as its bytes are in Redis, and how its source opens it. Pure.

use bytes::Bytes;
use redisson_codecs::{Codec, Coding};

use delaybridge_core::message::{Identity, MessageId, Origin};
use delaybridge_ledger::claims::Body;
use delaybridge_ledger::{NoPayload, junk_id};
use delaybridge_model::QueueSpec;
use delaybridge_source::redisson::layout::{Layout, pack};

/// The element of a case.
#[derive(Debug, Clone)]
pub struct Given {
    /// The bytes in Redis: the member of the sorted set, or the entry of the ready list.
    pub element: Bytes,
    /// The record, where the source keeps it beside the sorted set.
    pub record: Option<Bytes>,
    /// The origin.
    pub origin: Origin,
    /// The id that an element of the ready list gets.
    pub id: MessageId,
    /// The due time; elements of the ready list have none.
    pub due_ms: Option<i64>,
    /// The time at which it is looked at.
    pub now_ms: i64,
}

/// The contents of an element, as its source finds them.
#[derive(Debug)]
pub struct OpenedElement {
    /// The identity.
    pub id: Identity,
    /// The payload, or why there is none.
    pub payload: Result<Bytes, NoPayload>,
    /// The topic of a job.
    pub topic: Option<String>,
    /// The number of attempts that the job's own record allows.
    pub tries: Option<u32>,
}

impl Given {
    /// Opens the element as the queue's source does after a claim.
    pub fn open(&self, spec: &QueueSpec) -> OpenedElement {
        let source = spec.source.build();
        let Some(record) = &self.record else {
            let (id, payload) = source.open(self.origin, self.id, &self.element);
            return OpenedElement { id, payload: payload.map_err(NoPayload::Junk), topic: None, tries: None };
        };
        let text = String::from_utf8_lossy(&self.element);
        if let Some(topic) = spec.source.jobs() {
            // A topic's record is ours alone, and holds the body as it came.
            let id = Identity::named(&text).unwrap_or_else(|| junk_id(&self.element).into());
            return OpenedElement { id, payload: Ok(record.clone()), topic: Some(topic.topic.clone()), tries: None };
        }
        let body = Body::Here { bytes: record.clone(), read_ms: self.now_ms };
        let Some(bodies) = source.bodies() else {
            let (id, payload) = source.open(self.origin, self.id, &self.element);
            return OpenedElement { id, payload: payload.map_err(NoPayload::Junk), topic: None, tries: None };
        };
        let (id, payload) = bodies.open_body(&self.element, &body);
        OpenedElement {
            id,
            payload,
            topic: bodies.topic(&body).map(|topic| topic.to_string()),
            tries: bodies.tries(&body),
        }
    }
}

/// Returns an element as Redisson writes it; of the ready list where there is no layout.
pub fn redisson(layout: Option<Layout>, id: MessageId, payload: &[u8]) -> Bytes {
    match layout {
        Some(layout) => pack(layout, id, payload).into(),
        None => Bytes::copy_from_slice(payload),
    }
}

/// Returns the bytes that a codec writes for a text. Other values are given as hexadecimal digits.
///
/// # Errors
/// The name of a codec that writes no text.
pub fn written(coding: Coding, text: &str) -> Result<Bytes, &'static str> {
    let bytes = text.as_bytes();
    match (coding.compression, coding.codec) {
        (Some(_), _) => Err(coding.as_str()),
        (None, Codec::Raw | Codec::String | Codec::Number | Codec::Json | Codec::Jackson | Codec::Auto) => {
            Ok(Bytes::copy_from_slice(bytes))
        }
        (None, Codec::Kryo5) => Ok(kryo5(text)),
        (None, Codec::Java) => java(bytes).ok_or(coding.as_str()),
        (None, _) => Err(coding.as_str()),
    }
}

/// Returns the number of the class `String`, then the text: ASCII ends with the highest bit of its last letter set;
/// other texts have a length in characters.
fn kryo5(text: &str) -> Bytes {
    let mut bytes = vec![3];
    if (2..=32).contains(&text.len()) && text.is_ascii() {
        bytes.extend_from_slice(text.as_bytes());
        if let Some(last) = bytes.last_mut() {
            *last |= 0x80;
        }
        return bytes.into();
    }
    // Java counts UTF-16 units, and writes each of them as UTF-8 of its own.
    let units: Vec<u16> = text.encode_utf16().collect();
    let mut length = units.len() + 1;
    let more = if length > 0x3f { 0x40 } else { 0 };
    bytes.push(0x80 | more | (length & 0x3f) as u8);
    length >>= 6;
    while length > 0 {
        let low = (length & 0x7f) as u8;
        let rest = length >> 7;
        bytes.push(low | if rest > 0 { 0x80 } else { 0 });
        length = rest;
    }
    for unit in units {
        match unit {
            0..0x80 => bytes.push(unit as u8),
            0x80..0x800 => bytes.extend([0xc0 | (unit >> 6) as u8, 0x80 | (unit & 0x3f) as u8]),
            _ => {
                bytes.extend([0xe0 | (unit >> 12) as u8, 0x80 | ((unit >> 6) & 0x3f) as u8, 0x80 | (unit & 0x3f) as u8])
            }
        }
    }
    bytes.into()
}

/// Returns a string as a Java object stream; `None` for a text that is too long, or that Java writes in another way
/// than UTF-8.
fn java(text: &[u8]) -> Option<Bytes> {
    let plain = text.iter().all(|byte| (1..0xf0).contains(byte));
    let length = u16::try_from(text.len()).ok().filter(|_| plain)?;
    Some([&[0xac, 0xed, 0x00, 0x05, 0x74][..], &length.to_be_bytes(), text].concat().into())
}

#[cfg(test)]
mod tests {
    use redisson_codecs::{View, decode};

    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let long = "0123456789".repeat(40);
        for codec in ["raw", "string", "json", "jackson", "number", "kryo5", "java"] {
            for text in ["7", "\"abc\"", &long, "grün 😀", ""] {
                let coding: Coding = codec.parse().expect("a codec");
                let Ok(bytes) = written(coding, text) else {
                    assert!(codec == "java" && text.contains('😀'), "{codec} {text}");
                    continue;
                };
                if matches!(codec, "kryo5" | "java") {
                    let payload = decode(coding, &bytes).unwrap_or_else(|e| panic!("{codec} {text:?}: {e}"));
                    assert!(matches!(payload.view(), View::Text(read) if read == text), "{codec} {text:?}");
                } else {
                    assert_eq!(bytes, text.as_bytes());
                }
            }
        }
    }

    #[test]
    fn a_codec_that_writes_no_text_says_its_name() {
        for codec in ["cbor", "marshalling", "lz4+kryo5"] {
            assert_eq!(written(codec.parse().expect("a codec"), "x"), Err(codec));
        }
    }
}
