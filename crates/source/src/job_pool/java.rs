//! Texts and numbers in Java serialization, as a Spring `RedisTemplate` without configured serializers writes the names of
//! keys and the fields of hashes.

use bytes::Bytes;

/// A `java.lang.Long` up to its eight bytes: every JDK writes the same.
const LONG: &[u8] = b"\xac\xed\0\x05sr\0\x0ejava.lang.Long;\x8b\xe4\x90\xcc\x8f\x23\xdf\x02\0\x01J\0\x05valuexr\0\x10\
    java.lang.Number\x86\xac\x95\x1d\x0b\x94\xe0\x8b\x02\0\0xp";

/// Returns a `Long`.
pub fn long(number: i64) -> Bytes {
    [LONG, &number.to_be_bytes()].concat().into()
}

/// Returns a `String`. Of what Java spells in another way than UTF-8 there is nothing in names that people give: NUL,
/// and what is beyond the first 65,536 characters of Unicode. Such a name, and one that is too long, answers `None`.
pub fn text(text: &str) -> Option<Bytes> {
    let plain = text.chars().all(|c| c != '\0' && u32::from(c) < 0x1_0000);
    let length = u16::try_from(text.len()).ok().filter(|_| plain)?;
    Some([b"\xac\xed\0\x05t", &length.to_be_bytes()[..], text.as_bytes()].concat().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded with JDK 17.
    #[test]
    fn names_and_ids_are_what_java_writes() {
        for (name, hex) in [
            ("job.pool", "aced00057400086a6f622e706f6f6c"),
            ("bucket0", "aced00057400076275636b657430"),
            ("process.queueorder", "aced000574001270726f636573732e71756575656f72646572"),
        ] {
            assert_eq!(text(name).map(hex::encode).as_deref(), Some(hex));
        }
        let expected = "aced00057372000e6a6176612e6c616e672e4c6f6e673b8be490cc8f23df0200014a000576616c7565787200106a6176612e\
            6c616e672e4e756d62657286ac951d0b94e08b02000078700000011f71fb04cb";
        assert_eq!(hex::encode(long(1_234_567_890_123)), expected);
        assert_eq!((text("\0"), text("\u{1f600}"), text(&"x".repeat(70_000))), (None, None, None));
    }
}
