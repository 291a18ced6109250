//! The calls against a real Redis, one by one, on a clock that the tests set.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::*;
use crate::link::test_server::TestServer;
use crate::link::{Clock, Link, LinkOptions, TEST_CLOCK};

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
    let dead = jobs.peek(&topic(), JobState::Dead, 0, 10).await.unwrap();
    assert_eq!((dead[0].reason.as_str(), dead[0].attempts), ("ttr", 2));
    assert_eq!(jobs.redrive(&topic(), Which::Oldest(10), None).await.unwrap(), 1);
    assert_eq!(jobs.pop_now(&topic(), 1, None).await.unwrap().jobs[0].attempt, 1);
}
