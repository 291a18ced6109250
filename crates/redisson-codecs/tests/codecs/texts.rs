//! JSON in texts: `offer(objectMapper.writeValueAsString(x))` with every codec that has texts.

use redisson_codecs::bytes::Bytes;
use redisson_codecs::{Codec, Coding, View, decode, guess, serde_json};

use super::{bytes, coding_of};

const TEXT: &str = r#"{ "id":7,"n":1.10}"#;

/// A text of at most 32 characters as each codec writes it.
fn written(codec: Codec) -> Vec<u8> {
    let text = TEXT.as_bytes();
    let length = text.len() as u8;
    let (body, last) = text.split_at(text.len() - 1);
    match codec {
        Codec::String => text.to_vec(),
        Codec::Json | Codec::Jackson => serde_json::to_vec(TEXT).unwrap(),
        Codec::Kryo5 => [&[3], body, &[last[0] | 0x80]].concat(),
        Codec::Kryo5Refs => [&[3, 1], body, &[last[0] | 0x80]].concat(),
        Codec::Marshalling => [&[4, 0x3e, length], text].concat(),
        Codec::Java => [&[0xac, 0xed, 0, 5, 0x74, 0, length], text].concat(),
        Codec::Cbor => [&[0x60 + length], text].concat(),
        Codec::Msgpack => [&[0xa0 + length], text].concat(),
        Codec::Smile => [b":)\n\x01", &[0x40 + length - 1][..], text].concat(),
        other => panic!("{other} has no texts"),
    }
}

fn looking(codec: impl Into<Coding>) -> Coding {
    Coding { json_in_text: true, ..codec.into() }
}

#[test]
fn a_text_with_json_in_it_is_that_json_whatever_the_codec() {
    let expected: serde_json::Value = serde_json::from_str(TEXT).unwrap();
    let codecs = Codec::ALL.iter().copied().filter(|codec| Coding::from(*codec).has_texts() && *codec != Codec::Auto);
    for codec in codecs {
        let payload = Bytes::from(written(codec));
        let plain = decode(codec, &payload).unwrap_or_else(|error| panic!("{error}"));
        let text = matches!(plain.view(), View::Text(text) if text == TEXT);
        assert!(text || plain.view() == View::Json(&TEXT.into()), "{codec}: {:?}", plain.view());
        let found = decode(looking(codec), &payload).unwrap();
        assert_eq!(found.view(), View::Json(&expected), "{codec}");
        // The bytes are the payload's, and the value has the producer's spelling.
        assert_eq!((found.bytes(), &found.decoded()[..]), (&payload, TEXT.as_bytes()), "{codec}");
        // What is in the text says nothing about the codec.
        let outer = guess(&payload, Codec::Auto).unwrap();
        let inner = guess(&payload, looking(Codec::Auto)).unwrap();
        assert_eq!((inner.coding.codec, inner.confidence), (outer.coding.codec, outer.confidence), "{codec}");
        // A short text of CBOR is guessed as a plain one with a letter before it.
        if outer.coding.codec == codec && codec != Codec::String {
            assert_eq!(decode(looking(Codec::Auto), &payload).unwrap().view(), View::Json(&expected), "{codec}");
        }
    }
    // `{}` in Kryo, as a single literal of LZ4.
    let found = decode(looking(coding_of("lz4+kryo5")), &bytes("00000003 30 037bfd")).unwrap();
    assert_eq!(found.decoded(), "{}");
}

#[test]
fn any_other_text_stays_a_text() {
    for text in ["", "hello", "7", "true", "null", "\"{}\"", "{", "[1,", "{} {}", "[INFO] started", "{a:1}", "a {}"] {
        let payload = decode(looking(Codec::String), &Bytes::copy_from_slice(text.as_bytes())).unwrap();
        assert_eq!(payload.view(), View::Text(text));
    }
    // What is in the fields of a value is not looked into.
    let payload = Bytes::from_static(br#"{"a":"{\"b\":1}"}"#);
    assert_eq!(decode(looking(Codec::Json), &payload).unwrap().decoded(), payload);
    // The opposite of `json`: a text in a text is looked into once.
    let twice = serde_json::to_vec(&serde_json::to_string(TEXT).unwrap()).unwrap();
    let payload = decode(looking(Codec::Json), &twice.into()).unwrap();
    assert_eq!(payload.view(), View::Json(&serde_json::to_string(TEXT).unwrap().into()));
}

#[test]
fn json_in_a_text_has_the_bounds_of_a_payload() {
    let check = |codec, text: String, most, expected: &str| {
        let coding = Coding { max_decoded_size: most, ..looking(codec) };
        let error = decode(coding, &text.into()).unwrap_err();
        assert_eq!((error.code(), error.offset), (expected, 0), "{error}");
    };
    check(Codec::String, "[".repeat(100_000), 16 << 20, "json_too_deep");
    let many = format!("[{}0]", "0,".repeat(10_000));
    check(Codec::String, many.clone(), 1 << 20, "too_large");
    // The text itself counts where it is a copy.
    let quoted = serde_json::to_string(&many).unwrap();
    let needed = 128 * 10_002 + many.len();
    assert!(decode(Coding { max_decoded_size: needed, ..looking(Codec::String) }, &many.clone().into()).is_ok());
    check(Codec::Json, quoted.clone(), needed, "too_large");
    assert!(decode(Coding { max_decoded_size: needed + many.len(), ..looking(Codec::Json) }, &quoted.into()).is_ok());
}
