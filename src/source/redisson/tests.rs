//! A queue of Redisson passes the contract, on a real server and with no more rights than a daemon has.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::ListCleanup;
use super::layout::{self, Layout};
use super::{RedissonSource, SCRIPTS_ON_TEST_CLOCK};
use crate::link::rights::command::LRANGE;
use crate::link::rights::{Grant, Pattern, to_connect, to_load_scripts};
use crate::link::test_server::{TestServer, soon};
use crate::link::{Link, LinkOptions, Side};
use crate::message::MessageId;
use crate::source::contract::on_redis::OnRedis;
use crate::source::contract::walk::Walk;
use crate::source::contract::{A, LIST, Places, Rig, contract_tests};
use crate::source::ledger::{Ledger, TEST_CLOCK, Use};
use crate::source::memory::tests::MemoryRig;
use crate::source::redis::{RedisServer, RedisStore};
use crate::source::store::{Server, Store};
use crate::source::{Activity, Score};

/// A queue on a server of its own, under the clock of the test.
struct RedissonRig {
    source: Arc<RedissonSource>,
    redis: OnRedis,
    /// With the rights of a daemon that delivers.
    daemon: Link,
    /// With the rights of a daemon that transfers overdue elements.
    rescuer: Link,
    _server: TestServer,
}

impl RedissonRig {
    async fn new() -> Self {
        let server = TestServer::start();
        let source = Arc::new(RedissonSource::new("q", true, true, ListCleanup::Auto).on_test_clock());
        let link = async |user, grants: Vec<Grant>| {
            let clock = Grant::on([Pattern::exact(TEST_CLOCK)], [LRANGE]);
            let grants: Vec<_> = grants.into_iter().chain([to_connect(0), to_load_scripts(), clock]).collect();
            let scripts = SCRIPTS_ON_TEST_CLOCK.all().into_iter().cloned().collect();
            let options = LinkOptions { scripts, heartbeat: Duration::from_secs(30), ..LinkOptions::default() };
            let link = Link::start(Arc::new(server.endpoint_within(user, &grants)), options);
            soon("a connection", link.ready()).await;
            link
        };
        let ledger = Ledger::new(source.clone(), [A; 8]);
        let rights = |side| {
            let usage = Use { trims_dead: true, forwards: true, in_order: true, push: Some((LIST, side)) };
            ledger.rights(Activity::Deliver, &usage)
        };
        // A queue pushes to one end of its list; the clauses do to both.
        let daemon = link("daemon", rights(Side::Left).into_iter().chain(rights(Side::Right)).collect()).await;
        let rescuer = link("rescuer", ledger.rights(Activity::Rescue, &Use::default())).await;
        let redis = OnRedis::new(&server, ledger.keys.clone()).await;
        RedissonRig { source, redis, daemon, rescuer, _server: server }
    }

    fn on(&self, link: &Link, owner: u8) -> Arc<dyn Store> {
        Arc::new(RedisStore::new(link.clone(), self.source.clone(), [owner; 8]))
    }
}

impl Rig for RedissonRig {
    fn store(&self, owner: u8) -> Arc<dyn Store> {
        self.on(&self.daemon, owner)
    }

    fn store_in_order(&self, owner: u8) -> Arc<dyn Store> {
        let source = self.source.clone();
        Arc::new(RedisStore::new(self.daemon.clone(), source, [owner; 8]).in_order(true))
    }

    fn rescuer(&self) -> Arc<dyn Store> {
        self.on(&self.rescuer, A)
    }

    fn server(&self) -> Arc<dyn Server> {
        Arc::new(RedisServer::new(self.daemon.clone()))
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
        let (zset, list) = (self.source.keys.delayed.clone(), self.source.keys.list.clone());
        self.redis
            .run(redis::pipe().atomic().zadd(&zset[..], &element[..], due_ms).rpush(&list[..], &element[..]))
            .await;
    }

    async fn make_ready(&mut self, payload: &Bytes) {
        let ready = self.source.keys.ready.clone();
        self.redis.run(redis::pipe().rpush(&ready[..], &payload[..])).await;
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

mod the_contract {
    use super::*;

    contract_tests!(RedissonRig::new().await);
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
