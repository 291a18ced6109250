//! What becomes of an element after its sinks have answered. Pure: no clock, no randomness, no metric.
//!
//! Success is never a default (R1): an element is confirmed only if every one of the sinks that are meant for it has said `Ok`,
//! in this round or an earlier one.

use std::time::Duration;

use crate::settle::verdict::{Death, ReleaseCause, Verdict};
use delaybridge_core::backoff::{Backoff, Jitter};
use delaybridge_core::message::{Class, Failure, Outcome};
use delaybridge_model::{RetryPolicy, Unroutable};
use delaybridge_telemetry::labels::DeadReason;

/// One round: an element was given to those of its sinks that had not confirmed it, and all of them have answered, or
/// the daemon gave up waiting.
#[derive(Debug)]
pub struct JudgedRound<'a> {
    /// Whether each sink of the queue had confirmed the element before this round; as long as the queue has sinks.
    pub confirmed: Vec<bool>,
    /// The sinks that are not meant for the element. The result of the round does not depend on them.
    pub passed_over: &'a [usize],
    /// The answers of the sinks of this round. A sink that was not asked (breaker open, shutdown) is not in the list.
    pub answers: &'a [SinkAnswer],
    /// Counted attempts before this round.
    pub counted: u32,
    /// The element was sent to find out whether a sink or a target works again.
    pub probe: bool,
    /// Working on the element panicked, in any stage.
    pub panicked: bool,
    /// The daemon stops, so that sinks which have not answered will not be asked again.
    pub stopping: bool,
    /// A sink was not asked because its destination is in trouble: the element comes back after this time.
    pub held: Option<Duration>,
    /// A sink was given the element and had not answered when the daemon gave up waiting for it: it may have taken it.
    pub abandoned: bool,
}

/// The answer of one sink.
#[derive(Debug, Clone)]
pub struct SinkAnswer {
    /// The sink's place among the queue's destinations.
    pub sink: usize,
    /// The answer.
    pub outcome: Outcome,
    /// Whether the destination has confirmed any other element since this element's last attempt: without that, a
    /// failure says nothing about the element, and an outage would make dead letters.
    pub moved: bool,
    /// The elements that have to wait because of a failure.
    pub stop: Stop,
}

/// The elements that have to wait until the reason of a failure is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The queue: all of its elements would fail.
    Queue,
    /// Elements for the same destination. Others of the queue do not wait.
    Destination {
        /// The wait.
        wait: Duration,
        /// Whether the destination is given up: see [`is_unroutable`].
        unroutable: bool,
    },
}

/// Returns whether a destination that payloads chose is given up after it has not worked for so long. `worked`: it has
/// in this process, or a destination that has is in trouble too, so that the trouble is the broker's.
pub fn is_unroutable(policy: Unroutable, lasted: Duration, worked: bool) -> bool {
    match policy.gives_up() {
        None => false,
        Some(Duration::ZERO) => true,
        Some(after) => !worked && lasted >= after,
    }
}

/// The result of judging a round.
#[derive(Debug, PartialEq)]
pub struct Judged {
    /// The verdict on the element.
    pub verdict: Verdict,
    /// The sinks that have confirmed it now; goes into the entry's header with every verdict that keeps the entry.
    pub confirmed: Vec<bool>,
    /// Whether it may come to a sink a second time because of this round: it can be sent again, and a sink's answer
    /// was ambiguous or never came, or a panic left it open what was sent.
    pub possible_duplicate: bool,
}

/// The code of a panic; its class is `Unknown`, which always counts.
pub const PANIC: &str = "panic";

/// Judges a round. `draw` is a random number of `0.0..=1.0` for the jitter.
///
/// The gravest answer decides: message_permanent, a panic, target_permanent, backpressure, unknown, ambiguous,
/// transient. Sinks that confirmed stay confirmed whatever the others said.
pub fn judge(mut round: JudgedRound<'_>, policy: &RetryPolicy, draw: f64) -> Judged {
    for answer in round.answers {
        // An index out of range is a bug of the caller; it must not turn into a confirmation of something else.
        if let (Ok(()), Some(slot)) = (&answer.outcome, round.confirmed.get_mut(answer.sink)) {
            *slot = true;
        }
    }
    let verdict = decide(&round, policy, draw);
    // A dead letter comes back when it is redriven.
    let again = matches!(verdict, Verdict::Retry { .. } | Verdict::Release { .. } | Verdict::Dead(_));
    let unsure = round.abandoned
        || round.panicked
        || failures(round.answers).any(|(_, failure)| failure.class == Class::Ambiguous);
    Judged { verdict, confirmed: round.confirmed, possible_duplicate: again && unsure }
}

fn decide(round: &JudgedRound<'_>, policy: &RetryPolicy, draw: f64) -> Verdict {
    let &JudgedRound { ref confirmed, passed_over, answers, counted, probe, panicked, stopping, held, abandoned: _ } =
        round;
    let open = (0..confirmed.len()).find(|sink| !confirmed[*sink] && !passed_over.contains(sink));
    // No sink at all is no success either.
    if open.is_none() && confirmed.contains(&true) {
        return Verdict::Confirm;
    }
    let of_class = |class: Class| failures(answers).find(|(_, failure)| failure.class == class);
    if let Some((answer, failure)) = of_class(Class::MessagePermanent) {
        return dead(DeadReason::MessagePermanent, Some(answer.sink), failure);
    }
    // A panic goes before all releases: it is a property of the element, which released uncounted would come back for
    // ever (R5).
    if panicked {
        let failure = Failure::new(Class::Unknown, PANIC, "work on the element: a panic, see the log");
        return retry(None, &failure, true, counted, policy, draw);
    }
    if let Some((answer, failure)) = of_class(Class::TargetPermanent) {
        return match answer.stop {
            Stop::Queue => {
                Verdict::Release { why: ReleaseCause::Hold { sink: Some(answer.sink), failure: failure.clone() } }
            }
            Stop::Destination { unroutable: true, .. } => dead(DeadReason::Unroutable, Some(answer.sink), failure),
            Stop::Destination { wait, .. } => Verdict::Release { why: ReleaseCause::Destination { after: wait } },
        };
    }
    if let Some((answer, _)) = of_class(Class::Backpressure) {
        return match answer.stop {
            Stop::Queue => Verdict::Release { why: ReleaseCause::Backpressure { sink: answer.sink } },
            Stop::Destination { wait, .. } => Verdict::Release { why: ReleaseCause::Destination { after: wait } },
        };
    }
    let gravest = [Class::Unknown, Class::Ambiguous, Class::Transient].into_iter().find_map(of_class);
    if let Some((answer, failure)) = gravest {
        let counts = !probe && failures(answers).any(|(answer, failure)| counts(failure, answer.moved));
        return retry(Some(answer.sink), failure, counts, counted, policy, draw);
    }
    // What is missing was not asked.
    if let (Some(after), false) = (held, stopping) {
        return Verdict::Release { why: ReleaseCause::Destination { after } };
    }
    match open {
        Some(sink) if !stopping => Verdict::Release { why: ReleaseCause::Backpressure { sink } },
        _ => Verdict::Release { why: ReleaseCause::Shutdown },
    }
}

fn failures(answers: &[SinkAnswer]) -> impl Iterator<Item = (&SinkAnswer, &Failure)> {
    answers.iter().filter_map(|answer| answer.outcome.as_ref().err().map(|failure| (answer, failure)))
}

/// Returns whether a failure counts towards `max_attempts`.
fn counts(failure: &Failure, moved: bool) -> bool {
    match failure.class {
        Class::Unknown => true,
        // A message that never left the process shows a full queue before the sink, and nothing about the element. Neither
        // does one that waited behind another.
        Class::Transient | Class::Ambiguous => moved && !failure.is_unsent() && !failure.is_behind(),
        Class::Backpressure | Class::MessagePermanent | Class::TargetPermanent => false,
    }
}

fn retry(
    sink: Option<usize>,
    failure: &Failure,
    counts: bool,
    counted: u32,
    policy: &RetryPolicy,
    draw: f64,
) -> Verdict {
    let counted = counted.saturating_add(counts.into());
    // Only an attempt that counts can be the last one: a policy that became stricter must not kill in an outage.
    if counts && counted >= policy.max_attempts {
        return dead(DeadReason::MaxAttempts, sink, failure);
    }
    let after = backoff(policy, counted, draw);
    Verdict::Retry { after, counted: counts, class: failure.class, code: failure.code }
}

/// Builds a dead-letter verdict without the destination, which the judge does not know.
fn dead(reason: DeadReason, sink: Option<usize>, failure: &Failure) -> Verdict {
    Verdict::Dead(Death { reason, sink, destination: None, failure: Some(failure.clone()), shown: None })
}

/// Computes the wait after `attempt` counted attempts (0 is taken as 1). `draw` is a random number of `0.0..=1.0`, used
/// only with full jitter.
pub fn backoff(policy: &RetryPolicy, attempt: u32, draw: f64) -> Duration {
    let jitter = if policy.full_jitter { Jitter::Full } else { Jitter::None };
    let &RetryPolicy { initial_interval: first, max_interval: ceiling, multiplier, .. } = policy;
    Backoff { first, ceiling, multiplier, jitter }.wait(attempt.saturating_sub(1), draw)
}

#[cfg(test)]
mod tests;
