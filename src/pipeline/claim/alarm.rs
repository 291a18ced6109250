//! The claimer's next wake-up: at the due time that its last claim returned, or earlier after a knock.
//!
//! A knock during a claim is kept until after it: the reply may be older than the knock. (A reply
//! that overrides a newer announcement is how Redisson delivers an element late.)

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::RedisClock;
use crate::telemetry::labels::Wakeup;

/// The alarm clock of one claimer; many knock, one waits.
#[derive(Debug)]
pub struct Alarm {
    /// What the last claim returned, in Redis ms.
    next_ms: AtomicI64,
    /// Earliest due time announced since the last claim began, in Redis ms.
    hint_ms: AtomicI64,
    /// A reason to look at once.
    now: Mutex<Option<Wakeup>>,
    notify: Notify,
}

impl Alarm {
    /// An alarm clock that rings at once: there may be elements due already.
    pub fn new() -> Self {
        Alarm {
            next_ms: AtomicI64::new(i64::MAX),
            hint_ms: AtomicI64::new(i64::MAX),
            now: Mutex::new(Some(Wakeup::Due)),
            notify: Notify::new(),
        }
    }

    /// Asks for a look at once.
    pub fn ring(&self, reason: Wakeup) {
        *self.now.lock() = Some(reason);
        self.notify.notify_one();
    }

    /// Announces that something falls due at this time.
    pub fn announce(&self, due_ms: i64) {
        if self.hint_ms.fetch_min(due_ms, Ordering::AcqRel) > due_ms {
            self.notify.notify_one();
        }
    }

    /// To be called before a claim is sent: from here on, knocks and announcements are kept for after it.
    pub fn begin(&self) {
        self.hint_ms.store(i64::MAX, Ordering::Release);
        *self.now.lock() = None;
    }

    /// What the claim returned.
    pub fn next(&self, due_ms: Option<i64>) {
        self.next_ms.store(due_ms.unwrap_or(i64::MAX), Ordering::Release);
    }

    /// Waits until it is time to look. Cancel safe.
    pub async fn wait(&self, clock: &RedisClock) -> Wakeup {
        loop {
            if let Some(reason) = self.now.lock().take() {
                return reason;
            }
            let (next, hint) = (self.next_ms.load(Ordering::Acquire), self.hint_ms.load(Ordering::Acquire));
            let wait = next.min(hint).saturating_sub(clock.now_ms());
            if wait <= 0 {
                return if hint < next { Wakeup::Published } else { Wakeup::Due };
            }
            // Not longer than a minute: the estimate of Redis's clock gets better meanwhile.
            let wait = Duration::from_millis(wait.unsigned_abs()).min(Duration::from_secs(60));
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

    #[tokio::test]
    async fn an_announcement_during_a_claim_outlives_its_reply() {
        let (wake, clock) = (Alarm::new(), RedisClock::new());
        assert_eq!(wake.wait(&clock).await, Wakeup::Due, "the first look is at once");
        wake.begin();
        wake.announce(clock.now_ms() - 1);
        wake.next(Some(clock.now_ms() + 50_000));
        assert_eq!(wake.wait(&clock).await, Wakeup::Published);
        wake.begin();
        wake.ring(Wakeup::Poll);
        wake.next(None);
        assert_eq!(wake.wait(&clock).await, Wakeup::Poll);
        assert!(wake.wait(&clock).now_or_never().is_none());
    }

    #[tokio::test]
    async fn it_rings_at_the_due_time() {
        let (wake, clock) = (Alarm::new(), RedisClock::new());
        wake.begin();
        let due = clock.now_ms() + 20;
        wake.next(Some(due));
        assert_eq!(wake.wait(&clock).await, Wakeup::Due);
        assert!(clock.now_ms() >= due);
    }
}
