//! Templates, envelopes and what each refuses.

use redisson_codecs::{Codec, Coding, decode};

use super::*;
use crate::config::Envelope;
use crate::message::Side;

const ID: MessageId = MessageId(*b"RANDOM8B");

fn element() -> ElementInfo<'static> {
    ElementInfo { id: ID, queue: "orders", due_ms: Some(1_700_000_000_123), attempt: 2 }
}

fn payload(codec: Codec, bytes: &'static str) -> Payload {
    decode(codec, &Bytes::from_static(bytes.as_bytes())).unwrap()
}

const ORDER: &str =
    r#"{"orderId":"A-7","n":12345678901234567890123,"vip":true,"none":null,"items":[{"sku":"x"},5],"a.b":1,"e":""}"#;

#[test]
fn a_template_fills_its_holes() {
    fn check(template: &str, expected: Result<&str, &str>) {
        let template = Template::compile(template).unwrap();
        let filled = template.fill(&element(), &payload(Codec::Json, ORDER));
        assert_eq!(filled.as_deref().map_err(|field| &**field), expected, "{template:?}");
    }
    check("plain", Ok("plain"));
    check("", Ok(""));
    check("a$b$$c$", Ok("a$b$$c$"));
    check("$${id}", Ok("${id}"));
    check("x$${id}${attempt}", Ok("x${id}2"));
    check("${id}", Ok("52414e444f4d3842"));
    check("${queue}/${due_ms}#${attempt}", Ok("orders/1700000000123#2"));
    check("o:${payload.orderId}:x", Ok("o:A-7:x"));
    check("${payload.n}", Ok("12345678901234567890123"));
    check("${payload.vip}", Ok("true"));
    check("${payload.items.0.sku}${payload.items.1}", Ok("x5"));
    check("${payload.e:-d}", Ok(""));
    check("${payload.none}", Err("payload.none"));
    check("${payload.none:-d}", Ok("d"));
    check("${payload.none:-}", Ok(""));
    check("${payload.gone:-a:-b}", Ok("a:-b"));
    check("${payload.items}", Err("payload.items"));
    check("${payload.items.01}", Err("payload.items.01"));
    check("${payload.items.9}", Err("payload.items.9"));
    check("${payload.orderId.x}", Err("payload.orderId.x"));
    check("${payload}", Err("payload"));
    check("grün ${payload.gone:-ü}", Ok("grün ü"));
}

#[test]
fn a_payload_that_is_a_scalar_fills_the_hole_by_itself() {
    fn check(payload: Payload, expected: Result<&str, &str>) {
        let filled = Template::compile("<${payload}>").unwrap().fill(&element(), &payload);
        assert_eq!(filled.as_deref().map_err(|field| &**field), expected);
    }
    check(payload(Codec::String, "text"), Ok("<text>"));
    check(payload(Codec::Json, "\"text\""), Ok("<text>"));
    check(payload(Codec::Json, "1.10"), Ok("<1.10>"));
    check(payload(Codec::Json, "null"), Err("payload"));
    check(payload(Codec::Raw, "text"), Err("payload"));
}

#[test]
fn a_text_that_is_no_template_is_refused() {
    fn check(text: &str, expected: &str) {
        assert_eq!(Template::compile(text).unwrap_err().to_string(), expected, "{text}");
    }
    check("ü${id", "`${` at character 2 has no closing `}`; a literal `${` is written `$${`");
    check(
        "${ident}",
        "`${ident}` is no field of an element: there are id, queue, due_ms, attempt, payload, payload.NAME",
    );
    check("${}", "`${}` is no field of an element: there are id, queue, due_ms, attempt, payload, payload.NAME");
    check("${payload.a..b}", "`${payload.a..b}` has an empty step in its path");
    check("${payload.}", "`${payload.}` has an empty step in its path");
}

#[test]
fn a_template_knows_what_it_needs() {
    fn check(text: &str, static_text: Option<&str>, uses_payload: bool, uses_path: bool) {
        let template = Template::compile(text).unwrap();
        assert_eq!(template.static_text(), static_text, "{text}");
        assert_eq!(template.is_static(), static_text.is_some(), "{text}");
        assert_eq!((template.uses_payload(), template.uses_payload_path()), (uses_payload, uses_path), "{text}");
        assert_eq!(template.source(), text);
    }
    check("a", Some("a"), false, false);
    check("$${id}", Some("${id}"), false, false);
    check("${id}", None, false, false);
    check("${payload}", None, true, false);
    check("${payload.a:-b}", None, true, true);
}

fn list(key: &str, envelope: Envelope) -> RouteSpec {
    let key = Template::compile(key).unwrap();
    let target = TargetSpec::RedisList { key, push: Side::Right, exactly_once: false };
    RouteSpec { sink: "s".into(), target, headers: Vec::new(), envelope }
}

#[test]
fn the_raw_envelope_shares_the_memory_of_payload_and_template() {
    let spec = list("ready", Envelope::Raw);
    let payload = payload(Codec::Json, ORDER);
    let first = route(&spec, &element(), &payload).unwrap();
    assert_eq!(first.body.as_ptr(), payload.bytes().as_ptr());
    let second = route(&spec, &element(), &payload).unwrap();
    let (Destination::RedisList { key: a, .. }, Destination::RedisList { key: b, .. }) =
        (first.destination, second.destination)
    else {
        panic!("not a list")
    };
    assert_eq!((a.as_ptr(), &a[..]), (b.as_ptr(), &b"ready"[..]));
}

#[test]
fn each_envelope_makes_its_body() {
    fn check(envelope: Envelope, payload: Payload, due_ms: Option<i64>, expected: &str) {
        let element = ElementInfo { due_ms, ..element() };
        let routed = route(&list("k", envelope), &element, &payload).unwrap();
        assert_eq!(std::str::from_utf8(&routed.body).unwrap(), expected);
    }
    let pretty = "{\n  \"a\": 1.10\r\n}\n";
    check(Envelope::Raw, payload(Codec::Json, pretty), None, pretty);
    check(Envelope::Decoded, payload(Codec::Json, pretty), None, pretty);
    check(Envelope::Decoded, payload(Codec::String, "text"), None, "text");
    check(
        Envelope::Json,
        payload(Codec::Json, pretty),
        Some(5),
        r#"{"id":"52414e444f4d3842","queue":"orders","due_ms":5,"attempt":2,"payload":{   "a": 1.10  }}"#,
    );
    check(
        Envelope::Json,
        payload(Codec::String, "a\"\n\u{1}"),
        None,
        r#"{"id":"52414e444f4d3842","queue":"orders","attempt":2,"payload":"a\"\n\u0001"}"#,
    );
    check(
        Envelope::Json,
        Payload::opaque(Bytes::from_static(b"\xff\x00")),
        None,
        r#"{"id":"52414e444f4d3842","queue":"orders","attempt":2,"payload_base64":"/wA="}"#,
    );
}

#[test]
fn a_value_that_is_not_its_bytes_goes_into_every_envelope() {
    fn check(codec: &str, bytes: &'static [u8], decoded: &[u8], in_json: &str, filled: Option<&str>) {
        let coding: Coding = codec.parse().unwrap();
        let payload = decode(coding, &Bytes::from_static(bytes)).unwrap();
        let body = |envelope| route(&list("k", envelope), &element(), &payload).unwrap().body;
        for envelope in [Envelope::Raw, Envelope::CloudEvents] {
            assert_eq!(body(envelope).as_ptr(), payload.bytes().as_ptr(), "{codec}");
        }
        assert_eq!(body(Envelope::Decoded), decoded, "{codec}");
        let head = r#"{"id":"52414e444f4d3842","queue":"orders","due_ms":1700000000123,"attempt":2,"#;
        assert_eq!(body(Envelope::Json), format!("{head}{in_json}}}"), "{codec}");
        assert_eq!(template("${payload}").fill(&element(), &payload).ok().as_deref(), filled, "{codec}");
    }
    check("kryo5", b"\x03a\"\xe2", b"a\"b", r#""payload":"a\"b""#, Some("a\"b"));
    check("kryo5", b"\x09\x0e", b"7", r#""payload":7"#, Some("7"));
    check("kryo5", b"\x01\x00[\xc2\x02\xff", b"\xff", r#""payload_base64":"/w==""#, None);
    check("cbor", b"\xa1aa\x81\x01", br#"{"a":[1]}"#, r#""payload":{"a":[1]}"#, None);
    check("lz4+raw", b"\x00\x00\x00\x01\x10\xff", b"\xff", r#""payload_base64":"/w==""#, None);
    check("lz4+json", b"\x00\x00\x00\x03\x301.0", b"1.0", r#""payload":1.0"#, Some("1.0"));
    check("jackson", b"\"x\"", b"x", r#""payload":"x""#, Some("x"));
    check("auto", b"\x03a\xe2", b"ab", r#""payload":"ab""#, Some("ab"));
}

#[test]
fn headers_are_filled_in_order() {
    let mut spec = list("k", Envelope::Raw);
    spec.target = TargetSpec::Stdout;
    spec.headers = [("b", "${payload.orderId}"), ("a", "x")]
        .map(|(name, text)| (name.into(), Template::compile(text).unwrap()))
        .to_vec();
    let routed = route(&spec, &element(), &payload(Codec::Json, ORDER)).unwrap();
    assert_eq!(routed.destination, Destination::Stdout);
    assert_eq!(routed.headers, [("b".into(), "A-7".to_owned()), ("a".into(), "x".to_owned())]);
}

#[test]
fn a_route_that_cannot_be_filled_names_the_field_and_not_the_value() {
    fn check(mut spec: RouteSpec, header: Option<&str>, code: &str, message: &str) {
        spec.headers.extend(header.map(|text| ("tenant".into(), Template::compile(text).unwrap())));
        let error = route(&spec, &element(), &payload(Codec::Json, ORDER)).unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (code, message));
    }
    check(
        list("o:${payload.items}", Envelope::Raw),
        None,
        "template_field_missing",
        "fill template of list: the element has no text, number or boolean `payload.items`; a default is written `${payload.items:-...}`",
    );
    check(
        list("k", Envelope::Raw),
        Some("${payload.tenant}"),
        "template_field_missing",
        "fill template of headers.tenant: the element has no text, number or boolean `payload.tenant`; a default is written `${payload.tenant:-...}`",
    );
    check(
        list("${payload.e}", Envelope::Raw),
        None,
        "template_result_empty",
        "fill template of list: the result is empty",
    );
}

fn template(text: &str) -> Template {
    Template::compile(text).unwrap()
}

#[test]
fn a_topic_and_its_key_are_filled() {
    fn check(topic: &str, key: Option<&str>, expected: Result<(&str, Option<&str>), &str>) {
        let target = TargetSpec::KafkaTopic { topic: template(topic), key: key.map(template) };
        let spec = RouteSpec { target, ..list("k", Envelope::Raw) };
        let routed = route(&spec, &element(), &payload(Codec::Json, ORDER));
        let expected = expected.map_err(str::to_owned).map(|(topic, key)| Destination::KafkaTopic {
            topic: topic.into(),
            key: key.map(|key| Bytes::copy_from_slice(key.as_bytes())),
        });
        assert_eq!(routed.map(|routed| routed.destination).map_err(|error| error.to_string()), expected);
    }
    check("t", None, Ok(("t", None)));
    check("o.${payload.orderId}", Some("${id}"), Ok(("o.A-7", Some("52414e444f4d3842"))));
    check("t", Some("${payload.e}"), Ok(("t", Some(""))));
    check("${payload.e}", None, Err("fill template of topic: the result is empty"));
    check("${payload.e:-x}.", None, Err("fill template of topic: `.` and `..` are no names of topics"));
    check("a ${id}", None, Err("fill template of topic: the topic's name has characters that it cannot have"));
    check(
        "t",
        Some("${payload.items}"),
        Err(
            "fill template of key: the element has no text, number or boolean `payload.items`; a default is written `${payload.items:-...}`",
        ),
    );
}

#[test]
fn an_exchange_a_routing_key_and_properties_are_filled() {
    fn check(exchange: &str, key: &str, properties: &[(AmqpProperty, &str)], expected: &str) {
        let properties = properties.iter().map(|(property, text)| (*property, template(text))).collect();
        let target = TargetSpec::AmqpExchange { exchange: template(exchange), routing_key: template(key), properties };
        let spec = RouteSpec { target, ..list("k", Envelope::Raw) };
        let got = match route(&spec, &element(), &payload(Codec::Json, ORDER)) {
            Ok(Routed { destination: Destination::AmqpExchange { exchange, routing_key, properties }, .. }) => {
                let properties = properties.iter().map(|(name, value)| format!(" {}={value}", name.as_str()));
                format!("{exchange}|{routing_key}{}", properties.collect::<String>())
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => format!("{} {error}", error.code()),
        };
        assert_eq!(got, expected);
    }
    check("", "q", &[], "|q");
    check("x.${payload.orderId}", "${queue}", &[], "x.A-7|orders");
    check("x", "", &[(AmqpProperty::Type, "due"), (AmqpProperty::Priority, "${attempt}")], "x| type=due priority=2");
    check(
        "x",
        "",
        &[(AmqpProperty::Priority, "${payload.orderId}")],
        "template_result_unfit fill template of properties.priority: the priority is not a number from 0 to 255",
    );
    check(
        "x",
        "",
        &[(AmqpProperty::Expiration, "${payload.vip}")],
        "template_result_unfit fill template of properties.expiration: the expiration is not a number of milliseconds",
    );
    check(
        "x",
        &"${id}".repeat(16),
        &[],
        "template_result_unfit fill template of routing_key: the text is longer than 255 bytes",
    );
}

#[test]
fn cloudevents_are_headers_in_front_of_the_users() {
    fn check(payload: Payload, due_ms: Option<i64>, expected: &[&str]) {
        let mut spec = list("k", Envelope::CloudEvents);
        spec.target =
            TargetSpec::AmqpExchange { exchange: template("x"), routing_key: template(""), properties: vec![] };
        spec.headers = vec![("tenant".into(), template("a"))];
        let routed = route(&spec, &ElementInfo { due_ms, ..element() }, &payload).unwrap();
        assert_eq!(routed.body.as_ptr(), payload.bytes().as_ptr());
        let headers: Vec<_> = routed.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let all = ["ce_specversion: 1.0", "ce_id: 52414e444f4d3842", "ce_source: /delaybridge/orders"];
        assert_eq!(headers, [&all[..], &["ce_type: delaybridge.element.due"], expected, &["tenant: a"]].concat());
        let media = expected.last().and_then(|line| line.strip_prefix("content-type: ")).unwrap().to_owned();
        let Destination::AmqpExchange { properties, .. } = routed.destination else { panic!("not an exchange") };
        assert_eq!(properties, [(AmqpProperty::ContentType, media)]);
    }
    let time = "ce_time: 2023-11-14T22:13:20.123Z";
    check(payload(Codec::Json, ORDER), Some(1_700_000_000_123), &[time, "content-type: application/json"]);
    check(payload(Codec::String, "x"), None, &["content-type: text/plain; charset=utf-8"]);
    check(payload(Codec::Raw, "x"), None, &["content-type: application/octet-stream"]);
    check(payload(Codec::Cbor, "a!"), None, &["content-type: application/cbor"]);
    check(payload(Codec::Kryo5, "\t\u{e}"), None, &["content-type: application/octet-stream"]);
}

#[test]
fn no_text_makes_the_compiler_panic() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let tokens = ["$", "{", "}", "${", "$${", "id", "payload", ".", ":-", "ü", "0", "x"];
    for _ in 0..20_000 {
        let text: String = (0..random.usize(..12)).map(|_| tokens[random.usize(..tokens.len())]).collect();
        if let Ok(template) = Template::compile(&text) {
            let _ = template.fill(&element(), &payload(Codec::Json, ORDER));
        }
    }
}
