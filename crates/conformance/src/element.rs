//! Reads an element as the specification says, and shares no code with a producer.

/// The layout in which a producer packs elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Since Redisson 3.21.1: `08`, eight bytes, the length in eight bytes, the payload.
    Current,
    /// Up to 3.21.0: eight bytes of a double, the length in eight bytes, the payload.
    Old,
}

/// An element taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element<'a> {
    /// The eight bytes of its identity.
    pub id: [u8; 8],
    /// The payload of the application.
    pub payload: &'a [u8],
}

/// Takes an element apart; the error says what is wrong with it.
pub fn read(layout: Layout, bytes: &[u8]) -> Result<Element<'_>, String> {
    let whole = bytes;
    let bytes = match (layout, bytes) {
        (Layout::Current, [8, rest @ ..]) => rest,
        (Layout::Current, [first, ..]) => return Err(format!("its first byte is {first:02x}, not 08")),
        (_, rest) => rest,
    };
    let (Some((id, rest)), length) = (bytes.split_first_chunk::<8>(), whole.len()) else {
        return Err(format!("it has {} bytes, fewer than its head", whole.len()));
    };
    let Some((size, payload)) = rest.split_first_chunk::<8>() else {
        return Err(format!("it has {length} bytes, fewer than its head"));
    };
    let said = u64::from_le_bytes(*size);
    if said != payload.len() as u64 {
        let other =
            if u64::from_be_bytes(*size) == payload.len() as u64 { " (it is right in big-endian order)" } else { "" };
        return Err(format!("its length field, little-endian, says {said}, but {} bytes follow{other}", payload.len()));
    }
    Ok(Element { id: *id, payload })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_read_byte_by_byte() {
        let check = |layout, text: &str, expected: Result<(&str, &str), &str>| {
            let bytes = hex::decode(text.replace(' ', "")).unwrap();
            let got = read(layout, &bytes).map(|element| (hex::encode(element.id), hex::encode(element.payload)));
            match (got, expected) {
                (Ok(got), Ok((id, payload))) => assert_eq!(got, (id.to_owned(), payload.to_owned()), "{text}"),
                (Err(got), Err(part)) => assert!(got.contains(part), "{got}"),
                (got, _) => panic!("{text}: {got:?}"),
            }
        };
        let current = "08 52414e444f4d3842 0500000000000000 68656c6c6f";
        check(Layout::Current, current, Ok(("52414e444f4d3842", "68656c6c6f")));
        check(Layout::Old, "d3c22b07bf87d243 0500000000000000 68656c6c6f", Ok(("d3c22b07bf87d243", "68656c6c6f")));
        check(Layout::Current, "08 0102030405060708 0000000000000000", Ok(("0102030405060708", "")));
        check(Layout::Current, "08 52414e444f4d3842 0000000000000005 68656c6c6f", Err("right in big-endian order"));
        check(Layout::Current, "10 52414e444f4d3842 0500000000000000 68656c6c6f", Err("first byte is 10"));
        check(Layout::Current, "", Err("0 bytes"));
        check(Layout::Current, "08 0102", Err("3 bytes"));
        check(Layout::Old, "0102030405060708 05", Err("9 bytes"));
    }
}
