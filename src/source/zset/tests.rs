//! A sorted set passes the contract, on a real server and with no more rights than a daemon has; and a random walk of
//! producers, consumers without delaybridge, and daemons, in every unit.

mod planted;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::config::Body;
use super::{Naming, SCRIPTS_ON_TEST_CLOCK, ZsetSource, ZsetSpec};
use crate::link::rights::command::LRANGE;
use crate::link::rights::{Grant, Pattern, to_connect, to_load_scripts};
use crate::link::test_server::{TestServer, soon};
use crate::link::{Link, LinkOptions, Side};
use crate::message::{MessageId, Origin};
use crate::source::contract::{A, LIST, Mine, Parts, Places, Rig, contract_tests, request, settle_one, takeover};
use crate::source::ledger::claims::{
    Buried, ClaimName, ClaimReply, ClaimRequest, Confirm, Element, Header, Move, TakeOverReply, TakeOverRequest, Whole,
};
use crate::source::ledger::{Answer, DeadLetter, Ledger, TEST_CLOCK, Use};
use crate::source::redis::{RedisServer, RedisStore};
use crate::source::score::Unit;
use crate::source::store::{Server, Store};
use crate::source::{Activity, Score, Source};
use crate::template::Template;

const START_MS: i64 = 1_800_000_000_000;

/// A set on a server of its own, under the clock of the test.
struct ZsetRig {
    source: Arc<ZsetSource>,
    ledger: Ledger,
    now_ms: i64,
    admin: redis::aio::MultiplexedConnection,
    /// With the rights of a daemon that delivers.
    daemon: Link,
    _server: Arc<TestServer>,
}

impl ZsetRig {
    async fn new() -> Self {
        let template = |text| Template::compile(text).expect("a template");
        let naming = Naming::Text(template("${payload.id}"));
        ZsetRig::of("a{q}b", Unit::Seconds, naming, Body::Text(template("${payload.text}")), None).await
    }

    async fn of(key: &str, score: Unit, id: Naming, body: Body, server: Option<Arc<TestServer>>) -> Self {
        let server = server.unwrap_or_else(|| Arc::new(TestServer::start()));
        let spec = ZsetSpec { key: key.to_owned(), score, id, body, database: 0 };
        let source = Arc::new(ZsetSource::of(&spec).on_test_clock());
        let ledger = Ledger::new(source.clone(), [A; 8]);
        let rights = |side| {
            let usage = Use { trims_dead: true, forwards: true, push: Some((LIST, side)) };
            ledger.rights(Activity::Deliver, &usage)
        };
        let clock = Grant::on([Pattern::exact(TEST_CLOCK)], [LRANGE]);
        let grants: Vec<_> = rights(Side::Left)
            .into_iter()
            .chain(rights(Side::Right))
            .chain([to_connect(0), to_load_scripts(), clock])
            .collect();
        let scripts = SCRIPTS_ON_TEST_CLOCK.ledger.all().into_iter().cloned().collect();
        let options = LinkOptions { scripts, heartbeat: Duration::from_secs(30), ..LinkOptions::default() };
        let user = format!("daemon{}", fastrand::u64(..));
        let daemon = Link::start(Arc::new(server.endpoint_within(&user, &grants)), options);
        soon("a connection", daemon.ready()).await;
        let admin = server.admin().await;
        let mut rig = ZsetRig { source, ledger, now_ms: START_MS, admin, daemon, _server: server };
        rig.advance(Duration::ZERO).await;
        rig
    }

    async fn run(&mut self, pipe: &redis::Pipeline) {
        pipe.exec_async(&mut self.admin).await.expect("the server takes it");
    }

    async fn zadd(&mut self, score: &str, member: &Bytes) {
        let zset = self.source.keys.zset.clone();
        self.run(redis::pipe().cmd("ZADD").arg(&zset[..]).arg(score).arg(&member[..])).await;
    }

    /// Members with their scores as Redis writes them.
    async fn raw(&mut self, key: &[u8]) -> Vec<(Bytes, Score)> {
        let mut command = redis::cmd("ZRANGE");
        command.arg(key).arg(0).arg(-1).arg("WITHSCORES");
        let flat: Vec<Vec<u8>> = command.query_async(&mut self.admin).await.expect("a sorted set");
        let score = |text: &[u8]| std::str::from_utf8(text).ok().and_then(Score::parse).expect("a score");
        flat.chunks(2).map(|pair| (pair[0].clone().into(), score(&pair[1]))).collect()
    }

    /// The keys of claims of this queue.
    async fn claim_keys(&mut self) -> Vec<String> {
        let pattern = format!("delaybridge:claim:*:{}", self.source.keys.tag);
        let escaped = pattern.replace('[', "\\[");
        redis::cmd("KEYS").arg(escaped).query_async(&mut self.admin).await.expect("the server answers")
    }
}

impl Rig for ZsetRig {
    fn store(&self, owner: u8) -> Arc<dyn Store> {
        Arc::new(RedisStore::new(self.daemon.clone(), self.source.clone(), [owner; 8]))
    }

    fn rescuer(&self) -> Arc<dyn Store> {
        unreachable!("a set has no clients that transfer")
    }

    fn server(&self) -> Arc<dyn Server> {
        Arc::new(RedisServer::new(self.daemon.clone()))
    }

    fn element(&self, id: MessageId, payload: &[u8]) -> Bytes {
        let text = std::str::from_utf8(payload).expect("a payload that is text");
        serde_json::json!({ "id": id.to_string(), "text": text }).to_string().into()
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
        let score = self.source.until(due_ms).to_string();
        self.zadd(&score, element).await;
    }

    /// A set has no ready list. What has a header here is what waits for a retry.
    async fn make_ready(&mut self, payload: &Bytes) {
        let given = self.source.given(self.source.until(self.now_ms));
        let header = Header::redriven(Origin::Delayed, given, self.now_ms, Vec::new());
        let member = [&header.encode()[..], payload].concat();
        self.add_waiting(&member.into(), self.now_ms).await;
    }

    async fn spoil_list(&mut self) {
        self.run(redis::pipe().set(&LIST[..], "no list")).await;
    }

    async fn add_lease(&mut self, name: &str, end_ms: i64) {
        let leases = self.ledger.keys.leases.clone();
        self.run(redis::pipe().zadd(&leases[..], name, end_ms)).await;
    }

    async fn forget_leases(&mut self) {
        let leases = self.ledger.keys.leases.clone();
        self.run(redis::pipe().del(&leases[..])).await;
    }

    async fn add_waiting(&mut self, member: &Bytes, at_ms: i64) {
        let retry = self.ledger.keys.retry.clone();
        self.run(redis::pipe().zadd(&retry[..], &member[..], at_ms)).await;
    }

    async fn places(&mut self) -> Places {
        let ms = |members: Vec<(Bytes, Score)>| -> Vec<(i64, Bytes)> {
            members.into_iter().map(|(member, score)| (score.ceil_ms(), member)).collect()
        };
        let (zset, source) = (self.source.keys.zset.clone(), self.source.clone());
        let due = |members: Vec<(Bytes, Score)>| -> Vec<(i64, Bytes)> {
            members.into_iter().map(|(member, score)| (source.due_ms(score), member)).collect()
        };
        let (leases, retry, dead) =
            (self.ledger.keys.leases.clone(), self.ledger.keys.retry.clone(), self.ledger.keys.dead.clone());
        let mut claims = BTreeMap::<ClaimName, Parts>::new();
        for key in self.claim_keys().await {
            let fields: Vec<_> = key.splitn(5, ':').collect();
            let held = self.raw(key.as_bytes()).await;
            let parts = claims.entry(fields[2].parse().expect("the name of a claim")).or_default();
            if fields[3] == "d" { parts.bare = due(held) } else { parts.entries = ms(held) }
        }
        let letters: Vec<(String, Vec<Vec<u8>>)> =
            redis::Cmd::xrange_all(&dead[..]).query_async(&mut self.admin).await.expect("a stream");
        let letter = |(stream_id, fields): (String, Vec<Vec<u8>>)| DeadLetter {
            stream_id,
            fields: fields
                .chunks(2)
                .map(|pair| (String::from_utf8_lossy(&pair[0]).into_owned(), pair[1].clone().into()))
                .collect(),
        };
        // An error where a test has made it something else.
        let pushed: Vec<Vec<u8>> =
            redis::Cmd::lrange(&LIST[..], 0, -1).query_async(&mut self.admin).await.unwrap_or_default();
        let name = |(end_ms, name): (i64, Bytes)| (end_ms, String::from_utf8_lossy(&name).into_owned());
        Places {
            scheduled: due(self.raw(&zset).await),
            ready: Vec::new(),
            leases: ms(self.raw(&leases).await).into_iter().map(name).collect(),
            claims,
            waiting: ms(self.raw(&retry).await),
            dead: letters.into_iter().map(letter).collect(),
            pushed: pushed.into_iter().map(Bytes::from).collect(),
        }
    }
}

/// All clauses but those about ready lists, about clients of the source that transfer, and one that counts bytes: members are JSON here.
mod the_contract {
    use super::*;

    contract_tests! { ZsetRig::new().await,
        claims::nothing_is_claimed_before_its_due_time,
        claims::on_request_elements_are_claimed_ahead_of_their_due_times,
        claims::a_claim_takes_no_more_than_it_may,
        claims::a_late_claim_does_nothing,
        claims::a_claim_that_is_sent_twice_does_nothing_the_second_time,
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
        takeovers::a_takeover_takes_no_more_bytes_than_it_may_but_always_one_element,
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
        reads::scheduled_elements_are_read_in_due_order_from_any_place,
    }
}

/// Random schedules in every unit: `DELAYBRIDGE_SEED=7` runs one, `DELAYBRIDGE_SEEDS=3000` more than usual.
#[tokio::test]
async fn whoever_takes_an_element_it_is_in_exactly_one_place() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("DELAYBRIDGE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("DELAYBRIDGE_SEEDS").unwrap_or(300),
    };
    let server = Arc::new(TestServer::start());
    for seed in seeds {
        let (_, unit) = Unit::ALL[seed as usize % Unit::ALL.len()];
        let mut rig = ZsetRig::of(&format!("q{seed}"), unit, Naming::Hash, Body::Member, Some(server.clone())).await;
        World::new(seed, unit).run(&mut rig, 40).await;
    }
}

/// What the consumers without delaybridge do: the usual script.
const POP: &str = "local first = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 1)\n\
    if first[1] then redis.call('ZREM', KEYS[1], first[1]) end return first[1] or ''";

struct World {
    seed: u64,
    unit: Unit,
    rng: fastrand::Rng,
    /// What producers wrote: the score of each member, and the first millisecond at which it may be delivered.
    offered: HashMap<Bytes, (Score, i64)>,
    /// What left: consumed by others, confirmed.
    gone: HashSet<Bytes>,
    claims: Vec<ClaimRequest>,
    takeovers: Vec<TakeOverRequest>,
    claimed: Vec<Mine>,
    last: Option<(Mine, Move)>,
    log: Vec<String>,
}

impl World {
    fn new(seed: u64, unit: Unit) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        let (offered, gone) = (HashMap::new(), HashSet::new());
        let (claims, takeovers, claimed) = (Vec::new(), Vec::new(), Vec::new());
        World { seed, unit, rng, offered, gone, claims, takeovers, claimed, last: None, log: Vec::new() }
    }

    async fn run(&mut self, rig: &mut ZsetRig, steps: usize) {
        for step in 0..steps {
            let what = match self.rng.u8(0..20) {
                0..5 => self.offer(rig, step).await,
                5 => self.zrem(rig).await,
                6 => self.pop(rig).await,
                7..10 => self.claim(rig).await,
                10 => self.claim_again(rig).await,
                11..15 => self.settle(rig).await,
                15 => self.settle_again(rig).await,
                16 => self.take_over(rig).await,
                17 => self.confirm(rig).await,
                _ => {
                    let by = [1, 40, 300, 11_000][self.rng.usize(0..4)];
                    rig.advance(Duration::from_millis(by)).await;
                    format!("{by} ms later")
                }
            };
            self.log.push(what);
            self.check(rig).await;
        }
    }

    /// As a producer writes it: rounded by Redis alone.
    fn written(&mut self, micros: i64) -> String {
        match self.unit {
            Unit::Seconds => format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000),
            Unit::Millis => format!("{}.{:03}", micros / 1_000, micros % 1_000),
            Unit::Micros => micros.to_string(),
            Unit::Nanos => format!("{micros}000"),
            // With a counter, and no fraction.
            Unit::Millis4096 => ((micros + 999) / 1_000 * 4_096 + self.rng.i64(0..4_096)).to_string(),
        }
    }

    async fn offer(&mut self, rig: &mut ZsetRig, step: usize) -> String {
        let micros = (rig.now_ms + self.rng.i64(-300..700)) * 1_000 - [0, 0, 1, 400, 999][self.rng.usize(0..5)];
        let written = self.written(micros);
        let member = Bytes::from(format!("element {step}"));
        rig.zadd(&written, &member).await;
        let due_ms = (micros + 999).div_euclid(1_000);
        self.offered.insert(member, (Score::parse(&written).expect("a score"), due_ms));
        format!("offer {step} at {written}")
    }

    /// The loop of a consumer: read, then remove; whoever removes has it. Between the two, others work.
    async fn zrem(&mut self, rig: &mut ZsetRig) -> String {
        let (key, until) = (rig.source.keys.zset.clone(), rig.source.until(rig.now_ms));
        let mut look = redis::cmd("ZRANGEBYSCORE");
        look.arg(&key[..]).arg("-inf").arg(until).arg("LIMIT").arg(0).arg(1);
        let found: Vec<Vec<u8>> = look.query_async(&mut rig.admin).await.expect("the server answers");
        let Some(member) = found.into_iter().next().map(Bytes::from) else { return "nothing to remove".to_owned() };
        let between = if self.rng.bool() { self.claim(rig).await } else { String::new() };
        let removed: i64 = redis::cmd("ZREM")
            .arg(&key[..])
            .arg(&member[..])
            .query_async(&mut rig.admin)
            .await
            .expect("the server answers");
        if removed == 1 {
            self.gone.insert(member.clone());
        }
        format!("read {member:?}, {between}, removed {removed}")
    }

    async fn pop(&mut self, rig: &mut ZsetRig) -> String {
        let (key, until) = (rig.source.keys.zset.clone(), rig.source.until(rig.now_ms));
        let popped: Vec<u8> = redis::cmd("EVAL")
            .arg(POP)
            .arg(1)
            .arg(&key[..])
            .arg(until)
            .query_async(&mut rig.admin)
            .await
            .expect("the server answers");
        let popped = Bytes::from(popped);
        if !popped.is_empty() {
            self.gone.insert(popped.clone());
        }
        format!("popped {popped:?}")
    }

    async fn claim(&mut self, rig: &mut ZsetRig) -> String {
        let number = (self.claims.len() + self.takeovers.len()) as u64 + 1;
        let request = ClaimRequest {
            most: self.rng.usize(1..7),
            not_after_ms: rig.now_ms + self.rng.i64(-1..10),
            rotation: self.rng.u64(0..12),
            ..request(self.rng.u8(1..=3), number)
        };
        self.claims.push(request.clone());
        self.send(rig, request).await
    }

    async fn claim_again(&mut self, rig: &mut ZsetRig) -> String {
        match self.rng.choice(&self.claims).cloned() {
            Some(request) => format!("again {}", self.send(rig, request).await),
            None => "no claim".to_owned(),
        }
    }

    async fn send(&mut self, rig: &mut ZsetRig, request: ClaimRequest) -> String {
        let store = rig.store(request.name.owner[0]);
        let elements = match store.claim(&request).await.expect("the server claims") {
            ClaimReply::Late { .. } => return format!("{} late", request.name),
            ClaimReply::Twice { .. } => return format!("{} twice", request.name),
            // The reply is lost: what it took is found by its name.
            ClaimReply::Claimed(_) if self.rng.u8(0..4) == 0 => {
                store.contents(request.name).await.expect("the server reads").elements
            }
            ClaimReply::Claimed(claimed) => claimed.elements,
        };
        self.take(rig, request.name, elements)
    }

    /// Elements that a process has: at the right time, with the score that their producer wrote.
    fn take(&mut self, rig: &ZsetRig, name: ClaimName, elements: Vec<Element>) -> String {
        for element in &elements {
            let (score, due_ms) = self.offered[&element.bytes()];
            assert!(due_ms <= rig.now_ms, "{}", self.history(&format!("early: {element:?}, due at {due_ms}")));
            assert_eq!(element.due_ms(), Some(due_ms), "{}", self.history("another due time"));
            assert_eq!(Score::from_bytes(element.given_id().0), Some(score), "{}", self.history("another score"));
        }
        let words = format!("{name} has {}", elements.len());
        self.claimed.extend(Mine::all(name, elements));
        words
    }

    async fn settle(&mut self, rig: &mut ZsetRig) -> String {
        let oldest = self.claimed.len().saturating_sub(4);
        let Some(mine) = self.rng.choice(&self.claimed[oldest..]).cloned() else { return "nothing".to_owned() };
        let step = match self.rng.u8(0..7) {
            0 => Move::Confirm,
            1 | 2 => mine.retry(Duration::from_millis(self.rng.u64(0..400))),
            3 | 4 => mine.release(),
            5 => mine.dead(),
            _ => mine.progress(self.rng.u64(0..3)),
        };
        self.last = Some((mine.clone(), step.clone()));
        self.write(rig, mine, step).await
    }

    async fn settle_again(&mut self, rig: &mut ZsetRig) -> String {
        match self.last.clone() {
            Some((mine, step)) => format!("again {}", self.write(rig, mine, step).await),
            None => "nothing".to_owned(),
        }
    }

    async fn write(&mut self, rig: &mut ZsetRig, mine: Mine, step: Move) -> String {
        let answer = settle_one(rig, &mine, step.clone()).await;
        if answer == Answer::Done {
            match &step {
                Move::Confirm => drop(self.gone.insert(mine.element.bytes())),
                Move::Progress { header } => {
                    let noted = Element::entry(mine.element.under(header), mine.element.score_ms).expect("an entry");
                    self.claimed.push(Mine { element: noted, ..mine.clone() });
                }
                _ => {}
            }
        }
        format!("{} of {:?}: {answer:?}", mine.name, mine.element.bytes())
    }

    async fn take_over(&mut self, rig: &mut ZsetRig) -> String {
        let (expired, _) = rig.store(A).expired(rig.now_ms, 20).await.expect("the server reads");
        let Some(old) = self.rng.choice(&expired).copied() else { return "nothing expired".to_owned() };
        let number = (self.claims.len() + self.takeovers.len()) as u64 + 1;
        let owner = self.rng.u8(1..=3);
        let new = takeover(old, owner, number).new;
        let most = if new.is_suspect() { 1 } else { self.rng.usize(1..5) };
        let request = TakeOverRequest { new, most, ..takeover(old, owner, number) };
        self.takeovers.push(request.clone());
        match rig.store(owner).take_over(&request).await.expect("the server answers") {
            TakeOverReply::Taken { elements, .. } => self.take(rig, new, elements),
            other => format!("{other:?}"),
        }
    }

    async fn confirm(&mut self, rig: &mut ZsetRig) -> String {
        let Some(name) = self.rng.choice(&self.claims).map(|claim| claim.name) else { return "no claim".to_owned() };
        let held = rig.places().await.held(name);
        let whole = Whole { name, bare: held.bare.len(), entries: held.entries.len() };
        let answer = rig.store(A).confirm(Confirm::Counted, &[whole]).await.expect("the server answers");
        let inside = |(_, member): &(i64, Bytes)| Element::entry(member.clone(), 0).expect("an entry").bytes();
        self.gone.extend(held.bare.iter().map(|(_, member)| member.clone()));
        self.gone.extend(held.entries.iter().map(inside));
        let buried = rig.store(A).bury(rig.now_ms - 20, &[name]).await.expect("the server answers");
        format!("{name} confirmed {answer:?}, {}", matches!(buried, Buried::Done { .. }))
    }

    /// Every element is where it must be, once; and what was never rewritten has the score that its producer wrote.
    async fn check(&mut self, rig: &mut ZsetRig) {
        let places = rig.places().await;
        for member in self.offered.keys() {
            let at = places.of(member);
            let expected = usize::from(!self.gone.contains(member));
            assert_eq!(at.len(), expected, "{}", self.history(&format!("{member:?} is at {at:?}")));
        }
        for (claim, parts) in &places.claims {
            let empty = parts.bare.is_empty() && parts.entries.is_empty();
            assert!(empty || places.lease(*claim).is_some(), "{}", self.history(&format!("{claim} has no lease")));
        }
        let keys: Vec<_> = rig.claim_keys().await.into_iter().filter(|key| key.contains(":d:")).collect();
        let zset = String::from_utf8_lossy(&rig.source.keys.zset).into_owned();
        for key in keys.into_iter().chain([zset]) {
            for (member, score) in rig.raw(key.as_bytes()).await {
                assert_eq!(score, self.offered[&member].0, "{}", self.history(&format!("{member:?} in {key}")));
            }
        }
    }

    fn history(&self, what: &str) -> String {
        format!("{what}; DELAYBRIDGE_SEED={} replays it:\n{}", self.seed, self.log.join("\n"))
    }
}

/// Reading a large head costs time. A claim that left one says when it is due, and the next does not read it.
#[tokio::test]
async fn a_large_head_is_found_by_its_score_in_every_unit() {
    let server = Arc::new(TestServer::start());
    for (at, (word, unit)) in Unit::ALL.into_iter().enumerate() {
        let mut rig = ZsetRig::of(&format!("l{at}"), unit, Naming::Hash, Body::Member, Some(server.clone())).await;
        rig.offer(&vec![b'x'; 100_000].into(), rig.now_ms + 5_000).await;
        rig.offer(&Bytes::from_static(b"small"), rig.now_ms).await;
        let store = rig.store(A);
        let mut hints = Default::default();
        for number in 1..4 {
            let request = ClaimRequest { hints, ..request(A, number) };
            let ClaimReply::Claimed(claimed) = store.claim(&request).await.expect("the server claims") else {
                panic!("{word}: no claim")
            };
            assert_eq!(claimed.elements.len(), usize::from(number == 1), "{word}");
            let next_ms = claimed.next_ms.expect("something is due");
            assert!((rig.now_ms + 4_999..=rig.now_ms + 5_001).contains(&next_ms), "{word} {number}: {next_ms}");
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
