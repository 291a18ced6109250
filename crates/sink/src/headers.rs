//! The headers of every broker's message, by which a consumer knows the element and recognises a second copy. Pure.

use crate::Outbound;
use delaybridge_core::carried::{DUE_MS, QUEUE};
use delaybridge_core::message::Identity;

/// Header with the element's id: the same at every attempt, so consumers de-duplicate by it.
pub const ID: &str = "delaybridge-id";
/// Header with the id that the publisher of an input's message gave it.
pub const MESSAGE_ID: &str = "delaybridge-message-id";
/// Header with the mark by which the daemon recognises a message of its own; only with `duplicates: look`.
pub const MARK: &str = "delaybridge-mark";
/// Header with the number of the attempt, from 1.
pub const ATTEMPT: &str = "delaybridge-attempt";

/// Returns whether the name is kept for headers of ours, in any spelling.
pub fn is_standard(name: &str) -> bool {
    name.to_ascii_lowercase().starts_with("delaybridge-")
}

/// The standard headers of an element, which precede the user's. Their texts are formatted once, without an allocation.
pub struct Standard<'a> {
    id: IdText<'a>,
    queue: &'a str,
    due_ms: Option<Decimal>,
    attempt: Decimal,
}

impl<'a> Standard<'a> {
    /// Creates the headers of this element.
    pub fn of(message: &'a Outbound) -> Standard<'a> {
        Standard {
            id: IdText::of(&message.id),
            queue: &message.queue,
            due_ms: message.due_ms.map(Decimal::new),
            attempt: Decimal::new(i64::from(message.attempt)),
        }
    }

    /// Iterates over names and values, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let due_ms = self.due_ms.as_ref().map(|due_ms| (DUE_MS, due_ms.as_str()));
        [(ID, self.id.as_str()), (QUEUE, self.queue)]
            .into_iter()
            .chain(due_ms)
            .chain([(ATTEMPT, self.attempt.as_str())])
    }
}

/// The text of an id: the element's own, or digits on the stack.
pub enum IdText<'a> {
    /// The element's own text.
    Own(&'a str),
    /// Sixteen hexadecimal digits.
    Digits([u8; 16]),
}

impl<'a> IdText<'a> {
    /// Creates the text of this id.
    pub fn of(id: &'a Identity) -> IdText<'a> {
        match &id.text {
            Some(text) => IdText::Own(text),
            None => IdText::Digits(id.id.hex()),
        }
    }

    /// Returns the characters.
    pub fn as_str(&self) -> &str {
        match self {
            IdText::Own(text) => text,
            IdText::Digits(digits) => ascii(digits),
        }
    }
}

/// The text of a number, on the stack.
struct Decimal {
    /// The longest number has a sign and 19 digits.
    digits: [u8; 20],
    begin: usize,
}

impl Decimal {
    fn new(number: i64) -> Decimal {
        let mut text = Decimal { digits: [b'0'; 20], begin: 20 };
        let mut rest = number.unsigned_abs();
        loop {
            text.push(b'0' + (rest % 10) as u8);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            text.push(b'-');
        }
        text
    }

    /// Puts one more letter in front.
    fn push(&mut self, letter: u8) {
        self.begin -= 1;
        self.digits[self.begin] = letter;
    }

    fn as_str(&self) -> &str {
        ascii(&self.digits[self.begin..])
    }
}

fn ascii(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("digits are ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{anywhere, outbound};

    #[test]
    fn an_element_is_known_by_its_headers() {
        let message = Outbound { attempt: 3, ..outbound(0xabcd, anywhere(), "x") };
        let headers = Standard::of(&message);
        let expected = [
            ("delaybridge-id", "000000000000abcd"),
            ("delaybridge-queue", "q"),
            ("delaybridge-due-ms", "1000"),
            ("delaybridge-attempt", "3"),
        ];
        assert_eq!(headers.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_unknown_due_time_has_no_header() {
        let message = Outbound { due_ms: None, ..outbound(1, anywhere(), "x") };
        assert!(Standard::of(&message).iter().all(|(name, _)| name != DUE_MS));
    }

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        for number in [0, 1, 9, 10, 1_760_000_000_123, -1, -10, i64::MAX, i64::MIN] {
            assert_eq!(Decimal::new(number).as_str(), number.to_string());
        }
    }
}
