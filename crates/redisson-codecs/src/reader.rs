//! A bounded reader of untrusted bytes.
//!
//! Whatever the bytes are, a codec that reads through it ends: it never reads past the end, never goes deeper than
//! [`MAX_DEPTH`], and pays for every value out of a budget. A length in the data is a claim, not a size to allocate.

use super::error::{DecodeProblem, Refusal};

/// Maximum levels of nesting in a payload, as for the JSON parser. Bounds the stack of walking or dropping a value.
///
/// A map that becomes a list of `[key, value]` is one level in the payload, and two in the value.
pub const MAX_DEPTH: usize = 127;

/// The cost of one value beside its text, in bytes: a little more than the memory of a number, a list or an entry of an
/// object.
pub(super) const VALUE_COST: usize = 128;

/// A reader of bytes from front to back.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    budget: usize,
}

/// The result of reading: a value, or the reason why there is none.
pub(super) type Read<T> = Result<T, Refusal>;

impl<'a> Reader<'a> {
    /// Creates a reader of `bytes`, whose values may take `budget` bytes of memory.
    pub(super) fn new(bytes: &'a [u8], budget: usize) -> Self {
        Reader { bytes, at: 0, depth: 0, budget }
    }

    /// Returns the number of bytes read so far.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Returns the refusal of the last read byte.
    pub(super) fn refuse(&self, problem: DecodeProblem) -> Refusal {
        self.refuse_at(self.at.saturating_sub(1), problem)
    }

    pub(super) fn refuse_at(&self, offset: usize, problem: DecodeProblem) -> Refusal {
        Refusal { offset, problem }
    }

    /// Returns the refusal of the last read byte as invalid in the format.
    pub(super) fn malformed(&self, format: &'static str) -> Refusal {
        self.refuse(DecodeProblem::Malformed(format))
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    pub(super) fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        let taken = self.rest().get(..count);
        let taken = taken.ok_or_else(|| self.refuse_at(self.bytes.len(), DecodeProblem::Truncated))?;
        self.at += count;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let first = self.rest().first_chunk().copied();
        let first = first.ok_or_else(|| self.refuse_at(self.bytes.len(), DecodeProblem::Truncated))?;
        self.at += N;
        Ok(first)
    }

    pub(super) fn u8(&mut self) -> Read<u8> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    /// Reads a big-endian number, as Java and all network formats write it.
    pub(super) fn u16(&mut self) -> Read<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Read<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Read<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Read<i64> {
        self.array().map(i64::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Read<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a 32-bit count; a negative count in Java becomes more than there can be.
    pub(super) fn count(&mut self) -> Read<usize> {
        let count = self.u32()?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Pays for one value.
    pub(super) fn pay(&mut self) -> Read<()> {
        self.pay_for(VALUE_COST)
    }

    /// Pays for this many bytes of text.
    pub(super) fn pay_for(&mut self, bytes: usize) -> Read<()> {
        match self.budget.checked_sub(bytes) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => Err(self.refuse(DecodeProblem::TooLarge)),
        }
    }

    /// Pays for text as it would be printed in JSON.
    pub(super) fn pay_for_text(&mut self, text: &[u8]) -> Read<()> {
        let escapes = |byte: &u8| match byte {
            ..0x20 => 5,
            b'"' | b'\\' => 1,
            _ => 0,
        };
        self.pay_for(text.len() + text.iter().map(escapes).sum::<usize>())
    }

    /// Runs `inner` one level deeper. Every value that contains others is read through it.
    pub(super) fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        self.enter()?;
        let answer = inner(self);
        self.leave();
        answer
    }

    /// Goes one level deeper as [`deeper`](Reader::deeper) does, for a codec that owns its reader; call
    /// [`leave`](Reader::leave) afterwards.
    pub(super) fn enter(&mut self) -> Read<()> {
        if self.depth >= MAX_DEPTH {
            return Err(self.refuse(DecodeProblem::TooDeep));
        }
        self.depth += 1;
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Checks that nothing is left.
    pub(super) fn end(&self) -> Read<()> {
        if self.rest().is_empty() { Ok(()) } else { Err(self.refuse_at(self.at, DecodeProblem::Trailing)) }
    }
}
