//! Redisson's codecs, the daemon's names of them, and the values sent through each.

use serde_json::{Value, json};

/// The kind of a value that applications send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    Fraction,
    Bytes,
    /// A map that contains a list.
    Map,
    /// An object of the application's own class.
    Object,
}

impl Kind {
    /// The name on the page.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Number => "number",
            Kind::Fraction => "fraction",
            Kind::Bytes => "bytes",
            Kind::Map => "map",
            Kind::Object => "object",
        }
    }

    /// The value, in the form of the Java program's commands and answers.
    pub fn value(self) -> Value {
        match self {
            Kind::Text => json!("grün 😀"),
            Kind::Number => json!(4711),
            Kind::Fraction => json!(1.5),
            Kind::Bytes => json!({ "$bytes": "00ff8041" }),
            Kind::Map => json!({ "order": 4711, "lines": ["a", "b"], "paid": true }),
            Kind::Object => json!({ "$order": { "id": 7, "item": "book" } }),
        }
    }

    /// The value for a reader outside of Java.
    pub fn decoded(self) -> Value {
        match self {
            Kind::Object => json!({ "id": 7, "item": "book" }),
            other => other.value(),
        }
    }
}

/// One codec of Redisson.
#[derive(Debug, Clone, Copy)]
pub struct Codec {
    /// The class, with the wrapped one in parentheses.
    pub class: &'static str,
    /// The word for `codec:`; `None` if there is nothing to decode.
    pub ours: Option<&'static str>,
    /// The kinds of values sent through it.
    pub kinds: &'static [Kind],
}

const fn codec(class: &'static str, ours: &'static str, kinds: &'static [Kind]) -> Codec {
    Codec { class, ours: Some(ours), kinds }
}

/// The kinds for a codec of arbitrary objects.
const ANYTHING: &[Kind] = &[Kind::Text, Kind::Number, Kind::Map, Kind::Object];

/// The codecs in the order of the page.
pub const CODECS: &[Codec] = &[
    codec("StringCodec", "string", &[Kind::Text]),
    Codec { class: "ByteArrayCodec", ours: None, kinds: &[Kind::Bytes] },
    codec("LongCodec", "number", &[Kind::Number]),
    codec("IntegerCodec", "number", &[Kind::Number]),
    codec("DoubleCodec", "number", &[Kind::Fraction]),
    codec("JsonJacksonCodec", "jackson", ANYTHING),
    codec("TypedJsonJacksonCodec", "json", ANYTHING),
    codec("Kryo5Codec", "kryo5", ANYTHING),
    codec("MarshallingCodec", "marshalling", ANYTHING),
    codec("SerializationCodec", "java", ANYTHING),
    codec("CborJacksonCodec", "cbor", ANYTHING),
    codec("MsgPackJacksonCodec", "msgpack", ANYTHING),
    codec("SmileJacksonCodec", "smile", ANYTHING),
    codec("LZ4Codec(StringCodec)", "lz4+string", &[Kind::Text]),
    codec("LZ4Codec(Kryo5Codec)", "lz4+kryo5", ANYTHING),
    codec("LZ4CodecV2(Kryo5Codec)", "lz4+kryo5", ANYTHING),
    codec("SnappyCodec(StringCodec)", "snappy+string", &[Kind::Text]),
    codec("SnappyCodecV2(StringCodec)", "snappy+string", &[Kind::Text]),
    codec("SnappyCodecV2(Kryo5Codec)", "snappy+kryo5", ANYTHING),
    codec("ZStdCodec(StringCodec)", "zstd+string", &[Kind::Text]),
    codec("ZStdCodec(JsonJacksonCodec)", "zstd+jackson", ANYTHING),
];

/// Removes the type information of Jackson: `@class` fields and `["a.Class", value]`.
pub fn without_types(value: Value) -> Value {
    match value {
        Value::Array(items) => match &items[..] {
            [Value::String(class), inner] if class.starts_with("java.") => without_types(inner.clone()),
            _ => items.into_iter().map(without_types).collect(),
        },
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(name, _)| name != "@class");
            Value::Object(kept.map(|(name, value)| (name, without_types(value))).collect())
        }
        other => other,
    }
}
