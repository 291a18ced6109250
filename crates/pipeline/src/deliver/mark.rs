//! The mark by which a copy of an element is recognised at its destination (`duplicates: look`). Pure.
//!
//! A copy that counts confirms the element, so it must be a copy of this element, of this life, for this destination:
//!
//! - The hash covers the queue, the sink, the destination, the id, the due time and the payload. Elements of two queues, the
//!   copies for two sinks, and a periodic element at its next due time differ in it.
//! - Where ids are random, no other life has the same hash, so a copy of any attempt counts.
//! - Elsewhere a program may offer the same member for the same time again. Then a copy counts only if the attempt that left
//!   it is the one that the header of the element names. After the death of a process no header names it, and nothing counts.

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use delaybridge_core::message::Identity;
use delaybridge_ledger::claims::Writer;
use delaybridge_sink::{AttemptId, DeliveryMark, Destination, Suspicion};

/// The history of an element, as far as it says which attempts may have left a copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct ElementHistory {
    /// Whether a sink may have the element from an earlier attempt.
    pub(super) may_repeat: bool,
    /// Whether the source never uses an id again.
    pub(super) unique: bool,
    /// The writer of the header, if the element has one: the claim of the last attempt that may have left the process.
    pub(super) writer: Option<Writer>,
    /// The end of the first attempt that was judged and may have left the process, in Redis ms; 0 for none.
    pub(super) first_attempt_ms: i64,
    /// The time from which the element could be claimed, in Redis ms.
    pub(super) claimable_ms: i64,
}

/// The parts of an element and its way that its hash covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marked<'a> {
    pub(super) queue: &'a str,
    pub(super) sink: &'a str,
    pub(super) destination: &'a Destination,
    pub(super) id: &'a Identity,
    pub(super) due_ms: Option<i64>,
    pub(super) payload: &'a [u8],
}

/// Returns the mark of an attempt under this claim.
pub(super) fn mark(marked: &Marked<'_>, claim: Writer, history: ElementHistory) -> DeliveryMark {
    let suspicion = match history {
        ElementHistory { may_repeat: false, .. } => Suspicion::Nothing,
        ElementHistory { unique: true, .. } => Suspicion::Anyone,
        ElementHistory { writer, .. } => {
            writer.map_or(Suspicion::Nothing, |writer| Suspicion::Attempt(attempt(writer)))
        }
    };
    let since_ms = match history.first_attempt_ms {
        0 => history.claimable_ms,
        first => first,
    };
    DeliveryMark { element: hash(marked), attempt: attempt(claim), suspicion, since_ms }
}

/// Returns the attempts of an element under one claim, as one number.
fn attempt(writer: Writer) -> AttemptId {
    let Writer { owner, claim, place } = writer;
    let bytes: Vec<u8> = owner.into_iter().chain(claim.to_le_bytes()).chain(place.to_le_bytes()).collect();
    AttemptId(xxh3_64(&bytes))
}

fn hash(marked: &Marked<'_>) -> u128 {
    let Marked { queue, sink, destination, id, due_ms, payload } = *marked;
    let mut hash = Xxh3Default::new();
    // The length of each part goes first, so that no two lists of parts give the same bytes.
    let mut add = |part: &[u8]| {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part);
    };
    add(queue.as_bytes());
    add(sink.as_bytes());
    add(destination.to_string().as_bytes());
    add(&id.id.0);
    add(id.text.as_deref().unwrap_or_default().as_bytes());
    add(due_ms.map(i64::to_le_bytes).as_ref().map_or(&[][..], |due| &due[..]));
    add(payload);
    hash.digest128()
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_core::message::MessageId;
    use delaybridge_sink_stdout::StdoutDestination;

    const CLAIM: Writer = Writer { owner: [1; 8], claim: 7, place: 3 };
    const BEFORE: Writer = Writer { owner: [2; 8], claim: 4, place: 1 };
    const NEW: ElementHistory =
        ElementHistory { may_repeat: false, unique: true, writer: None, first_attempt_ms: 0, claimable_ms: 1_000 };
    const AGAIN: ElementHistory =
        ElementHistory { may_repeat: true, writer: Some(BEFORE), first_attempt_ms: 1_500, ..NEW };

    fn marked<T>(change: impl FnOnce(Marked<'_>) -> T) -> T {
        let id = MessageId([9; 8]).into();
        let destination = StdoutDestination.into();
        let queue = "q";
        let sink = "s";
        let due_ms = Some(1_000);
        let payload = &b"body"[..];
        change(Marked { queue, sink, destination: &destination, id: &id, due_ms, payload })
    }

    fn at(history: ElementHistory) -> DeliveryMark {
        marked(|marked| mark(&marked, CLAIM, history))
    }

    #[test]
    fn a_copy_of_another_attempt_counts_for_what_may_be_there_and_for_nothing_else() {
        let left = marked(|marked| mark(&marked, BEFORE, NEW)).to_string();
        let rows = [
            ("a first attempt", NEW, false),
            ("a second one", AGAIN, true),
            ("taken over from a dead process", ElementHistory { may_repeat: true, ..NEW }, true),
            ("an id that may have been used before", ElementHistory { unique: false, ..AGAIN }, true),
            ("the same, after another claim", ElementHistory { unique: false, writer: Some(CLAIM), ..AGAIN }, false),
            ("the same, from a dead process", ElementHistory { may_repeat: true, unique: false, ..NEW }, false),
        ];
        for (what, history, expected) in rows {
            assert_eq!(at(history).is_copy(&left), expected, "{what}");
        }
    }

    #[test]
    fn whatever_tells_two_deliveries_apart_is_in_the_hash() {
        let other_id = MessageId([8; 8]).into();
        let named = Identity { id: MessageId([9; 8]), text: Some("order-7".into()) };
        let same = marked(|marked| hash(&marked));
        assert_eq!(marked(|marked| hash(&marked)), same);
        let others = marked(|marked| {
            [
                hash(&Marked { queue: "q2", ..marked }),
                hash(&Marked { sink: "s2", ..marked }),
                hash(&Marked { queue: "qs", sink: "", ..marked }),
                hash(&Marked { id: &other_id, ..marked }),
                hash(&Marked { id: &named, ..marked }),
                hash(&Marked { due_ms: Some(1_001), ..marked }),
                hash(&Marked { due_ms: None, ..marked }),
                hash(&Marked { payload: b"body2", ..marked }),
            ]
        });
        for (n, other) in others.iter().enumerate() {
            assert_ne!(*other, same, "row {n}");
        }
    }

    #[test]
    fn the_search_begins_at_the_first_attempt_or_when_there_could_be_one() {
        assert_eq!((at(AGAIN).since_ms, at(ElementHistory { may_repeat: true, ..NEW }).since_ms), (1_500, 1_000));
    }
}
