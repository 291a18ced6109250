//! A parser of OTLP's protobuf by its specification (`opentelemetry/proto/trace/v1/trace.proto`), without the code that
//! writes it.

use std::collections::BTreeMap;

/// A span of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    pub trace: String,
    pub id: String,
    /// The parent; empty without one.
    pub parent: String,
    pub name: String,
    pub from: u64,
    pub to: u64,
    pub attributes: BTreeMap<String, String>,
}

#[derive(Debug)]
enum Value<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    let mut shift = 0;
    loop {
        let (byte, rest) = bytes.split_first().expect("one more byte");
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return number;
        }
    }
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut bytes)),
            1 => {
                let (fixed, rest) = bytes.split_first_chunk().expect("eight bytes");
                bytes = rest;
                Value::Fixed(u64::from_le_bytes(*fixed))
            }
            2 => {
                let length = usize::try_from(varint(&mut bytes)).expect("a length");
                let (inner, rest) = bytes.split_at(length);
                bytes = rest;
                Value::Bytes(inner)
            }
            other => panic!("wire type {other}"),
        };
        fields.push((tag >> 3, value));
    }
    fields
}

/// The messages in this field.
fn messages<'a>(message: &'a [u8], number: u64) -> Vec<&'a [u8]> {
    let bytes = |(other, value): (u64, Value<'a>)| match value {
        Value::Bytes(bytes) if other == number => Some(bytes),
        _ => None,
    };
    fields(message).into_iter().filter_map(bytes).collect()
}

/// All spans of an `ExportTraceServiceRequest`; with gRPC, five bytes precede it.
pub fn spans(body: &[u8], grpc: bool) -> Vec<Span> {
    let message = if grpc {
        let (head, message) = body.split_at(5);
        assert_eq!(head, [&[0][..], &u32::try_from(message.len()).expect("a length").to_be_bytes()].concat());
        message
    } else {
        body
    };
    let of_resource = messages(message, 1);
    let of_scope = of_resource.into_iter().flat_map(|resource| {
        assert!(attributes(messages(resource, 1)[0], 1)["service.name"] == "delaybridge");
        messages(resource, 2)
    });
    of_scope.flat_map(|scope| messages(scope, 2)).map(span).collect()
}

fn span(message: &[u8]) -> Span {
    let mut span = Span {
        trace: String::new(),
        id: String::new(),
        parent: String::new(),
        name: String::new(),
        from: 0,
        to: 0,
        attributes: attributes(message, 9),
    };
    for (number, value) in fields(message) {
        match (number, value) {
            (1, Value::Bytes(bytes)) if bytes.len() == 16 => span.trace = hex::encode(bytes),
            (2, Value::Bytes(bytes)) if bytes.len() == 8 => span.id = hex::encode(bytes),
            (4, Value::Bytes(bytes)) if bytes.len() == 8 => span.parent = hex::encode(bytes),
            (5, Value::Bytes(bytes)) => span.name = String::from_utf8(bytes.to_vec()).expect("a name is text"),
            (6, Value::Number(1..=5)) | (9 | 15, Value::Bytes(_)) => {}
            (7, Value::Fixed(time)) => span.from = time,
            (8, Value::Fixed(time)) => span.to = time,
            other => panic!("a span has no such field: {other:?}"),
        }
    }
    assert!(!span.trace.is_empty() && !span.id.is_empty() && span.from <= span.to, "{span:?}");
    span
}

/// The `KeyValue`s in this field.
fn attributes(message: &[u8], number: u64) -> BTreeMap<String, String> {
    let pair = |pair: &[u8]| {
        let name = String::from_utf8(messages(pair, 1)[0].to_vec()).expect("a name is text");
        let value = match fields(messages(pair, 2)[0]).pop().expect("a value") {
            (1, Value::Bytes(text)) => String::from_utf8(text.to_vec()).expect("a text"),
            (3, Value::Number(number)) => number.to_string(),
            other => panic!("no value of an attribute: {other:?}"),
        };
        (name, value)
    };
    messages(message, number).into_iter().map(pair).collect()
}
