//! When to try again what does not work: the breaker of a sink, the breaker of one of its destinations and the hold of a
//! queue are one state machine.
//!
//! Pure: the time and the random number are arguments. Every method returns the change of state that it caused, so
//! that the caller reports each change once.

use std::time::Duration;

use delaybridge_core::backoff::{Backoff, Jitter};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::Class;

/// Failures in a row, with no success between, that open a breaker.
const THRESHOLD: u32 = 5;
/// First wait of a breaker: most outages are a restart.
const BREAKER_FIRST: Duration = Duration::from_millis(200);
/// First wait of a hold: a person has to act.
const HOLD_FIRST: Duration = Duration::from_secs(1);
/// Longest wait of both.
pub const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Enough to spread daemons out, and at the ceiling no more than 24 probes in ten minutes: a probe is a real element, and
/// an ambiguous one may be a duplicate.
const JITTER: Jitter = Jitter::From(0.85);

/// The state machine.
#[derive(Debug, Clone)]
pub struct Circuit {
    kind: CircuitKind,
    state: CircuitState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CircuitKind {
    Breaker,
    Destination,
    Hold,
}

#[derive(Debug, Clone, Copy)]
enum CircuitState {
    /// Everything is tried; so many failures in a row so far.
    Closed { failures: u32 },
    /// Nothing is tried before `until`; `step` waits have passed before this one.
    Open { until: Instant, step: u32, why: OpenReason },
    /// One element is on its way.
    Probing { step: u32, why: OpenReason },
}

/// Why a circuit is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenReason {
    /// Failures in a row: the sink is down.
    Failing,
    /// The sink says that it is full.
    Blocked,
    /// The target has to be fixed.
    Target,
}

/// A change of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// The circuit opened, or is open for another reason than before.
    Opened(OpenReason),
    /// The circuit closed: things work again.
    Closed,
}

/// The permission of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allow {
    /// Anything.
    Free,
    /// One element, after [`Circuit::probe_started`].
    Probe,
    /// Nothing.
    No {
        /// The time to ask again; `None` during a probe, because its end will decide.
        retry_at: Option<Instant>,
    },
}

impl Allow {
    /// Returns the permission of two circuits together.
    #[must_use]
    pub fn and(self, other: Allow) -> Allow {
        match (self, other) {
            (Allow::No { retry_at: a }, Allow::No { retry_at: b }) => Allow::No { retry_at: a.max(b) },
            (no @ Allow::No { .. }, _) | (_, no @ Allow::No { .. }) => no,
            (Allow::Probe, _) | (_, Allow::Probe) => Allow::Probe,
            (Allow::Free, Allow::Free) => Allow::Free,
        }
    }
}

impl Circuit {
    /// Creates the breaker of a sink: opens after five failures in a row, and at once when the sink is full.
    pub fn breaker() -> Self {
        Circuit { kind: CircuitKind::Breaker, state: CircuitState::Closed { failures: 0 } }
    }

    /// Creates the breaker of one destination of a sink: as that of a sink, and it opens at once when the destination
    /// has to be fixed.
    pub fn destination() -> Self {
        Circuit { kind: CircuitKind::Destination, state: CircuitState::Closed { failures: 0 } }
    }

    /// Creates the hold of a queue: opens at once when a target has to be fixed.
    pub fn hold() -> Self {
        Circuit { kind: CircuitKind::Hold, state: CircuitState::Closed { failures: 0 } }
    }

    /// Returns the permission now.
    pub fn allows(&self, now: Instant) -> Allow {
        match self.state {
            CircuitState::Closed { .. } => Allow::Free,
            CircuitState::Open { until, .. } if now >= until => Allow::Probe,
            CircuitState::Open { until, .. } => Allow::No { retry_at: Some(until) },
            CircuitState::Probing { .. } => Allow::No { retry_at: None },
        }
    }

    /// Returns why the circuit is open; `None` while it is closed.
    pub fn why(&self) -> Option<OpenReason> {
        match self.state {
            CircuitState::Closed { .. } => None,
            CircuitState::Open { why, .. } | CircuitState::Probing { why, .. } => Some(why),
        }
    }

    /// Returns whether a probe is on its way.
    pub fn is_probing(&self) -> bool {
        matches!(self.state, CircuitState::Probing { .. })
    }

    /// Returns whether nothing has failed since the last success.
    pub fn is_clean(&self) -> bool {
        matches!(self.state, CircuitState::Closed { failures: 0 })
    }

    /// Notes that the one element that [`Allow::Probe`] permits is on its way. Exactly one of `on_success`,
    /// `on_failure`, `on_blocked` and `probe_abandoned` must follow.
    pub fn probe_started(&mut self) {
        if let CircuitState::Open { step, why, .. } = self.state {
            self.state = CircuitState::Probing { step, why };
        }
    }

    /// Ends a probe without an answer (shutdown, lease over, nothing to send): another may be made at once.
    pub fn probe_abandoned(&mut self, now: Instant) {
        if let CircuitState::Probing { step, why } = self.state {
            self.state = CircuitState::Open { until: now, step, why };
        }
    }

    /// Closes the circuit because something was delivered, by a probe or not.
    pub fn on_success(&mut self) -> Option<Transition> {
        let was = std::mem::replace(&mut self.state, CircuitState::Closed { failures: 0 });
        (!matches!(was, CircuitState::Closed { .. })).then_some(Transition::Closed)
    }

    /// Records that something was not delivered, and returns the change of state if there is one.
    pub fn on_failure(&mut self, class: Class, now: Instant, draw: f64) -> Option<Transition> {
        match (self.kind, class) {
            (CircuitKind::Breaker | CircuitKind::Destination, Class::Transient | Class::Ambiguous | Class::Unknown) => {
                self.failed(now, draw)
            }
            (CircuitKind::Breaker | CircuitKind::Destination, Class::Backpressure) => self.on_blocked(now, draw),
            // The sink answered, so it is there. The destination's breaker or the hold decides about the target.
            (CircuitKind::Breaker, Class::TargetPermanent) => self.on_success(),
            (CircuitKind::Destination | CircuitKind::Hold, Class::TargetPermanent) => {
                self.open(OpenReason::Target, now, draw)
            }
            // May have been found without asking the sink: says nothing about it.
            (_, Class::MessagePermanent) => self.inconclusive(now, draw),
            // The sink failed before it could say anything about the target.
            (CircuitKind::Hold, Class::Transient | Class::Ambiguous | Class::Unknown | Class::Backpressure) => {
                self.inconclusive(now, draw)
            }
        }
    }

    /// Records that the sink is full. Opens a breaker at once; for a hold, only a probe ends without a result.
    pub fn on_blocked(&mut self, now: Instant, draw: f64) -> Option<Transition> {
        match self.kind {
            CircuitKind::Breaker | CircuitKind::Destination => self.open(OpenReason::Blocked, now, draw),
            CircuitKind::Hold => self.inconclusive(now, draw),
        }
    }

    fn failed(&mut self, now: Instant, draw: f64) -> Option<Transition> {
        match &mut self.state {
            CircuitState::Closed { failures } if *failures + 1 < THRESHOLD => {
                *failures += 1;
                None
            }
            _ => self.open(OpenReason::Failing, now, draw),
        }
    }

    fn open(&mut self, why: OpenReason, now: Instant, draw: f64) -> Option<Transition> {
        let before = self.why();
        match self.state {
            CircuitState::Closed { .. } => self.wait(0, why, now, draw),
            CircuitState::Probing { step, .. } => self.wait(step.saturating_add(1), why, now, draw),
            // What was sent before it opened fails now: no news about the wait, perhaps about the reason.
            CircuitState::Open { until, step, .. } => self.state = CircuitState::Open { until, step, why },
        }
        (before != Some(why)).then_some(Transition::Opened(why))
    }

    /// Lets a probe that proved nothing wait as long as the one before it.
    fn inconclusive(&mut self, now: Instant, draw: f64) -> Option<Transition> {
        if let CircuitState::Probing { step, why } = self.state {
            self.wait(step, why, now, draw);
        }
        None
    }

    fn wait(&mut self, step: u32, why: OpenReason, now: Instant, draw: f64) {
        let first = match why {
            OpenReason::Failing | OpenReason::Blocked => BREAKER_FIRST,
            OpenReason::Target => HOLD_FIRST,
        };
        let until = now.after(Backoff::doubling(first, LONGEST_WAIT, JITTER).wait(step, draw));
        self.state = CircuitState::Open { until, step, why };
    }
}

#[cfg(test)]
mod tests;
