//! Tests with malicious and damaged bytes.

use redisson_codecs::bytes::Bytes;
use redisson_codecs::{Codec, Coding, decode};

use super::{bytes, coding_of, vectors};

#[test]
fn references_and_nesting_end_at_their_bounds() {
    let check = |name: &str, payload: Vec<u8>, expected: &str| {
        let error = decode(coding_of(name), &payload.into()).unwrap_err();
        assert_eq!(error.code(), expected, "{name}: {error}");
    };
    for (name, before, level) in [
        ("cbor", "", "81"),
        ("msgpack", "", "91"),
        ("smile", "3a290a00", "f8"),
        ("marshalling", "04", "53015a"),
        ("jackson", "", "5b"),
        ("kryo5", "01006a6176612e7574696c2e41727261794c6973f402", "010002"),
        ("java", "aced0005", "757200025b4c0000000000000000020000787000000001"),
    ] {
        let payload = [bytes(before).to_vec(), bytes(level).repeat(10_000)].concat();
        let error = decode(coding_of(name), &payload.into()).unwrap_err();
        assert!(matches!(error.code(), "too_deep" | "json_too_deep"), "{name}: {error}");
    }
    // Lists of two that each refer to the last: two to the power of forty values.
    let first = "53 02 5a 3e05 6161616161 01";
    let mut river = bytes(&format!("04 53 29 5a {first}")).to_vec();
    for _ in 0..40 {
        // A list of the last list, twice; its own index is already counted.
        river.extend_from_slice(&bytes("53 02 5a 39fe 39fe"));
    }
    check("marshalling", river, "too_large");
    check("cbor", bytes("9f").iter().copied().chain(std::iter::repeat_n(0, 1 << 20)).collect(), "too_large");
}

/// Two classes of one object have the same fields, so those of the lower one get the name of their class as a prefix. A
/// long name is refused before it is copied 5,000 times.
#[test]
fn the_name_of_a_class_counts_as_often_as_it_is_written() {
    let text = |text: &str| [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat();
    let class = |name: &str| {
        let fields: Vec<u8> = (0..5_000).flat_map(|n| [b"B".to_vec(), text(&format!("f{n}"))].concat()).collect();
        [&[0x72][..], &text(name), &[0; 8], &[2, 0x13, 0x88], &fields, &[0x78]].concat()
    };
    let of = |name: &str| -> Bytes {
        [&[0xac, 0xed, 0, 5, 0x73], &*class(name), &*class("a.Upper"), &[0x70], &[0; 10_000]].concat().into()
    };
    let coding = Coding { max_decoded_size: 8 << 20, ..Codec::Java.into() };
    assert!(decode(coding, &of("a.Lower")).unwrap().decoded().ends_with(b",\"a.Lower.f4999\":0}"));
    let error = decode(coding, &of(&format!("a.{}", "Long".repeat(16_000)))).unwrap_err();
    assert_eq!(error.code(), "too_large");
    // In kB; all other tests of this process together need a small part of it.
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
        let peak: u64 = peak.unwrap().parse().unwrap();
        assert!(peak < 200_000, "{peak} kB");
    }
}

/// Every recorded payload, cut everywhere and with bits flipped: an answer, and never more memory than allowed.
#[test]
fn no_damage_to_a_recorded_payload_does_any_harm() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut answers = 0_u32;
    let mut values = 0_u32;
    for vector in vectors::vectors() {
        // A quarter, others each time: all take long.
        if random.u8(..4) != 0 {
            continue;
        }
        let Some(coding) = vectors::coding(&vector) else { continue };
        let coding = Coding { max_decoded_size: 64 << 10, ..coding };
        let whole = &vector.payload;
        // Only the ends of long texts are interesting.
        let places: Vec<usize> = match whole.len() {
            length @ ..=300 => (0..length).collect(),
            length => (0..100).chain(length - 100..length).collect(),
        };
        let mut damaged: Vec<Vec<u8>> = places.iter().map(|&end| whole[..end].to_vec()).collect();
        for &place in &places {
            let mut bytes = whole.to_vec();
            bytes[place] ^= 1 << random.u8(..8);
            damaged.push(bytes.clone());
            bytes[place] = random.u8(..);
            damaged.push(bytes);
        }
        for bytes in damaged {
            let bytes = Bytes::from(bytes);
            harmless(coding, &bytes);
            values += u32::from(decode(coding, &bytes).is_ok());
            answers += 1;
            if random.u8(..) < 16 {
                harmless(Coding { compression: None, codec: Codec::Auto, ..coding }, &bytes);
            }
        }
    }
    println!("{answers} payloads, {values} of them still values");
    assert!(answers > 30_000, "{answers}");
}

#[test]
fn no_bytes_make_any_codec_panic() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let beginnings =
        ["", "0100", "03", "04", "0404", "0453", "aced0005", "aced000573", "3a290a03", "bf", "9f", "00000020"];
    let beginnings = beginnings.map(bytes);
    for name in Coding::names() {
        let coding = Coding { max_decoded_size: 64 << 10, ..coding_of(name) };
        for _ in 0..2_000 {
            let mut payload = beginnings[random.usize(..beginnings.len())].to_vec();
            let top = if random.bool() { u8::MAX } else { 0x7f };
            payload.extend((0..random.usize(..64)).map(|_| random.u8(..=top)));
            harmless(coding, &payload.into());
        }
    }
}

/// Decodes the payload, and checks the result.
fn harmless(coding: Coding, bytes: &Bytes) {
    match decode(coding, bytes) {
        Ok(payload) => {
            assert_eq!(payload.bytes(), bytes);
            // Numbers in text are at most about three times as long as in binary.
            let most = bytes.len().max(coding.max_decoded_size) * 3;
            assert!(payload.decoded().len() <= most, "{coding} {}", hex::encode(bytes));
        }
        Err(error) => {
            assert!(error.offset <= bytes.len().max(coding.max_decoded_size), "{error:?} in {}", hex::encode(bytes));
            assert!(error.to_string().is_ascii() && error.to_string().len() < 400, "{error}");
        }
    }
}
