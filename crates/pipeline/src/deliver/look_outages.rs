//! The destinations of a sink that cannot be asked what they have, and for how long elements wait for them. Pure.
//!
//! An element that may be there is worth a wait: while a broker is away, it could not take the element either. But a look can fail
//! where a delivery works, and an element must not wait for ever.

use std::collections::HashMap;
use std::time::Duration;

use crate::deliver::destinations::DestinationKey;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::Class;

/// The time for which elements wait, from the first look that failed. An outage of the destination has its breaker open by then, so
/// that what is sent without a look are its probes.
const WAIT: Duration = Duration::from_secs(300);
/// Destinations that are remembered. For those beyond, nothing waits.
const MOST: usize = 1_000;

/// The destinations whose last look failed, with the time of the first of these looks.
#[derive(Debug, Default)]
pub(super) struct LookOutages {
    since: HashMap<DestinationKey, Instant>,
}

impl LookOutages {
    /// Takes in a look that failed with this class. Returns whether its element waits for the next one.
    pub(super) fn waits(&mut self, lane: DestinationKey, class: Class, now: Instant) -> bool {
        match class {
            Class::Backpressure | Class::Transient | Class::Ambiguous => {}
            // That does not end by itself, and says nothing against a delivery.
            Class::MessagePermanent | Class::TargetPermanent | Class::Unknown => return false,
        }
        if self.since.len() >= MOST && !self.since.contains_key(&lane) {
            self.since.retain(|_, since| now.since(*since) < WAIT);
            if self.since.len() >= MOST {
                return false;
            }
        }
        now.since(*self.since.entry(lane).or_insert(now)) < WAIT
    }

    /// Ends the outage of a destination at which a look has worked.
    pub(super) fn is_over(&mut self, lane: DestinationKey) {
        self.since.remove(&lane);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_sink_stdout::StdoutDestination;

    fn lane(part: u32) -> DestinationKey {
        DestinationKey::of(&StdoutDestination.into(), Some(part))
    }

    #[test]
    fn elements_wait_for_a_destination_that_is_away_for_five_minutes() {
        let mut outages = LookOutages::default();
        let start = Instant::now();
        let after = |time: Duration| start.after(time);
        assert!(outages.waits(lane(1), Class::Transient, start));
        assert!(outages.waits(lane(1), Class::Ambiguous, after(WAIT * 9 / 10)));
        assert!(!outages.waits(lane(1), Class::Transient, after(WAIT)));
        assert!(outages.waits(lane(2), Class::Transient, after(WAIT)), "another destination");
        outages.is_over(lane(1));
        assert!(outages.waits(lane(1), Class::Transient, after(WAIT)), "it has worked meanwhile");
    }

    #[test]
    fn a_look_that_can_never_work_is_not_waited_for() {
        for class in [Class::MessagePermanent, Class::TargetPermanent, Class::Unknown] {
            assert!(!LookOutages::default().waits(lane(1), class, Instant::now()), "{class:?}");
        }
    }

    #[test]
    fn the_destinations_are_bounded_and_those_of_long_ago_make_room() {
        let mut outages = LookOutages::default();
        let start = Instant::now();
        let most = u32::try_from(MOST).expect("a small number");
        assert!((0..most).all(|part| outages.waits(lane(part), Class::Transient, start)));
        assert!(!outages.waits(lane(most), Class::Transient, start));
        assert!(outages.waits(lane(0), Class::Transient, start));
        assert!(outages.waits(lane(most), Class::Transient, start.after(WAIT)));
    }
}
