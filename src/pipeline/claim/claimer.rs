//! The one task of a queue that claims: [prepares](crate::pipeline::claim::prepare) a claim, sends it, and takes over
//! what its [reply](crate::pipeline::claim::reply) brings.
//!
//! Everything up to the claim may be cancelled at any point. From the moment a claim is sent it is not: either its reply
//! is read, or it is a lost claim that is looked for by its name. Replies are handled in the order of the claims, also where two are
//! [outstanding](crate::pipeline::claim::outstanding).

mod answers;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::Instant;
use crate::link::LinkError;
use crate::pipeline::claim::Isolation;
use crate::pipeline::claim::alarm::RestAfter;
use crate::pipeline::claim::expired::Expired;
use crate::pipeline::claim::lost::{Looked, Lost};
use crate::pipeline::claim::outstanding::{ClaimCall, OutstandingClaims, PendingClaim};
use crate::pipeline::claim::prepare::{ClaimTurn, Preparation, ReadyClaim, prepare};
use crate::pipeline::claim::returned::ReturnedClaims;
use crate::pipeline::leases::keeper;
use crate::pipeline::queue::Queue;
use crate::pipeline::registry::QueueRegistry;
use crate::plant::{Lie, planted};
use crate::source::SourceError;
use crate::source::ledger::BATCH_ENTRIES;
use crate::source::ledger::claims::{ClaimName, ClaimRequest, TakeOverRequest};
use crate::source::millis;
use crate::telemetry::labels::{Stage, Wakeup};
use crate::telemetry::status::Heartbeat;

/// Between two looks whether everything has gone back.
const RETURNING: Duration = Duration::from_millis(5);

/// Longest wait when Redis only cannot answer now.
const BUSY: Duration = Duration::from_millis(500);
/// How long after its sending a claim may run, to begin with. Short, because that is how long a lost one delays its
/// elements; it grows while Redis is slower than this.
const PATIENCE: Duration = Duration::from_millis(500);

/// OutstandingClaims claims while more is due than one claim takes.
const DEPTH: usize = 2;

/// After an element another one is expected for so long.
const LINGER: Duration = Duration::from_secs(10);

/// Claims until the process stops.
pub async fn run(queue: Arc<Queue>, heartbeat: Heartbeat) {
    Claimer::new(queue, heartbeat, None).run().await;
}

/// Claims until the process stops, or nothing is left to do: then the queue may go to rest.
pub async fn until_rest(queue: Arc<Queue>, heartbeat: Heartbeat, registry: Arc<QueueRegistry>) {
    Claimer::new(queue, heartbeat, Some(registry)).run().await;
}

/// Gives the order back when nothing is in flight any more: another daemon need not wait for the end of a lease.
async fn leave_order(queue: &Queue) {
    if queue.spec.order.is_none() {
        return;
    }
    while !queue.leases.is_empty() && !queue.give_up.is_cancelled() {
        tokio::time::sleep(RETURNING).await;
    }
    // When it gives up, what is left is forgotten, and stays under its leases.
    if queue.leases.is_empty() && !queue.give_up.is_cancelled() {
        // Without an answer it ends by itself.
        drop(queue.store.leave_order().await);
    }
}

struct Claimer {
    queue: Arc<Queue>,
    /// Where the queue rests, if it may.
    registry: Option<Arc<QueueRegistry>>,
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
    outstanding: OutstandingClaims,
    /// In order: there are claims to be taken over, or the last claim has met some.
    gathering: bool,
    /// In order: what was taken over last may kill the process, and is delivered before anything else is taken over.
    alone: bool,
    /// In order: what a failover may have brought back.
    returned: ReturnedClaims,
    /// The last claim left something that is due.
    backlog: bool,
}

impl Claimer {
    fn new(queue: Arc<Queue>, heartbeat: Heartbeat, registry: Option<Arc<QueueRegistry>>) -> Claimer {
        let now = Instant::now();
        // What a change of the queue left to its leases need not wait for their ends. In order, it is another owner's.
        let (owner, now_ms) = (queue.store.owner(), queue.home().now_ms());
        let left_here = queue.leases.take_forgotten().into_iter().filter(|claim| claim.name.owner == owner);
        let lost = left_here.map(|claim| Lost::forgotten(claim, now_ms)).collect();
        Claimer {
            registry,
            rest_from: now,
            heartbeat,
            heartbeat_at: now,
            expired: Expired::default(),
            turns: 0,
            rotation: 0,
            refusals: 0,
            extend_first: false,
            patience: PATIENCE,
            lost,
            outstanding: OutstandingClaims::default(),
            gathering: false,
            alone: false,
            returned: ReturnedClaims::default(),
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
            // A claim that was waited for may be lost meanwhile. It has the room that the next one would wait for.
            if queue.spec.order.is_some() && (!self.may_claim_in_order().await || !self.lost.is_empty()) {
                continue;
            }
            // Order: a stop goes first, and an answer before the next claim. Answers wait until they are taken; waiting and
            // getting ready are cancel safe: reservations are released.
            let follows = !self.outstanding.is_empty();
            let depth = if queue.spec.order.is_some() { 1 } else { DEPTH };
            let take_over = match (follows, queue.spec.order.is_some()) {
                (true, _) => None,
                (false, true) => {
                    self.alone |= self.expired.is_first_suspect();
                    self.expired.first()
                }
                (false, false) => self.expired.next(self.turns, self.backlog),
            };
            let gathers = queue.lines.is_gathering() && !queue.lines.is_empty();
            let turn = ClaimTurn { number: self.turns, take_over, follows, gathers, rest: self.rest() };
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
                Preparation::Ready(ready) => ready,
                Preparation::Again => continue,
                Preparation::Rest if queue.may_rest() => return,
                Preparation::Rest => {
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
        // What may kill the process waits until nothing else is in hand, and everything else waits for it.
        self.alone &= !(self.outstanding.is_empty() && queue.dispatch.is_idle() && queue.lines.is_empty());
        self.gather();
        let returning = queue.lines.returns_all() || queue.lines.returns_new();
        if returning {
            self.receive_all().await;
        }
        // What was claimed last may not have come to the lines yet.
        let settled = || queue.dispatch.is_idle() && queue.lines.is_empty() && queue.settler.is_idle();
        let waits = if returning { !settled() } else { self.expired.is_first_suspect() && !queue.lines.is_empty() };
        if waits && !queue.stopping.is_cancelled() {
            self.pause(RETURNING).await;
            return false;
        }
        // What is outstanding or lost is not in hand either, and is found by itself.
        let compares = self.outstanding.is_empty() && self.lost.is_empty();
        if compares && self.returned.are_unknown(&queue) && !self.look_for_returned(returning).await {
            return false;
        }
        // Until everything is found and taken over, it goes back as well: it would be behind what has gone back.
        if returning && !waits && !self.gathering && self.lost.is_empty() {
            queue.lines.returned_all();
            queue.alarm.ring(Wakeup::More);
        }
        true
    }

    /// In order: whether what comes waits until everything is taken over.
    fn gather(&self) {
        self.queue.lines.gather(self.gathering && !self.alone && !self.expired.is_first_suspect());
    }

    /// A queue in order, on a connection that is new. If a failover brought anything back, everything in hand goes back first,
    /// and then that. Whether nothing has come back, or the queue stops.
    async fn look_for_returned(&mut self, returning: bool) -> bool {
        let queue = self.queue.clone();
        self.heartbeat.rest();
        // Order: a stop goes first; reads may be left at any time.
        let looked = tokio::select! {
            biased;
            () = queue.stopping.cancelled() => return true,
            looked = async {
                queue.home().ready().await;
                self.returned.look(&queue, returning).await
            } => looked,
        };
        match looked {
            Ok(names) if names.is_empty() => {
                // Those of another server: the next claim meets what there is.
                self.expired.forget();
                return true;
            }
            Ok(names) if returning => {
                // The new master may have forgotten a confirmation as well.
                let now_ms = queue.home().now_ms();
                self.lost.extend(names.into_iter().map(|name| Lost::stray(name, now_ms, false)));
            }
            Ok(_) => queue.lines.return_all(),
            Err(SourceError::Link(LinkError::NotSent { .. } | LinkError::Unknown { .. })) => {
                self.pause(RETURNING).await
            }
            Err(problem) => self.refused(&problem).await,
        }
        false
    }

    /// Waits, or until the queue stops.
    async fn pause(&mut self, wait: Duration) {
        self.heartbeat.rest();
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
        if self.returned.are_unknown(&queue) {
            // What came back with the connection may be due before what is found.
            queue.lines.return_all();
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
        match queue.process.stopping.is_cancelled() {
            true => drop(queue.process.not_found.fetch_add(self.lost.len() as u64, Ordering::Relaxed)),
            // The queue is changed: the one that follows goes on looking.
            false => queue.leases.leave(self.lost.iter().map(Lost::forget)),
        }
        // Another daemon would not wait for what a failover has brought back.
        if self.lost.is_empty() && !self.returned.are_unknown(&queue) {
            leave_order(&queue).await;
        }
    }

    /// When it may end: not while there is anything that only this claimer knows.
    fn rest(&self) -> Option<RestAfter> {
        let registry = self.registry.as_ref()?;
        let knows = !self.outstanding.is_empty() || !self.expired.is_empty() || self.refusals > 0 || self.turns == 0;
        (!knows).then(|| RestAfter { horizon: registry.horizon(), not_before: self.rest_from })
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
        self.turns += 1;
        queue.alarm.begin();
        let sent_ms = queue.home().now_ms();
        // A lease outlasts the time in which its claim can run.
        let patience = self.patience.min(queue.home().call_timeout()).min(queue.spec.lease / 2);
        let not_after_ms = sent_ms.saturating_add(millis(patience));
        let most = most.min(BATCH_ENTRIES as u64) as usize;
        let (lease, bytes, number) = (queue.spec.lease, bytes as usize, process.next_claim());
        let lease = if planted(Lie::EndlessLease) { lease * 1_000 } else { lease };
        let ahead = if planted(Lie::Early) { Duration::from_millis(50) } else { ahead };
        let request = match take_over {
            Some(old) => ClaimCall::TakeOver(TakeOverRequest {
                old,
                new: old.taken_over_by(queue.store.owner(), number),
                not_after_ms,
                lease,
                most: if matches!(isolation, Isolation::Alone(_)) { 1 } else { most },
                bytes,
                largest: queue.hints().largest(),
            }),
            None => {
                self.rotation += 1;
                ClaimCall::Claim(ClaimRequest {
                    name: ClaimName::new(queue.store.owner(), number),
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
        let history = queue.home().history();
        let claim =
            PendingClaim { request, sent: Instant::now(), patience, nothing_due_ms, room, isolation, probe, history };
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
            Looked::Found => drop(self.lost.remove(place)),
            Looked::Refused(problem) => self.refused(&problem).await,
        }
    }
}
