//! The deadline of messages that were handed to the client library.
//!
//! Between the call and the last byte there are the library's queue, its buffer, and a socket that may be full. A
//! process that is suspended meanwhile would send the rest when it resumes, perhaps long after its lease. So every
//! write to the socket is preceded by a check: if a message without a reply is too late, the connection is closed
//! instead. Its messages are ambiguous then, which they are in any case.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use delaybridge_core::clock::Instant;
use delaybridge_dial::WriteGate;

/// The messages of one connection without a reply, each with the time after which it must not be sent.
#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    next: u64,
    messages: BTreeMap<u64, Instant>,
}

impl Gate {
    /// Registers a message, or a pipeline of messages, before it is handed over.
    pub(super) fn enter(self: &Arc<Self>, send_before: Instant) -> Pass {
        let mut open = self.0.lock();
        open.next += 1;
        let number = open.next;
        open.messages.insert(number, send_before);
        Pass { gate: self.clone(), number }
    }

    /// Returns whether one of the messages is too late.
    fn is_closed(&self) -> bool {
        let open = self.0.lock();
        open.messages.values().min().is_some_and(|send_before| Instant::now() >= *send_before)
    }
}

impl WriteGate for Gate {
    fn check(&self) -> io::Result<()> {
        if self.is_closed() {
            return Err(io::Error::other("not sent: a message has waited for longer than its lease allows"));
        }
        Ok(())
    }
}

/// The entry of a message in the gate. A caller that stops waiting leaves it there, because the library may still send
/// it.
#[derive(Debug)]
#[must_use]
pub(super) struct Pass {
    gate: Arc<Gate>,
    number: u64,
}

impl Pass {
    /// Removes the message after its reply, and all those before it, which were sent as well.
    pub(super) fn answered(self) {
        let mut open = self.gate.0.lock();
        open.messages = open.messages.split_off(&(self.number + 1));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_is_closed_by_a_message_without_an_answer_and_not_by_an_answered_one() {
        let gate = Arc::new(Gate::default());
        assert!(!gate.is_closed());
        let late = gate.enter(Instant::now());
        assert!(gate.is_closed());
        late.answered();
        assert!(!gate.is_closed());
        let fresh = gate.enter(Instant::now().after(Duration::from_secs(60)));
        assert!(!gate.is_closed());
        let _ = gate.enter(Instant::now());
        assert!(gate.is_closed(), "no caller waits for it any more, but the library may send it");
        fresh.answered();
        assert!(gate.is_closed(), "an answer says nothing about those behind it");
        gate.enter(Instant::now()).answered();
        assert!(!gate.is_closed());
    }
}
