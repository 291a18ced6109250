//! What looks at Redis without being asked: the safety poll, the search for what is overdue after a start or a reconnect, the ready
//! lists beside live Redisson clients.
//!
//! Announcements on a channel are hints and never the truth: a poll finds what they missed. It reads without taking and
//! wakes a claimer only when it found something.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;

use crate::active::ActiveQueue;
use crate::process::Process;
use crate::registry::QueueRegistry;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::store::{Store, Unannounced};
use delaybridge_ledger::{LOOKED_AT_ONCE, Look, LookAt, millis};
use delaybridge_model::Mode;
use delaybridge_telemetry::labels::Wakeup;
use delaybridge_telemetry::status::Heartbeat;

/// Time between two looks at one queue.
const POLL: Duration = Duration::from_secs(1);
/// Queues that are looked at per second, over the whole process; with more of them the looks become rarer.
const POLL_BUDGET: usize = 10_000;
/// The pause after some looks, as a multiple of the time that they took: Redis spends at most a tenth of its time on them. It
/// compares each key with the patterns of a user, and with the rights of thousands of queues that is what takes it.
const REST: u32 = 9;
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

/// A queue that is looked at: its place, and what is read of it. Kept, because idle queues are not built.
struct Polled {
    place: usize,
    claim_ahead: Duration,
    announces: bool,
    look: Look,
}

impl Polled {
    fn of(registry: &QueueRegistry, place: usize) -> Polled {
        let spec = registry.spec(place);
        let look = registry.store(place).look();
        Polled { place, claim_ahead: spec.claim_ahead, announces: spec.source.announces(), look }
    }
}

/// Polls until the process stops. It finds what was not announced, and wakes idle queues before something falls due.
pub async fn safety_poll(registry: Arc<QueueRegistry>, heartbeat: Heartbeat) {
    let process = registry.process().clone();
    // Until the next look at the same queue, with jitter and a round trip.
    let turn =
        |queues: usize, took: Duration| POLL.max(took).max(POLL * queues.div_ceil(POLL_BUDGET) as u32).mul_f64(1.25);
    let mut took = Duration::ZERO;
    let mut seen = None;
    let mut polled = Vec::new();
    loop {
        let changes = registry.changes();
        if seen.replace(changes) != Some(changes) {
            let places = registry.with_mode(|mode| mode == Mode::Deliver);
            polled = places.into_iter().map(|place| Polled::of(&registry, place)).collect();
        }
        let until_next = turn(polled.len(), took);
        registry.set_horizon(until_next);
        let began = Instant::now();
        if polled.is_empty() && pause(&process, POLL).await.is_stopping() {
            return;
        }
        heartbeat.beat();
        let mut rest = Duration::ZERO;
        for some in polled.chunks(LOOKED_AT_ONCE) {
            // Jitter, so that many daemons do not poll in step.
            let share = POLL.mul_f64(some.len() as f64 / polled.len().clamp(1, POLL_BUDGET) as f64);
            let share = share.mul_f64(0.9 + 0.2 * fastrand::f64());
            if pause(&process, share.max(rest)).await.is_stopping() {
                return;
            }
            heartbeat.beat();
            let began = Instant::now();
            if registry.server().is_up() {
                look(&registry, some, until_next).await;
            }
            // A server that does not answer at all is not asked less often.
            rest = began.elapsed().min(POLL) * REST;
        }
        took = began.elapsed();
    }
}

/// Finds those of these queues that are overdue, and wakes them, `most` in this time. A read of thousands takes a
/// fraction of the claims with which all are looked at.
pub(super) async fn find_overdue(registry: Arc<QueueRegistry>, mut places: Vec<usize>, most: usize, pace: Duration) {
    places.retain(|place| registry.spec(*place).mode == Mode::Deliver);
    for some in places.chunks(LOOKED_AT_ONCE) {
        if !registry.server().is_up() {
            // All are looked at again when it is up.
            return;
        }
        let polled: Vec<_> = some.iter().map(|place| Polled::of(&registry, *place)).collect();
        let woken = look(&registry, &polled, Duration::ZERO).await;
        tokio::time::sleep(pace.mul_f64(woken as f64 / most as f64)).await;
    }
}

/// Looks at some queues in one call, and wakes those with something due, whose number it returns.
async fn look(registry: &QueueRegistry, some: &[Polled], until_next: Duration) -> usize {
    let now_ms = registry.server().now_ms();
    let at_work: Vec<_> = some.iter().map(|polled| registry.get(polled.place)).collect();
    let ask = |(polled, at_work): (_, &Option<Arc<ActiveQueue>>)| {
        let Polled { claim_ahead, announces, look, .. }: &Polled = polled;
        // What falls due until the next look at the queue. The claim that this leads to takes nothing early: it learns when
        // the element is due. A queue at work knows that already, if it was announced.
        let ahead = if at_work.is_some() && *announces { *claim_ahead } else { *claim_ahead + until_next };
        let now_ms = at_work.as_ref().map_or(now_ms, |queue| queue.home().now_ms());
        LookAt { look, now_ms, until_ms: now_ms.saturating_add(millis(ahead)) }
    };
    let looks: Vec<_> = some.iter().zip(&at_work).map(ask).collect();
    // Without an answer nothing is known.
    let Ok(answers) = registry.server().look(&looks).await else { return 0 };
    let mut woken = 0;
    for (((polled, at_work), LookAt { now_ms, .. }), answer) in some.iter().zip(at_work).zip(looks).zip(answers) {
        let Some(due) = answer else { continue };
        if let Some(queue) = &at_work {
            queue.progress.set_due(due);
        }
        match (due, at_work) {
            (false, Some(queue)) if queue.nothing_due_ms() > i64::MIN => queue.saw_nothing_due(now_ms),
            (false, Some(_)) => {}
            (false, None) => registry.saw_nothing_due(polled.place, now_ms),
            (true, _) => {
                registry.wake(polled.place, |queue| queue.alarm.ring(Wakeup::Poll));
                woken += 1;
            }
        }
    }
    woken
}

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
