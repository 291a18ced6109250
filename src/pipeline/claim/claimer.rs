//! The one task of a queue that claims: waits until something may be due, makes room, claims, hands over.
//!
//! Everything up to the claim may be cancelled at any point. From the moment a claim is sent it is not: either its reply
//! is read, or it is a lost claim that recover looks for. Replies are handled in the order of the claims, also where two are
//! [under way](crate::pipeline::claim::outstanding).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::backoff::{Backoff, Jitter};
use crate::clock::Instant;
use crate::link::{Conn, LinkError};
use crate::pipeline::claim::outstanding::{Answered, Outstanding, Sending};
use crate::pipeline::claim::recover::{Looked, Lost};
use crate::pipeline::claim::{Claim, Isolation};
use crate::pipeline::gate::{Gate, Probe};
use crate::pipeline::leases::keeper;
use crate::pipeline::limits::budget::{Reserved, Room};
use crate::pipeline::queue::Queue;
use crate::source::redisson::{
    BATCH_BYTES, BATCH_ENTRIES, ClaimReply, ClaimRequest, Claimed, ClaimedFrom, SourceError,
};
use crate::telemetry::labels::{ClaimLabel, Wakeup};
use crate::telemetry::status::Heartbeat;

/// Waits after Redis refused claims.
const REFUSED: Backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(30), Jitter::None);

/// Longest wait when Redis only cannot answer now.
const BUSY: Duration = Duration::from_millis(500);
/// How long after its sending a claim may run, to begin with. Short, because that is how long a lost one delays its
/// elements; it grows while Redis is slower than this.
const PATIENCE: Duration = Duration::from_millis(500);

/// Claims under way while more is due than one takes.
const DEPTH: usize = 2;

/// What a claim is made with. Given back when it is dropped.
struct Ready {
    conn: Conn,
    room: Reserved,
    isolation: Isolation,
    probe: Option<Probe>,
    alone: bool,
    ahead: Duration,
}

/// Claims until the process stops.
pub async fn run(queue: Arc<Queue>, heartbeat: Heartbeat) {
    let mut claimer = Claimer {
        heartbeat,
        heartbeat_at: Instant::now(),
        suspects: false,
        turns: 0,
        rotation: 0,
        refusals: 0,
        patience: PATIENCE,
        lost: Vec::new(),
        outstanding: Outstanding::default(),
        backlog: false,
        queue,
    };
    claimer.run().await;
}

struct Claimer {
    queue: Arc<Queue>,
    /// Beats at every claim, and rests while there is a reason to make none.
    heartbeat: Heartbeat,
    /// When the loop last came by: a gap means that the process stood still.
    heartbeat_at: Instant,
    /// The last claim saw entries that must be claimed alone.
    suspects: bool,
    turns: u64,
    /// Claims that were not made for a suspect alone.
    rotation: u64,
    /// Claims in a row that Redis refused.
    refusals: u32,
    /// How long after its sending a claim may still run.
    patience: Duration,
    lost: Vec<Lost>,
    outstanding: Outstanding,
    /// The last claim left something that is due.
    backlog: bool,
}

impl Claimer {
    async fn run(&mut self) {
        let queue = self.queue.clone();
        loop {
            if self.outstanding.is_empty() {
                // Waiting for work, room, Redis, or what is in flight beside a suspect, may take any time.
                self.heartbeat.rest();
            }
            if !self.lost.is_empty() {
                Box::pin(self.recover_lost(&queue.process.stopping)).await;
                queue.alarm.ring(Wakeup::Reconnect);
                if queue.process.stopping.is_cancelled() {
                    break;
                }
                continue;
            }
            // Order: a stop goes first, and an answer before the next claim. Answers wait until they are taken; waiting and
            // getting ready are cancel safe: what is reserved is given back.
            let follows = !self.outstanding.is_empty();
            let turn = Turn { number: self.turns, suspects: self.suspects, follows };
            let ready = tokio::select! {
                biased;
                () = queue.process.stopping.cancelled() => break,
                answered = self.outstanding.next() => {
                    self.heartbeat.beat();
                    Box::pin(self.receive(answered)).await;
                    continue;
                }
                ready = prepare(&queue, turn), if !follows || self.backlog && self.outstanding.len() < DEPTH => ready,
            };
            let Some(ready) = ready else { continue };
            self.heartbeat.beat();
            Box::pin(self.keep_leases(&ready.conn)).await;
            self.heartbeat.beat();
            if !queue.process.stopping.is_cancelled() {
                self.send(ready);
            }
        }
        Box::pin(self.end()).await;
    }

    /// Looks for a lost claim. It goes before the next, with the room and the isolation that it was made with: waiting for
    /// more could wait for itself. So could what a claim under way holds.
    async fn recover_lost(&mut self, until: &CancellationToken) {
        self.receive_all().await;
        let queue = self.queue.clone();
        let conn = tokio::select! {
            biased;
            () = until.cancelled() => return,
            conn = queue.process.link.ready() => conn,
        };
        self.keep_leases(&conn).await;
        self.look_up(&conn).await;
    }

    /// What claims that are under way or lost have taken must not wait for its lease (R5, R6).
    async fn end(&mut self) {
        self.receive_all().await;
        let process = self.queue.process.clone();
        while !self.lost.is_empty() && !process.abandon.is_cancelled() {
            self.recover_lost(&process.abandon).await;
        }
        process.not_found.fetch_add(self.lost.len() as u64, Ordering::Relaxed);
    }

    /// The process may have stood still: what it holds is made sure of before it takes more.
    async fn keep_leases(&mut self, conn: &Conn) {
        if self.heartbeat_at.elapsed() > self.queue.spec.lease / 2 {
            keeper::extend(&self.queue, conn).await;
        }
        self.heartbeat_at = Instant::now();
    }

    fn send(&mut self, ready: Ready) {
        let queue = &self.queue;
        let process = &queue.process;
        let Ready { conn, room, isolation, probe, alone, ahead } = ready;
        self.turns += 1;
        self.rotation += u64::from(!alone);
        queue.alarm.begin();
        let sent_ms = process.clock.now_ms();
        let patience = self.patience.min(conn.command_timeout());
        let request = ClaimRequest {
            number: process.next_claim(),
            not_after_ms: sent_ms.saturating_add(i64::try_from(patience.as_millis()).unwrap_or(i64::MAX)),
            lease: queue.spec.lease,
            ahead,
            most: room.room().count.min(BATCH_ENTRIES as u64) as usize,
            bytes: room.room().bytes as usize,
            alone,
            rotation: self.rotation,
            hints: queue.hints().clone(),
        };
        let nothing_due_ms = queue.nothing_due_ms();
        let sent = Instant::now();
        let claim = Sending { request, sent_ms, sent, patience, nothing_due_ms, room, isolation, probe };
        self.outstanding.push(queue.clone(), conn, claim);
    }

    /// Handles the answers of all claims under way.
    async fn receive_all(&mut self) {
        while !self.outstanding.is_empty() {
            let answered = self.outstanding.next().await;
            Box::pin(self.receive(answered)).await;
        }
    }

    async fn receive(&mut self, answered: Box<Answered>) {
        let queue = self.queue.clone();
        let process = &queue.process;
        let Answered { claim, answer, took, looking } = *answered;
        let most = claim.request.most;
        self.backlog = false;
        match answer {
            Ok(ClaimReply::Late { now_ms }) => {
                process.clock.observe(now_ms);
                self.patience = claim.patience.saturating_mul(2);
                queue.refund_rate(most as u32);
                queue.alarm.ring(Wakeup::More);
            }
            Ok(ClaimReply::Claimed(claimed)) => {
                process.events.metrics().script("claim").took(took);
                process.clock.observe(claimed.now_ms);
                self.patience = PATIENCE.max(claim.patience / 2);
                if std::mem::take(&mut self.refusals) > 0 {
                    queue.resume();
                }
                self.look_at_due_times(&claimed, claim.nothing_due_ms);
                self.take_over(claimed, claim).await;
            }
            Err(SourceError::Link(LinkError::NotSent { .. })) => {
                queue.refund_rate(most as u32);
                queue.alarm.ring(Wakeup::Reconnect);
            }
            Err(SourceError::Link(LinkError::Unknown { .. })) => {
                self.lost.push(Lost::reply(&claim.request, claim.sent_ms, claim.room, claim.isolation));
            }
            Err(problem) => {
                queue.refund_rate(most as u32);
                drop((claim, looking));
                // What the next one took does not wait until Redis may be asked again.
                self.receive_all().await;
                self.refused(&problem).await;
                return;
            }
        }
        drop(looking);
    }

    /// Redis refuses: a key of a wrong type, a missing right. Nothing was changed.
    async fn refused(&mut self, problem: &SourceError) {
        self.heartbeat.rest();
        let queue = &self.queue;
        queue.events.on_hold(None, "claim", &format!("claim: {problem}"));
        let passing = matches!(
            problem,
            SourceError::Link(LinkError::Server {
                code: "LOADING" | "BUSY" | "READONLY" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "NOREPLICAS",
                ..
            })
        );
        let wait = match passing {
            true => BUSY,
            false => REFUSED.bound(self.refusals),
        };
        self.refusals = self.refusals.saturating_add(1);
        queue.alarm.ring(Wakeup::Poll);
        // In the drain a lost claim is still looked for, but not without a pause.
        let stopping = queue.process.stopping.is_cancelled();
        let end = if stopping { &queue.process.abandon } else { &queue.process.stopping };
        // Order: the end goes first; a sleep may be left at any time.
        tokio::select! {
            biased;
            () = end.cancelled() => {}
            () = tokio::time::sleep(if stopping { BUSY } else { wait }) => {}
        }
    }

    /// What the due times tell of the clocks that made them: see `Queue::saw_nothing_due`.
    fn look_at_due_times(&self, claimed: &Claimed, nothing_due_ms: i64) {
        let delayed = claimed.entries.iter().filter(|(from, _)| *from == ClaimedFrom::Delayed);
        for due_ms in delayed.filter_map(|(_, entry)| entry.header.due_ms()) {
            let by = nothing_due_ms.saturating_sub(due_ms);
            if by > 0 {
                self.queue.events.metrics().offered_overdue(Duration::from_millis(by.unsigned_abs()));
            }
        }
        if !claimed.more && claimed.next_ms.is_none_or(|next| next > claimed.now_ms) {
            self.queue.saw_nothing_due(claimed.now_ms);
        }
    }

    async fn take_over(&mut self, claimed: Claimed, claim: Sending) {
        let queue = self.queue.clone();
        let Sending { request, sent, mut room, isolation, mut probe, .. } = claim;
        let (most, deadline) = (request.most, sent.after(queue.spec.lease));
        let metrics = queue.events.metrics();
        *queue.hints() = claimed.hints;
        self.suspects = claimed.suspects > 0;
        if claimed.unknown > 0 {
            queue.events.unknown_entries(claimed.unknown);
        }
        if claimed.leftovers.count > 0 || metrics.has_gauges() {
            metrics.ghosts(claimed.leftovers.count, claimed.leftovers.oldest);
        }
        let taken = claimed.entries.len();
        let more_due = claimed.more || claimed.next_ms.is_some_and(|next| next <= claimed.now_ms);
        let full = queue.process.redis_nearly_full.load(Ordering::Relaxed);
        if claimed.leftovers.want_turn(queue.spec.ghost_max_age, more_due && !full) {
            queue.sweep_due.store(true, Ordering::Relaxed);
        }
        queue.refund_rate(u32::try_from(most.saturating_sub(taken)).unwrap_or(0));
        let mut claims = Vec::with_capacity(taken);
        let mut counts = [0u64; 4];
        let worn = claimed.entries.iter().filter(|(from, _)| *from == ClaimedFrom::Exhausted).count() as u64;
        let probing = probe.is_some();
        for (from, entry) in claimed.entries {
            let bytes = entry.member.len() as u64;
            let room = room.split(bytes);
            let place = match from {
                ClaimedFrom::Delayed => ClaimLabel::Delayed,
                ClaimedFrom::Ready => ClaimLabel::Ready,
                ClaimedFrom::Retry => ClaimLabel::Retry,
                ClaimedFrom::Expired | ClaimedFrom::Exhausted => ClaimLabel::Expired,
            };
            counts[place as usize] += 1;
            if let Some(mut claim) = Claim::accept(&queue, from, entry, deadline, room, isolation.clone()) {
                if let Some(probe) = probe.take() {
                    claim = claim.with_probe(probe);
                }
                claims.push(claim);
            }
        }
        for (place, count) in
            [ClaimLabel::Delayed, ClaimLabel::Ready, ClaimLabel::Retry, ClaimLabel::Expired].into_iter().zip(counts)
        {
            if count > 0 {
                metrics.claimed(place, count);
            }
        }
        // Whose lease ran out may have delivered it.
        metrics.possible_duplicates(counts[ClaimLabel::Expired as usize] - worn);
        let mut strays: Vec<u64> = Vec::new();
        for key in claimed.own {
            match queue.leases.contains(key) {
                true => queue.leases.extended(key, deadline),
                false if !strays.contains(&key.claim) => strays.push(key.claim),
                false => {}
            }
        }
        // An entry of ours that is not here: its claim's reply was lost, or it was dropped. Adopt asks whether it is still
        // there, now that it has a new lease.
        self.lost.extend(strays.into_iter().map(|number| Lost::stray(number, claimed.now_ms, queue.spec.lease)));
        drop((room, probe, isolation));
        queue.alarm.next(claimed.next_ms);
        // A probe that found only suspects waits for the safety poll: the gate would let it through again at once.
        let left = taken >= most || claimed.more;
        self.backlog = left && !self.suspects && !probing;
        if left || self.suspects && !(probing && taken == 0) {
            queue.alarm.ring(Wakeup::More);
        } else if taken == 0 && more_due {
            // Somebody else was faster: not again in lockstep.
            tokio::time::sleep(Duration::from_millis(fastrand::u64(1..5))).await;
        }
        queue.dispatch.push(&queue, claims);
    }

    /// Looks for a lost claim; for those that hold something first.
    async fn look_up(&mut self, conn: &Conn) {
        let queue = self.queue.clone();
        let Some(place) = self.lost.iter().position(Lost::holds).or((!self.lost.is_empty()).then_some(0)) else {
            return;
        };
        let Some(lost) = self.lost.get_mut(place) else { return };
        match lost.look(&queue, conn).await {
            Looked::Again => {}
            Looked::Found => drop(self.lost.remove(place)),
            Looked::Refused(problem) => self.refused(&problem).await,
        }
    }
}

/// Which claim is next.
#[derive(Clone, Copy)]
struct Turn {
    number: u64,
    /// The last claim saw entries that must be claimed alone.
    suspects: bool,
    /// Another is under way, and will leave something.
    follows: bool,
}

/// Waits until something may be due, and until there is everything that a claim needs. Cancel safe.
async fn prepare(queue: &Arc<Queue>, turn: Turn) -> Option<Ready> {
    let reason = match turn.follows {
        true => Wakeup::More,
        false => queue.alarm.wait(&queue.process.clock).await,
    };
    // Boxed, because most of ten thousand queues only wait.
    Box::pin(get_ready(queue, turn, reason)).await
}

/// Waits until there is everything that a claim needs.
async fn get_ready(queue: &Arc<Queue>, turn: Turn, reason: Wakeup) -> Option<Ready> {
    let process = &queue.process;
    let probe = pass_gate(queue).await;
    let alone = turn.suspects && turn.number % 4 == 3;
    let isolation = match alone {
        true => Isolation::Alone(Arc::new(process.isolation.clone().write_owned().await)),
        false => Isolation::Shared(Arc::new(process.isolation.clone().read_owned().await)),
    };
    let most = if probe.is_some() || alone { 1 } else { BATCH_ENTRIES as u32 };
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
        drop((probe, isolation));
        tokio::time::sleep(wait).await;
        return None;
    }
    // What is to find out something now does not wait for its due time first, and what only waits does not fill the
    // room of what is due.
    let now_only = alone || probe.is_some() || queue.budget.is_half_full() || process.budget.is_half_full();
    let ahead = if now_only { Duration::ZERO } else { queue.spec.claim_ahead };
    // Not all the room there is: an element that hangs would keep everything else out of what is left. At least as
    // many bytes as the largest element met lately, so that the claim does not overshoot.
    let limit = queue.spec.max_in_flight_bytes.min(process.budget.byte_limit());
    let share = (limit / 4).min(BATCH_BYTES as u64);
    let bytes = share.max(queue.hints().largest() as u64);
    let rate = Refund { queue, unused: granted };
    let room = Reserved::of(&queue.budget, &process.budget, Room { count: granted.into(), bytes }).await;
    let conn = process.link.ready().await;
    rate.used(room.room().count);
    woke();
    Some(Ready { conn, room, isolation, probe, alone, ahead })
}

/// Waits until nothing holds the queue up; with a permission if it takes one.
async fn pass_gate(queue: &Arc<Queue>) -> Option<Probe> {
    let mut changes = queue.process.gates.subscribe();
    loop {
        changes.mark_unchanged();
        let until = match queue.gate() {
            Gate::Free => return None,
            Gate::Probe(probe) => {
                queue.events.metrics().woke(Wakeup::Probe);
                return Some(probe);
            }
            Gate::Wait(until) => until,
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
