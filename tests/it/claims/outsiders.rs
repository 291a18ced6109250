//! Steps of all others: producers, Redisson's clients, newer daemons.

use bytes::Bytes;
use delaybridge_ledger::claims::Part;

use super::elements;
use super::rig::Rig;
use super::snapshot::{Snapshot, identity, short};
use super::world::World;

impl World<'_> {
    /// Runs steps of others, which have free memory even in a full Redis.
    pub async fn as_others(&mut self, others: impl AsyncFnOnce(&mut Rig)) {
        if self.full {
            self.limit_memory(false).await;
        }
        others(self.rig).await;
        if self.full {
            self.limit_memory(true).await;
        }
    }

    /// Junk and twins, and sometimes the empty element, the exact bytes of another one, or the form of an entry.
    fn element(&mut self) -> Bytes {
        let rng = &mut self.rng;
        match rng.u8(..24) {
            0 => Bytes::new(),
            1 => rng.choice(self.seen.l.clone()).unwrap_or_default(),
            2 | 3 => {
                let recorded = |e: &&Bytes| e.len() > 9 && self.seen.records(&identity(e)) > 0;
                let ghosts: Vec<&Bytes> = self.seen.l.iter().filter(recorded).collect();
                match rng.choice(ghosts) {
                    Some(ghost) => [&ghost[..9], &rng.u32(..).to_le_bytes()].concat().into(),
                    None => elements::element(rng, self.seen.l.iter()),
                }
            }
            4 => {
                let body: Vec<u8> = (0..*rng.choice(&[10, 78, 120]).expect("some")).map(|_| rng.u8(..)).collect();
                [&[0xdb, 1][..], &body].concat().into()
            }
            _ => elements::element(rng, self.seen.l.iter().chain(self.seen.z.keys())),
        }
    }

    /// Whether the element may be offered. Its identity must not be that of an orphan, which a later record would
    /// remove.
    fn offerable(&self, element: &Bytes) -> bool {
        !self.seen.z.contains_key(element) && !self.orphans.iter().any(|o| identity(o) == identity(element))
    }

    /// Offers these elements at once, with their due times.
    pub async fn offer_all(&mut self, elements: &[(f64, Bytes)]) {
        for (_, element) in elements {
            if self.seen.copies(element) > 0 {
                self.doubled.insert(element.clone());
            }
        }
        let z = self.keys.delayed.clone();
        let l = self.keys.list.clone();
        let scored: Vec<(f64, &[u8])> = elements.iter().map(|(due, e)| (*due, &e[..])).collect();
        let members: Vec<&[u8]> = elements.iter().map(|(_, e)| &e[..]).collect();
        let mut pipe = redis::pipe();
        pipe.zadd_multiple(&z[..], &scored).rpush(&l[..], members);
        self.as_others(async |rig| pipe.exec_async(&mut rig.redis).await.expect("offer")).await;
        self.theirs_only("an offer").await;
    }

    /// Offers one element, or many at once.
    pub async fn offer(&mut self) {
        if !self.trickle && self.rng.u8(..10) == 0 {
            return self.offer_burst().await;
        }
        for _ in 0..if self.trickle { 1 } else { self.rng.usize(1..=5) } {
            let element = self.element();
            if !self.offerable(&element) {
                continue;
            }
            let offset = match self.rng.u8(..6) {
                0 => -3_000,
                1 => -1,
                2 => 0,
                3 => 500,
                _ => self.rng.i64(0..20_000),
            };
            let fraction = if self.rng.u8(..5) == 0 { 0.5 } else { 0.0 };
            let due = (self.now() + offset) as f64 + fraction;
            self.note(format!("a producer offers {} at {due}", short(&element)));
            self.offer_all(&[(due, element)]).await;
        }
    }

    /// Offers many at once, due in the order of the offers, in the reverse order, in random order, or in two runs.
    async fn offer_burst(&mut self) {
        let n = self.rng.usize(10..150);
        let order = self.rng.u8(..4);
        let step = if self.rng.u8(..3) == 0 { 10 } else { 1 };
        let mut all = Vec::new();
        for i in 0..n {
            let place = match order {
                0 => i,
                1 => n - i,
                2 => self.rng.usize(..n),
                _ if i % 2 == 1 => i / 2,
                _ => 3_000 + i,
            };
            let element = Bytes::from(self.queue.layout.pack(self.rng.u64(..).to_le_bytes(), b"abc"));
            all.push(((self.now() + (place * step) as i64) as f64, element));
        }
        self.note(format!("a producer offers {n} in the order {order}"));
        self.offer_all(&all).await;
    }

    /// Pushes payloads on the ready list; equal ones are different elements.
    pub async fn push_ready(&mut self) {
        if self.trickle && self.rng.u8(..4) > 0 {
            return;
        }
        let payload = elements::payload(&mut self.rng);
        let count = self.rng.usize(1..5);
        let queue = self.queue.clone();
        let payloads = vec![payload; count];
        self.as_others(async |rig| queue.push_ready(&mut rig.redis, &payloads).await).await;
        self.note(format!("{count} equal payloads on the ready list"));
        self.theirs_only("a push").await;
    }

    /// Runs an operation of a Redisson client.
    pub async fn redisson(&mut self) {
        let now = self.now();
        let queue = self.queue.clone();
        let listed = self.seen.l.clone();
        let mut rng = self.rng.fork();
        let mut what = None;
        self.as_others(async |rig| {
            what = elements::redisson(&mut rng, &mut rig.redis, &queue, now, &listed).await;
        })
        .await;
        self.note(what.unwrap_or_default());
        self.theirs_only("a script of Redisson").await;
    }

    /// Leaves something of a newer daemon: an entry in retry, or a claim.
    pub async fn newer_version(&mut self) {
        let body: Vec<u8> = (0..*self.rng.choice(&[0, 3, 100]).expect("some")).map(|_| self.rng.u8(..)).collect();
        let member = [&[0xdb, 2][..], &body].concat();
        let at = self.now() + self.rng.i64(-2_000..2_000);
        if self.newer.len() < 3 && self.rng.bool() {
            let name = Bytes::from(format!("2.{:016x}.7.0.more", self.rng.u64(..)));
            let leases = self.names.leases().clone();
            let key = self.names.claim(&name, Part::Entries);
            let mut pipe = redis::pipe();
            pipe.zadd(&leases[..], &name[..], at).zadd(&key[..], &member, at);
            self.as_others(async |rig| pipe.exec_async(&mut rig.redis).await.expect("a newer claim")).await;
            self.note("a claim of a future version".to_owned());
            self.newer.insert(name);
        } else {
            let key = self.keys.retry.clone();
            self.as_others(async |rig| rig.run(redis::cmd("ZADD").arg(&key[..]).arg(at).arg(&member)).await).await;
            self.note("an entry of a future version".to_owned());
        }
        self.seen = self.look().await;
    }

    /// Leaves a damaged entry of this version in retry, with an unknown origin in its header.
    pub async fn damaged_entry(&mut self) {
        let mut member = delaybridge_ledger::claims::Header::new(self.now()).encode();
        member[8] = b'?';
        member[12] = self.rng.u8(..);
        member.extend_from_slice(b"damaged");
        let key = self.keys.retry.clone();
        let at = self.now() + self.rng.i64(-2_000..2_000);
        self.as_others(async |rig| rig.run(redis::cmd("ZADD").arg(&key[..]).arg(at).arg(&member)).await).await;
        self.note("a damaged entry".to_owned());
        self.seen = self.look().await;
    }

    /// Checks that others have changed only their own keys.
    pub async fn theirs_only(&mut self, what: &str) {
        let after = self.look().await;
        let theirs =
            Snapshot { z: after.z.clone(), l: after.l.clone(), ready: after.ready.clone(), ..self.seen.clone() };
        if let Some(difference) = theirs.difference(&after) {
            panic!("{what} touched what is ours: {difference}");
        }
        self.orphans.retain(|o| after.l.contains(o));
        self.seen = after;
    }
}
