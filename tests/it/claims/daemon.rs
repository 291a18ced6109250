//! One process that claims: its beliefs, and its sent calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use delaybridge_ledger::claims::{ClaimName, ClaimRequest, Element, Part, SettleCommand, TakeOverRequest, Whole};
use delaybridge_ledger::redis::RedisStore;
use delaybridge_ledger::{Hints, UpkeepRequest};
use delaybridge_source::redisson::{ListCleanup, Redisson};

use super::world::{NAME, World};

/// The members of a claim as a daemon knows them.
pub type Held = BTreeMap<(Part, Bytes), Element>;

/// One process that claims from the queue.
pub struct Daemon {
    pub store: RedisStore,
    pub redisson: Redisson,
    pub owner: [u8; 8],
    pub cleanup: ListCleanup,
    pub delayed: bool,
    pub ready: bool,
    /// The number of its next claim or takeover.
    pub next_number: u64,
    /// The place in the next header that it writes.
    pub next_place: u32,
    pub hints: Hints,
    /// The claims that it believes it holds; some may have gone to others.
    pub held: BTreeMap<ClaimName, Held>,
    /// Claims and takeovers with a lost reply.
    pub lost: Vec<ClaimName>,
    /// A lost claim that was extended, and is to be read next.
    pub adopting: Option<ClaimName>,
    /// Calls that were given up, and are still in some socket buffer.
    pub in_transit: Vec<Sent>,
    /// All sent calls, to be sent again.
    pub sent: Vec<Sent>,
    /// Verdicts with a lost answer: no other verdict on these elements is sent before they are repeated.
    pub unsure: Vec<Batch>,
    /// Claims that it knows to be empty.
    pub empty: Vec<ClaimName>,
    /// Claims of others that it knows to be expired.
    pub expired: Vec<ClaimName>,
    /// The slice that it would ask for next.
    pub step: Option<i64>,
}

/// Verdicts, as they were sent.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The number of the batch in this world.
    pub serial: usize,
    pub verdicts: Arc<Vec<SettleCommand>>,
}

/// A call, as it was sent.
#[derive(Clone, Debug)]
pub enum Sent {
    Claim(ClaimRequest),
    TakeOver(TakeOverRequest),
    Settle(Batch),
    Confirm(Vec<Whole>),
    Extend(i64, Vec<ClaimName>),
    Bury(i64, Vec<ClaimName>),
    /// A step of the sweep, and the number of failovers before it.
    Sweep(UpkeepRequest, u32),
}

/// The consumed parts of the daemons, mostly everything.
const CONSUMED: [(bool, bool); 5] = [(true, true), (true, true), (true, true), (true, false), (false, true)];

impl World<'_> {
    /// Starts a process; returns its index.
    pub fn start_daemon(&mut self, all: bool) -> usize {
        let exact = if self.mixed { self.rng.bool() } else { self.exact };
        let cleanup = if exact { ListCleanup::Exact } else { ListCleanup::Auto };
        let (delayed, ready) = if all { (true, true) } else { *self.rng.choice(&CONSUMED).expect("some") };
        let owner = self.rng.u64(..).to_be_bytes();
        let mut redisson = Redisson::new(NAME, owner, delayed, ready, cleanup).on_test_clock();
        if let Some(scripts) = self.scripts {
            redisson = redisson.with_scripts(scripts);
        }
        let store = RedisStore::new(self.rig.link.clone(), redisson.source().clone(), owner);
        self.daemons.push(Daemon {
            store,
            redisson,
            owner,
            cleanup,
            delayed,
            ready,
            next_number: 1,
            next_place: 1,
            hints: Hints::default(),
            held: BTreeMap::new(),
            lost: Vec::new(),
            adopting: None,
            in_transit: Vec::new(),
            sent: Vec::new(),
            unsure: Vec::new(),
            empty: Vec::new(),
            expired: Vec::new(),
            step: None,
        });
        self.daemons.len() - 1
    }

    /// Kills a process; another one takes its place.
    pub fn kill(&mut self, daemon: usize) {
        self.note(format!("{daemon} is killed"));
        let place = self.alive.iter().position(|d| *d == daemon).expect("a daemon that lives");
        let all = self.alive.iter().filter(|d| self.daemons[**d].delayed && self.daemons[**d].ready).count() < 2;
        self.alive[place] = self.start_daemon(all);
    }
}

impl Daemon {
    /// Whether it takes every claimed element out of L at once.
    pub fn exact(&self) -> bool {
        self.cleanup == ListCleanup::Exact
    }

    pub fn new_name(&mut self) -> ClaimName {
        self.next_number += 1;
        ClaimName::new(self.owner, self.next_number - 1)
    }
}
