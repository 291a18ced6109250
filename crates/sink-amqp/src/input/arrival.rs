//! From a delivery of the broker to an arrival: headers, properties and the place that it was published to. Pure.

use bytes::Bytes;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, DecimalValue, FieldTable, ShortString};
use lapin::{Acker, BasicProperties};

use crate::wire::{TOO_LARGE, UNREADABLE};
use delaybridge_core::carried::{self, Carried};
use delaybridge_core::clock;
use delaybridge_input::Arrival;

/// Headers that a broker changes at every delivery: with them, a message that comes again would look like another one.
const CHANGING: [&str; 2] = ["x-delivery-count", "x-acquired-count"];
/// The header with which a broker says when it took a message, if it is told to.
const TAKEN_AT: &str = "timestamp_in_ms";

/// The list of the queues that have rejected a message, or let it expire, with the number of times.
const DEATHS: &str = "x-death";

/// A message that was taken, and not settled yet.
pub(super) struct Taken {
    pub(super) acker: Acker,
    pub(super) arrival: Arrival,
    /// Number of times that it was rejected from this queue before, and came back.
    pub(super) rounds: u64,
}

impl Taken {
    pub(super) fn of(delivery: Delivery, queue: &str) -> Taken {
        let headers = delivery.properties.headers().as_ref();
        let rounds = headers.map_or(0, |headers| rounds(headers, queue));
        Taken { acker: delivery.acker.clone(), arrival: arrival(delivery), rounds }
    }
}

/// Returns how often a message was rejected from a queue, by its headers.
fn rounds(headers: &FieldTable, queue: &str) -> u64 {
    let Some(AMQPValue::FieldArray(deaths)) = headers.inner().get(DEATHS) else { return 0 };
    let count = |death: &AMQPValue| {
        let AMQPValue::FieldTable(death) = death else { return None };
        let field = |name: &str| death.inner().get(name).and_then(text);
        let is_ours = field("queue")? == queue && field("reason")? == "rejected";
        is_ours.then(|| field("count")?.parse().ok()).flatten()
    };
    deaths.as_slice().iter().filter_map(count).max().unwrap_or(0)
}

fn arrival(delivery: Delivery) -> Arrival {
    let Delivery { exchange, routing_key, redelivered, properties, data, .. } = delivery;
    let origin = vec![
        ("exchange".to_owned(), exchange.as_str().to_owned()),
        ("routing_key".to_owned(), routing_key.as_str().to_owned()),
    ];
    let mut carried = Carried { origin, properties: texts(&properties), ..Carried::default() };
    let mut is_partial = false;
    let mut is_too_large = false;
    for (name, value) in properties.headers().iter().flat_map(|table| table.inner()) {
        let name = name.as_str();
        if CHANGING.contains(&name) {
            continue;
        }
        if name == TOO_LARGE {
            is_too_large = true;
            continue;
        }
        is_partial |= name == UNREADABLE || !is_finite(value);
        let text = match value {
            // In a header for the input: a point in time, and never a number of milliseconds.
            AMQPValue::Timestamp(seconds) if is_time_header(name) => Some(date(*seconds)),
            _ => text(value),
        };
        if !matches!(value, AMQPValue::LongString(_)) || text.is_none() {
            // Every value that is left has a JSON form.
            carried.others.extend(serde_json::to_vec(value).map(|value| (name.to_owned(), Bytes::from(value))));
        }
        carried.headers.extend(text.map(|text| (name.to_owned(), text)));
    }
    let published_ms = carried.field(&format!("header.{TAKEN_AT}")).and_then(|text| text.parse().ok());
    let id = carried.property("message_id").filter(|id| !id.is_empty()).map(str::to_owned);
    Arrival {
        id,
        published_ms,
        is_partial,
        is_too_large,
        is_redelivered: redelivered,
        ..Arrival::of(carried, data.into())
    }
}

fn is_time_header(name: &str) -> bool {
    [carried::DELAY, carried::DUE].iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Returns a timestamp of AMQP, which counts seconds since 1970, as a date.
fn date(seconds: u64) -> String {
    clock::utc(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000))
}

/// Returns the properties that are there, as texts.
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

/// Returns whether all numbers in a value have a JSON form. It has no more levels than `wire` lets through.
fn is_finite(value: &AMQPValue) -> bool {
    match value {
        AMQPValue::Float(number) => number.is_finite(),
        AMQPValue::Double(number) => number.is_finite(),
        AMQPValue::FieldArray(list) => list.as_slice().iter().all(is_finite),
        AMQPValue::FieldTable(table) => table.inner().values().all(is_finite),
        _ => true,
    }
}

/// Returns a header's value as text; `None` for one that has no plain text.
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
        AMQPValue::DecimalValue(number) => decimal(*number),
        AMQPValue::FieldArray(_) | AMQPValue::FieldTable(_) | AMQPValue::ByteArray(_) | AMQPValue::Void => return None,
    })
}

/// Returns a decimal number of AMQP: an integer, and the number of its digits that are behind the point.
fn decimal(DecimalValue { scale, value }: DecimalValue) -> String {
    let scale = usize::from(scale);
    let digits = format!("{value:0>width$}", width = scale + 1);
    match digits.split_at(digits.len() - scale) {
        (whole, "") => whole.to_owned(),
        (whole, fraction) => format!("{whole}.{fraction}"),
    }
}

#[cfg(test)]
mod tests {
    use lapin::types::FieldArray;

    use super::*;
    use crate::wire::DEEPEST;

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
    fn a_delay_may_be_a_decimal_number_with_its_scale() {
        for (scale, value, expected) in [(0, 5000, "5000"), (2, 500_025, "5000.25"), (3, 7, "0.007"), (1, 0, "0.0")] {
            let value = AMQPValue::DecimalValue(DecimalValue { scale, value });
            let arrival = with(BasicProperties::default(), &[("x-delay", value.clone()), ("n", value.clone())]);
            assert_eq!(arrival.delay.as_deref(), Some(expected));
            // One that is carried keeps its type.
            assert_eq!(serde_json::from_slice::<AMQPValue>(&arrival.carried.others[0].1).unwrap(), value);
        }
    }

    #[test]
    fn a_timestamp_counts_seconds_and_is_no_delay() {
        let time = AMQPValue::Timestamp(1_800_000_005);
        let headers = [("X-Due", time.clone()), ("x-delay", time.clone()), ("n", time)];
        let arrival = with(BasicProperties::default(), &headers);
        assert_eq!(arrival.due.as_deref(), Some("2027-01-15T08:00:05Z"));
        assert_eq!(arrival.delay.as_deref(), Some("2027-01-15T08:00:05Z"));
        assert_eq!(arrival.carried.headers, [("n".to_owned(), "1800000005".to_owned())]);
        let far = with(BasicProperties::default(), &[("x-due", AMQPValue::Timestamp(1_800_000_005_000))]);
        assert_eq!(far.due.as_deref(), Some("1800000005000000 ms"));
    }

    #[test]
    fn the_rounds_of_a_message_are_those_that_this_queue_rejected() {
        let death = |queue: &str, reason: &str, count| {
            let mut table = FieldTable::default();
            table.insert("queue".into(), long(queue));
            table.insert("reason".into(), long(reason));
            table.insert("count".into(), AMQPValue::LongLongInt(count));
            AMQPValue::FieldTable(table)
        };
        let rounds = |deaths: Vec<AMQPValue>| {
            let mut table = FieldTable::default();
            table.insert(DEATHS.into(), AMQPValue::FieldArray(deaths.into()));
            rounds(&table, "delay-in")
        };
        assert_eq!(rounds(vec![]), 0);
        assert_eq!(rounds(vec![death("retry", "expired", 12), death("delay-in", "rejected", 11)]), 11);
        assert_eq!(rounds(vec![death("other", "rejected", 12), death("delay-in", "maxlen", 12)]), 0);
        assert_eq!(rounds(vec![death("delay-in", "rejected", -1), AMQPValue::Void, long("x")]), 0);
    }

    #[test]
    fn what_cannot_be_kept_as_it_is_makes_the_message_a_partial_one() {
        let partial = |name, value| with(BasicProperties::default(), &[(name, value)]).is_partial;
        let mut inner = FieldTable::default();
        inner.insert("n".into(), AMQPValue::Float(f32::INFINITY));
        assert!(partial(UNREADABLE, AMQPValue::Void));
        assert!(partial("n", AMQPValue::Double(f64::NAN)));
        assert!(partial("n", AMQPValue::FieldArray(vec![AMQPValue::FieldTable(inner)].into())));
        assert!(!partial("n", AMQPValue::Double(-0.0)));
        assert!(!partial("n", AMQPValue::Void));
    }

    /// A job that a sink could not read would be delivered with other headers.
    #[test]
    fn the_deepest_value_that_is_read_comes_back_from_its_job() {
        let deep = (0..DEEPEST).fold(AMQPValue::LongInt(7), |value, level| match level % 2 {
            0 => AMQPValue::FieldArray(vec![value].into()),
            _ => {
                let mut table = FieldTable::default();
                table.insert("n".into(), value);
                AMQPValue::FieldTable(table)
            }
        });
        let arrival = with(BasicProperties::default(), &[("deep", deep.clone())]);
        assert_eq!(serde_json::from_slice::<AMQPValue>(&arrival.carried.others[0].1).unwrap(), deep);
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
