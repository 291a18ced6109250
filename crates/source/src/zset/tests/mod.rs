//! A sorted set passes the contract, on a real server and with no more rights than a daemon has; and a random walk of
//! producers, consumers without delaybridge, and daemons, in every unit.

mod planted;
mod walk;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::config::Body;
use super::{Naming, SCRIPTS_ON_TEST_CLOCK, ZsetSource, ZsetSpec};
use delaybridge_core::message::{MessageId, Origin};
use delaybridge_core::template::Template;
use delaybridge_ledger::RedisServer;
use delaybridge_ledger::claims::{ClaimReply, ClaimRequest, Header};
use delaybridge_ledger::score::Unit;
use delaybridge_ledger::store::{RedisReads, Store};
use delaybridge_ledger::{Activity, Ledger, Look, LookAt, LookPart, Source, Use};
use delaybridge_link::{Score, Side};
use delaybridge_settings::words::Words as _;
use delaybridge_testing::store::on_redis::OnRedis;
use delaybridge_testing::store::servers::{Daemon, Servers};
use delaybridge_testing::store::{A, Places, Rig, Served, moving, older, reads, replica, request, seeds};
use delaybridge_testing::store_contract_tests;

/// A set under the clock of the test.
struct ZsetRig {
    source: Arc<ZsetSource>,
    redis: OnRedis,
    /// With the rights of a daemon that delivers.
    daemon: Daemon,
    _servers: Servers,
}

impl ZsetRig {
    async fn new() -> Self {
        let template = |text| Template::compile(text).expect("a template");
        let naming = Naming::Text(template("${payload.id}"));
        ZsetRig::of("a{q}b", Unit::Seconds, naming, Body::Text(template("${payload.text}")), Servers::one()).await
    }

    async fn of(key: &str, score: Unit, id: Naming, body: Body, servers: Servers) -> Self {
        let spec = ZsetSpec { key: key.to_owned(), score, id, body, bytes: None, space: Default::default() };
        let source = Arc::new(ZsetSource::of(&spec).on_test_clock());
        let ledger = Ledger::new(source.clone(), [A; 8]);
        let redis = OnRedis::new(&servers, ledger.keys.clone()).await;
        let rights = |side| {
            let usage =
                Use { trims_dead: true, forwards: true, in_order: true, push: Some((redis.list.clone(), side)) };
            ledger.rights(Activity::Deliver, &usage)
        };
        let both = rights(Side::Left).into_iter().chain(rights(Side::Right));
        let scripts = SCRIPTS_ON_TEST_CLOCK.all().into_iter().cloned().collect();
        let daemon = servers.daemon(&format!("daemon{}", fastrand::u64(..)), both, scripts).await;
        ZsetRig { source, redis, daemon, _servers: servers }
    }

    /// A set of members in the unit of this seed, on emptied servers.
    async fn seeded(servers: &Servers, seed: u64) -> Self {
        let (_, unit) = Unit::VALUES[seed as usize % Unit::VALUES.len()];
        ZsetRig::of(&servers.name("q"), unit, Naming::Hash, Body::Member, servers.emptied().await).await
    }

    async fn zadd(&mut self, score: &str, member: &Bytes) {
        let zset = self.source.keys.zset.clone();
        self.redis.run(redis::pipe().cmd("ZADD").arg(&zset[..]).arg(score).arg(&member[..])).await;
    }
}

impl Rig for ZsetRig {
    fn store(&self, owner: u8) -> Arc<dyn Store> {
        Arc::new(self.daemon.store(self.source.clone(), owner))
    }

    fn store_in_order(&self, owner: u8) -> Arc<dyn Store> {
        Arc::new(self.daemon.store(self.source.clone(), owner).in_order(true))
    }

    fn rescuer(&self) -> Arc<dyn Store> {
        unreachable!("a set has no clients that transfer")
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
        let text = std::str::from_utf8(payload).expect("a payload that is text");
        serde_json::json!({ "id": id.to_string(), "text": text }).to_string().into()
    }

    fn now_ms(&self) -> i64 {
        self.redis.now_ms
    }

    async fn advance(&mut self, by: Duration) {
        self.redis.advance(by).await;
    }

    async fn offer(&mut self, element: &Bytes, due_ms: i64) {
        let score = self.source.unit().until(due_ms).to_string();
        self.zadd(&score, element).await;
    }

    /// A set has no ready list. What has a header here is what waits for a retry.
    async fn make_ready(&mut self, payload: &Bytes) {
        let given = self.source.id_from_score(self.source.unit().until(self.now_ms()));
        let header = Header::redriven(Origin::Delayed, given, self.now_ms(), Vec::new());
        let member = [&header.encode()[..], payload].concat();
        self.add_waiting(&member.into(), self.now_ms()).await;
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
        let source = self.source.clone();
        let due = |(member, score): (Bytes, Score)| (source.unit().due_ms(score), member);
        let scheduled = self.redis.scores(&source.keys.zset).await.into_iter().map(due).collect();
        Places { scheduled, ..self.redis.places(|score| source.unit().due_ms(score)).await }
    }
}

impl Served for ZsetRig {
    fn on(&mut self) -> &mut OnRedis {
        &mut self.redis
    }
}

/// All clauses but those about ready lists, about clients of the source that transfer, and one that counts bytes: members are JSON here.
mod the_contract {
    use super::*;

    store_contract_tests! { ZsetRig::new().await, and
        takeovers::a_takeover_takes_no_more_bytes_than_it_may_but_always_one_element,
    }
}

#[tokio::test]
async fn a_queue_that_may_not_be_read_hides_no_other() {
    let mut rig = ZsetRig::new().await;
    let look = rig.store(A).look();
    let anothers = Look { schedules: vec!["another's".into()], ..look.clone() };
    let (server, now_ms) = (rig.server(), rig.now_ms());
    let looks = [&look, &anothers, &look].map(|look| LookAt { look, part: LookPart::All, now_ms, until_ms: now_ms });
    let found = server.look(&looks).await.expect("the server reads");
    assert_eq!(found, [Some(false), Some(true), Some(false)], "a claim reports it");
    rig.zadd("1", &Bytes::from_static(b"due")).await;
    assert_eq!(server.look(&looks).await.expect("the server reads"), [Some(true); 3]);
}

#[tokio::test]
async fn calls_that_are_refused_while_a_slot_moves_change_nothing() {
    let servers = Servers::cluster().await;
    moving::slots_move(seeds(6), async |seed| ZsetRig::seeded(&servers, seed).await).await;
}

#[tokio::test]
async fn what_was_confirmed_before_an_older_state_is_kept() {
    let servers = Servers::one();
    older::states_come_back(seeds(10), async |seed| ZsetRig::seeded(&servers, seed).await).await;
}

#[tokio::test]
async fn what_a_replica_has_not_confirmed_is_not_delivered() {
    let servers = Servers::replicated();
    replica::claims_wait(seeds(3), async |seed| ZsetRig::seeded(&servers, seed).await).await;
}

/// Redis 7.2 and newer, and Valkey, wait for what a connection has written; before, for all that the server had.
#[tokio::test]
async fn a_claim_that_is_found_waits_for_the_replica_on_every_server() {
    let cached = |version| brokers::redis_server(version).expect("make setup has it");
    for program in
        [PathBuf::from("redis-server"), cached("redis-8.2.3"), cached("valkey-8.1.8"), cached("valkey-9.1.2")]
    {
        let servers = Servers::replicated_by(&program);
        let rig = ZsetRig::seeded(&servers, 0).await;
        let hasty = Daemon { durable: None, ..rig.daemon.clone() }.store(rig.source.clone(), A);
        replica::a_claim_that_is_found_by_its_name_waits_for_the_replica(&servers, rig, Arc::new(hasty)).await;
    }
}

#[tokio::test]
async fn the_gauges_tell_what_is_ahead_in_every_unit() {
    let servers = Servers::one();
    for (at, (_, unit)) in Unit::VALUES.iter().copied().enumerate() {
        reads::the_gauges_tell_what_is_ahead(
            ZsetRig::of(&format!("a{at}"), unit, Naming::Hash, Body::Member, servers.clone()).await,
        )
        .await;
    }
}

/// Reading a large head costs time. A claim that left one says when it is due, and the next does not read it.
#[tokio::test]
async fn a_large_head_is_found_by_its_score_in_every_unit() {
    let servers = Servers::one();
    for (at, (word, unit)) in Unit::VALUES.iter().copied().enumerate() {
        let mut rig = ZsetRig::of(&format!("l{at}"), unit, Naming::Hash, Body::Member, servers.clone()).await;
        rig.offer(&vec![b'x'; 100_000].into(), rig.now_ms() + 5_000).await;
        rig.offer(&Bytes::from_static(b"small"), rig.now_ms()).await;
        let store = rig.store(A);
        let mut hints = Default::default();
        for number in 1..4 {
            let request = ClaimRequest { hints, ..request(A, number) };
            let ClaimReply::Claimed(claimed) = store.claim(&request).await.expect("the server claims") else {
                panic!("{word}: no claim")
            };
            assert_eq!(claimed.elements.len(), usize::from(number == 1), "{word}");
            let next_ms = claimed.next_ms.expect("something is due");
            assert!((rig.now_ms() + 4_999..=rig.now_ms() + 5_001).contains(&next_ms), "{word} {number}: {next_ms}");
            hints = claimed.hints;
        }
        rig.advance(Duration::from_secs(5)).await;
        let ClaimReply::Claimed(claimed) =
            store.claim(&ClaimRequest { hints, ..request(A, 9) }).await.expect("the server claims")
        else {
            panic!("{word}: no claim")
        };
        assert_eq!(claimed.elements.len(), 1, "{word}");
    }
}
