//! A queue of Redisson passes the contract, on a real server and with no more rights than a daemon has.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::layout::{self, Layout};
use super::{ListCleanup, RedissonSource, SCRIPTS_ON_TEST_CLOCK};
use delaybridge_core::message::MessageId;
use delaybridge_ledger::RedisServer;
use delaybridge_ledger::store::{RedisReads, Store};
use delaybridge_ledger::{Activity, Ledger, Use};
use delaybridge_link::{KeySpace, Score, Side};
use delaybridge_testing::memory::MemoryRig;
use delaybridge_testing::store::on_redis::OnRedis;
use delaybridge_testing::store::servers::{Daemon, Servers};
use delaybridge_testing::store::walk::Walk;
use delaybridge_testing::store::{A, Places, Rig, Served, moving, older, replica, seeds};
use delaybridge_testing::store_contract_tests;

/// A queue on servers of its own, under the clock of the test.
struct RedissonRig {
    source: Arc<RedissonSource>,
    redis: OnRedis,
    /// With the rights of a daemon that delivers.
    daemon: Daemon,
    /// With the rights of a daemon that transfers overdue elements.
    rescuer: Daemon,
    _servers: Servers,
}

impl RedissonRig {
    async fn new() -> Self {
        RedissonRig::on(Servers::one()).await
    }

    async fn on(servers: Servers) -> Self {
        let source = Arc::new(
            RedissonSource::new(&KeySpace::default(), &servers.name("q"), true, true, ListCleanup::Auto)
                .on_test_clock(),
        );
        let ledger = Ledger::new(source.clone(), [A; 8]);
        let redis = OnRedis::new(&servers, ledger.keys.clone()).await;
        let rights = |side| {
            let usage =
                Use { trims_dead: true, forwards: true, in_order: true, push: Some((redis.list.clone(), side)) };
            ledger.rights(Activity::Deliver, &usage)
        };
        let scripts: Vec<_> = SCRIPTS_ON_TEST_CLOCK.all().into_iter().cloned().collect();
        // A queue pushes to one end of its list; the clauses do to both.
        let both = rights(Side::Left).into_iter().chain(rights(Side::Right));
        let daemon = servers.daemon("daemon", both, scripts.clone()).await;
        let rescuer = servers.daemon("rescuer", ledger.rights(Activity::Rescue, &Use::default()), scripts).await;
        RedissonRig { source, redis, daemon, rescuer, _servers: servers }
    }
}

impl Rig for RedissonRig {
    fn store(&self, owner: u8) -> Arc<dyn Store> {
        Arc::new(self.daemon.store(self.source.clone(), owner))
    }

    fn store_in_order(&self, owner: u8) -> Arc<dyn Store> {
        Arc::new(self.daemon.store(self.source.clone(), owner).in_order(true))
    }

    fn rescuer(&self) -> Arc<dyn Store> {
        Arc::new(self.rescuer.store(self.source.clone(), A))
    }

    fn server(&self) -> Arc<dyn RedisReads> {
        Arc::new(RedisServer::new(&self.daemon.redis))
    }

    fn list(&self) -> Bytes {
        self.redis.list.clone()
    }

    fn element(&self, id: MessageId, payload: &[u8]) -> Bytes {
        layout::pack(Layout::New, id, payload).into()
    }

    fn now_ms(&self) -> i64 {
        self.redis.now_ms
    }

    async fn advance(&mut self, by: Duration) {
        self.redis.advance(by).await;
    }

    async fn offer(&mut self, element: &Bytes, due_ms: i64) {
        let zset = self.source.keys.delayed.clone();
        let list = self.source.keys.list.clone();
        self.redis
            .run(redis::pipe().atomic().zadd(&zset[..], &element[..], due_ms).rpush(&list[..], &element[..]))
            .await;
    }

    async fn make_ready(&mut self, payload: &Bytes) {
        let ready = self.source.keys.ready.clone();
        self.redis.run(redis::pipe().rpush(&ready[..], &payload[..])).await;
    }

    async fn save(&mut self) {
        self.redis.save().await;
    }

    async fn fall_back(&mut self) {
        self.redis.fall_back().await;
    }

    async fn spoil_list(&mut self) {
        self.redis.spoil_list().await;
    }

    async fn add_lease(&mut self, name: &str, end_ms: i64) {
        self.redis.add_lease(name, end_ms).await;
    }

    async fn forget_leases(&mut self) {
        self.redis.forget_leases().await;
    }

    async fn add_waiting(&mut self, member: &Bytes, at_ms: i64) {
        self.redis.add_waiting(member, at_ms).await;
    }

    async fn places(&mut self) -> Places {
        let keys = &self.source.keys;
        Places {
            scheduled: self.redis.times(&keys.delayed).await,
            ready: self.redis.list(&keys.ready).await,
            ..self.redis.places(Score::ceil_ms).await
        }
    }
}

impl Served for RedissonRig {
    fn on(&mut self) -> &mut OnRedis {
        &mut self.redis
    }
}

mod the_contract {
    use super::*;

    store_contract_tests!(RedissonRig::new().await);
}

/// A script that opens a full Redis removes nothing by that: an element of another program may be empty.
#[tokio::test]
async fn no_opener_removes_an_element_of_no_bytes() {
    let mut rig = RedissonRig::new().await;
    let overdue_ms = rig.now_ms() - 60_000;
    let element = rig.element(MessageId([1; 8]), b"payload");
    rig.offer(&Bytes::new(), overdue_ms).await;
    rig.offer(&element, overdue_ms).await;
    let rescued = rig.rescuer().rescue(Duration::from_secs(1), &[element]).await.expect("a rescue");
    assert_eq!(rescued.moved, 1);
    let places = rig.places().await;
    assert_eq!(places.scheduled, [(overdue_ms, Bytes::new())]);
    assert_eq!(places.ready, [Bytes::from_static(b"payload")]);
}

#[tokio::test]
async fn calls_that_are_refused_while_a_slot_moves_change_nothing() {
    let servers = Servers::cluster().await;
    moving::slots_move(seeds(6), async |_| RedissonRig::on(servers.emptied().await).await).await;
}

#[tokio::test]
async fn what_was_confirmed_before_an_older_state_is_kept() {
    let servers = Servers::one();
    older::states_come_back(seeds(10), async |_| RedissonRig::on(servers.emptied().await).await).await;
}

#[tokio::test]
async fn a_call_that_is_forgotten_costs_no_element() {
    let servers = Servers::one();
    older::calls_are_forgotten(seeds(10), async |_| RedissonRig::on(servers.emptied().await).await).await;
}

#[tokio::test]
async fn what_a_replica_has_not_confirmed_is_not_delivered() {
    let servers = Servers::replicated();
    replica::claims_wait(seeds(3), async |_| RedissonRig::on(servers.emptied().await).await).await;
}

/// What the contract leaves open is the same too: the order within a claim, the places of members, every answer.
#[tokio::test]
async fn the_store_in_memory_does_step_by_step_what_redis_does() {
    for seed in 10..12 {
        let in_memory = walk_in_memory(seed);
        let mut rig = RedissonRig::new().await;
        let in_redis = Walk::new(&rig, seed).run(&mut rig, 150).await;
        let in_memory = in_memory.join().expect("the walk in memory ends");
        assert_eq!(in_memory.len(), in_redis.len());
        for (n, (memory, redis)) in in_memory.iter().zip(&in_redis).enumerate() {
            let before = &in_redis[n.saturating_sub(3)..n];
            assert_eq!(memory, redis, "memory left, Redis right, seed {seed}; before: {before:#?}");
        }
    }
}

/// Walks in memory, in a thread of its own because its time is paused.
fn walk_in_memory(seed: u64) -> std::thread::JoinHandle<Vec<String>> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let mut rig = MemoryRig::new();
            Walk::new(&rig, seed).run(&mut rig, 150).await
        })
    })
}
