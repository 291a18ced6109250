//! Limits that are set at run time apply to every process at once, until they are removed.

use std::time::Duration;

use delaybridge_jobs::{JobError, Limits, NewJob, Release, TopicSettings};

use super::random::settings;
use super::rig::{Rig, on_test_clock, topic};

const NOW: i64 = 1_800_000_000_000;

fn job() -> NewJob {
    NewJob::new("body")
}

#[tokio::test]
async fn limits_hold_for_all_processes_and_give_way_again() {
    let mut rig = Rig::start().await;
    rig.begin(NOW).await;
    let mut configured = settings();
    configured.defaults = TopicSettings { max_jobs: Some(2), dead_max_len: None, ..configured.defaults };
    let [one, other] = [0; 2].map(|_| rig.queue(configured.clone(), on_test_clock()));
    let limits = Limits {
        ttr: Some(Duration::from_secs(7)),
        tries: Some(1),
        ttl: Some(Some(Duration::from_secs(60))),
        max_jobs: Some(None),
        max_body: Some(4),
        dead_max_len: Some(Some(1)),
        dead_ttl: None,
        backoff: Some(Duration::from_secs(5)),
        backoff_max: Some(Duration::from_secs(8)),
    };
    one.set_limits(&topic(), &limits).await.expect("set");
    assert_eq!(other.limits(&topic()).await.expect("read"), limits);
    other.add(&topic(), vec![job(); 5]).await.expect("more than the configuration allows");
    let large = other.add(&topic(), vec![job(), NewJob::new("large")]).await;
    assert!(matches!(large, Err(JobError::TooLarge { size: 5, limit: 4, .. })), "{large:?}");
    let popped = other.pop_now(&topic(), 3, None).await.expect("pop").jobs;
    let held = &popped[0];
    assert_eq!((held.ttr, held.tries_left, held.expires_ms), (Duration::from_secs(7), 0, Some(NOW + 60_000)));
    for job in &popped {
        other.bury(&job.id, job.token, "").await.expect("bury");
    }
    assert_eq!(other.sizes(&topic()).await.expect("sizes").dead, 1, "the oldest dead are removed");

    other.set_limits(&topic(), &Limits { max_jobs: Some(Some(3)), ..Limits::default() }).await.expect("set");
    one.add(&topic(), vec![job()]).await.expect("the third");
    let full = one.add(&topic(), vec![job()]).await;
    assert!(matches!(full, Err(JobError::Full { limit: 3, .. })), "{full:?}");

    one.set_limits(&topic(), &Limits::default()).await.expect("reset");
    let full = other.add(&topic(), vec![job()]).await;
    assert!(matches!(full, Err(JobError::Full { limit: 2, .. })), "{full:?}");
    let allowed = other.allowed(&topic()).await.expect("read");
    assert_eq!((allowed.ttr, allowed.max_jobs), (Duration::from_secs(5), Some(2)));
}

#[tokio::test]
async fn a_wait_that_is_set_at_run_time_grows_with_the_attempts() {
    let mut rig = Rig::start().await;
    rig.begin(NOW).await;
    let jobs = rig.queue(settings(), on_test_clock());
    let backoff = Some(Duration::from_secs(5));
    let backoff_max = Some(Duration::from_secs(8));
    jobs.set_limits(&topic(), &Limits { backoff, backoff_max, ..Limits::default() }).await.expect("set");
    jobs.add(&topic(), vec![NewJob { tries: Some(4), ttr: Some(Duration::from_secs(1)), ..job() }]).await.expect("add");
    let mut now = NOW;
    for wait in [5_000, 8_000] {
        let held = jobs.pop_now(&topic(), 1, None).await.expect("pop").jobs.remove(0);
        let (_, due) = jobs.release(&held.id, held.token, None, Release::Counted, "").await.expect("release");
        assert_eq!(due, now + wait);
        now = due;
        rig.set_clock(now).await;
    }
    // From the end of the time to run on, whoever finds it.
    jobs.pop_now(&topic(), 1, None).await.expect("pop").jobs.remove(0);
    rig.set_clock(now + 3_000).await;
    let popped = jobs.pop_now(&topic(), 1, None).await.expect("pop");
    assert_eq!((popped.jobs.len(), popped.aged.came_back, popped.next_ms), (0, 1, Some(now + 9_000)));
    jobs.set_limits(&topic(), &Limits::default()).await.expect("reset");
    rig.set_clock(now + 9_000).await;
    let held = jobs.pop_now(&topic(), 1, None).await.expect("pop").jobs.remove(0);
    let (_, due) = jobs.release(&held.id, held.token, None, Release::Uncounted, "").await.expect("release");
    assert_eq!(due, now + 9_000);
}

#[tokio::test]
async fn limits_have_limits() {
    let mut rig = Rig::start().await;
    rig.begin(NOW).await;
    let jobs = rig.queue(settings(), on_test_clock());
    for (limits, words) in [
        (Limits { ttr: Some(Duration::ZERO), ..Limits::default() }, "time to run"),
        (Limits { tries: Some(0), ..Limits::default() }, "tries"),
        (Limits { backoff: Some(Duration::from_secs(1 << 40)), ..Limits::default() }, "wait between attempts"),
        (Limits { max_body: Some(0), ..Limits::default() }, "bodies"),
        (Limits { ttl: Some(Some(Duration::from_secs(1 << 40))), ..Limits::default() }, "time to live"),
    ] {
        let error = jobs.set_limits(&topic(), &limits).await.expect_err("it is refused").to_string();
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(jobs.limits(&topic()).await.expect("read"), Limits::default());
}
