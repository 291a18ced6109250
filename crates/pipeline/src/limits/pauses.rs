//! What a person has paused of a queue, as this process knows it, and how long it is taken for true.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use delaybridge_core::clock::Instant;
use delaybridge_ledger::{Pause, Pauses};

/// The time for which it is taken for granted that nothing is paused.
const AGED: Duration = Duration::from_secs(60);
/// Time between two looks while something is paused.
const LOOK: Duration = Duration::from_secs(5);

/// The known pauses of one queue.
#[derive(Debug, Default)]
pub struct PauseBoard {
    /// The number of reasons to look.
    reasons: AtomicU64,
    seen: Mutex<PausesSeen>,
}

#[derive(Debug, Default)]
struct PausesSeen {
    /// The time of the last read, and the reasons up to then.
    at: Option<(Instant, u64)>,
    pauses: Pauses,
}

/// A pause that keeps a queue from claiming, and the sink that it is of.
pub type Holding<'a> = Option<(Option<&'a Arc<str>>, &'a Pause)>;

impl PauseBoard {
    /// Notes a reason to look.
    pub fn doubt(&self) {
        self.reasons.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the reasons up to now, if there is one to look.
    pub fn reason_to_look(&self) -> Option<u64> {
        let reasons = self.reasons.load(Ordering::Acquire);
        let seen = self.seen.lock();
        let good_until = seen.at.filter(|(_, then)| *then == reasons).map(|(at, _)| good_until(at, &seen.pauses));
        match good_until {
            Some(until) if Instant::now() < until => None,
            _ => Some(reasons),
        }
    }

    /// Takes over what was read for these reasons. Calls `changed` if another pause keeps the queue from claiming now, or none.
    /// `delivers_to` names the sinks of the queue.
    pub fn learned(
        &self,
        reasons: u64,
        pauses: Pauses,
        delivers_to: impl Fn(&str) -> bool,
        changed: impl FnOnce(Holding<'_>),
    ) {
        let mut seen = self.seen.lock();
        seen.at = Some((Instant::now(), reasons));
        let before = std::mem::replace(&mut seen.pauses, pauses);
        let was = holding(&before, &delivers_to);
        let is = holding(&seen.pauses, &delivers_to);
        if was != is {
            changed(is);
        }
    }

    /// Returns until when to wait before another look, if a pause keeps the queue from claiming.
    pub fn paused(&self, delivers_to: impl Fn(&str) -> bool) -> Option<Instant> {
        let seen = self.seen.lock();
        let (at, _) = seen.at?;
        holding(&seen.pauses, delivers_to).map(|_| good_until(at, &seen.pauses))
    }

    /// Returns whether this sink is paused for the queue.
    pub fn has_paused(&self, sink: &str) -> bool {
        self.seen.lock().pauses.sinks.iter().any(|(name, _)| **name == *sink)
    }
}

/// Returns until when these pauses need no other look.
fn good_until(at: Instant, pauses: &Pauses) -> Instant {
    let all = pauses.queue.iter().chain(pauses.sinks.iter().map(|(_, pause)| pause));
    let ends = all.map(|pause| pause.until_ms.unwrap_or(i64::MAX)).min();
    let Some(end_ms) = ends else { return at.after(AGED) };
    let left = u64::try_from(end_ms.saturating_sub(pauses.now_ms)).unwrap_or(0);
    at.after(Duration::from_millis(left).min(LOOK))
}

fn holding(pauses: &Pauses, delivers_to: impl Fn(&str) -> bool) -> Holding<'_> {
    let of_queue = pauses.queue.iter().map(|pause| (None, pause));
    let of_sinks = pauses.sinks.iter().filter(|(name, _)| delivers_to(name));
    of_queue.chain(of_sinks.map(|(name, pause)| (Some(name), pause))).next()
}
