//! The rate limit of lines about queues that are held, or resume, by the thousands: one line for each cause and second,
//! then the sum of those suppressed. Pure: the time is an argument.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use delaybridge_core::clock::Instant;

/// Minimum interval between two lines of one cause.
const QUIET: Duration = Duration::from_secs(1);
/// Maximum number of queues that a sum names; the rest is counted.
const NAMED: usize = 10;
/// Maximum number of causes that are distinguished; further ones share one.
const CAUSES: usize = 256;

/// The recent lines, by cause.
#[derive(Default)]
pub(super) struct Holds(HashMap<String, Cause>);

struct Cause {
    last: Instant,
    /// The first queues of the suppressed lines, each once.
    queues: Vec<Arc<str>>,
    /// Number of suppressed lines.
    left_out: usize,
    /// Number of them about queues that are not in `queues`.
    unnamed: usize,
}

/// The suppressed lines of one cause.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// The cause, as it was admitted.
    pub cause: String,
    /// Number of lines.
    pub lines: usize,
    /// The first queues, each once, and the number of lines about others: `a, b and 7 more`.
    pub queues: String,
}

impl Holds {
    /// Returns whether a line about this queue is to be written now.
    pub(super) fn admit(&mut self, now: Instant, cause: &str, queue: &Arc<str>) -> bool {
        let cause = if self.0.len() < CAUSES || self.0.contains_key(cause) { cause } else { "" };
        match self.0.get_mut(cause) {
            Some(known) if now.since(known.last) < QUIET => {
                known.left_out += 1;
                if !known.queues.contains(queue) {
                    if known.queues.len() < NAMED {
                        known.queues.push(queue.clone());
                    } else {
                        known.unnamed += 1;
                    }
                }
                false
            }
            Some(known) => {
                known.last = now;
                true
            }
            None => {
                self.0.insert(cause.to_owned(), Cause { last: now, queues: Vec::new(), left_out: 0, unnamed: 0 });
                true
            }
        }
    }

    /// Takes the sums that are old enough; with `all`, every one. Forgets causes without news.
    pub(super) fn sums(&mut self, now: Instant, all: bool) -> Vec<LeftOut> {
        let mut sums = Vec::new();
        self.0.retain(|name, cause| {
            let over = now.since(cause.last) >= QUIET;
            if cause.left_out > 0 && (all || over) {
                let named: Vec<&str> = cause.queues.iter().map(|queue| &**queue).collect();
                let queues = match cause.unnamed {
                    0 => named.join(", "),
                    more => format!("{} and {more} more", named.join(", ")),
                };
                sums.push(LeftOut { cause: name.clone(), lines: cause.left_out, queues });
                (cause.left_out, cause.unnamed, cause.last) = (0, 0, now);
                cause.queues.clear();
                return true;
            }
            !over
        });
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_queues_are_a_line_for_each_cause_and_a_sum() {
        let mut holds = Holds::default();
        let start = Instant::now();
        let at = |ms| start.after(Duration::from_millis(ms));
        let queues: Vec<Arc<str>> = (0..10_000).map(|n| format!("q{n}").into()).collect();
        let written = queues.iter().filter(|queue| holds.admit(at(0), "out NOPERM", queue)).count();
        assert_eq!(written, 1);
        assert!(holds.admit(at(1), "other NOPERM", &queues[0]), "another cause");
        assert_eq!(holds.sums(at(999), false), []);
        let sums = holds.sums(at(1_001), false);
        assert_eq!(sums.len(), 1);
        assert_eq!((sums[0].cause.as_str(), sums[0].lines), ("out NOPERM", 9_999));
        assert_eq!(sums[0].queues, "q1, q2, q3, q4, q5, q6, q7, q8, q9, q10 and 9989 more");
        assert_eq!(holds.sums(at(3_000), true), []);
        assert!(holds.0.is_empty(), "what is over is forgotten");
    }

    #[test]
    fn a_line_now_and_then_is_written_and_what_was_left_out_is_summed_up_later() {
        let mut holds = Holds::default();
        let start = Instant::now();
        let queue = "q".into();
        let mut at = |ms| holds.admit(start.after(Duration::from_millis(ms)), "c", &queue);
        assert_eq!([at(0), at(500), at(1_000), at(1_500), at(2_000)], [true, false, true, false, true]);
        let sum = LeftOut { cause: "c".to_owned(), lines: 2, queues: "q".to_owned() };
        assert_eq!(holds.sums(start.after(Duration::from_millis(2_001)), true), [sum]);
    }

    #[test]
    fn the_number_of_causes_is_bounded() {
        let mut holds = Holds::default();
        let now = Instant::now();
        let written = (0..10_000).filter(|n| holds.admit(now, &n.to_string(), &"q".into())).count();
        assert_eq!((written, holds.0.len()), (CAUSES + 1, CAUSES + 1));
    }
}
