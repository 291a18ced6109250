//! Verdicts on single elements: everything but the confirmation of what is left in a claim.

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::claim::element::ElementState;
use crate::claim::record::Claim;
use crate::leases::Leases;
use crate::settle::send::{look, ready};
use crate::settle::settler::{Settler, SettlerState, Settling, SettlingKind};
use crate::settle::verdict::{ReleaseCause, Verdict};
use crate::tail;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};
use delaybridge_ledger::claims::SettleCommand;
use delaybridge_ledger::{Answer, BATCH_BYTES, BATCH_ENTRIES, millis};
use delaybridge_telemetry::labels::{DeadReason, Wakeup};

impl SettlerState {
    /// Takes as many verdicts as one script takes, by count and by bytes: at least one, if there is one. A verdict behind
    /// the progress of the same element names the member that the progress makes: not in one batch.
    pub(super) fn take_singles(&mut self) -> Vec<Settling> {
        let mut end = 0;
        let mut entries = 0;
        let mut bytes = 0;
        let mut progressed = Vec::new();
        for settling in &self.singles {
            let key = (settling.claim.name, settling.place);
            let element = &settling.claim.elements[settling.place];
            // The script reads a body once more before it removes it: that takes as long as a second verdict.
            entries += 1 + usize::from(element.body.is_some());
            bytes += element.weight() + settling.step.size();
            if end > 0 && (entries > BATCH_ENTRIES || bytes > BATCH_BYTES) || progressed.contains(&key) {
                break;
            }
            if let SettlingKind::Progress { .. } = settling.what {
                progressed.push(key);
            }
            end += 1;
        }
        self.singles.drain(..end).collect()
    }
}

/// Answers to confirmations of one claim, with the places of the elements.
struct OfClaim {
    claim: Arc<Claim>,
    answers: Vec<(usize, Answer)>,
    /// Whether they may have been written by a sending without an answer.
    resent: bool,
}

impl Settler {
    /// Writes these until there is an answer, and goes on with what follows from that.
    pub(super) async fn write_singles(self: &Arc<Self>, batch: Vec<Settling>) {
        if batch.is_empty() {
            return;
        }
        let (answers, resent) = send(self.leases(), &batch).await;
        let now = Instant::now();
        let mut confirmed: Vec<OfClaim> = Vec::new();
        for (Settling { claim, place, what, .. }, answer) in batch.into_iter().zip(answers) {
            match what {
                SettlingKind::Verdict(_, mut state) if answer == Answer::WrongType => {
                    let held = refused_push(&mut state);
                    self.settle(state, held);
                }
                SettlingKind::Verdict(verdict, state) => {
                    finish(self.leases(), verdict, state, answer, resent, now);
                    self.goes_on(&claim);
                }
                SettlingKind::Confirmed { resent: before } => match confirmed.last_mut() {
                    Some(last) if Arc::ptr_eq(&last.claim, &claim) => {
                        last.resent |= before;
                        last.answers.push((place, answer));
                    }
                    _ => confirmed.push(OfClaim { claim, answers: vec![(place, answer)], resent: resent || before }),
                },
                SettlingKind::Progress { element, reply } => {
                    let done = fate(&claim, answer, resent, now) == WriteOutcome::Done;
                    claim.rewritten(place, done.then_some(element));
                    // The caller may be gone.
                    let _ = reply.send(done);
                    self.goes_on(&claim);
                }
            }
        }
        for OfClaim { claim, answers, resent } in confirmed {
            finish_confirmed(self.leases(), &claim, answers.iter().copied(), resent, now);
            self.goes_on(&claim);
        }
    }
}

/// Builds the commands for these verdicts, on the elements as they are known now.
fn moves(batch: &[Settling]) -> Vec<SettleCommand> {
    let written = |settling: &Settling| {
        let Settling { claim, place, step, .. } = settling;
        let element = claim.element(*place);
        let body = claim.elements[*place].body_bytes().cloned();
        SettleCommand { claim: claim.name, part: element.part(), member: element.member, step: step.clone(), body }
    };
    batch.iter().map(written).collect()
}

/// Sends until there is an answer; whether it may have been sent before.
async fn send(leases: &Leases, batch: &[Settling]) -> (Vec<Answer>, bool) {
    let queue = leases.queue();
    let list = queue.exactly_once().map(|(key, _)| key.clone());
    let script = queue.process.events.metrics().script("settle");
    let mut resent = false;
    let mut reported = false;
    loop {
        ready(leases).await;
        // Made anew for each sending: a comparison may have found an element under another header.
        let moves = moves(batch);
        let sent = Instant::now();
        let answer =
            queue.store.settle(&moves, list.as_ref(), queue.spec.dead_letter_max_len.map(NonZeroU64::get)).await;
        if let Some(settled) = look(queue, answer, &mut resent, &mut reported).await {
            script.took(sent.elapsed());
            queue.home().observe(settled.now_ms);
            queue.events.metrics().dead_letters_trimmed(settled.trimmed);
            return (settled.answers, resent);
        }
    }
}

/// The meaning of an answer for a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteOutcome {
    /// Written.
    Done,
    /// Written by a sending without an answer, or another claim has taken the element over.
    Unknown,
    /// Another claim has taken the element over.
    Refused,
}

fn fate(claim: &Claim, answer: Answer, resent: bool, now: Instant) -> WriteOutcome {
    match answer {
        Answer::Done | Answer::Already => WriteOutcome::Done,
        Answer::NotMine if resent && claim.is_over(now) => WriteOutcome::Unknown,
        // No other process takes over while the lease runs: it was the sending without an answer.
        Answer::NotMine if resent => WriteOutcome::Done,
        Answer::NotMine | Answer::WrongType => WriteOutcome::Refused,
    }
}

/// Ends the confirmations of a claim that were answered, by their places.
pub(super) fn finish_confirmed(
    leases: &Leases,
    claim: &Claim,
    answers: impl ExactSizeIterator<Item = (usize, Answer)> + Clone,
    resent: bool,
    now: Instant,
) {
    let queue = leases.queue();
    let count =
        |of: WriteOutcome| answers.clone().filter(|(_, answer)| fate(claim, *answer, resent, now) == of).count();
    let places = answers.clone().map(|(place, _)| place);
    let done = count(WriteOutcome::Done);
    let unknown = count(WriteOutcome::Unknown);
    if done > 0 {
        // The answer to a resend says nothing of when it was done.
        if !resent && claim.deadline() < now {
            queue.events.metrics().late_acks(done as u64);
        }
        delivered(claim, done);
        queue.recent.confirmed(now, places.clone().map(|place| &claim.elements[place]));
        queue.adapt(now.since(claim.since), done);
    }
    queue.events.metrics().unknown_acks(unknown as u64);
    queue.events.stale_acks((answers.len() - done - unknown) as u64);
    leases.ended(claim, places);
}

/// Counts elements of a claim that have left Redis, each delivered to every sink.
fn delivered(claim: &Claim, count: usize) {
    let queue = &claim.queue;
    queue.count_settled(count);
    queue.events.metrics().delivered(count as u64);
}

/// Ends a verdict that was answered: releases the room, and counts by the verdict.
fn finish(leases: &Leases, verdict: Verdict, state: Box<ElementState>, answer: Answer, resent: bool, now: Instant) {
    let claim = state.claim.clone();
    let place = state.place;
    match fate(&claim, answer, resent, now) {
        WriteOutcome::Done => count(verdict, state, !resent && claim.deadline() < now),
        WriteOutcome::Unknown => claim.queue.events.metrics().unknown_acks(1),
        WriteOutcome::Refused => claim.queue.events.stale_acks(1),
    }
    leases.ended(&claim, [place]);
}

fn count(verdict: Verdict, state: Box<ElementState>, late: bool) {
    let queue = state.queue();
    if late {
        queue.events.metrics().late_acks(1);
    }
    tail::settled(&state, &verdict);
    match verdict {
        Verdict::Release { why } => {
            if why == ReleaseCause::NoRoom {
                // The claim that read no body for it may have been followed by another before it was back, which found nothing.
                queue.alarm.ring(Wakeup::More);
            }
            if let ReleaseCause::Destination { after } = why {
                // A claim that began before this was written has forgotten when it falls due.
                queue.alarm.announce(queue.home().now_ms().saturating_add(millis(after)));
            }
            queue.events.metrics().released(why.reason(), 1);
            queue.count_released();
        }
        Verdict::Push { .. } => {
            let _ = queue.history.take(state.id.id);
            delivered(&state.claim, 1);
            queue.adapt(Instant::now().since(state.claim.since), 1);
            pushed(state);
        }
        Verdict::Dead(death) => {
            queue.count_settled(1);
            if death.reason == DeadReason::Skipped {
                queue.events.metrics().skipped();
            }
            queue.events.dead_lettered(&state.id, death.reason, death.shown.as_deref().or(death.failure.as_ref()));
            queue.dead_letters.notify_one();
        }
        Verdict::Gone => {
            queue.count_settled(1);
            queue.events.metrics().without_body(1);
        }
        Verdict::Skipped => {
            queue.count_settled(1);
            queue.events.metrics().skipped();
        }
        Verdict::Return { .. } => {
            queue.count_released();
            queue.events.metrics().put_back(1);
        }
        Verdict::Confirm | Verdict::Retry { .. } => {
            queue.count_settled(1);
        }
    }
}

/// Records a delivery by a push: the push and the settling were one script, so this is the moment of delivery.
fn pushed(mut state: Box<ElementState>) {
    let queue = state.queue().clone();
    for route in &queue.routes {
        route.handle.confirmed(queue.home().now_ms());
        route.metrics.attempt(&Ok(()));
        if let Some(late) = state.lateness() {
            route.metrics.late(late);
        }
    }
    queue.release_hold();
    if let Some(probe) = state.probe.take() {
        probe.answered(true, |_| true);
    }
}

/// Returns the verdict on an element whose destination is not a list: as of a sink that refused it.
fn refused_push(state: &mut ElementState) -> Verdict {
    let queue = state.queue().clone();
    let failure = Failure::new(
        Class::TargetPermanent,
        "WRONGTYPE",
        "push exactly once: the destination key holds something else than a list; rename or delete it",
    );
    let sink = queue.routes.first().map(|route| {
        route.metrics.attempt(&Err(failure.clone()));
        &*route.spec.sink
    });
    queue.hold_because(sink, &failure);
    if let Some(probe) = state.probe.take() {
        probe.answered(true, |_| false);
    }
    let sink = (!queue.routes.is_empty()).then_some(0);
    Verdict::Release { why: ReleaseCause::Hold { sink, failure } }
}
