//! Payloads: those that Redisson wrote, damaged, and ones with many references, numbers and levels.

use fastrand::Rng;
use redisson_codecs::{Codec, Coding, Compression};

/// Payloads by the name of their codec.
pub type Seeds = Vec<(String, Vec<u8>)>;

/// What the tests of the codecs have.
pub fn seeds() -> Seeds {
    let java = include_str!("../../tests/vectors/java.tsv").lines().map(|line| (line, 2));
    let types = include_str!("../../crates/redisson-codecs/tests/recorder/types.tsv").lines().map(|line| (line, 3));
    let read = |(line, column): (&str, usize)| {
        let columns: Vec<_> = line.split('\t').collect();
        Some((columns.first()?.to_string(), hex::decode(columns.get(column)?).ok()?))
    };
    java.chain(types).filter_map(read).collect()
}

/// The next payload for this codec.
pub fn next(random: &mut Rng, coding: Coding, seeds: &Seeds) -> Vec<u8> {
    let inner = match random.u8(..8) {
        0 => noise(random),
        1 | 2 => made_up(random, coding.codec),
        _ => damaged(random, coding.codec, seeds),
    };
    match coding.compression {
        None => inner,
        Some(compression) => packed(random, compression, inner),
    }
}

fn noise(random: &mut Rng) -> Vec<u8> {
    let top = random.choice([0x0f, 0x7f, 0xff]).unwrap_or(0xff_u8);
    (0..random.usize(..200)).map(|_| random.u8(..=top)).collect()
}

fn damaged(random: &mut Rng, codec: Codec, seeds: &Seeds) -> Vec<u8> {
    let own: Vec<_> = seeds.iter().filter(|(name, _)| name == codec.as_str() || codec == Codec::Auto).collect();
    let text = br#"{"a":[1,2.5e3,null,true],"b":"\u00e9\n","@class":"java.util.HashMap","c":["java.lang.Long",7]}"#;
    let mut bytes = random.choice(&own).map_or(text.to_vec(), |(_, bytes)| bytes.clone());
    for _ in 0..random.usize(1..4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.usize(..bytes.len());
        let to = random.usize(at..=bytes.len().min(at + 64));
        match random.u8(..7) {
            0 => bytes[at] ^= 1 << random.u8(..8),
            1 => bytes[at] = random.u8(..),
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..to)),
            // Lengths and references are where memory is lost.
            4 => bytes[at] = random.choice([0, 1, 0x7f, 0x80, 0xff]).unwrap_or(0xff),
            5 => {
                let part = bytes[at..to].to_vec().repeat(random.usize(1..300));
                bytes.splice(at..at, part);
            }
            _ => {
                if let Some((_, other)) = random.choice(&own) {
                    let from = random.usize(..other.len().max(1));
                    bytes.truncate(at);
                    bytes.extend_from_slice(&other[from.min(other.len())..]);
                }
            }
        }
    }
    bytes.truncate(64 << 10);
    bytes
}

/// Many levels, many values, long numbers, and references to what was before.
fn made_up(random: &mut Rng, codec: Codec) -> Vec<u8> {
    let many = random.usize(1..6_000);
    let hex = |digits: &str| hex::decode(digits).unwrap_or_default();
    let (head, part, tail): (Vec<u8>, Vec<u8>, Vec<u8>) = match (codec, random.u8(..3)) {
        (Codec::Kryo5, 0) => (hex("01006a6176612e7574696c2e41727261794c6973f47fffff7f"), hex("0204"), vec![]),
        (Codec::Kryo5, 1) => (hex("01006a6176612e7574696c2e41727261794c6973f402"), hex("010002"), vec![]),
        (Codec::Kryo5, _) => (hex("01006a6176612e6d6174682e426967496e74656765f2ff03"), hex("7f"), vec![]),
        (Codec::Kryo5Refs, 0) => (hex("01006a6176612e7574696c2e41727261794c6973f4017fffff7f036162e3"), hex("0302"), vec![]),
        (Codec::Kryo5Refs, 1) => (hex("01006a6176612e7574696c2e41727261794c6973f40103"), hex("01000103010002"), vec![]),
        (Codec::Kryo5Refs, _) => (hex("01006a6176612e7574696c2e41727261794c6973f4017fffff7f"), hex("010003"), vec![]),
        (Codec::Marshalling, 0) => (hex("0453295a53025a3e05616161616101"), hex("53025a39fe39fe"), vec![]),
        (Codec::Marshalling, 1) => (hex("04"), hex("53015a"), vec![]),
        (Codec::Marshalling, _) => (hex("0455ffffffff7b"), hex("3e0561616161"), vec![]),
        (Codec::Java, 0) => (hex("aced0005"), hex("757200025b4c0000000000000000020000787000000001"), vec![]),
        (Codec::Java, 1) => (hex("aced0005757200025b4c00000000000000000200007870000fffff74000361616161"), hex("71007e0002"), vec![]),
        (Codec::Java, _) => (hex("aced000574ffff"), hex("c080"), vec![]),
        (Codec::Cbor, 0) => (vec![0x9f], vec![0], vec![0xff]),
        (Codec::Cbor, 1) => (vec![], vec![0x81], vec![0]),
        (Codec::Cbor, _) => (hex("c25a0000ffff"), vec![0xff], vec![]),
        (Codec::Msgpack, 0) => (hex("dd0000ffff"), vec![1], vec![]),
        (Codec::Msgpack, _) => (vec![], vec![0x91], vec![1]),
        (Codec::Smile, 0) => (hex("3a290a03f8"), hex("40"), hex("f9")),
        (Codec::Smile, 1) => (hex("3a290a03f843616161616161"), hex("01"), hex("f9")),
        (Codec::Smile, _) => (hex("3a290a00"), hex("f8"), vec![]),
        (_, 0) => (b"[".to_vec(), b"0,".to_vec(), b"0]".to_vec()),
        (_, 1) => (b"".to_vec(), b"[".to_vec(), b"".to_vec()),
        (_, _) => (b"1".to_vec(), b"7".to_vec(), b"".to_vec()),
    };
    [head, part.repeat(many), tail].concat()
}

/// Around an inner payload: LZ4 as literals only, Snappy too, Zstandard as a raw block; and the declared length is sometimes wrong.
fn packed(random: &mut Rng, compression: Compression, inner: Vec<u8>) -> Vec<u8> {
    let inner = &inner[..inner.len().min(30_000)];
    let wrong = random.u8(..8) == 0;
    let length = if wrong { random.u32(..) } else { inner.len() as u32 };
    let mut packed = length.to_be_bytes().to_vec();
    match compression {
        Compression::Lz4 => {
            packed.push((inner.len().min(15) as u8) << 4);
            if let Some(mut rest) = inner.len().checked_sub(15) {
                while rest >= 255 {
                    packed.push(255);
                    rest -= 255;
                }
                packed.push(rest as u8);
            }
            packed.extend_from_slice(inner);
        }
        Compression::Zstd => {
            packed.extend_from_slice(&[0x28, 0xb5, 0x2f, 0xfd, 0, 0x58]);
            // One block, raw, or one that repeats its first byte up to 128 KiB.
            let repeats = random.u8(..4) == 0;
            let size = if repeats { random.u32(..1 << 17) } else { inner.len() as u32 };
            if repeats && !wrong {
                packed[..4].copy_from_slice(&size.to_be_bytes());
            }
            let head = size << 3 | u32::from(repeats) << 1 | 1;
            packed.extend_from_slice(&head.to_le_bytes()[..3]);
            packed.extend_from_slice(if repeats { &inner[..inner.len().min(1)] } else { inner });
        }
        _ => {
            packed.clear();
            let mut rest = if wrong { random.u32(..) } else { inner.len() as u32 };
            while rest >= 0x80 {
                packed.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            packed.push(rest as u8);
            for part in inner.chunks(60) {
                packed.push((part.len() as u8 - 1) << 2);
                packed.extend_from_slice(part);
            }
        }
    }
    packed
}
