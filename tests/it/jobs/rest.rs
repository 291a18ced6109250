//! A topic at rest costs Redis little, although each daemon looks at it again and again.

use std::time::Duration;

use delaybridge_jobs::{Due, NewJob, TopicSettings};
use redis::aio::MultiplexedConnection;

use super::random::settings;
use super::rig::{Rig, on_test_clock, topic};

const NOW: i64 = 1_800_000_000_000;
/// Maximum number of commands of a tick that has nothing to do, with those of its script.
const MOST: u64 = 16;

/// Number of commands that the server has run.
async fn commands(redis: &mut MultiplexedConnection) -> u64 {
    let info: String = redis::cmd("INFO").arg("stats").query_async(redis).await.expect("ask for the counters");
    let count = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    count.expect("the counter").trim().parse().expect("a number")
}

#[tokio::test]
async fn a_tick_that_has_nothing_to_do_sends_few_commands() {
    let mut rig = Rig::start().await;
    rig.begin(NOW).await;
    let mut settings = settings();
    let kept = Duration::from_secs(60);
    settings.defaults = TopicSettings { dead_ttl: Some(kept), dead_max_len: Some(5), ..settings.defaults };
    let jobs = rig.queue(settings, on_test_clock());
    // Jobs in each state, with a time to live, none of which has ended.
    let new = |body: &'static str| NewJob { ttl: Some(kept), ..NewJob::new(body) };
    let later = NewJob { due: Due::After(kept / 2), ..new("waits") };
    jobs.add(&topic(), vec![new("dead"), new("reserved"), new("ready"), later]).await.expect("add");
    let taken = jobs.pop_now(&topic(), 2, Some(kept)).await.expect("pop").jobs;
    jobs.bury(&taken[0].id, taken[0].token, "no such customer").await.expect("bury");
    jobs.tick(&topic(), 10).await.expect("the tick that loads the script");

    let before = commands(&mut rig.redis).await;
    let tick = jobs.tick(&topic(), 10).await.expect("tick");
    let sent = commands(&mut rig.redis).await - before - 1;
    assert_eq!((tick.delay, tick.ready, tick.reserved, tick.dead), (1, 1, 1, 1));
    assert!(sent <= MOST, "{sent} commands for one tick; at most {MOST} are expected");
}
