//! From a delivery of the broker to an arrival: headers, properties and the place that it was published to. Pure.

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, ShortString};

use delaybridge_core::carried::Carried;
use delaybridge_input::Arrival;

/// Headers that a broker changes at every delivery: with them, a message that comes again would look like another one.
const CHANGING: [&str; 2] = ["x-delivery-count", "x-acquired-count"];
/// The header with which a broker says when it took a message, if it is told to.
const TAKEN_AT: &str = "timestamp_in_ms";

/// The arrival that a delivery is.
pub(super) fn arrival(delivery: Delivery) -> Arrival {
    let Delivery { exchange, routing_key, properties, data, .. } = delivery;
    let origin = vec![
        ("exchange".to_owned(), exchange.as_str().to_owned()),
        ("routing_key".to_owned(), routing_key.as_str().to_owned()),
    ];
    let mut carried = Carried { origin, properties: texts(&properties), ..Carried::default() };
    for (name, value) in properties.headers().iter().flat_map(|table| table.inner()) {
        let name = name.as_str();
        if CHANGING.contains(&name) {
            continue;
        }
        let text = text(value);
        if !matches!(value, AMQPValue::LongString(_)) || text.is_none() {
            // Every value has a JSON form.
            carried.others.extend(serde_json::to_vec(value).map(|value| (name.to_owned(), Bytes::from(value))));
        }
        carried.headers.extend(text.map(|text| (name.to_owned(), text)));
    }
    let published_ms = carried.field(&format!("header.{TAKEN_AT}")).and_then(|text| text.parse().ok());
    let id = carried.property("message_id").filter(|id| !id.is_empty()).map(str::to_owned);
    Arrival { id, published_ms, ..Arrival::of(carried, data.into()) }
}

/// The properties that are there, as texts.
fn texts(properties: &BasicProperties) -> Vec<(String, String)> {
    let short = |text: &Option<ShortString>| text.as_ref().map(|text| text.as_str().to_owned());
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    let all = [
        ("content_type", short(properties.content_type())),
        ("content_encoding", short(properties.content_encoding())),
        ("priority", number(properties.priority().map(u64::from))),
        ("correlation_id", short(properties.correlation_id())),
        ("reply_to", short(properties.reply_to())),
        ("expiration", short(properties.expiration())),
        ("message_id", short(properties.message_id())),
        ("timestamp", number(*properties.timestamp())),
        ("type", short(properties.kind())),
        ("user_id", short(properties.user_id())),
        ("app_id", short(properties.app_id())),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// A header's value as text; `None` for one that has no plain text.
fn text(value: &AMQPValue) -> Option<String> {
    Some(match value {
        AMQPValue::LongString(text) => std::str::from_utf8(text.as_bytes()).ok()?.to_owned(),
        AMQPValue::ShortString(text) => text.as_str().to_owned(),
        AMQPValue::Boolean(flag) => flag.to_string(),
        AMQPValue::ShortShortInt(number) => number.to_string(),
        AMQPValue::ShortShortUInt(number) => number.to_string(),
        AMQPValue::ShortInt(number) => number.to_string(),
        AMQPValue::ShortUInt(number) => number.to_string(),
        AMQPValue::LongInt(number) => number.to_string(),
        AMQPValue::LongUInt(number) => number.to_string(),
        AMQPValue::LongLongInt(number) => number.to_string(),
        AMQPValue::Float(number) => number.to_string(),
        AMQPValue::Double(number) => number.to_string(),
        AMQPValue::Timestamp(seconds) => seconds.to_string(),
        AMQPValue::DecimalValue(_)
        | AMQPValue::FieldArray(_)
        | AMQPValue::FieldTable(_)
        | AMQPValue::ByteArray(_)
        | AMQPValue::Void => return None,
    })
}

#[cfg(test)]
mod tests {
    use lapin::types::{FieldArray, FieldTable};

    use super::*;

    fn with(properties: BasicProperties, headers: &[(&str, AMQPValue)]) -> Arrival {
        let mut table = FieldTable::default();
        for (name, value) in headers {
            table.insert((*name).into(), value.clone());
        }
        let delivery = Delivery::mock(1, "delayed".into(), "order.due".into(), true, b"body".to_vec());
        arrival(Delivery { properties: properties.with_headers(table), ..delivery })
    }

    fn long(text: &str) -> AMQPValue {
        AMQPValue::LongString(text.into())
    }

    #[test]
    fn what_is_for_the_input_is_taken_out_and_the_rest_is_kept() {
        let arrival = with(
            BasicProperties::default().with_message_id("m-1".into()).with_priority(7),
            &[
                ("x-delay", AMQPValue::LongInt(5000)),
                ("X-Delay-To", long("orders")),
                ("tenant", long("a")),
                ("n", AMQPValue::LongLongInt(7)),
                ("x-delivery-count", AMQPValue::LongInt(3)),
                ("x-death", AMQPValue::FieldArray(FieldArray::default())),
            ],
        );
        assert_eq!((arrival.id.as_deref(), arrival.delay.as_deref(), arrival.due), (Some("m-1"), Some("5000"), None));
        let Carried { to, headers, others, .. } = &arrival.carried;
        let names = |pairs: Vec<&str>| pairs.join(" ");
        assert_eq!(to.as_deref(), Some("orders"));
        assert_eq!(names(headers.iter().map(|(name, _)| name.as_str()).collect()), "n tenant");
        assert_eq!(names(others.iter().map(|(name, _)| name.as_str()).collect()), "n x-death");
        assert_eq!(arrival.carried.field("routing_key").as_deref(), Some("order.due"));
        assert_eq!(arrival.carried.property("priority"), Some("7"));
    }

    #[test]
    fn a_delay_that_is_no_text_is_there_and_means_nothing() {
        for (value, expected) in [
            (AMQPValue::ShortShortInt(-1), "-1"),
            (AMQPValue::Double(1.5), "1.5"),
            (long("soon"), "soon"),
            (AMQPValue::Boolean(true), "true"),
            (AMQPValue::Void, ""),
            (AMQPValue::FieldTable(FieldTable::default()), ""),
        ] {
            assert_eq!(with(BasicProperties::default(), &[("x-delay", value)]).delay.as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_message_that_comes_again_is_the_same_bytes() {
        let again = |count| {
            let headers = [("x-delivery-count", AMQPValue::LongInt(count)), ("a", long("b"))];
            let arrival = with(BasicProperties::default(), &headers);
            arrival.carried.pack(&arrival.body).unwrap()
        };
        assert_eq!(again(1), again(2));
    }
}
