//! The two layouts in which Redisson packs an element, distinguished by exact length. Pure; never reads the payload.
//!
//! ```text
//! old (up to 3.21.0)   f64 LE random   u64 LE length   payload          16 + length bytes
//! new (from 3.21.1)    8   8 random bytes   u64 LE length   payload     17 + length bytes
//! ```
//!
//! Redis's `struct` library packs in the byte order and with the `long` of its host; 64-bit little-endian is meant here.

use bytes::Bytes;

use delaybridge_core::message::MessageId;

/// The layout of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// `dLc0`: Redisson up to 3.21.0.
    Old,
    /// `Bc0Lc0`: Redisson from 3.21.1 on.
    New,
}

impl Layout {
    /// The word for a person.
    pub fn as_str(self) -> &'static str {
        match self {
            Layout::Old => "old",
            Layout::New => "new",
        }
    }

    /// Bytes in front of the payload.
    pub fn header(self) -> usize {
        match self {
            Layout::Old => 16,
            Layout::New => 17,
        }
    }
}

/// An element taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// The layout it has.
    pub layout: Layout,
    /// The element's own eight random bytes.
    pub id: MessageId,
    /// The bytes that the application offered, in its codec; shares the element's memory.
    pub payload: Bytes,
}

/// The bytes fit neither layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{len} bytes that fit neither layout of Redisson")]
pub struct Junk {
    /// Length of what was found.
    pub len: usize,
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn id_at(bytes: &[u8], at: usize) -> Option<MessageId> {
    Some(MessageId(*bytes.get(at..)?.first_chunk()?))
}

/// Takes an element apart.
///
/// # Errors
///
/// [`Junk`] if the total length fits neither layout exactly: foreign data.
pub fn parse(element: &Bytes) -> Result<Element, Junk> {
    parse_start(element, element.len())
}

/// As [`parse`], where only the beginning of an element of `len` bytes was read; the payload is what was read of it.
/// The first [`FIXED`] bytes are enough.
///
/// # Errors
///
/// As for [`parse`].
pub fn parse_start(start: &Bytes, len: usize) -> Result<Element, Junk> {
    let junk = Junk { len };
    let len = len as u64;
    let new = start.first() == Some(&8) && u64_at(start, 9).and_then(|n| n.checked_add(17)) == Some(len);
    let old = u64_at(start, 8).and_then(|n| n.checked_add(16)) == Some(len);
    // One shape of 17 bytes fits both: an empty payload in the new layout, or the one byte 00 in the old one. The
    // exponent of a random long distinguishes them: byte 7 of its double is 43 or c3.
    let layout = match (new, old) {
        (true, true) if matches!(start[7], 0x43 | 0xc3) => Layout::Old,
        (true, _) => Layout::New,
        (false, true) => Layout::Old,
        (false, false) => return Err(junk),
    };
    let id = match layout {
        Layout::New => id_at(start, 1),
        Layout::Old => id_at(start, 0),
    };
    Ok(Element { layout, id: id.ok_or(junk)?, payload: start.slice(layout.header()..) })
}

/// Bytes in front of the payload, in the layout that has more of them.
pub const FIXED: usize = 17;

/// Packs a payload as Redisson does. In the old layout the id is the bytes of a double; any eight bytes are accepted.
pub fn pack(layout: Layout, id: MessageId, payload: &[u8]) -> Vec<u8> {
    let mut element = Vec::with_capacity(17 + payload.len());
    if layout == Layout::New {
        element.push(8);
    }
    element.extend_from_slice(&id.0);
    element.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    element.extend_from_slice(payload);
    element
}

pub use delaybridge_ledger::junk_id;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(hex_text: &str, expected: Option<(Layout, &str, &str)>) {
        let bytes = Bytes::from(hex::decode(hex_text.replace(' ', "")).unwrap());
        let got = parse(&bytes).ok().map(|e| (e.layout, e.id.to_string(), hex::encode(e.payload)));
        assert_eq!(got, expected.map(|(l, id, p)| (l, id.to_owned(), p.to_owned())), "{hex_text}");
    }

    #[test]
    fn layouts_are_distinguished_by_exact_length() {
        let new = "08 52414e444f4d3842 0500000000000000 68656c6c6f";
        let old = "d3c22b07bf87d243 0500000000000000 68656c6c6f";
        check(new, Some((Layout::New, "52414e444f4d3842", "68656c6c6f")));
        check(old, Some((Layout::Old, "d3c22b07bf87d243", "68656c6c6f")));
        check(&format!("{new}00"), None);
        check(&old[..old.len() - 2], None);
        check("", None);
        check("08", None);
        check("0102030405060708 ffffffffffffffff", None);
        check("08 0102030405060708 0000000000000000", Some((Layout::New, "0102030405060708", "")));
        check("0102030405060708 0000000000000000", Some((Layout::Old, "0102030405060708", "")));
    }

    #[test]
    fn the_one_shape_that_fits_both_is_decided_by_the_exponent() {
        check("08 41414141414141 01 0000000000000000", Some((Layout::New, "4141414141414101", "")));
        check("08 414141414141 43 01 0000000000000000", Some((Layout::Old, "0841414141414143", "00")));
    }

    #[test]
    fn the_beginning_of_an_element_shows_its_layout() {
        let id = MessageId(*b"RANDOM8B");
        for layout in [Layout::Old, Layout::New] {
            let element = Bytes::from(pack(layout, id, b"hello"));
            let got = parse_start(&element.slice(..FIXED), element.len()).unwrap();
            assert_eq!((got.layout, got.id), (layout, id));
            assert_eq!(parse_start(&element.slice(..FIXED), element.len() + 1), Err(Junk { len: element.len() + 1 }));
        }
    }

    #[test]
    fn no_bytes_make_the_parser_panic_and_what_it_packs_it_reads() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let n = rng.usize(0..40);
            let mut bytes: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(n).collect();
            if let Some(first) = bytes.first_mut().filter(|_| rng.bool()) {
                *first = 8;
            }
            let _ = parse(&Bytes::from(bytes.clone()));
            let id = MessageId(rng.u64(..).to_be_bytes());
            let element = parse(&Bytes::from(pack(Layout::New, id, &bytes))).unwrap();
            assert_eq!((element.id, element.payload), (id, Bytes::from(bytes)));
        }
    }

    #[test]
    fn every_recorded_element_of_redisson_parses() {
        let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/redisson.jsonl"));
        let mut seen = 0;
        for line in text.lines() {
            let vector: serde_json::Value = serde_json::from_str(line).unwrap();
            let bytes = Bytes::from(hex::decode(vector["member_hex"].as_str().unwrap()).unwrap());
            let layout = if vector["layout"] == "dLc0" { Layout::Old } else { Layout::New };
            assert_eq!(parse(&bytes).map(|e| e.layout), Ok(layout), "{line}");
            seen += 1;
        }
        assert!(seen > 2000, "{seen}");
    }
}
