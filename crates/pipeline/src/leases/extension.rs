//! Extensions of leases, each with a Redis time after which it does nothing. One that is held up on its way would give a full
//! lease to what has been left to its lease since.

use delaybridge_core::clock::Instant;
use delaybridge_ledger::claims::{ClaimName, Extended};
use delaybridge_source::StoreError;

use super::Leases;

/// Leases that were extended.
#[derive(Debug)]
pub struct Extension {
    /// The time of its sending: the new leases last at least so long from here.
    pub sent: Instant,
    /// Redis time in ms.
    pub now_ms: i64,
    /// For each name, whether it was still this process's.
    pub held: Vec<bool>,
}

/// The Redis times in ms until which calls without an answer may still extend a lease.
#[derive(Debug, Default)]
pub(super) struct Unanswered(Vec<i64>);

impl Unanswered {
    /// Adds a call; those that can no longer run at this Redis time are dropped.
    fn begin(&mut self, not_after_ms: i64, now_ms: i64) {
        self.0.retain(|until_ms| *until_ms >= now_ms);
        self.0.push(not_after_ms);
    }

    /// Removes a call that has its answer.
    fn end(&mut self, not_after_ms: i64) {
        if let Some(at) = self.0.iter().position(|until_ms| *until_ms == not_after_ms) {
            self.0.swap_remove(at);
        }
    }

    /// Adds those of the queue before.
    pub(super) fn append(&mut self, others: &mut Unanswered) {
        self.0.append(&mut others.0);
    }

    /// The time until which the last of them may run.
    pub(super) fn until_ms(&self) -> i64 {
        self.0.iter().copied().max().unwrap_or(i64::MIN)
    }
}

/// A call that extends leases; one that is dropped without an answer may still run.
#[derive(Debug)]
pub struct ExtendingCall<'a> {
    leases: &'a Leases,
    /// The time of its sending.
    pub sent: Instant,
    /// Redis time in ms after which it does nothing: its sender does not wait any longer than that.
    pub not_after_ms: i64,
}

impl<'a> ExtendingCall<'a> {
    /// A call that is sent now.
    pub fn begin(leases: &'a Leases) -> Self {
        let home = leases.queue.home();
        let now_ms = home.now_ms();
        let not_after_ms = now_ms.saturating_add(home.call_timeout().as_millis().try_into().unwrap_or(i64::MAX));
        leases.state.lock().unanswered.begin(not_after_ms, now_ms);
        ExtendingCall { leases, sent: Instant::now(), not_after_ms }
    }

    /// Ends with this answer.
    pub fn end<T>(self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if !matches!(answer, Err(StoreError::Unknown { .. })) {
            self.leases.state.lock().unanswered.end(self.not_after_ms);
        }
        answer
    }
}

impl Leases {
    /// Extends these leases. `None` if it came late twice: the server is slower than its callers wait, or its clock is another
    /// one at each call. After one such answer the clock is known.
    ///
    /// # Errors
    ///
    /// After any error it may be sent again.
    pub async fn extend(&self, names: &[ClaimName]) -> Result<Option<Extension>, StoreError> {
        let queue = &self.queue;
        for _ in 0..2 {
            let call = ExtendingCall::begin(self);
            let sent = call.sent;
            let answer = queue.store.extend(queue.spec.lease, call.not_after_ms, names).await;
            match call.end(answer)? {
                Extended::Late { now_ms } => queue.home().observe(now_ms),
                Extended::Done { now_ms, held } => {
                    queue.home().observe(now_ms);
                    return Ok(Some(Extension { sent, now_ms, held }));
                }
            }
        }
        Ok(None)
    }
}
