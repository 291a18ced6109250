//! Topics that a queue of the configuration delivers to a sink: nothing is lost over kills, and the job queue knows the
//! place of each job.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use delaybridge_jobs::{
    Due, JobChange, JobError, JobId, JobQueue, JobSettings, JobState, Limits, LocalId, NewJob, SCRIPTS, Topic,
};
use delaybridge_link::{Link, LinkOptions};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use harness::daemon::cli;
use harness::oracle::{Delivery, read_stream};
use harness::{Daemon, RedisServer, eventually};

const PATIENCE: Duration = Duration::from_secs(60);

fn topic() -> Topic {
    "orders".parse().expect("a topic")
}

fn id(text: &str) -> LocalId {
    text.parse().expect("an id")
}

fn job(text: &str, body: &str) -> NewJob {
    NewJob { id: Some(id(text)), ..NewJob::new(body.to_owned()) }
}

async fn queue(server: &RedisServer) -> JobQueue {
    let link = Link::start(Arc::new(server.endpoint()), LinkOptions::default());
    link.ready().await;
    JobQueue::new(link, JobSettings::default(), &SCRIPTS)
}

fn yaml(server: &RedisServer, queue: &str) -> String {
    format!(
        "redis: {{ url: {} }}\njobs: {{ topics: {{ orders: {{ remember: 1m }} }} }}\nsinks: {{ out: {{ redis: {{ timeout: 1s }} }} }}\nqueues:\n  \
         forward: {{ source: {{ jobs: {{ topic: orders }} }}, lease: 3s, {queue} }}\n",
        server.url()
    )
}

async fn arrived(redis: &MultiplexedConnection, count: usize) -> Vec<Delivery> {
    eventually("the jobs in the stream", PATIENCE, async || {
        let found = read_stream(&mut redis.clone(), "out").await;
        let ids: BTreeSet<_> = found.iter().map(|delivery| delivery.payload.clone()).collect();
        if ids.len() == count { Ok(found) } else { Err(format!("{} of {count}", ids.len())) }
    })
    .await
}

/// Waits until nothing of any job is left, except the remembered ids.
async fn nothing_left(redis: &MultiplexedConnection) {
    eventually("nothing to be left", PATIENCE, async || {
        let keys: Vec<String> = redis.clone().keys("delaybridge:*").await.expect("keys");
        let known = ["delaybridge:leases:", "delaybridge:jobs:topic", "delaybridge:jobs:gone:", "delaybridge:lookers"];
        let left: Vec<_> = keys.iter().filter(|key| !known.iter().any(|known| key.starts_with(known))).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn due_jobs_arrive_in_a_stream_and_a_repeated_add_makes_no_second_job() {
    let server = RedisServer::start().await;
    let redis = server.client().await;
    let jobs = queue(&server).await;
    let mut daemon =
        Daemon::start(&yaml(&server, "to: [{ sink: out, stream: out, headers: { t: '${topic}' } }]")).await;
    let late = NewJob { due: Due::After(Duration::from_millis(700)), ..job("late", "late") };
    let living = NewJob { ttl: Some(Duration::from_secs(3600)), ..job("living", "living") };
    let deleted = NewJob { due: Due::After(Duration::from_millis(600)), ..job("deleted", "deleted") };
    jobs.add(&topic(), vec![job("a", "{\"n\":1}"), late, living, deleted, NewJob::new("made")]).await.expect("add");
    jobs.delete(&JobId { topic: topic(), local: id("deleted") }).await.expect("delete");
    let found = arrived(&redis, 4).await;
    assert_eq!(found.len(), 4);
    let first = found.iter().find(|delivery| delivery.payload == b"{\"n\":1}").expect("the first job");
    assert_eq!(first.id.as_deref(), Some("orders~a"));
    assert_eq!(first.headers.get("t").map(|topic| &topic[..]), Some(&b"orders"[..]));
    let late = found.iter().find(|delivery| delivery.payload == b"late").expect("the late job");
    assert!(late.arrived_ms >= late.due_ms && late.due_ms.is_some(), "{late:?}");
    nothing_left(&redis).await;
    let again = jobs.add(&topic(), vec![job("a", "{\"n\":1}")]).await.expect("add again");
    assert!(!again[0].created, "the id is remembered");
    assert_eq!(daemon.metric("delaybridge_delivered_messages_total{queue=\"forward\"}").await, 4.0);
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_arrives_as_it_was_changed_and_what_the_queue_has_already_is_not_changed() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let jobs = queue(&server).await;
    // The stream's key has another type, so the queue is held once it has a job.
    redis.set::<_, _, ()>("out", "not a stream").await.expect("set");
    let mut daemon = Daemon::start(&yaml(&server, "to: [{ sink: out, stream: out }]")).await;
    daemon.expect_log("queue on hold");
    let later = |text: &str| NewJob { due: Due::After(Duration::from_secs(3600)), ..job(text, "old") };
    jobs.add(&topic(), vec![later("a"), later("b")]).await.expect("add");
    let [a, b] = ["a", "b"].map(|local| JobId { topic: topic(), local: id(local) });
    let now = |body: &'static str| JobChange {
        due: Some(Due::After(Duration::ZERO)),
        body: Some(body.into()),
        ..JobChange::default()
    };
    jobs.change(&a, &now("first")).await.expect("change");
    eventually("the queue to have it", PATIENCE, async || {
        match jobs.get(&a).await.expect("get").expect("a job").state {
            JobState::Forwarding => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let refused = jobs.change(&a, &now("second")).await;
    assert!(matches!(refused, Err(JobError::NotWaiting { state: JobState::Forwarding })), "{refused:?}");
    jobs.change(&b, &now("new")).await.expect("change");
    redis.del::<_, ()>("out").await.expect("del");
    let mut bodies: Vec<_> = arrived(&redis, 2).await.into_iter().map(|delivery| delivery.payload).collect();
    bodies.sort();
    assert_eq!(bodies, [b"first".to_vec(), b"new".to_vec()]);
    nothing_left(&redis).await;
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_with_a_priority_are_delivered_as_others_and_leave_nothing() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let jobs = queue(&server).await;
    let new = |n: u8| NewJob { priority: n % 10, ..job(&format!("j{n}"), &format!("body {n}")) };
    jobs.add(&topic(), (0..40).map(new).collect()).await.expect("add");
    let urgent = "delaybridge:jobs:urgent:{orders}";
    assert_eq!(redis.zcard::<_, u64>(urgent).await.expect("count"), 36);
    let mut daemon = Daemon::start(&yaml(&server, "to: [{ sink: out, stream: out }]")).await;
    arrived(&redis, 40).await;
    nothing_left(&redis).await;
    assert_eq!(redis.zcard::<_, u64>(urgent).await.expect("count"), 0);
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_is_killed_again_and_again_loses_none() {
    const JOBS: usize = 4_000;
    let server = RedisServer::start().await;
    let redis = server.client().await;
    let jobs = queue(&server).await;
    let text = yaml(&server, "to: [{ sink: out, stream: out }]");
    let mut daemon = Daemon::start(&text).await;
    for first in (0..JOBS).step_by(500) {
        jobs.add(&topic(), (first..first + 500).map(|n| job(&format!("j{n}"), &format!("body {n}"))).collect())
            .await
            .expect("add");
        if first % 1_000 == 0 {
            daemon.kill();
            daemon = Daemon::start(&text).await;
        }
    }
    let found = arrived(&redis, JOBS).await;
    println!("{} deliveries of {JOBS} jobs", found.len());
    for delivery in &found {
        let payload = std::str::from_utf8(&delivery.payload).expect("a body");
        let number = payload.strip_prefix("body ").expect("a body");
        assert_eq!(delivery.id.as_deref(), Some(&*format!("orders~j{number}")));
    }
    nothing_left(&redis).await;
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_topic_is_not_delivered_until_it_is_resumed() {
    let server = RedisServer::start().await;
    let redis = server.client().await;
    let jobs = queue(&server).await;
    jobs.pause(&topic()).await.expect("pause");
    jobs.add(&topic(), vec![job("a", "a")]).await.expect("add");
    let other = "  other: { source: { jobs: { topic: other } }, to: [{ sink: out, stream: other }] }\n";
    let mut daemon = Daemon::start(&(yaml(&server, "to: [{ sink: out, stream: out }]") + other)).await;
    // Two topics are announced on one channel. The second job of the other one is due after a poll has found this one.
    let later = NewJob { due: Due::After(Duration::from_millis(1_500)), ..job("b", "b") };
    jobs.add(&"other".parse().expect("a topic"), vec![job("a", "a"), later]).await.expect("add");
    eventually("the other topic's jobs", PATIENCE, async || {
        match read_stream(&mut redis.clone(), "other").await.len() {
            2 => Ok(()),
            n => Err(n.to_string()),
        }
    })
    .await;
    assert!(read_stream(&mut redis.clone(), "out").await.is_empty());
    jobs.resume(&topic()).await.expect("resume");
    arrived(&redis, 1).await;
    assert_eq!(daemon.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_job_is_a_dead_letter_of_the_queue_and_outlives_its_time_to_live() {
    let server = RedisServer::start().await;
    let redis = server.client().await;
    let jobs = queue(&server).await;
    let mut daemon =
        Daemon::start(&yaml(&server, "codec: json, to: [{ sink: out, stream: '${payload.stream}' }]")).await;
    daemon.expect_log("dead letter stored").expect_log("dead letter stored");
    let short = NewJob { ttl: Some(Duration::from_secs(1)), priority: 4, ..job("a", "{}") };
    jobs.add(&topic(), vec![short]).await.expect("add");
    let dead = async |count: usize| {
        eventually("a dead letter", PATIENCE, async || {
            let key = "delaybridge:dead:delaybridge:jobs:due:{orders}";
            let last: redis::streams::StreamRangeReply = redis.clone().xrange_all(key).await.expect("a stream");
            match last.ids.len() {
                n if n == count => Ok(last.ids[0].id.clone()),
                n => Err(n.to_string()),
            }
        })
        .await
    };
    let first = dead(1).await;
    let known = JobId { topic: topic(), local: id("a") };
    assert_eq!(jobs.get(&known).await.expect("get"), None);
    // Its time to live is over by now, and does not matter any more.
    eventually("the time to live to end", PATIENCE, async || {
        let left: usize = redis.clone().zcard("delaybridge:jobs:expiry:{orders}").await.expect("a set");
        if left == 0 { Ok(()) } else { Err(left.to_string()) }
    })
    .await;
    let redriven = cli(daemon.config(), &["dead", "redrive", "forward", "--all"]);
    assert_eq!(redriven.status.code(), Some(0), "{redriven:?}");
    eventually("another death", PATIENCE, async || {
        let second = dead(1).await;
        if second != first { Ok(()) } else { Err("the first letter is there".to_owned()) }
    })
    .await;
    assert_eq!(daemon.stop().await, 0);
    // The way back: it is a job of the topic again, for consumers.
    eventually("the letter to go back", PATIENCE, async || {
        let back = cli(daemon.config(), &["restore", "forward", "--dead", "--apply"]);
        if back.status.success() { Ok(()) } else { Err(format!("{back:?}")) }
    })
    .await;
    // With the priority that it had.
    jobs.add(&topic(), vec![NewJob { priority: 3, ..job("b", "{}") }]).await.expect("add");
    let popped = jobs.pop_now(&topic(), 1, None).await.expect("pop").jobs;
    assert_eq!((popped.len(), &popped[0].id, &popped[0].body[..]), (1, &known, &b"{}"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_for_a_retry_is_shown_may_be_deleted_and_is_not_added_again() {
    let server = RedisServer::start().await;
    let mut redis = server.client().await;
    let jobs = queue(&server).await;
    // The stream's key has another type, so the queue is held.
    redis.set::<_, _, ()>("out", "not a stream").await.expect("set");
    let mut daemon = Daemon::start(&yaml(&server, "to: [{ sink: out, stream: out }]")).await;
    daemon.expect_log("queue on hold");
    jobs.add(&topic(), vec![job("a", "a"), job("b", "b")]).await.expect("add");
    // Before that they may be on their way to the stream.
    eventually("the queue to be held", PATIENCE, async || {
        let held = daemon.metric("delaybridge_queue_held{queue=\"forward\"}").await;
        if held == 1.0 { Ok(()) } else { Err(held.to_string()) }
    })
    .await;
    let [a, b] = ["a", "b"].map(|local| JobId { topic: topic(), local: id(local) });
    eventually("the jobs to be forwarding", PATIENCE, async || {
        let states = [jobs.get(&a).await.expect("get"), jobs.get(&b).await.expect("get")];
        if states.iter().all(|job| job.as_ref().is_some_and(|job| job.state == JobState::Forwarding)) {
            Ok(())
        } else {
            Err(format!("{states:?}"))
        }
    })
    .await;
    assert!(!jobs.add(&topic(), vec![job("a", "a")]).await.expect("add")[0].created);
    // They count as jobs of the topic.
    let limits = Limits { max_jobs: Some(Some(2)), ..Limits::default() };
    jobs.set_limits(&topic(), &limits).await.expect("set");
    let full = jobs.add(&topic(), vec![job("c", "c")]).await;
    assert!(matches!(full, Err(JobError::Full { limit: 2, .. })), "{full:?}");
    let used = jobs.destroy(&topic(), false).await;
    assert!(matches!(used, Err(JobError::InUse { reserved: 0, forwarding: 2, .. })), "{used:?}");
    jobs.delete(&a).await.expect("delete");
    assert_eq!(jobs.get(&a).await.expect("get"), None);
    redis.del::<_, ()>("out").await.expect("del");
    let found = arrived(&redis, 1).await;
    assert!(found.iter().all(|delivery| delivery.payload == b"b"), "{found:?}");
    nothing_left(&redis).await;
    assert_eq!(daemon.stop().await, 0);
}
