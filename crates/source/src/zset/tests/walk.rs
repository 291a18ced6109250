//! A random walk of producers, consumers without delaybridge, and daemons, in every unit.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;

use super::ZsetRig;
use crate::zset::Naming;
use crate::zset::config::Body;
use delaybridge_ledger::claims::{
    Buried, ClaimName, ClaimReply, ClaimRequest, Element, SettleOp, TakeOverReply, TakeOverRequest, Whole,
};
use delaybridge_ledger::score::Unit;
use delaybridge_ledger::{Answer, Source};
use delaybridge_link::Score;
use delaybridge_settings::words::Words as _;
use delaybridge_testing::store::servers::Servers;
use delaybridge_testing::store::{A, Mine, Rig, request, settle_one, takeover};

/// Random schedules in every unit: `DELAYBRIDGE_SEED=7` runs one, `DELAYBRIDGE_SEEDS=3000` more than usual.
#[tokio::test]
async fn whoever_takes_an_element_it_is_in_exactly_one_place() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("DELAYBRIDGE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("DELAYBRIDGE_SEEDS").unwrap_or(300),
    };
    let servers = Servers::one();
    for seed in seeds {
        let (_, unit) = Unit::VALUES[seed as usize % Unit::VALUES.len()];
        let mut rig = ZsetRig::of(&format!("q{seed}"), unit, Naming::Hash, Body::Member, servers.clone()).await;
        World::new(seed, unit).run(&mut rig, 40).await;
    }
}

/// What the consumers without delaybridge do: the usual script.
const POP: &str = "local first = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 1)\n\
    if first[1] then redis.call('ZREM', KEYS[1], first[1]) end return first[1] or ''";

pub(super) struct World {
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
    last: Option<(Mine, SettleOp)>,
    log: Vec<String>,
}

impl World {
    pub(super) fn new(seed: u64, unit: Unit) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        let offered = HashMap::new();
        let gone = HashSet::new();
        let claims = Vec::new();
        let takeovers = Vec::new();
        let claimed = Vec::new();
        World { seed, unit, rng, offered, gone, claims, takeovers, claimed, last: None, log: Vec::new() }
    }

    pub(super) async fn run(&mut self, rig: &mut ZsetRig, steps: usize) {
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
        let micros = (rig.now_ms() + self.rng.i64(-300..700)) * 1_000 - [0, 0, 1, 400, 999][self.rng.usize(0..5)];
        let written = self.written(micros);
        let member = Bytes::from(format!("element {step}"));
        rig.zadd(&written, &member).await;
        let due_ms = (micros + 999).div_euclid(1_000);
        self.offered.insert(member, (Score::parse(&written).expect("a score"), due_ms));
        format!("offer {step} at {written}")
    }

    /// The loop of a consumer: read, then remove; whoever removes has it. Between the two, others work.
    async fn zrem(&mut self, rig: &mut ZsetRig) -> String {
        let key = rig.source.keys.zset.clone();
        let until = rig.source.unit().until(rig.now_ms());
        let mut look = redis::cmd("ZRANGEBYSCORE");
        look.arg(&key[..]).arg("-inf").arg(until).arg("LIMIT").arg(0).arg(1);
        let found: Vec<Vec<u8>> = look.query_async(&mut rig.redis.admin).await.expect("the server answers");
        let Some(member) = found.into_iter().next().map(Bytes::from) else { return "nothing to remove".to_owned() };
        let between = if self.rng.bool() { self.claim(rig).await } else { String::new() };
        let removed: i64 = redis::cmd("ZREM")
            .arg(&key[..])
            .arg(&member[..])
            .query_async(&mut rig.redis.admin)
            .await
            .expect("the server answers");
        if removed == 1 {
            self.gone.insert(member.clone());
        }
        format!("read {member:?}, {between}, removed {removed}")
    }

    async fn pop(&mut self, rig: &mut ZsetRig) -> String {
        let key = rig.source.keys.zset.clone();
        let until = rig.source.unit().until(rig.now_ms());
        let popped: Vec<u8> = redis::cmd("EVAL")
            .arg(POP)
            .arg(1)
            .arg(&key[..])
            .arg(until)
            .query_async(&mut rig.redis.admin)
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
            not_after_ms: rig.now_ms() + self.rng.i64(-1..10),
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
            ClaimReply::Standby { .. } => return format!("{} standby", request.name),
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
            assert!(due_ms <= rig.now_ms(), "{}", self.history(&format!("early: {element:?}, due at {due_ms}")));
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
            0 => SettleOp::Confirm,
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

    async fn write(&mut self, rig: &mut ZsetRig, mine: Mine, step: SettleOp) -> String {
        let answer = settle_one(rig, &mine, step.clone()).await;
        if answer == Answer::Done {
            match &step {
                SettleOp::Confirm => {
                    self.gone.insert(mine.element.bytes());
                }
                SettleOp::Progress { header } => {
                    let noted = Element::entry(mine.element.under(header), mine.element.score_ms).expect("an entry");
                    self.claimed.push(Mine { element: noted, ..mine.clone() });
                }
                _ => {}
            }
        }
        format!("{} of {:?}: {answer:?}", mine.name, mine.element.bytes())
    }

    async fn take_over(&mut self, rig: &mut ZsetRig) -> String {
        let (expired, _) = rig.store(A).expired(rig.now_ms(), 20).await.expect("the server reads");
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
        let answer = rig.store(A).confirm(&[whole]).await.expect("the server answers");
        let inside = |(_, member): &(i64, Bytes)| Element::entry(member.clone(), 0).expect("an entry").bytes();
        self.gone.extend(held.bare.iter().map(|(_, member)| member.clone()));
        self.gone.extend(held.entries.iter().map(inside));
        let buried = rig.store(A).bury(rig.now_ms() - 20, &[name]).await.expect("the server answers");
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
        let keys: Vec<_> = rig.redis.claim_keys().await.into_iter().filter(|key| key.contains(":d:")).collect();
        let zset = String::from_utf8_lossy(&rig.source.keys.zset).into_owned();
        for key in keys.into_iter().chain([zset]) {
            for (member, score) in rig.redis.scores(key.as_bytes()).await {
                assert_eq!(score, self.offered[&member].0, "{}", self.history(&format!("{member:?} in {key}")));
            }
        }
    }

    fn history(&self, what: &str) -> String {
        format!("{what}; DELAYBRIDGE_SEED={} replays it:\n{}", self.seed, self.log.join("\n"))
    }
}
