//! Random calls, programs and processes on a pool: no body without a reference, no reference without a body unless its user
//! removed it, and the last version of every job arrives or is dead.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use delaybridge_ledger::claims::{ClaimReply, ClaimRequest, SettleCommand, SettleOp, TakeOverReply, TakeOverRequest};
use delaybridge_ledger::store::Claims;
use delaybridge_ledger::{Answer, Bodies, NoPayload};
use delaybridge_testing::store::{Mine, ms, name, request, takeover};

/// Seeds of one run; more with `DELAYBRIDGE_SEEDS`.
const SEEDS: u64 = 300;
const STEPS: usize = 60;
const IDS: u8 = 4;

struct World {
    rig: PoolRig,
    random: fastrand::Rng,
    /// The last version that a program wrote, unless its user has deleted it since.
    last: BTreeMap<Bytes, Bytes>,
    /// Programs that have written a job, and are about to write its bucket.
    pending: Vec<(Bytes, usize)>,
    versions: u32,
    /// Bodies that a sink has confirmed.
    confirmed: BTreeSet<Bytes>,
    held: Vec<Mine>,
    names: Vec<delaybridge_ledger::claims::ClaimName>,
    claims: u64,
    sent: Vec<SettleCommand>,
}

impl World {
    fn member(&mut self) -> Bytes {
        format!("job-{}", self.random.u8(..IDS)).into()
    }

    async fn step(&mut self) -> String {
        match self.random.u8(..24) {
            0..=3 => self.write().await,
            4..=7 => self.schedule().await,
            8 => self.delete().await,
            9 => self.make_ready().await,
            10..=13 => self.claim().await,
            14..=18 => self.settle().await,
            19 => self.settle_again().await,
            20 => self.take_over().await,
            21 => self.redrive().await,
            _ => {
                let by = self.random.u64(..20_000);
                self.rig.advance(ms(by)).await;
                format!("{by} ms pass")
            }
        }
    }

    /// The first command of a program's two: the job.
    async fn write(&mut self) -> String {
        self.versions += 1;
        let member = self.member();
        let body = Bytes::from(format!("version {}", self.versions));
        self.rig.put(&member, &body).await;
        self.last.insert(member.clone(), body.clone());
        let bucket = self.random.usize(..self.rig.source.buckets.len());
        self.pending.push((member.clone(), bucket));
        format!("write {member:?} {body:?}")
    }

    /// The second: its bucket.
    async fn schedule(&mut self) -> String {
        let Some((member, bucket)) = self.pending.pop() else { return "nothing to schedule".to_owned() };
        let due_ms = self.rig.now_ms() + self.random.i64(-500..2_000);
        let bucket = self.rig.source.buckets[bucket].clone();
        self.rig.redis.run(redis::pipe().zadd(&bucket[..], &member[..], due_ms)).await;
        format!("schedule {member:?}")
    }

    async fn delete(&mut self) -> String {
        let member = self.member();
        let at = self.rig.source.body_at(&member).expect("a place");
        let mut pipe = redis::pipe();
        match at.field() {
            Some(field) => pipe.hdel(&at.key()[..], &field[..]),
            None => pipe.del(&at.key()[..]),
        };
        self.rig.redis.run(&pipe).await;
        self.last.remove(&member);
        format!("delete {member:?}")
    }

    /// A timer of the program: the ready list, then the bucket.
    async fn make_ready(&mut self) -> String {
        let bucket = self.random.choice(&self.rig.source.buckets).expect("a bucket").clone();
        let head: Vec<Vec<u8>> = redis::Cmd::zrangebyscore_limit(&bucket[..], "-inf", self.rig.now_ms(), 0, 1)
            .query_async(&mut self.rig.redis.admin)
            .await
            .expect("a bucket");
        let Some(member) = head.first() else { return "nothing for the timer".to_owned() };
        let ready = self.rig.source.ready[0].clone();
        self.rig.redis.run(redis::pipe().rpush(&ready[..], member).zrem(&bucket[..], member)).await;
        "a timer".to_owned()
    }

    async fn claim(&mut self) -> String {
        let owner = self.random.u8(1..=3);
        self.claims += 1;
        let bytes = if self.random.u8(..4) == 0 { 12 } else { 1 << 20 };
        let request =
            ClaimRequest { most: self.random.usize(1..5), rotation: self.claims, bytes, ..request(owner, self.claims) };
        let store = self.rig.redis(owner);
        self.names.push(request.name);
        let elements = match Claims::claim(&store, &request).await.expect("the server claims") {
            ClaimReply::Claimed(claimed) => claimed.elements,
            reply => panic!("{reply:?}"),
        };
        // A lost reply: sent again, it does nothing, and what it took is found by its name.
        let elements = match self.random.u8(..4) {
            0 if !elements.is_empty() => {
                let again = Claims::claim(&store, &request).await.expect("the server answers");
                assert!(matches!(again, ClaimReply::Twice { .. }), "{again:?}");
                store.contents(request.name).await.expect("the server reads").elements
            }
            _ => elements,
        };
        let text = format!("{} claims {elements:?}", request.name);
        self.held.extend(Mine::all(request.name, elements));
        text
    }

    async fn settle(&mut self) -> String {
        if self.held.is_empty() {
            return "nothing to settle".to_owned();
        }
        let mine = self.held.swap_remove(self.random.usize(..self.held.len()));
        let opened = self.rig.redis(A).ledger().open(&mine.element).1;
        let step = match (&opened, self.random.u8(..6)) {
            // Its process has died.
            (_, 5) => return format!("{mine:?} is forgotten"),
            (Err(NoPayload::NoRoom), _) | (Ok(_), 0) => mine.release(),
            (Err(NoPayload::Missing), _) => SettleOp::Confirm,
            (Ok(_), 1) => mine.retry(ms(self.random.u64(..500))),
            (Ok(_), 2) => self.dead(&mine),
            (Ok(_), 3) if mine.element.due_ms().is_some() => SettleOp::Return { at_ms: self.rig.now_ms() + 700 },
            (Ok(_), _) => SettleOp::Confirm,
            (other, _) => panic!("{other:?}"),
        };
        if let (Ok(body), SettleOp::Confirm) = (&opened, &step) {
            // The sink has it, whatever becomes of the verdict.
            self.confirmed.insert(body.clone());
        }
        let verdict = mine.verdict(step);
        self.sent.push(verdict.clone());
        let answer = self.write_verdict(&verdict).await;
        format!("{verdict:?}: {answer:?}")
    }

    fn dead(&self, mine: &Mine) -> SettleOp {
        let text = |text: &str| Bytes::from(text.to_owned());
        let origin = mine.element.origin().as_str();
        let due_ms = mine.element.due_ms().map(|ms| ms.to_string()).unwrap_or_default();
        let fields = vec![
            ("id", text("0000000000000001")),
            ("origin", text(origin)),
            ("due_ms", text(&due_ms)),
            ("died_ms", text("5")),
            ("element", mine.element.bytes()),
            ("body", mine.element.body_bytes().expect("a body").clone()),
        ];
        SettleOp::Dead { fields }
    }

    async fn write_verdict(&mut self, verdict: &SettleCommand) -> Answer {
        let owner = verdict.claim.owner[0];
        let settled = self.rig.redis(owner).settle(std::slice::from_ref(verdict), None, None).await;
        settled.expect("the server settles").answers[0]
    }

    /// A verdict with a lost reply comes again, late.
    async fn settle_again(&mut self) -> String {
        let Some(verdict) = self.random.choice(&self.sent).cloned() else { return "nothing was sent".to_owned() };
        let answer = self.write_verdict(&verdict).await;
        // The element may be in the same claim only if its first sending changed nothing.
        format!("again {verdict:?}: {answer:?}")
    }

    async fn take_over(&mut self) -> String {
        let Some(old) = self.random.choice(&self.names).copied() else { return "nothing to take over".to_owned() };
        let owner = self.random.u8(1..=3);
        self.claims += 1;
        let request = TakeOverRequest { most: self.random.usize(1..4), ..takeover(old, owner, self.claims) };
        let reply = self.rig.redis(owner).take_over(&request).await.expect("the server answers");
        if let TakeOverReply::Taken { elements, .. } = reply {
            self.names.push(request.new);
            self.held.retain(|mine| mine.name != old);
            self.held.extend(Mine::all(request.new, elements));
        }
        format!("take over {old}")
    }

    async fn redrive(&mut self) -> String {
        let letters = self.rig.places().await.dead;
        let Some(letter) = self.random.choice(&letters) else { return "no letter".to_owned() };
        let ledger = Ledger::new(self.rig.source.clone(), [A; 8]);
        let conn = self.rig.conn();
        let member = letter.reborn().expect("a letter");
        let moved = ledger.redrive(&conn, letter, member, None).await.expect("the server answers");
        if moved {
            // It lives again, as its user sees it.
            let member = letter.bytes("element").expect("bytes");
            let body = letter.bytes("body").expect("bytes");
            self.last.insert(member.clone(), body.clone());
        }
        format!("redrive {:?}: {moved}", letter.bytes("element"))
    }

    async fn check(&mut self, history: &[String]) {
        let places = self.rig.places().await;
        for n in 0..IDS {
            let member = Bytes::from(format!("job-{n}"));
            let at = places.of(&member);
            let body = self.rig.body(&member).await;
            let referred = at.iter().any(|place| *place != "dead");
            let coming = self.pending.iter().any(|(pending, _)| *pending == member);
            let context = || format!("{member:?} is {at:?} with {body:?}\n{}", history.join("\n"));
            assert!(body.is_none() || referred || coming, "a body without a reference: {}", context());
            // What its program wrote last is there, or a sink has it, or a letter.
            let last = self.last.get(&member);
            let dead = |body: &Bytes| places.dead.iter().any(|letter| letter.bytes("body") == Some(body));
            let kept =
                last.is_none_or(|last| body.as_ref() == Some(last) || self.confirmed.contains(last) || dead(last));
            assert!(kept, "lost {last:?}: {}", context());
        }
    }

    /// All programs finish, all processes confirm what they get: everything is confirmed or dead.
    async fn drain(&mut self, history: &[String]) {
        while !self.pending.is_empty() {
            self.schedule().await;
        }
        self.held.clear();
        for _ in 0..60 {
            self.rig.advance(ms(30_000)).await;
            let store = self.rig.redis(A);
            let (expired, _) = store.expired(self.rig.now_ms(), 50).await.expect("the server reads");
            let mut mine = Vec::new();
            for old in expired {
                self.claims += 1;
                let request = takeover(old, A, self.claims);
                let request = TakeOverRequest { most: if request.new.is_suspect() { 1 } else { 500 }, ..request };
                if let TakeOverReply::Taken { elements, .. } = store.take_over(&request).await.expect("an answer") {
                    mine.extend(Mine::all(request.new, elements));
                }
            }
            self.claims += 1;
            if let ClaimReply::Claimed(claimed) =
                Claims::claim(&store, &request(A, self.claims)).await.expect("an answer")
            {
                mine.extend(Mine::all(name(A, self.claims), claimed.elements));
            }
            for mine in mine {
                if let Ok(body) = self.rig.redis(A).ledger().open(&mine.element).1 {
                    self.confirmed.insert(body);
                }
                self.write_verdict(&mine.verdict(SettleOp::Confirm)).await;
            }
        }
        self.check(history).await;
        let places = self.rig.places().await;
        for n in 0..IDS {
            let member = Bytes::from(format!("job-{n}"));
            let at = places.of(&member);
            assert!(at.iter().all(|place| *place == "dead"), "{member:?} is {at:?}\n{}", history.join("\n"));
            assert_eq!(self.rig.body(&member).await, None, "{}", history.join("\n"));
        }
    }
}

#[tokio::test]
async fn every_job_is_in_one_state_with_its_body() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds: Vec<u64> = match number("DELAYBRIDGE_SEED") {
        Some(seed) => vec![seed],
        None => {
            let first = fastrand::u64(..1 << 40);
            (first..first + number("DELAYBRIDGE_SEEDS").unwrap_or(SEEDS)).collect()
        }
    };
    println!("seeds from {}", seeds[0]);
    let places = [
        Place::Shared("{pool}:jobs".to_owned()),
        Place::Value("{pool}:job:{id}".to_owned()),
        Place::Own("{pool}:job:{id}".to_owned(), "data".to_owned()),
    ];
    for (share, place) in (0..).zip(places) {
        let buckets = (0..2).map(|n| format!("{{pool}}:bucket{n}")).collect();
        let mut rig = PoolRig::new(Preset { buckets, place, ..plain() }).await;
        for &seed in seeds.iter().filter(|seed| seeds.len() == 1 || **seed % 3 == share) {
            rig.redis.run(redis::pipe().cmd("FLUSHDB")).await;
            rig.advance(Duration::ZERO).await;
            let mut world = World {
                rig,
                random: fastrand::Rng::with_seed(seed),
                last: BTreeMap::new(),
                pending: Vec::new(),
                versions: 0,
                confirmed: BTreeSet::new(),
                held: Vec::new(),
                names: Vec::new(),
                claims: 0,
                sent: Vec::new(),
            };
            let mut history = vec![format!("DELAYBRIDGE_SEED={seed}")];
            for _ in 0..STEPS {
                history.push(world.step().await);
                world.check(&history).await;
            }
            world.drain(&history).await;
            rig = world.rig;
        }
    }
}
