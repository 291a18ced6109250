//! Turns an element into a publication: names, properties and headers, checked before a byte leaves.
//!
//! A message for which the broker would close the channel or the connection is refused here, so that it costs no
//! neighbour anything.

use lapin::BasicProperties;
use lapin::options::BasicPublishOptions;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};

use crate::{AmqpDestination, AmqpProperty, AmqpSpec, NAME, codes};
use delaybridge_core::carried::Carried;
use delaybridge_core::message::{About, Class, Failure};
use delaybridge_settings::words::Words as _;
use delaybridge_sink::headers::{self, Standard};
use delaybridge_sink::{Destination, Outbound};

/// A publication without its body.
#[derive(Debug)]
pub(super) struct Publication {
    pub(super) exchange: ShortString,
    pub(super) routing_key: ShortString,
    pub(super) options: BasicPublishOptions,
    /// Without a `message_id`.
    pub(super) properties: BasicProperties,
}

/// Returns the name of the attempt in messages to a person.
pub(super) fn attempt(destination: &Destination) -> String {
    format!("publish to {destination}")
}

/// Prepares a message; `frame_max` is what the broker takes in one frame, properties and headers together. An error is
/// one for ever.
pub(super) fn prepare(message: &Outbound, spec: &AmqpSpec, frame_max: u32) -> Result<Publication, Failure> {
    let AmqpDestination { exchange, routing_key, properties } = message.destination.of_kind(NAME)?;
    let attempt = attempt(&message.destination);
    let size = message.body.len() as u64;
    if size > spec.max_message_size {
        let text = format!("{attempt}: {size} bytes are more than the sink's `max_message_size`");
        return Err(codes::CONTENT_TOO_LARGE.failure(text));
    }
    let name = |what: &str, text: &str, about: About| {
        ShortString::try_new(text).map_err(|_| {
            let text = format!("{attempt}: its {what} has {} bytes, the protocol allows 255", text.len());
            Failure::new(Class::TargetPermanent, "bad_name", text).about(about)
        })
    };
    let mut fitting = BasicProperties::default().with_app_id("delaybridge".into());
    if spec.persistent {
        fitting = fitting.with_delivery_mode(2);
    }
    if let Some(due) = message.due_ms.and_then(|due| u64::try_from(due).ok()) {
        fitting = fitting.with_timestamp(due / 1000);
    }
    if let Some(carried) = &message.carried {
        fitting = carried_properties(fitting, carried);
    }
    for (property, value) in properties {
        fitting = set(fitting, *property, value).map_err(|why| {
            let text = format!("{attempt}: property {}: {why}", property.as_str());
            codes::BAD_PROPERTY.failure(text)
        })?;
    }
    let (table, bytes) = table(message).map_err(|(name, why)| {
        let text = format!("{attempt}: header {name}: {why}");
        codes::BAD_HEADER.failure(text)
    })?;
    // Twelve short strings and some numbers at most, beside the headers.
    if bytes + 4096 > frame_max as usize && bytes > 0 {
        let text =
            format!("{attempt}: its headers have {bytes} bytes, the broker takes {frame_max} with the properties");
        return Err(codes::HEADERS_TOO_LARGE.failure(text));
    }
    Ok(Publication {
        exchange: name("exchange", exchange, About::Target)?,
        routing_key: name("routing key", routing_key, About::Route)?,
        options: BasicPublishOptions { mandatory: spec.mandatory, immediate: false },
        properties: fitting.with_headers(table),
    })
}

fn set(to: BasicProperties, property: AmqpProperty, value: &str) -> Result<BasicProperties, String> {
    let short = || ShortString::try_new(value).map_err(|_| format!("{} bytes, the protocol allows 255", value.len()));
    Ok(match property {
        AmqpProperty::ContentType => to.with_content_type(short()?),
        AmqpProperty::ContentEncoding => to.with_content_encoding(short()?),
        AmqpProperty::CorrelationId => to.with_correlation_id(short()?),
        AmqpProperty::ReplyTo => to.with_reply_to(short()?),
        AmqpProperty::Type => to.with_type(short()?),
        AmqpProperty::Priority => {
            let priority = value.parse().map_err(|_| "not a whole number from 0 to 255".to_owned())?;
            to.with_priority(priority)
        }
        AmqpProperty::Expiration => {
            // The broker closes the channel over anything else.
            if value.parse::<u32>().is_err() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err("not a whole number of milliseconds".to_owned());
            }
            to.with_expiration(short()?)
        }
    })
}

/// Copies the properties of a message of an input, as far as the broker takes them from another user. What cannot be
/// set is left out: it came over the same protocol, or from one without such a property.
fn carried_properties(mut to: BasicProperties, carried: &Carried) -> BasicProperties {
    for (name, property) in AmqpProperty::VALUES {
        if let Some(value) = carried.property(name)
            && let Ok(changed) = set(to.clone(), *property, value)
        {
            to = changed;
        }
    }
    if let Some(app) = carried.property("app_id").and_then(|app| ShortString::try_new(app).ok()) {
        to = to.with_app_id(app);
    }
    if let Some(seconds) = carried.property("timestamp").and_then(|seconds| seconds.parse().ok()) {
        to = to.with_timestamp(seconds);
    }
    to
}

/// Builds the headers, and how many bytes they take on the wire.
fn table(message: &Outbound) -> Result<(FieldTable, usize), (String, String)> {
    let mut table = FieldTable::default();
    let mut bytes = 0;
    let standard = Standard::of(message);
    let own = message.headers.iter().map(|(name, value)| (&**name, value.as_str()));
    let standard = standard.iter().map(|(name, value)| -> (&str, &str) { (name, value) });
    for (name, value) in standard.chain(own) {
        bytes += name.len() + value.len() + 6;
        let Ok(key) = ShortString::try_new(name) else {
            return Err((name.to_owned(), "its name has more than 255 bytes".to_owned()));
        };
        table.insert(key, AMQPValue::LongString(LongString::from(value)));
    }
    let Some(carried) = &message.carried else { return Ok((table, bytes)) };
    if let Some(id) = carried.property("message_id") {
        bytes += headers::MESSAGE_ID.len() + id.len() + 6;
        table.insert(headers::MESSAGE_ID.into(), AMQPValue::LongString(LongString::from(id)));
    }
    for (name, value) in &carried.others {
        // A route with a header of this name has another text.
        let of_route = message.headers.iter().find(|(known, _)| **known == **name).map(|(_, text)| text);
        let own = carried.headers.iter().find(|(known, _)| known == name).map(|(_, text)| text);
        if of_route.is_some() && of_route != own {
            continue;
        }
        let Ok(key) = ShortString::try_new(name.as_str()) else { continue };
        let value = serde_json::from_slice(value).unwrap_or_else(|_| AMQPValue::LongString(value.to_vec().into()));
        bytes += entry_size(name, &value);
        table.insert(key, value);
    }
    Ok((table, bytes))
}

/// Returns the bytes that a header takes on the wire.
fn entry_size(name: &str, value: &AMQPValue) -> usize {
    1 + name.len() + value_size(value)
}

/// Returns the bytes of a value, with the letter of its type. It has no more levels than JSON allows.
fn value_size(value: &AMQPValue) -> usize {
    let size = match value {
        AMQPValue::Void => 0,
        AMQPValue::Boolean(_) | AMQPValue::ShortShortInt(_) | AMQPValue::ShortShortUInt(_) => 1,
        AMQPValue::ShortInt(_) | AMQPValue::ShortUInt(_) => 2,
        AMQPValue::LongInt(_) | AMQPValue::LongUInt(_) | AMQPValue::Float(_) => 4,
        AMQPValue::DecimalValue(_) => 5,
        AMQPValue::LongLongInt(_) | AMQPValue::Double(_) | AMQPValue::Timestamp(_) => 8,
        AMQPValue::ShortString(text) => 1 + text.as_str().len(),
        AMQPValue::LongString(text) => 4 + text.as_bytes().len(),
        AMQPValue::ByteArray(bytes) => 4 + bytes.as_slice().len(),
        AMQPValue::FieldArray(list) => 4 + list.as_slice().iter().map(value_size).sum::<usize>(),
        AMQPValue::FieldTable(table) => {
            4 + table.inner().iter().map(|(name, value)| entry_size(name.as_str(), value)).sum::<usize>()
        }
    };
    1 + size
}

#[cfg(test)]
mod tests;
