//! Calls that extend leases, each with a Redis time after which it does nothing. One that is held up on its way would give a full
//! lease to what has been left to its lease since.

use super::Leases;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::claims::{ClaimName, Contents, Extended};
use delaybridge_ledger::{StoreError, millis};

/// Calls that extend leases and have no answer.
#[derive(Debug, Default, Clone)]
pub(super) struct Unanswered(Vec<Latest>);

/// The times in Redis ms until which such a call has an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Latest {
    not_after_ms: i64,
    /// The end of a lease that begins then.
    lease_ends_ms: i64,
}

impl Unanswered {
    fn begin(&mut self, call: Latest, now_ms: i64) {
        self.0.retain(|call| call.not_after_ms >= now_ms);
        self.0.push(call);
    }

    fn end(&mut self, call: Latest) {
        if let Some(at) = self.0.iter().position(|other| *other == call) {
            self.0.swap_remove(at);
        }
    }

    /// Adds those of the queue before. They stay there as well: what that queue leaves from now on is counted there.
    pub(super) fn extend(&mut self, others: Unanswered) {
        self.0.extend(others.0);
    }

    /// Returns the latest end of a lease that one of the calls may still give.
    pub(super) fn ends_ms(&self) -> i64 {
        self.0.iter().map(|call| call.lease_ends_ms).max().unwrap_or(i64::MIN)
    }
}

/// A call that extends leases. Dropped without an answer, it may still run.
#[derive(Debug)]
pub struct ExtensionCall<'a> {
    leases: &'a Leases,
    latest: Latest,
    /// The time from which the new leases are counted: that of sending.
    pub sent: Instant,
}

impl<'a> ExtensionCall<'a> {
    /// Begins a call that is sent at once. What is left to its lease from here on is counted as long as the call may
    /// extend it: so the names that it is sent for are read after this.
    pub fn begin(leases: &'a Leases) -> Self {
        let home = leases.queue.home();
        let lease = leases.queue.spec.lease;
        let now_ms = home.now_ms();
        let not_after_ms = now_ms.saturating_add(millis(home.call_timeout()));
        let latest = Latest { not_after_ms, lease_ends_ms: not_after_ms.saturating_add(millis(lease)) };
        leases.state.lock().unanswered.begin(latest, now_ms);
        ExtensionCall { leases, latest, sent: Instant::now() }
    }

    /// Extends these leases.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again, as another call.
    pub async fn extend(self, names: &[ClaimName]) -> Result<Extended, StoreError> {
        let queue = &self.leases.queue;
        let answer = queue.store.extend(queue.spec.lease, self.latest.not_after_ms, names).await;
        if let Ok(Extended::Late { now_ms }) = answer {
            queue.home().observe(now_ms);
        }
        if let Ok(Extended::Done { now_ms, .. }) = answer {
            queue.renewed(now_ms);
        }
        self.end(answer)
    }

    /// Reads the contents of this claim, which gets a full lease once more if it is durable. `None` if the call came
    /// late.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again, as another call.
    pub async fn recover(self, name: ClaimName, may_repeat: bool) -> Result<Option<Contents>, StoreError> {
        let queue = &self.leases.queue;
        let answer = queue.store.recover(name, queue.spec.lease, self.latest.not_after_ms, may_repeat).await;
        self.end(answer)
    }

    /// Ends it before it is sent.
    pub fn withdraw(self) {
        self.leases.state.lock().unanswered.end(self.latest);
    }

    fn end<T>(self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if !matches!(answer, Err(StoreError::Unknown { .. })) {
            self.withdraw();
        }
        answer
    }
}
