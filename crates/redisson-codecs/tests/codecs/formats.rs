//! Values of every format, from Java's libraries and from the specifications.

use redisson_codecs::bytes::Bytes;
use redisson_codecs::{Codec, Coding, View, decode, serde_json};

use super::{bytes, coding_of, json_of};

/// Payloads of Kryo 5.6.2, JBoss Marshalling 2.0.11 and JDK 17, as `codec, JSON or !code, hexadecimal digits`.
#[test]
fn what_javas_libraries_write_is_read() {
    let mut rows = 0;
    for line in include_str!("../../../../tests/vectors/java.tsv").lines() {
        let [codec, expected, digits] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let got = match decode(coding_of(codec), &bytes(digits)) {
            Ok(payload) => json_of(&payload),
            Err(error) => format!("!{}", error.code()),
        };
        assert_eq!(got, expected, "{codec} {digits}");
        rows += 1;
    }
    assert!(rows > 190, "{rows}");
}

#[test]
fn formats_are_read_as_their_specifications_say() {
    fn check(codec: Codec, digits: &str, expected: &str) {
        let got = match decode(codec, &bytes(digits)) {
            Ok(payload) => json_of(&payload),
            Err(error) => format!("!{} {}", error.code(), error.offset),
        };
        assert_eq!(got, expected, "{codec} {digits}");
    }
    // RFC 8949, appendix A.
    check(Codec::Cbor, "1bffffffffffffffff", "18446744073709551615");
    check(Codec::Cbor, "c249010000000000000000", "18446744073709551616");
    check(Codec::Cbor, "3bffffffffffffffff", "-18446744073709551616");
    check(Codec::Cbor, "c349010000000000000000", "-18446744073709551617");
    check(Codec::Cbor, "3903e7", "-1000");
    check(Codec::Cbor, "f93c00", "1.0");
    check(Codec::Cbor, "f90001", "5.960464477539063e-8");
    check(Codec::Cbor, "f9c400", "-4.0");
    check(Codec::Cbor, "f97e00", r#""NaN""#);
    check(Codec::Cbor, "f9fc00", r#""-Infinity""#);
    check(Codec::Cbor, "fa47c35000", "100000.0");
    check(Codec::Cbor, "fb3ff199999999999a", "1.1");
    check(Codec::Cbor, "f7", "null");
    check(Codec::Cbor, "f0", "!unsupported 0");
    check(Codec::Cbor, "c11a514b67b0", "1363896240");
    check(Codec::Cbor, "c48221196ab3", "27315e-2");
    check(Codec::Cbor, "4401020304", "bytes 01020304");
    check(Codec::Cbor, "824401020304 60", r#"["AQIDBA==",""]"#);
    check(Codec::Cbor, "62c3bc", r#""ü""#);
    check(Codec::Cbor, "62c328", "!not_utf8 1");
    check(Codec::Cbor, "5f42010243030405ff", "bytes 0102030405");
    check(Codec::Cbor, "7f657374726561646d696e67ff", r#""streaming""#);
    check(Codec::Cbor, "bf61610161629f0203ffff", r#"{"a":1,"b":[2,3]}"#);
    check(Codec::Cbor, "a201020304", r#"{"1":2,"3":4}"#);
    check(Codec::Cbor, "a2 01 02 6131 03", r#"[[1,2],["1",3]]"#);
    check(Codec::Cbor, "a2 6161 01 6161 02", r#"[["a",1],["a",2]]"#);
    check(Codec::Cbor, "a1 f6 01", "[[null,1]]");
    check(Codec::Cbor, "1c", "!malformed 0");
    check(Codec::Cbor, "ff", "!malformed 0");
    check(Codec::Cbor, "0000", "!trailing 1");
    check(Codec::Cbor, "9bffffffffffffffff", "!truncated 9");
    // The specification of MessagePack.
    check(Codec::Msgpack, "93 c0 c2 c3", "[null,false,true]");
    check(Codec::Msgpack, "7f", "127");
    check(Codec::Msgpack, "e0", "-32");
    check(Codec::Msgpack, "cfffffffffffffffff", "18446744073709551615");
    check(Codec::Msgpack, "d38000000000000000", "-9223372036854775808");
    check(Codec::Msgpack, "d0ff", "-1");
    check(Codec::Msgpack, "d1fffe", "-2");
    check(Codec::Msgpack, "d2fffffffd", "-3");
    check(Codec::Msgpack, "ca3f8ccccd", "1.1");
    check(Codec::Msgpack, "d903616263", r#""abc""#);
    check(Codec::Msgpack, "da0003616263", r#""abc""#);
    check(Codec::Msgpack, "c50002ff00", "bytes ff00");
    check(Codec::Msgpack, "dc0001 01", "[1]");
    check(Codec::Msgpack, "de0001 a161 01", r#"{"a":1}"#);
    check(Codec::Msgpack, "df00000001 a161 01", r#"{"a":1}"#);
    check(Codec::Msgpack, "ddffffffff", "!truncated 5");
    check(Codec::Msgpack, "c1", "!malformed 0");
    check(Codec::Msgpack, "d6ff00000000", "!unsupported 0");
    // The specification of Smile: shared names and texts, big numbers, both forms of bytes.
    check(Codec::Smile, "3a290a00 21", "null");
    check(Codec::Smile, "3a290a00 21 ff", "null");
    check(Codec::Smile, "3a290a00 f8 fa 8061 c2 fb fa 40 c4 fb f9", r#"[{"a":1},{"a":2}]"#);
    check(Codec::Smile, "3a290a02 f8 4061 01 f9", r#"["a","a"]"#);
    check(Codec::Smile, "3a290a00 f8 4061 01 f9", "!malformed 7");
    check(Codec::Smile, "3a290a00 28 03 7c 33 19 4d", "1.1");
    check(Codec::Smile, "3a290a00 26 82 00 00 00", "0");
    check(Codec::Smile, "3a290a00 2a 84 81 3d 01", "123e-2");
    check(Codec::Smile, "3a290a00 fd 82 ff00", "bytes ff00");
    check(Codec::Smile, "3a290a00 e0 616263 fc", r#""abc""#);
    check(Codec::Smile, "3a290a00 e0 616263", "!truncated 8");
    check(Codec::Smile, "3a290a10 21", "!malformed 3");
    // Decimal text.
    let number = |text: &str, expected: &str| check(Codec::Number, &hex::encode(text), expected);
    number("-9223372036854775808", "-9223372036854775808");
    number("1.0E10", "1.0e+10");
    number("NaN", r#""NaN""#);
    number(" 1", "!not_number 0");
    number("", "!not_number 0");
    number("0x1", "!not_number 0");
}

#[test]
fn compression_is_undone_within_its_bound() {
    fn check(name: &str, digits: &str, limit: usize, expected: &str) {
        let coding = Coding { max_decoded_size: limit, ..coding_of(name) };
        let got = match decode(coding, &bytes(digits)) {
            Ok(payload) => json_of(&payload),
            Err(error) => format!("!{}", error.code()),
        };
        assert_eq!(got, expected, "{name} {digits}");
    }
    check("lz4+kryo5", "00000004 40 036162e3", 1 << 10, r#""abc""#);
    check("lz4+raw", "00000004 40 036162e3", 1 << 10, "bytes 036162e3");
    check("lz4+string", "00000000 00", 1, r#""""#);
    check("lz4+string", "00000000", 1, r#""""#);
    check("lz4+raw", "00000004 40 036162e3", 3, "!too_large");
    check("lz4+raw", "00000005 40 036162e3", 9, "!malformed");
    check("lz4+raw", "ffffffff 40 036162e3", 1 << 20, "!too_large");
    check("lz4+raw", "0000", 9, "!truncated");
    check("snappy+raw", "04 0c 036162e3", 4, "bytes 036162e3");
    check("snappy+raw", "04 0c 036162e3", 3, "!too_large");
    check("snappy+raw", "ffffffff0f 0c 036162e3", 1 << 20, "!too_large");
    check("snappy+raw", "00", 0, "bytes ");
    check("snappy+raw", "", 0, "bytes ");
    check("snappy+raw", "00000006 040c036162e3 00000003 010041", 5, "bytes 036162e341");
    check("snappy+raw", "00000006 040c036162e3 00000003 010041", 4, "!too_large");
    check("snappy+raw", "00000006 040c0361", 9, "!truncated");
    check("zstd+raw", "00000003 28b52ffd0058180000333030010000", 3, "bytes 333030");
    check("zstd+raw", "00000003 28b52ffd0058180000333030010000", 2, "!too_large");
    check("zstd+raw", "00000002 28b52ffd0058180000333030010000", 9, "!malformed");
    check("zstd+raw", "00000004 28b52ffd0058180000333030010000", 9, "!malformed");
    // A window of 2 TiB.
    check("zstd+raw", "00000003 28b52ffd00ff180000333030010000", 9, "!malformed");
}

/// A serialized `java.util.Date` at this time, or an object of its subclass `name`, which adds an int field.
fn date(name: Option<&str>, millis: i64) -> Bytes {
    let text = |text: &str| [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat();
    let version = [0; 8];
    // With a write method (3), without fields, without a superclass.
    let of_date = [&[0x72][..], &text("java.util.Date"), &version, &[3, 0, 0, 0x78, 0x70]].concat();
    let of_class = match name {
        Some(name) => {
            [&[0x72][..], &text(name), &version, &[2, 0, 1, b'I'], &text("nanos"), &[0x78], &of_date].concat()
        }
        None => of_date,
    };
    let block = [&[0x77, 8][..], &millis.to_be_bytes(), &[0x78]].concat();
    let nanos: &[u8] = if name.is_some() { &[0, 0, 0, 7] } else { &[] };
    [&[0xac, 0xed, 0, 5, 0x73][..], &of_class, &block, nanos].concat().into()
}

#[test]
fn a_class_that_adds_to_one_of_the_jdk_is_opaque_unless_it_is_known() {
    let plain = decode(Codec::Java, &date(None, 1_700_000_000_123)).unwrap();
    assert_eq!(plain.view(), View::Json(&serde_json::json!(1_700_000_000_123_i64)));
    let error = decode(Codec::Java, &date(Some("com.example.Stamp"), 1_700_000_000_000)).unwrap_err();
    assert!(error.is_opaque() && error.to_string().contains("com.example.Stamp"), "{error}");
    // Seconds, and the nanoseconds of a second beside them.
    let stamp = |millis| json_of(&decode(Codec::Java, &date(Some("java.sql.Timestamp"), millis)).unwrap());
    assert_eq!(stamp(1_700_000_000_000), "1700000000000.000007");
    assert_eq!(stamp(-1_000), "-999.999993");
}
