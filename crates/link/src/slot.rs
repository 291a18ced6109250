//! The hash slots of Redis Cluster: the relevant part of a key, and its number.

/// Number of slots in a cluster.
pub const SLOTS: u16 = 16_384;

/// Returns the part of a key that decides its slot: the text between the first `{` and the next `}` if there is any,
/// else the whole key.
pub fn hashed(key: &str) -> &str {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// Returns the slot of a key, which need not be text.
pub fn slot(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

fn tag(key: &[u8]) -> &[u8] {
    let position = |bytes: &[u8], wanted: u8| bytes.iter().position(|byte| *byte == wanted);
    let inside = position(key, b'{').map(|open| &key[open + 1..]);
    let tag = inside.and_then(|rest| Some(&rest[..position(rest, b'}')?]));
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// Computes CRC-16/XMODEM, bit by bit, because a name is hashed once.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| crc << 1 ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        for (key, expected) in [("foo", 12_182), ("{user1000}.following", slot(b"user1000")), ("", 0)] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
        for key in ["foo{}{bar}", "foo{{bar}}zap", "foo{bar}{zap}", "{", "}{a}", "a{b"] {
            assert_eq!(tag(key.as_bytes()), hashed(key).as_bytes(), "{key}");
        }
        assert_eq!(
            (hashed("foo{}{bar}"), hashed("foo{{bar}}zap"), hashed("foo{bar}{zap}")),
            ("foo{}{bar}", "{bar", "bar")
        );
    }
}
