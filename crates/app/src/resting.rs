//! The schedule of looks at topics. An idle topic is looked at when something changes by itself, when it is announced that
//! something may have changed, and otherwise less and less often; its jobs are counted meanwhile, many topics in one call.
//! It is forgotten after it has been empty for a while. So idle topics cost next to nothing.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use delaybridge_core::clock::Instant;
use delaybridge_jobs::{Counts, Stirred, Tick, Topic};

/// Longest time between two looks at a topic while announcements are heard: the look finds what is neither announced nor
/// counted, such as a key of another type.
const LONGEST: Duration = Duration::from_secs(1_800);
/// Longest time between two looks at a topic without announcements.
const LONGEST_UNHEARD: Duration = Duration::from_secs(30);
/// Time between two counts of the jobs of a topic.
const COUNTED_EVERY: Duration = Duration::from_secs(60);
/// Largest number of topics that are counted in a round, so that a round is not long.
const COUNTED_AT_ONCE: usize = 1_000;
/// Longest time between two looks at a topic with ready jobs, whose age grows.
const LONGEST_READY: Duration = Duration::from_secs(5);
/// Time for which a topic is empty before it is forgotten.
const EMPTY: Duration = Duration::from_secs(600);

/// The last state of each topic.
#[derive(Default)]
pub(super) struct Resting {
    seen: HashMap<Topic, Seen>,
    /// Whether announcements were heard in the last round.
    heard: bool,
}

struct Seen {
    sizes: [u64; 4],
    paused: bool,
    /// Start of the time with these sizes.
    since: Instant,
    /// The time of the next look.
    next: Instant,
    /// The time of the last look or count.
    counted: Instant,
}

impl Resting {
    /// Returns whether the topic was seen before.
    pub(super) fn knows(&self, topic: &Topic) -> bool {
        self.seen.contains_key(topic)
    }

    /// Returns whether it is time to look at the topic.
    pub(super) fn is_due(&self, topic: &Topic, now: Instant) -> bool {
        self.seen.get(topic).is_none_or(|seen| seen.next <= now)
    }

    /// Returns whether the topic was paused when it was seen last.
    pub(super) fn is_paused(&self, topic: &Topic) -> bool {
        self.seen.get(topic).is_some_and(|seen| seen.paused)
    }

    /// Records the result of a look; returns whether the topic has been empty for long.
    pub(super) fn note(&mut self, topic: &Topic, tick: &Tick, now: Instant) -> bool {
        let sizes = [tick.delay, tick.ready, tick.reserved, tick.dead];
        let since = self.seen.get(topic).filter(|seen| seen.sizes == sizes).map_or(now, |seen| seen.since);
        let unchanged = now.since(since);
        // Reservations end, and the daemon that made them may be gone.
        let wait = match tick {
            _ if tick.reserved > 0 || tick.more => Duration::ZERO,
            _ if tick.ready > 0 => unchanged.min(LONGEST_READY),
            _ => unchanged.min(if self.heard { LONGEST } else { LONGEST_UNHEARD }),
        };
        let wait = tick.next_firing.into_iter().chain(tick.next_change).fold(wait, Duration::min);
        let seen = Seen { sizes, paused: tick.paused, since, next: now.after(wait), counted: now };
        self.seen.insert(topic.clone(), seen);
        sizes == [0; 4] && !tick.paused && tick.next_firing.is_none() && unchanged >= EMPTY
    }

    /// Resets the schedule of topics with changes: all topics, if announcements may have been missed. `heard` says whether
    /// they are heard now.
    pub(super) fn stir(&mut self, stirred: &Stirred, heard: bool, now: Instant) {
        if stirred.all || self.heard && !heard {
            self.seen.values_mut().for_each(|seen| seen.next = seen.next.min(now));
        }
        self.heard = heard;
        self.seen.retain(|topic, _| !stirred.topics.contains(topic));
    }

    /// Selects those of these topics that were not counted for a while.
    pub(super) fn uncounted(&self, topics: &[Topic], now: Instant) -> Vec<Topic> {
        let uncounted =
            |topic: &&Topic| self.seen.get(*topic).is_some_and(|seen| now.since(seen.counted) >= COUNTED_EVERY);
        topics.iter().filter(uncounted).take(COUNTED_AT_ONCE).cloned().collect()
    }

    /// Records counts. A topic with other numbers than at its last look is looked at next.
    pub(super) fn counted(&mut self, topic: &Topic, counts: Counts, now: Instant) {
        let Some(seen) = self.seen.get_mut(topic) else { return };
        let [delay, ready, reserved, dead] = seen.sizes;
        seen.counted = now;
        if counts.map(u64::try_from) != [Ok(delay + ready), Ok(reserved), Ok(dead)] {
            seen.next = seen.next.min(now);
        }
    }

    /// Drops all other topics.
    pub(super) fn keep(&mut self, topics: &HashSet<&Topic>) {
        self.seen.retain(|topic, _| topics.contains(topic));
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
            next_change: None,
        }
    }

    /// Looks at a topic with these sizes for an hour; returns the number of looks and whether it is forgotten.
    fn looks(sizes: [u64; 4], heard: bool) -> (usize, bool) {
        let mut resting = Resting::default();
        let topic = "a".parse().unwrap();
        let began = Instant::now();
        resting.stir(&Stirred::default(), heard, began);
        let mut looks = 0;
        let mut over = false;
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
        let (quiet, forgotten) = looks([5, 0, 0, 2], false);
        assert!(quiet < 140 && !forgotten, "{quiet}");
        let (quiet, forgotten) = looks([5, 0, 0, 2], true);
        assert!(quiet < 16 && !forgotten, "{quiet}");
        for heard in [false, true] {
            assert_eq!(looks([0, 0, 1, 0], heard), (3_600, false), "a reservation ends");
            assert!(looks([0; 4], heard).1, "it is empty");
        }
    }

    #[test]
    fn what_happens_ends_the_rest() {
        let mut resting = Resting::default();
        let topic = "a".parse::<Topic>().unwrap();
        let began = Instant::now();
        let at = |seconds| began.after(Duration::from_secs(seconds));
        resting.note(&topic, &tick([0; 4]), began);
        assert!(!resting.note(&topic, &tick([0; 4]), at(500)));
        assert!(!resting.is_due(&topic, at(510)));
        resting.stir(&Stirred { topics: [topic.clone()].into(), all: false }, false, at(510));
        assert!(resting.is_due(&topic, at(510)));
        // The topic was used, so the time starts anew.
        resting.note(&topic, &tick([0, 1, 0, 0]), at(511));
        assert!(!resting.note(&topic, &tick([0; 4]), at(900)));
        assert!(resting.note(&topic, &tick([0; 4]), at(1_500)));
        resting.keep(&HashSet::new());
        assert!(resting.is_due(&topic, at(1_501)));
    }

    #[test]
    fn a_topic_is_looked_at_when_a_limit_is_reached_or_its_numbers_have_changed() {
        let mut resting = Resting::default();
        let topic = "a".parse::<Topic>().unwrap();
        let began = Instant::now();
        let at = |seconds| began.after(Duration::from_secs(seconds));
        let quiet = Stirred::default();
        resting.stir(&quiet, true, began);
        resting.note(&topic, &tick([5, 0, 0, 2]), began);
        // After a while of rest, a job falls due in 10 s.
        resting.note(&topic, &Tick { next_change: Some(Duration::from_secs(10)), ..tick([5, 0, 0, 2]) }, at(300));
        assert!(!resting.is_due(&topic, at(309)) && resting.is_due(&topic, at(310)));

        resting.note(&topic, &tick([5, 0, 0, 2]), at(310));
        let all = [topic.clone()];
        assert_eq!((resting.uncounted(&all, at(369)), resting.uncounted(&all, at(370))), (vec![], all.to_vec()));
        resting.counted(&topic, [5, 0, 2], at(370));
        assert!(!resting.is_due(&topic, at(371)) && resting.uncounted(&all, at(371)).is_empty());
        for other in [[4, 0, 2], [5, 1, 2], [5, 0, 3], [5, 0, -1]] {
            resting.note(&topic, &tick([5, 0, 0, 2]), at(371));
            resting.counted(&topic, other, at(440));
            assert!(resting.is_due(&topic, at(440)), "{other:?}");
        }
    }

    #[test]
    fn every_topic_is_looked_at_when_announcements_may_have_been_missed() {
        let mut resting = Resting::default();
        let topic = "a".parse::<Topic>().unwrap();
        let began = Instant::now();
        let at = |seconds| began.after(Duration::from_secs(seconds));
        let quiet = Stirred::default();
        resting.stir(&quiet, true, began);
        for (second, stirred, heard) in [(310, Stirred { all: true, ..Stirred::default() }, true), (320, quiet, false)]
        {
            resting.note(&topic, &tick([5, 0, 0, 2]), began);
            resting.note(&topic, &tick([5, 0, 0, 2]), at(300));
            resting.stir(&Stirred::default(), true, at(305));
            assert!(!resting.is_due(&topic, at(second)));
            resting.stir(&stirred, heard, at(second));
            assert!(resting.is_due(&topic, at(second)));
        }
    }
}
