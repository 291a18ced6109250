//! The claimer's next wake-up: at the due time that its last claim returned, or earlier after a knock.
//!
//! Due times that are close together are looked at together: a claim costs Redis much the same for one element and for
//! three. So after a claim the next waits for [`TOGETHER`]; what falls due meanwhile is that much late, and never early.
//!
//! A knock during a claim is kept until after it: the reply may be older than the knock. (A reply
//! that overrides a newer announcement is how Redisson delivers an element late.)
//!
//! A daemon that is outrun by another one leaves the next due times to it for a moment, up to 32 ms.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use delaybridge_core::clock::Instant;
use delaybridge_ledger::millis;
use delaybridge_telemetry::labels::Wakeup;

/// The alarm clock of one claimer; many knock, one waits.
#[derive(Debug)]
pub struct Alarm {
    /// The next due time that the last claim returned, in Redis ms.
    next_ms: AtomicI64,
    /// Earliest due time announced since the last claim began, in Redis ms.
    hint_ms: AtomicI64,
    state: Mutex<AlarmState>,
    notify: Notify,
}

#[derive(Debug)]
struct AlarmState {
    /// A reason to look at once.
    now: Option<Wakeup>,
    /// Before this point due times are not looked at.
    not_before: Instant,
    /// Times in a row that another daemon was faster.
    outrun: u32,
}

/// The point from which a claimer need not wait any more.
#[derive(Debug, Clone, Copy)]
pub struct RestAfter {
    /// Nothing is due before so long.
    pub horizon: Duration,
    /// Not before this point.
    pub not_before: Instant,
}

/// Least time between two claims that are made because of due times.
const TOGETHER: Duration = Duration::from_millis(2);
/// The most doublings of the wait for other daemons that are faster: each further look waits up to twice as long as the last, up to this often.
const DOUBLINGS: u32 = 4;

impl Alarm {
    /// Creates an alarm clock that rings at once: there may be elements due already.
    pub fn new() -> Self {
        Alarm {
            next_ms: AtomicI64::new(i64::MAX),
            hint_ms: AtomicI64::new(i64::MAX),
            state: Mutex::new(AlarmState { now: Some(Wakeup::Due), not_before: Instant::now(), outrun: 0 }),
            notify: Notify::new(),
        }
    }

    /// Asks for a look at once.
    pub fn ring(&self, reason: Wakeup) {
        self.state.lock().now = Some(reason);
        self.notify.notify_one();
    }

    /// Announces that something falls due at this time.
    pub fn announce(&self, due_ms: i64) {
        if self.hint_ms.fetch_min(due_ms, Ordering::AcqRel) > due_ms {
            self.notify.notify_one();
        }
    }

    /// Prepares for a claim that is about to be sent: from here on, knocks and announcements are kept for after it.
    pub fn begin(&self) {
        self.hint_ms.store(i64::MAX, Ordering::Release);
        let mut state = self.state.lock();
        (state.now, state.not_before) = (None, Instant::now().after(TOGETHER));
    }

    /// Notes what the claim returned: when something falls due next, and whether it took something.
    pub fn next(&self, due_ms: Option<i64>, took: bool) {
        let due_ms = due_ms.unwrap_or(i64::MAX);
        let before = self.next_ms.swap(due_ms, Ordering::AcqRel);
        let mut state = self.state.lock();
        // What it came for is gone: another daemon was faster, and may be the next time. It is left to it for a moment,
        // each time another one, so that of many daemons few ask for the same element.
        state.outrun = if !took && due_ms > before { (state.outrun + 1).min(DOUBLINGS) } else { 0 };
        if state.outrun > 0 {
            let longest = TOGETHER * (1 << state.outrun);
            state.not_before = Instant::now().after(longest.mul_f64(0.5 + 0.5 * fastrand::f64()));
        }
    }

    /// Returns whether it will not ring before the horizon.
    pub fn is_quiet(&self, now_ms: i64, horizon: Duration) -> bool {
        let next = self.next_ms.load(Ordering::Acquire);
        let hint = self.hint_ms.load(Ordering::Acquire);
        self.state.lock().now.is_none() && next.min(hint).saturating_sub(now_ms) > millis(horizon)
    }

    /// Waits until it is time to look, `now_ms` being the time by Redis's clock; `None` when the claimer may as well end. Cancel safe.
    pub async fn wait(&self, now_ms: impl Fn() -> i64, rest: Option<RestAfter>) -> Option<Wakeup> {
        loop {
            let not_before = {
                let mut state = self.state.lock();
                if let Some(reason) = state.now.take() {
                    return Some(reason);
                }
                state.not_before
            };
            let next = self.next_ms.load(Ordering::Acquire);
            let hint = self.hint_ms.load(Ordering::Acquire);
            let wait = next.min(hint).saturating_sub(now_ms());
            let held = not_before.since(Instant::now());
            if wait <= 0 && held.is_zero() {
                return Some(if hint < next { Wakeup::Published } else { Wakeup::Due });
            }
            let mut wait = Duration::from_millis(u64::try_from(wait).unwrap_or(0)).max(held);
            if let Some(rest) = rest.filter(|rest| wait > rest.horizon) {
                match rest.not_before.since(Instant::now()) {
                    Duration::ZERO => return None,
                    left => wait = wait.min(left),
                }
            }
            // Not longer than a minute: the estimate of Redis's clock gets better meanwhile.
            let wait = wait.min(Duration::from_secs(60));
            // Order does not matter: both only lead to another look at the state above.
            tokio::select! {
                () = self.notify.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}

impl Default for Alarm {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use delaybridge_core::clock::RedisClock;

    #[tokio::test]
    async fn an_announcement_during_a_claim_outlives_its_reply() {
        let wake = Alarm::new();
        let clock = RedisClock::new();
        assert_eq!(wake.wait(|| clock.now_ms(), None).await, Some(Wakeup::Due), "the first look is at once");
        wake.begin();
        wake.announce(clock.now_ms() - 1);
        wake.next(Some(clock.now_ms() + 50_000), true);
        assert_eq!(wake.wait(|| clock.now_ms(), None).await, Some(Wakeup::Published));
        wake.begin();
        wake.ring(Wakeup::Poll);
        wake.next(None, true);
        assert_eq!(wake.wait(|| clock.now_ms(), None).await, Some(Wakeup::Poll));
        assert!(wake.wait(|| clock.now_ms(), None).now_or_never().is_none());
    }

    #[tokio::test]
    async fn it_rings_at_the_due_time() {
        let wake = Alarm::new();
        let clock = RedisClock::new();
        wake.begin();
        let due = clock.now_ms() + 20;
        wake.next(Some(due), true);
        assert_eq!(wake.wait(|| clock.now_ms(), None).await, Some(Wakeup::Due));
        assert!(clock.now_ms() >= due);
    }

    /// Measures the time that the alarm waits for something that is due `in_ms` after a claim.
    async fn waited(wake: &Alarm, clock: &RedisClock, in_ms: i64) -> Duration {
        let begun = Instant::now();
        wake.begin();
        wake.next(Some(clock.now_ms() + in_ms), true);
        wake.wait(|| clock.now_ms(), None).await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn what_falls_due_close_together_is_looked_at_together() {
        let _clock = delaybridge_core::clock::follow_tokio();
        let wake = Alarm::new();
        let clock = RedisClock::new();
        wake.wait(|| clock.now_ms(), None).await;
        for in_ms in [-5, 0, 1, 2] {
            assert_eq!(waited(&wake, &clock, in_ms).await.as_millis(), 2, "due in {in_ms} ms");
        }
        assert_eq!(waited(&wake, &clock, 3).await.as_millis(), 3, "no later than it is due");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_outrun_leaves_the_next_to_the_others_for_a_moment() {
        let _clock = delaybridge_core::clock::follow_tokio();
        let wake = Alarm::new();
        let clock = RedisClock::new();
        wake.wait(|| clock.now_ms(), None).await;
        let mut waits = Vec::new();
        for _ in 0..6 {
            wake.begin();
            wake.next(Some(clock.now_ms() + 1), false);
            let begun = Instant::now();
            wake.wait(|| clock.now_ms(), None).await;
            waits.push(begun.elapsed());
        }
        assert!(waits.iter().all(|wait| *wait <= TOGETHER * 16 + Duration::from_millis(1)), "{waits:?}");
        assert!(waits[5] >= TOGETHER * 8, "{waits:?}");
        // Rung for, it comes at once.
        wake.begin();
        wake.next(Some(clock.now_ms() + 1), false);
        wake.ring(Wakeup::More);
        assert!(wake.wait(|| clock.now_ms(), None).now_or_never().is_some());
        assert_eq!(waited(&wake, &clock, 1).await.as_millis(), 2, "what took something is first again");
    }
}
