//! The claims of one queue that this process holds, and the names of those that have ended.
//!
//! This file knows no Redis. The keeper asks it what to extend and what to bury, the claimer asks it what is here already.

pub mod extension;
pub mod keeper;
pub mod reconcile;

use std::collections::BTreeMap;
use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use foldhash::{HashMap, HashSet};
use parking_lot::Mutex;

use crate::claim::record::{Claim, ClaimContents, ClaimEnd};
use crate::limits::reserved::RoomReserved;
use crate::queue::Queue;
use crate::settle::recent;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::claims::ClaimName;
use delaybridge_ledger::millis;
use delaybridge_link::History;
use extension::Unanswered;

/// The claims of one queue.
#[derive(Debug)]
pub struct Leases {
    queue: Arc<Queue>,
    state: Mutex<LeaseState>,
    /// Claims that are held, and names to bury: most of ten thousand queues have neither.
    size: AtomicUsize,
    /// One comparison at a time.
    reconciling: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct LeaseState {
    held: HashMap<u64, Arc<Claim>>,
    /// Names of claims that are empty, with the Redis times after which they cannot run again.
    ended: Vec<(ClaimName, i64)>,
    /// Claims that were let go of with elements in them, or before they were found: for the queue that follows in this process.
    forgotten: Vec<Forgotten>,
    /// Numbers of claims with elements that were dropped here and never sent, until they turn up again; with the history in which
    /// nothing else is left in them.
    left: BTreeMap<u64, History>,
    /// The history in which all claims that are held are known to be what they were.
    known_in: Option<History>,
    /// Extensions without an answer.
    unanswered: Unanswered,
    /// Whether no queue of this process asks any more for what is forgotten here.
    is_over: bool,
}

/// A claim of this process that is left to its lease, or to the queue that follows.
#[derive(Debug, Clone, Copy)]
pub struct Forgotten {
    /// The name of the claim.
    pub name: ClaimName,
    /// The Redis time in ms after which it cannot run any more.
    pub not_after_ms: i64,
    /// The longest lease that it may have been given.
    pub lease: Duration,
    /// Whether its elements may have been sent.
    pub may_repeat: bool,
}

/// Claims that are remembered for what was left in them. Of those that are forgotten more is announced than needed.
const LEFT: usize = 1_000;

impl Leases {
    /// Creates leases without claims.
    pub fn new(queue: Arc<Queue>) -> Self {
        Leases { queue, state: Mutex::default(), size: AtomicUsize::new(0), reconciling: tokio::sync::Mutex::default() }
    }

    /// Returns the queue.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Takes up what a claim took. `room` is what was reserved for it.
    pub fn take_up(&self, contents: ClaimContents, room: RoomReserved) -> Arc<Claim> {
        let claim = Claim::new(&self.queue, contents, room);
        self.insert(claim.clone());
        claim
    }

    /// Ends these elements of a claim, because their verdicts were answered.
    pub fn ended(&self, claim: &Claim, places: impl IntoIterator<Item = usize>) {
        self.after(claim, claim.ended(places));
    }

    /// Drops an element whose lease is over: it stays in Redis.
    pub fn stale(&self, claim: &Claim, place: usize) {
        self.after(claim, claim.stale(place));
    }

    fn after(&self, claim: &Claim, end: ClaimEnd) {
        match end {
            ClaimEnd::Open => {}
            ClaimEnd::Empty => self.bury(claim),
            ClaimEnd::Left => self.remove(claim),
        }
        if end != ClaimEnd::Open {
            self.queue.came_to_rest();
        }
    }

    fn insert(&self, claim: Arc<Claim>) {
        self.with(|state| {
            if claim.history() != state.known_in {
                state.known_in = None;
            }
            state.held.insert(claim.name.number, claim)
        });
    }

    /// Returns the claims that were made in another history than this one; they are known in it from here on.
    fn unknown_in(&self, history: History) -> Vec<Arc<Claim>> {
        let state = self.state.lock();
        state.held.values().filter(|claim| !claim.is_lost() && claim.history() != Some(history)).cloned().collect()
    }

    /// Returns whether all claims are known to be what they were in this history.
    fn are_known_in(&self, history: History) -> bool {
        self.state.lock().known_in == Some(history)
    }

    /// Notes that.
    fn set_known_in(&self, history: History) {
        self.state.lock().known_in = Some(history);
    }

    /// Returns whether a claim of this process is here.
    pub fn contains(&self, name: ClaimName) -> bool {
        self.state.lock().held.contains_key(&name.number)
    }

    /// Returns the elements that are held and have not ended: the numbers of their claims, and what the foreign program
    /// wrote.
    pub fn in_hand(&self) -> HashSet<(u64, Bytes)> {
        let state = self.state.lock();
        state
            .held
            .iter()
            .flat_map(|(number, claim)| claim.in_hand().into_iter().map(|bytes| (*number, bytes)))
            .collect()
    }

    /// Removes a claim that is over for this process but holds something in Redis that was not sent. It counts as left
    /// until its lease is over.
    fn remove(&self, claim: &Claim) {
        let remaining = claim.deadline().since(Instant::now());
        if !claim.is_lost() && !remaining.is_zero() {
            self.queue.process.left.add(remaining);
        }
        self.with(|state| {
            state.held.remove(&claim.name.number);
            if let Some(history) = claim.history() {
                state.left.insert(claim.name.number, history);
            }
            if state.left.len() > LEFT {
                state.left.pop_first();
            }
        });
    }

    /// Returns whether all that turns up again of a claim that ended here was left in it, and not sent. If not, Redis
    /// may have forgotten verdicts: a failover has lost them. `history` is that of the server now.
    pub fn was_left(&self, name: ClaimName, history: Option<History>) -> bool {
        self.with(|state| state.left.remove(&name.number)).is_some_and(|left| Some(left) == history)
    }

    /// Removes a claim that is over and empty, and keeps only its name.
    fn bury(&self, claim: &Claim) {
        self.with(|state| {
            state.held.remove(&claim.name.number);
            if !claim.is_lost() {
                state.ended.push((claim.name, claim.not_after_ms));
            }
        });
    }

    /// Notes the name of a claim that turned out to be empty.
    pub fn bury_name(&self, name: ClaimName, not_after_ms: i64) {
        self.with(|state| state.ended.push((name, not_after_ms)));
    }

    /// Lets go of what is held: its leases run out. How many elements that are.
    pub fn forget(&self) -> usize {
        let held = self.with(|state| take(&mut state.held));
        let open = held.values().filter(|claim| claim.open() > 0 && !claim.is_lost());
        self.leave(open.map(|claim| Forgotten {
            name: claim.name,
            not_after_ms: claim.not_after_ms,
            lease: self.queue.spec.lease,
            may_repeat: true,
        }));
        held.values().map(|claim| claim.open()).sum()
    }

    /// Leaves claims to the queue that follows; if it has begun already, to their leases.
    pub fn leave(&self, claims: impl IntoIterator<Item = Forgotten>) {
        self.with(|state| {
            state.forgotten.extend(claims);
            if state.is_over {
                self.left_to_leases(state.forgotten.drain(..), &state.unanswered);
            }
        });
    }

    /// Takes over what is remembered of claims that have ended, or were let go of. In order, the queue that follows is another owner,
    /// which waits for the leases of the one before.
    pub fn inherit(&self, before: &Leases) {
        let (mut ended, forgotten, mut left, unanswered) = before.with(|state| {
            let LeaseState { ended, forgotten, left, unanswered, .. } = state;
            (take(ended), take(forgotten), take(left), unanswered.clone())
        });
        let owner = self.queue.store.owner();
        let (mut own, others): (Vec<_>, Vec<_>) = forgotten.into_iter().partition(|claim| claim.name.owner == owner);
        before.left_to_leases(others, &unanswered);
        before.give_up();
        self.with(|state| {
            state.ended.append(&mut ended);
            state.forgotten.append(&mut own);
            state.left.append(&mut left);
            state.unanswered.extend(unanswered);
        });
    }

    /// Leaves what is forgotten here to its leases: no queue of this process asks for it any more.
    pub fn give_up(&self) {
        self.with(|state| {
            state.is_over = true;
            self.left_to_leases(state.forgotten.drain(..), &state.unanswered);
        });
    }

    /// Counts these claims until their leases are over at the latest: a lease may begin as late as the claim, or an extension without
    /// an answer, can still run.
    fn left_to_leases(&self, claims: impl IntoIterator<Item = Forgotten>, unanswered: &Unanswered) {
        let now_ms = self.queue.home().now_ms();
        for claim in claims {
            let own_ms = claim.not_after_ms.max(now_ms).saturating_add(millis(claim.lease));
            let remaining = own_ms.max(unanswered.ends_ms()).saturating_sub(now_ms);
            self.queue.process.left.add(Duration::from_millis(remaining.try_into().unwrap_or(0)));
        }
    }

    /// Takes out the claims that the queue before this one let go of.
    pub fn take_forgotten(&self) -> Vec<Forgotten> {
        self.with(|state| take(&mut state.forgotten))
    }

    /// Returns the number of claims that the queue before this one let go of, and that this one has not begun to look
    /// for.
    pub fn forgotten(&self) -> usize {
        self.state.lock().forgotten.len()
    }

    /// Claims with less than `left` of their leases left.
    pub fn due(&self, now: Instant, left: Duration) -> Vec<Arc<Claim>> {
        let state = self.state.lock();
        let runs_low = |claim: &&Arc<Claim>| !claim.is_lost() && claim.deadline().since(now) < left;
        state.held.values().filter(runs_low).cloned().collect()
    }

    /// Takes out up to `most` names of ended claims that cannot run any more at this Redis time, and the latest
    /// `not_after` of them.
    pub fn take_ended(&self, now_ms: i64, most: usize) -> Option<(i64, Vec<ClaimName>)> {
        self.with(|state| {
            let over: Vec<_> =
                state.ended.iter().filter(|(_, not_after)| *not_after < now_ms).take(most).copied().collect();
            state.ended.retain(|ended| !over.contains(ended));
            let latest = over.iter().map(|(_, not_after)| *not_after).max()?;
            Some((latest, over.into_iter().map(|(name, _)| name).collect()))
        })
    }

    /// Returns the number of elements that are held.
    pub fn len(&self) -> usize {
        self.state.lock().held.values().map(|claim| claim.open()).sum()
    }

    /// Returns the due time in Redis ms of the oldest element that is held.
    pub fn oldest_due_ms(&self) -> Option<i64> {
        self.state.lock().held.values().filter_map(|claim| claim.oldest_due_ms()).min()
    }

    /// Returns the elements of the held claims that a failover may bring back, as hashes.
    pub fn hashes(&self) -> Vec<u32> {
        let state = self.state.lock();
        state.held.values().flat_map(|claim| claim.elements.iter().filter_map(recent::hash)).collect()
    }

    /// Returns whether no claim is held.
    pub fn is_empty(&self) -> bool {
        self.state.lock().held.is_empty()
    }

    /// Returns whether there is nothing to extend and nothing to bury.
    pub fn is_idle(&self) -> bool {
        self.size.load(Ordering::Relaxed) == 0
    }

    /// Returns whether nothing is remembered either of claims that have ended.
    pub fn is_forgotten(&self) -> bool {
        let state = self.state.lock();
        state.held.is_empty() && state.ended.is_empty() && state.left.is_empty()
    }

    fn with<T>(&self, change: impl FnOnce(&mut LeaseState) -> T) -> T {
        let mut state = self.state.lock();
        let answer = change(&mut state);
        self.size.store(state.held.len() + state.ended.len(), Ordering::Relaxed);
        answer
    }
}
