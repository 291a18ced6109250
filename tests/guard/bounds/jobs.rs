//! The cost of the scripts of the job queue.

use std::time::Duration;

use delaybridge_jobs::{
    CronSchedule, Due, Fired, JobChange, JobId, JobQueue, JobSettings, JobState, Limits, MAX_RECURRING,
    MAX_RECURRING_BODY, MissedFirings, NewJob, OrderHalf, Recurring, RecurringName, Release, Reserved, SCRIPTS, Token,
    Topic, Unique, UniqueUntil, Which,
};

use super::*;

macro_rules! script {
    ($name:literal) => {
        concat!("crates/jobs/src/scripts/", $name, ".lua")
    };
}

const KIB_64: usize = 64 << 10;

fn topic() -> Topic {
    "orders".parse().expect("a topic")
}

fn jobs(rig: &Rig) -> JobQueue {
    JobQueue::new(rig.link.clone(), JobSettings::default(), &SCRIPTS)
}

/// The server's time, in ms.
async fn server_ms(rig: &mut Rig) -> i64 {
    let (seconds, micros): (i64, i64) = redis::cmd("TIME").query_async(&mut rig.redis).await.unwrap();
    seconds * 1_000 + micros / 1_000
}

/// Adds jobs with bodies of this size.
async fn added(jobs: &JobQueue, count: usize, size: usize) -> Vec<JobId> {
    let mut ids = Vec::new();
    for chunk in (0..count).collect::<Vec<_>>().chunks(50) {
        let new = chunk.iter().map(|_| NewJob { ttl: Some(LEASE), ..NewJob::new(vec![7; size]) }).collect();
        ids.extend(jobs.add(&topic(), new).await.unwrap().into_iter().map(|added| added.id));
    }
    ids
}

/// Adds and reserves jobs.
async fn reserved(jobs: &JobQueue, count: usize, size: usize) -> Vec<Reserved> {
    added(jobs, count, size).await;
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(jobs.pop_now(&topic(), 100, None).await.unwrap().jobs);
    }
    all
}

/// Adds, reserves and buries jobs.
async fn dead(jobs: &JobQueue, count: usize, size: usize) {
    for job in reserved(jobs, count, size).await {
        jobs.bury(&job.id, job.token, "").await.unwrap();
    }
}

#[tokio::test]
async fn jobs_are_looked_at() {
    for (count, size) in [(1_000, 1 << 10), (16, KIB_64), (1, MIB)] {
        within_the_limit(script!("unreadable"), &format!("{count} of {size} bytes"), async |rig: &mut Rig| {
            let queue = jobs(rig);
            added(&queue, count, size).await;
            reset_counts(rig).await;
            let (looked, unreadable) = queue.unreadable(&topic(), JobState::Ready, 0).await.unwrap();
            assert!(looked > 0 && unreadable.is_empty(), "{looked}, {unreadable:?}");
            usize::try_from(looked).unwrap() * size
        })
        .await;
    }
}

#[tokio::test]
async fn the_order_of_priorities_is_repaired() {
    for (count, size) in [(1_000, 1 << 10), (16, KIB_64), (1, MIB)] {
        within_the_limit(script!("order"), &format!("{count} of {size} bytes"), async |rig: &mut Rig| {
            let queue = jobs(rig);
            let of = |_| NewJob { priority: 9, ..NewJob::new(vec![7; size]) };
            queue.add(&topic(), (0..count).map(of).collect()).await.unwrap();
            rig.run(redis::cmd("DEL").arg("delaybridge:jobs:urgent:{orders}")).await;
            reset_counts(rig).await;
            let page = queue.compare_order(&topic(), OrderHalf::Jobs, 0, true).await.unwrap();
            assert_eq!(page.wrong.len(), count);
            count * size
        })
        .await;
    }
    within_the_limit(script!("order"), "1,000 that are gone", async |rig: &mut Rig| {
        let queue = jobs(rig);
        let mut gone = redis::cmd("ZADD");
        gone.arg("delaybridge:jobs:urgent:{orders}");
        (0..1_000).for_each(|n| _ = gone.arg(n).arg(format!("gone-{n:0>120}")));
        rig.run(&mut gone).await;
        reset_counts(rig).await;
        let page = queue.compare_order(&topic(), OrderHalf::Members, 0, true).await.unwrap();
        assert_eq!((page.wrong.len(), page.next), (1_000, 0));
        0
    })
    .await;
}

#[tokio::test]
async fn jobs_come() {
    for (count, size) in [(1_000, 1 << 10), (16, KIB_64), (1, MIB)] {
        within_the_limit(script!("add"), &format!("{count} of {size} bytes"), async |rig: &mut Rig| {
            let queue = jobs(rig);
            let new = (0..count).map(|_| NewJob::new(vec![7; size])).collect();
            reset_counts(rig).await;
            assert_eq!(queue.add(&topic(), new).await.unwrap().len(), count);
            count * size
        })
        .await;
    }
    within_the_limit(
        script!("add"),
        "1,000 with unique keys, after 1,000 whose time is over",
        async |rig: &mut Rig| {
            let queue = jobs(rig);
            let unique = |n: usize, lasts| {
                let key = format!("{n:0>255}").parse().unwrap();
                let unique = Some(Unique { key, lasts: Duration::from_millis(lasts), until: UniqueUntil::Finished });
                NewJob { unique, ..NewJob::new(vec![7; 1 << 10]) }
            };
            queue.add(&topic(), (1_000..2_000).map(|n| unique(n, 1)).collect()).await.unwrap();
            let over_ms = server_ms(rig).await + 1;
            while server_ms(rig).await <= over_ms {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            reset_counts(rig).await;
            let added = queue.add(&topic(), (0..1_000).map(|n| unique(n, 60_000)).collect()).await.unwrap();
            assert!(added.iter().all(|added| added.created));
            1_000 << 10
        },
    )
    .await;
    within_the_limit(script!("limits"), "all", async |rig: &mut Rig| {
        let queue = jobs(rig);
        reset_counts(rig).await;
        queue.set_limits(&topic(), &Limits { tries: Some(7), ..Limits::default() }).await.unwrap();
        0
    })
    .await;
}

#[tokio::test]
async fn jobs_are_handed_out_and_settled() {
    for (count, size) in [(100, 1 << 10), (100, KIB_64), (1, MIB)] {
        let what = &format!("{count} of {size} bytes");
        within_the_limit(script!("pop"), what, async |rig: &mut Rig| {
            let queue = jobs(rig);
            added(&queue, count, size).await;
            reset_counts(rig).await;
            queue.pop_now(&topic(), 100, None).await.unwrap().jobs.len() * size
        })
        .await;
        within_the_limit(script!("finish"), what, async |rig: &mut Rig| {
            let queue = jobs(rig);
            let done = reserved(&queue, count, size).await.into_iter().map(|job| (job.id.local, job.token));
            let done: Vec<_> = done.collect();
            reset_counts(rig).await;
            assert_eq!(queue.finish_all(&topic(), &done).await.unwrap().len(), count);
            0
        })
        .await;
        within_the_limit(script!("recover"), what, async |rig: &mut Rig| {
            let queue = jobs(rig);
            let token = reserved(&queue, count, size).await[0].token;
            reset_counts(rig).await;
            assert!(queue.recover(&topic(), token).await.unwrap() > 0);
            0
        })
        .await;
    }
}

#[tokio::test]
async fn jobs_with_priorities_are_handed_out() {
    for (count, size) in [(100, 1 << 10), (100, KIB_64), (1, MIB)] {
        within_the_limit(script!("pop"), &format!("{count} of {size} bytes, 9 priorities"), async |rig: &mut Rig| {
            let queue = jobs(rig);
            let of = |n: usize| NewJob { priority: (n % 9 + 1) as u8, ..NewJob::new(vec![7; size]) };
            for first in (0..count).step_by(50) {
                queue.add(&topic(), (first..count.min(first + 50)).map(of).collect()).await.unwrap();
            }
            reset_counts(rig).await;
            queue.pop_now(&topic(), 100, None).await.unwrap().jobs.len() * size
        })
        .await;
    }
    // What a daemon of an earlier version leaves in the order, in front of the others, beside jobs that are not due.
    within_the_limit(script!("pop"), "100 behind 99 that are gone, of 10,000", async |rig: &mut Rig| {
        let queue = jobs(rig);
        for (first, due) in [(0, Due::After(Duration::ZERO)), (5_000, Due::After(LEASE))] {
            for n in (first..first + 5_000).step_by(500) {
                let of = |n: usize| NewJob { priority: (n % 9 + 1) as u8, due, ..NewJob::new(vec![7; 100]) };
                queue.add(&topic(), (n..n + 500).map(of).collect()).await.unwrap();
            }
        }
        let mut gone = redis::cmd("ZADD");
        gone.arg("delaybridge:jobs:urgent:{orders}");
        (0..99).for_each(|n| _ = gone.arg(n).arg(format!("gone-{n:0>120}")));
        rig.run(&mut gone).await;
        reset_counts(rig).await;
        assert_eq!(queue.pop_now(&topic(), 100, None).await.unwrap().jobs.len(), 100);
        100 * 100
    })
    .await;
}

#[tokio::test]
async fn single_large_jobs() {
    within_the_limit(script!("release"), "1 MiB", async |rig: &mut Rig| {
        let queue = jobs(rig);
        let job = reserved(&queue, 1, MIB).await.remove(0);
        reset_counts(rig).await;
        queue.release(&job.id, job.token, Duration::ZERO, Release::Counted, "").await.unwrap();
        0
    })
    .await;
    within_the_limit(script!("touch"), "1 MiB", async |rig: &mut Rig| {
        let queue = jobs(rig);
        let job = reserved(&queue, 1, MIB).await.remove(0);
        reset_counts(rig).await;
        queue.touch(&job.id, job.token, None).await.unwrap();
        0
    })
    .await;
    within_the_limit(script!("get"), "1 MiB", async |rig: &mut Rig| {
        let queue = jobs(rig);
        let id = added(&queue, 1, MIB).await.remove(0);
        reset_counts(rig).await;
        queue.get(&id).await.unwrap().expect("a job");
        MIB
    })
    .await;
    within_the_limit(script!("delete"), "1 MiB", async |rig: &mut Rig| {
        let queue = jobs(rig);
        let id = added(&queue, 1, MIB).await.remove(0);
        reset_counts(rig).await;
        queue.delete(&id).await.unwrap();
        0
    })
    .await;
    within_the_limit(script!("change"), "1 MiB", async |rig: &mut Rig| {
        let queue = jobs(rig);
        let id = added(&queue, 1, MIB).await.remove(0);
        let change = JobChange { body: Some(vec![8; MIB].into()), ..JobChange::default() };
        reset_counts(rig).await;
        assert!(queue.change(&id, &change).await.unwrap().changed);
        MIB
    })
    .await;
}

#[tokio::test]
async fn many_large_jobs_are_removed() {
    within_the_limit(script!("empty"), "300 of 64 KiB", async |rig: &mut Rig| {
        let queue = jobs(rig);
        added(&queue, 300, KIB_64).await;
        reset_counts(rig).await;
        assert_eq!(queue.empty(&topic(), 1_000).await.unwrap().removed, 300);
        0
    })
    .await;
    within_the_limit(script!("destroy"), "300 of 64 KiB", async |rig: &mut Rig| {
        let queue = jobs(rig);
        added(&queue, 300, KIB_64).await;
        reset_counts(rig).await;
        assert_eq!(queue.destroy(&topic(), false).await.unwrap(), 300);
        0
    })
    .await;
}

/// The name of a recurring job.
fn named(n: usize) -> RecurringName {
    format!("r{n:0>99}").parse().unwrap()
}

/// Adds recurring jobs with the largest definitions.
async fn recurring(jobs: &JobQueue, count: usize) {
    let recurring = Recurring {
        schedule: CronSchedule::new("* * * * *", "America/Argentina/ComodRivadavia").unwrap(),
        missed: MissedFirings::All,
        ttr: None,
        tries: None,
        ttl: None,
        priority: 9,
        content_type: "x".repeat(255),
    };
    for n in 0..count {
        let body = vec![7; MAX_RECURRING_BODY].into();
        assert!(jobs.set_recurring(&topic(), &named(n), &recurring, &body).await.unwrap().created);
    }
}

/// Makes all of them due, a hundred firings ago and more.
async fn make_due(rig: &mut Rig, count: usize) {
    let due_ms = server_ms(rig).await - 200 * 60_000;
    for n in 0..count {
        let key = "delaybridge:jobs:firings:{orders}";
        redis::cmd("ZADD").arg(key).arg(due_ms).arg(named(n).as_str()).exec_async(&mut rig.redis).await.unwrap();
    }
}

#[tokio::test]
async fn a_topic_is_full_of_recurring_jobs() {
    // It asks for the time first, so the mean is of two scripts, and half of the bytes.
    let calls =
        each_within_the_limit(script!("recurring_set"), "one of 64 KiB beside others", async |rig: &mut Rig| {
            let queue = jobs(rig);
            recurring(&queue, 10).await;
            let state = queue.recurring(&topic(), &named(0)).await.unwrap();
            let body = state.body.unwrap();
            let changed = Recurring { tries: Some(3), ..state.definition.unwrap() };
            reset_counts(rig).await;
            assert!(queue.set_recurring(&topic(), &named(0), &changed, &body).await.unwrap().changed);
            MAX_RECURRING_BODY / 2
        })
        .await;
    assert_eq!(calls, 2.0);
    within_the_limit(script!("recurring_switch"), "one of 64 KiB", async |rig: &mut Rig| {
        let queue = jobs(rig);
        recurring(&queue, 1).await;
        reset_counts(rig).await;
        assert!(queue.pause_recurring(&topic(), &named(0)).await.unwrap());
        0
    })
    .await;
    within_the_limit(script!("recurring_list"), "a page of all", async |rig: &mut Rig| {
        let queue = jobs(rig);
        recurring(&queue, MAX_RECURRING).await;
        reset_counts(rig).await;
        assert!(queue.recurring_page(&topic(), None, 100).await.unwrap().more);
        0
    })
    .await;
    within_the_limit(script!("recurring_list"), "all are due", async |rig: &mut Rig| {
        let queue = jobs(rig);
        recurring(&queue, MAX_RECURRING).await;
        make_due(rig, MAX_RECURRING).await;
        reset_counts(rig).await;
        assert_eq!(queue.due_recurring(&topic()).await.unwrap().firings.len(), MAX_RECURRING);
        0
    })
    .await;
    within_the_limit(script!("recurring_fire"), "a hundred of 64 KiB", async |rig: &mut Rig| {
        let queue = jobs(rig);
        recurring(&queue, 1).await;
        make_due(rig, 1).await;
        let due = queue.due_recurring(&topic()).await.unwrap().firings.remove(0);
        reset_counts(rig).await;
        assert!(matches!(queue.fire(&topic(), &due).await.unwrap(), Fired::Done { added: 100, .. }));
        100 * MAX_RECURRING_BODY
    })
    .await;
}

#[tokio::test]
async fn many_large_jobs_are_looked_at() {
    within_the_limit(script!("peek"), "100 of 64 KiB", async |rig: &mut Rig| {
        let queue = jobs(rig);
        added(&queue, 100, KIB_64).await;
        reset_counts(rig).await;
        queue.peek(&topic(), JobState::Ready, 0, 100).await.unwrap().jobs.len() * KIB_64
    })
    .await;
    within_the_limit(script!("stats"), "10,000", async |rig: &mut Rig| {
        let queue = jobs(rig);
        added(&queue, 10_000, 100).await;
        reset_counts(rig).await;
        assert_eq!(queue.sizes(&topic()).await.unwrap().ready, 10_000);
        0
    })
    .await;
}

#[tokio::test]
async fn many_large_jobs_are_dead() {
    let calls = each_within_the_limit(script!("redrive"), "300 of 64 KiB", async |rig: &mut Rig| {
        let queue = jobs(rig);
        dead(&queue, 300, KIB_64).await;
        reset_counts(rig).await;
        assert_eq!(queue.redrive(&topic(), Which::Oldest(1_000), None).await.unwrap(), 300);
        0
    })
    .await;
    assert!(calls > 10.0, "{calls} scripts: each reads few records");
    within_the_limit(script!("purge"), "300 of 64 KiB", async |rig: &mut Rig| {
        let queue = jobs(rig);
        dead(&queue, 300, KIB_64).await;
        reset_counts(rig).await;
        assert!(queue.purge(&topic(), Which::Oldest(1_000)).await.unwrap() > 0);
        0
    })
    .await;
}

#[tokio::test]
async fn time_is_over_for_many_large_jobs() {
    within_the_limit(script!("tick"), "500 of 64 KiB whose time to run and to live is over", async |rig: &mut Rig| {
        let queue = jobs(rig);
        let new = |_| NewJob {
            ttl: Some(Duration::from_millis(300)),
            ttr: Some(Duration::from_millis(1)),
            ..NewJob::new(vec![7; KIB_64])
        };
        for _ in 0..10 {
            queue.add(&topic(), (0..50).map(new).collect()).await.unwrap();
        }
        queue.pop_as(&topic(), Token::random(), 100, None).await.unwrap();
        // Wait for longer than their time to live.
        let over_ms = server_ms(rig).await + 300;
        while server_ms(rig).await <= over_ms {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        reset_counts(rig).await;
        let tick = queue.tick(&topic(), 500).await.unwrap();
        assert!(tick.aged.expired > 0, "{tick:?}");
        0
    })
    .await;
}
