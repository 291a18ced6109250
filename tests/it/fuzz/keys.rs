//! Records, states, names of leases, entries and limits of arbitrary bytes in every key of the daemon, and keys of
//! other types. A script affects no neighbour of an unreadable item, and writes nothing before it has checked the types
//! of its keys.

use std::collections::BTreeSet;

use bytes::Bytes;
use delaybridge_core::message::MessageId;
use delaybridge_jobs::{JobError, JobSettings, JobState, KINDS, LocalId, NewJob, Release, SCRIPTS, Token, Which};
use delaybridge_ledger::Hints;
use delaybridge_ledger::claims::{ClaimName, ClaimReply, ClaimRequest, Header, TakeOverReply, TakeOverRequest};
use delaybridge_ledger::redis::RedisStore;
use delaybridge_ledger::store::Claims;
use delaybridge_source::redisson::ListCleanup;
use delaybridge_source::redisson::layout::{self, Layout};

use super::*;
use crate::claims::rig::{Rig as Claiming, source};
use crate::jobs::rig::{Rig, key, topic};

/// A damaged item of the daemon, or bytes of another program.
fn strange(random: &mut Rng, ours: &[u8]) -> Vec<u8> {
    match random.u8(..3) {
        0 => noise(random, 60),
        1 => ours[..random.usize(..ours.len())].to_vec(),
        _ => damaged(random, ours.to_vec()),
    }
}

fn score(random: &mut Rng) -> &'static str {
    random.choice(["-inf", "+inf", "0", "-1", "1.5", "1e300", "1700000000000", "9007199254740993"]).unwrap_or("0")
}

/// A record as the daemon writes it.
fn record(random: &mut Rng) -> Vec<u8> {
    let times = [random.u64(..), [0, random.u64(..)][random.usize(..2)]].map(u64::to_le_bytes).concat();
    let numbers = [random.u32(..), random.u32(..)].map(u32::to_le_bytes).concat();
    [&[1, random.u8(..2)][..], &times, &numbers, &[4], b"text", &noise(random, 30)].concat()
}

fn state(random: &mut Rng) -> Vec<u8> {
    let numbers = (0..3).flat_map(|_| random.u32(..5).to_le_bytes()).collect::<Vec<_>>();
    [&[random.u8(..2)][..], &numbers, &[0; 16], Token::random().as_str().as_bytes(), b"ttr"].concat()
}

/// Checks that a call succeeded, or found that the job is not the caller's any more.
fn answered<T>(what: &str, answer: Result<T, JobError>) {
    match answer {
        Ok(_) | Err(JobError::Conflict | JobError::NotFound) => {}
        Err(error) => panic!("{what}: {error}"),
    }
}

#[tokio::test]
async fn a_job_of_ours_is_served_whatever_is_beside_it() {
    let mut rig = Rig::start().await;
    let mut random = seeded("keys of jobs");
    let started = Instant::now();
    let mut runs = 0_u64;
    let settings = JobSettings::default();
    while started.elapsed() < time() || runs < 12 {
        runs += 1;
        redis::cmd("FLUSHALL").exec_async(&mut rig.redis).await.expect("empty the server");
        let jobs = rig.queue(settings.clone(), &SCRIPTS);
        let ids: BTreeSet<LocalId> = (0..5).map(|n| format!("good-{n}").parse().expect("an id")).collect();
        let good =
            |id: &LocalId| NewJob { id: Some(id.clone()), tries: Some(1_000), ..NewJob::new(format!("body {id}")) };
        jobs.add(&topic(), ids.iter().map(good).collect()).await.expect("add");
        let held = jobs.pop_now(&topic(), 2, None).await.expect("pop").jobs;
        jobs.bury(&held[0].id, held[0].token, "").await.expect("bury");

        let mut strangers = redis::pipe();
        for n in 0..random.usize(1..12) {
            let id = if random.bool() { noise(&mut random, 12) } else { format!("strange-{n}").into_bytes() };
            for (word, kind) in &KINDS[..7] {
                if random.bool() {
                    continue;
                }
                match (*kind, *word) {
                    ("zset", _) => {
                        let _ = strangers.cmd("ZADD").arg(key(word)).arg(score(&mut random)).arg(&id).ignore();
                    }
                    (_, "records") => {
                        let ours = record(&mut random);
                        let bytes = if random.u8(..4) == 0 { ours } else { strange(&mut random, &ours) };
                        strangers.hset(key(word), &id, bytes).ignore();
                    }
                    _ => {
                        let ours = state(&mut random);
                        let bytes = if random.u8(..4) == 0 { ours } else { strange(&mut random, &ours) };
                        strangers.hset(key(word), &id, bytes).ignore();
                    }
                }
            }
            strangers.zadd("delaybridge:jobs:topics", &id, 0).ignore();
        }
        let field = random.choice([
            "ttr",
            "tries",
            "ttl",
            "max_jobs",
            "max_body",
            "dead_max_len",
            "dead_ttl",
            "backoff",
            "backoff_max",
        ]);
        // A number would be a limit.
        let value = [&b"?"[..], &noise(&mut random, 10)].concat();
        strangers.hset(key("topic"), field.unwrap_or("ttr"), value).ignore();
        strangers.exec_async(&mut rig.redis).await.expect("what strangers write");

        // No call refuses, or affects others.
        let mut seen = BTreeSet::new();
        for call in 0..random.usize(10..30) {
            match random.u8(..9) {
                0 => answered("tick", jobs.tick(&topic(), 10).await),
                1 => answered("redrive", jobs.redrive(&topic(), Which::Oldest(3), None).await),
                2 => answered("sizes", jobs.sizes(&topic()).await),
                3 => answered("topics", jobs.topics(None, 2).await),
                4 => answered("limits", jobs.allowed(&topic()).await),
                5 => answered("recover", jobs.recover(&topic(), Token::random()).await),
                6 => {
                    let state = random.choice(JobState::ALL).unwrap_or(JobState::Dead);
                    answered("peek", jobs.peek(&topic(), state, random.u64(..4), 5).await);
                    answered("unreadable", jobs.unreadable(&topic(), state, 0).await);
                }
                7 => {
                    let fresh = NewJob { id: Some(format!("late-{call}").parse().expect("an id")), ..NewJob::new("x") };
                    let added = jobs.add(&topic(), vec![fresh]).await.expect("add beside strangers");
                    assert!(added[0].created);
                    answered("get", jobs.get(&added[0].id).await);
                    answered("delete", jobs.delete(&added[0].id).await);
                }
                _ => {
                    for job in
                        jobs.pop_now(&topic(), random.usize(1..4), None).await.expect("pop beside strangers").jobs
                    {
                        answered("touch", jobs.touch(&job.id, job.token, None).await);
                        if ids.contains(&job.id.local) && job.attempt < 4 && random.bool() {
                            let given = jobs.release(&job.id, job.token, Duration::ZERO, Release::Counted, "").await;
                            given.expect("a job of ours is given back");
                        } else if jobs.finish(&job.id, job.token).await.is_ok() {
                            seen.insert(job.id.local);
                        }
                    }
                }
            }
        }
        jobs.finish(&held[1].id, held[1].token).await.expect("what was handed out before is finished");
        seen.insert(held[1].id.local.clone());
        // All jobs of the test are there, and nothing else remains of them.
        for _ in 0..40 {
            answered("redrive", jobs.redrive(&topic(), Which::Oldest(100), None).await);
            for job in jobs.pop_now(&topic(), 100, None).await.expect("pop").jobs {
                answered("finish", jobs.finish(&job.id, job.token).await.map(|()| seen.insert(job.id.local)));
            }
            if ids.is_subset(&seen) {
                break;
            }
        }
        assert!(ids.is_subset(&seen), "served: {seen:?}");
    }
    println!("keys of jobs: {runs} inputs");
}

#[tokio::test]
async fn no_call_on_jobs_writes_before_it_knows_the_type_of_every_key() {
    let mut rig = Rig::start().await;
    let mut random = seeded("types of keys of jobs");
    let started = Instant::now();
    let mut runs = 0_u64;
    while started.elapsed() < time() || runs < 12 {
        runs += 1;
        redis::cmd("FLUSHALL").exec_async(&mut rig.redis).await.expect("empty the server");
        let jobs = rig.queue(JobSettings::default(), &SCRIPTS);
        let new = |id: &str| NewJob {
            id: Some(id.parse().expect("an id")),
            ttl: Some(Duration::from_secs(900)),
            ..NewJob::new("x")
        };
        jobs.add(&topic(), ["a", "b", "c", "d"].map(new).into()).await.expect("add");
        let held = jobs.pop_now(&topic(), 2, None).await.expect("pop").jobs;
        jobs.bury(&held[0].id, held[0].token, "").await.expect("bury");
        let (word, kind) = random.choice(KINDS).unwrap_or(KINDS[0]);
        let mut spoil = redis::pipe();
        spoil.del(key(word)).ignore();
        match random.u8(..3) {
            0 => spoil.set(key(word), "of another program").ignore(),
            1 => spoil.rpush(key(word), "of another program").ignore(),
            _ if kind == "zset" => spoil.hset(key(word), "of", "another").ignore(),
            _ => spoil.zadd(key(word), "of another program", 1).ignore(),
        };
        spoil.exec_async(&mut rig.redis).await.expect("spoil a key");
        for _ in 0..12 {
            let before = rig.save().await;
            let refused = match random.u8(..7) {
                0 => jobs.tick(&topic(), 10).await.err(),
                1 => jobs.redrive(&topic(), Which::Oldest(3), None).await.err(),
                2 => jobs.purge(&topic(), Which::Oldest(3)).await.err(),
                3 => jobs.add(&topic(), vec![new("e")]).await.err(),
                4 => jobs.pop_now(&topic(), 2, Some(Duration::from_millis(1))).await.err(),
                5 => jobs.release(&held[1].id, held[1].token, Duration::ZERO, Release::Counted, "").await.err(),
                _ => jobs.finish(&held[1].id, held[1].token).await.err(),
            };
            if let Some(error) = refused.filter(|error| !matches!(error, JobError::Conflict | JobError::NotFound)) {
                assert!(error.to_string().contains("WRONGKEY"), "{word}: {error}");
                assert!(before == rig.save().await, "{word}: something was written before the refusal");
            }
        }
    }
    println!("types of keys of jobs: {runs} inputs");
}

#[tokio::test]
async fn an_element_of_ours_is_claimed_whatever_is_beside_it() {
    let mut rig = Claiming::with_all_rights().await;
    let mut random = seeded("keys of claims");
    let started = Instant::now();
    let mut runs = 0_u64;
    while started.elapsed() < time() || runs < 12 {
        runs += 1;
        rig.run(&mut redis::cmd("FLUSHALL")).await;
        let now_ms = 1_800_000_000_000;
        rig.set_clock(now_ms * 1000).await;
        let store = RedisStore::new(rig.link.clone(), source("orders", 1, ListCleanup::Auto).source().clone(), [1; 8]);
        let element = |n: u64| layout::pack(Layout::New, MessageId(n.to_be_bytes()), b"payload");
        let orphan = "1.0909090909090909.7.0";
        let own = |word: &str| format!("delaybridge:{word}:{{orders}}");
        let of_claim = |part: &str| format!("delaybridge:claim:{orphan}:{part}:{{orders}}");
        let entry = |n: u64| [Header::new(now_ms).encode(), element(n)].concat();
        let mut add = redis::pipe();
        add.zadd("redisson_delay_queue_timeout:{orders}", element(1), now_ms - 1).ignore();
        add.zadd(own("retry"), entry(2), now_ms - 1).ignore();
        add.zadd(of_claim("d"), element(3), now_ms - 1).zadd(of_claim("h"), entry(4), now_ms - 1).ignore();
        add.zadd(own("leases"), orphan, now_ms - 1).ignore();
        for n in 0..random.usize(1..30) {
            let name = strange(&mut random, orphan.as_bytes());
            if name.starts_with(b"1.") && std::str::from_utf8(&name).is_ok_and(|name| name.parse::<ClaimName>().is_ok())
            {
                continue;
            }
            let written = entry(100 + n as u64);
            add.cmd("ZADD").arg(own("leases")).arg(score(&mut random)).arg(name).ignore();
            let at = random.choice(["-inf", "0", "1.5", "1e300"]).unwrap_or("0");
            add.cmd("ZADD").arg(own("retry")).arg(at).arg(strange(&mut random, &written)).ignore();
            if random.u8(..4) == 0 {
                add.cmd("ZADD").arg(of_claim("h")).arg(at).arg(strange(&mut random, &written)).ignore();
            }
        }
        add.hset(own("state"), noise(&mut random, 10), noise(&mut random, 10)).ignore();
        add.exec_async(&mut rig.redis).await.expect("what strangers write");

        let wanted: BTreeSet<Bytes> = (1..=4).map(|n| Bytes::from(element(n))).collect();
        let mut found = BTreeSet::new();
        let mut number = 0;
        let mut turns = 0;
        let mut not_after = || {
            number += 1;
            (number, now_ms + 1_000)
        };
        while !wanted.is_subset(&found) {
            turns += 1;
            assert!(turns < 500, "found {} of ours", found.intersection(&wanted).count());
            let (number, not_after_ms) = not_after();
            let request = ClaimRequest {
                name: ClaimName::new([1; 8], number),
                not_after_ms,
                lease: Duration::from_secs(30),
                ahead: Duration::ZERO,
                most: random.usize(1..20),
                bytes: 1 << 20,
                rotation: number,
                hints: Hints::default(),
                back_before_ms: None,
            };
            match store.claim(&request).await.expect("a claim beside strangers") {
                ClaimReply::Claimed(claimed) => found.extend(claimed.elements.iter().map(|element| element.bytes())),
                other => panic!("{other:?}"),
            }
            let (names, _) = store.expired(now_ms, 10).await.expect("the leases beside strangers");
            for old in names {
                let (number, not_after_ms) = not_after();
                let request = TakeOverRequest {
                    old,
                    new: old.taken_over_by([1; 8], number),
                    not_after_ms,
                    lease: Duration::from_secs(30),
                    most: 50,
                    bytes: 1 << 20,
                    largest: 0,
                };
                if let TakeOverReply::Taken { elements, .. } = store.take_over(&request).await.expect("a takeover") {
                    found.extend(elements.iter().map(|element| element.bytes()));
                }
            }
        }
    }
    println!("keys of claims: {runs} inputs");
}
