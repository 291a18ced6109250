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
use crate::pipeline::claim::Isolation;
use crate::pipeline::claim::alarm::Rest;
use crate::pipeline::claim::expired::Expired;
use crate::pipeline::claim::lost::{Looked, Lost};
use crate::pipeline::claim::outstanding::{Outstanding, Request, Sending};
use crate::pipeline::claim::prepare::{Prepared, Ready, Turn, prepare};
use crate::pipeline::claim::returned::Returned;
use crate::pipeline::leases::keeper;
use crate::pipeline::queue::Queue;
use crate::pipeline::seats::Seats;
use crate::plant::{Lie, planted};
use crate::source::StoreError;
use crate::source::ledger::BATCH_ENTRIES;
use crate::source::ledger::claims::{ClaimName, ClaimRequest, TakeOverRequest};
use crate::source::millis;
use crate::telemetry::labels::{Stage, Wakeup};
use crate::telemetry::status::Heartbeat;

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
    // When it gives up, what is left is forgotten, and stays under its leases.
    if queue.leases.is_empty() && !queue.give_up.is_cancelled() {
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
    /// In order: there are claims to be taken over, or the last claim has met some.
    gathering: bool,
    /// In order: what was taken over last may kill the process, and is delivered before anything else is taken over.
    alone: bool,
    /// In order: what a failover may have brought back.
    returned: Returned,
    /// The last claim left something that is due.
    backlog: bool,
}

impl Claimer {
    fn new(queue: Arc<Queue>, heartbeat: Heartbeat, seats: Option<Arc<Seats>>) -> Claimer {
        let now = Instant::now();
        // What a change of the queue left to its leases need not wait for their ends. In order, it is another owner's.
        let (owner, now_ms) = (queue.store.owner(), queue.home().now_ms());
        let left_here = queue.leases.take_forgotten().into_iter().filter(|claim| claim.name.owner == owner);
        let lost = left_here.map(|claim| Lost::forgotten(claim, now_ms)).collect();
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
            lost,
            outstanding: Outstanding::default(),
            gathering: false,
            alone: false,
            returned: Returned::default(),
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
            let turn = Turn { number: self.turns, take_over, follows, gathers, rest: self.rest() };
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
        // What may kill the process waits until nothing else is in hand, and everything else waits for it.
        self.alone &= !(self.outstanding.is_empty() && queue.dispatch.is_idle() && queue.lines.is_empty());
        self.gather();
        let spilling = queue.lines.is_spilling() || queue.lines.is_draining();
        if spilling {
            self.receive_all().await;
        }
        // What was claimed last may not have come to the lines yet.
        let settled = || queue.dispatch.is_idle() && queue.lines.is_empty() && queue.settler.is_idle();
        let waits = if spilling { !settled() } else { self.expired.is_first_suspect() && !queue.lines.is_empty() };
        if waits && !queue.stopping.is_cancelled() {
            self.pause(SPILLING).await;
            return false;
        }
        // What is outstanding or lost is not in hand either, and is found by itself.
        let compares = self.outstanding.is_empty() && self.lost.is_empty();
        if compares && self.returned.are_unknown(&queue) && !self.look_for_returned(spilling).await {
            return false;
        }
        // Until everything is found and taken over, it goes back as well: it would be behind what has gone back.
        if spilling && !waits && !self.gathering && self.lost.is_empty() {
            queue.lines.spilled();
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
    async fn look_for_returned(&mut self, spilling: bool) -> bool {
        let queue = self.queue.clone();
        self.heartbeat.rest();
        // Order: a stop goes first; reads may be left at any time.
        let looked = tokio::select! {
            biased;
            () = queue.stopping.cancelled() => return true,
            looked = async {
                queue.home().ready().await;
                self.returned.look(&queue, spilling).await
            } => looked,
        };
        match looked {
            Ok(names) if names.is_empty() => {
                // Those of another server: the next claim meets what there is.
                self.expired.forget();
                return true;
            }
            Ok(names) if spilling => {
                // The new master may have forgotten a confirmation as well.
                let now_ms = queue.home().now_ms();
                self.lost.extend(names.into_iter().map(|name| Lost::stray(name, now_ms, false)));
            }
            Ok(_) => queue.lines.spill(),
            Err(StoreError::NotSent { .. } | StoreError::Unknown { .. }) => self.pause(SPILLING).await,
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
            queue.lines.spill();
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
        self.pause(BUSY).await;
        None
    }

    fn send(&mut self, ready: Ready) {
        let queue = &self.queue;
        let process = &queue.process;
        let Ready { room, most, bytes, isolation, probe, take_over, ahead } = ready;
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
            Some(old) => Request::TakeOver(TakeOverRequest {
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
                Request::Claim(ClaimRequest {
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
            Sending { request, sent: Instant::now(), patience, nothing_due_ms, room, isolation, probe, history };
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
