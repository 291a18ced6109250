//! What is in an element, or in a payload.

use bytes::Bytes;
use redisson_codecs::{Classes, Codec, Coding, Confidence, DecodeError, JavaTypes, Payload};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::content;
use super::error::{Attempted, Error};
use super::session::Queue;
use delaybridge_core::message::{Identity, Origin};
use delaybridge_ledger::claims::Element;
use delaybridge_ledger::{Packed, Place, SearchStep, Shape, Show};

/// The way to read a payload.
#[derive(Debug, Clone, Copy, Default)]
pub struct DecodeOptions {
    /// The codec; else that of the queue unless it is `raw`, else it is guessed.
    pub codec: Option<Coding>,
    /// Leave the names of Java classes out.
    pub strip_types: bool,
}

/// A payload, and what was read in it.
#[derive(Debug, Clone, Serialize)]
pub struct DecodedPayload {
    /// The one element.
    pub elements: [DecodedElement; 1],
}

/// An element taken apart.
#[derive(Debug, Clone, Serialize)]
pub struct DecodedElement {
    /// `old`, `new`, `bare` or `junk`.
    pub layout: &'static str,
    /// The id, if there is one.
    pub id: Option<Identity>,
    /// Bytes of the payload.
    pub size: usize,
    /// The codec.
    pub codec: String,
    /// The confidence of the codec: `certain`, `likely` or `guess`; `given` or `configured`.
    pub sure: &'static str,
    /// The result of the codec.
    #[serde(flatten)]
    pub outcome: DecodeOutcome,
}

/// The result of a codec.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DecodeOutcome {
    /// A value.
    Value(Value),
    /// Bytes and nothing else.
    #[serde(rename = "value_base64", serialize_with = "as_base64")]
    Bytes(Bytes),
    /// Why it is refused.
    Error(String),
}

fn as_base64<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&content::base64(bytes))
}

/// Reads an element of Redisson in either layout, an entry of delaybridge, or a bare payload, with these classes of the
/// application.
pub fn decode(bytes: Bytes, options: DecodeOptions, classes: &Classes) -> DecodedPayload {
    take_apart(bytes).read(options, None, classes)
}

/// Reads the element of a queue with this id, or the one that falls due first.
///
/// # Errors
///
/// When there is none, and when Redis cannot be asked.
pub async fn decode_in(queue: &Queue, id: Option<&str>, options: DecodeOptions) -> Result<DecodedPayload, Error> {
    let what = format!("read an element of queue `{}`", queue.id());
    let missing = |thing: &str| {
        Error::not_found(format!("{what}: there is {thing}; `delaybridge peek {}` lists what is there", queue.id()))
    };
    let whole = match id {
        Some(id) => {
            let wanted = queue.identity(id)?;
            let mut search = queue.ledger.search_id(&wanted, None, None);
            loop {
                match search.step(&queue.conn).await.attempt(&what)? {
                    SearchStep::Found(located) => break take_apart(located.member),
                    SearchStep::Nowhere => return Err(missing(&format!("no element {id}"))),
                    SearchStep::GoOn => {}
                }
            }
        }
        None => {
            let page = queue.ledger.peek(&queue.conn, Place::Scheduled, 0, 1, Show::All).await.attempt(&what)?;
            let first = page.seen.into_iter().next().ok_or_else(|| missing("nothing scheduled"))?;
            WholePayload { shape: first.shape, id: first.id, payload: first.payload }
        }
    };
    Ok(whole.read(options, Some(queue.spec.codec), &queue.spec.classes))
}

/// Bytes, as far as they could be taken apart.
struct WholePayload {
    shape: Shape,
    id: Option<Identity>,
    payload: Bytes,
}

/// Returns an entry of ours, an element of a source, or else a payload.
fn take_apart(bytes: Bytes) -> WholePayload {
    let of = |packed: Packed| WholePayload { shape: packed.shape, id: packed.id, payload: packed.payload };
    let Some(entry) = Element::entry(bytes.clone(), 0) else {
        return delaybridge_source::recognise(&bytes)
            .map_or(WholePayload { shape: Shape::Bare, id: None, payload: bytes }, of);
    };
    let element = entry.bytes();
    match entry.origin() {
        Origin::Ready => WholePayload { shape: Shape::Bare, id: Some(entry.given_id().into()), payload: element },
        Origin::Delayed => match delaybridge_source::recognise(&element) {
            Some(packed) => of(packed),
            None => WholePayload {
                shape: Shape::Junk,
                id: Some(delaybridge_ledger::junk_id(&element).into()),
                payload: element,
            },
        },
    }
}

impl WholePayload {
    /// `configured` is the queue's codec; where it is `raw`, the codec is guessed all the same.
    fn read(self, options: DecodeOptions, configured: Option<Coding>, classes: &Classes) -> DecodedPayload {
        let typed = |coding: Coding| {
            if options.strip_types { Coding { java_types: JavaTypes::Strip, ..coding } } else { coding }
        };
        let configured = configured.filter(|coding| !coding.is_raw());
        let (coding, sure, value) = match (options.codec, configured) {
            (Some(coding), _) if coding.codec != Codec::Auto => self.with(typed(coding), classes, "given"),
            (None, Some(coding)) if coding.codec != Codec::Auto => self.with(typed(coding), classes, "configured"),
            (_, configured) => self.guess(typed(configured.unwrap_or(Codec::Auto.into())), classes),
        };
        let outcome = match value {
            Ok(payload) => match content::value(&payload) {
                Some(value) => DecodeOutcome::Value(value),
                None => DecodeOutcome::Bytes(payload.decoded().clone()),
            },
            Err(error) => DecodeOutcome::Error(error.to_string()),
        };
        let WholePayload { shape, id, payload } = self;
        let layout = shape.as_str();
        let size = payload.len();
        let codec = coding.as_str().to_owned();
        DecodedPayload { elements: [DecodedElement { layout, id, size, codec, sure, outcome }] }
    }

    fn with(&self, coding: Coding, classes: &Classes, sure: &'static str) -> Reading {
        (coding, sure, redisson_codecs::decode_with(coding, classes, &self.payload))
    }

    /// Guesses the codec. A payload that none recognises is bytes.
    fn guess(&self, settings: Coding, classes: &Classes) -> Reading {
        match redisson_codecs::guess_with(&self.payload, settings, classes) {
            Some(guess) => (guess.coding, guess.confidence.as_str(), guess.payload),
            None => self.with(Codec::Raw.into(), classes, Confidence::Guess.as_str()),
        }
    }
}

type Reading = (Coding, &'static str, Result<Payload, DecodeError>);

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_ledger::claims::Header;

    #[test]
    fn an_element_an_entry_and_a_payload_are_distinguished() {
        use delaybridge_source::redisson::layout::{Layout, pack};
        let id = delaybridge_core::message::MessageId(*b"RANDOM8B");
        let check = |bytes: Vec<u8>, layout: &str, id: Option<delaybridge_core::message::MessageId>| {
            let whole = take_apart(bytes.into());
            assert_eq!(
                (whole.shape.as_str(), whole.id.map(|id| id.id), &whole.payload[..]),
                (layout, id, &b"\x03ab\xe3"[..])
            );
        };
        let element = pack(Layout::New, id, b"\x03ab\xe3");
        let header = |origin| Header::redriven(origin, id, 5, vec![7]).encode();
        check(element.clone(), "new", Some(id));
        check(pack(Layout::Old, id, b"\x03ab\xe3"), "old", Some(id));
        check([header(Origin::Delayed), element].concat(), "new", Some(id));
        check([header(Origin::Ready), b"\x03ab\xe3".to_vec()].concat(), "bare", Some(id));
        check(b"\x03ab\xe3".to_vec(), "bare", None);
    }
}
