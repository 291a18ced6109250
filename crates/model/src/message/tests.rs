//! Templates, envelopes and what each refuses.

use redisson_codecs::{Codec, Coding, DecodeError, JavaTypes};

use super::*;
use delaybridge_core::message::{Identity, MessageId};

const ID: Identity = Identity { id: MessageId(*b"RANDOM8B"), text: None };

fn element() -> ElementInfo<'static> {
    ElementInfo { id: &ID, queue: "orders", due_ms: Some(1_700_000_000_123), attempt: 2, topic: None, carried: None }
}

fn decode(coding: impl Into<Coding>, bytes: &Bytes) -> Result<Payload, DecodeError> {
    redisson_codecs::decode(coding, bytes).map(Payload)
}

fn payload(codec: Codec, bytes: &'static str) -> Payload {
    decode(codec, &Bytes::from_static(bytes.as_bytes())).unwrap()
}

const ORDER: &str =
    r#"{"orderId":"A-7","n":12345678901234567890123,"vip":true,"none":null,"items":[{"sku":"x"},5],"a.b":1,"e":""}"#;

/// The text, or the field that the element lacks.
fn fill<'a>(template: &Template, payload: &Payload) -> Result<String, &'a str> {
    Filler::new(&element(), payload, None).text(template, &"x").map_err(|error| match error {
        FillError::MissingField { field, .. } => &*String::leak(field.to_string()),
        other => panic!("{other}"),
    })
}

#[test]
fn a_template_fills_its_holes() {
    fn check(template: &str, expected: Result<&str, &str>) {
        let template = Template::compile(template).unwrap();
        assert_eq!(fill(&template, &payload(Codec::Json, ORDER)), expected.map(str::to_owned), "{template:?}");
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
        let template = Template::compile("<${payload}>").unwrap();
        assert_eq!(fill(&template, &payload), expected.map(str::to_owned));
    }
    check(payload(Codec::String, "text"), Ok("<text>"));
    check(payload(Codec::Json, "\"text\""), Ok("<text>"));
    check(payload(Codec::Json, "1.10"), Ok("<1.10>"));
    check(payload(Codec::Json, "null"), Err("payload"));
    check(payload(Codec::Raw, "text"), Err("payload"));
}

/// `offer(objectMapper.writeValueAsString(x))`: without `json_in_text` there is no field in it, and the error says why.
#[test]
fn json_in_a_text_has_fields_where_it_is_looked_into() {
    let bytes = Bytes::from_static(b"\x03{\"id\":7,\"k\":\"v\",\"n\":[1]\xfd");
    let text = decode(Codec::Kryo5, &bytes).unwrap();
    let json = decode(Coding { json_in_text: true, ..Codec::Kryo5.into() }, &bytes).unwrap();
    let key = Template::compile("${payload.k}").unwrap();
    assert_eq!(fill(&key, &json), Ok("v".to_owned()));
    assert_eq!(fill(&key, &text), Err("payload.k"));
    let body = |envelope, payload| {
        let body = spec(envelope).message(&element(), payload).unwrap().body;
        String::from_utf8(body.to_vec()).unwrap()
    };
    assert_eq!(body(Envelope::Decoded, &json), r#"{"id":7,"k":"v","n":[1]}"#);
    assert!(body(Envelope::Json, &json).ends_with(r#""payload":{"id":7,"k":"v","n":[1]}}"#));
    assert!(body(Envelope::Json, &text).ends_with(r#""payload":"{\"id\":7,\"k\":\"v\",\"n\":[1]}"}"#));
    assert_eq!(spec(Envelope::Raw).message(&element(), &json).unwrap().body, bytes);
    let event = spec(event(EventMode::Binary, EventData::Decoded));
    assert_eq!(event.filler(&element(), &json).content_type(), Some("application/json"));

    let error = |template: &str, payload: &Payload| {
        let template = Template::compile(template).unwrap();
        Filler::new(&element(), payload, None).text(&template, &"key").unwrap_err().to_string()
    };
    let expected = "fill template of key: the element has no text, number or boolean `payload.k`; the payload is a text that is \
                    JSON: with `json_in_text: true` the queue looks into it";
    assert_eq!(error("${payload.k}", &text), expected);
    let quoted = payload(Codec::Json, r#" " {\"k\":1} " "#);
    assert_eq!(error("${payload.k}", &quoted), expected);
    for other in [payload(Codec::String, "{k:1}"), payload(Codec::String, "7"), payload(Codec::Json, "{}"), json] {
        assert!(error("${payload.gone}", &other).ends_with("a default is written `${payload.gone:-...}`"), "{other:?}");
    }
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
        assert_eq!((template.uses_payload(), template.uses_payload_path()), (uses_payload, uses_path), "{text}");
        assert_eq!(template.source(), text);
    }
    check("a", Some("a"), false, false);
    check("$${id}", Some("${id}"), false, false);
    check("${id}", None, false, false);
    check("${payload}", None, true, false);
    check("${payload.a:-b}", None, true, true);
}

fn spec(envelope: Envelope) -> MessageSpec {
    MessageSpec { headers: Box::default(), envelope }
}

#[test]
fn the_raw_envelope_shares_the_memory_of_the_payload() {
    let payload = payload(Codec::Json, ORDER);
    let message = spec(Envelope::Raw).message(&element(), &payload).unwrap();
    assert_eq!(message.body.as_ptr(), payload.bytes().as_ptr());
}

#[test]
fn each_envelope_makes_its_body() {
    fn check(envelope: Envelope, payload: Payload, due_ms: Option<i64>, expected: &str) {
        let element = ElementInfo { due_ms, ..element() };
        let routed = spec(envelope).message(&element, &payload).unwrap();
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
        let body = |envelope| spec(envelope).message(&element(), &payload).unwrap().body;
        for envelope in [Envelope::Raw, event(EventMode::Binary, EventData::Raw)] {
            assert_eq!(body(envelope).as_ptr(), payload.bytes().as_ptr(), "{codec}");
        }
        for envelope in [Envelope::Decoded, event(EventMode::Binary, EventData::Decoded)] {
            assert_eq!(body(envelope), decoded, "{codec}");
        }
        let head = r#"{"id":"52414e444f4d3842","queue":"orders","due_ms":1700000000123,"attempt":2,"#;
        assert_eq!(body(Envelope::Json), format!("{head}{in_json}}}"), "{codec}");
        assert_eq!(fill(&template("${payload}"), &payload).ok().as_deref(), filled, "{codec}");
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
    let mut spec = spec(Envelope::Raw);
    spec.headers = [("b", "${payload.orderId}"), ("a", "x")]
        .map(|(name, text)| (name.into(), Template::compile(text).unwrap()))
        .into();
    let message = spec.message(&element(), &payload(Codec::Json, ORDER)).unwrap();
    assert_eq!(message.headers, [("b".into(), "A-7".to_owned()), ("a".into(), "x".to_owned())]);
}

#[test]
fn a_header_that_cannot_be_filled_names_the_field_and_not_the_value() {
    let mut spec = spec(Envelope::Raw);
    spec.headers = [spec.headers.into_vec(), vec![("tenant".into(), template("${payload.tenant}"))]].concat().into();
    let error = spec.message(&element(), &payload(Codec::Json, ORDER)).unwrap_err();
    let message = "fill template of headers.tenant: the element has no text, number or boolean `payload.tenant`; a default is written `${payload.tenant:-...}`";
    assert_eq!((error.code(), error.to_string().as_str()), ("template_field_missing", message));
}

fn template(text: &str) -> Template {
    Template::compile(text).unwrap()
}

fn event_with(mode: EventMode, data: EventData, texts: [&str; 3]) -> Envelope {
    let [kind, source, subject] = texts.map(template);
    let subject = Some(subject).filter(|subject| !subject.source().is_empty());
    Envelope::CloudEvents(Arc::new(EventSpec { mode, data, kind, source, subject }))
}

fn event(mode: EventMode, data: EventData) -> Envelope {
    event_with(mode, data, [EVENT_TYPE, EVENT_SOURCE, ""])
}

#[test]
fn a_structured_event_is_one_json_object() {
    fn check(payload: Payload, due_ms: Option<i64>, texts: [&str; 3], expected: &str) {
        let spec = spec(event_with(EventMode::Structured, EventData::Decoded, texts));
        let element = ElementInfo { due_ms, ..element() };
        let message = spec.message(&element, &payload).unwrap();
        assert_eq!(std::str::from_utf8(&message.body).unwrap(), expected);
        let content_type = "application/cloudevents+json; charset=utf-8";
        assert_eq!(message.headers, [("content-type".into(), content_type.to_owned())]);
        assert_eq!(spec.filler(&element, &payload).content_type(), Some(content_type));
    }
    let head = r#"{"specversion":"1.0","id":"52414e444f4d3842","#;
    check(
        payload(Codec::Json, "{\"a\":\n1.10}"),
        Some(1_700_000_000_123),
        ["order.due", "/shop/${queue}", "${payload.a}\""],
        &format!(
            r#"{head}"source":"/shop/orders","type":"order.due","subject":"1.10\"","time":"2023-11-14T22:13:20.123Z","datacontenttype":"application/json","data":{{"a": 1.10}}}}"#
        ),
    );
    let rest = r#""source":"/delaybridge/orders","type":"delaybridge.element.due","datacontenttype":"#;
    let of = |value: &str| format!("{head}{rest}{value}}}");
    let texts = [EVENT_TYPE, EVENT_SOURCE, ""];
    check(payload(Codec::String, "x"), None, texts, &of(r#""text/plain; charset=utf-8","data":"x""#));
    let bytes = Payload::opaque(Bytes::from_static(b"\xff\x00"));
    check(bytes, None, texts, &of(r#""application/octet-stream","data_base64":"/wA=""#));
    let long = decode(Codec::Jackson, &Bytes::from_static(br#"["java.lang.Long",7]"#)).unwrap();
    check(long, None, texts, &of(r#""application/json","data":["java.lang.Long",7]"#));
}

#[test]
fn attributes_are_filled_from_the_element() {
    let headers = |texts| {
        let spec = spec(event_with(EventMode::Binary, EventData::Decoded, texts));
        let message = spec.message(&element(), &payload(Codec::Json, ORDER));
        message.map(|message| message.headers.into_iter().map(|(name, value)| format!("{name}: {value}")).collect())
    };
    let found: Vec<String> = headers(["order.${payload.vip}", "/${queue}", "${payload.orderId}"]).unwrap();
    assert_eq!(found[2..5], ["ce_source: /orders", "ce_type: order.true", "ce_subject: A-7"]);
    let found = headers(["a", "b", "${payload.gone:-}"]).unwrap();
    assert!(!found.iter().any(|line| line.starts_with("ce_subject")), "{found:?}");
    let code = |texts| headers(texts).unwrap_err().code();
    assert_eq!(code(["${payload.e}", "b", ""]), "template_result_empty");
    assert_eq!(code(["a", "${payload.gone}", ""]), "template_field_missing");
}

#[test]
fn java_types_are_stripped_from_the_data() {
    let coding = Coding { java_types: JavaTypes::Strip, ..Codec::Jackson.into() };
    let bytes = Bytes::from_static(br#"{"@class":"com.example.Order","id":["java.lang.Long",7]}"#);
    let payload = decode(coding, &bytes).unwrap();
    let binary = spec(event(EventMode::Binary, EventData::Decoded)).message(&element(), &payload).unwrap();
    assert_eq!(binary.body, r#"{"id":7}"#);
    let media = binary.headers.last().map(|(name, value)| (&**name, value.as_str()));
    assert_eq!(media, Some(("content-type", "application/json")));
    let structured = spec(event(EventMode::Structured, EventData::Decoded)).message(&element(), &payload).unwrap();
    assert!(structured.body.ends_with(br#""data":{"id":7}}"#), "{structured:?}");
}

#[test]
fn cloudevents_are_headers_in_front_of_the_users() {
    fn check(payload: Payload, due_ms: Option<i64>, expected: &[&str]) {
        let mut spec = spec(event(EventMode::Binary, EventData::Raw));
        spec.headers = [("tenant".into(), template("a"))].into();
        let element = ElementInfo { due_ms, ..element() };
        let routed = spec.message(&element, &payload).unwrap();
        assert_eq!(routed.body.as_ptr(), payload.bytes().as_ptr());
        let headers: Vec<_> = routed.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let all = ["ce_specversion: 1.0", "ce_id: 52414e444f4d3842", "ce_source: /delaybridge/orders"];
        assert_eq!(headers, [&all[..], &["ce_type: delaybridge.element.due"], expected, &["tenant: a"]].concat());
        let media = expected.last().and_then(|line| line.strip_prefix("content-type: "));
        assert_eq!(spec.filler(&element, &payload).content_type(), media);
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
            let _ = Filler::new(&element(), &payload(Codec::Json, ORDER), None).text(&template, &"x");
        }
    }
}
