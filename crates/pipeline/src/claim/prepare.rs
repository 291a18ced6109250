//! Before a claim: waits until something may be due, until nothing holds the queue up, and until there is everything that
//! a claim needs. All of it is cancel safe; reservations are released.
//!
//! Waiting has one order, and never goes backwards: event, Redis, gate, rate, room of the queue, room of the process, guard
//! of the process, sink. A Redis that went away sends the claimer back to the beginning with nothing in hand. Elements that
//! are claimed ahead have room and wait for their due time without the guard. Nothing waits for room while it holds the
//! guard, except an element that is alone. A lost claim keeps its room and guard unless its Redis is away.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::alarm::RestAfter;
use crate::claim::isolation::Isolation;
use crate::gate::{ClaimGate, GateProbe};
use crate::limits::budget::Room;
use crate::limits::reserved::RoomReserved;
use crate::queue::Queue;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::claims::{ClaimName, room_of};
use delaybridge_ledger::{BATCH_BYTES, BATCH_ENTRIES};
use delaybridge_telemetry::labels::{Stage, Wakeup};

/// The reservations of a claim. Released when dropped.
pub struct ReadyClaim {
    /// The room of its elements.
    pub room: RoomReserved,
    /// The most elements that may come.
    pub most: u64,
    /// The most bytes that may come: they may take more in memory.
    pub bytes: u64,
    /// The guard of its elements.
    pub isolation: Isolation,
    /// The probe that its first element is.
    pub probe: Option<GateProbe>,
    /// The claim of another process that is taken over; none for a claim of what is due.
    pub take_over: Option<ClaimName>,
    /// The time before its due time at which an element is claimed.
    pub ahead: Duration,
}

/// The outcome of getting ready for a claim.
pub enum Preparation {
    /// The claim can be made.
    Ready(ReadyClaim),
    /// Not now; to be tried again.
    Again,
    /// There is nothing to claim, and nothing to wait for.
    Rest,
}

/// The next claim, as its claimer sees it.
#[derive(Clone, Copy)]
pub struct ClaimTurn {
    /// The number of claims before it.
    pub number: u64,
    /// The claim of another process that is to be taken over.
    pub take_over: Option<ClaimName>,
    /// Another claim is outstanding, and will leave something.
    pub follows: bool,
    /// Elements that were taken over wait for the rest: neither a gate nor room may be waited for.
    pub gathers: bool,
    /// The point from which the claimer may end; `None` if it may not.
    pub rest: Option<RestAfter>,
}

/// Waits until something may be due, and until there is everything that a claim needs. Cancel safe.
pub async fn prepare(queue: &Arc<Queue>, turn: ClaimTurn) -> Preparation {
    queue.progress.at(Stage::Alarm);
    let reason = if turn.follows || turn.take_over.is_some() || turn.gathers {
        Wakeup::More
    } else {
        match queue.alarm.wait(|| queue.home().now_ms(), turn.rest).await {
            Some(reason) => reason,
            None => return Preparation::Rest,
        }
    };
    // Boxed, because a claimer mostly waits.
    Box::pin(get_ready(queue, turn, reason)).await.map_or(Preparation::Again, Preparation::Ready)
}

/// Waits until there is everything that a claim needs.
async fn get_ready(queue: &Arc<Queue>, turn: ClaimTurn, reason: Wakeup) -> Option<ReadyClaim> {
    let process = &queue.process;
    // Before anything is taken that queues on another Redis need as well: one that does not answer holds up its own alone.
    queue.progress.at(Stage::Redis);
    queue.home().ready().await;
    queue.progress.at(Stage::Gate);
    let probe = if turn.gathers { None } else { pass_gate(queue).await };
    // A probe is the first element of a claim. Of what is taken over in order, that may be in the last claim.
    let in_order = queue.spec.order.is_some() && turn.take_over.is_some();
    let probe = probe.filter(|_| !in_order);
    let alone = turn.take_over.is_some_and(|old| old.taken_over_by(queue.store.owner(), 0).is_suspect());
    let one = probe.is_some() || alone || turn.gathers && turn.take_over.is_none();
    let most = if one { 1 } else { BATCH_ENTRIES as u32 };
    let (granted, next_at, slowest) = queue.take_rate(most);
    // The first look is no answer to anything, and would make a series for every queue.
    let woke = || {
        if turn.number > 0 {
            queue.events.metrics().woke(reason)
        }
    };
    if granted == 0 {
        woke();
        let wait = next_at.since(Instant::now());
        match slowest {
            Some(route) => route.metrics.throttled(wait),
            None => queue.events.metrics().throttled(wait),
        }
        queue.alarm.ring(Wakeup::More);
        drop(probe);
        queue.progress.at(Stage::Rate);
        tokio::time::sleep(wait).await;
        return None;
    }
    // What is to find out something now does not wait for its due time first, and what only waits does not fill the
    // room of what is due.
    let now_only =
        alone || probe.is_some() || queue.budget.is_half_full() || process.budget_of(&queue.spec.redis).is_half_full();
    let ahead = if now_only { Duration::ZERO } else { queue.spec.claim_ahead };
    // Not all the room there is: an element that hangs would keep everything else out of what is left. At least as
    // many bytes as the largest element met lately, so that the claim does not overshoot; less where elements grow.
    let of_process = process.budget_of(&queue.spec.redis);
    let limit = queue.spec.max_in_flight_bytes.min(of_process.byte_limit());
    let largest = queue.hints().largest() as u64;
    let (bytes, takes) = queue.budget.share((limit / 4).max(largest), largest, BATCH_BYTES as u64);
    let takes = takes.saturating_add(room_of(largest) - largest);
    let rate = Refund { queue, unused: granted };
    queue.progress.at(Stage::Room);
    let then = || queue.progress.at(Stage::ProcessRoom);
    // In order a claim is taken over as a whole: what stays would be behind what goes back. It has no more than was in flight at
    // its owner.
    let (room, most, bytes) = if in_order && !alone || turn.gathers {
        (RoomReserved::none(&queue.budget, of_process), granted.into(), limit)
    } else {
        let want = Room { count: granted.into(), bytes: takes };
        let room = RoomReserved::of(&queue.budget, then, of_process, want).await;
        let Room { count, bytes: granted } = room.room();
        (room, count, bytes.min(granted))
    };
    // Room first, the guard last: what is held ahead has room and waits for the guard.
    queue.progress.at(Stage::Isolation);
    let isolation = Isolation::of(process, alone).await;
    if !queue.home().is_up() {
        // Meanwhile it went away. Everything is given back, and taken again when it is there.
        queue.alarm.ring(Wakeup::Reconnect);
        return None;
    }
    rate.used(most);
    woke();
    Some(ReadyClaim { room, most, bytes, isolation, probe, take_over: turn.take_over, ahead })
}

/// Waits until nothing holds the queue up; with a permission if it takes one.
async fn pass_gate(queue: &Arc<Queue>) -> Option<GateProbe> {
    let mut changes = queue.process.gates.subscribe();
    loop {
        changes.mark_unchanged();
        queue.learn_pauses().await;
        let until = match queue.gate() {
            ClaimGate::Free => return None,
            ClaimGate::Probe(probe) => {
                queue.events.metrics().woke(Wakeup::Probe);
                return Some(probe);
            }
            ClaimGate::Wait(until) => until,
        };
        let wait = until.map_or(Duration::from_secs(60), |at| at.since(Instant::now()));
        // Order does not matter: both only lead to another look at the gate. A closed channel means that the
        // process is gone.
        tokio::select! {
            changed = changes.changed() => drop(changed),
            () = tokio::time::sleep(wait.max(Duration::from_millis(1))) => {}
        }
    }
}

/// Tokens that come back if the claim is not made after all.
struct Refund<'a> {
    queue: &'a Queue,
    unused: u32,
}

impl Refund<'_> {
    fn used(mut self, count: u64) {
        self.unused = self.unused.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
    }
}

impl Drop for Refund<'_> {
    fn drop(&mut self) {
        self.queue.refund_rate(self.unused);
    }
}
