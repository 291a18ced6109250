//! What happens to one claimed element: decode, route, deliver to every sink that has not confirmed it, judge, settle.
//!
//! ```text
//! outcome = decode -> route -> deliver        verdict = judge(round)        claim.settle(verdict)
//! ```

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use redisson_codecs::Payload;

use crate::clock::Instant;
use crate::config::{OnDecodeError, OnExpired, TargetSpec};
use crate::message::{Class, Destination, Failure, Outbound, Outcome, Side};
use crate::pipeline::claim::{Claim, Parts};
use crate::pipeline::dead_letters::fields;
use crate::pipeline::deliver::sink_handle::SinkHandle;
use crate::pipeline::limits::circuit::Allow;
use crate::pipeline::queue::Queue;
use crate::pipeline::settle::Ending;
use crate::pipeline::settle::history::Attempt;
use crate::pipeline::settle::judge::{self, Answer, DeadReason, Judged, Release, Round, Verdict};
use crate::route::{self, ElementInfo};
use crate::source::redisson::{ClaimedFrom, Entry, Move};
use crate::telemetry::labels::ReleaseReason;

/// How long one sink is waited for after another has confirmed, before that is written down.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// Begins to deliver a batch, in its order, and returns what brings it to its verdicts.
///
/// Every element is at its sink's door when this returns, as far as the door is open: two batches, each in a task of its
/// own, could overtake each other on the way there, and elements of one Kafka partition would change places.
pub fn begin(claims: Vec<Claim>) -> impl Future<Output = ()> + Send {
    let mut outstanding = FuturesUnordered::new();
    for claim in claims {
        let mut relay = Box::pin(relay(claim));
        // Unconstrained, because the runtime would let only so many of them get anywhere, and those behind would wait for
        // the task that is spawned later. One by one, because `FuturesUnordered` pauses after two that want to go on.
        if tokio::task::unconstrained(&mut relay).now_or_never().is_none() {
            outstanding.push(relay);
        }
    }
    async move { while outstanding.next().await.is_some() {} }
}

/// What one round found out.
#[derive(Default)]
struct Found {
    answers: Vec<Answer>,
    /// Sinks that the element was handed to.
    asked: Vec<usize>,
    /// Where it was to go, by sink.
    destinations: Vec<(usize, Destination)>,
    /// The element's fate is decided without a sink.
    decided: Option<Decided>,
    /// What the settling script is to push.
    push: Option<(Side, Bytes)>,
    panicked: bool,
}

/// A fate that needs no sink.
enum Decided {
    Dead(DeadReason, Option<usize>, Option<Failure>),
    Hold(Failure),
    /// The lease is over: not ours to send.
    Stale,
    /// Nothing is delivered now: back to Redis, uncounted.
    Release(ReleaseReason),
}

async fn relay(mut claim: Claim) {
    let mut found = Found::default();
    let process = claim.parts().queue.process.clone();
    // Order: what a sink has answered counts, even if the drain's time is up.
    let ended = tokio::select! {
        biased;
        ended = AssertUnwindSafe(attempt(&mut claim, &mut found)).catch_unwind() => Some(ended),
        () = process.abandon.cancelled() => None,
    };
    let given_up = ended.is_none();
    if let Some(Err(_panic)) = ended {
        found.panicked = true;
        let parts = claim.parts();
        parts.queue.events.panicked(parts.id, "deliver");
    }
    conclude(claim, found, given_up);
}

/// Decodes, routes and delivers; fills `found` as it goes, so that what is known survives a panic or the end of the
/// drain.
async fn attempt(claim: &mut Claim, found: &mut Found) {
    let parts = claim.parts();
    // Boxed, like every way that few elements take: each would be moved and allocated with the room for it.
    if !parts.queue.spec.claim_ahead.is_zero()
        && let Err(decided) = Box::pin(wait_until_due(parts)).await
    {
        return found.decided = Some(decided);
    }
    let payload = match readable(parts) {
        Ok(payload) => payload,
        Err(decided) => return found.decided = Some(decided),
    };
    let Some(send_before) = parts.fresh() else {
        return found.decided = Some(Decided::Stale);
    };
    let now_ms = parts.queue.process.clock.now_ms();
    let mut messages = Vec::with_capacity(parts.queue.routes.len());
    for (place, route) in parts.queue.routes.iter().enumerate() {
        if parts.entry.header.confirmed.contains(&route.handle.hash) {
            continue;
        }
        match message(parts, &payload, place, now_ms, send_before) {
            Ok(message) => {
                found.destinations.push((place, message.destination.clone()));
                messages.push((place, message));
            }
            Err(failure) => {
                return found.decided = Some(Decided::Dead(DeadReason::Unroutable, Some(place), Some(failure)));
            }
        }
    }
    // What was built of it can take many times its bytes, and would wait for the sink's answer.
    drop(payload);
    if let Some((_, side)) = parts.queue.exactly_once() {
        // The settling script delivers.
        found.push = messages.pop().map(|(_, message)| (side, message.body));
        return;
    }
    deliver(claim, messages, found, now_ms).await;
    let stale = |answer: &Answer| matches!(&answer.outcome, Err(failure) if failure.is_stale());
    if !found.answers.is_empty() && found.answers.iter().all(stale) {
        found.decided = Some(Decided::Stale);
    }
}

/// Holds an element that was claimed ahead until it is due (R9), or until there is a reason to give it back.
async fn wait_until_due(parts: &mut Parts) -> Result<(), Decided> {
    let queue = parts.queue.clone();
    let Some(due_ms) = parts.entry.header.due_ms() else { return Ok(()) };
    let mut waited = false;
    loop {
        // Our idea of Redis's clock is rounded: a whole millisecond more, so that it is never ahead.
        let left = due_ms.saturating_add(1).saturating_sub(queue.process.clock.now_ms());
        let Ok(left @ 1..) = u64::try_from(left) else { break };
        if !std::mem::replace(&mut waited, true) {
            // It does no harm while it is only held, and an entry that must be alone would wait for it.
            parts.leave_shared();
        }
        // Not longer than a second: Redis's clock may be set, and ours stands still in a suspend.
        let left = Duration::from_millis(left).min(Duration::from_secs(1));
        // Order: a stop goes first. Both may be left at any time.
        tokio::select! {
            biased;
            () = queue.process.stopping.cancelled() => return Err(Decided::Release(ReleaseReason::Shutdown)),
            () = tokio::time::sleep(left) => {}
        }
    }
    if waited {
        parts.join_shared().await;
        // What was on its way to a sink when the hold began is sent all the same; this one need not be.
        if queue.hold().why().is_some() && parts.probe.is_none() {
            return Err(Decided::Release(ReleaseReason::Hold));
        }
        parts.since = Instant::now();
    }
    Ok(())
}

/// The payload, or why the element needs no sink.
fn readable(parts: &Parts) -> Result<Payload, Decided> {
    let queue = &parts.queue;
    if parts.from == ClaimedFrom::Exhausted {
        let failure = Failure::new(
            Class::Unknown,
            "lease_expired",
            "ten leases in a row ran out: the process died or stood still each time it worked on this element",
        );
        return Err(Decided::Dead(DeadReason::LeaseExpired, None, Some(failure)));
    }
    let payload = match &parts.payload {
        Ok(payload) => payload,
        Err(junk) => {
            let failure = Failure::new(Class::MessagePermanent, "junk", junk.to_string());
            return Err(Decided::Dead(DeadReason::Junk, None, Some(failure)));
        }
    };
    if let (Some(limit), Some(late)) = (queue.spec.max_lateness, parts.lateness())
        && late > limit
    {
        if queue.spec.on_expired == OnExpired::Deliver {
            queue.events.metrics().expired_delivery();
            return decoded(queue, payload);
        }
        let text = format!("{} ms late, max_lateness is {} ms", late.as_millis(), limit.as_millis());
        let failure = Failure::new(Class::MessagePermanent, "expired", text);
        return Err(Decided::Dead(DeadReason::Expired, None, Some(failure)));
    }
    decoded(queue, payload)
}

fn decoded(queue: &Queue, payload: &Bytes) -> Result<Payload, Decided> {
    redisson_codecs::decode(queue.spec.codec, payload).or_else(|error| {
        queue.events.metrics().decode_error(queue.spec.codec.as_str());
        if error.is_opaque() {
            queue.events.opaque(&error.to_string());
            return Ok(Payload::opaque(payload.clone()));
        }
        let failure = Failure::new(Class::MessagePermanent, error.code(), error.to_string());
        match queue.spec.on_decode_error {
            OnDecodeError::ForwardRaw => Ok(Payload::opaque(payload.clone())),
            OnDecodeError::DeadLetter => Err(Decided::Dead(DeadReason::Undecodable, None, Some(failure))),
            OnDecodeError::Hold => Err(Decided::Hold(Failure { class: Class::TargetPermanent, ..failure })),
        }
    })
}

fn message(
    parts: &Parts,
    payload: &Payload,
    place: usize,
    now_ms: i64,
    send_before: Instant,
) -> Result<Outbound, Failure> {
    let queue = &parts.queue;
    let (spec, header) = (&queue.routes[place].spec, &parts.entry.header);
    let attempt = header.attempts.saturating_add(1);
    let element = ElementInfo { id: parts.id, queue: &queue.spec.id, due_ms: header.due_ms(), attempt };
    let routed = route::route(spec, &element, payload)
        .map_err(|error| Failure::new(Class::MessagePermanent, error.code(), error.to_string()))?;
    Ok(Outbound {
        id: parts.id,
        queue: queue.spec.id.clone(),
        due_ms: header.due_ms(),
        attempt,
        now_ms,
        send_before,
        destination: routed.destination,
        body: routed.body,
        headers: routed.headers,
    })
}

/// Hands the messages to their sinks, all at once.
async fn deliver(claim: &mut Claim, messages: Vec<(usize, Outbound)>, found: &mut Found, now_ms: i64) {
    let queue = claim.parts().queue.clone();
    let since_ms = match claim.parts().entry.header.last_attempt_ms {
        0 => now_ms,
        last => last,
    };
    let probe = claim.parts().probe.is_some();
    // A breaker that opened after the claim: what waits here is not thrown at a sink that is down.
    let open = |place: usize| probe || queue.routes[place].handle.allows() == Allow::Free;
    let mut messages: Vec<_> = messages.into_iter().filter(|(place, _)| open(*place)).collect();
    found.asked.extend(messages.iter().map(|(place, _)| *place));
    match messages.len() {
        // Nearly every queue has one sink. A set of futures and its timer would cost such an element a second poll.
        1 => {
            let Some((place, message)) = messages.pop() else { return };
            let outcome = queue.routes[place].handle.deliver(message).await;
            answered(claim, found, place, outcome, since_ms);
        }
        _ => Box::pin(deliver_to_several(claim, messages, found, since_ms)).await,
    }
}

/// Where one sink has confirmed and another has not within a second, that is written down, so that a crash does not
/// deliver to the first again.
async fn deliver_to_several(claim: &mut Claim, messages: Vec<(usize, Outbound)>, found: &mut Found, since_ms: i64) {
    let queue = claim.parts().queue.clone();
    let deliveries = messages.into_iter().map(|(place, message)| {
        let handle = &queue.routes[place].handle;
        async move { (place, handle.deliver(message).await) }
    });
    let mut outstanding: FuturesUnordered<_> = deliveries.collect();
    let mut progress = std::pin::pin!(tokio::time::sleep(PROGRESS_AFTER));
    let mut armed = false;
    while !outstanding.is_empty() {
        // Order: answers first, so that progress is written only for what really waits. Both may be left at any time:
        // the answers stay in `outstanding`, the timer in `progress`.
        tokio::select! {
            biased;
            Some((place, outcome)) = outstanding.next() => {
                // Measured from the first confirmation that is not written down yet.
                if answered(claim, found, place, outcome, since_ms) && !armed {
                    progress.as_mut().reset(tokio::time::Instant::now() + PROGRESS_AFTER);
                    armed = true;
                }
            }
            () = &mut progress, if armed => {
                armed = false;
                write_progress(claim, found).await;
            }
        }
    }
}

/// Counts and keeps what a sink answered; whether it confirmed.
fn answered(claim: &mut Claim, found: &mut Found, place: usize, outcome: Outcome, since_ms: i64) -> bool {
    let parts = claim.parts();
    let route = &parts.queue.routes[place];
    let outcome = outcome.map_err(|failure| own_target(failure, &route.spec.target));
    let stale = matches!(&outcome, Err(failure) if failure.is_stale());
    if !stale {
        route.metrics.attempt(&outcome);
    }
    if let (Ok(()), Some(late)) = (&outcome, parts.lateness()) {
        route.metrics.late(late);
    }
    let sink_moved = !stale && route.handle.moved_since(since_ms);
    let confirmed = outcome.is_ok();
    found.answers.push(Answer { sink: place, outcome, sink_moved });
    confirmed
}

/// A target that came out of a template on the payload is the message's own: what would hold the queue for a static
/// target kills only the message.
fn own_target(failure: Failure, target: &TargetSpec) -> Failure {
    match failure.class {
        Class::TargetPermanent if target.is_chosen_by_payload(failure.about) => {
            Failure { class: Class::MessagePermanent, ..failure }
        }
        _ => failure,
    }
}

async fn write_progress(claim: &mut Claim, found: &Found) {
    let parts = claim.parts();
    let mut header = parts.kept_header();
    for answer in found.answers.iter().filter(|answer| answer.outcome.is_ok()) {
        header.confirm(parts.queue.routes[answer.sink].handle.hash);
    }
    // A refusal needs no action: the final verdict is refused and counted as well.
    if parts.queue.settler.progress(&parts.queue, &parts.entry, header.clone()).await {
        let member = parts.entry.under(&header);
        if let Some(entry) = Entry::decode(member) {
            parts.entry = entry;
        }
    }
}

/// Turns what was found out into a verdict, and hands it to the settler.
fn conclude(mut claim: Claim, found: Found, given_up: bool) {
    let Found { answers, asked, destinations, decided, push, panicked } = found;
    let parts = claim.parts();
    let queue = parts.queue.clone();
    let destination = |sink: Option<usize>| {
        destinations.iter().find(|(place, _)| Some(*place) == sink).map(|(_, destination)| destination.to_string())
    };
    match (decided, push) {
        (Some(Decided::Stale), _) => return claim.drop_stale(),
        (Some(Decided::Release(reason)), _) => return release(claim, reason),
        (Some(Decided::Dead(reason, sink, failure)), _) => {
            let attempts = parts.entry.header.attempts;
            let fields = fields::fields(parts, attempts, reason, sink, destination(sink), failure.as_ref());
            return claim.settle(Move::Dead { fields }, Ending::Dead(reason, failure));
        }
        (Some(Decided::Hold(failure)), _) => {
            queue.hold_because(None, &failure);
            if let Some(probe) = parts.probe.take() {
                probe.answered(true, |_| false);
            }
            return release(claim, ReleaseReason::Hold);
        }
        (None, Some((side, body))) if !panicked => {
            // A probe stays with the element: whether it was delivered, the script will tell.
            return claim.settle(Move::Push { side, body }, Ending::Delivered);
        }
        (None, _) => {}
    }

    let unanswered = given_up && asked.iter().any(|place| answers.iter().all(|answer| answer.sink != *place));
    let header = &parts.entry.header;
    let confirmed = queue.routes.iter().map(|route| header.confirmed.contains(&route.handle.hash)).collect();
    let round = Round {
        confirmed,
        answers: &answers,
        counted: header.attempts,
        probe: parts.probe.is_some(),
        panicked,
        stopping: given_up,
        abandoned: unanswered,
    };
    let Judged { verdict, confirmed, possible_duplicate } = judge::judge(round, &queue.spec.retry, fastrand::f64());
    if possible_duplicate {
        queue.events.metrics().possible_duplicates(1);
    }
    note(parts, &answers, panicked);
    let hold_moved = move_hold(&queue, &verdict);
    if let Some(probe) = parts.probe.take() {
        // A breaker has seen an answer, not a question: one that was given up is asked again.
        let seen = |handle: &SinkHandle| {
            let told = |answer: &&Answer| !matches!(&answer.outcome, Err(failure) if failure.is_stale());
            answers.iter().filter(told).any(|answer| queue.routes[answer.sink].handle.hash == handle.hash)
        };
        probe.answered(hold_moved, seen);
    }

    let now_ms = queue.process.clock.now_ms();
    let mut header = parts.kept_header();
    for (route, confirmed) in queue.routes.iter().zip(&confirmed) {
        if *confirmed {
            header.confirm(route.handle.hash);
        }
    }
    if !asked.is_empty() || panicked {
        header.last_attempt_ms = now_ms;
        header.first_attempt_ms = if header.first_attempt_ms == 0 { now_ms } else { header.first_attempt_ms };
    }
    match verdict {
        Verdict::Confirm => claim.settle(Move::Confirm, Ending::Delivered),
        Verdict::Retry { after, counted, class, code } => {
            header.attempts = header.attempts.saturating_add(counted.into());
            header.set_failure(class, code);
            let delay_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
            queue.alarm.announce(now_ms.saturating_add_unsigned(delay_ms));
            claim.settle(Move::Retry { header, delay_ms }, Ending::Retried);
        }
        Verdict::Dead { reason, sink, failure } => {
            // The attempt that ended it counts.
            let attempts = header.attempts.saturating_add(1);
            header.expiries = parts.entry.header.expiries;
            parts.entry.header = header;
            let fields = fields::fields(parts, attempts, reason, sink, destination(sink), failure.as_ref());
            claim.settle(Move::Dead { fields }, Ending::Dead(reason, failure));
        }
        Verdict::Release { why } => {
            let reason = match why {
                Release::Hold { .. } => ReleaseReason::Hold,
                Release::Backpressure { .. } => ReleaseReason::Backpressure,
                Release::Shutdown => ReleaseReason::Shutdown,
            };
            claim.settle(Move::Release { at_ms: header.time_ms, header }, Ending::Released(reason));
        }
    }
}

fn release(mut claim: Claim, reason: ReleaseReason) {
    let parts = claim.parts();
    let step = parts.release();
    claim.settle(step, Ending::Released(reason));
}

fn note(parts: &Parts, answers: &[Answer], panicked: bool) {
    let at_ms = parts.queue.process.clock.now_ms();
    for answer in answers {
        if let Err(failure) = &answer.outcome {
            let sink = parts.queue.routes[answer.sink].spec.sink.to_string();
            parts.queue.history.note(parts.id, Attempt { at_ms, sink, class: failure.class, code: failure.code });
        }
    }
    if panicked {
        let attempt = Attempt { at_ms, sink: String::new(), class: Class::Unknown, code: judge::PANIC };
        parts.queue.history.note(parts.id, attempt);
    }
}

/// Lets the queue's hold see the verdict; whether it learned something from it.
fn move_hold(queue: &Arc<Queue>, verdict: &Verdict) -> bool {
    let inconclusive = |class| {
        let mut hold = queue.hold();
        hold.on_failure(class, Instant::now(), fastrand::f64());
        if hold.why().is_some() {
            // A probe that proved nothing: those who wait have a new time to wait for.
            queue.process.gates.send_modify(|n| *n += 1);
        }
        true
    };
    match verdict {
        Verdict::Confirm => {
            queue.release_hold();
            true
        }
        Verdict::Release { why: Release::Hold { sink, failure } } => {
            queue.hold_because(queue.routes.get(*sink).map(|route| &*route.spec.sink), failure);
            true
        }
        Verdict::Retry { class, .. } => inconclusive(*class),
        Verdict::Dead { .. } => inconclusive(Class::MessagePermanent),
        Verdict::Release { .. } => false,
    }
}
