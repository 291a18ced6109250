//! Tests of every codec: values, errors, and that no bytes do any harm.

mod atomics;
mod bounds;
mod formats;
mod mutations;
mod texts;
mod types;
mod unread;
mod vectors;

use redisson_codecs::bytes::Bytes;
use redisson_codecs::{Codec, Coding, DecodeProblem, Payload, View, decode, serde_json};

fn check(codec: Codec, payload: &[u8], expected: Result<View<'_>, (usize, DecodeProblem)>) {
    let payload = Bytes::copy_from_slice(payload);
    let got = decode(codec, &payload);
    match (&got, expected) {
        (Ok(got), Ok(expected)) => {
            assert_eq!(got.view(), expected, "{payload:?}");
            assert_eq!(got.bytes().as_ptr(), payload.as_ptr(), "the bytes were copied");
        }
        (Err(got), Err((offset, problem))) => {
            assert_eq!((got.offset, &got.problem), (offset, &problem), "{payload:?}");
        }
        (got, expected) => panic!("{payload:?}: {got:?}, not {expected:?}"),
    }
}

#[test]
fn each_codec_reads_what_is_its_own() {
    use DecodeProblem::*;
    use serde_json::json;
    check(Codec::Raw, b"\xff\x00", Ok(View::Opaque));
    check(Codec::Raw, b"", Ok(View::Opaque));
    check(Codec::String, "grün".as_bytes(), Ok(View::Text("grün")));
    check(Codec::String, b"", Ok(View::Text("")));
    check(Codec::String, b"ab\xffcd", Err((2, NotUtf8)));
    check(Codec::String, b"ab\xe2\x82", Err((2, NotUtf8)));
    check(Codec::Json, br#"{"a":[1,null]}"#, Ok(View::Json(&json!({"a": [1, null]}))));
    check(Codec::Json, b" \"x\" ", Ok(View::Json(&json!("x"))));
    check(Codec::Json, b"", Err((0, JsonTruncated)));
    check(Codec::Json, b"{\"a\":", Err((5, JsonTruncated)));
    check(Codec::Json, b"{\n\"a\": oh}", Err((7, NotJson)));
    check(Codec::Json, b"{} {}", Err((3, JsonTrailing)));
    check(Codec::Json, b"\"\xff\"", Err((1, NotJson)));
    check(Codec::Json, &[b'['; 100_000], Err((127, JsonTooDeep)));
}

#[test]
fn a_number_keeps_its_digits() {
    let payload = decode(Codec::Json, &Bytes::from_static(b"[123456789012345678901234567890, 1.10]")).unwrap();
    let View::Json(value) = payload.view() else { panic!("{payload:?}") };
    assert_eq!(value[0].to_string(), "123456789012345678901234567890");
    assert_eq!(value[1].to_string(), "1.10");
}

#[test]
fn an_error_says_codec_and_place_but_not_the_payload() {
    let error = decode(Codec::Json, &Bytes::from_static(b"{\"card\": geheim}")).unwrap_err();
    assert_eq!(error.to_string(), "decode payload as json: not JSON at byte 9");
    assert_eq!(error.code(), "not_json");
}

#[test]
fn no_bytes_make_a_codec_panic() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let alphabet = br#"{}[]",:0123456789.eE+-truefalsn\u d8 "#;
    for _ in 0..20_000 {
        let plausible = random.bool();
        let length = random.usize(..64);
        let bytes: Bytes = (0..length)
            .map(|_| if plausible { alphabet[random.usize(..alphabet.len())] } else { random.u8(..) })
            .collect();
        for codec in [Codec::Raw, Codec::String, Codec::Json] {
            match decode(codec, &bytes) {
                Ok(payload) => assert_eq!(payload.bytes(), &bytes),
                Err(error) => assert!(error.offset <= bytes.len(), "{error:?} in {bytes:?}"),
            }
        }
    }
}

#[test]
fn an_error_names_classes_and_nothing_else_of_the_payload() {
    let check = |codec: Codec, payload: &[u8], expected: &str| {
        let error = decode(codec, &Bytes::copy_from_slice(payload)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    check(
        Codec::Kryo5,
        b"\x01\x00com.example.Orde\xf2\x01",
        "decode payload as kryo5: an object of the class com.example.Order, which only Java can read at byte 0",
    );
    check(
        Codec::Kryo5,
        b"\x01\x004111 1111 1111 111\xb1",
        "decode payload as kryo5: an object of the class (a name that no class has), which only Java can read at byte 0",
    );
    check(Codec::Auto, b"\xff\xfe\xfd", "decode payload as auto: nothing that any codec recognises at byte 0");
}

fn json_of(payload: &Payload) -> String {
    match payload.view() {
        View::Opaque => format!("bytes {}", hex::encode(payload.decoded())),
        View::Text(text) => serde_json::Value::from(text).to_string(),
        View::Json(value) => value.to_string(),
    }
}

fn coding_of(name: &str) -> Coding {
    name.parse().unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn bytes(digits: &str) -> Bytes {
    hex::decode(digits.replace(' ', "")).unwrap().into()
}
