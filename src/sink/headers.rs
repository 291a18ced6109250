//! The headers that every broker's message gets: how a consumer knows the element and recognises a second copy. Pure.

use crate::sink::Outbound;

/// Header with the element's id: the same at every attempt, so consumers de-duplicate by it.
pub(super) const ID: &str = "delaybridge-id";
/// Header with the queue's id in the configuration.
pub(super) const QUEUE: &str = "delaybridge-queue";
/// Header with the due time in milliseconds since the epoch; absent where it is not known.
pub(super) const DUE_MS: &str = "delaybridge-due-ms";
/// Header with the number of the attempt, from 1.
pub(super) const ATTEMPT: &str = "delaybridge-attempt";

/// Whether the name is kept for headers of ours, in any spelling.
pub(super) fn is_standard(name: &str) -> bool {
    name.to_ascii_lowercase().starts_with("delaybridge-")
}

/// The standard headers of an element, which precede the user's.
pub(super) fn standard(message: &Outbound) -> impl Iterator<Item = (&'static str, String)> {
    let due_ms = message.due_ms.map(|due_ms| (DUE_MS, due_ms.to_string()));
    [(ID, message.id.to_string()), (QUEUE, message.queue.to_string())]
        .into_iter()
        .chain(due_ms)
        .chain([(ATTEMPT, message.attempt.to_string())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::Destination;
    use crate::sink::contract::outbound;

    #[test]
    fn an_element_is_known_by_its_headers() {
        let message = Outbound { attempt: 3, ..outbound(0xabcd, Destination::STDOUT, "x") };
        let headers: Vec<_> = standard(&message).collect();
        let expected = [
            ("delaybridge-id", "000000000000abcd"),
            ("delaybridge-queue", "q"),
            ("delaybridge-due-ms", "1000"),
            ("delaybridge-attempt", "3"),
        ];
        assert_eq!(headers, expected.map(|(name, value)| (name, value.to_owned())));
    }

    #[test]
    fn an_unknown_due_time_has_no_header() {
        let message = Outbound { due_ms: None, ..outbound(1, Destination::STDOUT, "x") };
        assert!(standard(&message).all(|(name, _)| name != DUE_MS));
    }
}
