//! The properties of a message: one text, with names and values between control characters.

use delaybridge_sink::Outbound;
use delaybridge_sink::headers::{IdText, Standard};

use crate::RocketMqDestination;

/// The ends of a name and of a value.
const NAME_END: char = '\u{1}';
const VALUE_END: char = '\u{2}';
/// Longest text of properties, in bytes: a broker adds its own, and keeps 32,767 together.
pub(super) const MAX_PROPERTIES: usize = 31_000;

/// Returns whether a text cannot be the name or the value of a property.
fn unfit_value(text: &str) -> bool {
    // Both are one byte, which is no part of another character.
    text.bytes().any(|byte| byte == NAME_END as u8 || byte == VALUE_END as u8)
}

/// Builds the properties of an element: tags, keys, sharding key, the standard headers, then the others.
pub(super) fn text(message: &Outbound, destination: &RocketMqDestination) -> Result<String, &'static str> {
    let id = IdText::of(&message.id);
    let standard = Standard::of(message);
    let own = [
        ("TAGS", destination.tags.as_deref()),
        ("KEYS", Some(destination.keys.as_deref().unwrap_or(id.as_str()))),
        ("__SHARDINGKEY", destination.sharding_key.as_deref()),
        // The broker answers when the message is as safe as it is set to make it.
        ("WAIT", Some("true")),
    ];
    let headers = message.headers.iter().map(|(name, value)| (&**name, value.as_str()));
    let mut text = String::with_capacity(256);
    let mut put = |name: &str, value: &str| {
        if unfit_value(name) || unfit_value(value) {
            return Err("a header, tag or key has a control character by which RocketMQ separates properties");
        }
        text.push_str(name);
        text.push(NAME_END);
        text.push_str(value);
        text.push(VALUE_END);
        Ok(())
    };
    for (name, value) in own {
        value.map_or(Ok(()), |value| put(name, value))?;
    }
    standard.iter().try_for_each(|(name, value)| put(name, value))?;
    for (name, value) in headers {
        put(name, value)?;
    }
    if text.len() <= MAX_PROPERTIES {
        Ok(text)
    } else {
        Err("headers, tags and keys are longer than 31,000 bytes together")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_testing::sink::{anywhere, outbound};

    fn destination() -> RocketMqDestination {
        RocketMqDestination { topic: "t".into(), tags: None, keys: None, sharding_key: None }
    }

    #[test]
    fn an_element_has_its_id_as_key_and_its_headers_as_properties() {
        let mut message = outbound(0xab, anywhere(), "x");
        message.headers = vec![("tenant".into(), "t 1".to_owned())];
        let expected = "KEYS\u{1}00000000000000ab\u{2}WAIT\u{1}true\u{2}delaybridge-id\u{1}00000000000000ab\u{2}\
             delaybridge-queue\u{1}q\u{2}delaybridge-due-ms\u{1}1000\u{2}delaybridge-attempt\u{1}1\u{2}tenant\u{1}t 1\u{2}";
        assert_eq!(text(&message, &destination()).unwrap(), expected);
        let full = RocketMqDestination {
            tags: Some("paid".into()),
            keys: Some("A-7".into()),
            sharding_key: Some("c".into()),
            ..destination()
        };
        let begin = "TAGS\u{1}paid\u{2}KEYS\u{1}A-7\u{2}__SHARDINGKEY\u{1}c\u{2}WAIT";
        assert!(text(&message, &full).unwrap().starts_with(begin));
    }

    #[test]
    fn what_no_message_can_carry_is_refused() {
        let mut message = outbound(1, anywhere(), "x");
        for (name, value) in [("a\u{1}b", "x"), ("a", "x\u{2}DELAY\u{1}18"), ("a", &*"x".repeat(31_000))] {
            message.headers = vec![(name.into(), value.to_owned())];
            assert!(text(&message, &destination()).is_err(), "{name}");
        }
    }
}
