//! The queues of a process that keep up, and so should not wait for one that does not.
//!
//! A queue keeps up while its claims find what falls due and leave nothing of it. Of all that do, the last two are enough to know
//! whether there is another one than the queue that asks.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use delaybridge_core::clock::Instant;

/// A queue counts for so long after an element of it.
const RECENT: Duration = Duration::from_secs(1);

/// A queue that kept up, and when it did last.
type KeptUp = (Arc<str>, Instant);

/// The last two queues that kept up, the latest first.
#[derive(Debug, Default)]
pub struct Neighbours(Mutex<[Option<KeptUp>; 2]>);

impl Neighbours {
    /// Notes that this queue has claimed all that was due.
    pub fn keeps_up(&self, queue: &Arc<str>, now: Instant) {
        let [latest, before] = &mut *self.0.lock();
        match latest {
            Some((known, at)) if known == queue => *at = now,
            _ => *before = latest.replace((queue.clone(), now)),
        }
    }

    /// Returns whether another queue than this one keeps up.
    pub fn has_beside(&self, queue: &Arc<str>, now: Instant) -> bool {
        let recent = |(other, at): &KeptUp| other != queue && now.since(*at) <= RECENT;
        self.0.lock().iter().flatten().any(recent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_beside_another_one_that_kept_up_of_late_and_never_beside_itself() {
        let all = Neighbours::default();
        let [a, b, c]: [Arc<str>; 3] = ["a", "b", "c"].map(Arc::from);
        let start = Instant::now();
        let beside = |ms| [&a, &b, &c].map(|queue| all.has_beside(queue, start.after(Duration::from_millis(ms))));
        let keeps_up = |queue, ms| all.keeps_up(queue, start.after(Duration::from_millis(ms)));
        assert_eq!(beside(0), [false, false, false]);
        keeps_up(&a, 0);
        keeps_up(&a, 100);
        assert_eq!(beside(100), [false, true, true]);
        keeps_up(&b, 200);
        assert_eq!(beside(200), [true, true, true]);
        keeps_up(&a, 900);
        assert_eq!(beside(1_150), [true, true, true]);
        assert_eq!(beside(1_250), [false, true, true], "the other one has had nothing for a second");
        keeps_up(&b, 1_300);
        keeps_up(&c, 1_300);
        keeps_up(&b, 1_400);
        assert_eq!(beside(2_350), [true, false, true], "the last two are enough");
        assert_eq!(beside(2_450), [false, false, false]);
    }
}
