//! What is published, and what is refused before anything is sent.

use super::*;
use crate::client::tests::rabbit::{destination, spec_on};
use delaybridge_testing::sink::{anywhere, outbound};

const FRAME: u32 = 128 << 10;

fn with(properties: &[(AmqpProperty, &str)]) -> Outbound {
    let properties = properties.iter().map(|(property, value)| (*property, (*value).to_owned())).collect();
    let to = AmqpDestination { exchange: "e".into(), routing_key: "k".into(), properties };
    outbound(0xabc, to.into(), "body")
}

#[test]
fn a_message_says_where_it_comes_from_and_when_it_was_due() {
    let mut message = with(&[(AmqpProperty::ContentType, "text/plain"), (AmqpProperty::Priority, "7")]);
    message.due_ms = Some(1_700_000_000_999);
    message.headers = vec![("tenant".into(), "t1".to_owned())];
    let made = prepare(&message, &spec_on(1), FRAME).unwrap();
    let expected = BasicProperties::default()
        .with_app_id("delaybridge".into())
        .with_delivery_mode(2)
        .with_timestamp(1_700_000_000)
        .with_content_type("text/plain".into())
        .with_priority(7);
    assert_eq!((made.exchange.as_str(), made.routing_key.as_str()), ("e", "k"));
    assert!(made.options.mandatory && !made.options.immediate);
    let headers = made.properties.headers().clone().unwrap();
    assert_eq!(made.properties, expected.with_headers(headers.clone()));
    let text = |name: &str| headers.inner().get(name).map(|value| value.as_long_string().unwrap().to_string());
    let names = ["delaybridge-id", "delaybridge-queue", "delaybridge-due-ms", "delaybridge-attempt", "tenant"];
    let values = ["0000000000000abc", "q", "1700000000999", "1", "t1"];
    for (name, value) in names.into_iter().zip(values) {
        assert_eq!(text(name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(headers.inner().len(), 5);
}

#[test]
fn what_was_configured_away_is_not_there() {
    let message = Outbound { due_ms: None, ..with(&[]) };
    let spec = AmqpSpec { persistent: false, mandatory: false, ..spec_on(1) };
    let made = prepare(&message, &spec, FRAME).unwrap();
    assert!(!made.options.mandatory);
    assert_eq!((made.properties.timestamp(), made.properties.delivery_mode()), (&None, &None));
    assert!(!made.properties.headers().as_ref().unwrap().inner().contains_key("delaybridge-due-ms"));
}

#[test]
fn every_property_takes_what_the_protocol_takes() {
    use AmqpProperty as P;
    let long = "x".repeat(256);
    let good = [
        (P::ContentType, "a/b"),
        (P::ContentEncoding, "gzip"),
        (P::Priority, "255"),
        (P::CorrelationId, "c"),
        (P::ReplyTo, "q"),
        (P::Expiration, "0"),
        (P::Type, "t"),
    ];
    let made = prepare(&with(&good), &spec_on(1), FRAME).unwrap().properties;
    let shown = (made.priority(), made.expiration(), made.kind());
    assert_eq!(shown, (&Some(255), &Some("0".into()), &Some("t".into())));
    let bad = [
        (P::ContentType, long.as_str()),
        (P::ContentEncoding, &long),
        (P::Priority, "256"),
        (P::Priority, "-1"),
        (P::Priority, "high"),
        (P::Priority, ""),
        (P::CorrelationId, &long),
        (P::ReplyTo, &long),
        (P::Expiration, "1s"),
        (P::Expiration, "-1"),
        (P::Expiration, "+1"),
        (P::Expiration, "99999999999"),
        (P::Type, &long),
    ];
    for (property, value) in bad {
        let failure = prepare(&with(&[(property, value)]), &spec_on(1), FRAME).unwrap_err();
        assert_eq!((failure.class, failure.code), (Class::MessagePermanent, "bad_property"), "{failure}");
        assert!(failure.message.contains(property.as_str()), "{failure}");
    }
}

#[test]
fn what_would_end_the_channel_or_the_connection_is_refused_here() {
    let long = "x".repeat(256);
    let body = Outbound { body: vec![0; 11].into(), ..with(&[]) };
    let header = |name: &str, value: &str| Outbound { headers: vec![(name.into(), value.to_owned())], ..with(&[]) };
    let spec = AmqpSpec { max_message_size: 10, ..spec_on(1) };
    use About::{Route, Sink, Target};
    let dead = Class::MessagePermanent;
    let hold = Class::TargetPermanent;
    let rows = [
        (body, dead, "CONTENT_TOO_LARGE", Sink),
        (header(&long, "v"), dead, "bad_header", Sink),
        (header("name", &"v".repeat(FRAME as usize)), dead, "HEADERS_TOO_LARGE", Sink),
        (outbound(1, destination(&long, "k"), "x"), hold, "bad_name", Target),
        (outbound(1, destination("e", &long), "x"), hold, "bad_name", Route),
        (outbound(1, anywhere(), "x"), hold, "wrong_destination", Sink),
    ];
    for (message, class, code, about) in rows {
        let failure = prepare(&message, &spec, FRAME).unwrap_err();
        assert_eq!((failure.class, failure.code, failure.about), (class, code, about), "{failure}");
    }
    assert!(prepare(&with(&[]), &spec, FRAME).is_ok());
}

#[test]
fn headers_that_an_input_kept_count_with_their_bytes_on_the_wire() {
    let numbers = |count: i32| AMQPValue::FieldArray((0..count).map(AMQPValue::LongInt).collect::<Vec<_>>().into());
    let with_list = |count| {
        let json = serde_json::to_vec(&numbers(count)).unwrap();
        let others = vec![("list".to_owned(), json.into())];
        Outbound { carried: Some(Carried { others, ..Carried::default() }.into()), ..with(&[]) }
    };
    // As JSON, 20,000 numbers have 360 kB.
    let made = prepare(&with_list(20_000), &spec_on(1), FRAME).unwrap();
    assert_eq!(made.properties.headers().as_ref().unwrap().inner()["list"], numbers(20_000));
    assert_eq!(prepare(&with_list(26_000), &spec_on(1), FRAME).unwrap_err().code, "HEADERS_TOO_LARGE");
    let mut table = FieldTable::default();
    table.insert("ab".into(), AMQPValue::Boolean(true));
    table.insert("c".into(), AMQPValue::LongString("ü".into()));
    // F, size | 2 ab t 1 | 1 c S, size, 2
    assert_eq!(value_size(&AMQPValue::FieldTable(table)), 5 + 5 + 9);
}
