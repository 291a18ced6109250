//! The world of one seed: Redis, the daemons and what each believes, and what the test knows of every element.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use delaybridge::source::UpkeepRequest;
use delaybridge::source::ledger::{ClaimRequest, Entry, Hints, Move};
use delaybridge::source::redisson::ListCleanup;
use delaybridge::source::redisson::Redisson;

use super::rig::{Rig, source};
use super::snapshot::{Snapshot, identity};
use crate::harness::RedissonQueue;

/// Every lease in this test.
pub const LEASE: Duration = Duration::from_secs(10);
/// The same in ms.
pub const LEASE_MS: i64 = 10_000;
/// Name of the queue.
pub const NAME: &str = "orders";

/// One process that claims from the queue.
pub struct Daemon {
    pub source: Redisson,
    pub cleanup: ListCleanup,
    pub ready: bool,
    pub next_claim: u64,
    pub hints: Hints,
    /// What it believes it holds; some of it may have gone to others.
    pub held: Vec<Entry>,
    /// Claims with a lost reply.
    pub lost: Vec<Lost>,
    /// Claims that it gave up, and that still lie in some socket buffer.
    pub in_transit: Vec<ClaimRequest>,
    /// Everything it has sent, to be sent again.
    pub sent: Vec<Sent>,
    /// Slice that it would ask for next.
    pub step: Option<i64>,
}

/// A claim with a lost reply.
#[derive(Clone, Debug)]
pub struct Lost {
    pub number: u64,
    pub not_after_ms: i64,
    pub from: String,
    pub until_ms: i64,
}

/// A script as it was sent.
#[derive(Clone, Debug)]
pub enum Sent {
    Claim(ClaimRequest),
    Settle(Vec<(Bytes, Move)>),
    Extend(Vec<Bytes>),
    Sweep(UpkeepRequest),
    Offer { element: Bytes, delay: Duration },
    Cancel { member: Bytes, in_retry: bool },
    Redrive { id: String, member: Bytes },
}

/// The last steps, shared with the report of a failure.
pub type Trace = Arc<Mutex<VecDeque<String>>>;

/// One seed's world.
pub struct World<'a> {
    pub rig: &'a mut Rig,
    pub rng: fastrand::Rng,
    pub now_us: i64,
    pub queue: RedissonQueue,
    pub daemons: Vec<Daemon>,
    /// What Redis held after the last step.
    pub seen: Snapshot,
    /// Entries of L with a copy in Z that an outsider deleted: they must not be touched.
    pub orphans: HashSet<Bytes>,
    /// Elements that were offered while a copy of them was in L: L has one more than the model can explain.
    pub doubled: HashSet<Bytes>,
    /// Ids that claims gave to ready elements: none twice.
    pub given_ids: HashSet<u64>,
    pub trace: Trace,
    pub loud: bool,
}

impl<'a> World<'a> {
    /// An empty queue and its daemons.
    pub async fn new(rig: &'a mut Rig, seed: u64, trace: Trace, loud: bool) -> World<'a> {
        let mut rng = fastrand::Rng::with_seed(seed);
        // The nonces of claims come from the thread's own generator: they must replay as well.
        fastrand::seed(seed);
        rig.run(&mut redis::cmd("FLUSHALL")).await;
        let mut daemons = Vec::new();
        let mixed = rng.u8(..10) == 0;
        let exact = rng.u8(..4) == 0;
        for owner in 1..=rng.u8(2..=3) {
            let exact = if mixed { rng.bool() } else { exact };
            let cleanup = if exact { ListCleanup::Exact } else { ListCleanup::Auto };
            let ready = rng.u8(..6) > 0 || owner == 1;
            daemons.push(Daemon::new(owner, cleanup, ready));
        }
        let now_us = 1_800_000_000_000_000 + rng.i64(0..1_000_000_000);
        let mut world = World {
            rig,
            rng,
            now_us,
            queue: RedissonQueue::new(NAME),
            daemons,
            seen: Snapshot::default(),
            orphans: HashSet::new(),
            doubled: HashSet::new(),
            given_ids: HashSet::new(),
            trace,
            loud,
        };
        world.advance(0).await;
        // A budget for LREM that is spent for ever: L is as dear as if it had a million entries.
        if world.rng.u8(..3) > 0 {
            let keys = &world.daemons[0].source.keys;
            let mut spent = redis::cmd("HSET");
            spent.arg(&keys.sweep[..]).arg("lrem_at").arg(9_000_000_000_000_000i64).arg("lrem_us").arg(0);
            world.rig.run(&mut spent).await;
        }
        world.seen = world.look().await;
        world
    }

    /// The clock in ms.
    pub fn now(&self) -> i64 {
        self.now_us / 1000
    }

    /// Moves the clock.
    pub async fn advance(&mut self, us: i64) {
        self.now_us += us;
        self.rig.set_clock(self.now_us).await;
    }

    /// All keys as they are now.
    pub async fn look(&mut self) -> Snapshot {
        Snapshot::read(&mut self.rig.redis, &self.daemons[0].source.keys).await
    }

    /// Notes a step.
    pub fn note(&mut self, text: String) {
        let text = format!("[{}] {text}", self.now());
        if self.loud {
            println!("{text}");
        }
        let mut trace = self.trace.lock().unwrap();
        if trace.len() >= 30 {
            trace.pop_front();
        }
        trace.push_back(text);
    }

    /// After a script that must have left everything as it was.
    pub async fn unchanged(&mut self, what: &str) {
        let after = self.look().await;
        if let Some(difference) = self.seen.difference(&after) {
            panic!("{what} must change nothing, but changed {difference}");
        }
    }

    /// After a script of ours: elements are exactly where they should be, and L lost nothing that it must keep.
    pub async fn settled_as(&mut self, what: &str, expected: Snapshot, claimed: &[Bytes], exact: bool) {
        let after = self.look().await;
        if let Some(difference) = expected.difference_of_entries(&after) {
            panic!("{what}: {difference}");
        }
        self.check_list(what, &after, claimed, exact);
        self.seen = after;
    }

    /// L after a claim, a cancel or a slice of the sweep: elements of Z are in L, as often as before; an entry
    /// went only if it was claimed or cancelled just now, or recorded; what was claimed and stayed is recorded.
    fn check_list(&self, what: &str, after: &Snapshot, taken: &[Bytes], exact: bool) {
        let elements: HashSet<&Bytes> = self.seen.l.iter().chain(&after.l).collect();
        let mut identities: HashSet<Bytes> = HashSet::new();
        for e in elements {
            let (was, is) = (self.seen.copies(e), after.copies(e));
            let name = super::snapshot::short(e);
            assert!(is <= was, "{what}: L got another copy of {name}");
            let just_taken = taken.contains(e);
            if after.z.contains_key(e) {
                assert!(is == was, "{what}: {name} is in Z, and a copy of it went from L");
            }
            if just_taken && was > 0 && is == was {
                assert!(!exact, "{what}: {name} was left in L in spite of list_cleanup: exact");
                assert!(after.records(&identity(e)) > 0, "{what}: {name} was left in L and not recorded");
            }
            if is < was {
                assert!(!self.orphans.contains(e) || just_taken, "{what}: {name} may be a last copy, and went from L");
                identities.insert(identity(e));
            }
        }
        for id in identities {
            let of = |l: &[Bytes]| l.iter().filter(|e| identity(e) == id).count();
            let gone = of(&self.seen.l) - of(&after.l);
            let recorded = self.seen.records(&id).saturating_sub(after.records(&id));
            let allowed = taken.iter().filter(|e| identity(e) == id).count() + recorded;
            assert!(gone <= allowed, "{what}: {gone} entries {} went from L, {allowed} might", hex::encode(&id));
        }
        for id in after.ghosts.union(&after.turn) {
            let known = self.seen.records(id) > 0 || taken.iter().any(|e| identity(e) == *id);
            assert!(known, "{what}: recorded {} which no claim took", hex::encode(id));
        }
    }
}

impl Daemon {
    fn new(owner: u8, cleanup: ListCleanup, ready: bool) -> Daemon {
        let mut source = source(NAME, owner, cleanup);
        if !ready {
            source = Redisson::new(NAME, [owner; 8], true, false, cleanup).on_test_clock();
        }
        Daemon {
            source,
            cleanup,
            ready,
            next_claim: 1,
            hints: Hints::default(),
            held: Vec::new(),
            lost: Vec::new(),
            in_transit: Vec::new(),
            sent: Vec::new(),
            step: None,
        }
    }

    /// Whether it takes every claimed element out of L at once.
    pub fn exact(&self) -> bool {
        self.cleanup == ListCleanup::Exact
    }
}
