//! One element as one record. Pure.

use std::collections::{HashMap, HashSet};

use rdkafka::message::{Header, OwnedHeaders};

use delaybridge_core::carried::{Carried, KafkaRecord};
use delaybridge_sink::Outbound;
use delaybridge_sink::headers::{MARK, Standard};

/// Longest name that Kafka gives a topic.
const TOPIC_MAX: usize = 249;

/// Returns whether Kafka could have a topic of this name. The client would take any, and remember it for good.
pub(super) fn is_topic(name: &str) -> bool {
    let legal = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'.' | b'_' | b'-');
    (1..=TOPIC_MAX).contains(&name.len()) && name != "." && name != ".." && name.bytes().all(legal)
}

/// Returns the record's key: the destination's, else that of a record that came by an input.
pub(super) fn key<'a>(message: &'a Outbound, of_destination: Option<&'a str>) -> Option<&'a [u8]> {
    let own = || message.carried.as_ref()?.key.as_deref();
    of_destination.map(str::as_bytes).or_else(own)
}

/// Returns the record's value: null for one that was null when it came by an input, unless an envelope is around it.
pub(super) fn value(message: &Outbound) -> Option<&[u8]> {
    let is_null = message.body.is_empty() && exact(message).is_some_and(|record| record.is_null);
    (!is_null).then_some(&message.body[..])
}

/// Returns the record that came by an input, if texts do not say all of it.
fn exact(message: &Outbound) -> Option<&KafkaRecord> {
    message.carried.as_ref()?.record.as_ref()
}

/// Returns the record's headers: the standard ones, then the user's. No mark but its own: one that came by an input is
/// another's.
pub(super) fn headers(message: &Outbound) -> OwnedHeaders {
    let mut headers = OwnedHeaders::new_with_capacity(5 + message.headers.len());
    for (key, value) in Standard::of(message).iter() {
        headers = headers.insert(Header { key, value: Some(value) });
    }
    if let Some(mark) = &message.mark {
        headers = headers.insert(Header { key: MARK, value: Some(mark.to_string().as_str()) });
    }
    let carried = message.carried.as_deref();
    let exact = carried.and_then(|carried| Some((carried, carried.record.as_ref()?)));
    let passing = exact.map(|(carried, record)| Passing::of(message, carried, record)).unwrap_or_default();
    let is_exact = |key: &str| passing.0.contains(key);
    for (key, value) in message.headers.iter().filter(|(key, _)| **key != *MARK && !is_exact(key)) {
        headers = headers.insert(Header { key, value: Some(value.as_str()) });
    }
    for (key, value) in exact.into_iter().flat_map(|(_, record)| &record.headers).filter(|(key, _)| is_exact(key)) {
        headers = headers.insert(Header { key, value: value.as_deref() });
    }
    let binary = carried.into_iter().flat_map(|carried| &carried.others).filter(|(key, _)| !is_exact(key));
    // Those that have a text are among the others.
    for (key, value) in binary.filter(|(key, _)| !message.headers.iter().any(|(known, _)| **known == **key)) {
        headers = headers.insert(Header { key, value: Some(&value[..]) });
    }
    headers
}

/// The names of headers that go on exactly as they came, in their order.
#[derive(Default)]
struct Passing<'a>(HashSet<&'a str>);

impl<'a> Passing<'a> {
    /// Selects the names that the message has from its record, and not from its route: with all of the record's texts,
    /// or with none if none of its values is a text.
    fn of(message: &Outbound, carried: &Carried, record: &'a KafkaRecord) -> Passing<'a> {
        let mut texts: HashMap<&str, [Vec<&str>; 2]> = HashMap::new();
        for (name, value) in &carried.headers {
            texts.entry(name).or_default()[0].push(value);
        }
        for (name, value) in &message.headers {
            texts.entry(name).or_default()[1].push(value);
        }
        let binary: HashSet<&str> = carried.others.iter().map(|(name, _)| name.as_str()).collect();
        let passes = |name: &&str| match texts.get(name) {
            Some([of_record, of_message]) => of_record == of_message,
            None => binary.contains(name),
        };
        Passing(
            record.headers.iter().map(|(name, _)| name.as_str()).filter(|name| *name != MARK).filter(passes).collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::message::Headers;

    use super::*;
    use delaybridge_sink::{AttemptId, DeliveryMark, Suspicion};
    use delaybridge_testing::sink::{anywhere, outbound};

    #[test]
    fn a_topic_that_kafka_cannot_have_is_known_before_it_is_asked_for() {
        let check = |name: &str, expected| assert_eq!(is_topic(name), expected, "{name:?}");
        check("orders", true);
        check("Orders.v2_dead-letters", true);
        check(&"x".repeat(249), true);
        check(&"x".repeat(250), false);
        check("", false);
        check(".", false);
        check("..", false);
        check("two words", false);
        check("a\0b", false);
        check("bestellungen-für", false);
        check("a/b", false);
    }

    #[test]
    fn the_users_headers_follow_the_standard_ones() {
        let own = |name: &str, value: &str| (name.into(), value.to_owned());
        let users = vec![own("tenant", "a"), own("empty", ""), own("delaybridge-mark", "another's")];
        let mark = DeliveryMark { element: 7, attempt: AttemptId(1), suspicion: Suspicion::Nothing, since_ms: 0 };
        let mark = Some(Box::new(mark));
        let message = delaybridge_sink::Outbound { headers: users, mark, ..outbound(1, anywhere(), "x") };
        let headers = headers(&message);
        let found: Vec<_> = headers
            .iter()
            .map(|h| (h.key.to_owned(), h.value.map(|v| String::from_utf8_lossy(v).into_owned())))
            .collect();
        let expected = [
            ("delaybridge-id", "0000000000000001"),
            ("delaybridge-queue", "q"),
            ("delaybridge-due-ms", "1000"),
            ("delaybridge-attempt", "1"),
            ("delaybridge-mark", "00000000000000000000000000000007.0000000000000001"),
            ("tenant", "a"),
            ("empty", ""),
        ];
        assert_eq!(found, expected.map(|(key, value)| (key.to_owned(), Some(value.to_owned()))));
    }

    /// Returns a message with these headers of its route, whose record had these; those that pass begin with `p`.
    fn of_record(of_route: &[(&str, &str)], given: &[(&str, Option<&[u8]>)]) -> delaybridge_sink::Outbound {
        let mut carried = Carried { record: Some(KafkaRecord::default()), ..Carried::default() };
        for (name, value) in given {
            let value = value.map(bytes::Bytes::copy_from_slice);
            carried.record.as_mut().unwrap().headers.push(((*name).to_owned(), value.clone()));
            match String::from_utf8(value.unwrap_or_default().into()) {
                Ok(text) => carried.headers.push(((*name).to_owned(), text)),
                Err(bytes) => carried.others.push(((*name).to_owned(), bytes.into_bytes().into())),
            }
        }
        let pair = |(name, value): &(&str, &str)| ((*name).into(), (*value).to_owned());
        let is_free = |name: &str| name.starts_with('p') && !of_route.iter().any(|(other, _)| *other == name);
        let own = carried.headers.iter().filter(|(name, _)| is_free(name));
        let own = own.map(|(name, value)| (name.as_str().into(), value.clone()));
        let headers = of_route.iter().map(pair).chain(own).collect();
        carried.others.retain(|(name, _)| is_free(name));
        delaybridge_sink::Outbound { headers, carried: Some(carried.into()), ..outbound(1, anywhere(), "x") }
    }

    #[test]
    fn headers_of_a_record_go_on_as_they_came() {
        let check = |of_route: &[(&str, &str)], given: &[(&str, Option<&[u8]>)], expected: &[(&str, Option<&[u8]>)]| {
            let headers = headers(&of_record(of_route, given));
            let found: Vec<_> =
                headers.iter().skip(4).map(|h| (h.key.to_owned(), h.value.map(<[u8]>::to_vec))).collect();
            let expected: Vec<_> =
                expected.iter().map(|(name, value)| ((*name).to_owned(), value.map(<[u8]>::to_vec))).collect();
            assert_eq!(found, expected);
        };
        let given: [(&str, Option<&[u8]>); 7] = [
            ("p-1", Some(b"a")),
            ("p-2", Some(b"\xff")),
            ("p-1", None),
            ("p-1", Some(b"\xfe")),
            ("p-3", None),
            ("dropped", None),
            ("p-1", Some(b"a")),
        ];
        let all = [given[0], given[1], given[2], given[3], given[4], given[6]];
        check(&[], &given, &all);
        // The route says something else about one, or about one whose values are no texts.
        check(&[("p-1", "route")], &given, &[("p-1", Some(b"route")), given[1], given[4]]);
        check(&[("p-2", "route")], &given, &[("p-2", Some(b"route")), all[0], all[2], all[3], all[4], all[5]]);
    }

    #[test]
    fn a_value_that_was_null_is_null_again() {
        let with = |body: &'static str, is_null| {
            let record = Some(KafkaRecord { is_null, ..KafkaRecord::default() });
            let carried = Some(Carried { record, ..Carried::default() }.into());
            delaybridge_sink::Outbound { carried, ..outbound(1, anywhere(), body) }
        };
        assert_eq!(value(&with("", true)), None);
        assert_eq!(value(&with("", false)), Some(&b""[..]));
        assert_eq!(value(&with("{}", true)), Some(&b"{}"[..]), "an envelope");
        assert_eq!(value(&outbound(1, anywhere(), "")), Some(&b""[..]));
    }
}
