//! Priorities within a topic: what a random schedule seldom reaches.

use delaybridge_jobs::{Due, JobChange, JobId, JobQueue, JobState, LocalId, NewJob, OrderHalf, Which};
use redis::AsyncCommands;

use super::random::settings;
use super::rig::{Rig, key, on_test_clock, topic};

const NOW: i64 = 1_800_000_000_000;

fn queue(rig: &Rig) -> JobQueue {
    let mut settings = settings();
    (settings.defaults.max_jobs, settings.defaults.dead_max_len) = (None, None);
    rig.queue(settings, on_test_clock())
}

fn job(id: &str, due_ms: i64, priority: u8) -> NewJob {
    NewJob { id: Some(local(id)), due: Due::At(due_ms), priority, ..NewJob::new(id.to_owned()) }
}

fn local(id: &str) -> LocalId {
    id.parse().expect("an id")
}

async fn popped(jobs: &JobQueue, count: usize) -> Vec<String> {
    let popped = jobs.pop_now(&topic(), count, None).await.expect("pop").jobs;
    popped.iter().map(|job| job.id.local.to_string()).collect()
}

#[tokio::test]
async fn of_the_ready_jobs_the_highest_priority_is_first_and_none_is_early() {
    let mut rig = Rig::start().await;
    rig.begin(NOW).await;
    let jobs = queue(&rig);
    let new = [
        job("plain", NOW - 9_000, 0),
        job("low", NOW - 8_000, 1),
        job("high-2", NOW - 1_000, 9),
        job("high-1", NOW - 2_000, 9),
        job("late", NOW + 5_000, 9),
        job("middle", NOW - 500, 5),
    ];
    // A time in the past counts as now, so the clock is set forward instead.
    rig.set_clock(NOW - 10_000).await;
    jobs.add(&topic(), new.into()).await.expect("add");
    rig.set_clock(NOW).await;
    assert_eq!(popped(&jobs, 1).await, ["high-1"]);
    assert_eq!(popped(&jobs, 3).await, ["high-2", "middle", "low"]);
    let last = jobs.pop_now(&topic(), 5, None).await.expect("pop");
    assert_eq!(last.jobs.iter().map(|job| job.priority).collect::<Vec<_>>(), [0], "the due one");
    assert_eq!(last.next_ms, Some(NOW + 5_000), "the next is the one that is late");
    rig.set_clock(NOW + 5_000).await;
    // The others have come back meanwhile, at the same time.
    assert_eq!(popped(&jobs, 9).await, ["high-1", "high-2", "late", "middle", "low", "plain"]);
}

#[tokio::test]
async fn a_job_keeps_its_priority_on_every_way_back() {
    let mut rig = Rig::start().await;
    rig.begin(NOW).await;
    let jobs = queue(&rig);
    jobs.add(&topic(), vec![job("a", NOW, 0), job("b", NOW, 7)]).await.expect("add");
    let id = JobId { topic: topic(), local: local("b") };
    let first = jobs.pop_now(&topic(), 1, None).await.expect("pop").jobs.remove(0);
    assert_eq!((first.id.local.as_str(), first.priority), ("b", 7));
    jobs.bury(&id, first.token, "").await.expect("bury");
    let dead = jobs.peek(&topic(), JobState::Dead, 0, 10).await.expect("peek").jobs;
    assert_eq!(dead.iter().map(|job| job.priority).collect::<Vec<_>>(), [7]);
    assert_eq!(jobs.redrive(&topic(), Which::Oldest(1), None).await.expect("redrive"), 1);
    // Its due time is later than that of the other one, and so it is after a change.
    let change = JobChange { due: Some(Due::At(NOW + 1)), ..JobChange::default() };
    assert!(jobs.change(&id, &change).await.expect("change").changed);
    rig.set_clock(NOW + 10).await;
    assert_eq!(popped(&jobs, 1).await, ["b"]);
    rig.set_clock(NOW + 60_000).await;
    jobs.tick(&topic(), 10).await.expect("tick");
    assert_eq!(jobs.get(&id).await.expect("get").map(|job| job.priority), Some(7));
    let change = JobChange { priority: Some(0), ..JobChange::default() };
    assert!(jobs.change(&id, &change).await.expect("change").changed);
    assert!(!jobs.change(&id, &change).await.expect("change").changed, "it is so already");
    assert_eq!(popped(&jobs, 1).await, ["a"]);
}

#[tokio::test]
async fn what_an_earlier_version_leaves_in_the_order_hands_out_nothing_and_goes() {
    let mut rig = Rig::start().await;
    rig.begin(NOW).await;
    let jobs = queue(&rig);
    let taken: Vec<_> = (0..150).map(|n| job(&format!("gone-{n}"), NOW, 9)).collect();
    jobs.add(&topic(), taken).await.expect("add");
    jobs.add(&topic(), vec![job("a-plain", NOW, 0), job("kept", NOW, 3)]).await.expect("add");
    // It takes jobs from the due set, and does not know the order.
    for n in 0..150 {
        let id = format!("gone-{n}");
        redis::pipe().zrem(key("due"), &id).hdel(key("records"), &id).exec_async(&mut rig.redis).await.expect("remove");
    }
    // A call looks at a hundred of them, and then at the due times.
    assert_eq!(popped(&jobs, 1).await, ["a-plain"]);
    assert_eq!(popped(&jobs, 1).await, ["kept"]);
    assert_eq!(rig.redis.zcard::<_, u64>(key("urgent")).await.expect("count"), 0);
    jobs.add(&topic(), vec![job("more", NOW + 90_000, 9)]).await.expect("add");
    rig.redis.zadd::<_, _, _, ()>(key("urgent"), "old", NOW).await.expect("add");
    for _ in 0..50 {
        jobs.tick(&topic(), 10).await.expect("tick");
    }
    assert_eq!(rig.redis.zrange::<_, Vec<String>>(key("urgent"), 0, -1).await.expect("read"), ["more"]);
}

#[tokio::test]
async fn a_damaged_order_is_found_and_repaired_and_a_sound_one_is_left_alone() {
    let mut rig = Rig::start().await;
    rig.begin(NOW).await;
    let jobs = queue(&rig);
    let compared = async |repair: bool| {
        let mut wrong = Vec::new();
        for half in [OrderHalf::Members, OrderHalf::Jobs] {
            let page = jobs.compare_order(&topic(), half, 0, repair).await.expect("compare");
            wrong.push(page.wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
        }
        wrong
    };
    let new = [job("lost", NOW, 9), job("moved", NOW + 1, 3), job("none", NOW + 2, 0), job("sound", NOW + 3, 5)];
    jobs.add(&topic(), new.into()).await.expect("add");
    assert_eq!(compared(false).await, ["", ""]);
    let sound = rig.snapshot().await;
    rig.redis.zrem::<_, _, ()>(key("urgent"), "lost").await.expect("remove");
    for (id, order) in [("moved", 0), ("none", 1), ("gone", 2)] {
        rig.redis.zadd::<_, _, _, ()>(key("urgent"), id, order).await.expect("add");
    }
    let damaged = rig.snapshot().await;
    let found = ["gone", "lost moved none"];
    assert_eq!(compared(false).await, found);
    assert_eq!(rig.snapshot().await.urgent, damaged.urgent, "a look changes nothing");
    assert_eq!(compared(true).await, found);
    assert_eq!(rig.snapshot().await.urgent, sound.urgent);
    assert_eq!(compared(true).await, ["", ""]);
    // Without its mark, `pop` does not look at the order.
    rig.redis.del::<_, ()>(key("urgent")).await.expect("remove");
    rig.redis.hdel::<_, _, ()>(key("topic"), "urgent").await.expect("remove");
    rig.set_clock(NOW + 10).await;
    assert_eq!(compared(true).await, ["", "lost moved sound"]);
    assert_eq!(popped(&jobs, 9).await, ["lost", "sound", "moved", "none"]);
}

#[tokio::test]
async fn a_job_without_a_priority_costs_no_command_and_no_byte_more() {
    let mut rig = Rig::start().await;
    rig.begin(NOW).await;
    let jobs = queue(&rig);
    // The first calls find the topic new, and the clock of Redis another one than that of this machine.
    jobs.add(&topic(), vec![job("warm", NOW, 0)]).await.expect("add");
    assert_eq!(popped(&jobs, 1).await, ["warm"]);
    let add = rig.commands(async { drop(jobs.add(&topic(), vec![job("a", NOW, 0)]).await.expect("add")) }).await;
    let pop = rig.commands(async { drop(jobs.pop_now(&topic(), 1, None).await.expect("pop")) }).await;
    assert_eq!((add, pop), (ADD, POP), "as before there were priorities");
    let seen = rig.snapshot().await;
    assert_eq!((seen.records["a"].len(), seen.records["a"][0], seen.urgent.len()), (27 + 1, 1, 0));
    assert!(!rig.redis.exists::<_, bool>(key("urgent")).await.expect("ask"));
    assert_eq!((seen.state["a"].len(), seen.state["a"][0]), (45, 1));
}

#[tokio::test]
async fn a_priority_costs_few_commands_however_many_jobs_have_one() {
    let mut rig = Rig::start().await;
    rig.begin(NOW).await;
    let jobs = queue(&rig);
    for n in 0..10 {
        let many = (0..100).map(|k| job(&format!("{n}-{k}"), NOW + i64::from(k) * 1_000, n));
        jobs.add(&topic(), many.collect()).await.expect("add");
    }
    assert_eq!(popped(&jobs, 1).await, ["9-0"]);
    let add = rig.commands(async { drop(jobs.add(&topic(), vec![job("a", NOW, 9)]).await.expect("add")) }).await;
    let pop = rig.commands(async { drop(jobs.pop_now(&topic(), 1, None).await.expect("pop")) }).await;
    assert_eq!((add, pop), (ADD + 2, POP + 3), "its place, the look for it, and its end");
    // Nothing is due: each priority is looked at once.
    while !popped(&jobs, 100).await.is_empty() {}
    let none = rig.commands(async { drop(jobs.pop_now(&topic(), 1, None).await.expect("pop")) }).await;
    assert_eq!(none, 15, "each of nine priorities once, beside the look at the due set");
}

/// The commands of `add` and `pop` before there were priorities, counted with the scripts of that time.
const ADD: u64 = 9;
const POP: u64 = 11;
