//! The one task of a queue that claims: [prepares](crate::pipeline::claim::prepare) a claim, sends it, and takes over
//! what its [reply](crate::pipeline::claim::reply) brings.
//!
//! Everything up to the claim may be cancelled at any point. From the moment a claim is sent it is not: either its reply
//! is read, or it is a lost claim that is looked for by its name. Replies are handled in the order of the claims, also where two are
//! [outstanding](crate::pipeline::claim::outstanding).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::backoff::{Backoff, Jitter};
use crate::clock::Instant;
use crate::link::LinkError;
use crate::pipeline::claim::Isolation;
use crate::pipeline::claim::alarm::Rest;
use crate::pipeline::claim::expired::Expired;
use crate::pipeline::claim::lost::{Looked, Lost};
use crate::pipeline::claim::outstanding::{Answered, Outstanding, Reply, Request, Sending};
use crate::pipeline::claim::prepare::{Prepared, Ready, Turn, prepare};
use crate::pipeline::claim::record::Taken;
use crate::pipeline::claim::reply;
use crate::pipeline::leases::keeper;
use crate::pipeline::queue::Queue;
use crate::pipeline::seats::Seats;
use crate::plant::{Lie, planted};
use crate::source::ledger::BATCH_ENTRIES;
use crate::source::ledger::claims::{
    ClaimName, ClaimReply, ClaimRequest, Claimed, Element, TakeOverReply, TakeOverRequest,
};
use crate::source::{SourceError, millis};
use crate::telemetry::labels::{ReleaseReason, Stage, Wakeup};
use crate::telemetry::status::Heartbeat;

/// Waits after Redis refused claims.
const REFUSED: Backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(30), Jitter::None);

/// Waits while the cluster moves the queue's slot.
const MIGRATING: Backoff = Backoff::doubling(Duration::from_millis(50), Duration::from_secs(1), Jitter::None);

/// Between two looks whether everything has gone back.
const SPILLING: Duration = Duration::from_millis(5);

/// Longest wait when Redis only cannot answer now.
const BUSY: Duration = Duration::from_millis(500);
/// How long after its sending a claim may run, to begin with. Short, because that is how long a lost one delays its
/// elements; it grows while Redis is slower than this.
const PATIENCE: Duration = Duration::from_millis(500);

/// Outstanding claims while more is due than one claim takes.
const DEPTH: usize = 2;

/// After an element another one is expected for so long.
const LINGER: Duration = Duration::from_secs(10);

/// Claims until the process stops.
pub async fn run(queue: Arc<Queue>, heartbeat: Heartbeat) {
    Claimer::new(queue, heartbeat, None).run().await;
}

/// Claims until the process stops, or nothing is left to do: then the queue may go to rest.
pub async fn until_rest(queue: Arc<Queue>, heartbeat: Heartbeat, seats: Arc<Seats>) {
    Claimer::new(queue, heartbeat, Some(seats)).run().await;
}

/// Gives the order back when nothing is in flight any more: another daemon need not wait for the end of a lease.
async fn leave_order(queue: &Queue) {
    if queue.spec.order.is_none() {
        return;
    }
    while !queue.leases.is_empty() && !queue.give_up.is_cancelled() {
        tokio::time::sleep(SPILLING).await;
    }
    if queue.leases.is_empty() {
        // Without an answer it ends by itself.
        drop(queue.store.leave_order().await);
    }
}

struct Claimer {
    queue: Arc<Queue>,
    /// Where the queue rests, if it may.
    seats: Option<Arc<Seats>>,
    /// Before this point it does not.
    rest_from: Instant,
    /// Beats at every claim, and rests while there is a reason to make none.
    heartbeat: Heartbeat,
    /// The last pass of the loop: a gap means that the process was suspended.
    heartbeat_at: Instant,
    /// Claims of other processes that are to be taken over.
    expired: Expired,
    turns: u64,
    /// Claims of what is due.
    rotation: u64,
    /// Claims in a row that Redis refused.
    refusals: u32,
    /// Nothing could be claimed for a while, and nothing extended perhaps.
    extend_first: bool,
    /// How long after its sending a claim may still run.
    patience: Duration,
    lost: Vec<Lost>,
    outstanding: Outstanding,
    /// The last claim left something that is due.
    backlog: bool,
}

impl Claimer {
    fn new(queue: Arc<Queue>, heartbeat: Heartbeat, seats: Option<Arc<Seats>>) -> Claimer {
        let now = Instant::now();
        Claimer {
            seats,
            rest_from: now,
            heartbeat,
            heartbeat_at: now,
            expired: Expired::default(),
            turns: 0,
            rotation: 0,
            refusals: 0,
            extend_first: false,
            patience: PATIENCE,
            lost: Vec::new(),
            outstanding: Outstanding::default(),
            backlog: false,
            queue,
        }
    }

    async fn run(mut self) {
        let queue = self.queue.clone();
        loop {
            if self.outstanding.is_empty() {
                // Waiting for work, room, Redis, or what is in flight beside a suspect, may take any time.
                self.heartbeat.rest();
            }
            if !self.lost.is_empty() {
                Box::pin(self.recover_lost(&queue.stopping)).await;
                queue.alarm.ring(Wakeup::Reconnect);
                if queue.stopping.is_cancelled() {
                    break;
                }
                continue;
            }
            if queue.spec.order.is_some() && !self.may_claim_in_order().await {
                continue;
            }
            // Order: a stop goes first, and an answer before the next claim. Answers wait until they are taken; waiting and
            // getting ready are cancel safe: reservations are released.
            let follows = !self.outstanding.is_empty();
            let depth = if queue.spec.order.is_some() { 1 } else { DEPTH };
            let take_over = match (follows, queue.spec.order.is_some()) {
                (true, _) => None,
                (false, true) => self.expired.first(),
                (false, false) => self.expired.next(self.turns, self.backlog),
            };
            let turn = Turn { number: self.turns, take_over, follows, rest: self.rest() };
            let prepared = tokio::select! {
                biased;
                () = queue.stopping.cancelled() => break,
                answered = self.outstanding.next() => {
                    self.heartbeat.beat();
                    Box::pin(self.receive(answered)).await;
                    continue;
                }
                prepared = prepare(&queue, turn), if !follows || self.backlog && self.outstanding.len() < depth => prepared,
            };
            let ready = match prepared {
                Prepared::Ready(ready) => ready,
                Prepared::Again => continue,
                Prepared::Rest if queue.may_rest() => return,
                Prepared::Rest => {
                    self.rest_from = Instant::now().after(LINGER);
                    continue;
                }
            };
            self.heartbeat.beat();
            // Boxed, because it is rare.
            let secured = if self.was_suspended() || self.extend_first {
                Box::pin(self.secure(ready)).await
            } else {
                Some(ready)
            };
            let Some(ready) = secured else { continue };
            self.heartbeat_at = Instant::now();
            self.heartbeat.beat();
            if !queue.stopping.is_cancelled() {
                self.send(ready);
            }
        }
        Box::pin(self.end()).await;
    }

    /// A queue in order: whether the next claim may be made. Not before everything that goes back is written; and what may kill
    /// the process is alone, so it waits for what is before it.
    async fn may_claim_in_order(&mut self) -> bool {
        let queue = self.queue.clone();
        let spilling = queue.lines.is_spilling();
        if spilling {
            self.receive_all().await;
        }
        let settled = || queue.lines.is_empty() && queue.settler.is_idle();
        let waits = if spilling { !settled() } else { self.expired.is_first_suspect() && !queue.lines.is_empty() };
        if spilling && !waits {
            queue.lines.spilled();
            queue.alarm.ring(Wakeup::More);
        }
        if waits && !queue.stopping.is_cancelled() {
            self.heartbeat.rest();
            // Order: a stop goes first; a sleep may be left at any time.
            tokio::select! {
                biased;
                () = queue.stopping.cancelled() => {}
                () = tokio::time::sleep(SPILLING) => {}
            }
            return false;
        }
        true
    }

    /// Looks for a lost claim. It goes before the next, with the room and the isolation that it was made with: waiting for
    /// more could wait for itself. The same holds for an outstanding claim.
    async fn recover_lost(&mut self, until: &CancellationToken) {
        self.receive_all().await;
        let queue = self.queue.clone();
        queue.watch.at(Stage::Lost);
        if !queue.home().is_up() {
            self.lost.iter_mut().for_each(Lost::yields);
        }
        tokio::select! {
            biased;
            () = until.cancelled() => return,
            () = queue.home().ready() => {}
        }
        // What is looked for holds no room that the others lack; what they found goes on all the same.
        if !self.was_suspended() || self.keep_leases().await {
            self.heartbeat_at = Instant::now();
        }
        self.look_up().await;
    }

    /// Elements of outstanding or lost claims must not wait for their leases (R5, R6).
    async fn end(&mut self) {
        self.receive_all().await;
        let queue = self.queue.clone();
        while !self.lost.is_empty() && !queue.abandon.is_cancelled() {
            self.recover_lost(&queue.abandon).await;
        }
        // A queue that is changed finds them when their leases are over.
        if queue.process.stopping.is_cancelled() {
            queue.process.not_found.fetch_add(self.lost.len() as u64, Ordering::Relaxed);
        }
        leave_order(&queue).await;
    }

    /// When it may end: not while there is anything that only this claimer knows.
    fn rest(&self) -> Option<Rest> {
        let seats = self.seats.as_ref()?;
        let knows = !self.outstanding.is_empty() || !self.expired.is_empty() || self.refusals > 0 || self.turns == 0;
        (!knows).then(|| Rest { horizon: seats.horizon(), not_before: self.rest_from })
    }

    /// Whether the process may have been suspended.
    fn was_suspended(&self) -> bool {
        self.heartbeat_at.elapsed() > self.queue.spec.lease / 2
    }

    /// Secures the claims of a process that was suspended, before it makes more. Whether that has worked.
    async fn keep_leases(&mut self) -> bool {
        let kept = keeper::extend(&self.queue).await;
        self.extend_first &= !kept;
        self.heartbeat.beat();
        kept
    }

    /// Goes on after a suspension if the leases are kept. Without an answer about them, the claimer makes no claim for a
    /// moment; then it asks again.
    async fn secure(&mut self, ready: Ready) -> Option<Ready> {
        if self.keep_leases().await {
            return Some(ready);
        }
        drop(ready);
        self.queue.alarm.ring(Wakeup::Reconnect);
        self.heartbeat.rest();
        // Order: the end goes first; a sleep may be left at any time.
        tokio::select! {
            biased;
            () = self.queue.stopping.cancelled() => {}
            () = tokio::time::sleep(BUSY) => {}
        }
        None
    }

    fn send(&mut self, ready: Ready) {
        let queue = &self.queue;
        let process = &queue.process;
        let Ready { room, bytes, isolation, probe, take_over, ahead } = ready;
        self.turns += 1;
        queue.alarm.begin();
        let sent_ms = queue.home().now_ms();
        // A lease outlasts the time in which its claim can run.
        let patience = self.patience.min(queue.home().call_timeout()).min(queue.spec.lease / 2);
        let not_after_ms = sent_ms.saturating_add(millis(patience));
        let most = room.room().count.min(BATCH_ENTRIES as u64) as usize;
        let (lease, bytes, number) = (queue.spec.lease, bytes as usize, process.next_claim());
        let lease = if planted(Lie::EndlessLease) { lease * 1_000 } else { lease };
        let ahead = if planted(Lie::Early) { Duration::from_millis(50) } else { ahead };
        let request = match take_over {
            Some(old) => Request::TakeOver(TakeOverRequest {
                old,
                new: old.taken_over_by(process.owner, number),
                not_after_ms,
                lease,
                most: if matches!(isolation, Isolation::Alone(_)) { 1 } else { most },
                bytes,
                largest: queue.hints().largest(),
            }),
            None => {
                self.rotation += 1;
                Request::Claim(ClaimRequest {
                    name: ClaimName::new(process.owner, number),
                    not_after_ms,
                    lease,
                    ahead,
                    most,
                    bytes,
                    rotation: self.rotation,
                    hints: queue.hints().clone(),
                })
            }
        };
        let nothing_due_ms = queue.nothing_due_ms();
        let claim = Sending { request, sent: Instant::now(), patience, nothing_due_ms, room, isolation, probe };
        queue.watch.claims();
        self.outstanding.push(queue.clone(), claim);
    }

    /// Handles the answers of all outstanding claims.
    async fn receive_all(&mut self) {
        while !self.outstanding.is_empty() {
            let answered = self.outstanding.next().await;
            Box::pin(self.receive(answered)).await;
        }
    }

    async fn receive(&mut self, answered: Box<Answered>) {
        let queue = self.queue.clone();
        let process = &queue.process;
        let Answered { claim, answer, took } = *answered;
        let most = claim.request.most();
        self.backlog = false;
        match answer {
            Ok(Reply::Claim(ClaimReply::Late { now_ms }) | Reply::TakeOver(TakeOverReply::Late { now_ms })) => {
                queue.home().observe(now_ms);
                self.patience = claim.patience.saturating_mul(2);
                queue.refund_rate(most as u32);
                queue.alarm.ring(Wakeup::More);
            }
            // Another sending of it has run: what it took is found by its name.
            Ok(Reply::Claim(ClaimReply::Twice { now_ms }) | Reply::TakeOver(TakeOverReply::Twice { now_ms })) => {
                queue.home().observe(now_ms);
                self.lose(claim);
            }
            // Another daemon delivers: it may end, or release the order earlier, so the safety poll looks too.
            Ok(Reply::Claim(ClaimReply::Standby { now_ms, until_ms })) => {
                self.answered(now_ms, claim.patience);
                queue.refund_rate(most as u32);
                queue.stands_by(until_ms);
                queue.alarm.next(Some(until_ms.saturating_add(1)), false);
            }
            Ok(Reply::Claim(ClaimReply::Claimed(claimed))) => {
                queue.is_active();
                process.events.metrics().script("claim").took(took);
                self.answered(claimed.now_ms, claim.patience);
                reply::look_at_due_times(&queue, &claimed, claim.nothing_due_ms);
                reply::look_for_repeats(&queue, &claimed);
                self.take_up(claimed, claim).await;
            }
            Ok(Reply::TakeOver(TakeOverReply::Nothing { now_ms })) => {
                process.events.metrics().script("take_over").took(took);
                self.answered(now_ms, claim.patience);
                queue.refund_rate(most as u32);
                queue.alarm.ring(Wakeup::More);
            }
            Ok(Reply::TakeOver(TakeOverReply::Taken { now_ms, mut elements, unknown, damaged, .. })) => {
                process.events.metrics().script("take_over").took(took);
                self.answered(now_ms, claim.patience);
                let unknown = unknown.saturating_sub(damaged.len() as u64);
                elements.extend(damaged);
                if unknown > 0 {
                    queue.events.unknown_entries(unknown);
                }
                self.hand_over(elements, 0, unknown > 0, claim);
                queue.alarm.ring(Wakeup::More);
            }
            Err(SourceError::Link(LinkError::NotSent { .. })) => {
                queue.refund_rate(most as u32);
                queue.alarm.ring(Wakeup::Reconnect);
            }
            Err(SourceError::Link(LinkError::Unknown { .. })) if planted(Lie::ResentScript) => {
                queue.alarm.ring(Wakeup::Reconnect);
            }
            Err(SourceError::Link(LinkError::Unknown { .. })) => self.lose(claim),
            Err(problem) => {
                queue.refund_rate(most as u32);
                drop(claim);
                // What the next one took does not wait until Redis may be asked again.
                self.receive_all().await;
                self.refused(&problem).await;
            }
        }
    }

    /// Redis has run a claim or a takeover.
    fn answered(&mut self, now_ms: i64, patience: Duration) {
        self.queue.home().observe(now_ms);
        self.patience = PATIENCE.max(patience / 2);
        let migrated = self.queue.slot_migrating.swap(false, Ordering::Relaxed);
        if std::mem::take(&mut self.refusals) > 0 || migrated {
            self.queue.resume();
        }
    }

    fn lose(&mut self, claim: Sending) {
        let (name, not_after_ms) = (claim.request.name(), claim.request.not_after_ms());
        self.lost.push(Lost::reply(name, not_after_ms, claim.sent.after(claim.patience), claim.room, claim.isolation));
    }

    /// Redis refuses: a key of a wrong type, a missing right. Nothing was changed.
    async fn refused(&mut self, problem: &SourceError) {
        self.heartbeat.rest();
        let queue = &self.queue;
        queue.watch.at(Stage::Refused);
        let migrating = matches!(problem, SourceError::Link(LinkError::Server { code: "TRYAGAIN", .. }));
        match migrating {
            true => queue.slot_migrates(),
            false => queue.events.on_hold(None, "claim", "", &format!("claim: {problem}")),
        }
        self.extend_first |= migrating;
        if let SourceError::NotDurable { released, .. } = problem {
            queue.events.metrics().released(ReleaseReason::NotDurable, *released);
        }
        let passing = matches!(
            problem,
            SourceError::NotDurable { .. }
                | SourceError::Link(LinkError::Server {
                    code: "LOADING"
                        | "BUSY"
                        | "READONLY"
                        | "MASTERDOWN"
                        | "CLUSTERDOWN"
                        | "MOVED"
                        | "ASK"
                        | "NOREPLICAS"
                        | "MISCONF",
                    ..
                })
        );
        let wait = match (migrating, passing) {
            (true, _) => MIGRATING.bound(self.refusals),
            (false, true) => BUSY,
            (false, false) => REFUSED.bound(self.refusals),
        };
        self.refusals = self.refusals.saturating_add(1);
        queue.alarm.ring(Wakeup::Poll);
        // In the drain a lost claim is still looked for, but not without a pause.
        let stopping = queue.stopping.is_cancelled();
        let end = if stopping { &queue.abandon } else { &queue.stopping };
        // Order: the end goes first; a sleep may be left at any time.
        tokio::select! {
            biased;
            () = end.cancelled() => {}
            () = tokio::time::sleep(if stopping { BUSY } else { wait }) => {}
        }
    }

    async fn take_up(&mut self, mut claimed: Claimed, claim: Sending) {
        let queue = self.queue.clone();
        reply::take_damaged(&mut claimed);
        let (most, probing) = (claim.request.most(), claim.probe.is_some());
        let (taken, more_due) = (claimed.elements.len(), reply::more_is_due(&claimed));
        claimed.unknown += self.expired.unknown;
        reply::note(&queue, &claimed);
        *queue.hints() = claimed.hints;
        queue.alarm.next(claimed.next_ms, taken > 0);
        self.hand_over(claimed.elements, claimed.retried, claimed.unreadable > 0, claim);
        let strays = self.expired.met(&queue, claimed.expired).await;
        self.look_for(strays, claimed.now_ms);
        // A probe that found nothing but expired leases waits for the safety poll: the gate would let it through again at
        // once.
        let left = taken >= most || claimed.more;
        self.backlog = left && !probing;
        let probed_nothing = probing && taken == 0;
        if left || !self.expired.is_empty() && !probed_nothing {
            queue.alarm.ring(Wakeup::More);
        } else if taken == 0 && more_due {
            // Another daemon was faster: not again in lockstep.
            tokio::time::sleep(Duration::from_millis(fastrand::u64(1..5))).await;
        }
    }

    /// Gives what was taken to the delivery. What was reserved for more is released.
    fn hand_over(&mut self, elements: Vec<Element>, retried: usize, unreadable: bool, claim: Sending) {
        let queue = &self.queue;
        let Sending { request, sent, room, isolation, probe, .. } = claim;
        let unused = request.most().saturating_sub(elements.len());
        queue.refund_rate(u32::try_from(unused).unwrap_or(0));
        if queue.give_up.is_cancelled() {
            // Too late to write a verdict: left to its lease, and not sent.
            return;
        }
        let deadline = sent.after(queue.spec.lease);
        let (name, not_after_ms) = (request.name(), request.not_after_ms());
        if !elements.is_empty() {
            self.rest_from = sent.after(LINGER);
        }
        let taken = Taken { name, not_after_ms, elements, unreadable, deadline };
        if let Some(batch) = reply::accept(queue, taken, retried, (room, isolation, probe)) {
            queue.dispatch.push(queue, batch);
        }
    }

    /// Claims of ours that are not here, with leases that were over at this Redis time: their elements were dropped here.
    fn look_for(&mut self, strays: Vec<ClaimName>, now_ms: i64) {
        for name in strays {
            if self.lost.iter().all(|lost| lost.name() != name) {
                self.lost.push(Lost::stray(name, now_ms, self.queue.leases.was_left(name)));
            }
        }
    }

    /// Looks for a lost claim; for those that hold something first.
    async fn look_up(&mut self) {
        let queue = self.queue.clone();
        let Some(place) = self.lost.iter().position(Lost::holds).or((!self.lost.is_empty()).then_some(0)) else {
            return;
        };
        let Some(lost) = self.lost.get_mut(place) else { return };
        match lost.look(&queue).await {
            Looked::Again => {}
            Looked::Found => drop(self.lost.remove(place)),
            Looked::Refused(problem) => self.refused(&problem).await,
        }
    }
}
