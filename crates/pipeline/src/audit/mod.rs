//! The audit trail of a queue: the record of an element's fate is confirmed before the element leaves Redis.
//!
//! The record is one more delivery, after the verdict and before it is written. Without its confirmation the element goes back to
//! Redis, and its record is sent again, if need be by another daemon: of what leaves Redis there is a record, and after a crash or
//! an answer in doubt there are two.
//!
//! - **Delivered**: the entry notes that only the record is missing ([`RECORD_PENDING`]), so that no sink is asked again.
//! - **A dead letter** is stored after its record. The other order could lose the record: a letter may be redriven, purged or
//!   trimmed before it is recorded. In this order another record may follow, because the element is tried again if the letter was
//!   not stored; the last record of an element is the one that counts.

mod record;

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;

use crate::claim::claimed::ClaimedElement;
use crate::claim::element::ElementState;
use crate::queue::{AuditTrail, Queue};
use crate::settle::judge::{PANIC, backoff};
use crate::settle::verdict::{Death, ReleaseCause, Verdict};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure, Outcome};
use delaybridge_core::template::ElementInfo;
use delaybridge_ledger::claims::RECORD_PENDING;
use delaybridge_model::AuditFate;
use delaybridge_sink::Outbound;
use delaybridge_telemetry::labels::DeadReason;

/// The time that a record is waited for before the entry says that only the record is missing.
const NOTED_AFTER: Duration = Duration::from_secs(1);

/// The time after which an element comes back whose record could not be sent within its lease.
const LATE_AFTER: Duration = Duration::from_secs(1);

/// Returns the fate that a verdict makes; `None` of what keeps the element in Redis.
fn fate(verdict: &Verdict) -> Option<AuditFate> {
    match verdict {
        Verdict::Confirm | Verdict::Push { .. } => Some(AuditFate::Delivered),
        Verdict::Skipped => Some(AuditFate::Skipped),
        Verdict::Dead(Death { reason, .. }) => Some(match reason {
            DeadReason::Skipped => AuditFate::Skipped,
            DeadReason::Expired => AuditFate::Expired,
            DeadReason::MaxAttempts
            | DeadReason::MessagePermanent
            | DeadReason::LeaseExpired
            | DeadReason::AbsurdDue
            | DeadReason::Undecodable
            | DeadReason::Unroutable
            | DeadReason::Junk => AuditFate::Dead,
        }),
        // The user has deleted the job.
        Verdict::Gone | Verdict::Retry { .. } | Verdict::Return { .. } | Verdict::Release { .. } => None,
    }
}

/// Returns the trail that takes a record of this verdict, with the fate.
fn trail_of<'a>(queue: &'a Queue, verdict: &Verdict) -> Option<(AuditFate, &'a AuditTrail)> {
    let fate = fate(verdict)?;
    let trail = queue.audit.as_deref()?;
    trail.spec.records(fate).then_some((fate, trail))
}

/// Settles an element with this verdict, if need be when its record is confirmed. Without one, its lease is over.
pub fn settle(mut element: ClaimedElement, verdict: Option<Verdict>) {
    let Some(verdict) = verdict else { return element.drop_stale() };
    let queue = element.state().queue().clone();
    if trail_of(&queue, &verdict).is_none() {
        return element.settle(verdict);
    }
    let tasks = queue.clone();
    tasks.spawn("audit", async move {
        match recorded(&mut element, verdict).await {
            Some(verdict) => element.settle_soon(verdict),
            None => element.drop_stale(),
        }
    });
}

/// Sends the record of an element, if its fate is recorded. Returns the verdict when that is confirmed, else one that brings the
/// element back; `None` if the lease is over and no sink has had the element. Dropped meanwhile, the element is released.
pub async fn recorded(element: &mut ClaimedElement, verdict: Verdict) -> Option<Verdict> {
    let queue = element.state().queue().clone();
    let Some((fate, trail)) = trail_of(&queue, &verdict) else { return Some(verdict) };
    if fate == AuditFate::Delivered {
        element.state().header.confirm(RECORD_PENDING);
    }
    let state = element.state();
    let claim = state.claim.clone();
    let message = message(trail, state, fate, &verdict);
    let sending = async {
        let mut message = message?;
        trail.route.handle.grant(1).await;
        message.send_before = claim.fresh().ok_or_else(Failure::stale)?;
        let outcome = trail.route.handle.deliver(message, &*trail.route.spec.target).await;
        trail.route.metrics.attempt(&outcome);
        outcome
    };
    let mut sending = std::pin::pin!(AssertUnwindSafe(sending).catch_unwind());
    let mut noted = fate != AuditFate::Delivered;
    let outcome = loop {
        // Order: what the sink has answered counts, even if the drain's time is up. All may be left at any time.
        tokio::select! {
            biased;
            outcome = &mut sending => break outcome,
            () = queue.abandon.cancelled() => return Some(Verdict::Release { why: ReleaseCause::Shutdown }),
            () = tokio::time::sleep(NOTED_AFTER), if !noted => {
                noted = true;
                // Its answer needs no action: after a refusal, the verdict is refused and counted as well.
                let _ = element.note_header();
            }
        }
    };
    let outcome = outcome.unwrap_or_else(|_panic| {
        queue.events.panicked(&element.state().id, "audit");
        Err(Failure::new(Class::Unknown, PANIC, "record the fate of the element: a panic, see the log"))
    });
    conclude(trail, element.state(), (fate, verdict), outcome)
}

/// Builds the message that records an element in the trail.
fn message(trail: &AuditTrail, state: &ElementState, fate: AuditFate, verdict: &Verdict) -> Result<Outbound, Failure> {
    let queue = state.queue();
    let now_ms = queue.home().now_ms();
    let attempt = state.claim.attempt(state.header.attempts, state.element.is_doubtful());
    let due_ms = state.header.due_ms();
    let element = ElementInfo { id: &state.id, queue: &queue.spec.id, due_ms, attempt, topic: None, carried: None };
    let destination = trail
        .route
        .spec
        .without_payload(&element)
        .map_err(|error| Failure::new(Class::MessagePermanent, error.code(), error.to_string()))?;
    // Where all records have one destination, its breaker keeps the queue from claiming.
    trail.route.only(&destination);
    Ok(Outbound {
        id: state.id.clone(),
        queue: queue.spec.id.clone(),
        // The record is due now. Two records of one element are two messages, also where the destination drops repeats.
        due_ms: Some(now_ms),
        attempt,
        now_ms,
        send_before: Instant::now(),
        destination,
        body: record::record(state, (fate, verdict), attempt, now_ms),
        headers: Vec::new(),
        carried: None,
        mark: None,
    })
}

/// Decides about an element whose lease was over before its record could be sent. What a sink may have is not dropped as unsent: a
/// late verdict is accepted if no other claim has taken the element, and notes what is known of it; else whoever has it knows that
/// it may be a repetition.
fn late(state: &mut ElementState, fate: AuditFate, failure: &Failure) -> Option<Verdict> {
    match fate {
        AuditFate::Delivered => {}
        AuditFate::Dead => state.header.doubt = true,
        AuditFate::Skipped | AuditFate::Expired => return None,
    }
    Some(Verdict::Retry { after: LATE_AFTER, counted: false, class: failure.class, code: failure.code })
}

/// Decides about an element after the answer of the trail.
fn conclude(
    trail: &AuditTrail,
    state: &mut ElementState,
    (fate, verdict): (AuditFate, Verdict),
    outcome: Outcome,
) -> Option<Verdict> {
    let queue = state.queue().clone();
    let probe = state.probe.take();
    let failure = match outcome {
        Ok(()) => {
            queue.events.metrics().audited(fate.as_str());
            if fate == AuditFate::Delivered {
                queue.release_hold();
            }
            if let Some(probe) = probe {
                probe.answered(fate == AuditFate::Delivered, |handle| handle.hash == trail.route.handle.hash);
            }
            return Some(verdict);
        }
        Err(failure) if failure.is_stale() => return late(state, fate, &failure),
        Err(failure) => failure,
    };
    // No element leaves without its record, so a record that is refused for good is a matter of the configuration.
    let holds = matches!(failure.class, Class::TargetPermanent | Class::MessagePermanent);
    if holds {
        queue.hold_because(Some(&trail.route.spec.sink), &failure)
    } else {
        queue.hold_learns_nothing(failure.class)
    }
    if let Some(probe) = probe {
        probe.answered(true, |handle| handle.hash == trail.route.handle.hash);
    }
    if holds {
        return Some(Verdict::Release { why: ReleaseCause::Hold { sink: None, failure } });
    }
    let after = backoff(&queue.spec.retry, state.header.attempts.max(1), fastrand::f64());
    Some(Verdict::Retry { after, counted: false, class: failure.class, code: failure.code })
}
