//! A key of a wrong type: every call that uses it reports it, and changes nothing.

use std::time::Duration;

use bytes::Bytes;
use delaybridge_ledger::claims::{ClaimName, ClaimRequest, Header, Part, SettleCommand, SettleOp, TakeOverRequest};
use delaybridge_ledger::redis::RedisStore;
use delaybridge_ledger::store::Claims;
use delaybridge_ledger::{Answer, DeadLetter, Hints, Located, Place, Removal, Start, StoreError, UpkeepRequest};
use delaybridge_link::{Score, Side};
use delaybridge_source::redisson::{Keys, ListCleanup, Redisson};

use super::rig::{Rig, source};
use super::snapshot::Names;
use super::world::LEASE;

const NOW_MS: i64 = 1_800_000_000_000;

/// A packed element, long enough to be recorded.
fn element(letter: u8) -> Vec<u8> {
    [&b"\x08RANDOM8B\x05\0\0\0\0\0\0\0hell"[..], &[letter]].concat()
}

/// A claim of the caller with a valid lease, and one of another owner with an expired lease.
fn names() -> (ClaimName, ClaimName) {
    (ClaimName::new([1; 8], 1), ClaimName::new([2; 8], 1))
}

struct Queue {
    rig: Rig,
    store: RedisStore,
    redisson: Redisson,
    keys: Keys,
    names: Names,
}

impl Queue {
    async fn start() -> Queue {
        let rig = Rig::with_all_rights().await;
        let redisson = source("orders", 1, ListCleanup::Auto);
        let store = RedisStore::new(rig.link.clone(), redisson.source().clone(), [1; 8]);
        Queue { rig, store, names: Names::of(&redisson.keys.tag), keys: redisson.keys.clone(), redisson }
    }

    fn key(&self, name: ClaimName, part: Part) -> Bytes {
        self.names.claim(&name.to_string().into(), part)
    }

    /// Puts something under every key, and something to do for every call.
    async fn fill(&mut self) {
        self.rig.run(&mut redis::cmd("FLUSHALL")).await;
        self.rig.set_clock(NOW_MS * 1000).await;
        let (own, other) = names();
        let entry = |letter| [Header::new(NOW_MS).encode(), element(letter)].concat();
        let mut pipe = redis::pipe();
        for letter in b'a'..b'f' {
            pipe.zadd(&self.keys.delayed[..], element(letter), NOW_MS - 1);
            pipe.rpush(&self.keys.list[..], element(letter));
        }
        for name in [own, other] {
            pipe.zadd(&self.key(name, Part::Bare)[..], element(b'x'), NOW_MS - 1);
            pipe.zadd(&self.key(name, Part::Entries)[..], entry(b'x'), NOW_MS - 1);
        }
        pipe.zadd(&self.names.leases()[..], own.to_string(), NOW_MS + 1)
            .zadd(&self.names.leases()[..], other.to_string(), NOW_MS - 1)
            .rpush(&self.keys.ready[..], "payload")
            .zadd(&self.keys.retry[..], entry(b'r'), NOW_MS - 1)
            .sadd(&self.keys.ghosts[..], "a ghost")
            .sadd(&self.keys.ghosts_turn[..], "another")
            .hset(&self.keys.sweep[..], "oldest", 1)
            .cmd("XADD")
            .arg(&self.keys.dead[..])
            .arg("1-1")
            .arg("element")
            .arg("x");
        pipe.exec_async(&mut self.rig.redis).await.expect("fill the queue");
    }

    fn claim(&self) -> ClaimRequest {
        ClaimRequest {
            name: ClaimName::new([1; 8], 2),
            not_after_ms: NOW_MS,
            lease: LEASE,
            ahead: Duration::ZERO,
            most: 500,
            bytes: 1 << 20,
            rotation: 1,
            hints: Hints::default(),
            back_before_ms: None,
        }
    }

    async fn call(&self, call: &str) -> Result<(), StoreError> {
        let (own, other) = names();
        let verdict =
            |step| [SettleCommand { claim: own, part: Part::Bare, member: element(b'x').into(), step, body: None }];
        let retry = SettleOp::Retry { header: Header::new(NOW_MS), delay_ms: 1 };
        let take_over = TakeOverRequest {
            old: other,
            new: other.taken_over_by([1; 8], 3),
            not_after_ms: NOW_MS,
            lease: LEASE,
            most: 500,
            bytes: 1 << 20,
            largest: 0,
        };
        let conn = &self.rig.conn;
        let member = Bytes::from([Header::new(NOW_MS).encode(), element(b'r')].concat());
        let located = |place, key: &Bytes, member: Bytes| Located {
            place,
            key: key.clone(),
            member,
            score: Some(Score::of_ms(NOW_MS - 1)),
            claim: None,
        };
        let scheduled = |element: Vec<u8>| located(Place::Scheduled, &self.keys.delayed, element.into());
        let waiting = |member| located(Place::Retry, &self.keys.retry, member);
        let sweep =
            UpkeepRequest { step: None, max_age: Duration::ZERO, bandwidth: 1 << 20, start: Start::Urgent, largest: 0 };
        match call {
            "claim" => Claims::claim(&self.store, &self.claim()).await.map(drop),
            "claim of one" => Claims::claim(&self.store, &ClaimRequest { most: 1, ..self.claim() }).await.map(drop),
            "take over" => self.store.take_over(&take_over).await.map(drop),
            "take over one" => self.store.take_over(&TakeOverRequest { most: 1, ..take_over }).await.map(drop),
            "expired" => self.store.expired(NOW_MS, 10).await.map(drop),
            "extend" => Claims::extend(&self.store, LEASE, NOW_MS, &[own]).await.map(drop),
            "contents" => self.store.contents(own).await.map(drop),
            "settle" => Claims::settle(&self.store, &verdict(retry), None, None).await.map(drop),
            "bury" => self.store.bury(NOW_MS - 1, &[own]).await.map(drop),
            "sweep" => self.redisson.sweep(conn, &sweep).await.map(drop),
            "sweep a slice" => self.redisson.sweep(conn, &UpkeepRequest { step: Some(1), ..sweep }).await.map(drop),
            "offer" => self.redisson.offer(conn, Bytes::from_static(b"new"), Duration::ZERO).await.map(drop),
            "remove" => self.redisson.remove(conn, &scheduled(element(b'a')), &Removal::ForGood).await.map(drop),
            "remove in retry" => self.redisson.remove(conn, &waiting(member), &Removal::ForGood).await.map(drop),
            "reschedule" => self.redisson.reschedule(conn, &scheduled(element(b'a')), NOW_MS, None).await.map(drop),
            "reschedule in retry" => self.redisson.reschedule(conn, &waiting(member), NOW_MS, None).await.map(drop),
            "redrive" => {
                let letter = DeadLetter { stream_id: "1-1".to_owned(), fields: Vec::new() };
                self.redisson.redrive(conn, &letter, member, None).await.map(drop)
            }
            "forward" => self.redisson.forwarded(conn, LEASE, &["1-1".to_owned()]).await.map(drop),
            "stats" => self.redisson.stats(conn).await.map(drop),
            "in flight" => self.store.in_flight().await.map(drop),
            other => panic!("no call {other}"),
        }
    }
}

#[tokio::test]
async fn a_key_of_a_wrong_type_is_reported_and_nothing_is_changed() {
    let mut queue = Queue::start().await;
    let Keys { delayed: z, list: l, ready, ghosts, ghosts_turn: turn, sweep, .. } = queue.keys.clone();
    let retry = queue.keys.retry.clone();
    let dead = queue.keys.dead.clone();
    let leases = queue.names.leases().clone();
    let (own, other) = names();
    let [own_d, own_h, other_d, other_h] =
        [(own, Part::Bare), (own, Part::Entries), (other, Part::Bare), (other, Part::Entries)]
            .map(|(name, part)| queue.key(name, part));
    let state = queue.keys.state.clone();
    let table: [(&str, Vec<&Bytes>); 20] = [
        ("claim", vec![&z, &l, &ready, &leases, &retry, &ghosts, &turn, &sweep]),
        ("claim of one", vec![&z, &l, &ready, &leases, &retry, &ghosts, &turn, &sweep]),
        ("take over", vec![&leases, &other_d, &other_h]),
        ("take over one", vec![&leases, &other_d, &other_h]),
        ("expired", vec![&leases]),
        ("extend", vec![&leases]),
        ("contents", vec![&own_d, &own_h]),
        ("settle", vec![&own_d, &own_h, &retry, &dead]),
        ("bury", vec![&leases]),
        ("in flight", vec![&leases, &own_d, &own_h]),
        ("sweep", vec![&z, &l, &ghosts, &turn, &sweep]),
        ("sweep a slice", vec![&z, &l, &ghosts, &turn, &sweep]),
        ("offer", vec![&z, &l]),
        ("remove", vec![&z, &l, &ghosts, &sweep, &dead]),
        ("remove in retry", vec![&retry, &dead]),
        ("reschedule", vec![&z]),
        ("reschedule in retry", vec![&retry]),
        ("redrive", vec![&dead, &retry]),
        ("forward", vec![&dead, &state]),
        ("stats", vec![&z, &l, &ready, &retry, &ghosts, &turn, &sweep, &dead]),
    ];
    for (call, keys) in table {
        // The error of a single command names no key.
        let script = !["expired", "contents", "in flight"].contains(&call);
        for key in keys {
            queue.fill().await;
            if call == "sweep a slice" {
                queue.call("sweep").await.expect("a turn begins");
            }
            queue.rig.run(redis::cmd("DEL").arg(&key[..])).await;
            queue.rig.run(redis::cmd("SET").arg(&key[..]).arg("a text")).await;
            let before = queue.rig.dump().await;
            let name = String::from_utf8_lossy(key);
            match queue.call(call).await {
                Err(error) if script => {
                    assert_eq!(error.code(), Some("WRONGKEY"), "{call} with {name}: {error}");
                    assert!(error.to_string().contains(&*name), "{call} with {name}: {error}");
                }
                Err(error) => assert_eq!(error.code(), Some("WRONGTYPE"), "{call} with {name}"),
                answer => panic!("{call} with a text in {name} answered {answer:?}"),
            }
            assert!(queue.rig.dump().await == before, "{call} with a text in {name} changed something");
        }
        queue.fill().await;
        queue.call(call).await.unwrap_or_else(|e| panic!("{call} with all types right: {e}"));
    }
}

#[tokio::test]
async fn a_claim_of_one_that_looks_at_less_names_a_key_of_a_wrong_type_as_well() {
    let mut queue = Queue::start().await;
    for key in [queue.keys.delayed.clone(), queue.keys.list.clone(), queue.names.leases().clone()] {
        queue.rig.run(&mut redis::cmd("FLUSHALL")).await;
        queue.rig.set_clock(NOW_MS * 1000).await;
        let z = queue.keys.delayed.clone();
        let l = queue.keys.list.clone();
        let mut pipe = redis::pipe();
        pipe.zadd(&z[..], element(b'a'), NOW_MS - 1).rpush(&l[..], element(b'a')).del(&key[..]);
        pipe.set(&key[..], "a text").exec_async(&mut queue.rig.redis).await.expect("one element");
        let before = queue.rig.dump().await;
        let error = queue.call("claim").await.unwrap_err().to_string();
        assert!(error.contains(&*String::from_utf8_lossy(&key)), "{error}");
        assert!(queue.rig.dump().await == before);
    }
}

#[tokio::test]
async fn a_push_to_what_is_no_list_is_refused_and_its_neighbours_are_settled() {
    let mut queue = Queue::start().await;
    queue.fill().await;
    let list = Bytes::from_static(b"no list");
    queue.rig.run(redis::cmd("SET").arg(&list[..]).arg("a text")).await;
    let (claim, _) = names();
    let verdict = |step| SettleCommand { claim, part: Part::Bare, member: element(b'x').into(), step, body: None };
    let push = verdict(SettleOp::Push { side: Side::Right, body: Bytes::from_static(b"hello") });
    let before = queue.rig.dump().await;
    let settled = Claims::settle(&queue.store, std::slice::from_ref(&push), Some(&list), None).await.unwrap();
    assert_eq!(settled.answers, [Answer::WrongType]);
    assert!(queue.rig.dump().await == before);
    let batch = [push, verdict(SettleOp::Release { header: Header::new(NOW_MS), at_ms: 5 })];
    let settled = Claims::settle(&queue.store, &batch, Some(&list), None).await.unwrap();
    assert_eq!(settled.answers, [Answer::WrongType, Answer::Done]);
}
