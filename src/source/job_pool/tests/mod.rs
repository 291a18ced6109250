//! A pool of jobs passes the contract, on a real server and with no more rights than a daemon has.

mod bodies;
mod layouts;
mod model;
mod types;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::layout::{IdIn, Names, Place, Wanted};
use super::record::Format;
use super::{JobPool, JobPoolSpec, Preset, SCRIPTS_ON_TEST_CLOCK};
use crate::link::rights::command::LRANGE;
use crate::link::rights::{Grant, Pattern, to_connect, to_load_scripts};
use crate::link::test_server::{TestServer, soon};
use crate::link::{Link, LinkOptions, Side};
use crate::message::MessageId;
use crate::source::contract::{A, LIST, Parts, Places, Rig, contract_tests};
use crate::source::ledger::claims::ClaimName;
use crate::source::ledger::{DeadLetter, Ledger, TEST_CLOCK, Use};
use crate::source::redis::{RedisServer, RedisStore};
use crate::source::score::Unit;
use crate::source::store::{Server, Store};
use crate::source::{Activity, Source};

/// The server's time when a rig is made, in ms.
const START_MS: i64 = 1_800_000_000_000;

/// A pool on a server of its own, under the clock of the test.
pub(super) struct PoolRig {
    source: Arc<JobPool>,
    keys: crate::source::ledger::Keys,
    now_ms: i64,
    pub(super) admin: redis::aio::MultiplexedConnection,
    /// With the rights of a daemon that delivers.
    daemon: Link,
    /// Bodies of the elements that were made, and are not offered yet.
    made: Mutex<HashMap<Bytes, Bytes>>,
    _server: TestServer,
}

/// The pool of the contract: one bucket, one hash of jobs.
pub(super) fn plain() -> Preset {
    Preset {
        buckets: vec!["{pool}:bucket".to_owned()],
        score: Unit::Millis,
        id: IdIn::Member,
        place: Place::Shared("{pool}:jobs".to_owned()),
        beside: None,
        names: Names::Plain,
        record: Format::Raw,
        wanted: Wanted::default(),
    }
}

impl PoolRig {
    pub(super) async fn new(preset: Preset) -> Self {
        let server = TestServer::start();
        let spec = JobPoolSpec { ready: vec!["{pool}:ready".to_owned()], ..JobPoolSpec::of(preset) };
        let source = Arc::new(JobPool::of(&spec).on_test_clock());
        let ledger = Ledger::new(source.clone(), [A; 8]);
        let rights = |side| {
            let usage = Use { trims_dead: true, forwards: true, push: Some((LIST, side)) };
            ledger.rights(Activity::Deliver, &usage)
        };
        let clock = Grant::on([Pattern::exact(TEST_CLOCK)], [LRANGE]);
        let grants: Vec<_> = rights(Side::Left)
            .into_iter()
            .chain(rights(Side::Right))
            .chain(ledger.rights(Activity::Operate, &Use::default()))
            .chain([to_connect(0), to_load_scripts(), clock])
            .collect();
        let scripts = SCRIPTS_ON_TEST_CLOCK.all().into_iter().cloned().collect();
        let options = LinkOptions { scripts, heartbeat: Duration::from_secs(30), ..LinkOptions::default() };
        let daemon = Link::start(Arc::new(server.endpoint_within("daemon", &grants)), options);
        soon("a connection", daemon.ready()).await;
        let admin = server.admin().await;
        let keys = ledger.keys.clone();
        let made = Mutex::default();
        let mut rig = PoolRig { source, keys, now_ms: START_MS, admin, daemon, made, _server: server };
        rig.advance(Duration::ZERO).await;
        rig
    }

    /// The pool, as a process with this owner sees it.
    pub(super) fn redis(&self, owner: u8) -> RedisStore {
        RedisStore::new(self.daemon.clone(), self.source.clone(), [owner; 8])
    }

    pub(super) fn link(&self) -> &Link {
        &self.daemon
    }

    async fn claims(&mut self, keys: Vec<String>) -> BTreeMap<ClaimName, Parts> {
        let mut claims = BTreeMap::<_, Parts>::new();
        for key in keys {
            let fields: Vec<_> = key.split(':').collect();
            let parts = claims.entry(fields[2].parse().expect("the name of a claim")).or_default();
            let held: Members =
                redis::Cmd::zrange_withscores(&key, 0, -1).query_async(&mut self.admin).await.expect("a sorted set");
            *if fields[3] == "d" { &mut parts.bare } else { &mut parts.entries } = scores(held);
        }
        claims
    }

    pub(super) async fn run(&mut self, pipe: &redis::Pipeline) {
        pipe.exec_async(&mut self.admin).await.expect("the server takes it");
    }

    /// Writes a job, as its program does.
    pub(super) async fn put(&mut self, member: &Bytes, body: &[u8]) {
        let Some(at) = self.source.body_at(member) else { return };
        let mut pipe = redis::pipe();
        match at.field() {
            Some(field) => pipe.hset(&at.key()[..], &field[..], body),
            None => pipe.set(&at.key()[..], body),
        };
        self.run(&pipe).await;
    }

    /// The job of a member.
    pub(super) async fn body(&mut self, member: &Bytes) -> Option<Bytes> {
        let at = self.source.body_at(member)?;
        let command = match at.field() {
            Some(field) => redis::Cmd::hget(&at.key()[..], &field[..]),
            None => redis::Cmd::get(&at.key()[..]),
        };
        command.query_async::<Option<Vec<u8>>>(&mut self.admin).await.expect("a job").map(Bytes::from)
    }
}

impl Rig for PoolRig {
    fn store(&self, owner: u8) -> Arc<dyn Store> {
        Arc::new(self.redis(owner))
    }

    fn rescuer(&self) -> Arc<dyn Store> {
        self.store(A)
    }

    fn server(&self) -> Arc<dyn Server> {
        Arc::new(RedisServer::new(self.daemon.clone()))
    }

    fn element(&self, id: MessageId, payload: &[u8]) -> Bytes {
        let member = Bytes::from(id.to_string());
        self.made.lock().insert(member.clone(), Bytes::copy_from_slice(payload));
        member
    }

    fn now_ms(&self) -> i64 {
        self.now_ms
    }

    async fn advance(&mut self, by: Duration) {
        self.now_ms += by.as_millis() as i64;
        let time = [self.now_ms / 1_000, self.now_ms % 1_000 * 1_000];
        self.run(redis::pipe().atomic().del(TEST_CLOCK).rpush(TEST_CLOCK, &time)).await;
    }

    async fn offer(&mut self, element: &Bytes, due_ms: i64) {
        let body = self.made.lock().get(element).cloned();
        if let Some(body) = body {
            self.put(element, &body).await;
        }
        let bucket = self.source.buckets[0].clone();
        self.run(redis::pipe().zadd(&bucket[..], &element[..], due_ms)).await;
    }

    async fn make_ready(&mut self, payload: &Bytes) {
        self.put(payload, payload).await;
        let ready = self.source.ready[0].clone();
        self.run(redis::pipe().rpush(&ready[..], &payload[..])).await;
    }

    async fn spoil_list(&mut self) {
        self.run(redis::pipe().set(&LIST[..], "no list")).await;
    }

    async fn add_lease(&mut self, name: &str, end_ms: i64) {
        let leases = self.keys.leases.clone();
        self.run(redis::pipe().zadd(&leases[..], name, end_ms)).await;
    }

    async fn forget_leases(&mut self) {
        let leases = self.keys.leases.clone();
        self.run(redis::pipe().del(&leases[..])).await;
    }

    async fn add_waiting(&mut self, member: &Bytes, at_ms: i64) {
        let retry = self.keys.retry.clone();
        self.run(redis::pipe().zadd(&retry[..], &member[..], at_ms)).await;
    }

    async fn places(&mut self) -> Places {
        type Letters = Vec<(String, Vec<Vec<u8>>)>;
        let keys = self.keys.clone();
        let mut scheduled = Vec::new();
        for bucket in self.source.buckets.clone() {
            let held: Members =
                redis::Cmd::zrange_withscores(&bucket[..], 0, -1).query_async(&mut self.admin).await.expect("a bucket");
            scheduled.extend(scores(held));
        }
        let mut look = redis::pipe();
        look.atomic().lrange(&self.source.ready[0][..], 0, -1);
        look.zrange_withscores(&keys.leases[..], 0, -1).zrange_withscores(&keys.retry[..], 0, -1);
        look.xrange_all(&keys.dead[..]).keys("delaybridge:claim:*");
        let (ready, leases, waiting, dead, held): (Vec<Vec<u8>>, Members, Members, Letters, _) =
            look.query_async(&mut self.admin).await.expect("the server answers");
        // An error where a test has made it something else.
        let pushed: Vec<Vec<u8>> =
            redis::Cmd::lrange(&LIST[..], 0, -1).query_async(&mut self.admin).await.unwrap_or_default();
        let letter = |(stream_id, fields): (String, Vec<Vec<u8>>)| DeadLetter {
            stream_id,
            fields: fields
                .chunks(2)
                .map(|pair| (String::from_utf8_lossy(&pair[0]).into_owned(), pair[1].clone().into()))
                .collect(),
        };
        let text = |(end_ms, name): (i64, Bytes)| (end_ms, String::from_utf8_lossy(&name).into_owned());
        Places {
            scheduled,
            ready: ready.into_iter().map(Bytes::from).collect(),
            leases: scores(leases).into_iter().map(text).collect(),
            claims: self.claims(held).await,
            waiting: scores(waiting),
            dead: dead.into_iter().map(letter).collect(),
            pushed: pushed.into_iter().map(Bytes::from).collect(),
        }
    }
}

type Members = Vec<(Vec<u8>, f64)>;

/// Members as the contract looks at them.
fn scores(members: Members) -> Vec<(i64, Bytes)> {
    members.into_iter().map(|(member, at)| (at as i64, member.into())).collect()
}

/// Not here: what is of sources whose payload is in the member (its bytes in a claim), whose ready list has payloads without
/// ids, or whose clients are made up for.
mod the_contract {
    use super::*;

    contract_tests!(
        PoolRig::new(plain()).await,
        claims::nothing_is_claimed_before_its_due_time,
        claims::on_request_elements_are_claimed_ahead_of_their_due_times,
        claims::elements_are_claimed_in_the_order_of_their_due_times,
        claims::a_claim_takes_no_more_than_it_may,
        claims::a_late_claim_does_nothing,
        claims::a_claim_that_is_sent_twice_does_nothing_the_second_time,
        claims::no_place_starves_another,
        claims::a_claim_says_when_something_falls_due_next,
        claims::an_element_that_is_offered_again_falls_due_at_the_latest_time,
        claims::an_element_that_is_offered_while_in_flight_is_an_element_of_its_own,
        formats::a_claimed_element_is_what_was_written,
        formats::the_same_bytes_have_the_same_id_for_ever,
        formats::an_entry_of_a_newer_version_is_moved_on_by_a_minute,
        formats::an_entry_that_cannot_be_read_stays_in_its_claim,
        formats::a_name_of_a_newer_version_is_counted_and_left_alone,
        leases::a_claim_shows_the_names_of_some_expired_claims,
        leases::names_of_expired_claims_are_read_in_the_order_of_their_ends,
        leases::an_extended_lease_lasts_from_then_on,
        leases::a_late_verdict_counts_while_no_process_took_over,
        leases::what_a_claim_without_a_lease_holds_is_not_replaced,
        leases::elements_in_flight_are_counted_over_all_processes,
        lost::a_claim_with_a_lost_reply_is_found_by_its_name,
        lost::a_lost_claim_that_did_not_run_holds_nothing_and_runs_no_more,
        takeovers::a_whole_claim_is_taken_over,
        takeovers::a_takeover_takes_what_there_is_room_for_entries_first,
        takeovers::after_three_expiries_elements_are_taken_over_alone,
        takeovers::nothing_is_taken_over_from_a_claim_that_lives_or_is_gone_or_empty,
        takeovers::a_takeover_that_is_late_or_sent_twice_does_nothing,
        takeovers::who_lost_a_claim_can_do_nothing_to_it,
        confirmations::a_confirmed_claim_is_gone_with_all_that_was_in_it,
        confirmations::a_claim_is_confirmed_only_with_as_many_as_its_owner_knows,
        confirmations::a_confirmed_claim_keeps_its_name_until_it_is_buried,
        confirmations::a_claim_that_holds_something_is_not_buried,
        verdicts::an_element_is_always_in_exactly_one_place,
        verdicts::a_retry_is_due_after_its_delay_by_the_server_s_clock,
        verdicts::a_released_element_keeps_its_order,
        verdicts::progress_gives_an_element_a_header_and_the_lease_runs_on,
        verdicts::dead_letters_are_trimmed_when_one_is_added,
        verdicts::a_push_happens_once,
        verdicts::a_push_to_what_is_no_list_changes_nothing,
        verdicts::each_verdict_of_a_batch_has_its_answer,
        verdicts::verdicts_of_several_claims_are_written_together,
        verdicts::a_verdict_names_the_claim_and_the_part,
        verdicts::a_verdict_that_comes_again_after_the_next_claim_does_nothing,
        dead_letters::letters_are_read_from_either_end,
        dead_letters::one_process_at_a_time_forwards_letters,
        dead_letters::forwarded_letters_are_removed_whoever_says_so,
        reads::an_empty_queue_is_empty,
        reads::a_poll_finds_what_a_claim_would_take,
        reads::the_gauges_count_what_is_at_each_place,
        reads::scheduled_elements_are_read_in_due_order_from_any_place,
    );
}
