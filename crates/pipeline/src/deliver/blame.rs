//! What a failure concerns: the sink as a whole, one of its destinations, or nothing but the message; and the breaker of the
//! sink, which knows what has failed since the last confirmation. Pure, but for the time.
//!
//! The table of the sink says it ([`About`]). Only where it says "the sink" of a failure that may pass, what works tells: then
//! it concerns the destination where it was seen, until another one fails in the same way.
//!
//! Destinations that fail one by one do not close the sink, however many they are: each waits by itself. While none works,
//! what is tried has a pace, so that a host with a hundred thousand URLs is not asked for each of them at once.

use crate::deliver::destinations::DestinationKey;
use crate::limits::circuit::{Allow, Circuit, Transition};
use crate::limits::rate::Bucket;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{About, Class, Failure};

/// Elements a second that are tried while destinations fail one by one, and none works.
const PACE: f64 = 50.0;

/// The breaker of the sink as a whole, and what it has seen fail.
pub(super) struct Breaker {
    pub(super) circuit: Circuit,
    blamed: Option<Blamed>,
    pace: Bucket,
}

/// The place of the failures that a breaker has seen since the last confirmation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blamed {
    /// At one destination only: nothing is known against the others.
    One(DestinationKey),
    /// At several destinations, each for a reason of its own.
    Several,
    /// At the sink itself.
    Sink,
}

/// The place to which a failure belongs, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailedAt {
    /// The sink.
    Sink,
    /// This destination: another one fails for a reason of its own.
    Destination(DestinationKey),
    /// Seen at this destination. If another one fails as well, it is the sink.
    Seen(DestinationKey),
}

impl Breaker {
    pub(super) fn new(now: Instant) -> Breaker {
        Breaker { circuit: Circuit::breaker(), blamed: None, pace: Bucket::new(PACE, now) }
    }

    /// Returns whether it speaks for elements of this destination; `None` where destinations differ from element to
    /// element, and each is asked by itself.
    fn is_about(&self, only: Option<DestinationKey>) -> bool {
        match self.blamed {
            Some(Blamed::One(lane)) => only == Some(lane),
            Some(Blamed::Several) => false,
            Some(Blamed::Sink) | None => true,
        }
    }

    /// Returns the permission for elements of this destination.
    pub(super) fn allows(&self, only: Option<DestinationKey>, now: Instant) -> Allow {
        // Asked for every element: while it is closed, who is to blame does not matter.
        match self.circuit.why() {
            Some(_) if self.is_about(only) => self.circuit.allows(now),
            _ => Allow::Free,
        }
    }

    /// Returns the pace of what is tried, while destinations fail one by one and none works.
    pub(super) fn pace(&mut self) -> Option<&mut Bucket> {
        let failing = self.circuit.why().is_some() && self.blamed == Some(Blamed::Several);
        failing.then_some(&mut self.pace)
    }

    /// Records a failure at a destination or at the sink itself.
    pub(super) fn failed(&mut self, at: FailedAt, class: Class) -> Option<Transition> {
        self.blamed = Some(match (self.blamed, at) {
            (None, FailedAt::Destination(lane) | FailedAt::Seen(lane)) => Blamed::One(lane),
            (Some(Blamed::One(before)), FailedAt::Destination(lane) | FailedAt::Seen(lane)) if before == lane => {
                Blamed::One(lane)
            }
            // Also after the sink itself: what fails for a reason of its own is beyond what failed there.
            (Some(_), FailedAt::Destination(_)) => Blamed::Several,
            _ => Blamed::Sink,
        });
        self.circuit.on_failure(class, Instant::now(), fastrand::f64())
    }

    /// Records that a probe failed at this destination, which says nothing about the sink while others work. The probe ends in any case.
    pub(super) fn probe_failed(&mut self, failure: &Failure, lane: DestinationKey) -> Option<Transition> {
        match failure.about {
            // Nothing was found out.
            About::Message => self.circuit.on_failure(Class::MessagePermanent, Instant::now(), fastrand::f64()),
            About::Target | About::Route | About::Account => self.failed(FailedAt::Destination(lane), failure.class),
            About::Sink | About::Connection => self.failed(FailedAt::Seen(lane), failure.class),
        }
    }

    /// Records that something was confirmed or answered.
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
    /// The sink does not work, as far as is known there.
    Failure(FailedAt),
    /// The sink answered, so it is there.
    Answer,
}

/// Returns the scope of a failure: one of the login concerns the destination where another one works, and else the sink.
pub(super) fn scope(failure: &Failure, others_work: bool) -> About {
    match failure.about {
        About::Account if others_work => About::Target,
        About::Account => About::Sink,
        about => about,
    }
}

/// Decides what a failure at this destination says about its sink. `others_work`: another destination is known to work.
pub(super) fn concerns_sink(failure: &Failure, lane: DestinationKey, others_work: bool) -> Concern {
    use Class::{Ambiguous, Backpressure, MessagePermanent, TargetPermanent, Transient, Unknown};
    let waits = matches!(failure.class, Backpressure);
    match (failure.class, scope(failure, others_work)) {
        (TargetPermanent, _) => Concern::Answer,
        (MessagePermanent, _) | (_, About::Message) => Concern::None,
        _ if failure.is_behind() => Concern::None,
        (Backpressure | Transient | Ambiguous | Unknown, About::Target | About::Route | About::Account) => {
            match others_work {
                true if waits => Concern::Answer,
                true => Concern::None,
                false => Concern::Failure(FailedAt::Destination(lane)),
            }
        }
        (_, About::Connection) | (Backpressure, About::Sink) => Concern::Failure(FailedAt::Sink),
        (Transient | Ambiguous | Unknown, About::Sink) => {
            if others_work {
                Concern::None
            } else {
                Concern::Failure(FailedAt::Seen(lane))
            }
        }
    }
}

/// Returns whether a failure says something about its destination.
pub(super) fn concerns_destination(failure: &Failure, others_work: bool) -> bool {
    let scope = scope(failure, others_work);
    match failure.class {
        Class::TargetPermanent | Class::Backpressure => scope.is_of_destination(),
        Class::Transient | Class::Ambiguous | Class::Unknown => {
            !matches!(scope, About::Connection | About::Message) && !failure.is_behind()
        }
        Class::MessagePermanent => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Class::{Ambiguous, Backpressure, MessagePermanent, TargetPermanent, Transient, Unknown};

    fn lane(n: u32) -> DestinationKey {
        DestinationKey::of(&delaybridge_testing::sink::anywhere(), Some(n))
    }

    #[test]
    fn what_waited_behind_another_says_nothing_about_its_destination_or_the_sink() {
        let behind = Failure::new(Class::Ambiguous, Failure::BEHIND, "no confirmation");
        let late = Failure::new(Class::Ambiguous, "timeout", "no confirmation");
        for others_work in [true, false] {
            assert_eq!(concerns_sink(&behind, lane(1), others_work), Concern::None);
            assert!(concerns_destination(&late, others_work) && !concerns_destination(&behind, others_work));
        }
        assert_eq!(concerns_sink(&late, lane(1), false), Concern::Failure(FailedAt::Seen(lane(1))));
    }

    /// Class and scope decide, and nothing else: what follows for the sink while no other destination works, and while one does,
    /// and whether the destination is concerned.
    #[test]
    fn the_scope_of_an_answer_says_what_it_concerns() {
        let at = |at| Concern::Failure(at);
        let own = at(FailedAt::Destination(lane(1)));
        let seen = at(FailedAt::Seen(lane(1)));
        let sink = at(FailedAt::Sink);
        let none = Concern::None;
        let answer = Concern::Answer;
        let rows = [
            (Backpressure, About::Target, own, answer, [true, true]),
            (Backpressure, About::Route, own, answer, [true, true]),
            (Backpressure, About::Sink, sink, sink, [false, false]),
            (Backpressure, About::Message, none, none, [false, false]),
            (Ambiguous, About::Target, own, none, [true, true]),
            (Unknown, About::Route, own, none, [true, true]),
            (Transient, About::Sink, seen, none, [true, true]),
            (Transient, About::Connection, sink, sink, [false, false]),
            (Transient, About::Message, none, none, [false, false]),
            (TargetPermanent, About::Target, answer, answer, [true, true]),
            (TargetPermanent, About::Sink, answer, answer, [false, false]),
            (TargetPermanent, About::Account, answer, answer, [false, true]),
            (MessagePermanent, About::Sink, none, none, [false, false]),
        ];
        for (class, about, alone, beside, destination) in rows {
            let failure = Failure::new(class, "x", "").about(about);
            assert_eq!(concerns_sink(&failure, lane(1), false), alone, "{class:?} {about:?} alone");
            assert_eq!(concerns_sink(&failure, lane(1), true), beside, "{class:?} {about:?} beside one that works");
            let concerned = [false, true].map(|others_work| concerns_destination(&failure, others_work));
            assert_eq!(concerned, destination, "{class:?} {about:?}");
        }
        let unconnected = Failure::new(Transient, Failure::NOT_CONNECTED, "");
        assert_eq!(concerns_sink(&unconnected, lane(1), true), sink);
        assert!(!concerns_destination(&unconnected, true));
    }

    #[test]
    fn destinations_that_fail_one_by_one_do_not_close_the_sink() {
        let now = Instant::now();
        let mut breaker = Breaker::new(now);
        breaker.failed(FailedAt::Destination(lane(1)), Backpressure);
        assert!(matches!(breaker.allows(Some(lane(1)), now), Allow::No { .. }), "the only one so far");
        assert!(breaker.allows(Some(lane(2)), now) == Allow::Free && breaker.pace().is_none());
        breaker.failed(FailedAt::Destination(lane(2)), Backpressure);
        for only in [None, Some(lane(1)), Some(lane(3))] {
            assert_eq!(breaker.allows(only, now), Allow::Free, "each waits by itself");
        }
        let tried = breaker.pace().expect("none works").take(now, 1_000).granted;
        assert!(tried > 0 && f64::from(tried) <= PACE, "{tried} at once");
        breaker.failed(FailedAt::Seen(lane(3)), Ambiguous);
        assert!(matches!(breaker.allows(None, now), Allow::No { .. }) && breaker.pace().is_none(), "it is the sink");
        breaker.worked();
        assert!(breaker.allows(None, now) == Allow::Free && breaker.pace().is_none());
    }

    /// A server restarts: it took no connection, and now it answers for one URL.
    #[test]
    fn a_destination_that_fails_by_itself_shows_that_the_sink_answers() {
        let now = Instant::now();
        let busy = Failure::new(Ambiguous, "http_500", "").about(About::Target);
        let behind = Failure::new(Ambiguous, Failure::BEHIND, "");
        let in_work = Failure::new(Backpressure, "http_409", "").about(About::Message);
        let unconnected = || {
            let mut breaker = Breaker::new(now);
            for _ in 0..5 {
                breaker.failed(FailedAt::Sink, Transient);
            }
            assert!(matches!(breaker.allows(Some(lane(2)), now), Allow::No { .. }));
            breaker.circuit.probe_started();
            breaker
        };
        // Whether another destination has worked a short time ago or not.
        for has_worked in [false, true] {
            let mut breaker = unconnected();
            if has_worked {
                breaker.probe_failed(&busy, lane(1))
            } else {
                breaker.failed(FailedAt::Destination(lane(1)), busy.class)
            };
            assert!(breaker.allows(Some(lane(2)), now) == Allow::Free && breaker.pace().is_some());
            assert!(!breaker.circuit.is_probing(), "a probe ends");
            breaker.failed(FailedAt::Sink, Transient);
            assert!(matches!(breaker.allows(Some(lane(2)), now), Allow::No { .. }), "down again");
        }
        for nothing in [&behind, &in_work] {
            let mut breaker = unconnected();
            breaker.probe_failed(nothing, lane(1));
            assert!(matches!(breaker.allows(Some(lane(2)), now), Allow::No { .. }) && !breaker.circuit.is_probing());
        }
        // The probe was on its way when another element found out.
        let mut breaker = unconnected();
        breaker.failed(FailedAt::Destination(lane(1)), Backpressure);
        breaker.probe_failed(&in_work, lane(2));
        assert!(breaker.allows(Some(lane(2)), now) == Allow::Free);
    }
}
