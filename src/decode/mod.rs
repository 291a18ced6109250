//! From bytes to a value that templates and envelopes can use. Pure, one codec a file.
//!
//! Knows nothing of queues, destinations or Redis. What is decoded here came from somebody else's process: any bytes
//! whatsoever end as a value or as a [`DecodeError`], never as a panic, and no error repeats what it read.

mod json;
mod raw;
mod string;

use bytes::Bytes;

use crate::config::Codec;

/// A payload whose bytes have been looked at: the bytes as they came, and what the codec saw in them.
///
/// Built only by [`decode`] and [`Payload::opaque`], so that the value always belongs to the bytes.
#[derive(Clone, Debug)]
pub struct Payload {
    bytes: Bytes,
    decoded: Decoded,
}

/// What the codec found out. `Text` and `Json` keep the bytes as the only copy of the text.
#[derive(Clone, Debug)]
enum Decoded {
    Opaque,
    /// The bytes are UTF-8.
    Text,
    /// The bytes are the JSON text of this value.
    Json(serde_json::Value),
}

/// A payload as templates and envelopes see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum View<'a> {
    /// Bytes that nobody looked into.
    Opaque,
    /// Plain text.
    Text(&'a str),
    /// A JSON value; [`Payload::bytes`] are its text.
    Json(&'a serde_json::Value),
}

impl Payload {
    /// A payload that is not looked into: codec `raw`, or bytes that the codec refused and that go on all the same
    /// (`on_decode_error: forward_raw`).
    pub fn opaque(bytes: Bytes) -> Self {
        Payload { bytes, decoded: Decoded::Opaque }
    }

    /// The bytes exactly as they came.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What the codec saw.
    pub fn view(&self) -> View<'_> {
        match &self.decoded {
            Decoded::Opaque => View::Opaque,
            // Checked again instead of kept a second time: the check is cheaper than the copy, and mostly not asked for.
            Decoded::Text => std::str::from_utf8(&self.bytes).map_or(View::Opaque, View::Text),
            Decoded::Json(value) => View::Json(value),
        }
    }
}

/// The codec refuses the payload. Says where, never what it read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("decode payload as {codec}: {problem} at byte {offset}")]
pub struct DecodeError {
    /// The codec that refused.
    pub codec: Codec,
    /// Offset in bytes from the start of the payload, 0-based.
    pub offset: usize,
    /// What is wrong there.
    pub problem: DecodeProblem,
}

impl DecodeError {
    /// Short stable code, safe as a metric label and in dead letters.
    pub fn code(&self) -> &'static str {
        match self.problem {
            DecodeProblem::NotUtf8 => "not_utf8",
            DecodeProblem::NotJson => "not_json",
            DecodeProblem::Truncated => "json_truncated",
            DecodeProblem::TooDeep => "json_too_deep",
            DecodeProblem::Trailing => "json_trailing",
        }
    }
}

/// The ways in which bytes are not what the codec reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeProblem {
    /// A byte that UTF-8 does not have there.
    #[error("not UTF-8")]
    NotUtf8,
    /// A byte that JSON does not have there.
    #[error("not JSON")]
    NotJson,
    /// The JSON value is not finished.
    #[error("JSON ends too early")]
    Truncated,
    /// More levels than anybody means; a bound on our stack.
    #[error("JSON nested deeper than 127 levels")]
    TooDeep,
    /// More than one JSON value.
    #[error("text after the JSON value")]
    Trailing,
}

/// Looks into `payload` as `codec` says.
///
/// Work and memory are linear in the payload, the depth of recursion is bounded.
///
/// # Errors
/// When the bytes are not what the codec reads.
pub fn decode(codec: Codec, payload: &Bytes) -> Result<Payload, DecodeError> {
    let decoded = match codec {
        Codec::Raw => Ok(raw::decode()),
        Codec::String => string::decode(payload),
        Codec::Json => json::decode(payload),
    };
    match decoded {
        Ok(decoded) => Ok(Payload { bytes: payload.clone(), decoded }),
        Err((offset, problem)) => Err(DecodeError { codec, offset, problem }),
    }
}

/// What a codec answers: a value, or the offset and the kind of the problem.
type Answer = Result<Decoded, (usize, DecodeProblem)>;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(codec: Codec, payload: &[u8], expected: Result<View<'_>, (usize, DecodeProblem)>) {
        let payload = Bytes::copy_from_slice(payload);
        let got = decode(codec, &payload);
        match (&got, expected) {
            (Ok(got), Ok(expected)) => {
                assert_eq!(got.view(), expected, "{payload:?}");
                assert_eq!(got.bytes().as_ptr(), payload.as_ptr(), "the bytes were copied");
            }
            (Err(got), Err((offset, problem))) => {
                assert_eq!((got.offset, got.problem), (offset, problem), "{payload:?}");
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
        check(Codec::Json, b"", Err((0, Truncated)));
        check(Codec::Json, b"{\"a\":", Err((5, Truncated)));
        check(Codec::Json, b"{\n\"a\": oh}", Err((7, NotJson)));
        check(Codec::Json, b"{} {}", Err((3, Trailing)));
        check(Codec::Json, b"\"\xff\"", Err((1, NotJson)));
        check(Codec::Json, &[b'['; 100_000], Err((127, TooDeep)));
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
}
