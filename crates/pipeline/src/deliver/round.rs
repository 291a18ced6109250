//! One round of one element: decoded, routed, and delivered to every sink that has not confirmed it.
//!
//! All sinks that have not confirmed an element receive it at the same time. If one has confirmed and another has not
//! within a second, that progress is written, so that a crash does not deliver to the first again.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::future::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::claim::claimed::ClaimedElement;
use crate::claim::element::ElementState;
use crate::deliver::answer::answer;
use crate::deliver::outbound::{self, ElementView};
use crate::deliver::pass::{Decision, Decisions, pass};
use crate::deliver::result::{NoDelivery, RoundResult};
use crate::settle::judge::SinkAnswer;
use crate::settle::verdict::{ReleaseCause, Verdict};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::Outcome;
use delaybridge_sink::Outbound;

/// The time that one sink is waited for after another has confirmed, before that is written down.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// Brings an element to its sinks once.
pub(super) async fn round(held: &mut ClaimedElement) -> Result<RoundResult, NoDelivery> {
    let mut found = RoundResult::default();
    let queue = held.state().queue().clone();
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
            let state = held.state();
            state.queue().events.panicked(&state.id, "deliver");
        }
        None => found.given_up = true,
    }
    Ok(found)
}

/// Decodes, routes and delivers; fills `found` as it goes, so that what is known survives a panic or the end of the
/// drain.
async fn attempt(held: &mut ClaimedElement, found: &mut RoundResult) -> Result<(), NoDelivery> {
    let state = held.state();
    // Boxed, like every way that few elements take: each would be moved and allocated with the room for it.
    if !state.queue().spec.claim_ahead.is_zero() {
        Box::pin(wait_until_due(state)).await?;
    }
    let (mut messages, now_ms) = loop {
        let send_before = state.claim.fresh().ok_or(NoDelivery::Stale)?;
        let now_ms = state.queue().home().now_ms();
        let (messages, grown) = messages(state, now_ms, send_before)?;
        if state.grow(grown) {
            break (messages, now_ms);
        }
        // Made once more when there is room.
        drop(messages);
        Box::pin(wait_for_room(state, grown)).await?;
    };
    found.destinations.extend(messages.iter().map(|(place, message)| (*place, message.destination.clone())));
    if let Some((_, side)) = state.queue().exactly_once() {
        // The settling script delivers.
        return match messages.pop() {
            Some((_, message)) => Err(Verdict::Push { side, body: message.body }.into()),
            None => Ok(()),
        };
    }
    deliver(held, messages, found, now_ms).await;
    held.state().shrink();
    let stale = |answer: &SinkAnswer| matches!(&answer.outcome, Err(failure) if failure.is_stale());
    match !found.answers.is_empty() && found.answers.iter().all(stale) {
        true => Err(NoDelivery::Stale),
        false => Ok(()),
    }
}

/// The element on its way to every sink that has not confirmed it, with what it grew by.
fn messages(state: &ElementState, now_ms: i64, send_before: Instant) -> Result<(Vec<(usize, Outbound)>, u64), Verdict> {
    let subject = ElementView::of(state);
    let payload = outbound::readable(&subject)?;
    let routes = &state.queue().routes;
    let (mut messages, mut grown) = (Vec::with_capacity(routes.len()), 0);
    for (place, route) in routes.iter().enumerate() {
        if state.header.confirmed.contains(&route.handle.hash) {
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
async fn wait_for_room(state: &mut ElementState, bytes: u64) -> Result<(), Verdict> {
    let stopping = state.queue().stopping.clone();
    // Order: a stop goes first. Both may be left at any time.
    tokio::select! {
        biased;
        () = stopping.cancelled() => Err(Verdict::Release { why: ReleaseCause::Shutdown }),
        () = state.wait_for_room(bytes) => Ok(()),
    }
}

/// Holds an element that was claimed ahead until it is due (R9), or until there is a reason to give it back.
async fn wait_until_due(state: &mut ElementState) -> Result<(), Verdict> {
    let queue = state.queue().clone();
    let Some(due_ms) = state.header.due_ms() else { return Ok(()) };
    let mut waited = false;
    loop {
        // Our idea of Redis's clock is rounded: a whole millisecond more, so that it is never ahead.
        let left = due_ms.saturating_add(1).saturating_sub(queue.home().now_ms());
        let Ok(left @ 1..) = u64::try_from(left) else { break };
        if !std::mem::replace(&mut waited, true) {
            // It does no harm while it is only held, and an entry that must be alone would wait for it.
            state.leave_shared();
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
        state.join_shared().await;
        // What was on its way to a sink when the hold began is sent all the same; this one need not be.
        if queue.hold().why().is_some() && state.probe.is_none() {
            return Err(Verdict::Release { why: ReleaseCause::OnHold });
        }
        state.since = Instant::now();
    }
    Ok(())
}

/// Hands the messages to their sinks, all at once.
async fn deliver(held: &mut ClaimedElement, messages: Vec<(usize, Outbound)>, found: &mut RoundResult, now_ms: i64) {
    let queue = held.state().queue().clone();
    let probe = held.state().probe.is_some();
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

/// Hands the messages to several sinks. If one has confirmed and another has not within a second, that is written down, so that a crash does not
/// deliver to the first again.
async fn deliver_to_several(
    held: &mut ClaimedElement,
    messages: Vec<(usize, Outbound)>,
    found: &mut RoundResult,
    now_ms: i64,
) {
    let queue = held.state().queue().clone();
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
    let state = held.state();
    let route = &state.queue().routes[place];
    let stale = matches!(&outcome, Err(failure) if failure.is_stale());
    if !stale {
        route.metrics.attempt(&outcome);
    }
    if let (Ok(()), Some(late)) = (&outcome, state.lateness()) {
        route.metrics.late(late);
    }
    if let Some(traces) = &state.claim.traces {
        traces.answered(state.place, place, outcome.as_ref().err());
    }
    let confirmed = outcome.is_ok();
    if let Some((_, destination)) = found.destinations.iter().find(|(sink, _)| *sink == place) {
        let answer = answer(state.queue(), place, destination, outcome, &state.header, now_ms);
        found.answers.push(answer);
    }
    confirmed
}

async fn write_progress(held: &mut ClaimedElement, found: &RoundResult) {
    let state = held.state();
    let mut header = state.header.clone();
    for answer in found.answers.iter().filter(|answer| answer.outcome.is_ok()) {
        header.confirm(state.queue().routes[answer.sink].handle.hash);
    }
    // A refusal needs no action: the final verdict is refused and counted as well.
    let before = std::mem::replace(&mut state.header, header);
    if !held.write_header().await {
        held.state().header = before;
    }
}
