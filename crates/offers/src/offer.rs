//! The identity of an offer, and what its producer keeps of it to cancel it or to move it.

use std::fmt;
use std::str::FromStr;

use crate::layout::Layout;

/// The eight bytes that distinguish an element from others with the same payload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub [u8; 8]);

impl Id {
    /// Draws a random id, as clients of that layout do.
    ///
    /// # Errors
    ///
    /// The system's error, if it provides no randomness.
    pub fn random(layout: Layout) -> Result<Id, getrandom::Error> {
        loop {
            let mut random = [0; 8];
            getrandom::fill(&mut random)?;
            match layout {
                Layout::New => return Ok(Id(random)),
                Layout::Old => {
                    // Redisson's random long, converted to a double. One in 8,192 has a smaller exponent than the others;
                    // it is drawn again, because readers distinguish the two layouts of a 17-byte element by that exponent.
                    #[expect(clippy::cast_precision_loss, reason = "the loss is what the conversion in Redisson does")]
                    let double = (i64::from_le_bytes(random) as f64).to_le_bytes();
                    if matches!(double[7], 0x43 | 0xc3) {
                        return Ok(Id(double));
                    }
                }
            }
        }
    }
}

impl Id {
    /// Creates an id as [`random`](Id::random) does, but none that would make an element with this payload look like
    /// one of the other layout.
    ///
    /// # Errors
    ///
    /// As for [`random`](Id::random).
    pub fn random_for(layout: Layout, payload: &[u8]) -> Result<Id, getrandom::Error> {
        loop {
            let id = Id::random(layout)?;
            if layout == Layout::Old || !payload.is_empty() || !id.looks_old() {
                return Ok(id);
            }
        }
    }

    /// Returns whether an element of the current layout with this id and an empty payload is taken for one of the old
    /// layout.
    pub(crate) fn looks_old(self) -> bool {
        matches!(self.0, [.., 0x43 | 0xc3, 1])
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Id {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Id, Malformed> {
        let hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| hex);
        number.map(|number| Id(number.to_be_bytes())).ok_or(Malformed("16 hexadecimal digits"))
    }
}

/// An offer that was made: the id and the due time, by which it is found again.
///
/// Its text, such as `52414e444f4d3842-1767225600000`, may be stored; it parses back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Offer {
    /// The element's own eight bytes.
    pub id: Id,
    /// The due time, in ms since 1970.
    pub due_ms: i64,
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.id, self.due_ms)
    }
}

impl FromStr for Offer {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Offer, Malformed> {
        let malformed = Malformed("16 hexadecimal digits, a hyphen, and a time in ms");
        let (id, due) = text.split_once('-').ok_or(malformed)?;
        let due_ms = due.parse().map_err(|_| malformed)?;
        Ok(Offer { id: id.parse().map_err(|_| malformed)?, due_ms })
    }
}

/// A text that is no id, or no offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct Malformed(&'static str);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_is_read_back_from_its_text() {
        let offer = Offer { id: Id(*b"RANDOM8B"), due_ms: 1_767_225_600_000 };
        assert_eq!(offer.to_string(), "52414e444f4d3842-1767225600000");
        assert_eq!(offer.to_string().parse(), Ok(offer));
        for wrong in ["", "52414e444f4d3842", "52414e444f4d3842-", "+2414e444f4d3842-5", "52414e444f4d38421-5", "x-5"] {
            assert!(wrong.parse::<Offer>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_id_of_the_old_layout_is_a_double_of_a_random_long() {
        for _ in 0..100 {
            let id = Id::random(Layout::Old).unwrap();
            assert!(matches!(id.0[7], 0x43 | 0xc3), "{id}");
            let double = f64::from_le_bytes(id.0);
            assert!(double.fract() == 0.0 && double.abs() <= 9.3e18, "{double}");
        }
    }
}
