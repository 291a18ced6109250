//! Whether a failure concerns the sink as a whole or one of its destinations, and the breaker of the sink, which knows who
//! is to blame for what it has seen. Pure, but for the time.
//!
//! A failure concerns the sink only if no other destination is known to work. Where only one destination has failed, the
//! breaker stops what goes there, and nothing else.

use crate::deliver::destinations::DestinationKey;
use crate::limits::circuit::{Allow, Circuit, Transition};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};

/// The breaker of the sink as a whole, and who is to blame for what it has seen.
pub(super) struct Breaker {
    pub(super) circuit: Circuit,
    blamed: Option<Blamed>,
}

/// The place of the failures that a breaker has seen since the last confirmation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Blamed {
    /// At one destination only: nothing is known against the others.
    One(DestinationKey),
    /// At several, or at the sink itself.
    Sink,
}

impl Breaker {
    pub(super) fn new() -> Breaker {
        Breaker { circuit: Circuit::breaker(), blamed: None }
    }

    /// Whether it speaks for elements of this destination; `None` where destinations differ from element to element, and
    /// each is asked by itself.
    fn is_about(&self, only: Option<DestinationKey>) -> bool {
        match self.blamed {
            Some(Blamed::One(lane)) => only == Some(lane),
            Some(Blamed::Sink) | None => true,
        }
    }

    /// The permission for elements of this destination.
    pub(super) fn allows(&self, only: Option<DestinationKey>, now: Instant) -> Allow {
        // Asked for every element: while it is closed, who is to blame does not matter.
        match self.circuit.why() {
            Some(_) if self.is_about(only) => self.circuit.allows(now),
            _ => Allow::Free,
        }
    }

    /// Something failed: at this destination, as far as is known.
    pub(super) fn failed(&mut self, at: Option<DestinationKey>, class: Class) -> Option<Transition> {
        self.blamed = Some(match (self.blamed, at) {
            (None, Some(lane)) => Blamed::One(lane),
            (Some(Blamed::One(before)), Some(lane)) if before == lane => Blamed::One(lane),
            _ => Blamed::Sink,
        });
        self.circuit.on_failure(class, Instant::now(), fastrand::f64())
    }

    /// Something was confirmed, or answered.
    pub(super) fn worked(&mut self) -> Option<Transition> {
        self.blamed = None;
        self.circuit.on_success()
    }
}

/// The meaning of a failure for the sink as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Concern {
    /// Nothing: it is the destination's, or the message's.
    None,
    /// The sink failed; `at_lane`: as far as is known at this destination.
    Failure { at_lane: bool },
    /// The sink answered, so it is there.
    Answer,
}

/// Decides what a failure says about its sink. `others_work`: another destination is known to work.
pub(super) fn concerns_sink(failure: &Failure, others_work: bool) -> Concern {
    match failure.class {
        Class::TargetPermanent => Concern::Answer,
        Class::MessagePermanent => Concern::None,
        _ if failure.is_behind() => Concern::None,
        Class::Backpressure if failure.about.is_of_destination() => match others_work {
            true => Concern::Answer,
            false => Concern::Failure { at_lane: true },
        },
        Class::Backpressure => Concern::Failure { at_lane: false },
        Class::Transient | Class::Ambiguous | Class::Unknown => {
            let unconnected = failure.code == Failure::NOT_CONNECTED.as_str();
            match others_work && !unconnected {
                true => Concern::None,
                false => Concern::Failure { at_lane: !unconnected },
            }
        }
    }
}

/// Whether a failure says something about its destination.
pub(super) fn concerns_destination(failure: &Failure) -> bool {
    match failure.class {
        Class::TargetPermanent | Class::Backpressure => failure.about.is_of_destination(),
        Class::Transient | Class::Ambiguous | Class::Unknown => {
            failure.code != Failure::NOT_CONNECTED.as_str() && !failure.is_behind()
        }
        Class::MessagePermanent => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waited_behind_another_says_nothing_about_its_destination_or_the_sink() {
        let behind = Failure::new(Class::Ambiguous, Failure::BEHIND, "no confirmation");
        let late = Failure::new(Class::Ambiguous, "timeout", "no confirmation");
        for others_work in [true, false] {
            assert_eq!(concerns_sink(&behind, others_work), Concern::None);
        }
        assert_eq!(concerns_sink(&late, false), Concern::Failure { at_lane: true });
        assert!(concerns_destination(&late) && !concerns_destination(&behind));
    }
}
