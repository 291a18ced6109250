//! What happens to one claimed element: decode, route, deliver to every sink that has not confirmed it, judge, settle.
//!
//! ```text
//! outcome = decode -> route -> deliver        verdict = judge(round)        held.settle(verdict)
//! ```

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::clock::Instant;
use crate::message::Outcome;
use crate::pipeline::claim::{ClaimBatch, ClaimedElement, ElementState};
use crate::pipeline::deliver::answer::answer;
use crate::pipeline::deliver::conclude;
use crate::pipeline::deliver::in_order;
use crate::pipeline::deliver::outbound::{self, ElementView};
use crate::pipeline::deliver::pass::{Decision, Decisions, pass};
use crate::pipeline::deliver::together::{BatchDelivery, is_common};
use crate::pipeline::settle::judge::SinkAnswer;
use crate::pipeline::settle::verdict::{ReleaseCause, Verdict};
use crate::sink::{Destination, Outbound};

/// How long confirmed elements of a claim wait for its others before they are written.
const FLUSH: Duration = Duration::from_millis(20);

/// How long one sink is waited for after another has confirmed, before that is written down.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// The beginning of a delivery.
pub struct Started<T> {
    /// What brings the elements that were handed over to their verdicts.
    pub work: T,
    /// What the next element of the batch grows by, if there is no room for that. What is left of the batch is to be begun when
    /// there is.
    pub missing_bytes: Option<u64>,
}

/// Begins to deliver a batch, in its order, and returns what brings it to its verdicts.
///
/// Every element is at its sink's door when this returns, as far as the door is open and there is room: two batches, each in
/// a task of its own, could overtake each other on the way there, and elements of one Kafka partition would change places.
pub fn begin(batch: &mut ClaimBatch) -> Started<Option<BoxFuture<'static, ()>>> {
    if batch.claim().queue.spec.order.is_some() {
        return Started { work: in_order::begin(batch), missing_bytes: None };
    }
    if is_common(batch) {
        let Started { work, missing_bytes } = BatchDelivery::begin(batch);
        return Started { work: work.map(|together| together.finish().boxed()), missing_bytes };
    }
    let claim = batch.claim().clone();
    let mut outstanding = FuturesUnordered::new();
    for held in batch {
        let mut relay = Box::pin(relay(held));
        // Unconstrained, because the runtime would let only so many of them get anywhere, and those behind would wait for
        // the task that is spawned later. One by one, because `FuturesUnordered` pauses after two that are ready.
        if tokio::task::unconstrained(&mut relay).now_or_never().is_none() {
            outstanding.push(relay);
        }
    }
    let finish = async move {
        let mut tick = tokio::time::interval(FLUSH);
        loop {
            // Order: answers first. Both may be left at any time.
            tokio::select! {
                biased;
                answered = outstanding.next() => if answered.is_none() { break },
                _ = tick.tick() => claim.queue.settler.flush(&claim),
            }
        }
        claim.queue.settler.flush(&claim);
    };
    Started { work: Some(finish.boxed()), missing_bytes: None }
}

/// What one round found out.
#[derive(Default)]
pub(super) struct RoundResult {
    /// What sinks answered.
    pub answers: Vec<SinkAnswer>,
    /// Sinks that have got the element.
    pub asked: Vec<usize>,
    /// Where it was to go, by sink.
    pub destinations: Vec<(usize, Destination)>,
    /// Work on the element panicked.
    pub panicked: bool,
    /// The drain's time was up before the sinks had answered.
    pub given_up: bool,
    /// A destination is in trouble, and was not asked: when the element comes back.
    pub held: Option<Duration>,
    /// The element was to find out whether its destination works again.
    pub probe: bool,
}

/// Why an element's sinks have nothing to say about it.
pub(super) enum NoDelivery {
    /// The verdict is there without them.
    Decided(Verdict),
    /// The lease is over: not ours to send, and not ours to settle.
    Stale,
}

impl From<Verdict> for NoDelivery {
    fn from(verdict: Verdict) -> Self {
        NoDelivery::Decided(verdict)
    }
}

async fn relay(mut held: ClaimedElement) {
    match round(&mut held).await {
        Err(NoDelivery::Stale) => held.drop_stale(),
        Err(NoDelivery::Decided(verdict)) => conclude::without_sinks(held, verdict),
        Ok(found) => conclude::by_answers(held, found),
    }
}

/// One round: what the sinks said, or why they were not asked.
pub(super) async fn round(held: &mut ClaimedElement) -> Result<RoundResult, NoDelivery> {
    let mut found = RoundResult::default();
    let queue = held.parts().queue().clone();
    // Order: what a sink has answered counts, even if the drain's time is up.
    let ended = tokio::select! {
        biased;
        ended = AssertUnwindSafe(attempt(held, &mut found)).catch_unwind() => Some(ended),
        () = queue.abandon.cancelled() => None,
    };
    match ended {
        Some(Ok(Err(early))) => return Err(early),
        Some(Ok(Ok(()))) => {}
        Some(Err(_panic)) => {
            found.panicked = true;
            let parts = held.parts();
            parts.queue().events.panicked(&parts.id, "deliver");
        }
        None => found.given_up = true,
    }
    Ok(found)
}

/// Decodes, routes and delivers; fills `found` as it goes, so that what is known survives a panic or the end of the
/// drain.
async fn attempt(held: &mut ClaimedElement, found: &mut RoundResult) -> Result<(), NoDelivery> {
    let parts = held.parts();
    // Boxed, like every way that few elements take: each would be moved and allocated with the room for it.
    if !parts.queue().spec.claim_ahead.is_zero() {
        Box::pin(wait_until_due(parts)).await?;
    }
    let (mut messages, now_ms) = loop {
        let send_before = parts.claim.fresh().ok_or(NoDelivery::Stale)?;
        let now_ms = parts.queue().home().now_ms();
        let (messages, grown) = messages(parts, now_ms, send_before)?;
        if parts.grow(grown) {
            break (messages, now_ms);
        }
        // Made once more when there is room.
        drop(messages);
        Box::pin(wait_for_room(parts, grown)).await?;
    };
    found.destinations.extend(messages.iter().map(|(place, message)| (*place, message.destination.clone())));
    if let Some((_, side)) = parts.queue().exactly_once() {
        // The settling script delivers.
        return match messages.pop() {
            Some((_, message)) => Err(Verdict::Push { side, body: message.body }.into()),
            None => Ok(()),
        };
    }
    deliver(held, messages, found, now_ms).await;
    held.parts().shrink();
    let stale = |answer: &SinkAnswer| matches!(&answer.outcome, Err(failure) if failure.is_stale());
    match !found.answers.is_empty() && found.answers.iter().all(stale) {
        true => Err(NoDelivery::Stale),
        false => Ok(()),
    }
}

/// The element on its way to every sink that has not confirmed it, with what it grew by.
fn messages(parts: &ElementState, now_ms: i64, send_before: Instant) -> Result<(Vec<(usize, Outbound)>, u64), Verdict> {
    let subject = ElementView::of(parts);
    let payload = outbound::readable(&subject)?;
    let routes = &parts.queue().routes;
    let (mut messages, mut grown) = (Vec::with_capacity(routes.len()), 0);
    for (place, route) in routes.iter().enumerate() {
        if parts.header.confirmed.contains(&route.handle.hash) {
            continue;
        }
        let message = outbound::message(&subject, &payload, place, now_ms, send_before)
            .map_err(|failure| outbound::unroutable(place, failure))?;
        grown += outbound::growth(&subject, &message, place);
        messages.push((place, message));
    }
    Ok((messages, grown))
}

/// Waits until the element may grow by so much, or until there is a reason to give it back.
async fn wait_for_room(parts: &mut ElementState, bytes: u64) -> Result<(), Verdict> {
    let stopping = parts.queue().stopping.clone();
    // Order: a stop goes first. Both may be left at any time.
    tokio::select! {
        biased;
        () = stopping.cancelled() => Err(Verdict::Release { why: ReleaseCause::Shutdown }),
        () = parts.wait_for_room(bytes) => Ok(()),
    }
}

/// Holds an element that was claimed ahead until it is due (R9), or until there is a reason to give it back.
async fn wait_until_due(parts: &mut ElementState) -> Result<(), Verdict> {
    let queue = parts.queue().clone();
    let Some(due_ms) = parts.header.due_ms() else { return Ok(()) };
    let mut waited = false;
    loop {
        // Our idea of Redis's clock is rounded: a whole millisecond more, so that it is never ahead.
        let left = due_ms.saturating_add(1).saturating_sub(queue.home().now_ms());
        let Ok(left @ 1..) = u64::try_from(left) else { break };
        if !std::mem::replace(&mut waited, true) {
            // It does no harm while it is only held, and an entry that must be alone would wait for it.
            parts.leave_shared();
        }
        // Not longer than a second: Redis's clock may be set, and ours stops in a suspend.
        let left = Duration::from_millis(left).min(Duration::from_secs(1));
        // Order: a stop goes first. Both may be left at any time.
        tokio::select! {
            biased;
            () = queue.stopping.cancelled() => return Err(Verdict::Release { why: ReleaseCause::Shutdown }),
            () = tokio::time::sleep(left) => {}
        }
    }
    if waited {
        parts.join_shared().await;
        // What was on its way to a sink when the hold began is sent all the same; this one need not be.
        if queue.hold().why().is_some() && parts.probe.is_none() {
            return Err(Verdict::Release { why: ReleaseCause::OnHold });
        }
        parts.since = Instant::now();
    }
    Ok(())
}

/// Hands the messages to their sinks, all at once.
async fn deliver(held: &mut ClaimedElement, messages: Vec<(usize, Outbound)>, found: &mut RoundResult, now_ms: i64) {
    let queue = held.parts().queue().clone();
    let probe = held.parts().probe.is_some();
    let (mut open, mut passes) = (Vec::with_capacity(messages.len()), Vec::new());
    for (place, message) in messages {
        match pass(&queue, &queue.routes[place], probe, std::iter::once(&message)) {
            Decisions::All => open.push((place, message)),
            // A breaker that opened after the claim: what waits here is not thrown at a sink that is down.
            Decisions::None => {}
            Decisions::Each(entries) => match entries.into_iter().next() {
                Some(Decision::Go(pass)) => {
                    found.probe |= pass.is_probe();
                    passes.push(pass);
                    open.push((place, message));
                }
                Some(Decision::Back(wait)) => found.held = found.held.max(Some(wait)),
                None => {}
            },
        }
    }
    found.asked.extend(open.iter().map(|(place, _)| *place));
    match open.len() {
        // Nearly every queue has one sink. A set of futures and its timer would cost such an element a second poll.
        1 => {
            let Some((place, message)) = open.pop() else { return };
            let route = &queue.routes[place];
            let outcome = route.handle.deliver(message, &*route.spec.target).await;
            answered(held, found, place, outcome, now_ms);
        }
        _ => Box::pin(deliver_to_several(held, open, found, now_ms)).await,
    }
    drop(passes);
}

/// Where one sink has confirmed and another has not within a second, that is written down, so that a crash does not
/// deliver to the first again.
async fn deliver_to_several(
    held: &mut ClaimedElement,
    messages: Vec<(usize, Outbound)>,
    found: &mut RoundResult,
    now_ms: i64,
) {
    let queue = held.parts().queue().clone();
    let deliveries = messages.into_iter().map(|(place, message)| {
        let route = &queue.routes[place];
        async move { (place, route.handle.deliver(message, &*route.spec.target).await) }
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
                if answered(held, found, place, outcome, now_ms) && !armed {
                    progress.as_mut().reset(tokio::time::Instant::now() + PROGRESS_AFTER);
                    armed = true;
                }
            }
            () = &mut progress, if armed => {
                armed = false;
                write_progress(held, found).await;
            }
        }
    }
}

/// Counts and keeps what a sink answered; whether it confirmed.
fn answered(held: &mut ClaimedElement, found: &mut RoundResult, place: usize, outcome: Outcome, now_ms: i64) -> bool {
    let parts = held.parts();
    let route = &parts.queue().routes[place];
    let stale = matches!(&outcome, Err(failure) if failure.is_stale());
    if !stale {
        route.metrics.attempt(&outcome);
    }
    if let (Ok(()), Some(late)) = (&outcome, parts.lateness()) {
        route.metrics.late(late);
    }
    if let Some(traces) = &parts.claim.traces {
        traces.answered(parts.place, place, outcome.as_ref().err());
    }
    let confirmed = outcome.is_ok();
    if let Some((_, destination)) = found.destinations.iter().find(|(sink, _)| *sink == place) {
        let answer = answer(parts.queue(), place, destination, outcome, &parts.header, now_ms);
        found.answers.push(answer);
    }
    confirmed
}

async fn write_progress(held: &mut ClaimedElement, found: &RoundResult) {
    let parts = held.parts();
    let mut header = parts.header.clone();
    for answer in found.answers.iter().filter(|answer| answer.outcome.is_ok()) {
        header.confirm(parts.queue().routes[answer.sink].handle.hash);
    }
    let (queue, claim) = (parts.queue().clone(), parts.claim.clone());
    // A refusal needs no action: the final verdict is refused and counted as well.
    if queue.settler.progress(&claim, parts.place, &parts.element, header.clone()).await {
        if let Some(element) = claim.element(parts.place) {
            parts.element = element;
        }
        parts.header = header;
    }
}
