//! From what a sink answered to what the judge has to know of it: what the failure concerns, and whether it counts.
//!
//! A transient or ambiguous failure counts towards `max_attempts` only if the destination has confirmed another element
//! since the element's last attempt. So an outage of any length makes no dead letters.

use std::time::Duration;

use crate::queue::{Queue, SinkRoute};
use crate::settle::judge::{self, SinkAnswer, Stop};
use delaybridge_core::message::{About, Class, Failure, Outcome};
use delaybridge_ledger::claims::Header;
use delaybridge_model::Unroutable;
use delaybridge_sink::{Destination, Target};

/// The time since its first attempt for which an element waits uncounted while its destination works on an earlier copy of it.
const LONGEST_IN_WORK: Duration = Duration::from_secs(3600);

/// Builds the answer of the sink at this place among the queue's, about an element with this header that was sent at
/// this time of Redis.
pub fn answer(
    queue: &Queue,
    sink: usize,
    destination: &Destination,
    outcome: Outcome,
    header: &Header,
    sent_ms: i64,
) -> SinkAnswer {
    let plain = SinkAnswer { sink, outcome, moved: false, stop: Stop::Queue };
    let (Err(failure), Some(route)) = (&plain.outcome, queue.routes.get(sink)) else { return plain };
    let seen = FailureSeen { queue, route, destination, header, failure };
    match failure.class {
        Class::Backpressure if failure.about == About::Message => match seen.in_work() {
            Some(wait) => SinkAnswer { stop: Stop::Destination { wait, unroutable: false }, ..plain },
            // From here on it counts.
            None => {
                let outcome = Err(Failure { class: Class::Unknown, ..failure.clone() });
                SinkAnswer { outcome, ..plain }
            }
        },
        Class::TargetPermanent | Class::Backpressure => SinkAnswer { stop: seen.stop(), ..plain },
        Class::Transient | Class::Ambiguous | Class::Unknown if !failure.is_stale() => {
            SinkAnswer { moved: seen.moved(sent_ms), ..plain }
        }
        _ => plain,
    }
}

/// A destination that refuses.
#[derive(Debug, Clone, Copy)]
pub struct Refusing {
    /// The time since it began to refuse, or since the element was tried first.
    pub lasted: Duration,
    /// Whether it has worked before.
    pub worked: bool,
    /// The time that an element waits for it.
    pub wait: Duration,
}

/// Decides what has to wait because of this failure: the queue, or what goes to the same destination. `about`: the scope of the
/// failure, given what works. `has_parts`: the destination has parts that can fail by themselves. Pure.
pub fn stop(
    policy: Unroutable,
    target: &dyn Target,
    (failure, about): (&Failure, About),
    has_parts: bool,
    refusing: impl FnOnce() -> Refusing,
) -> Stop {
    if !(target.varies(about) || about == About::Route && has_parts) {
        return Stop::Queue;
    }
    let Refusing { lasted, worked, wait } = refusing();
    // A login that is refused is no destination that does not exist.
    let chosen = failure.class == Class::TargetPermanent && target.is_chosen_by_payload(failure.about);
    Stop::Destination { wait, unroutable: chosen && judge::is_unroutable(policy, lasted, worked) }
}

struct FailureSeen<'a> {
    queue: &'a Queue,
    route: &'a SinkRoute,
    destination: &'a Destination,
    header: &'a Header,
    failure: &'a Failure,
}

impl FailureSeen<'_> {
    fn stop(&self) -> Stop {
        let handle = &self.route.handle;
        let target = &*self.route.spec.target;
        let has_parts = handle.has_parts(self.destination);
        let lane = handle.lane(self.destination);
        let about = handle.scope(lane, self.failure);
        stop(self.queue.spec.unroutable, target, (self.failure, about), has_parts, || {
            let trouble = handle.trouble(lane);
            Refusing { lasted: self.age().max(trouble.lasted), worked: trouble.worked, wait: handle.wait(lane) }
        })
    }

    /// Returns the wait of an element that waits by itself, because the destination works on an earlier copy of it, or
    /// was not asked. `None`: it has waited for so long that the answer means something else.
    fn in_work(&self) -> Option<Duration> {
        let age = self.age();
        // Without a time of the destination's, longer and longer.
        let failure = self.failure;
        let wait = failure.wait.unwrap_or(age / 4).clamp(Duration::from_secs(1), LONGEST_IN_WORK);
        (failure.is_unsent() || age <= LONGEST_IN_WORK).then_some(wait)
    }

    /// Returns whether something else was confirmed since the element's last attempt, so that the failure may be its
    /// own.
    fn moved(&self, sent_ms: i64) -> bool {
        let since_ms = match self.header.last_attempt_ms {
            0 => sent_ms,
            last => last,
        };
        let handle = &self.route.handle;
        if !handle.sink_moved_since(since_ms) {
            return false;
        }
        let lane = handle.lane(self.destination);
        if handle.moved_since(lane, since_ms) {
            return true;
        }
        // A destination that only this element has will never confirm another one.
        let trouble = handle.trouble(lane);
        self.route.spec.target.is_chosen_by_payload(About::Route)
            && judge::is_unroutable(self.queue.spec.unroutable, self.age(), trouble.worked)
    }

    /// Returns the time since the element was first tried.
    fn age(&self) -> Duration {
        match self.header.first_attempt_ms {
            0 => Duration::ZERO,
            first => {
                let age = self.queue.home().now_ms().saturating_sub(first);
                Duration::from_millis(u64::try_from(age).unwrap_or(0))
            }
        }
    }
}
