//! Situations that a random schedule seldom reaches: a full server, foreign keys, late calls, manual damage, batches at
//! their limits.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use delaybridge_jobs::{
    Due, JobChange, JobError, JobId, JobState, LocalId, MAX_BATCH, NewJob, Release, SCRIPTS, Scripts, Token, Topic,
    TopicSettings, Unique, UniqueKey, UniqueUntil, Which,
};
use delaybridge_link::Clock;
use futures_util::StreamExt;
use redis::AsyncCommands;

use super::random::settings;
use super::rig::{Rig, key, on_test_clock, topic};
use harness::ServerOptions;

const NOW: i64 = 1_800_000_000_000;

fn unlimited() -> delaybridge_jobs::JobSettings {
    let mut settings = settings();
    settings.defaults = TopicSettings { max_jobs: None, dead_max_len: None, ..settings.defaults };
    settings
}

fn job(body: impl Into<bytes::Bytes>) -> NewJob {
    NewJob::new(body)
}

#[tokio::test]
async fn a_full_server_takes_no_job_and_lets_all_out() {
    let options = ServerOptions::default().max_memory("4mb").line("maxmemory-policy", "noeviction");
    let mut rig = Rig::start_with(options).await;
    rig.begin(NOW).await;
    let jobs = rig.queue(unlimited(), on_test_clock());
    let mut added = 0;
    let error = loop {
        match jobs.add(&topic(), (0..50).map(|_| job(vec![b'x'; 1000])).collect()).await {
            Ok(more) => added += more.len(),
            Err(error) => break error,
        }
        assert!(added < 20_000);
    };
    assert!(matches!(&error, JobError::Unavailable(error) if error.code() == Some("OOM")), "{error}");
    assert!(!error.outcome_unknown());
    let seen = rig.snapshot().await;
    assert_eq!((seen.due.len(), seen.records.len()), (added, added), "nothing of the refused batch is there");
    // A full server can be drained: taken, released, buried, redriven, finished.
    let mut finished = 0;
    let mut buried = 0;
    let mut released = 0;
    while finished < added {
        let popped = jobs.pop_now(&topic(), 100, None).await.expect("pop on a full server").jobs;
        if popped.is_empty() && buried > 0 {
            buried -= jobs.redrive(&topic(), Which::Oldest(100), None).await.expect("redrive on a full server");
            continue;
        }
        assert!(!popped.is_empty(), "{finished} of {added}");
        for (n, job) in popped.iter().enumerate() {
            match n {
                0 if released < 20 => {
                    let how = Release::Uncounted;
                    jobs.release(&job.id, job.token, Duration::ZERO, how, "").await.expect("release");
                    released += 1;
                }
                1 if finished == 0 => {
                    jobs.bury(&job.id, job.token, "").await.expect("bury");
                    buried += 1;
                }
                2 => {
                    let _ = jobs.touch(&job.id, job.token, Some(Duration::from_secs(9))).await.expect("touch");
                }
                _ => {}
            }
        }
        let rest: Vec<_> = popped.iter().map(|job| (job.id.local.clone(), job.token)).collect();
        let results = jobs.finish_all(&topic(), &rest).await.expect("finish on a full server");
        finished += results.iter().filter(|result| result.is_ok()).count();
    }
    let seen = rig.snapshot().await;
    assert!(seen.records.is_empty() && seen.state.is_empty() && seen.due.is_empty(), "{seen:?}");
}

#[tokio::test]
async fn a_key_of_another_program_is_not_touched() {
    let mut rig = Rig::start().await;
    let jobs = rig.queue(unlimited(), on_test_clock());
    for word in ["due", "reserved", "records", "state", "dead", "expiry", "gone", "topic"] {
        rig.begin(NOW).await;
        // A job that uses every key: with an id of its own, and a time to live.
        let own = |id: &'static str| NewJob { id: id.parse().ok(), ttl: Some(Duration::from_secs(60)), ..job(id) };
        jobs.add(&topic(), vec![own("a"), own("b")]).await.expect("add");
        let held = jobs.pop_now(&topic(), 1, None).await.expect("pop").jobs.remove(0);
        let _: () = rig.redis.del(key(word)).await.expect("delete");
        let _: () = rig.redis.set(key(word), "theirs").await.expect("set");
        let before: Vec<Vec<u8>> = dump(&mut rig).await;
        let id = &held.id;
        // These calls check the keys that they read or write, the others check all.
        let uses = |keys: &[&str]| keys.contains(&word);
        let add =
            if uses(&["reserved", "state", "dead"]) { None } else { jobs.add(&topic(), vec![own("c")]).await.err() };
        let pop = if uses(&["dead", "expiry", "gone"]) { None } else { jobs.pop_now(&topic(), 1, None).await.err() };
        let finish = if uses(&["due", "dead", "topic"]) { None } else { jobs.finish(id, held.token).await.err() };
        assert_eq!(add.is_none(), uses(&["reserved", "state", "dead"]), "{word}");
        assert_eq!(pop.is_none(), uses(&["dead", "expiry", "gone"]), "{word}");
        assert_eq!(finish.is_none(), uses(&["due", "dead", "topic"]), "{word}");
        let quick = [add, pop, finish].into_iter().flatten().map(Some);
        let errors = [
            jobs.bury(id, held.token, "").await.err(),
            jobs.touch(id, held.token, None).await.err(),
            jobs.delete(id).await.err(),
            jobs.get(id).await.err(),
            jobs.peek(&topic(), JobState::Ready, 0, 1).await.err(),
            jobs.sizes(&topic()).await.err(),
            jobs.tick(&topic(), 10).await.err(),
            jobs.redrive(&topic(), Which::Oldest(1), None).await.err(),
            jobs.purge(&topic(), Which::Oldest(1)).await.err(),
            jobs.recover(&topic(), held.token).await.err(),
        ];
        for error in quick.chain(errors) {
            let error = error.unwrap_or_else(|| panic!("{word}: it was accepted"));
            assert!(
                matches!(&error, JobError::Unavailable(error) if error.code() == Some("WRONGKEY")),
                "{word}: {error}"
            );
        }
        assert_eq!(dump(&mut rig).await, before, "{word}");
    }
}

async fn dump(rig: &mut Rig) -> Vec<Vec<u8>> {
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut rig.redis).await.expect("keys");
    keys.sort();
    let mut all = Vec::new();
    for key in keys.iter().filter(|key| !key.contains("test:clock")) {
        all.push(redis::cmd("DUMP").arg(key).query_async(&mut rig.redis).await.expect("dump"));
    }
    all
}

#[tokio::test]
async fn what_was_damaged_by_hand_jams_nothing() {
    let mut rig = Rig::start().await;
    rig.begin(NOW).await;
    let jobs = rig.queue(unlimited(), on_test_clock());
    let id = |n: usize| format!("own-{n}").parse::<LocalId>().expect("an id");
    let own = |n: usize| NewJob { id: Some(id(n)), ttl: Some(Duration::from_secs(90)), ..job(format!("{n}")) };
    jobs.add(&topic(), (0..5).map(own).collect()).await.expect("add");
    // A due id without a record, a reserved one without a record, a reserved one without a state.
    let _: () = rig.redis.hdel(key("records"), "own-0").await.expect("hdel");
    let popped = jobs.pop_now(&topic(), 3, None).await.expect("pop").jobs;
    assert_eq!(popped.iter().map(|job| job.id.local.to_string()).collect::<Vec<_>>(), ["own-1", "own-2"]);
    let _: () = rig.redis.hdel(key("records"), "own-1").await.expect("hdel");
    let _: () = rig.redis.hdel(key("state"), "own-2").await.expect("hdel");
    assert!(matches!(jobs.finish(&popped[1].id, popped[1].token).await, Err(JobError::Conflict)));
    rig.set_clock(NOW + 10_000).await;
    let popped = jobs.pop_now(&topic(), 9, None).await.expect("pop").jobs;
    let mut ids: Vec<_> = popped.iter().map(|job| job.id.local.to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["own-2", "own-3", "own-4"]);
    for job in popped {
        jobs.finish(&job.id, job.token).await.expect("finish");
    }
    let seen = rig.snapshot().await;
    assert!(seen.due.is_empty() && seen.reserved.is_empty() && seen.state.is_empty(), "{seen:?}");
    assert!(seen.expiry.is_empty(), "{seen:?}");
}

#[tokio::test]
async fn a_pop_that_arrives_too_late_takes_nothing() {
    let mut rig = Rig::start().await;
    rig.begin(NOW).await;
    let jobs = rig.queue(unlimited(), on_test_clock());
    jobs.add(&topic(), vec![job("a")]).await.expect("add");
    // The clock advances while the call is under way; the second sending sees that.
    rig.set_clock(NOW + 3_600_000).await;
    let popped = jobs.pop_now(&topic(), 1, None).await.expect("pop");
    assert_eq!(popped.jobs.len(), 1);
    assert_eq!(popped.jobs[0].attempt, 1, "the late call took nothing");
}

#[tokio::test]
async fn what_a_lost_pop_took_is_found_by_its_token() {
    let mut rig = Rig::start().await;
    rig.begin(NOW).await;
    let jobs = rig.queue(unlimited(), on_test_clock());
    let many = (0..1000).map(|n| job(format!("{n}")));
    jobs.add(&topic(), many.collect()).await.expect("add");
    let lost = Token::random();
    for n in 0..10 {
        let token = if n == 6 { lost } else { Token::random() };
        assert_eq!(jobs.pop_as(&topic(), token, 100, None).await.expect("pop").jobs.len(), 100);
    }
    assert_eq!(jobs.recover(&topic(), lost).await.expect("recover"), 100);
    assert_eq!(jobs.recover(&topic(), lost).await.expect("recover again"), 0);
    let again = jobs.pop_now(&topic(), 100, None).await.expect("pop").jobs;
    assert!(again.len() == 100 && again.iter().all(|job| job.attempt == 1), "the lost reservation does not count");
}

#[tokio::test]
async fn batches_and_bodies_have_limits() {
    let mut rig = Rig::start().await;
    rig.begin(NOW).await;
    let jobs = rig.queue(unlimited(), on_test_clock());
    let invalid = |job: NewJob| {
        let jobs = jobs.clone();
        async move { jobs.add(&topic(), vec![job]).await.expect_err("it is refused").to_string() }
    };
    let day = Duration::from_secs(86_400);
    let long = Duration::from_secs(11 * 365 * 86_400);
    assert!(invalid(NewJob { ttr: Some(Duration::ZERO), ..job("") }).await.contains("time to run"));
    assert!(invalid(NewJob { ttr: Some(8 * day), ..job("") }).await.contains("7 days"));
    assert!(invalid(NewJob { tries: Some(0), ..job("") }).await.contains("tries"));
    assert!(invalid(NewJob { due: Due::After(long), ..job("") }).await.contains("ten years"));
    assert!(invalid(NewJob { due: Due::At(-1), ..job("") }).await.contains("due time"));
    assert!(invalid(NewJob { due: Due::After(day), ttl: Some(day), ..job("") }).await.contains("time to live"));
    assert!(invalid(NewJob { content_type: "x".repeat(256), ..job("") }).await.contains("content type"));
    let large = jobs.add(&topic(), vec![job("fits"), job(vec![0; (1 << 20) + 1])]).await;
    assert!(matches!(large, Err(JobError::TooLarge { .. })), "{large:?}");
    let many = jobs.add(&topic(), vec![job(""); MAX_BATCH + 1]).await;
    assert!(matches!(many, Err(JobError::Invalid(_))));
    assert!(rig.snapshot().await.records.is_empty(), "nothing of all that was added");
    // Large bodies: a response ends before it is too large, and the next call continues.
    jobs.add(&topic(), (0..8).map(|n| job(vec![n; 1 << 20])).collect()).await.expect("add");
    let mut seen = 0;
    let mut calls = 0;
    while seen < 8 {
        let popped = jobs.pop_now(&topic(), 100, None).await.expect("pop").jobs;
        assert!((1..=4).contains(&popped.len()), "{}", popped.len());
        assert!(popped.iter().all(|job| job.body.len() == 1 << 20));
        (seen, calls) = (seen + popped.len(), calls + 1);
    }
    assert!(calls >= 2);
}

#[tokio::test]
async fn each_job_is_counted_where_something_was_done_with_it() {
    use delaybridge_jobs::JobOperation::{Added, Buried, Deleted, Finished, Released, Taken};
    let mut rig = Rig::start().await;
    rig.begin(NOW).await;
    let counts = Arc::new(Mutex::new(Vec::new()));
    let kept = counts.clone();
    let count = move |_: &Topic, operation, jobs| kept.lock().expect("counts").push((operation, jobs));
    let jobs = rig.queue(unlimited(), on_test_clock()).counted_by(count);
    let own = || NewJob { id: "own".parse().ok(), ..job("x") };
    jobs.add(&topic(), vec![own(), own(), job("a"), job("b"), job("c"), job("d")]).await.expect("add");
    jobs.add(&topic(), vec![own()]).await.expect("add what is there");
    let held = jobs.pop_now(&topic(), 4, None).await.expect("pop").jobs;
    jobs.finish(&held[0].id, held[0].token).await.expect("finish");
    jobs.finish(&held[0].id, held[0].token).await.expect_err("it is gone");
    jobs.release(&held[1].id, held[1].token, None, Release::Counted, "").await.expect("release");
    jobs.bury(&held[2].id, held[2].token, "").await.expect("bury");
    jobs.touch(&held[3].id, held[3].token, None).await.expect("touch");
    jobs.delete(&held[3].id).await.expect("delete");
    jobs.empty(&topic(), 1).await.expect("empty");
    jobs.destroy(&topic(), false).await.expect("destroy");
    jobs.pop_now(&topic(), 4, None).await.expect("nothing is there");
    let expected =
        [(Added, 5), (Taken, 4), (Finished, 1), (Released, 1), (Buried, 1), (Deleted, 1), (Deleted, 1), (Deleted, 2)];
    assert_eq!(*counts.lock().expect("counts"), expected);
}

#[tokio::test]
async fn unique_keys_have_limits_and_damage_to_them_holds_nobody_off() {
    let mut rig = Rig::start().await;
    rig.begin(NOW).await;
    let few = Box::leak(Box::new(Scripts::patched(Clock::Test, &[("add", "MAX_KEYS = 1000000", "MAX_KEYS = 3")])));
    let jobs = rig.queue(unlimited(), few);
    let unique = |key: &str, lasts| {
        let key = key.parse().expect("a key");
        NewJob { unique: Some(Unique { key, lasts, until: UniqueUntil::Finished }), ..job("x") }
    };
    let minute = Duration::from_secs(60);
    let long = Duration::from_secs(11 * 365 * 86_400);
    for lasts in [Duration::ZERO, long] {
        let refused = jobs.add(&topic(), vec![unique("a", lasts)]).await.expect_err("it is refused");
        assert!(refused.to_string().contains("1 ms to ten years"), "{refused}");
    }
    assert!("".parse::<UniqueKey>().is_err() && "a\nb".parse::<UniqueKey>().is_err());
    assert!("x".repeat(256).parse::<UniqueKey>().is_err() && "x".repeat(255).parse::<UniqueKey>().is_ok());
    let three: Vec<_> = ["a", "b b", "\u{e9}"].map(|key| unique(key, minute)).into();
    let ids: Vec<_> = jobs.add(&topic(), three.clone()).await.expect("add").into_iter().map(|added| added.id).collect();
    let again = jobs.add(&topic(), three.clone()).await.expect("add again");
    assert_eq!(
        again.iter().map(|added| (&added.id, added.held)).collect::<Vec<_>>(),
        ids.iter().map(|id| (id, true)).collect::<Vec<_>>()
    );
    let full = jobs.add(&topic(), vec![job("y"), unique("d", minute)]).await.expect_err("there are three");
    assert!(matches!(full, JobError::TooManyKeys { limit: 3, .. }), "{full}");
    assert_eq!(rig.snapshot().await.records.len(), 3, "all or none");
    // Single jobs that are sent together do not keep each other out.
    let orders = topic();
    let (plain, refused) =
        tokio::join!(jobs.add(&orders, vec![job("z")]), jobs.add(&orders, vec![unique("d", minute)]));
    assert!(plain.is_ok() && matches!(refused, Err(JobError::TooManyKeys { .. })));
    // Keys whose time is over make room, also before a tick has removed them.
    rig.set_clock(NOW + 60_000).await;
    assert!(jobs.add(&topic(), vec![unique("d", minute)]).await.expect("add")[0].created);
    let seen = rig.snapshot().await;
    assert_eq!((seen.unique.len(), seen.holders.len()), (2, 2), "two were removed for one: {seen:?}");
    // A lost holder, and one of a version to come.
    let _: () = rig.redis.hdel(key("holders"), "d").await.expect("hdel");
    assert!(jobs.add(&topic(), vec![unique("d", minute)]).await.expect("add")[0].created);
    let _: () = rig.redis.hset(key("holders"), "d", "?later").await.expect("hset");
    assert!(jobs.add(&topic(), vec![unique("d", minute)]).await.expect("add")[0].held, "it may be held");
}

/// The time of a key may be ten years, and its job is done at once.
#[tokio::test]
async fn unique_keys_that_no_job_holds_do_not_pile_up() {
    let mut rig = Rig::start().await;
    let jobs = rig.queue(unlimited(), on_test_clock());
    let unique = |n: usize, until| {
        let key = n.to_string().parse().expect("a key");
        let lasts = Duration::from_secs(10 * 365 * 86_400);
        NewJob { unique: Some(Unique { key, lasts, until }), ..job("x") }
    };
    let finished = UniqueUntil::Finished;
    let expired = UniqueUntil::Expired;
    for (until, batch) in [(finished, 50), (finished, 500), (finished, MAX_BATCH), (expired, 50)] {
        rig.begin(NOW).await;
        for first in (0..10_000).step_by(batch) {
            let batch = (first..first + batch).map(|n| unique(n, until)).collect();
            let added = jobs.add(&topic(), batch).await.expect("add");
            // One of a hundred stays, and its key with it.
            let stays = |n: usize| (first + n).is_multiple_of(100);
            let gone = added.iter().enumerate().filter(|(n, _)| !stays(*n));
            for (_, job) in gone {
                jobs.delete(&job.id).await.expect("delete");
            }
        }
        let kept = rig.snapshot().await.unique.len();
        match until {
            UniqueUntil::Expired => assert_eq!(kept, 10_000, "they are held for all of their time"),
            UniqueUntil::Finished => assert!(kept < 2 * batch + 1_000, "{kept} keys for 100 jobs, batches of {batch}"),
        }
        // As often as the daemon does it within a minute.
        for _ in 0..60 {
            jobs.tick(&topic(), 100).await.expect("tick");
        }
        let seen = rig.snapshot().await;
        let held: Vec<_> = (0..10_000).step_by(100).map(|n| n.to_string()).collect();
        assert!(held.iter().all(|key| seen.unique.contains_key(key)), "a key is gone that a job holds");
        assert_eq!(seen.unique.len(), seen.holders.len());
        if until == UniqueUntil::Finished {
            assert!(seen.unique.len() <= 350, "{} keys for 100 jobs", seen.unique.len());
        }
    }
}

#[tokio::test]
async fn unique_keys_in_a_key_of_another_program_are_not_touched() {
    let mut rig = Rig::start().await;
    let jobs = rig.queue(unlimited(), on_test_clock());
    for word in ["unique", "holders"] {
        rig.begin(NOW).await;
        let unique = |key: &str| Unique {
            key: key.parse().expect("a key"),
            lasts: Duration::from_secs(60),
            until: UniqueUntil::Finished,
        };
        jobs.add(&topic(), vec![NewJob { unique: Some(unique("a")), ..job("x") }]).await.expect("add");
        let _: () = rig.redis.del(key(word)).await.expect("delete");
        let _: () = rig.redis.set(key(word), "theirs").await.expect("set");
        let before: Vec<Vec<u8>> = dump(&mut rig).await;
        let errors = [
            jobs.add(&topic(), vec![NewJob { unique: Some(unique("b")), ..job("x") }]).await.err(),
            jobs.tick(&topic(), 10).await.err(),
            jobs.destroy(&topic(), true).await.err(),
        ];
        for error in errors {
            let error = error.unwrap_or_else(|| panic!("{word}: it was accepted"));
            assert!(
                matches!(&error, JobError::Unavailable(error) if error.code() == Some("WRONGKEY")),
                "{word}: {error}"
            );
        }
        assert_eq!(dump(&mut rig).await, before, "{word}");
    }
}

#[tokio::test]
async fn a_job_is_changed_within_the_limits_and_not_while_its_topic_is_exported() {
    let mut rig = Rig::start().await;
    rig.begin(NOW).await;
    let jobs = rig.queue(unlimited(), on_test_clock());
    let id = JobId { topic: topic(), local: "a".parse().expect("an id") };
    let new = NewJob { id: Some(id.local.clone()), content_type: "text/plain".to_owned(), ..job("body") };
    jobs.add(&topic(), vec![NewJob { due: Due::At(NOW + 5_000), ttl: Some(Duration::from_secs(9)), ..new }])
        .await
        .expect("add");
    let body = |body: Vec<u8>| JobChange { body: Some(body.into()), ..JobChange::default() };
    let large = jobs.change(&id, &body(vec![0; (1 << 20) + 1])).await;
    assert!(matches!(large, Err(JobError::TooLarge { .. })), "{large:?}");
    for (change, words) in [
        (JobChange::default(), "nothing is to be changed"),
        (JobChange { due: Some(Due::After(Duration::from_secs(9))), ..JobChange::default() }, "time to live"),
        (JobChange { due: Some(Due::At(-1)), ..JobChange::default() }, "due time"),
        (JobChange { content_type: Some("x".repeat(256)), ..JobChange::default() }, "content type"),
    ] {
        let refused = jobs.change(&id, &change).await;
        assert!(matches!(&refused, Err(JobError::Invalid(problem)) if problem.contains(words)), "{refused:?}");
    }
    jobs.pause(&topic()).await.expect("pause");
    jobs.change(&id, &body(vec![0xff, 0])).await.expect("a paused topic");
    jobs.open_export(&topic()).await.expect("export");
    for _ in 0..2 {
        let refused = jobs.change(&id, &body(b"lost".to_vec())).await;
        assert!(matches!(&refused, Err(JobError::Fixed(why)) if why.contains("exported")), "{refused:?}");
        jobs.begin_export(&topic(), &id.local).await.expect("export");
    }
    jobs.close_export(&topic()).await.expect("the end of the export");
    let typed = JobChange { content_type: Some("text/html".to_owned()), ..JobChange::default() };
    jobs.change(&id, &typed).await.expect("change");
    let seen = jobs.get(&id).await.expect("get").expect("a job");
    assert_eq!((&seen.body[..], seen.content_type.as_str()), (&[0xff, 0][..], "text/html"));
    assert_eq!((seen.added_ms, seen.expires_ms, seen.own_id), (NOW, Some(NOW + 9_000), true), "the rest stays");

    let message = JobChange { content_type: Some("application/vnd.delaybridge.message".to_owned()), ..typed };
    jobs.change(&id, &message).await.expect("change");
    let refused = jobs.change(&id, &body(b"no message".to_vec())).await;
    assert!(matches!(&refused, Err(JobError::Fixed(why)) if why.contains("input")), "{refused:?}");
    jobs.change(&id, &JobChange { due: Some(Due::At(NOW)), ..JobChange::default() }).await.expect("another due time");
    let _: () =
        rig.redis.hset(key("records"), "a", "\x02 of a newer version, with more than 27 bytes").await.expect("hset");
    let refused = jobs.change(&id, &body(b"x".to_vec())).await;
    assert!(matches!(&refused, Err(JobError::Fixed(why)) if why.contains("version")), "{refused:?}");
}

#[tokio::test]
async fn a_change_wakes_a_consumer_if_its_job_becomes_the_first() {
    let mut rig = Rig::start().await;
    let mut listener = redis::Client::open(rig.url()).expect("a client").get_async_pubsub().await.expect("a channel");
    listener.subscribe("delaybridge:jobs:wake").await.expect("subscribe");
    let mut heard = listener.on_message();
    rig.begin(NOW).await;
    let jobs = rig.queue(unlimited(), on_test_clock());
    let at = |ms: i64| Due::At(NOW + ms);
    let add = async |id: &str, ms: i64| {
        let new = NewJob { id: Some(id.parse().expect("an id")), due: at(ms), ..job("x") };
        jobs.add(&topic(), vec![new]).await.expect("add");
    };
    let change = async |id: &str, ms: i64| {
        let id = JobId { topic: topic(), local: id.parse().expect("an id") };
        jobs.change(&id, &JobChange { due: Some(at(ms)), ..JobChange::default() }).await.expect("change");
    };
    add("a", 9_000).await;
    add("b", 5_000).await;
    for _ in 0..2 {
        heard.next().await.expect("the first two were the first jobs");
    }
    // Later, and behind the first: nobody needs to know. Then in front of it.
    change("b", 6_000).await;
    change("a", 7_000).await;
    change("a", 1_000).await;
    change("b", 500).await;
    jobs.add(&"other".parse().expect("a topic"), vec![job("x")]).await.expect("add");
    let mut topics = Vec::new();
    while topics.last().is_none_or(|last| last != "other") {
        topics.push(heard.next().await.expect("a message").get_payload::<String>().expect("a name"));
    }
    assert_eq!(topics, [topic().as_str(), topic().as_str(), "other"]);
}

#[tokio::test]
async fn any_bytes_and_any_content_type_come_out_as_they_went_in() {
    let rig = Rig::start().await;
    let jobs = rig.queue(unlimited(), &SCRIPTS);
    let bodies: Vec<Vec<u8>> = vec![vec![], vec![0; 300], (0..=255).collect(), "größe\r\n".into()];
    let new = |body: &Vec<u8>| NewJob { content_type: "text/plain; charset=\u{fc}".to_owned(), ..job(body.clone()) };
    jobs.add(&topic(), bodies.iter().map(new).collect()).await.expect("add");
    let popped = jobs.pop_now(&topic(), 10, None).await.expect("pop").jobs;
    assert_eq!(popped.iter().map(|job| job.body.to_vec()).collect::<Vec<_>>(), bodies);
    assert!(popped.iter().all(|job| job.content_type == "text/plain; charset=\u{fc}"));
}

#[tokio::test]
async fn a_topic_comes_and_goes_and_is_listed_while_it_is_there() {
    let rig = Rig::start().await;
    let one = rig.queue(unlimited(), &SCRIPTS);
    let other = rig.queue(unlimited(), &SCRIPTS);
    one.add(&topic(), vec![job("a")]).await.expect("add");
    assert_eq!(other.topics(None, 10).await.expect("topics"), [topic()]);
    other.destroy(&topic(), false).await.expect("destroy");
    assert!(one.topics(None, 10).await.expect("topics").is_empty());
    assert!(!one.sizes(&topic()).await.expect("sizes").exists);
    // `one` has added it to the index already, and another one has removed it: it is added again.
    one.add(&topic(), vec![job("b")]).await.expect("add");
    assert_eq!(other.topics(None, 10).await.expect("topics"), [topic()]);
    let gone = JobId { topic: topic(), local: "nobody".parse().expect("an id") };
    assert!(matches!(other.delete(&gone).await, Err(JobError::NotFound)));
}

#[tokio::test]
async fn dead_jobs_that_are_too_old_are_removed_by_the_clock() {
    let mut rig = Rig::start().await;
    rig.begin(NOW).await;
    let mut settings = unlimited();
    settings.defaults.dead_ttl = Some(Duration::from_secs(60));
    let jobs = rig.queue(settings, on_test_clock());
    jobs.add(&topic(), (0..7).map(|n| job(format!("{n}"))).collect()).await.expect("add");
    for job in jobs.pop_now(&topic(), 7, None).await.expect("pop").jobs {
        jobs.bury(&job.id, job.token, "no such customer").await.expect("bury");
    }
    assert_eq!(jobs.peek(&topic(), JobState::Dead, 2, 3).await.expect("peek").jobs[0].reason, "no such customer");
    rig.set_clock(NOW + 59_000).await;
    assert_eq!(jobs.tick(&topic(), 3).await.expect("tick").dead, 7);
    rig.set_clock(NOW + 60_001).await;
    let tick = jobs.tick(&topic(), 3).await.expect("tick");
    assert!(tick.more && tick.aged.trimmed == 3, "{tick:?}");
    jobs.tick(&topic(), 10).await.expect("tick");
    assert!(rig.snapshot().await.records.is_empty());
}
