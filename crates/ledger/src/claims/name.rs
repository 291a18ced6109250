//! The name of a claim: the fence. It is part of the names of the claim's keys, and it never comes back.

use std::fmt;
use std::str::FromStr;

/// First field of every name: the version of what is behind it. A name of another version is left alone and reported.
const VERSION: &str = "1";

/// Leases in a row that ran out, from which on an element is delivered alone.
pub const SUSPECT_EXPIRIES: u16 = 3;
/// Leases in a row that ran out, after which an element is not delivered any more.
pub const MAX_EXPIRIES: u16 = 10;

/// Name of a claim: `1.OWNER.NUMBER.EXPIRIES`, the owner in hexadecimal digits.
///
/// An owner uses no number twice, for claims and takeovers alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimName {
    /// The random number of the process.
    pub owner: [u8; 8],
    /// Number of the claim or takeover.
    pub number: u64,
    /// Leases in a row that ran out on what it holds.
    pub expiries: u16,
}

impl ClaimName {
    /// Creates the name of a new claim.
    pub fn new(owner: [u8; 8], number: u64) -> Self {
        ClaimName { owner, number, expiries: 0 }
    }

    /// Creates the name under which this owner takes over what `self` holds.
    pub fn taken_over_by(self, owner: [u8; 8], number: u64) -> Self {
        ClaimName { owner, number, expiries: self.expiries.saturating_add(1) }
    }

    /// Returns whether what it holds has to be delivered alone: it may kill the process.
    pub fn is_suspect(self) -> bool {
        (SUSPECT_EXPIRIES..MAX_EXPIRIES).contains(&self.expiries)
    }

    /// Returns whether what it holds is not to be delivered any more.
    pub fn is_exhausted(self) -> bool {
        self.expiries >= MAX_EXPIRIES
    }
}

impl fmt::Display for ClaimName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}.{:016x}.{}.{}", u64::from_be_bytes(self.owner), self.number, self.expiries)
    }
}

/// Not the name of a claim, or one of another version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a claim of this version")]
pub struct NotAName;

impl FromStr for ClaimName {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let mut fields = text.split('.');
        let mut next = || fields.next().ok_or(NotAName);
        if next()? != VERSION {
            return Err(NotAName);
        }
        let owner = u64::from_str_radix(next()?, 16).map_err(|_| NotAName)?.to_be_bytes();
        let number = next()?.parse().map_err(|_| NotAName)?;
        let expiries = next()?.parse().map_err(|_| NotAName)?;
        let name = ClaimName { owner, number, expiries };
        // One spelling for each: a name is compared as text in Redis.
        if name.to_string() == text { Ok(name) } else { Err(NotAName) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back_as_it_was_written() {
        let name = ClaimName::new([0, 1, 2, 3, 4, 5, 0xfe, 0xff], 42);
        assert_eq!(name.to_string(), "1.000102030405feff.42.0");
        assert_eq!(name.to_string().parse(), Ok(name));
        let next = name.taken_over_by([9; 8], 7);
        assert_eq!(next.to_string(), "1.0909090909090909.7.1");
    }

    #[test]
    fn what_this_version_did_not_write_is_no_name() {
        for text in [
            "",
            "1",
            "1.0909090909090909.7",
            "2.0909090909090909.7.1",
            "1.909090909090909.7.1",
            "1.0909090909090909.07.1",
            "1.0909090909090909.7.1.",
            "1.0909090909090909.7.99999",
            "1.+909090909090909.7.1",
        ] {
            assert_eq!(text.parse::<ClaimName>(), Err(NotAName), "{text}");
        }
    }

    #[test]
    fn three_expiries_isolate_and_ten_end() {
        let at = |expiries| ClaimName { expiries, ..ClaimName::new([1; 8], 1) };
        assert!(!at(2).is_suspect() && at(3).is_suspect() && at(9).is_suspect() && !at(10).is_suspect());
        assert!(!at(9).is_exhausted() && at(10).is_exhausted());
    }
}
