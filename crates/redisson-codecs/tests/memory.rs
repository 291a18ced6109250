//! The peak memory of a decoder, counted by the allocator. A separate binary with one test, so that nothing else runs
//! beside it.

use peak_alloc::PeakAlloc;
use redisson_codecs::bytes::Bytes;
use redisson_codecs::{Coding, decode};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const BOUND: usize = 1 << 20;

/// The peak in bytes above the usage before, and the size of the body.
fn peak(codec: &str, payload: Vec<u8>) -> (usize, Option<usize>) {
    let coding = Coding { max_decoded_size: BOUND, ..codec.parse().unwrap() };
    let payload = Bytes::from(payload);
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let body = decode(coding, &payload).ok().map(|decoded| decoded.decoded().len());
    (ALLOCATOR.peak_usage() - before, body)
}

fn references(codec: &str) -> Vec<u8> {
    let digits = |text: &str| hex::decode(text.replace(' ', "")).unwrap();
    let list = |head: &str, first: Vec<u8>, again: &str| [digits(head), first, digits(again).repeat(60_000)].concat();
    match codec {
        // A list of 60,001: one number of 500 bytes, and references to it.
        "kryo5_refs" => list(
            "01006a6176612e7574696c2e41727261794c6973f4 01 62 a90e",
            [digits("01016a6176612e6d6174682e426967496e746567 65f2 01 f503"), vec![0x7f; 500]].concat(),
            "0101 03",
        ),
        // An Object[] of a BigInteger with 500 bytes of magnitude, and references to it.
        _ => list(
            "aced0005 75 72 0013 5b4c6a6176612e6c616e672e4f626a6563743b 0000000000000000 02 0000 78 70 0000ea61",
            [
                digits("73 72 0014 6a6176612e6d6174682e426967496e7465676572 0000000000000000 02 0002"),
                digits("49 0006 7369676e756d 5b 0009 6d61676e6974756465 74 0002 5b42 78 70 00000001"),
                digits("75 72 0002 5b42 0000000000000000 02 0000 78 70 000001f4"),
                vec![0x7f; 500],
            ]
            .concat(),
            "71 007e0005",
        ),
    }
}

#[test]
fn no_payload_takes_more_than_four_times_the_bound() {
    let zeros = |many: usize| [b"[".as_slice(), &b"0,".repeat(many), b"0]"].concat();
    let zstd = |inner: &[u8]| {
        // A frame of one block that repeats a byte: 128 KiB from four bytes.
        let blocks = inner.len() / (128 << 10);
        let mut packed = ((blocks << 17) as u32).to_be_bytes().to_vec();
        packed.extend_from_slice(&[0x28, 0xb5, 0x2f, 0xfd, 0, 0x58]);
        for block in 0..blocks {
            let head = (1_u32 << 17) << 3 | 1 << 1 | u32::from(block + 1 == blocks);
            packed.extend_from_slice(&head.to_le_bytes()[..3]);
            packed.push(b'0');
        }
        packed
    };
    let kryo_list = |element: &[u8], many: usize| {
        let head = hex::decode("01006a6176612e7574696c2e41727261794c6973f4").unwrap();
        let size = many + 1;
        let size = [0x40 | (size & 0x3f) as u8, ((size >> 6) & 0x7f | 0x80) as u8, (size >> 13) as u8];
        [head, size.to_vec(), element.repeat(many)].concat()
    };
    let cases: Vec<(&str, &str, Vec<u8>)> = vec![
        ("zeros within the bound", "json", zeros(8_000)),
        ("zeros beyond it", "json", zeros(1 << 20)),
        (
            "names",
            "json",
            [
                b"{".as_slice(),
                &(0..3_500).flat_map(|n| format!("\"{n}\":{n},").into_bytes()).collect::<Vec<_>>(),
                b"\"x\":0}",
            ]
            .concat(),
        ),
        ("brackets", "jackson", [b"[".as_slice(), &b"[],".repeat(4_000), b"[]]"].concat()),
        ("one text", "json", [b"\"".as_slice(), &vec![b'x'; BOUND - 200], b"\""].concat()),
        ("text of zeros unpacked", "zstd+string", zstd(&vec![b'0'; 1 << 20])),
        ("digits unpacked", "zstd+json", zstd(&vec![b'0'; 1 << 20])),
        ("small numbers", "kryo5", kryo_list(&[2, 2], 8_000)),
        ("small numbers beyond the bound", "kryo5", kryo_list(&[2, 2], 100_000)),
        ("lists of nothing", "cbor", [[0x9f].as_slice(), &[0x80; 8_000], &[0xff]].concat()),
        ("control characters", "cbor", [[0x7a].as_slice(), &160_000_u32.to_be_bytes(), &[1; 160_000]].concat()),
        (
            "control characters beyond the bound",
            "cbor",
            [[0x7a].as_slice(), &900_000_u32.to_be_bytes(), &[1; 900_000]].concat(),
        ),
        ("bytes", "msgpack", [[0x91, 0xc6].as_slice(), &700_000_u32.to_be_bytes(), &[255; 700_000]].concat()),
        ("a number and references to it", "java", references("java")),
        ("a number and references to it", "kryo5_refs", references("kryo5_refs")),
        (
            "bits",
            "kryo5",
            [hex::decode("01006a6176612e7574696c2e4269745365f4 a08d06".replace(' ', "")).unwrap(), vec![255; 800_000]]
                .concat(),
        ),
    ];
    let mut over = Vec::new();
    for (what, codec, payload) in cases {
        let size = payload.len();
        let (peak, body) = peak(codec, payload);
        // A Zstandard decoder has a window of its own.
        let most = 4 * BOUND + if codec.starts_with("zstd") { 10 << 20 } else { 0 };
        println!("{codec}, {what}: {size} bytes, {peak} at the peak, body {body:?}");
        if peak > most || body.is_some_and(|body| body > 2 * BOUND) {
            over.push(format!("{codec}, {what}: {peak} bytes at the peak, body {body:?}"));
        }
    }
    assert!(over.is_empty(), "{over:#?}");
}
