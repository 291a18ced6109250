//! The order of two decimal numbers of any length, by their digits: no number is rounded.

use std::cmp::Ordering;

/// A number as JSON spells it, by its parts.
struct ExactNumber<'a> {
    negative: bool,
    /// Place of the first digit that is not zero, relative to the decimal point.
    magnitude: i64,
    /// The digits from there on; empty for zero.
    digits: &'a [u8],
}

/// Compares two numbers in the spelling of JSON.
pub(super) fn compare(left: &str, right: &str) -> Ordering {
    let left = ExactNumber::read(left);
    let right = ExactNumber::read(right);
    match (left.sign(), right.sign()) {
        (1, 1) => left.size(&right),
        (-1, -1) => right.size(&left),
        (left, right) => left.cmp(&right),
    }
}

impl ExactNumber<'_> {
    fn read(text: &str) -> ExactNumber<'_> {
        let negative = text.starts_with('-');
        let text = text.trim_start_matches('-');
        let (mantissa, exponent) = text.split_at(text.find(['e', 'E']).unwrap_or(text.len()));
        let whole = mantissa.find('.').unwrap_or(mantissa.len());
        let first = mantissa.bytes().position(|byte| !matches!(byte, b'0' | b'.')).unwrap_or(mantissa.len());
        // The point is no digit.
        let place = if first > whole { first - 1 } else { first };
        let place = i64::try_from(whole).unwrap_or(i64::MAX) - i64::try_from(place).unwrap_or(i64::MAX);
        let digits = &mantissa.as_bytes()[first..];
        ExactNumber { negative, magnitude: place.saturating_add(power(exponent)), digits }
    }

    fn sign(&self) -> i8 {
        match (self.digits.is_empty(), self.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    /// Compares without the signs.
    fn size(&self, other: &ExactNumber<'_>) -> Ordering {
        self.magnitude.cmp(&other.magnitude).then_with(|| self.significant().cmp(other.significant()))
    }

    /// Returns the digits up to the last that is not zero.
    fn significant(&self) -> impl Iterator<Item = u8> {
        let last = self.digits.iter().rposition(|byte| !matches!(byte, b'0' | b'.'));
        self.digits[..last.map_or(0, |last| last + 1)].iter().copied().filter(|byte| *byte != b'.')
    }
}

/// Returns the power of ten behind an `e`; one that is out of all bounds as the bound.
fn power(exponent: &str) -> i64 {
    let digits = exponent.trim_start_matches(['e', 'E', '+']);
    if digits.is_empty() {
        return 0;
    }
    digits.parse().unwrap_or(if digits.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 })
}
