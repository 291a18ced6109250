//! The two layouts in which Redisson packs an element, distinguished by exact length. Pure; never reads the payload.
//!
//! ```text
//! old (up to 3.21.0)   f64 LE random   u64 LE length   payload          16 + length bytes
//! new (from 3.21.1)    8   8 random bytes   u64 LE length   payload     17 + length bytes
//! ```
//!
//! Redis's `struct` library packs in the byte order and with the `long` of its host; 64-bit little-endian is meant here.

/// The layout of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// `dLc0`: Redisson up to 3.21.0.
    Old,
    /// `Bc0Lc0`: Redisson from 3.21.1 on.
    New,
}

impl Layout {
    /// Returns the word for a person.
    pub fn as_str(self) -> &'static str {
        match self {
            Layout::Old => "old",
            Layout::New => "new",
        }
    }

    /// Returns the number of bytes in front of the payload.
    pub fn header(self) -> usize {
        match self {
            Layout::Old => 16,
            Layout::New => 17,
        }
    }
}

/// The fixed beginning of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The layout it has.
    pub layout: Layout,
    /// The element's own eight random bytes.
    pub id: [u8; 8],
}

/// The bytes fit neither layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{len} bytes that fit neither layout of Redisson")]
pub struct Junk {
    /// Length of what was found.
    pub len: usize,
}

/// Bytes in front of the payload, in the layout that has more of them.
pub const FIXED: usize = 17;

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn id_at(bytes: &[u8], at: usize) -> Option<[u8; 8]> {
    Some(*bytes.get(at..)?.first_chunk()?)
}

/// Reads the head of an element of `len` bytes, of which `start` is the beginning: the first [`FIXED`] bytes are enough.
/// The payload follows after [`Layout::header`] bytes.
///
/// # Errors
///
/// [`Junk`] if the total length fits neither layout exactly: foreign data.
pub fn head(start: &[u8], len: usize) -> Result<Head, Junk> {
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
    Ok(Head { layout, id: id.ok_or(junk)? })
}

/// Packs a payload as Redisson does. In the old layout the id is the bytes of a double; any eight bytes are accepted.
pub fn pack(layout: Layout, id: [u8; 8], payload: &[u8]) -> Vec<u8> {
    let mut element = Vec::with_capacity(FIXED + payload.len());
    if layout == Layout::New {
        element.push(8);
    }
    element.extend_from_slice(&id);
    element.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    element.extend_from_slice(payload);
    element
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(hex_text: &str, expected: Option<(Layout, &str, &str)>) {
        let bytes = hex::decode(hex_text.replace(' ', "")).unwrap();
        let got = head(&bytes, bytes.len()).ok();
        let got = got.map(|e| (e.layout, hex::encode(e.id), hex::encode(&bytes[e.layout.header()..])));
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
        for layout in [Layout::Old, Layout::New] {
            let element = pack(layout, *b"RANDOM8B", b"hello");
            let got = head(&element[..FIXED], element.len());
            assert_eq!(got, Ok(Head { layout, id: *b"RANDOM8B" }));
            assert_eq!(head(&element[..FIXED], element.len() + 1), Err(Junk { len: element.len() + 1 }));
        }
    }

    #[test]
    fn every_recorded_element_of_redisson_parses() {
        let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/redisson.jsonl"));
        let mut seen = 0;
        for line in text.lines() {
            let vector: serde_json::Value = serde_json::from_str(line).unwrap();
            let bytes = hex::decode(vector["member_hex"].as_str().unwrap()).unwrap();
            let layout = if vector["layout"] == "dLc0" { Layout::Old } else { Layout::New };
            assert_eq!(head(&bytes, bytes.len()).map(|e| e.layout), Ok(layout), "{line}");
            seen += 1;
        }
        assert!(seen > 2000, "{seen}");
    }
}
