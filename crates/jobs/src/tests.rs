//! Tests of the calls against a real Redis, one by one, on a clock that the tests set.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::*;
use delaybridge_link::test_server::TestServer;
use delaybridge_link::{Clock, Link, LinkOptions, TEST_CLOCK};
use redis::AsyncCommands;

static ON_TEST_CLOCK: LazyLock<Scripts> = LazyLock::new(|| Scripts::new(Clock::Test));

const NOW: i64 = 1_800_000_000_000;

async fn queue(server: &TestServer) -> JobQueue {
    let link = Link::start(Arc::new(server.endpoint()), LinkOptions::default());
    set_clock(server, NOW).await;
    JobQueue::new(link, JobSettings::default(), &ON_TEST_CLOCK)
}

async fn set_clock(server: &TestServer, now_ms: i64) {
    let time = [now_ms / 1000, now_ms % 1000 * 1000];
    let mut pipe = redis::pipe();
    pipe.atomic().del(TEST_CLOCK).rpush(TEST_CLOCK, &time);
    pipe.exec_async(&mut server.admin().await).await.unwrap();
}

fn topic() -> Topic {
    "orders".parse().unwrap()
}

#[tokio::test]
async fn a_job_is_added_handed_out_and_finished() {
    let server = TestServer::start();
    let jobs = queue(&server).await;
    let added = jobs.add(&topic(), vec![NewJob::new("one"), NewJob::new("two")]).await.unwrap();
    assert!(added.iter().all(|added| added.created && added.due_ms.is_some()));
    let popped = jobs.pop_now(&topic(), 10, None).await.unwrap();
    assert_eq!(popped.jobs.iter().map(|job| &job.body[..]).collect::<Vec<_>>(), [b"one", b"two"]);
    let job = &popped.jobs[0];
    assert_eq!((job.id.clone(), job.attempt, job.tries_left), (added[0].id.clone(), 1, 9));
    assert_eq!(jobs.get(&job.id).await.unwrap().unwrap().state, JobState::Reserved);
    jobs.finish(&job.id, job.token).await.unwrap();
    assert!(matches!(jobs.finish(&job.id, job.token).await, Err(JobError::NotFound)));
    assert_eq!(jobs.get(&job.id).await.unwrap(), None);
    assert_eq!(jobs.topics(None, 10).await.unwrap(), [topic()]);
    let sizes = jobs.sizes(&topic()).await.unwrap();
    assert_eq!((sizes.delay, sizes.ready, sizes.reserved, sizes.dead), (0, 0, 1, 0));
}

#[tokio::test]
async fn whether_a_job_could_be_added_is_known_without_adding_one() {
    let server = TestServer::start();
    let jobs = queue(&server).await;
    let set = async |name: &str, value: &str| {
        let mut config = redis::cmd("CONFIG");
        config.arg("SET").arg(name).arg(value);
        config.exec_async(&mut server.admin().await).await.unwrap();
    };
    jobs.can_add(&topic()).await.unwrap();
    assert_eq!(jobs.sizes(&topic()).await.unwrap(), Sizes::default());
    jobs.add(&topic(), vec![NewJob::new("one")]).await.unwrap();
    jobs.can_add(&topic()).await.unwrap();
    let limits = |max_jobs| Limits { max_jobs, ..Limits::default() };
    jobs.set_limits(&topic(), &limits(Some(Some(1)))).await.unwrap();
    assert!(matches!(jobs.can_add(&topic()).await, Err(JobError::Full { limit: 1, .. })));
    jobs.set_limits(&topic(), &limits(None)).await.unwrap();
    jobs.can_add(&topic()).await.unwrap();
    // A full server answers reads.
    set("maxmemory", "1").await;
    assert!(matches!(jobs.can_add(&topic()).await, Err(JobError::Unavailable(_))));
    set("maxmemory", "0").await;
    jobs.can_add(&topic()).await.unwrap();
    // Whether it has the topic or not.
    jobs.destroy(&topic(), true).await.unwrap();
    jobs.can_add(&topic()).await.unwrap();
    assert!(!jobs.sizes(&topic()).await.unwrap().exists);
    set("maxmemory", "1").await;
    assert!(matches!(jobs.can_add(&topic()).await, Err(JobError::Unavailable(_))));
    set("maxmemory", "0").await;
    // So does a replica.
    redis::cmd("REPLICAOF").arg("127.0.0.1").arg(1).exec_async(&mut server.admin().await).await.unwrap();
    assert!(matches!(jobs.can_add(&topic()).await, Err(JobError::Unavailable(_))));
}

/// A broker hands a message out again whose acknowledgement was lost.
#[tokio::test]
async fn a_deleted_message_of_an_input_is_not_added_again_by_the_same_delivery() {
    let server = TestServer::start();
    let jobs = queue(&server).await;
    let message = |body: &'static str, is_repeated| {
        let content_type = delaybridge_core::carried::CONTENT_TYPE.to_owned();
        NewJob { content_type, is_repeated, due: Due::After(Duration::from_secs(60)), ..own("m", body) }
    };
    let created = async |job: NewJob| jobs.add(&topic(), vec![job]).await.unwrap()[0].created;
    let delete = async || jobs.delete(&JobId { topic: topic(), local: "m".parse().unwrap() }).await.unwrap();
    assert!(created(message("one", true)).await, "it was never there");
    delete().await;
    assert!(!created(message("one", true)).await);
    // Another message with its id, and the same one published again.
    assert!(created(message("two", true)).await);
    delete().await;
    assert!(created(message("one", false)).await);
    delete().await;
    // As long as finished jobs are remembered.
    set_clock(&server, NOW + 599_999).await;
    assert!(!created(message("one", true)).await);
    set_clock(&server, NOW + 600_001).await;
    assert!(created(message("one", true)).await);
    // Other jobs are forgotten.
    delete().await;
    let plain = || NewJob { is_repeated: true, ..own("m", "plain") };
    assert!(created(plain()).await);
    delete().await;
    assert!(created(plain()).await);
}

#[tokio::test]
async fn a_delayed_job_is_not_handed_out_before_its_time() {
    let server = TestServer::start();
    let jobs = queue(&server).await;
    let late = NewJob { due: Due::After(Duration::from_millis(300)), ..NewJob::new("late") };
    jobs.add(&topic(), vec![late]).await.unwrap();
    let popped = jobs.pop_now(&topic(), 1, None).await.unwrap();
    assert!(popped.jobs.is_empty() && popped.next_ms == Some(NOW + 300));
    set_clock(&server, NOW + 299).await;
    assert!(jobs.pop_now(&topic(), 1, None).await.unwrap().jobs.is_empty());
    set_clock(&server, NOW + 300).await;
    assert_eq!(jobs.pop_now(&topic(), 1, None).await.unwrap().jobs.len(), 1);
}

#[tokio::test]
async fn who_lost_a_job_cannot_settle_it() {
    let server = TestServer::start();
    let jobs = queue(&server).await;
    jobs.add(&topic(), vec![NewJob { tries: Some(2), ..NewJob::new("x") }]).await.unwrap();
    let short = Some(Duration::from_millis(1));
    let first = jobs.pop_now(&topic(), 1, short).await.unwrap().jobs.remove(0);
    set_clock(&server, NOW + 1).await;
    let second = jobs.pop_now(&topic(), 1, short).await.unwrap();
    assert_eq!(second.aged.came_back, 1);
    let second = &second.jobs[0];
    assert_eq!((second.attempt, second.tries_left), (2, 0));
    for (token, conflict) in [(first.token, true), (second.token, false)] {
        let touched = jobs.touch(&first.id, token, None).await;
        assert_eq!(matches!(touched, Err(JobError::Conflict)), conflict, "{touched:?}");
    }
    assert!(matches!(jobs.finish(&first.id, first.token).await, Err(JobError::Conflict)));
    set_clock(&server, NOW + 2).await;
    let third = jobs.pop_now(&topic(), 1, None).await.unwrap();
    assert_eq!((third.jobs.len(), third.aged.died), (0, 1));
    let dead = jobs.peek(&topic(), JobState::Dead, 0, 10).await.unwrap().jobs;
    assert_eq!((dead[0].reason.as_str(), dead[0].attempts), ("ttr", 2));
    assert_eq!(jobs.redrive(&topic(), Which::Oldest(10), None).await.unwrap(), 1);
    assert_eq!(jobs.pop_now(&topic(), 1, None).await.unwrap().jobs[0].attempt, 1);
}

const TOPICS: &str = "delaybridge:jobs:topics";

fn key(word: &str) -> String {
    format!("delaybridge:jobs:{word}:{{orders}}")
}

fn own(id: &str, body: &'static str) -> NewJob {
    NewJob { id: Some(id.parse().unwrap()), ..NewJob::new(body) }
}

fn bodies(jobs: &[Reserved]) -> Vec<&[u8]> {
    jobs.iter().map(|job| &job.body[..]).collect()
}

#[tokio::test]
async fn a_record_that_cannot_be_read_takes_no_neighbour_along() {
    let server = TestServer::start();
    let jobs = queue(&server).await;
    let mut redis = server.admin().await;
    jobs.add(&topic(), ["a", "b", "c", "d", "e"].map(|id| own(id, "x")).into()).await.unwrap();
    let strange: &[u8] = b"\xff\0 of another program";
    let mut broken = redis::pipe();
    // Another version, cut off, cut off in the content type, and an invalid id.
    broken.hset(key("records"), "b", b"\x02 of a newer version, with more than 27 bytes").ignore();
    broken.hset(key("records"), "c", b"\x01short").ignore();
    broken.hset(key("records"), "d", [&[1_u8; 26][..], &[200]].concat()).ignore();
    broken.hset(key("records"), strange, [&[1_u8; 26][..], &[0]].concat()).zadd(key("due"), strange, 1).ignore();
    broken.exec_async(&mut redis).await.unwrap();

    let popped = jobs.pop_now(&topic(), 10, None).await.unwrap();
    assert_eq!(popped.jobs.iter().map(|job| job.id.local.as_str()).collect::<Vec<_>>(), ["a", "e"]);
    assert_eq!((popped.aged.set_aside, popped.jobs[0].attempt), (4, 1));
    let dead = jobs.peek(&topic(), JobState::Dead, 0, 10).await.unwrap().jobs;
    let shown = |id: &str| dead.iter().find(|job| job.id.local.as_str() == id).unwrap();
    assert!(dead.len() == 4 && dead.iter().all(|job| !job.readable && !job.reason.is_empty()), "{dead:?}");
    assert_eq!(&shown("b").body[..], b"\x02 of a newer version, with more than 27 bytes", "all of its bytes");
    assert!(!jobs.get(&JobId { topic: topic(), local: "c".parse().unwrap() }).await.unwrap().unwrap().readable);
    let (looked, unreadable) = jobs.unreadable(&topic(), JobState::Dead, 0).await.unwrap();
    assert_eq!((looked, unreadable.len()), (4, 4));

    // They stay dead, and do not hide others from a redrive.
    jobs.bury(&popped.jobs[1].id, popped.jobs[1].token, "").await.unwrap();
    assert_eq!(jobs.redrive(&topic(), Which::Oldest(1), None).await.unwrap(), 1);
    assert_eq!(jobs.pop_now(&topic(), 1, None).await.unwrap().jobs[0].id.local.as_str(), "e");
    assert_eq!(jobs.purge(&topic(), Which::Oldest(10)).await.unwrap(), 4);
}

#[tokio::test]
async fn a_job_behind_records_that_cannot_be_read_is_handed_out_at_once() {
    let server = TestServer::start();
    let jobs = queue(&server).await;
    let mut redis = server.admin().await;
    let mut strangers = redis::pipe();
    for n in 0..15 {
        strangers.hset(key("records"), n, "none").zadd(key("due"), n, n).ignore();
    }
    strangers.exec_async(&mut redis).await.unwrap();
    jobs.add(&topic(), vec![NewJob::new("good")]).await.unwrap();
    assert_eq!(bodies(&jobs.pop_now(&topic(), 1, None).await.unwrap().jobs), [b"good"]);
}

#[tokio::test]
async fn a_state_that_cannot_be_read_is_set_aside_and_begins_anew_by_a_redrive() {
    let server = TestServer::start();
    let jobs = queue(&server).await;
    let mut redis = server.admin().await;
    jobs.add(&topic(), ["a", "b", "c"].map(|id| own(id, "x")).into()).await.unwrap();
    let popped = jobs.pop_now(&topic(), 3, Some(Duration::from_millis(1))).await.unwrap().jobs;
    let mut broken = redis::pipe();
    broken.hset(key("state"), "a", "short").hset(key("state"), "b", &[2_u8; 60]);
    broken.exec_async(&mut redis).await.unwrap();
    for job in &popped[..2] {
        assert!(matches!(jobs.finish(&job.id, job.token).await, Err(JobError::Conflict)));
        assert!(matches!(jobs.touch(&job.id, job.token, None).await, Err(JobError::Conflict)));
        let released = jobs.release(&job.id, job.token, Duration::ZERO, Release::Counted, "").await;
        assert!(matches!(released, Err(JobError::Conflict)));
    }
    set_clock(&server, NOW + 5).await;
    let tick = jobs.tick(&topic(), 100).await.unwrap();
    assert_eq!((tick.aged.set_aside, tick.aged.came_back, tick.dead), (2, 1, 2));
    assert_eq!(jobs.redrive(&topic(), Which::Oldest(10), None).await.unwrap(), 2);
    let again = jobs.pop_now(&topic(), 3, None).await.unwrap().jobs;
    assert_eq!(again.iter().map(|job| job.attempt).max(), Some(2), "only the third one was handed out before");
    assert_eq!(again.len(), 3);
}

#[tokio::test]
async fn a_limit_that_cannot_be_read_is_as_if_it_was_not_set() {
    let server = TestServer::start();
    let jobs = queue(&server).await;
    let mut redis = server.admin().await;
    for strange in [&b"abc"[..], b"-5", b"nan", b"1e99", b"\xff", b"", b"9999999999999999999"] {
        let mut set = redis::pipe();
        for field in
            ["ttr", "tries", "ttl", "max_jobs", "max_body", "dead_max_len", "dead_ttl", "backoff", "backoff_max"]
        {
            set.hset(key("topic"), field, strange).ignore();
        }
        set.exec_async(&mut redis).await.unwrap();
        jobs.add(&topic(), vec![NewJob::new("x")]).await.unwrap();
        let job = jobs.pop_now(&topic(), 1, None).await.unwrap().jobs.remove(0);
        assert_eq!((job.ttr, job.tries_left, job.expires_ms), (Duration::from_secs(60), 9, None), "{strange:?}");
        jobs.bury(&job.id, job.token, "").await.unwrap();
        assert_eq!(jobs.tick(&topic(), 10).await.unwrap().dead, 1, "{strange:?}");
        assert_eq!(jobs.purge(&topic(), Which::Oldest(1)).await.unwrap(), 1);
        assert_eq!(jobs.allowed(&topic()).await.unwrap(), TopicSettings::default());
        assert_eq!(jobs.unreadable_limits(&topic()).await.unwrap().len(), 9);
    }
}

#[tokio::test]
async fn an_id_that_is_there_with_another_body_is_told_and_nothing_is_changed() {
    let server = TestServer::start();
    let jobs = queue(&server).await;
    let add = async |new| jobs.add(&topic(), new).await.unwrap().iter().map(|job| (job.created, job.differs)).collect();
    let all: Vec<_> = add(vec![own("a", "one"), own("b", "one"), own("b", "one"), own("b", "two")]).await;
    assert_eq!(all, [(true, false), (true, false), (false, false), (false, true)]);
    let again: Vec<_> = add(vec![NewJob { content_type: "text/plain".to_owned(), ..own("a", "one") }]).await;
    assert_eq!(again, [(false, false)], "the same again");
    for body in ["", "on", "one and more", "two"] {
        let other: Vec<_> = add(vec![own("a", body)]).await;
        assert_eq!(other, [(false, true)], "{body:?}");
    }
    let popped = jobs.pop_now(&topic(), 10, None).await.unwrap().jobs;
    assert_eq!(bodies(&popped), [b"one", b"one"]);
    jobs.finish(&popped[0].id, popped[0].token).await.unwrap();
    let gone: Vec<_> = add(vec![own(popped[0].id.local.as_str(), "two")]).await;
    assert_eq!(gone, [(false, false)], "of one that was finished only the id is known");
}

#[tokio::test]
async fn members_of_the_index_that_are_no_names_hide_no_topics() {
    let server = TestServer::start();
    let jobs = queue(&server).await;
    let mut redis = server.admin().await;
    let mut names = redis::pipe();
    for n in 0..250 {
        names.zadd(TOPICS, format!("a topic {n}"), 0).ignore();
    }
    names.zadd(TOPICS, &b"a\xff\xfe"[..], 0).zadd(TOPICS, "", 0).zadd(TOPICS, "a", 0).zadd(TOPICS, "z", 0).ignore();
    names.exec_async(&mut redis).await.unwrap();
    let names = async |after: Option<&str>, count| {
        let after = after.map(|name| name.parse().unwrap());
        let found = jobs.topics(after.as_ref(), count).await.unwrap();
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        (names(None, 1).await, names(Some("a"), 1).await, names(None, 9).await),
        (vec!["a".to_owned()], vec!["z".to_owned()], vec!["a".to_owned(), "z".to_owned()],)
    );
    let page = jobs.topics_page(None, 1_000).await.unwrap();
    assert_eq!((page.topics.len(), page.unreadable, page.next), (2, 252, None));
}

#[tokio::test]
async fn scores_at_the_ends_of_all_times_are_times() {
    let server = TestServer::start();
    let jobs = queue(&server).await;
    let mut redis = server.admin().await;
    for end in ["-inf", "+inf", "-1e300", "1e300"] {
        jobs.add(&topic(), vec![own("a", "x")]).await.unwrap();
        for word in ["due", "dead", "reserved"] {
            for id in ["a", "nothing"] {
                let mut strange = redis::cmd("ZADD");
                strange.arg(key(word)).arg(end).arg(id).exec_async(&mut redis).await.unwrap();
            }
            jobs.tick(&topic(), 10).await.unwrap();
            jobs.sizes(&topic()).await.unwrap();
            for state in JobState::ALL {
                // An id without a job is shown as unreadable.
                jobs.peek(&topic(), state, 0, 10).await.unwrap();
            }
            jobs.pop_now(&topic(), 10, None).await.unwrap();
        }
        jobs.destroy(&topic(), true).await.unwrap();
    }
}

#[tokio::test]
async fn a_topic_in_which_nothing_is_is_forgotten_and_comes_back_with_its_next_job() {
    let server = TestServer::start();
    let jobs = queue(&server).await;
    let id: LocalId = "mine".parse().unwrap();
    jobs.add(&topic(), vec![NewJob { id: Some(id), ..NewJob::new("x") }]).await.unwrap();
    assert!(!jobs.forget(&topic()).await.unwrap(), "it has a job");
    let job = jobs.pop_now(&topic(), 1, None).await.unwrap().jobs.remove(0);
    jobs.finish(&job.id, job.token).await.unwrap();
    assert!(!jobs.forget(&topic()).await.unwrap(), "the job's id is remembered");
    set_clock(&server, NOW + 600_001).await;
    jobs.tick(&topic(), 100).await.unwrap();
    jobs.pause(&topic()).await.unwrap();
    assert!(!jobs.forget(&topic()).await.unwrap(), "it is paused");
    jobs.resume(&topic()).await.unwrap();
    assert!(jobs.forget(&topic()).await.unwrap());
    assert!(!jobs.forget(&topic()).await.unwrap());
    assert_eq!(jobs.topics(None, 10).await.unwrap(), []);
    // Also for a process that had entered it.
    jobs.add(&topic(), vec![NewJob::new("y")]).await.unwrap();
    assert_eq!(jobs.topics(None, 10).await.unwrap(), [topic()]);
    assert!(jobs.stirred().topics.contains(&topic()) && jobs.stirred().topics.is_empty());
}

fn with(id: &str, body: &'static str, alias: JobAlias) -> NewJob {
    NewJob { alias: Some(alias), ..own(id, body) }
}

/// Whether each job was added, and whether one with its id was finished before.
async fn added(jobs: &JobQueue, new: Vec<NewJob>) -> Vec<(bool, bool)> {
    jobs.add(&topic(), new).await.unwrap().iter().map(|job| (job.created, job.finished)).collect()
}

#[tokio::test]
async fn a_job_that_an_earlier_version_has_added_under_a_former_id_is_the_same() {
    let server = TestServer::start();
    let jobs = queue(&server).await;
    let mut redis = server.admin().await;
    let added = async |new| added(&jobs, vec![new]).await[0];
    let former = |written_ms| JobAlias::Former { id: "t-0-7".parse().unwrap(), written_ms };
    assert_eq!(added(own("t-0-7", "one")).await, (true, false));
    assert_eq!(added(with("t-0-7~a", "one", former(NOW))).await, (false, false));
    assert_eq!(added(with("t-0-7~a", "one", former(0))).await, (false, false), "its time is not known");
    // Another record at the place: it is written later, or has other contents.
    assert_eq!(added(with("t-0-7~b", "one", former(NOW + 1))).await, (true, false));
    assert_eq!(added(with("t-0-7~c", "two", former(NOW))).await, (true, false));
    assert_eq!(added(with("t-0-7~c", "two", former(NOW))).await, (false, false));
    // An earlier version does not add it again for a while.
    let former = JobAlias::Former { id: "t-0-8".parse().unwrap(), written_ms: NOW };
    assert_eq!(added(with("t-0-8~a", "one", former.clone())).await, (true, false));
    assert_eq!(added(own("t-0-8", "one")).await, (false, true));
    let ends: i64 = redis.zscore(key("gone"), "t-0-8").await.unwrap();
    assert_eq!(ends, NOW + 120_000);
    // That is no reason not to add another record at the place.
    assert_eq!(added(with("t-0-8~b", "one", former)).await, (true, false));
}

#[tokio::test]
async fn contents_are_remembered_as_long_as_the_id() {
    let server = TestServer::start();
    let jobs = queue(&server).await;
    let mut redis = server.admin().await;
    let one = || with("order", "one", JobAlias::Contents("order~1".parse().unwrap()));
    let of = |id, body| with(id, body, JobAlias::ContentsOf("order".parse().unwrap()));
    assert_eq!(added(&jobs, vec![one(), one()]).await, [(true, false), (false, false)]);
    let popped = jobs.pop_now(&topic(), 10, None).await.unwrap().jobs;
    jobs.finish(&popped[0].id, popped[0].token).await.unwrap();
    assert_eq!(
        added(&jobs, vec![one(), of("order~1", "one"), of("order~2", "two")]).await,
        [(false, true), (false, true), (true, false)]
    );
    let of_id: i64 = redis.zscore(key("gone"), "order").await.unwrap();
    let contents = format!("=order {}", sha1_smol::Sha1::from("one").digest());
    let of_contents: i64 = redis.zscore(key("gone"), contents).await.unwrap();
    assert!(of_contents >= of_id, "{of_contents} {of_id}");
    let key = "k".parse().unwrap();
    let until = UniqueUntil::Finished;
    let unique = NewJob { unique: Some(Unique { key, lasts: Duration::from_secs(1), until }), ..one() };
    assert!(matches!(jobs.add(&topic(), vec![unique]).await, Err(JobError::Invalid(_))));
}

/// Two messages with one id: the other one has it, or had it. What was cancelled comes again only if it is published anew.
#[tokio::test]
async fn a_cancelled_message_is_known_whichever_id_it_had() {
    let carried = || delaybridge_core::carried::CONTENT_TYPE.to_owned();
    let one = |is_repeated| NewJob {
        content_type: carried(),
        is_repeated,
        ..with("order", "one", JobAlias::Contents("order~1".parse().unwrap()))
    };
    // As the intake adds it where the id is taken.
    let by_contents = |is_repeated| NewJob {
        content_type: carried(),
        is_repeated,
        ..with("order~1", "one", JobAlias::ContentsOf("order".parse().unwrap()))
    };
    let other =
        || NewJob { content_type: carried(), ..with("order", "two", JobAlias::Contents("order~2".parse().unwrap())) };
    let server = TestServer::start();
    let jobs = queue(&server).await;
    let add = async |job| {
        let added = jobs.add(&topic(), vec![job]).await.unwrap().remove(0);
        (added.created, added.differs)
    };
    let delete = async |id: &str| jobs.delete(&JobId { topic: topic(), local: id.parse().unwrap() }).await.unwrap();
    let yes = (true, false);
    let no = (false, false);
    let taken = (false, true);

    // It had its own id, which another one has now.
    assert_eq!(add(one(false)).await, yes);
    delete("order").await;
    assert_eq!(add(other()).await, yes);
    assert_eq!(add(one(true)).await, no, "its broker hands it out again");
    assert_eq!((add(one(false)).await, add(by_contents(false)).await), (taken, yes), "it is published anew");
    assert_eq!(add(by_contents(false)).await, no, "once");
    // It has the id of its contents, and its own is free now.
    delete("order").await;
    assert_eq!(add(one(true)).await, no, "it waits");
    delete("order~1").await;
    assert_eq!(add(one(true)).await, no, "it was cancelled");
    assert_eq!(add(one(false)).await, yes);
    // Another one had its id, and was finished.
    delete("order").await;
    assert_eq!(add(other()).await, yes);
    let popped = jobs.pop_now(&topic(), 1, None).await.unwrap().jobs.remove(0);
    jobs.finish(&popped.id, popped.token).await.unwrap();
    assert_eq!(add(one(true)).await, no);
    assert_eq!((add(one(false)).await, add(by_contents(false)).await), (no, yes));
}

#[tokio::test]
async fn a_tick_tells_when_something_changes_by_itself() {
    let server = TestServer::start();
    let jobs = queue(&server).await;
    let next = async || jobs.tick(&topic(), 100).await.unwrap().next_change.map(|time| time.as_millis());
    assert_eq!(next().await, None, "there is nothing");
    let due = |ms| Due::After(Duration::from_millis(ms));
    jobs.add(&topic(), vec![NewJob { due: due(9_000), ..NewJob::new("x") }]).await.unwrap();
    assert_eq!(next().await, Some(9_000), "a job falls due");
    let brief = NewJob { due: due(0), ttl: Some(Duration::from_millis(5_000)), ..NewJob::new("x") };
    jobs.add(&topic(), vec![brief]).await.unwrap();
    assert_eq!(next().await, Some(5_000), "a time to live ends");
    let job = jobs.pop_now(&topic(), 1, Some(Duration::from_millis(3_000))).await.unwrap().jobs.remove(0);
    assert_eq!(next().await, Some(3_000), "a reservation ends");
    jobs.finish(&job.id, job.token).await.unwrap();
    assert_eq!(next().await, Some(9_000));
    jobs.add(&topic(), vec![own("mine", "x")]).await.unwrap();
    let job = jobs.pop_now(&topic(), 1, None).await.unwrap().jobs.remove(0);
    jobs.finish(&job.id, job.token).await.unwrap();
    set_clock(&server, NOW + 9_000).await;
    assert_eq!(next().await, Some(591_000), "an id is forgotten; the job is ready");
}

#[tokio::test]
async fn the_jobs_of_many_topics_are_counted_in_few_calls() {
    let server = TestServer::start();
    let jobs = queue(&server).await;
    let mut redis = server.admin().await;
    let topics: Vec<Topic> = (0..600).map(|n| format!("t{n}").parse().unwrap()).collect();
    jobs.add(&topics[0], vec![NewJob::new("x"), NewJob::new("y"), NewJob::new("z")]).await.unwrap();
    let popped = jobs.pop_now(&topics[0], 2, None).await.unwrap().jobs;
    jobs.bury(&popped[0].id, popped[0].token, "").await.unwrap();
    jobs.add(&topics[599], vec![NewJob::new("x")]).await.unwrap();
    let strange = jobs.keys(&topics[1]);
    redis::cmd("SET").arg(&strange.dead()[..]).arg("x").exec_async(&mut redis).await.unwrap();
    jobs.counts(&topics[..1]).await.expect("a call that loads the script");
    redis::cmd("CONFIG").arg("RESETSTAT").exec_async(&mut redis).await.unwrap();

    let counts = jobs.counts(&topics).await.unwrap();
    assert_eq!((counts[0], counts[1], counts[2], counts[599]), ([1, 1, 1], [0, 0, -1], [0; 3], [1, 0, 0]));
    let stats: String = redis::cmd("INFO").arg("commandstats").query_async(&mut redis).await.unwrap();
    assert!(stats.contains("cmdstat_evalsha:calls=3,"), "{stats}");
    assert_eq!(jobs.counts(&[]).await.unwrap(), Vec::<Counts>::new());
}
