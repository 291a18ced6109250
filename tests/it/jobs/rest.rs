//! A topic at rest costs Redis little, although each daemon looks at it again and again; and whatever there is to do in it is done.

use std::time::Duration;

use delaybridge_jobs::{Aged, Due, JobSettings, Limits, NewJob, Patch, Scripts, TopicSettings};
use delaybridge_link::Clock;
use redis::AsyncCommands;

use super::random::settings;
use super::rig::{Rig, key, on_test_clock, topic};

const NOW: i64 = 1_800_000_000_000;
/// Maximum number of commands of a tick that has nothing to do, with those of its script.
const MOST: u64 = 16;
/// Time after which what a topic keeps is over.
const KEPT: Duration = Duration::from_secs(60);

/// The only thing that a tick has to do in a topic.
#[derive(Debug, Clone, Copy)]
enum Work {
    Reservation,
    TimeToLive,
    TooManyDead,
    DeadTooOld,
    Remembered,
}

/// Each kind of work, and the bug that overlooks it.
const WORK: [(Work, Patch); 5] = [
    (
        Work::Reservation,
        (
            "tick",
            "ends = {reserved > 0 and first(RESERVED), first(EXPIRY), first(GONE), died and died + kept}\nlocal gone",
            "ends = {false, first(EXPIRY), first(GONE), died and died + kept}\nlocal gone",
        ),
    ),
    (
        Work::TimeToLive,
        (
            "tick",
            "first(EXPIRY), first(GONE), died and died + kept}\nlocal gone",
            "false, first(GONE), died and died + kept}\nlocal gone",
        ),
    ),
    (
        Work::TooManyDead,
        ("tick", "local limit_reached = dead > 0 and max and dead > max", "local limit_reached = false"),
    ),
    (Work::DeadTooOld, ("tick", "local died = dead > 0 and kept and first(DEAD)", "local died = false")),
    (
        Work::Remembered,
        ("tick", "first(GONE), died and died + kept}\nlocal gone", "false, died and died + kept}\nlocal gone"),
    ),
];

fn with_dead(dead_ttl: Option<Duration>) -> JobSettings {
    let mut settings = settings();
    settings.defaults = TopicSettings { dead_ttl, dead_max_len: Some(5), ..settings.defaults };
    settings
}

/// Whether a tick does it. It is due a moment later than a tick that has nothing to do.
async fn is_done(work: Work, rig: &mut Rig, scripts: &'static Scripts) -> bool {
    rig.begin(NOW).await;
    let jobs = rig.queue(with_dead(matches!(work, Work::DeadTooOld).then_some(KEPT)), scripts);
    let new = NewJob { id: Some("own".parse().expect("an id")), ..NewJob::new("body") };
    let ttl = matches!(work, Work::TimeToLive).then_some(KEPT);
    jobs.add(&topic(), vec![NewJob { ttl, ..new }]).await.expect("add");
    if !matches!(work, Work::TimeToLive) {
        let job = jobs.pop_now(&topic(), 1, Some(KEPT)).await.expect("pop").jobs.remove(0);
        match work {
            Work::TooManyDead | Work::DeadTooOld => {
                jobs.bury(&job.id, job.token, "no such customer").await.expect("bury");
            }
            Work::Remembered => jobs.finish(&job.id, job.token).await.expect("finish"),
            Work::Reservation | Work::TimeToLive => {}
        }
    }
    rig.set_clock(NOW + 59_000).await;
    let idle = jobs.tick(&topic(), 10).await.expect("a tick that has nothing to do");
    assert_eq!(idle.aged, Aged::default(), "{work:?}");
    rig.set_clock(NOW + 60_001).await;
    if matches!(work, Work::TooManyDead) {
        let limits = Limits { dead_max_len: Some(Some(0)), ..Limits::default() };
        jobs.set_limits(&topic(), &limits).await.expect("set the limits");
    }
    let aged = jobs.tick(&topic(), 10).await.expect("tick").aged;
    let done = match work {
        Work::Reservation => aged.came_back,
        Work::TimeToLive => aged.expired,
        Work::TooManyDead | Work::DeadTooOld => aged.trimmed,
        Work::Remembered => 1 - rig.redis.zcard::<_, u64>(key("gone")).await.expect("count what is remembered"),
    };
    done == 1
}

#[tokio::test]
async fn a_tick_does_what_there_is_to_do_and_a_planted_bug_is_noticed() {
    let mut rig = Rig::start().await;
    for (work, bug) in WORK {
        assert!(is_done(work, &mut rig, on_test_clock()).await, "{work:?} was not done");
        let planted = Box::leak(Box::new(Scripts::patched(Clock::Test, &[bug])));
        assert!(!is_done(work, &mut rig, planted).await, "{work:?}: the bug was not noticed");
    }
}

#[tokio::test]
async fn a_tick_that_has_nothing_to_do_sends_few_commands() {
    let mut rig = Rig::start().await;
    rig.begin(NOW).await;
    let jobs = rig.queue(with_dead(Some(KEPT)), on_test_clock());
    // Jobs in each state, with a time to live, none of which has ended.
    let new = |body: &'static str| NewJob { ttl: Some(KEPT), ..NewJob::new(body) };
    let later = NewJob { due: Due::After(KEPT / 2), ..new("waits") };
    jobs.add(&topic(), vec![new("dead"), new("reserved"), new("ready"), later]).await.expect("add");
    let taken = jobs.pop_now(&topic(), 2, Some(KEPT)).await.expect("pop").jobs;
    jobs.bury(&taken[0].id, taken[0].token, "no such customer").await.expect("bury");
    jobs.tick(&topic(), 10).await.expect("the tick that loads the script");

    let mut tick = None;
    let sent = rig.commands(async { tick = Some(jobs.tick(&topic(), 10).await.expect("tick")) }).await;
    let tick = tick.expect("a tick");
    assert_eq!((tick.delay, tick.ready, tick.reserved, tick.dead), (1, 1, 1, 1));
    assert!(sent <= MOST, "{sent} commands for one tick; at most {MOST} are expected");
}
