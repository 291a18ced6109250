//! What becomes of elements, for people who watch: from verdicts to events. Without a watcher each call reads one flag.

use bytes::Bytes;

use crate::claim::element::ElementState;
use crate::claim::record::Claim;
use crate::queue::Queue;
use crate::settle::verdict::{ReleaseCause, Verdict};
use delaybridge_core::message::Identity;
use delaybridge_ledger::NoPayload;
use delaybridge_telemetry::tail::{ElementEvent, Fate, PAYLOAD};

/// Notes that every sink has confirmed the element at this place of a claim.
pub fn delivered(claim: &Claim, place: usize) {
    let queue = &claim.queue;
    queue.process.events.tail().note(Fate::Delivered, || {
        let element = &claim.elements[place];
        let (id, payload) = queue.store.open_element(element);
        let attempt = claim.attempt(element.attempts(), element.is_doubtful());
        let seen = ElementSeen { claim, id: &id, payload: &payload, due_ms: element.due_ms(), attempt };
        ElementEvent { sink: Some(sinks(queue, &[])), ..seen.event(Fate::Delivered) }
    });
}

/// Notes that the verdict about an element is written.
pub fn settled(state: &ElementState, verdict: &Verdict) {
    let queue = state.queue();
    let tail = queue.process.events.tail();
    let Some(fate) = fate(verdict).filter(|_| tail.is_watched()) else { return };
    tail.note(fate, || {
        let ElementState { claim, id, payload, header, .. } = state;
        // The verdict may have put the element in doubt, or counted: this is the attempt that it ends.
        let attempt = claim.attempt(header.attempts, state.element.is_doubtful());
        let seen = ElementSeen { claim, id, payload, due_ms: header.due_ms(), attempt };
        let event = seen.event(fate);
        let name = |place: &Option<usize>| Some(queue.routes.get((*place)?)?.spec.sink.to_string());
        let at = |wait: &std::time::Duration| {
            Some(event.at_ms.saturating_add_unsigned(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
        };
        match verdict {
            Verdict::Retry { after, class, code, .. } => {
                let sink = queue.history.last_sink(id.id);
                ElementEvent { sink, next_ms: at(after), failure: Some((class.as_str(), code)), ..event }
            }
            Verdict::Dead(death) => {
                let failure = death.failure.as_ref();
                let (failure, message) = (
                    failure.map(|failure| (failure.class.as_str(), failure.code)),
                    failure.map(|failure| failure.message.to_string()),
                );
                ElementEvent { sink: name(&death.sink), failure, message, ..event }
            }
            Verdict::Release { why: ReleaseCause::Hold { sink, failure } } => ElementEvent {
                sink: name(sink),
                failure: Some((failure.class.as_str(), failure.code)),
                message: Some(failure.message.to_string()),
                ..event
            },
            Verdict::Release { why: ReleaseCause::Destination { after } } => {
                ElementEvent { next_ms: at(after), ..event }
            }
            Verdict::Confirm | Verdict::Push { .. } => {
                ElementEvent { sink: Some(sinks(queue, &state.passed_over)), ..event }
            }
            Verdict::Gone | Verdict::Skipped | Verdict::Return { .. } | Verdict::Release { .. } => event,
        }
    });
}

/// Returns the meaning of a verdict for a person; `None` for what only moves an element back.
fn fate(verdict: &Verdict) -> Option<Fate> {
    match verdict {
        Verdict::Confirm | Verdict::Push { .. } => Some(Fate::Delivered),
        Verdict::Retry { .. } => Some(Fate::Retry),
        Verdict::Dead(_) => Some(Fate::Dead),
        Verdict::Gone => Some(Fate::Gone),
        Verdict::Skipped => Some(Fate::Skipped),
        Verdict::Release { why: ReleaseCause::Hold { .. } } => Some(Fate::Held),
        Verdict::Release { why: ReleaseCause::Destination { .. } } => Some(Fate::Waits),
        Verdict::Release { .. } | Verdict::Return { .. } => None,
    }
}

/// Returns the sinks of an element, but for those that are not meant for it.
fn sinks(queue: &Queue, passed_over: &[usize]) -> String {
    let meant = queue.routes.iter().enumerate().filter(|(place, _)| !passed_over.contains(place));
    meant.map(|(_, route)| &*route.spec.sink).collect::<Vec<_>>().join(", ")
}

struct ElementSeen<'a> {
    claim: &'a Claim,
    id: &'a Identity,
    payload: &'a Result<Bytes, NoPayload>,
    due_ms: Option<i64>,
    attempt: u32,
}

impl ElementSeen<'_> {
    fn event(&self, fate: Fate) -> ElementEvent {
        let queue = &self.claim.queue;
        let payload = self.payload.as_ref().ok();
        // A copy: the bytes that came are a part of the whole claim, which would stay in memory with it.
        let copy = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
        ElementEvent {
            number: 0,
            left_out: 0,
            at_ms: queue.home().now_ms(),
            queue: queue.spec.id.clone(),
            id: self.id.clone(),
            fate,
            sink: None,
            due_ms: self.due_ms,
            attempt: self.attempt,
            next_ms: None,
            failure: None,
            message: None,
            payload: payload.filter(|bytes| bytes.len() <= PAYLOAD).map(copy),
            size: payload.map_or(0, |bytes| bytes.len()),
        }
    }
}
