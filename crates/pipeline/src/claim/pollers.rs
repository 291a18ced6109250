//! The looks at the ready lists beside live Redisson clients, which announce nothing while they are awake.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;

use crate::process::Process;
use crate::registry::QueueRegistry;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::store::{Store, Unannounced};
use delaybridge_model::Mode;
use delaybridge_telemetry::labels::Wakeup;

/// Time between two looks at the ready list of a queue that other clients listen to.
const READY: Duration = Duration::from_millis(100);
/// Number of such lists that are looked at, or of queues whose listeners are counted, in one round trip.
const LISTENERS_AT_ONCE: usize = 500;
/// Time between two notes of who listens to a queue's channel, in which nothing has changed.
const NOTES: Duration = Duration::from_secs(60);
/// Number of queues of which that is noted in this time; with more of them the notes become rarer.
const NOTES_BUDGET: usize = 1_000;
/// Queues of which that is noted in one round trip. Not more, because a claim waits behind them.
const NOTES_AT_ONCE: usize = 16;

/// Polls the lists that other clients fill without an announcement, as long as such clients are awake: they listen to
/// the queue's channel.
pub async fn unannounced(registry: Arc<QueueRegistry>) {
    let process = registry.process().clone();
    let mut watched = Vec::new();
    let mut seen = None;
    let mut beside = Vec::new();
    let mut round = 0;
    let mut notes = Vec::new();
    loop {
        let changes = registry.changes();
        if seen.replace(changes) != Some(changes) {
            watched = registry.with_mode(|mode| mode == Mode::Deliver);
            watched.retain(|place| registry.store(*place).unannounced().is_some());
            (beside, round) = (Vec::new(), 0);
            notes = vec![Note::default(); watched.len()];
        }
        let every = 10 * u32::try_from(watched.len().div_ceil(LISTENERS_AT_ONCE)).unwrap_or(u32::MAX / 10);
        // Without another listener there is nothing to look at.
        let alone = beside.is_empty();
        if pause(&process, if alone { READY * every.max(10) } else { READY }).await.is_stopping() {
            return;
        }
        if watched.is_empty() || !registry.server().is_up() {
            continue;
        }
        if (alone || round % every == 0)
            && let Some(found) = listened_to(&registry, &watched).await
        {
            beside = found;
            note_others(&registry, &watched, &beside, &mut notes).await;
        }
        round += 1;
        let lists: Vec<_> = beside.iter().map(|(_, list): &(usize, Bytes)| list.clone()).collect();
        if let Ok(answers) = registry.server().lengths(&lists).await {
            for ((place, _), answer) in beside.iter().zip(answers) {
                if answer.is_ok_and(|number| number > 0) {
                    registry.wake(*place, |queue| queue.alarm.ring(Wakeup::Poll));
                }
            }
        }
    }
}

/// Finds the queues with other subscribers on their channels than daemons, and the list of each: two daemons are no
/// client.
async fn listened_to(registry: &QueueRegistry, watched: &[usize]) -> Option<Vec<(usize, Bytes)>> {
    let mut beside = Vec::new();
    for some in watched.chunks(LISTENERS_AT_ONCE) {
        let mut lists = Vec::with_capacity(some.len());
        let mut channels = Vec::with_capacity(2 * some.len());
        for place in some {
            let store = registry.store(*place);
            if let Some(Unannounced { list, channel }) = store.unannounced() {
                lists.push((*place, list));
                channels.extend([channel, store.presence()]);
            }
        }
        let listeners = registry.server().listeners(&channels).await.ok()?;
        let all = lists.into_iter().zip(listeners.chunks_exact(2));
        beside.extend(all.filter(|(_, of)| of[0] > of[1]).map(|(list, _)| list));
    }
    Some(beside)
}

/// The last note on a queue.
#[derive(Debug, Clone, Default)]
struct Note {
    /// The time at which others were seen last.
    seen: Option<Instant>,
    /// Whether they were there at the last look.
    were_there: bool,
    /// The time of the next note, if nothing changes.
    next: Option<Instant>,
}

/// Notes who listens, for people: at once where that has changed, else now and then, so that another look sees no gap.
async fn note_others(registry: &QueueRegistry, watched: &[usize], beside: &[(usize, Bytes)], notes: &mut [Note]) {
    let every = NOTES * u32::try_from(watched.len().div_ceil(NOTES_BUDGET)).unwrap_or(u32::MAX);
    let due = notes_due(registry, watched, beside, notes, every);
    for some in due.chunks(NOTES_AT_ONCE) {
        // Without an answer, or without the right, nothing is noted: the next look will say that it does not know.
        join_all(some.iter().map(|(store, seen)| store.note_others(*seen, 3 * every))).await;
    }
}

/// Returns the queues for which a note is due, with the time since other processes were seen there.
fn notes_due(
    registry: &QueueRegistry,
    watched: &[usize],
    beside: &[(usize, Bytes)],
    notes: &mut [Note],
    every: Duration,
) -> Vec<(Arc<dyn Store>, Option<Duration>)> {
    let now = Instant::now();
    let mut here = beside.iter().map(|(place, _)| *place).peekable();
    let mut due = Vec::new();
    for (place, note) in watched.iter().zip(notes) {
        let are_there = here.next_if_eq(place).is_some();
        let changed = are_there != note.were_there;
        note.were_there = are_there;
        if are_there {
            note.seen = Some(now);
        }
        // Of thousands of queues, those that were never used have no keys.
        if (changed || note.next.is_none_or(|next| next <= now)) && !registry.was_empty(*place) {
            due.push((registry.store(*place), note.seen.map(|seen| now.since(seen))));
            note.next = Some(now.after(every.mul_f64(0.5 + 0.5 * fastrand::f64())));
        }
    }
    due
}

/// Whether the process continues after a pause.
pub(super) enum Stopping {
    GoOn,
    Stopping,
}

impl Stopping {
    pub(super) fn is_stopping(&self) -> bool {
        matches!(self, Stopping::Stopping)
    }
}

pub(super) async fn pause(process: &Process, time: Duration) -> Stopping {
    // Order: the end goes first; a sleep may be left at any time.
    tokio::select! {
        biased;
        () = process.stopping.cancelled() => Stopping::Stopping,
        () = tokio::time::sleep(time) => Stopping::GoOn,
    }
}
