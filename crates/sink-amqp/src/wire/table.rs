//! Whether the client library can read the properties of a message. Pure.

/// Tables and lists within each other that are read, beside the table of the headers: as many as the job of a message can
/// keep, whose reader allows 128 levels and takes two for each.
pub(crate) const DEEPEST: usize = 63;

/// The properties in the order of their flags, from the highest bit.
const PROPERTIES: [Property; 14] = [
    Property::Short,
    Property::Short,
    Property::Table,
    Property::Bytes(1),
    Property::Bytes(1),
    Property::Short,
    Property::Short,
    Property::Short,
    Property::Short,
    Property::Bytes(8),
    Property::Short,
    Property::Short,
    Property::Short,
    Property::Short,
];

/// The places of two properties.
const HEADERS: usize = 2;
const MESSAGE_ID: usize = 8;

/// The layout of a property.
#[derive(Clone, Copy)]
enum Property {
    Short,
    Table,
    Bytes(usize),
}

/// Returns whether the library reads these properties, flags first, to their last byte.
pub(super) fn readable(properties: &[u8]) -> bool {
    let mut rest = Rest(properties);
    all(&mut rest, |_, _| {}).is_some() && rest.0.is_empty()
}

/// The bytes that were not read yet; `None` is the answer where there are too few, or others than may be.
pub(super) struct Rest<'a>(pub(super) &'a [u8]);

impl<'a> Rest<'a> {
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|taken| taken[0])
    }

    pub(super) fn short_int(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes([self.byte()?, self.byte()?]))
    }

    pub(super) fn short(&mut self) -> Option<&'a [u8]> {
        let length = self.byte()?;
        self.take(length.into())
    }

    pub(super) fn long_long(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(super) fn long(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_be_bytes(self.take(4)?.try_into().ok()?);
        self.take(usize::try_from(length).ok()?)
    }
}

/// Reads properties, and gives each to `seen`, by its place and with its bytes.
fn all<'a>(rest: &mut Rest<'a>, mut seen: impl FnMut(usize, &'a [u8])) -> Option<()> {
    let flags = rest.short_int()?;
    for (bit, property) in PROPERTIES.iter().enumerate() {
        if flags & (0x8000 >> bit) != 0 {
            let from = rest.0;
            match property {
                Property::Short => {
                    let _ = std::str::from_utf8(rest.short()?).ok()?;
                }
                Property::Table => is_table(rest.long()?, DEEPEST)?,
                Property::Bytes(count) => {
                    let _ = rest.take(*count)?;
                }
            }
            seen(bit, &from[..from.len() - rest.0.len()]);
        }
    }
    // The last two bits are flags that the protocol has not defined.
    (flags & 3 == 0).then_some(())
}

/// Builds properties with the id of these alone, or without any if there is none that can be read.
pub(super) fn id_alone(properties: &[u8]) -> Vec<u8> {
    let mut id = None;
    let read = all(&mut Rest(properties), |bit, bytes| {
        if bit == MESSAGE_ID {
            id = Some(bytes);
        }
    });
    match id.filter(|_| read.is_some()) {
        Some(id) => [&(0x8000_u16 >> MESSAGE_ID).to_be_bytes(), id].concat(),
        None => vec![0, 0],
    }
}

/// Builds properties that are one header without a value.
pub(super) fn header_alone(name: &str) -> Vec<u8> {
    with_header(&[0, 0], name)
}

/// Adds to readable properties a header without a value.
pub(super) fn with_header(properties: &[u8], name: &str) -> Vec<u8> {
    let entry = [&[name.len() as u8], name.as_bytes(), b"V"].concat();
    let flags = Rest(properties).short_int().unwrap_or(0) | 0x8000 >> HEADERS;
    let mut before = Vec::new();
    let mut table = &[][..];
    let mut after = Vec::new();
    // Nothing is left out: they are readable.
    let _read = all(&mut Rest(properties), |bit, bytes| match bit {
        ..HEADERS => before.extend(bytes),
        HEADERS => table = &bytes[4..],
        _ => after.extend(bytes),
    });
    let length = ((table.len() + entry.len()) as u32).to_be_bytes();
    [&flags.to_be_bytes()[..], &before, &length, table, &entry, &after].concat()
}

/// Reads the entries of a table, in which others may be nested this deep.
pub(super) fn is_table(entries: &[u8], deeper: usize) -> Option<()> {
    let mut rest = Rest(entries);
    while !rest.0.is_empty() {
        std::str::from_utf8(rest.short()?).ok()?;
        value(&mut rest, deeper)?;
    }
    Some(())
}

fn list(values: &[u8], deeper: usize) -> Option<()> {
    let mut rest = Rest(values);
    while !rest.0.is_empty() {
        value(&mut rest, deeper)?;
    }
    Some(())
}

fn value(rest: &mut Rest<'_>, deeper: usize) -> Option<()> {
    match rest.byte()? {
        b'V' => Some(()),
        b't' | b'b' | b'B' => rest.take(1).map(drop),
        b's' | b'U' | b'u' => rest.take(2).map(drop),
        b'I' | b'i' | b'f' => rest.take(4).map(drop),
        b'D' => rest.take(5).map(drop),
        b'L' | b'l' | b'd' | b'T' => rest.take(8).map(drop),
        b'S' | b'x' => rest.long().map(drop),
        b'F' => is_table(rest.long()?, deeper.checked_sub(1)?),
        b'A' => list(rest.long()?, deeper.checked_sub(1)?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use lapin::protocol::basic::parse_properties;

    use super::*;

    fn short(text: &[u8]) -> Vec<u8> {
        [&[text.len() as u8], text].concat()
    }

    fn long(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
    }

    /// Builds properties that are headers alone: one, with this value.
    fn header(value: &[u8]) -> Vec<u8> {
        [vec![0x20, 0], long(&[short(b"name"), value.to_vec()].concat())].concat()
    }

    /// Builds properties whose only header has tables and lists in turn within each other.
    fn nested(depth: usize) -> Vec<u8> {
        let mut value = b"I\0\0\0\x01".to_vec();
        for level in 0..depth {
            value = match level % 2 {
                0 => [&b"F"[..], &long(&[short(b"n"), value].concat())].concat(),
                _ => [&b"A"[..], &long(&value)].concat(),
            };
        }
        header(&value)
    }

    /// Returns whether the library reads them to their last byte.
    fn library_reads(properties: &[u8]) -> bool {
        matches!(parse_properties(properties), Ok((rest, _)) if rest.is_empty())
    }

    #[test]
    fn what_the_library_cannot_read_is_not_readable() {
        for (expected, properties) in [
            (true, vec![0, 0]),
            (true, [vec![0x80, 0], short("ü".as_bytes())].concat()),
            (false, [vec![0x80, 0], short(b"\xfc")].concat()),
            (false, [vec![0x00, 0x80], short(b"m\xff")].concat()),
            (true, header(b"V")),
            (true, header(&[b"S", &long(b"\xff\xfe")[..]].concat())),
            (true, header(&[b"x", &long(b"\xff")[..]].concat())),
            (true, header(b"D\x02\0\0\0\x01")),
            (false, header(b"D\x02\0\0\0")),
            (false, header(b"z")),
            (false, header(b"")),
            (false, [vec![0x20, 0], long(&[short(b"\xff"), b"V".to_vec()].concat())].concat()),
            (false, header(&[b"F", &long(&[short(b"\xff"), b"V".to_vec()].concat())[..]].concat())),
            (true, nested(DEEPEST)),
            (false, nested(DEEPEST + 1)),
            (false, nested(9_000)),
            (false, [vec![0, 0], b"more".to_vec()].concat()),
            (false, vec![0]),
        ] {
            assert_eq!(readable(&properties), expected, "{properties:02x?}");
        }
    }

    #[test]
    fn of_properties_the_id_is_kept_alone_and_a_header_is_added() {
        let text = short(b"text/plain");
        let id = short(b"id");
        let entry = |name: &[u8]| [&short(name)[..], b"V"].concat();
        let all = |entries: &[u8]| [&[0xa0, 0x80][..], &text, &long(entries), &id].concat();
        assert_eq!(id_alone(&all(&entry(b"n"))), [&[0, 0x80][..], &id].concat());
        for without in [vec![0, 0], vec![0x80, 0, 1, b'a'], vec![0, 0x80, 1, 0xff], vec![0, 0x81, 1, b'a']] {
            assert_eq!(id_alone(&without), [0, 0], "{without:02x?}");
        }
        assert_eq!(with_header(&all(&entry(b"n")), "more"), all(&[entry(b"n"), entry(b"more")].concat()));
        let without = [&[0x80, 0x80][..], &text, &id].concat();
        assert_eq!(with_header(&without, "more"), all(&entry(b"more")));
        assert!(library_reads(&with_header(&without, "more")) && library_reads(&header_alone("alone")));
    }

    #[test]
    fn whatever_is_readable_the_library_reads() {
        let letters = b"VtbBsUuIifDLldTSxFAz";
        let mut read = 0;
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200_000 {
            // Few bits and small numbers, so that much of it is right.
            let mut properties = vec![random.u8(..) & random.u8(..), random.u8(..) & random.u8(..) & random.u8(..)];
            for _ in 0..random.usize(..24) {
                properties.push(match random.u8(..8) {
                    0 => random.u8(..),
                    1..3 => letters[random.usize(..letters.len())],
                    3 => random.u8(..4),
                    _ => 0,
                });
            }
            if readable(&properties) {
                read += 1;
                assert!(library_reads(&properties), "{properties:02x?}");
            }
        }
        assert!(read > 2_000, "only {read} were readable");
    }
}
