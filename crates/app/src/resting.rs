//! The schedule of looks at topics. An idle topic is looked at less and less often, and is forgotten after it has been
//! empty for a while, so that idle topics cost nothing.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use delaybridge_core::clock::Instant;
use delaybridge_jobs::{Tick, Topic};

/// Longest time between two looks at a topic.
const LONGEST: Duration = Duration::from_secs(30);
/// The same for a topic with ready jobs, whose age grows.
const LONGEST_READY: Duration = Duration::from_secs(5);
/// Time for which a topic is empty before it is forgotten.
const EMPTY: Duration = Duration::from_secs(600);

/// The last state of each topic.
#[derive(Default)]
pub(super) struct Resting(HashMap<Topic, Seen>);

struct Seen {
    sizes: [u64; 4],
    paused: bool,
    /// Start of the time with these sizes.
    since: Instant,
    next: Instant,
}

impl Resting {
    /// Whether it is time to look at the topic.
    pub(super) fn is_due(&self, topic: &Topic, now: Instant) -> bool {
        self.0.get(topic).is_none_or(|seen| seen.next <= now)
    }

    /// Whether the topic was paused when it was seen last.
    pub(super) fn is_paused(&self, topic: &Topic) -> bool {
        self.0.get(topic).is_some_and(|seen| seen.paused)
    }

    /// Records the result of a look; returns whether the topic has been empty for long.
    pub(super) fn note(&mut self, topic: &Topic, tick: &Tick, now: Instant) -> bool {
        let sizes = [tick.delay, tick.ready, tick.reserved, tick.dead];
        let since = self.0.get(topic).filter(|seen| seen.sizes == sizes).map_or(now, |seen| seen.since);
        let unchanged = now.since(since);
        // Reservations end, and the daemon that made them may be gone.
        let wait = match tick {
            _ if tick.reserved > 0 || tick.more => Duration::ZERO,
            _ if tick.ready > 0 => unchanged.min(LONGEST_READY),
            _ => unchanged.min(LONGEST),
        };
        let wait = tick.next_firing.map_or(wait, |firing| wait.min(firing));
        self.0.insert(topic.clone(), Seen { sizes, paused: tick.paused, since, next: now.after(wait) });
        sizes == [0; 4] && !tick.paused && tick.next_firing.is_none() && unchanged >= EMPTY
    }

    /// Resets the schedule of topics with changes.
    pub(super) fn stir(&mut self, topics: &HashSet<Topic>) {
        self.0.retain(|topic, _| !topics.contains(topic));
    }

    /// Drops all other topics.
    pub(super) fn keep(&mut self, topics: &HashSet<&Topic>) {
        self.0.retain(|topic, _| topics.contains(topic));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delaybridge_jobs::Aged;

    fn tick(sizes: [u64; 4]) -> Tick {
        let [delay, ready, reserved, dead] = sizes;
        Tick {
            aged: Aged::default(),
            delay,
            ready,
            reserved,
            dead,
            oldest_ready_ms: None,
            more: false,
            paused: false,
            next_firing: None,
        }
    }

    /// Looks at a topic with these sizes for an hour; returns the number of looks and whether it is forgotten.
    fn looks(sizes: [u64; 4]) -> (usize, bool) {
        let (mut resting, topic, began) = (Resting::default(), "a".parse().unwrap(), Instant::now());
        let (mut looks, mut over) = (0, false);
        for second in 0..3_600 {
            let now = began.after(Duration::from_secs(second));
            if resting.is_due(&topic, now) {
                looks += 1;
                over = resting.note(&topic, &tick(sizes), now);
            }
        }
        (looks, over)
    }

    #[test]
    fn a_topic_in_which_nothing_happens_is_looked_at_less_and_less() {
        let (quiet, forgotten) = looks([5, 0, 0, 2]);
        assert!(quiet < 140 && !forgotten, "{quiet}");
        assert_eq!(looks([0, 0, 1, 0]), (3_600, false), "a reservation ends");
        assert!(looks([0; 4]).1, "it is empty");
    }

    #[test]
    fn what_happens_ends_the_rest() {
        let (mut resting, topic, began) = (Resting::default(), "a".parse::<Topic>().unwrap(), Instant::now());
        let at = |seconds| began.after(Duration::from_secs(seconds));
        resting.note(&topic, &tick([0; 4]), began);
        assert!(!resting.note(&topic, &tick([0; 4]), at(500)));
        assert!(!resting.is_due(&topic, at(510)));
        resting.stir(&[topic.clone()].into());
        assert!(resting.is_due(&topic, at(510)));
        // The topic was used, so the time starts anew.
        resting.note(&topic, &tick([0, 1, 0, 0]), at(511));
        assert!(!resting.note(&topic, &tick([0; 4]), at(900)));
        assert!(resting.note(&topic, &tick([0; 4]), at(1_500)));
        resting.keep(&HashSet::new());
        assert!(resting.is_due(&topic, at(1_501)));
    }
}
