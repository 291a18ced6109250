//! Random schedules over simulated hours: processes die, stop and start, the server and its connections fail, sinks are
//! slow, full, down or in doubt. At the end every element is delivered or dead, and every duplicate was announced.
//!
//! A seed replays: `DELAYBRIDGE_SEED=7 cargo test -p delaybridge-pipeline random` runs one, `DELAYBRIDGE_SEEDS=5000` runs more than usual.

use std::collections::HashMap;
use std::ops::Range;

use fastrand::Rng;
use parking_lot::Mutex;
use tokio::runtime::Builder;

use super::moods::{MOODS, Mood, is_meant, is_refused, moody, step};
use super::*;
use crate::tests::world::Trouble;
use delaybridge_core::condition::Condition;
use delaybridge_ledger::{Pause, Subject};
use delaybridge_model::{AuditFate, AuditSpec};
use delaybridge_telemetry::events::Events;
use delaybridge_testing::memory::{Fault, Op};

const OPS: [Op; 9] =
    [Op::Claim, Op::TakeOver, Op::Extend, Op::Contents, Op::Confirm, Op::Settle, Op::Bury, Op::Expired, Op::Pauses];

/// Random steps of one schedule.
const STEPS: usize = 50;

struct Schedule {
    world: World,
    draw: Rng,
    moods: Vec<Arc<Mutex<Mood>>>,
    sinks: Vec<(&'static str, Arc<FakeSink>)>,
    spec: QueueSpec,
    bridges: Vec<Bridge>,
    /// The counters of every process that there ever was.
    counters: Vec<Events>,
    offered: u64,
    /// Whether replicas that are behind take over.
    fails_over: bool,
    /// Whether the replica is behind by some calls at any time, and may take over. It has what is offered at once.
    lags: bool,
    /// Whether claims wait for the replica.
    durable: bool,
    /// Whether the slot of the queue moves.
    moves: bool,
    /// Whether sinks are meant for some elements only.
    chooses: bool,
    /// Whether the last of the sinks takes the records of the elements.
    audits: bool,
    /// A replica is behind: how many elements were offered before, and since when.
    behind: Option<(u64, i64)>,
    /// Elements that replicas did not have when they took over.
    not_replicated: Vec<Range<u64>>,
    /// When what was written may not have been replicated, and how long it could be acted on.
    unsure: Vec<Range<i64>>,
}

impl Schedule {
    fn new(seed: u64, names: &[&'static str]) -> Schedule {
        let world = World::seeded(seed);
        let mut draw = Rng::with_seed(seed);
        let moods: Vec<_> = names.iter().map(|_| Arc::new(Mutex::new(Mood::Well))).collect();
        let sinks: Vec<_> = names.iter().zip(&moods).map(|(name, mood)| (*name, moody(mood, draw.u64(..)))).collect();
        let mut spec = spec(&sinks);
        // Only what is refused for good may die.
        let retry = Arc::make_mut(&mut spec.retry);
        retry.max_attempts = u32::MAX;
        retry.initial_interval = SECOND;
        retry.max_interval = CEILING;
        let bridges = Vec::new();
        let counters = Vec::new();
        Schedule {
            world,
            draw,
            moods,
            sinks,
            spec,
            bridges,
            counters,
            offered: 0,
            fails_over: false,
            lags: false,
            durable: false,
            moves: false,
            chooses: false,
            audits: false,
            behind: None,
            not_replicated: Vec::new(),
            unsure: Vec::new(),
        }
    }

    fn claiming_ahead(seed: u64, names: &[&'static str]) -> Schedule {
        let mut schedule = Schedule::new(seed, names);
        schedule.spec.claim_ahead = LEASE / 2;
        schedule
    }

    /// Two sinks, each for some elements. Every second schedule removes the others.
    fn choosing(seed: u64, names: &[&'static str]) -> Schedule {
        let mut schedule = Schedule::new(seed, names);
        let conditions = ["payload < 'payload 5'", "payload >= 'payload 3' and not payload >= 'payload 8'"];
        for (route, text) in schedule.spec.to.iter_mut().zip(conditions) {
            route.rules = RouteRules::of(Some(Condition::compile(text).expect("a condition")), Duplicates::Allow, None);
        }
        schedule.spec.codec = Codec::String.into();
        if seed.is_multiple_of(2) {
            schedule.spec.on_skipped = OnSkipped::Drop;
        }
        Schedule { chooses: true, ..schedule }
    }

    /// The records of what the first sink gets go to the second.
    fn with_a_trail(seed: u64, names: &[&'static str]) -> Schedule {
        let mut schedule = Schedule::new(seed, names);
        let mood = schedule.moods[1].clone();
        let mut draw = Rng::with_seed(seed);
        // It refuses no record for good.
        schedule.sinks[1].1.otherwise(move |_| step(*mood.lock(), 0, &mut draw));
        let route = schedule.spec.to[1].clone();
        schedule.spec.to = vec![schedule.spec.to[0].clone()].into();
        schedule.spec.audit = Some(Box::new(AuditSpec { route, on: [AuditFate::Delivered, AuditFate::Dead].into() }));
        Schedule { audits: true, ..schedule }
    }

    fn with_failovers(seed: u64, names: &[&'static str]) -> Schedule {
        Schedule { fails_over: true, ..Schedule::new(seed, names) }
    }

    /// Every second one in a cluster.
    fn with_durable_claims(seed: u64, names: &[&'static str]) -> Schedule {
        let schedule = Schedule::with_failovers(seed, names);
        schedule.world.server.await_replica();
        Schedule { durable: true, moves: seed.is_multiple_of(2), ..schedule }
    }

    /// A replica that may lack the last calls of any kind; durable claims in every second one. No offer is lost.
    fn with_a_replica_that_is_behind(seed: u64, names: &[&'static str]) -> Schedule {
        let schedule = Schedule::new(seed, names);
        schedule.world.server.lag();
        let durable = seed.is_multiple_of(2);
        if durable {
            schedule.world.server.await_replica();
        }
        Schedule { lags: true, durable, ..schedule }
    }

    fn in_a_cluster(seed: u64, names: &[&'static str]) -> Schedule {
        Schedule { moves: true, ..Schedule::new(seed, names) }
    }

    fn start_process(&mut self) {
        let owner = u8::try_from(self.counters.len() + 1).expect("fewer than 256 processes");
        let bridge = self.world.bridge_with(owner, &self.sinks, self.spec.clone());
        self.counters.push(bridge.process.events.clone());
        self.bridges.push(bridge);
    }

    fn some_process(&mut self) -> usize {
        self.draw.usize(0..self.bridges.len())
    }

    fn seconds(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.draw.u64(0..=most * 1000))
    }

    /// From now on a replica receives nothing; or it receives all; or it takes over.
    fn replicate(&mut self) {
        let now_ms = self.world.server.now_ms();
        match self.behind.take() {
            None => {
                self.world.server.cut_replica();
                self.behind = Some((self.offered, now_ms));
            }
            Some(_) if self.draw.bool() => self.world.server.reach_replica(),
            Some((offered, since_ms)) => {
                self.world.server.promote_replica();
                self.not_replicated.push(offered..self.offered);
                // A process may go on with a claim that is lost until its lease is over, and its sink answers.
                let acted_on = i64::try_from((LEASE + MINUTE).as_millis()).expect("minutes");
                // A durable claim is not lost: whatever comes twice is announced.
                if !self.durable {
                    self.unsure.push(since_ms..now_ms + acted_on);
                }
            }
        }
    }

    /// The replica takes over without the last calls, however short ago they were.
    fn forget(&mut self) {
        let now_ms = self.world.server.now_ms();
        self.world.server.promote_behind(self.draw.usize(0..20));
        if !self.durable {
            let around = i64::try_from((LEASE + 10 * MINUTE).as_millis()).expect("minutes");
            self.unsure.push(now_ms - around..now_ms + around);
        }
    }

    /// The keys of the queue move to another server: until they are together again, calls are refused, and nothing of them is
    /// done.
    fn move_slot(&mut self) {
        for op in OPS {
            let refused = vec![Fault::Refused("TRYAGAIN"); self.draw.usize(0..6)];
            self.world.server.fail(op, refused);
        }
    }

    async fn step(&mut self) {
        if self.fails_over && self.draw.u8(0..6) == 0 {
            self.replicate();
        }
        if self.lags && self.draw.u8(0..3) == 0 {
            self.forget();
        }
        if self.moves && self.draw.u8(0..4) == 0 {
            self.move_slot();
        }
        let place = self.some_process();
        match self.draw.u8(0..18) {
            0..=4 => {
                let delay = self.seconds(120);
                let many = self.draw.u64(1..10);
                self.world.offer_in(delay, self.offered..self.offered + many);
                self.offered += many;
            }
            5..=7 => {
                let mood = self.draw.usize(0..self.moods.len());
                *self.moods[mood].lock() =
                    if self.lags && self.draw.bool() { Mood::Uneven } else { MOODS[self.draw.usize(0..MOODS.len())] };
            }
            8 => self.world.server.set_up(self.draw.bool()),
            9 => self.bridges[place].wire.connect(self.draw.bool()),
            10 | 11 => {
                let trouble = [(0, 0.0), (300, 0.2), (1_000, 0.5), (4_000, 0.05)][self.draw.usize(0..4)];
                let trouble = Trouble { slow: Duration::from_millis(trouble.0), lost: trouble.1 };
                self.bridges[place].wire.trouble(trouble);
            }
            12 => {
                let op = OPS[self.draw.usize(0..OPS.len())];
                let fault =
                    [Fault::ReplyLost, Fault::RequestLost, Fault::Refused("NOPERM")][self.draw.usize(0..3)].clone();
                self.world.server.fail(op, vec![fault; self.draw.usize(1..4)]);
            }
            13 => {
                let _ = self.bridges.swap_remove(place);
            }
            14 => {
                let timeout = self.seconds(40);
                self.bridges.swap_remove(place).stop(timeout).await;
            }
            15 | 16 => self.pause(),
            _ if self.bridges.len() < 2 => self.start_process(),
            _ => {}
        }
        if self.bridges.is_empty() {
            self.start_process();
        }
        // What a replica lacks matters while elements of a claim are at the sink, which is not for long.
        let wait = self.seconds(if self.lags { 10 } else { 40 });
        tokio::time::sleep(wait).await;
    }

    /// A person pauses the queue or a sink, perhaps for some time, or ends that. Some processes are told.
    fn pause(&mut self) {
        let subject = if self.draw.bool() {
            Subject::Queue
        } else {
            Subject::Sink(self.sinks[self.draw.usize(0..self.sinks.len())].0)
        };
        let since_ms = self.world.server.now_ms();
        let until_ms = self.draw.bool().then(|| since_ms + self.draw.i64(0..300_000));
        let pause = Pause { by: "ann".to_owned(), why: "a test".to_owned(), since_ms, until_ms };
        self.world.store.set_pause(subject, self.draw.bool().then_some(pause));
        for bridge in &self.bridges {
            if self.draw.bool() {
                bridge.queue.see_pauses();
            }
        }
    }

    /// Everything works again.
    fn heal(&mut self) {
        self.world.server.reach_replica();
        self.world.store.set_pause(Subject::Queue, None);
        self.sinks.iter().for_each(|(name, _)| self.world.store.set_pause(Subject::Sink(name), None));
        self.world.server.set_up(true);
        self.moods.iter().for_each(|mood| *mood.lock() = Mood::Well);
        for bridge in &self.bridges {
            bridge.wire.trouble(Trouble::default());
            bridge.wire.connect(true);
        }
    }

    async fn run(&mut self) {
        self.start_process();
        for _ in 0..STEPS {
            self.step().await;
        }
        self.heal();
        self.world.until_empty().await;
        // Refusals that were not met yet may still come.
        world::within(10 * MINUTE, "nothing to be left in a process", || {
            self.bridges.iter().all(|bridge| bridge.queue.leases.is_empty() && bridge.queue.budget.used().count == 0)
        })
        .await;
        self.check();
    }

    fn check(&self) {
        let dead: Vec<String> = self.world.store.dead().iter().map(|letter| letter.text("id").to_owned()).collect();
        let mut counts: HashMap<(u64, usize), u64> = HashMap::new();
        // Those that no failover can have had a part in.
        let mut sure: HashMap<(u64, usize), u64> = HashMap::new();
        let sinks = self.sinks.len() - usize::from(self.audits);
        for (place, (_, sink)) in self.sinks[..sinks].iter().enumerate() {
            for message in sink.taken() {
                let n = number(&message);
                assert!(n < self.offered, "element {n} was never offered");
                assert_eq!(message.body, format!("payload {n}"));
                *counts.entry((n, place)).or_default() += 1;
                if !self.unsure.iter().any(|unsure| unsure.contains(&message.now_ms)) {
                    *sure.entry((n, place)).or_default() += 1;
                }
            }
        }
        let mut extra = 0;
        for n in 0..self.offered {
            let taken: Vec<u64> = (0..sinks).map(|s| counts.get(&(n, s)).copied().unwrap_or(0)).collect();
            let deaths = dead.iter().filter(|dead| **dead == id(n).to_string()).count();
            let lost = self.not_replicated.iter().any(|range| range.contains(&n));
            let meant: Vec<bool> = (0..sinks).map(|place| !self.chooses || is_meant(n, place)).collect();
            if !meant.contains(&true) {
                let expected = usize::from(self.spec.on_skipped == OnSkipped::DeadLetter);
                assert_eq!((deaths, taken), (expected, vec![0; sinks]), "element {n}");
                continue;
            }
            let as_meant = match is_refused(n) {
                _ if lost && deaths == 0 && taken.contains(&0) => true,
                true => deaths == 1 && taken.iter().all(|taken| *taken == 0),
                false => deaths == 0 && taken.iter().zip(&meant).all(|(taken, meant)| (*taken > 0) == *meant),
            };
            assert!(as_meant, "element {n}: {taken:?} taken, {deaths} dead letters");
            let sure = (0..sinks).map(|s| sure.get(&(n, s)).copied().unwrap_or(0));
            extra += sure.max().unwrap_or(0).saturating_sub(1);
        }
        if self.audits {
            self.check_records(&dead);
        }
        let announced: f64 = self.counters.iter().map(|events| world::metric(events, DUPLICATES)).sum();
        assert!(extra as f64 <= announced, "{extra} duplicates, {announced} announced");
    }

    /// The last record of each element has its fate.
    fn check_records(&self, dead: &[String]) {
        let mut last = HashMap::new();
        for record in self.sinks[1].1.taken() {
            let body: serde_json::Value = serde_json::from_slice(&record.body).expect("a record");
            last.insert(number(&record), body["fate"].as_str().expect("a fate").to_owned());
        }
        for n in 0..self.offered {
            let expected = if dead.contains(&id(n).to_string()) { "dead" } else { "delivered" };
            assert_eq!(last.get(&n).map(String::as_str), Some(expected), "element {n}");
        }
    }

    /// What the sinks saw, and when: the same for the same seed.
    fn trace(&self) -> Vec<(u64, i64)> {
        self.sinks
            .iter()
            .flat_map(|(_, sink)| sink.attempts())
            .map(|message| (number(&message), message.now_ms))
            .collect()
    }
}

fn play(seed: u64, names: &[&'static str], new: impl Fn(u64, &[&'static str]) -> Schedule) -> Vec<(u64, i64)> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut schedule = new(seed, names);
        schedule.run().await;
        schedule.trace()
    })
}

fn play_all(seeds: Range<u64>, names: &[&'static str], new: impl Fn(u64, &[&'static str]) -> Schedule) {
    let number = |name| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let more = number("DELAYBRIDGE_SEEDS").map_or(seeds.end, |many| seeds.start + many);
    for seed in number("DELAYBRIDGE_SEED").map_or(seeds.start..more, |seed| seed..seed + 1) {
        println!("seed {seed}");
        play(seed, names, &new);
    }
}

#[test]
fn whatever_happens_nothing_is_lost_and_every_duplicate_is_announced() {
    play_all(0..100, &["s"], Schedule::new);
}

#[test]
fn whatever_happens_with_two_sinks_both_get_everything() {
    play_all(1000..1050, &["a", "b"], Schedule::new);
}

#[test]
fn whatever_happens_each_sink_gets_what_it_is_meant_for_and_the_rest_is_skipped() {
    play_all(8000..8050, &["a", "b"], Schedule::choosing);
}

#[test]
fn whatever_happens_each_element_has_a_record_of_its_fate() {
    play_all(9000..9050, &["s", "trail"], Schedule::with_a_trail);
}

#[test]
fn whatever_happens_to_what_is_claimed_ahead_it_is_never_early() {
    play_all(2000..2050, &["s"], Schedule::claiming_ahead);
}

#[test]
fn whatever_happens_beside_failovers_what_the_replicas_had_is_delivered() {
    play_all(3000..3020, &["s"], Schedule::with_failovers);
}

#[test]
fn whatever_happens_beside_failovers_durable_claims_are_announced() {
    play_all(4000..4020, &["s"], Schedule::with_durable_claims);
}

#[test]
fn whatever_a_replica_lacks_nothing_that_was_offered_is_lost() {
    play_all(6000..6040, &["s"], Schedule::with_a_replica_that_is_behind);
}

/// A daemon that takes neighbours along, in a process of its own.
#[test]
#[cfg(debug_assertions)]
fn a_neighbour_that_is_taken_along_is_noticed_by_the_schedules() {
    let test = "tests::random::whatever_a_replica_lacks_nothing_that_was_offered_is_lost";
    let own = std::env::current_exe().expect("the path of this binary");
    let lying = std::process::Command::new(own)
        .args(["--exact", test])
        .env("DELAYBRIDGE_PLANT", "neighbour_taken_along")
        .output()
        .expect("run this binary");
    let said = String::from_utf8_lossy(&lying.stdout);
    assert!(!lying.status.success(), "no seed notices it:\n{said}");
    assert!(said.contains(": [0] taken, 0 dead letters"), "it was noticed in another way:\n{said}");
}

#[test]
fn whatever_a_replica_lacks_both_sinks_get_everything() {
    play_all(7000..7020, &["a", "b"], Schedule::with_a_replica_that_is_behind);
}

#[test]
fn whatever_happens_while_slots_move_nothing_is_lost_and_every_duplicate_is_announced() {
    play_all(5000..5015, &["s"], Schedule::in_a_cluster);
}

#[test]
fn a_seed_replays() {
    assert_eq!(play(7, &["a", "b"], Schedule::new), play(7, &["a", "b"], Schedule::new));
}
