//! An element as a message of SQS or SNS: a text, ten attributes at most, and the ids of FIFO. Pure.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_64;

use crate::AwsDestination;
use crate::target::group_of_id;
use delaybridge_sink::Outbound;
use delaybridge_sink::headers::{Standard, is_standard};

/// The attribute that says how the body is to be read, if it is not the payload.
const ENCODING: &str = "delaybridge-encoding";
/// The attribute with the headers that are no attributes of their own.
const MORE: &str = "delaybridge-headers";
/// The body of an empty payload: a message has one character at least.
const EMPTY: &str = "-";
/// Maximum number of attributes of a message.
const MOST: usize = 10;
/// The longest id in the default of `deduplication_id`.
const LONGEST_ID: usize = 80;

/// A request before it is signed: the headers that are not of the connection, in lower case, and the body.
pub(crate) struct WireRequest {
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) body: Bytes,
}

/// An element in a request.
#[derive(Debug)]
pub(crate) struct WireMessage<'a> {
    pub(crate) body: Cow<'a, str>,
    pub(crate) attributes: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    pub(crate) group: Option<Cow<'a, str>>,
    pub(crate) deduplication: Option<Cow<'a, str>>,
}

impl<'a> WireMessage<'a> {
    pub(crate) fn of(message: &'a Outbound, destination: &'a AwsDestination) -> WireMessage<'a> {
        let (body, encoding) = encoded(&message.body);
        let mut all: Vec<(Cow<'a, str>, Cow<'a, str>)> =
            Standard::of(message).iter().map(|(name, value)| (name.into(), value.to_owned().into())).collect();
        all.extend(encoding.map(|encoding| (ENCODING.into(), encoding.into())));
        all.extend(message.headers.iter().map(|(name, value)| ((&**name).into(), value.as_str().into())));
        let group = destination.group.as_deref().map(Cow::Borrowed);
        let (group, deduplication) = if destination.is_fifo() {
            let own = destination.deduplication.as_deref().map(Cow::Borrowed);
            let group = group.unwrap_or_else(|| group_of_id(&message.id).into());
            (Some(group), Some(own.unwrap_or_else(|| deduplication_id(message, destination).into())))
        } else {
            (group, None)
        };
        WireMessage { body, attributes: attributes(all), group, deduplication }
    }

    /// Computes the most bytes that the message of an element has, whatever its destination: counted without making it.
    pub(crate) fn bound(message: &Outbound) -> usize {
        // A header that is no attribute is JSON in another one, where a character has six at most.
        let header = |name: &str, value: &str| 6 * (name.len() + value.len()) + 16;
        let standard = Standard::of(message).iter().map(|(name, value)| header(name, value)).sum::<usize>();
        let headers = message.headers.iter().map(|(name, value)| header(name, value)).sum::<usize>();
        // In base64, three bytes are four characters.
        message.body.len().div_ceil(3) * 4 + standard + headers + 128
    }

    /// Returns the bytes that the service counts.
    pub(crate) fn size(&self) -> usize {
        // The type of an attribute counts too.
        let attributes = self.attributes.iter().map(|(name, value)| name.len() + value.len() + "String".len());
        self.body.len() + attributes.sum::<usize>()
    }
}

/// Returns the text of a body, and how to read it where it is not the payload.
fn encoded(body: &[u8]) -> (Cow<'_, str>, Option<&'static str>) {
    match std::str::from_utf8(body) {
        Ok("") => (EMPTY.into(), Some("empty")),
        Ok(text) if text.chars().all(is_taken) => (text.into(), None),
        _ => (STANDARD.encode(body).into(), Some("base64")),
    }
}

/// Returns whether a message may have the character.
fn is_taken(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{FFFD}' | '\u{10000}'..)
}

/// Returns the headers as attributes; what does not fit is JSON in the last one.
fn attributes<'a>(all: Vec<(Cow<'a, str>, Cow<'a, str>)>) -> Vec<(Cow<'a, str>, Cow<'a, str>)> {
    let (mut own, mut more): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(name, value)| is_name(name) && !value.is_empty() && value.chars().all(is_taken));
    let room = if more.is_empty() && own.len() <= MOST { MOST } else { MOST - 1 };
    more.extend(own.drain(room.min(own.len())..));
    if !more.is_empty() {
        let more: Map<String, Value> =
            more.into_iter().map(|(name, value)| (name.into_owned(), value.into_owned().into())).collect();
        own.push((MORE.into(), json(more).into()));
    }
    own
}

/// Returns the text of an object. JSON has the two characters that a message may not have and that `serde_json` does
/// not escape.
fn json(object: Map<String, Value>) -> String {
    Value::from(object).to_string().replace('\u{FFFE}', "\\ufffe").replace('\u{FFFF}', "\\uffff")
}

/// Returns whether an attribute may have the name.
fn is_name(name: &str) -> bool {
    let lower = name.get(..7).unwrap_or(name).to_ascii_lowercase();
    let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    let dots = name.starts_with('.') || name.ends_with('.') || name.contains("..");
    letters && !dots && (1..=256).contains(&name.len()) && !lower.starts_with("aws.") && lower != "amazon."
}

/// Returns the text by which repeats are dropped: the same for each attempt, and for nothing else.
///
/// The element's id alone is not enough. Two routes into one queue, or an element and its dead letter, would be one
/// message. Two queues
/// may have the same ids of their own, and a producer may use one again for another due time within five minutes. So
/// the due time is in
/// it, and a hash of the queue, the destination and what a dead letter says of its cause.
fn deduplication_id(message: &Outbound, destination: &AwsDestination) -> String {
    let mut text = format!("{}\0{}", message.queue, destination.place).into_bytes();
    for (name, value) in message.headers.iter().filter(|(name, _)| is_standard(name)) {
        text.extend_from_slice(format!("\0{name}\0{value}").as_bytes());
    }
    let mut id = group_of_id(&message.id);
    let due_ms = message.due_ms.unwrap_or(0);
    if id.len() > LONGEST_ID {
        id = message.id.id.to_string();
    }
    format!("{id}-{due_ms}-{:016x}", xxh3_64(&text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AwsService;
    use crate::target::LONGEST_ID as LONGEST;
    use delaybridge_core::message::Identity;
    use delaybridge_testing::sink::{anywhere, outbound};

    fn to(place: &str) -> AwsDestination {
        AwsDestination { service: AwsService::Sqs, place: place.into(), group: None, deduplication: None }
    }

    #[test]
    fn no_message_is_larger_than_its_bound() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..2_000 {
            let length = random.usize(..400);
            let byte = random.u8(..);
            let mut message = outbound(random.u64(..), anywhere(), vec![byte; length]);
            let text = |random: &mut fastrand::Rng| {
                let letter = ["a", "\u{1}", "\"", "ü", " ", "\u{FFFE}"][random.usize(..6)];
                letter.repeat(random.usize(..40))
            };
            message.queue = text(&mut random).into();
            message.headers = (0..random.usize(..14)).map(|_| (text(&mut random).into(), text(&mut random))).collect();
            let size = WireMessage::of(&message, &to("q")).size();
            assert!(size <= WireMessage::bound(&message), "{size} bytes: {message:?}");
        }
        let empty = outbound(1, anywhere(), "");
        assert!(WireMessage::bound(&empty) < 2_000, "ten of them fit");
    }

    fn names(message: &WireMessage<'_>) -> Vec<String> {
        message.attributes.iter().map(|(name, _)| name.to_string()).collect()
    }

    #[test]
    fn a_payload_that_is_no_text_of_sqs_is_encoded() {
        let check = |body: &[u8], text: &str, encoding| assert_eq!(encoded(body), (text.into(), encoding), "{body:?}");
        check(b"{\"a\":1}\t\r\n", "{\"a\":1}\t\r\n", None);
        check("ü€😀".as_bytes(), "ü€😀", None);
        check(b"", "-", Some("empty"));
        check(b"\0", "AA==", Some("base64"));
        check(b"\x1b[0m", "G1swbQ==", Some("base64"));
        check("\u{FFFE}".as_bytes(), "77++", Some("base64"));
        check(b"\xff", "/w==", Some("base64"));
    }

    #[test]
    fn ten_attributes_are_their_own_and_more_are_json_in_the_last() {
        let mut message = outbound(1, anywhere(), "x");
        let destination = to("q");
        let header = |n: usize| (format!("h{n}").into(), n.to_string());
        message.headers = (0..6).map(header).collect();
        let ten = WireMessage::of(&message, &destination);
        assert_eq!((ten.attributes.len(), ten.attributes[9].0.as_ref()), (10, "h5"));
        message.headers = (0..8).map(header).collect();
        let more = WireMessage::of(&message, &destination);
        assert_eq!((more.attributes.len(), more.attributes[8].0.as_ref()), (10, "h4"));
        assert_eq!(more.attributes[9], (MORE.into(), r#"{"h5":"5","h6":"6","h7":"7"}"#.into()));
    }

    #[test]
    fn a_header_that_is_no_attribute_is_not_lost() {
        let mut message = outbound(1, anywhere(), "x");
        let bad = ["AWS.x", "amazon.y", "a b", ".a", "a.", "a..b", "ü", "awsome"];
        message.headers = bad.iter().map(|name| ((*name).into(), "v".to_owned())).collect();
        message.headers.push(("empty".into(), String::new()));
        message.headers.push(("control".into(), "\u{1}".to_owned()));
        message.headers.push(("\u{FFFE}".into(), "a\u{FFFF}".to_owned()));
        let destination = to("q");
        let wire = WireMessage::of(&message, &destination);
        let standard = ["delaybridge-id", "delaybridge-queue", "delaybridge-due-ms", "delaybridge-attempt"];
        assert_eq!(names(&wire), [&standard[..], &["awsome", MORE]].concat());
        let more: Value = serde_json::from_str(&wire.attributes[5].1).unwrap();
        assert_eq!(
            (more["ü"].as_str(), more["control"].as_str(), more["empty"].as_str()),
            (Some("v"), Some("\u{1}"), Some(""))
        );
        assert_eq!((more["\u{FFFE}"].as_str(), more.as_object().unwrap().len()), (Some("a\u{FFFF}"), 10));
        assert!(wire.attributes.iter().all(|(name, value)| name.chars().chain(value.chars()).all(is_taken)));
    }

    #[test]
    fn fifo_has_a_group_and_an_id_that_is_the_same_for_each_attempt_and_for_nothing_else() {
        let message = outbound(0xab, anywhere(), "x");
        let standard = to("q");
        let plain = WireMessage::of(&message, &standard);
        assert_eq!((plain.group, plain.deduplication), (None, None));
        let id = |message: &Outbound, place: &str| {
            let destination = to(place);
            let wire = WireMessage::of(message, &destination);
            (wire.group.unwrap().into_owned(), wire.deduplication.unwrap().into_owned())
        };
        let (group, first) = id(&message, "q.fifo");
        assert!(group == "00000000000000ab" && first.starts_with("00000000000000ab-1000-"), "{group} {first}");
        let again = Outbound { attempt: 7, now_ms: 9999, body: "other".into(), ..message.clone() };
        assert_eq!(id(&again, "q.fifo").1, first);
        let letter = Outbound { headers: vec![("delaybridge-dead-reason".into(), "x".to_owned())], ..message.clone() };
        let later = Outbound { due_ms: Some(2000), ..message.clone() };
        let other = Outbound { queue: "r".into(), ..message.clone() };
        for (message, place) in [(&letter, "q.fifo"), (&later, "q.fifo"), (&other, "q.fifo"), (&message, "r.fifo")] {
            assert_ne!(id(message, place).1, first);
        }
        let long = Outbound { id: Identity::named(&"x".repeat(256)).unwrap(), ..message.clone() };
        let (group, dedup) = id(&long, "q.fifo");
        assert!(group.len() <= LONGEST && dedup.len() <= LONGEST, "{group} {dedup}");
    }

    #[test]
    fn the_size_is_that_of_body_names_types_and_values() {
        let message = Outbound { due_ms: None, ..outbound(1, anywhere(), "body") };
        let destination = to("q");
        let wire = WireMessage::of(&message, &destination);
        let expected = 4
            + ("delaybridge-id".len() + 16 + 6)
            + ("delaybridge-queue".len() + 1 + 6)
            + ("delaybridge-attempt".len() + 1 + 6);
        assert_eq!(wire.size(), expected);
    }
}
