//! A missing right: whichever it is, every element stays in exactly one place, and no key of a claim is without a
//! lease.

use std::time::Duration;

use bytes::Bytes;
use delaybridge_ledger::Hints;
use delaybridge_ledger::claims::{
    ClaimName, ClaimRequest, Element, Header, Part, SettleCommand, SettleOp, TakeOverRequest, Whole, Writer,
};
use delaybridge_ledger::redis::RedisStore;
use delaybridge_ledger::store::Claims;
use delaybridge_link::{Side, TEST_CLOCK};
use delaybridge_source::redisson::{Keys, ListCleanup};

use super::rig::{Rig, source};
use super::snapshot::{Names, PUSHED, Snapshot};
use super::world::LEASE;

const NOW_MS: i64 = 1_800_000_000_000;
const CLAIMS: &str = "delaybridge:claim:*";

/// The commands of the calls by key; two patterns if one command uses both.
fn rights(keys: &Keys, names: &Names) -> Vec<(Vec<String>, &'static str)> {
    let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    let one = |key: &[u8], commands: &'static str| -> Vec<(Vec<String>, &'static str)> {
        commands.split(' ').map(|command| (vec![text(key)], command)).collect()
    };
    let claims = CLAIMS.as_bytes();
    [
        one(&keys.delayed, "zrange zcount zscore zcard zremrangebyrank memory|usage"),
        one(&keys.list, "llen lindex lrange lpos ltrim lrem memory|usage"),
        one(&keys.ready, "llen lrange ltrim memory|usage"),
        one(&keys.permits, "get incrby"),
        one(names.leases(), "zrange zscore zmscore zadd zrem zremrangebyrank zcard"),
        one(&keys.retry, "zrange zcount zcard zscore zadd zremrangebyrank memory|usage"),
        one(&keys.ghosts, "scard srem sadd smismember"),
        one(&keys.ghosts_turn, "scard srem"),
        one(&keys.sweep, "hmget hset hsetnx"),
        one(&keys.dead, "xlen xadd xtrim"),
        one(PUSHED.as_bytes(), "type rpush"),
        one(
            claims,
            "zcard zrange zscore zmscore zadd zrem zremrangebyrank exists rename unlink zrangestore memory|usage",
        ),
        vec![
            (vec![text(&keys.delayed), CLAIMS.to_owned()], "zrangestore"),
            (vec![text(&keys.retry), CLAIMS.to_owned()], "zrangestore"),
        ],
    ]
    .concat()
}

struct Flow {
    rig: Rig,
    store: RedisStore,
    keys: Keys,
    names: Names,
    /// All elements, each of which must be somewhere once.
    everything: Vec<Bytes>,
    denied: Vec<String>,
}

fn element(letter: u8) -> Bytes {
    [&b"\x08RANDOM8B\x05\0\0\0\0\0\0\0hell"[..], &[letter]].concat().into()
}

fn header(place: u32) -> Header {
    let mut header = Header::new(NOW_MS);
    header.writer = Writer { owner: [1; 8], claim: 99, place };
    header
}

impl Flow {
    async fn allow(&mut self, rights: &[(Vec<String>, &'static str)]) {
        let mut command = redis::cmd("ACL");
        command.arg(&["SETUSER", "least", "reset", "on", ">least", "~*", "+evalsha", "+time", "+script|load"]);
        command
            .arg("+@connection")
            .arg("+info")
            .arg(&["&*", "+publish", "+spublish"])
            .arg(format!("(~{TEST_CLOCK} +lrange)"));
        for (keys, right) in rights {
            let keys: Vec<_> = keys.iter().map(|key| format!("~{key}")).collect();
            command.arg(format!("({} +{right})", keys.join(" ")));
        }
        self.rig.run(&mut command).await;
    }

    /// Checks that every element is in exactly one place.
    async fn check(&mut self, what: &str) {
        let seen = Snapshot::read(&mut self.rig.redis, &self.keys, &self.names).await;
        let of_entry = |m: &Bytes| Element::entry(m.clone(), 0).expect("an entry of ours").bytes();
        let mut all: Vec<Bytes> = seen.z.keys().cloned().chain(seen.ready).chain(seen.pushed).collect();
        all.extend(seen.retry.keys().map(of_entry));
        all.extend(seen.dead.into_iter().map(|(_, fields)| fields[1].clone()));
        for (name, holding) in &seen.claims {
            assert!(seen.leases.contains_key(name), "{what}: keys without a lease");
            all.extend(holding.bare.keys().cloned().chain(holding.entries.keys().map(of_entry)));
        }
        all.sort();
        assert!(all == self.everything, "{what}: {} elements of {}", all.len(), self.everything.len());
    }

    async fn tell<T, E: ToString>(&mut self, what: &str, answer: Result<T, E>) -> Option<T> {
        self.check(what).await;
        answer.map_err(|error| self.denied.push(format!("{what}: {}", error.to_string()))).ok()
    }

    async fn fill(&mut self) {
        self.rig.run(&mut redis::cmd("FLUSHALL")).await;
        self.rig.set_clock(NOW_MS * 1000).await;
        let mut pipe = redis::pipe();
        for letter in b'a'..b'n' {
            pipe.zadd(&self.keys.delayed[..], &element(letter)[..], NOW_MS - 1);
            // Some are at an end of L, others far from it, and the budget is spent, so that ghosts are recorded.
            pipe.rpush(&self.keys.list[..], &element(letter)[..]);
            if letter > b'd' {
                pipe.rpush(&self.keys.list[..], vec!["other"; 40]);
            }
        }
        for place in 0..3 {
            let entry = [&header(place).encode()[..], &element(b'r')].concat();
            pipe.zadd(&self.keys.retry[..], entry, NOW_MS - 1);
        }
        pipe.rpush(&self.keys.ready[..], &["payload", "payload"]).set(&self.keys.permits[..], 5);
        pipe.hset(&self.keys.sweep[..], "lrem_at", 9_000_000_000_000_000i64).hset(&self.keys.sweep[..], "lrem_us", 0);
        pipe.exec_async(&mut self.rig.redis).await.expect("fill the queue");
        let ready = Bytes::from_static(b"payload");
        self.everything = (b'a'..b'n').map(element).chain([ready.clone(), ready]).collect();
        self.everything.extend([element(b'r'), element(b'r'), element(b'r')]);
        self.everything.sort();
        self.denied.clear();
    }

    fn request(&self, number: u64) -> ClaimRequest {
        ClaimRequest {
            name: ClaimName::new([1; 8], number),
            not_after_ms: NOW_MS,
            lease: LEASE,
            ahead: Duration::ZERO,
            most: 500,
            bytes: 1 << 20,
            rotation: number,
            hints: Hints::default(),
            back_before_ms: None,
        }
    }

    async fn settle(&mut self, name: ClaimName, element: &Element, step: SettleOp) {
        let verdict =
            SettleCommand { claim: name, part: element.part(), member: element.member.clone(), step, body: None };
        let list = Bytes::from_static(PUSHED.as_bytes());
        let what = format!("{verdict:?}");
        let answer = Claims::settle(&self.store, &[verdict], Some(&list), Some(10)).await;
        self.tell(&what, answer).await;
    }

    /// Runs every call with the present rights.
    async fn run(&mut self) {
        self.fill().await;
        let answer = Claims::claim(&self.store, &self.request(1)).await;
        self.tell("claim", answer).await;
        // One element near the end of L.
        let one = element(b'z');
        redis::pipe()
            .zadd(&self.keys.delayed[..], &one[..], NOW_MS - 1)
            .rpush(&self.keys.list[..], &one[..])
            .exec_async(&mut self.rig.redis)
            .await
            .expect("offer one");
        self.everything.push(one);
        self.everything.sort();
        let answer = Claims::claim(&self.store, &self.request(2)).await;
        self.tell("claim of one", answer).await;
        let name = self.request(1).name;
        let answer = Claims::extend(&self.store, LEASE, NOW_MS, &[name]).await;
        self.tell("extend", answer).await;
        let answer = self.store.contents(name).await;
        let elements = self.tell("contents", answer).await.map(|contents| contents.elements).unwrap_or_default();
        let (entries, bare): (Vec<_>, Vec<_>) = elements.into_iter().partition(|e| e.part() == Part::Entries);
        for (n, element) in bare.iter().chain(&entries).enumerate().filter(|(n, _)| *n < 4 || *n == 7) {
            let header = header(10 + n as u32);
            let step = match n {
                0 | 7 => SettleOp::Retry { header, delay_ms: 1 },
                1 => SettleOp::Progress { header },
                2 => SettleOp::Dead { fields: vec![("element", element.bytes())] },
                _ => SettleOp::Push { side: Side::Right, body: element.bytes() },
            };
            self.settle(name, element, step).await;
        }
        let expired =
            redis::cmd("ZADD").arg(&self.names.leases()[..]).arg("XX").arg(1).arg(name.to_string()).to_owned();
        self.rig.run(&mut expired.clone()).await;
        for (number, most) in [(3, 1), (4, 500)] {
            let new = name.taken_over_by([2; 8], number);
            let request = TakeOverRequest {
                old: name,
                new,
                not_after_ms: NOW_MS,
                lease: LEASE,
                most,
                bytes: 1 << 20,
                largest: 0,
            };
            let answer = self.store.take_over(&request).await;
            self.tell("take over", answer).await;
        }
        // Confirmed elements are removed or not; nothing else is.
        let answer = self.store.confirm(&[Whole { name: self.request(2).name, bare: 1, entries: 0 }]).await;
        if matches!(answer.as_deref(), Ok([delaybridge_ledger::claims::Confirmed::Done])) {
            self.everything.retain(|e| *e != element(b'z'));
        }
        self.tell("confirm", answer).await;
        let answer = self.store.bury(NOW_MS - 1, &[self.request(2).name]).await;
        self.tell("bury", answer).await;
    }
}

#[tokio::test]
async fn a_missing_right_leaves_every_element_where_it_was() {
    let rig = Rig::as_user("least").await;
    if rig.server.major() < 7 {
        return; // rights on single keys came with Redis 7
    }
    let redisson = source("orders", 1, ListCleanup::Auto);
    let store = RedisStore::new(rig.link.clone(), redisson.source().clone(), [1; 8]);
    let keys = redisson.keys.clone();
    let names = Names::of(&redisson.keys.tag);
    let all = rights(&keys, &names);
    let mut flow = Flow { rig, store, keys, names, everything: Vec::new(), denied: Vec::new() };
    flow.allow(&all).await;
    flow.run().await;
    assert!(flow.denied.is_empty(), "the full list of rights is not enough: {:?}", flow.denied);
    let mut missed = 0;
    for without in 0..all.len() {
        let mut rights = all.clone();
        let (keys, right) = rights.remove(without);
        flow.allow(&rights).await;
        let run = super::runner::panic_of(flow.run()).await;
        assert!(run.is_none(), "without {right} on {keys:?}: {}", run.unwrap_or_default());
        missed += usize::from(!flow.denied.is_empty());
    }
    assert!(missed > 30, "only {missed} of {} were missed", all.len());
}
