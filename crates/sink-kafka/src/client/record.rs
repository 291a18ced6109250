//! One element as one record. Pure.

use rdkafka::message::{Header, OwnedHeaders};

use delaybridge_sink::Outbound;
use delaybridge_sink::headers::{MARK, Standard};

/// Longest name that Kafka gives a topic.
const TOPIC_MAX: usize = 249;

/// Whether Kafka could have a topic of this name. The client would take any, and remember it for good.
pub(super) fn is_topic(name: &str) -> bool {
    let legal = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'.' | b'_' | b'-');
    (1..=TOPIC_MAX).contains(&name.len()) && name != "." && name != ".." && name.bytes().all(legal)
}

/// The record's key: the destination's, else that of a record that came by an input.
pub(super) fn key<'a>(message: &'a Outbound, of_destination: Option<&'a str>) -> Option<&'a [u8]> {
    let own = || message.carried.as_ref()?.key.as_deref();
    of_destination.map(str::as_bytes).or_else(own)
}

/// The record's headers: the standard ones, then the user's. No mark but its own: one that came by an input is another's.
pub(super) fn headers(message: &Outbound) -> OwnedHeaders {
    let mut headers = OwnedHeaders::new_with_capacity(5 + message.headers.len());
    for (key, value) in Standard::of(message).iter() {
        headers = headers.insert(Header { key, value: Some(value) });
    }
    if let Some(mark) = &message.mark {
        headers = headers.insert(Header { key: MARK, value: Some(mark.to_string().as_str()) });
    }
    for (key, value) in message.headers.iter().filter(|(key, _)| **key != *MARK) {
        headers = headers.insert(Header { key, value: Some(value.as_str()) });
    }
    let binary = message.carried.iter().flat_map(|carried| &carried.others);
    // Those that have a text are among the others.
    for (key, value) in binary.filter(|(key, _)| !message.headers.iter().any(|(known, _)| **known == **key)) {
        headers = headers.insert(Header { key, value: Some(&value[..]) });
    }
    headers
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
}
