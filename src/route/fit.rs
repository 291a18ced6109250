//! What a topic, an exchange or a property may look like: asked of fixed texts when the configuration is read, and of
//! filled templates for every element, so that a sink never meets one that its protocol cannot carry.

use crate::message::AmqpProperty;

/// Longest name, key or property of AMQP, in bytes.
pub const AMQP_MAX: usize = 255;

/// What is wrong with the name of a Kafka topic; the brokers have the same rules.
pub fn topic(name: &str) -> Option<&'static str> {
    match name {
        "." | ".." => Some("`.` and `..` are no names of topics"),
        _ if name.len() > 249 => Some("the topic's name is longer than 249 characters"),
        _ if name.bytes().any(|byte| !byte.is_ascii_alphanumeric() && !b"._-".contains(&byte)) => {
            Some("the topic's name has characters that it cannot have")
        }
        _ => None,
    }
}

/// What is wrong with a name, a key or the text of a property in AMQP.
pub fn amqp_text(text: &str) -> Option<&'static str> {
    (text.len() > AMQP_MAX).then_some("the text is longer than 255 bytes")
}

/// What is wrong with the value of an AMQP property.
pub fn amqp_property(property: AmqpProperty, text: &str) -> Option<&'static str> {
    match property {
        AmqpProperty::Priority if text.parse::<u8>().is_err() => Some("the priority is not a number from 0 to 255"),
        AmqpProperty::Expiration if text.parse::<u32>().is_err() => {
            Some("the expiration is not a number of milliseconds")
        }
        _ => amqp_text(text),
    }
}
