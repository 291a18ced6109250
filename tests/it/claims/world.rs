//! The world of one seed: Redis, the daemons with their beliefs, and the test's knowledge of every element.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use delaybridge_ledger::claims::ClaimName;
use delaybridge_source::redisson::{Keys, Scripts};

use super::daemon::Daemon;
use super::deletions::Older;
use super::list::{self, Treatment};
use super::operator::Order;
use super::rig::Rig;
use super::runner::{self, Trace};
use super::snapshot::{Names, Snapshot};
use harness::RedissonQueue;

/// The lease of all claims in this test.
pub const LEASE: Duration = Duration::from_secs(10);
pub const LEASE_MS: i64 = 10_000;
/// The name of the queue.
pub const NAME: &str = "orders";

/// The world of one seed.
pub struct World<'a> {
    pub rig: &'a mut Rig,
    pub rng: fastrand::Rng,
    pub now_us: i64,
    pub queue: RedissonQueue,
    pub keys: Keys,
    pub names: Names,
    /// The scripts under test, if they are not the library's own.
    pub scripts: Option<&'static Scripts>,
    pub daemons: Vec<Daemon>,
    /// The live daemons. Calls of the others may still arrive.
    pub alive: Vec<usize>,
    /// The content of Redis after the last step.
    pub seen: Snapshot,
    /// Entries of L without an element and without a record, which must not be touched.
    pub orphans: HashSet<Bytes>,
    /// Elements that were offered while L contained a copy: L has one more than the model can explain.
    pub doubled: HashSet<Bytes>,
    /// The ids that claims gave to ready elements, each of them once.
    pub given_ids: HashSet<[u8; 8]>,
    /// Claims and takeovers that took something, each of them once.
    pub ran: HashSet<ClaimName>,
    /// Batches of verdicts that were written.
    pub written: HashSet<usize>,
    pub batches: usize,
    /// The time until which each claim may run, in ms.
    pub not_after: HashMap<ClaimName, i64>,
    /// Claims whose leases were deleted: no call finds or touches them.
    pub stranded: BTreeSet<Bytes>,
    /// Names of a future version.
    pub newer: BTreeSet<Bytes>,
    /// Number of restorations of an older state of Redis.
    pub failovers: u32,
    pub older: Option<Older>,
    /// Whether Redis is full, except for others.
    pub full: bool,
    /// Whether elements are offered in small numbers.
    pub trickle: bool,
    /// Whether daemons with and without `list_cleanup: exact` are mixed.
    pub mixed: bool,
    pub exact: bool,
    /// The operator's calls.
    pub orders: Vec<Order>,
    pub trace: Trace,
    pub loud: bool,
}

impl<'a> World<'a> {
    /// Creates an empty queue and its daemons.
    pub async fn new(
        rig: &'a mut Rig,
        scripts: Option<&'static Scripts>,
        seed: u64,
        trace: Trace,
        loud: bool,
    ) -> World<'a> {
        let mut rng = fastrand::Rng::with_seed(seed);
        // The nonces of claims come from the thread's generator, and must be reproducible as well.
        fastrand::seed(seed);
        rig.run(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("0")).await;
        rig.run(&mut redis::cmd("FLUSHALL")).await;
        let queue = RedissonQueue::new(NAME);
        let mut world = World {
            now_us: 1_800_000_000_000_000 + rng.i64(0..1_000_000_000),
            mixed: rng.u8(..10) == 0,
            exact: rng.u8(..4) == 0,
            full: false,
            trickle: rng.u8(..4) == 0,
            rig,
            rng,
            names: Names::of(&queue.tag),
            keys: Keys::of(&Default::default(), NAME),
            queue,
            scripts,
            daemons: Vec::new(),
            alive: Vec::new(),
            seen: Snapshot::default(),
            orphans: HashSet::new(),
            doubled: HashSet::new(),
            given_ids: HashSet::new(),
            ran: HashSet::new(),
            written: HashSet::new(),
            batches: 0,
            not_after: HashMap::new(),
            stranded: BTreeSet::new(),
            newer: BTreeSet::new(),
            failovers: 0,
            older: None,
            orders: Vec::new(),
            trace,
            loud,
        };
        for n in 0..world.rng.usize(2..=3) {
            // The first takes everything, so that nothing waits for ever.
            let daemon = world.start_daemon(n == 0);
            world.alive.push(daemon);
        }
        world.advance(0).await;
        // A budget for LREM that is spent for ever: L is as expensive as with a million entries.
        if world.rng.u8(..3) > 0 {
            world.spend_budget().await;
        }
        world.full = world.rng.u8(..5) == 0;
        if world.full {
            world.limit_memory(true).await;
        }
        world.seen = world.look().await;
        world
    }

    /// Creates an empty queue and one daemon that takes everything, for steps chosen by a test.
    pub async fn directed(rig: &'a mut Rig, scripts: Option<&'static Scripts>) -> World<'a> {
        let mut world = World::new(rig, scripts, 0, Trace::default(), false).await;
        world.limit_memory(false).await;
        world.rig.run(redis::cmd("DEL").arg(&world.keys.sweep[..])).await;
        (world.full, world.exact, world.mixed, world.trickle) = (false, false, false, false);
        world.daemons.clear();
        let daemon = world.start_daemon(true);
        world.alive = vec![daemon];
        world.seen = world.look().await;
        world
    }

    /// Makes every `LREM` too expensive, so that elements away from both ends of L become ghosts.
    pub async fn spend_budget(&mut self) {
        let mut spent = redis::cmd("HSET");
        spent.arg(&self.keys.sweep[..]).arg("lrem_at").arg(9_000_000_000_000_000i64).arg("lrem_us").arg(0);
        self.rig.run(&mut spent).await;
        self.seen = self.look().await;
    }

    /// The clock, in ms.
    pub fn now(&self) -> i64 {
        self.now_us / 1000
    }

    /// Advances the clock.
    pub async fn advance(&mut self, us: i64) {
        self.now_us += us;
        if self.full {
            self.limit_memory(false).await;
        }
        self.rig.set_clock(self.now_us).await;
        if self.full {
            self.limit_memory(true).await;
        }
    }

    /// Makes Redis full or not. A full Redis refuses every addition that precedes a removal; others have free memory
    /// all the same.
    pub async fn limit_memory(&mut self, limited: bool) {
        self.rig.run(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(i32::from(limited))).await;
    }

    /// Reads all keys.
    pub async fn look(&mut self) -> Snapshot {
        Snapshot::read(&mut self.rig.redis, &self.keys, &self.names).await
    }

    pub fn note(&mut self, text: String) {
        runner::note(&self.trace, self.loud, format!("[{}] {text}", self.now()));
    }

    /// Reads all keys after a call of a daemon, and checks that no key of a claim is without a lease.
    async fn look_after(&mut self, what: &str) -> Snapshot {
        let after = self.look().await;
        for name in after.claims.keys() {
            let known = after.leases.contains_key(name) || self.stranded.contains(name);
            assert!(known, "{what}: claim {} has keys and no lease", String::from_utf8_lossy(name));
        }
        after
    }

    /// Checks that a call changed nothing.
    pub async fn unchanged(&mut self, what: &str) {
        let after = self.look_after(what).await;
        if let Some(difference) = self.seen.difference(&after) {
            panic!("{what} must change nothing, but changed {difference}");
        }
    }

    /// Reads the content of Redis after a claim, from which the expectation learns the claimed elements.
    pub async fn after_claim(&mut self, what: &str) -> Snapshot {
        self.look_after(what).await
    }

    /// Checks after a call that elements are exactly in their places, and that L lost nothing that it must keep.
    pub async fn settled_as(&mut self, what: &str, mut expected: Snapshot, taken: &[Bytes], how: Treatment) {
        let after = self.look_after(what).await;
        expected.tidy();
        // The ids in the stream are Redis's.
        for (mine, theirs) in expected.dead.iter_mut().zip(&after.dead) {
            mine.0.clone_from(&theirs.0);
        }
        if let Some(difference) = expected.difference_of_entries(&after) {
            panic!("{what}: {difference}");
        }
        list::check(what, &self.seen, &after, taken, how);
        self.seen = after;
    }

    /// The name as it is in Redis.
    pub fn text(name: ClaimName) -> Bytes {
        name.to_string().into()
    }
}
