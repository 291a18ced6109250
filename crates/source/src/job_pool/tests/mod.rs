//! A pool of jobs passes the contract, on a real server and with no more rights than a daemon has.

mod bodies;
mod layouts;
mod model;
mod rights;
mod status;
mod types;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::layout::{IdIn, Names, Place, Status, StatusAt, Wanted};
use super::record::Format;
use super::status::NOTE;
use super::{JobPool, JobPoolSpec, Preset, SCRIPTS_ON_TEST_CLOCK};
use delaybridge_core::message::MessageId;
use delaybridge_ledger::RedisServer;
use delaybridge_ledger::redis::RedisStore;
use delaybridge_ledger::score::Unit;
use delaybridge_ledger::store::{RedisReads, Store};
use delaybridge_ledger::{Activity, Bodies, Ledger, Source, Use};
use delaybridge_link::{Conn, Score, Side};
use delaybridge_testing::store::on_redis::OnRedis;
use delaybridge_testing::store::servers::{Daemon, Servers};
use delaybridge_testing::store::{A, Places, Rig, Served, moving, older, replica, seeds};
use delaybridge_testing::store_contract_tests;

/// A pool on servers of its own, under the clock of the test.
pub(super) struct PoolRig {
    source: Arc<JobPool>,
    pub(super) redis: OnRedis,
    /// With the rights of a daemon that delivers.
    daemon: Daemon,
    /// Bodies of the elements that were made, and are not offered yet.
    made: Mutex<HashMap<Bytes, Bytes>>,
    servers: Servers,
}

/// The pool of the contract: one bucket, one hash of jobs.
pub(super) fn plain() -> Preset {
    plain_at("pool")
}

/// The same with this hash tag.
fn plain_at(tag: &str) -> Preset {
    Preset {
        buckets: vec![format!("{{{tag}}}:bucket")],
        score: Unit::Millis,
        id: IdIn::Member,
        place: Place::Shared(format!("{{{tag}}}:jobs")),
        beside: None,
        also: Vec::new(),
        names: Names::Plain,
        record: Format::Raw,
        wanted: Wanted::default(),
        status: None,
    }
}

/// The statuses of Youzan's design, in this field of the record.
pub(super) fn states(field: &str) -> Status {
    let at = StatusAt::Record(field.to_owned());
    Status { at, reserved: "RESERVED".to_owned(), delay: "DELAY".to_owned() }
}

impl PoolRig {
    pub(super) async fn new(preset: Preset) -> Self {
        PoolRig::on(Servers::one(), preset, "{pool}:ready").await
    }

    async fn plain_on(servers: &Servers) -> Self {
        let tag = servers.name("pool");
        PoolRig::on(servers.emptied().await, plain_at(&tag), &format!("{{{tag}}}:ready")).await
    }

    async fn on(servers: Servers, preset: Preset, ready: &str) -> Self {
        let spec = JobPoolSpec { ready: vec![ready.to_owned()], ..JobPoolSpec::of(preset) };
        let source = Arc::new(JobPool::of(&spec).on_test_clock());
        let ledger = Ledger::new(source.clone(), [A; 8]);
        let redis = OnRedis::new(&servers, ledger.keys.clone()).await;
        let rights = |side| {
            let usage =
                Use { trims_dead: true, forwards: true, in_order: true, push: Some((redis.list.clone(), side)) };
            ledger.rights(Activity::Deliver, &usage)
        };
        let grants = rights(Side::Left)
            .into_iter()
            .chain(rights(Side::Right))
            .chain(ledger.rights(Activity::Operate, &Use::default()));
        let scripts = SCRIPTS_ON_TEST_CLOCK.all().into_iter().cloned().collect();
        let daemon = servers.daemon("daemon", grants, scripts).await;
        PoolRig { source, redis, daemon, made: Mutex::default(), servers }
    }

    /// The pool, as a process with this owner sees it.
    pub(super) fn redis(&self, owner: u8) -> RedisStore {
        self.daemon.store(self.source.clone(), owner)
    }

    pub(super) fn conn(&self) -> Conn {
        self.daemon.conn()
    }

    /// Writes a job, as its program does.
    pub(super) async fn put(&mut self, member: &Bytes, body: &[u8]) {
        let Some(at) = self.source.body_at(member) else { return };
        let mut pipe = redis::pipe();
        match at.field() {
            Some(field) => pipe.hset(&at.key()[..], &field[..], body),
            None => pipe.set(&at.key()[..], body),
        };
        self.redis.run(&pipe).await;
    }

    pub(super) async fn body(&mut self, member: &Bytes) -> Option<Bytes> {
        let at = self.source.body_at(member)?;
        let command = match at.field() {
            Some(field) => redis::Cmd::hget(&at.key()[..], &field[..]),
            None => redis::Cmd::get(&at.key()[..]),
        };
        command.query_async::<Option<Vec<u8>>>(&mut self.redis.admin).await.expect("a job").map(Bytes::from)
    }
}

impl Rig for PoolRig {
    fn store(&self, owner: u8) -> Arc<dyn Store> {
        Arc::new(self.redis(owner))
    }

    fn store_in_order(&self, owner: u8) -> Arc<dyn Store> {
        Arc::new(self.redis(owner).in_order(true))
    }

    fn rescuer(&self) -> Arc<dyn Store> {
        self.store(A)
    }

    fn transfers(&self) -> bool {
        false
    }

    fn list(&self) -> Bytes {
        self.redis.list.clone()
    }

    fn server(&self) -> Arc<dyn RedisReads> {
        Arc::new(RedisServer::new(&self.daemon.redis))
    }

    fn element(&self, id: MessageId, payload: &[u8]) -> Bytes {
        let member = Bytes::from(id.to_string());
        self.made.lock().insert(member.clone(), Bytes::copy_from_slice(payload));
        member
    }

    fn now_ms(&self) -> i64 {
        self.redis.now_ms
    }

    async fn advance(&mut self, by: Duration) {
        self.redis.advance(by).await;
    }

    async fn offer(&mut self, element: &Bytes, due_ms: i64) {
        let body = self.made.lock().get(element).cloned();
        if let Some(body) = body {
            self.put(element, &body).await;
        }
        let bucket = self.source.buckets[0].clone();
        self.redis.run(redis::pipe().zadd(&bucket[..], &element[..], due_ms)).await;
    }

    async fn make_ready(&mut self, payload: &Bytes) {
        self.put(payload, payload).await;
        let ready = self.source.ready[0].clone();
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
        let mut scheduled = Vec::new();
        for bucket in &self.source.buckets {
            scheduled.extend(self.redis.times(bucket).await);
        }
        let ready = self.redis.list(&self.source.ready[0]).await;
        Places { scheduled, ready, ..self.redis.places(Score::ceil_ms).await }
    }
}

impl Served for PoolRig {
    fn on(&mut self) -> &mut OnRedis {
        &mut self.redis
    }
}

#[tokio::test]
async fn calls_that_are_refused_while_a_slot_moves_change_nothing() {
    let servers = Servers::cluster().await;
    moving::slots_move(seeds(6), async |_| PoolRig::plain_on(&servers).await).await;
}

#[tokio::test]
async fn what_was_confirmed_before_an_older_state_is_kept() {
    let servers = Servers::one();
    older::states_come_back(seeds(10), async |_| PoolRig::plain_on(&servers).await).await;
}

#[tokio::test]
async fn what_a_replica_has_not_confirmed_is_not_delivered() {
    let servers = Servers::replicated();
    replica::claims_wait(seeds(3), async |_| PoolRig::plain_on(&servers).await).await;
}

/// Not here: what is of sources whose payload is in the member (its bytes in a claim), whose ready list has payloads without
/// ids, or whose clients are made up for.
mod the_contract {
    use super::*;

    store_contract_tests! { PoolRig::new(plain()).await, and
        claims::elements_are_claimed_in_the_order_of_their_due_times,
        claims::no_place_starves_another,
        reads::the_gauges_count_what_is_at_each_place,
        reads::the_gauges_tell_what_is_ahead,
    }
}
