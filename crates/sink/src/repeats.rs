//! Copies of an element that an earlier attempt has left at its destination: how a kind of sink recognises them, and the
//! mark by which a copy is known.
//!
//! "It is there" confirms an element that is not sent. Said of another element, it loses one. So a mark stands for the bytes of
//! one element, its id and due time, in one queue, on its way to one destination; and a copy counts only if the attempt that
//! left it belongs to the same life of the element.

use std::fmt;

use futures_util::future::BoxFuture;

use crate::{Destination, Outbound};
use delaybridge_core::message::Failure;

/// The way in which a destination recognises an element that it has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recognition {
    /// Not at all.
    None,
    /// The server drops what comes again within some time.
    Window,
    /// The sink looks for suspect elements before they are sent again, by its [`Lookup`].
    Lookup,
}

/// A sink that looks for what earlier attempts have left.
pub trait Lookup: Send + Sync {
    /// Looks for elements at their destinations: for each, in their order, whether a [copy](DeliveryMark::is_copy) is there. A
    /// failure means that nothing is known. The caller bounds the time. Cancel safe.
    fn look<'a>(&'a self, suspects: &'a [Outbound]) -> BoxFuture<'a, Vec<Result<bool, Failure>>>;

    /// Asks whether a look at these destinations could work now (`check --live`). It ends within the time-out of the sink.
    fn check<'a>(&'a self, destinations: &'a [Destination]) -> BoxFuture<'a, Result<(), Failure>>;
}

/// An attempt to deliver: a hash of its claim, its process and its place in the claim, which no other attempt has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptId(pub u64);

/// The attempts whose copies of an element count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspicion {
    /// None: no sink can have had the element, or which attempt it was is not known.
    Nothing,
    /// The named attempt alone: the same id may have had another life before, with the same due time and bytes.
    Attempt(AttemptId),
    /// Every attempt: no other element has this id.
    Anyone,
}

/// The mark of a copy, as its message has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyMark {
    /// The hash of the element.
    pub element: u128,
    /// The attempt that has left the copy.
    pub attempt: AttemptId,
}

impl CopyMark {
    /// Returns the mark in the text that a message was [written](fmt::Display) with.
    pub fn read(text: &str) -> Option<CopyMark> {
        let (element, attempt) = text.split_once('.')?;
        let hex = |digits: &str, count| digits.len() == count && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if !hex(element, 32) || !hex(attempt, 16) {
            return None;
        }
        let element = u128::from_str_radix(element, 16).ok()?;
        Some(CopyMark { element, attempt: AttemptId(u64::from_str_radix(attempt, 16).ok()?) })
    }
}

/// The mark of an element's copies at one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryMark {
    /// A hash of the element, of its queue and of its destination: the same at every attempt.
    pub element: u128,
    /// This attempt.
    pub attempt: AttemptId,
    /// The earlier attempts that may have left a copy.
    pub suspicion: Suspicion,
    /// The time of the first of them, in Redis milliseconds since the epoch: its end, if it was judged, else the time from which
    /// the element could be claimed. A copy is older than that by the time-out of the sink at most.
    pub since_ms: i64,
}

impl DeliveryMark {
    /// Returns whether a copy may be there.
    pub fn is_suspect(&self) -> bool {
        self.suspicion != Suspicion::Nothing
    }

    /// Returns whether the text that a message was [written](fmt::Display) with makes it a copy that an earlier attempt
    /// has left.
    pub fn is_copy(&self, text: &str) -> bool {
        CopyMark::read(text).is_some_and(|copy| self.recognises(copy))
    }

    /// Returns whether this is the mark of a copy that an earlier attempt has left.
    pub fn recognises(&self, copy: CopyMark) -> bool {
        self.element == copy.element
            && match self.suspicion {
                Suspicion::Nothing => false,
                Suspicion::Attempt(attempt) => attempt == copy.attempt,
                Suspicion::Anyone => true,
            }
    }
}

impl fmt::Display for DeliveryMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}.{:016x}", self.element, self.attempt.0)
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(element: u128, attempt: u64, suspicion: Suspicion) -> DeliveryMark {
        DeliveryMark { element, attempt: AttemptId(attempt), suspicion, since_ms: 0 }
    }

    #[test]
    fn a_copy_is_the_same_element_of_an_attempt_that_is_suspect() {
        let left = mark(7, 1, Suspicion::Nothing).to_string();
        assert_eq!(left, "00000000000000000000000000000007.0000000000000001");
        let rows = [
            (7, Suspicion::Anyone, true),
            (7, Suspicion::Attempt(AttemptId(1)), true),
            (7, Suspicion::Attempt(AttemptId(2)), false),
            (7, Suspicion::Nothing, false),
            (8, Suspicion::Anyone, false),
            (8, Suspicion::Attempt(AttemptId(1)), false),
        ];
        for (element, suspicion, expected) in rows {
            assert_eq!(mark(element, 9, suspicion).is_copy(&left), expected, "{element} {suspicion:?}");
        }
    }

    #[test]
    fn a_text_that_was_not_written_so_is_no_copy() {
        let looking = mark(0, 9, Suspicion::Anyone);
        assert!(looking.is_copy(&format!("{:032x}.{:016x}", 0, 0)));
        for text in ["", ".", "0.0", "0", "+0000000000000000000000000000000.0000000000000000", "é.0000000000000000"] {
            assert!(!looking.is_copy(text), "{text:?}");
        }
        assert!(!looking.is_copy(&format!("{:032x}.{:015x}", 0, 0)));
        assert!(!looking.is_copy(&format!("{:032x}.{:016x}.", 0, 0)));
    }
}
