//! The one task of a queue that claims: [prepares](crate::claim::prepare) a claim, sends it, and takes over
//! what its [reply](crate::claim::reply) brings.
//!
//! Everything up to the claim may be cancelled at any point. From the moment a claim is sent it is not: either its reply
//! is read, or it is a lost claim that is looked for by its name. Replies are handled in the order of the claims, also where two are
//! [outstanding](crate::claim::outstanding).

mod answers;
mod in_order;
mod order;
mod pace;
mod pulse;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use self::order::ClaimOrder;
use self::pace::ClaimPace;
use self::pulse::Pulse;
use crate::active::ActiveQueue;
use crate::claim::alarm::RestAfter;
use crate::claim::expired::Expired;
use crate::claim::isolation::Isolation;
use crate::claim::lost::{Looked, Lost};
use crate::claim::outstanding::{ClaimCall, OutstandingClaims, PendingClaim};
use crate::claim::prepare::{ClaimTurn, Preparation, ReadyClaim, prepare};
use crate::leases::keeper;
use crate::registry::QueueRegistry;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::claims::{ClaimName, ClaimRequest, TakeOverRequest};
use delaybridge_ledger::{BATCH_ENTRIES, millis};
use delaybridge_telemetry::labels::{Stage, Wakeup};
use delaybridge_telemetry::status::Heartbeat;

/// Longest wait when Redis only cannot answer now.
const BUSY: Duration = Duration::from_millis(500);
/// Outstanding claims while more is due than one claim takes.
const DEPTH: usize = 2;

/// After an element another one is expected for so long.
const LINGER: Duration = Duration::from_secs(10);

/// Claims until the process stops.
pub async fn run(queue: Arc<ActiveQueue>, heartbeat: Heartbeat) {
    Claimer::new(queue, heartbeat, None).run().await;
}

/// Claims until the process stops, or nothing is left to do: then the queue may go to rest.
pub async fn until_rest(queue: Arc<ActiveQueue>, heartbeat: Heartbeat, registry: Arc<QueueRegistry>) {
    Claimer::new(queue, heartbeat, Some(registry)).run().await;
}

struct Claimer {
    queue: Arc<ActiveQueue>,
    /// The place where the queue rests, if it may.
    rest: Option<RestAt>,
    pulse: Pulse,
    pace: ClaimPace,
    /// Claims of other processes that are to be taken over.
    expired: Expired,
    lost: Vec<Lost>,
    outstanding: OutstandingClaims,
    /// The order, where the queue has one.
    order: Option<ClaimOrder>,
}

/// The place where a claimer may leave its queue to rest.
struct RestAt {
    registry: Arc<QueueRegistry>,
    not_before: Instant,
}

impl Claimer {
    fn new(queue: Arc<ActiveQueue>, heartbeat: Heartbeat, registry: Option<Arc<QueueRegistry>>) -> Claimer {
        // What a change of the queue left to its leases need not wait for their ends.
        let now_ms = queue.home().now_ms();
        let left_here = queue.leases.take_forgotten().into_iter();
        let lost = left_here.map(|claim| Lost::forgotten(claim, now_ms)).collect();
        Claimer {
            rest: registry.map(|registry| RestAt { registry, not_before: Instant::now() }),
            pulse: Pulse::new(heartbeat),
            pace: ClaimPace::new(),
            expired: Expired::default(),
            lost,
            outstanding: OutstandingClaims::default(),
            order: queue.key_queues().cloned().map(ClaimOrder::new),
            queue,
        }
    }

    async fn run(mut self) {
        let queue = self.queue.clone();
        loop {
            if self.outstanding.is_empty() {
                // Waiting for work, room, Redis, or what is in flight beside a suspect, may take any time.
                self.pulse.rest();
            }
            if !self.lost.is_empty() {
                Box::pin(self.recover_lost(&queue.stopping)).await;
                queue.alarm.ring(Wakeup::Reconnect);
                if queue.stopping.is_cancelled() {
                    break;
                }
                continue;
            }
            // A claim that was waited for may be lost meanwhile. It has the room that the next one would wait for.
            if self.order.is_some() && (!self.may_claim_in_order().await || !self.lost.is_empty()) {
                continue;
            }
            // Order: a stop goes first, and an answer before the next claim. Answers wait until they are taken; waiting and
            // getting ready are cancel safe: reservations are released.
            let follows = !self.outstanding.is_empty();
            let depth = if self.order.is_some() { 1 } else { DEPTH };
            let gathers = self.order.as_ref().is_some_and(ClaimOrder::has_gathered);
            let take_over = if follows { None } else { self.next_takeover() };
            let turn = ClaimTurn { number: self.pace.turns, take_over, follows, gathers, rest: self.rest() };
            let prepared = tokio::select! {
                biased;
                () = queue.stopping.cancelled() => break,
                answered = self.outstanding.next() => {
                    self.pulse.beat();
                    Box::pin(self.receive(answered)).await;
                    continue;
                }
                prepared = prepare(&queue, turn), if !follows || self.pace.backlog && self.outstanding.len() < depth => prepared,
            };
            let ready = match prepared {
                Preparation::Ready(ready) => ready,
                Preparation::Again => continue,
                Preparation::Rest => {
                    // Nobody gives back the order of a queue at rest: after a stop, the next process would wait for its end.
                    if queue.may_rest() {
                        self.leave_order().await;
                    }
                    if queue.may_rest() {
                        return;
                    }
                    self.linger(Instant::now());
                    continue;
                }
            };
            self.pulse.beat();
            // Boxed, because it is rare.
            let secured = if self.pulse.was_suspended(&queue) || self.pulse.extend_first {
                Box::pin(self.secure(ready)).await
            } else {
                Some(ready)
            };
            let Some(ready) = secured else { continue };
            self.pulse.goes_on();
            self.pulse.beat();
            if !queue.stopping.is_cancelled() {
                self.send(ready);
            }
        }
        Box::pin(self.end()).await;
    }

    /// Finds the claim of another process to take over in this turn.
    fn next_takeover(&mut self) -> Option<ClaimName> {
        match &mut self.order {
            Some(order) => order.next_takeover(&self.expired),
            None => self.expired.next(self.pace.turns, self.pace.backlog),
        }
    }

    /// Expects another element for a while.
    fn linger(&mut self, from: Instant) {
        if let Some(rest) = &mut self.rest {
            rest.not_before = from.after(LINGER);
        }
    }

    /// Waits, or until the queue stops.
    async fn pause(&mut self, wait: Duration) {
        self.pulse.rest();
        // Order: the stop goes first; a sleep may be left at any time.
        tokio::select! {
            biased;
            () = self.queue.stopping.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }

    /// Looks for a lost claim. It goes before the next, with the room and the isolation that it was made with: waiting for
    /// more could wait for itself. The same holds for an outstanding claim.
    async fn recover_lost(&mut self, until: &CancellationToken) {
        self.receive_all().await;
        let queue = self.queue.clone();
        queue.progress.at(Stage::Lost);
        if !queue.home().is_up() {
            self.lost.iter_mut().for_each(Lost::yields);
        }
        tokio::select! {
            biased;
            () = until.cancelled() => return,
            () = queue.home().ready() => {}
        }
        // What is looked for holds no room that the others lack; what they found goes on all the same.
        if !self.pulse.was_suspended(&queue) || self.keep_leases().await {
            self.pulse.goes_on();
        }
        self.return_unless_known();
        self.look_up().await;
    }

    /// Ends outstanding and lost claims, so that their elements do not wait for their leases (R5, R6).
    async fn end(&mut self) {
        self.receive_all().await;
        let queue = self.queue.clone();
        while !self.lost.is_empty() && !queue.abandon.is_cancelled() {
            self.recover_lost(&queue.abandon).await;
        }
        if queue.process.stopping.is_cancelled() {
            queue.process.not_found.fetch_add(self.lost.len() as u64, Ordering::Relaxed);
        } else {
            // The queue is changed: the one that follows goes on looking.
            queue.leases.leave(self.lost.iter().map(|lost| lost.forget(&queue)))
        }
        if self.lost.is_empty() {
            self.leave_order().await;
        }
    }

    /// Returns the point from which the claimer may end: none while there is anything that only it knows.
    fn rest(&self) -> Option<RestAfter> {
        let rest = self.rest.as_ref()?;
        let knows = !self.outstanding.is_empty() || !self.expired.is_empty() || self.pace.is_unsettled();
        (!knows).then(|| RestAfter { horizon: rest.registry.horizon(), not_before: rest.not_before })
    }

    /// Secures the claims of a process that was suspended, before it makes more. Whether that has worked.
    async fn keep_leases(&mut self) -> bool {
        let kept = keeper::extend(&self.queue.leases).await;
        self.pulse.extend_first &= !kept;
        self.pulse.beat();
        kept
    }

    /// Goes on after a suspension if the leases are kept. Without an answer about them, the claimer makes no claim for a
    /// moment; then it asks again.
    async fn secure(&mut self, ready: ReadyClaim) -> Option<ReadyClaim> {
        if self.keep_leases().await {
            return Some(ready);
        }
        drop(ready);
        self.queue.alarm.ring(Wakeup::Reconnect);
        self.pause(BUSY).await;
        None
    }

    fn send(&mut self, ready: ReadyClaim) {
        let queue = &self.queue;
        let process = &queue.process;
        let ReadyClaim { room, most, bytes, isolation, probe, take_over, ahead } = ready;
        self.pace.turns += 1;
        queue.alarm.begin();
        let sent_ms = queue.home().now_ms();
        // A lease outlasts the time in which its claim can run.
        let patience = self.pace.patience.min(queue.home().call_timeout()).min(queue.spec.lease / 2);
        let not_after_ms = sent_ms.saturating_add(millis(patience));
        let most = most.min(BATCH_ENTRIES as u64) as usize;
        let lease = queue.spec.lease;
        let bytes = bytes as usize;
        let number = process.next_claim();
        let request = match take_over {
            Some(old) => ClaimCall::TakeOver(Box::new(TakeOverRequest {
                old,
                new: old.taken_over_by(queue.store.owner(), number),
                not_after_ms,
                lease,
                most: if matches!(isolation, Isolation::Alone(_)) { 1 } else { most },
                bytes,
                largest: queue.hints().largest(),
            })),
            None => {
                self.pace.rotation += 1;
                ClaimCall::Claim(Box::new(ClaimRequest {
                    name: ClaimName::new(queue.store.owner(), number),
                    not_after_ms,
                    lease,
                    ahead,
                    most,
                    bytes,
                    rotation: self.pace.rotation,
                    hints: queue.hints().clone(),
                    back_before_ms: self.expired.first_suspect().and_then(|first| first.comes_after_ms()),
                }))
            }
        };
        let nothing_due_ms = queue.nothing_due_ms();
        let history = queue.home().history();
        let claim =
            PendingClaim { request, sent: Instant::now(), patience, nothing_due_ms, room, isolation, probe, history };
        queue.progress.claims();
        self.outstanding.push(queue.queue.clone(), claim);
    }

    /// Handles the answers of all outstanding claims.
    async fn receive_all(&mut self) {
        let queue = self.queue.clone();
        while !self.outstanding.is_empty() {
            // Order: an answer that has come counts, also when it is too late to wait for others.
            tokio::select! {
                biased;
                answered = self.outstanding.next() => Box::pin(self.receive(answered)).await,
                () = queue.give_up.cancelled() => {
                    let now_ms = queue.home().now_ms();
                    self.lost.extend(self.outstanding.give_up().map(|claim| Lost::forgotten(claim, now_ms)));
                }
            }
        }
    }

    /// Claims of ours that are not here, with leases that were over at this Redis time: their elements were dropped here.
    fn look_for(&mut self, strays: Vec<ClaimName>, now_ms: i64) {
        for name in strays {
            if self.lost.iter().all(|lost| lost.name() != name) {
                let left = self.queue.leases.was_left(name, self.queue.home().history());
                self.lost.push(Lost::stray(name, now_ms, left));
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
            Looked::Found => {
                self.lost.remove(place);
            }
            Looked::Refused(problem) => self.refused(&problem).await,
        }
    }
}
