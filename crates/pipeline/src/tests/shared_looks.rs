//! Daemons with the same queues share the looks at those at rest: none is late while all are there, and none is for long when one is
//! gone.

use std::sync::Arc;

use super::rest::Many;
use super::*;
use delaybridge_core::clock::Instant;
use delaybridge_ledger::score::Unit;
use delaybridge_source::SourceConfig;
use delaybridge_source::jobs::JobsSpec;
use delaybridge_source::zset::{Body, Naming, ZsetSpec};
use delaybridge_telemetry::labels::Wakeup;
use delaybridge_testing::memory::{Fault, MemoryServer, Op};

const QUEUES: usize = 200;

/// Queues that nobody announces anything in.
fn of_others(spec: &mut QueueSpec) {
    let (key, score) = (spec.id.to_string(), Unit::Millis);
    let zset = ZsetSpec { key, score, id: Naming::Hash, body: Body::Member, bytes: None, space: Default::default() };
    spec.source = Arc::new(SourceConfig::Zset(Box::new(zset)));
}

/// Topics of the job queue.
fn topics(spec: &mut QueueSpec) {
    let topic = spec.id.parse().expect("a topic");
    spec.source = Arc::new(SourceConfig::Jobs(JobsSpec::of(&topic)));
}

/// So many daemons with the same queues and the same sink, at rest.
async fn daemons(count: u8, sink: &Arc<FakeSink>, change: impl Fn(&mut QueueSpec) + Copy) -> Vec<Many> {
    let server = MemoryServer::new();
    let start = |n| Many::start_at(server.clone(), [n; 8], QUEUES, sink, change);
    let all: Vec<_> = (1..=count).map(start).collect();
    let looked_at = usize::from(count) * QUEUES;
    eventually("all to be looked at", || server.calls(Op::Claim) >= looked_at as u64).await;
    for one in &all {
        one.until_rest().await;
    }
    // Notes of all, and turns by them.
    tokio::time::sleep(5 * SECOND).await;
    all
}

/// Returns the number of looks at a queue in this time, in the mean by second.
async fn looks_per_second(all: &[Many], time: Duration) -> f64 {
    let before = all[0].server.calls(Op::Look);
    tokio::time::sleep(time).await;
    (all[0].server.calls(Op::Look) - before) as f64 / time.as_secs_f64() / QUEUES as f64
}

/// Offers an element in each queue and waits for all of them. Returns how late the last one was, in ms.
async fn worst_lateness(all: &[Many], sink: &FakeSink, delay: Duration) -> i64 {
    let before = sink.taken().len();
    let due_ms = all[0].server.now_ms() + delay.as_millis() as i64;
    (0..QUEUES).for_each(|queue| all[0].offer_in(queue, delay, (before + queue) as u64));
    let began = Instant::now();
    while sink.taken().len() < before + QUEUES {
        assert!(began.elapsed() < delay + MINUTE, "{} of {QUEUES} have come", sink.taken().len() - before);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    all[0].server.now_ms() - due_ms
}

#[tokio::test(start_paused = true)]
async fn ten_daemons_look_little_more_than_one_and_nothing_is_late() {
    let sink = sink();
    let all = daemons(10, &sink, of_others).await;
    let looks = looks_per_second(&all, MINUTE).await;
    // One each second, and each fourth one at retries and leases; one each fourth second; eight each minute.
    assert!((1.5..1.8).contains(&looks), "{looks} looks at a queue each second");
    for delay in [3 * SECOND, 20 * SECOND] {
        let late = worst_lateness(&all, &sink, delay).await;
        assert!(late <= 10, "{late} ms late after {delay:?}");
    }
    assert_eq!(sink.taken().len(), 2 * QUEUES, "each came once");
}

#[tokio::test(start_paused = true)]
async fn what_a_daemon_that_is_gone_would_have_looked_at_is_found_within_five_seconds() {
    for count in [2, 5] {
        let sink = sink();
        let mut all = daemons(count, &sink, of_others).await;
        drop(all.pop());
        let late = worst_lateness(&all, &sink, Duration::ZERO).await;
        assert!((1_000..=5_500).contains(&late), "{count} daemons: {late} ms late");
        tokio::time::sleep(10 * SECOND).await;
        let late = worst_lateness(&all, &sink, 20 * SECOND).await;
        assert!(late <= 10, "{count} daemons: {late} ms late after its note is old");
    }
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_stops_leaves_its_queues_to_the_others_at_once() {
    let sink = sink();
    let mut all = daemons(2, &sink, of_others).await;
    all.pop().expect("a daemon").stop().await;
    let late = worst_lateness(&all, &sink, Duration::ZERO).await;
    assert!(late <= 3_000, "{late} ms late");
}

#[tokio::test(start_paused = true)]
async fn what_a_looker_finds_and_does_not_claim_is_claimed_by_the_others() {
    let sink = sink();
    let all = daemons(5, &sink, of_others).await;
    // It lives and looks, and claims nothing: as one without room, or held.
    all[4].claimers.abort();
    let late = worst_lateness(&all, &sink, Duration::ZERO).await;
    assert!(late <= 5_000, "{late} ms late");
}

#[tokio::test(start_paused = true)]
async fn all_daemons_work_on_a_backlog() {
    let sink = sink();
    let all = daemons(6, &sink, of_others).await;
    sink.otherwise(|_| Step::Hang);
    (0..1_000).for_each(|n| all[0].offer_in(0, Duration::ZERO, n));
    let at_work = || all.iter().filter(|one| one.registry.get(0).is_some()).count();
    within(10 * SECOND, "all to claim", || at_work() == all.len()).await;
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_to_its_notes_each_daemon_looks_at_everything() {
    let sink = sink();
    let all = daemons(3, &sink, of_others).await;
    all[0].server.fail(Op::ShareLooks, vec![Fault::Refused("NOPERM"); 1_000]);
    tokio::time::sleep(5 * SECOND).await;
    let looks = looks_per_second(&all, MINUTE).await;
    assert!((2.3..3.1).contains(&looks), "{looks} looks at a queue each second");
    let late = worst_lateness(&all, &sink, 20 * SECOND).await;
    assert!(late <= 10, "{late} ms late");
}

#[tokio::test(start_paused = true)]
async fn daemons_with_other_queues_share_nothing() {
    let (first, second) = (sink(), sink());
    let all = daemons(1, &first, of_others).await;
    let more = Many::start_at(all[0].server.clone(), [9; 8], QUEUES + 1, &second, of_others);
    more.until_rest().await;
    tokio::time::sleep(10 * SECOND).await;
    let looks = looks_per_second(&all, MINUTE).await;
    assert!((2.4..2.6).contains(&looks), "{looks} looks at a queue each second");
    more.stop().await;
}

#[tokio::test(start_paused = true)]
async fn topics_at_rest_are_looked_at_twice_a_minute_and_what_was_known_is_in_time() {
    let sink = sink();
    let all = daemons(2, &sink, topics).await;
    tokio::time::sleep(30 * SECOND).await;
    let looks = looks_per_second(&all, 2 * MINUTE).await;
    // Those of the looker and of the other one.
    assert!((0.04..0.15).contains(&looks), "{looks} looks at a queue each second");
    // As if they had been announced and seen a while ago: the next look far ahead finds them before they are due.
    for delay in [45 * SECOND, 60 * SECOND, 95 * SECOND] {
        let late = worst_lateness(&all, &sink, delay).await;
        assert!(late <= 10, "{late} ms late after {delay:?}");
        tokio::time::sleep(15 * SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_daemon_alone_knows_of_a_topic_is_in_time_though_another_one_looks_at_it() {
    let sink = sink();
    let all = daemons(3, &sink, topics).await;
    tokio::time::sleep(60 * SECOND).await;
    for one in &all {
        for delay in [SECOND, 5 * SECOND, 12 * SECOND, 19 * SECOND] {
            // As an element that waits for its destination: only who has put it back knows when it is tried again. Its queue goes
            // to rest before that.
            let before = sink.taken().len();
            one.offer_in(0, delay, before as u64);
            let due_ms = one.server.now_ms() + delay.as_millis() as i64;
            one.registry.wake(0, |queue| queue.alarm.ring(Wakeup::Published));
            while sink.taken().len() == before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let late = one.server.now_ms() - due_ms;
            assert!(late <= 10, "{late} ms late after {delay:?}");
            one.until_rest().await;
            tokio::time::sleep(60 * SECOND).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_only_a_dead_daemon_knew_of_a_topic_is_found_when_it_is_gone() {
    let sink = sink();
    let mut all = daemons(2, &sink, topics).await;
    tokio::time::sleep(60 * SECOND).await;
    drop(all.pop());
    // A retry that it wrote just before: no script announces it.
    let late = worst_lateness(&all, &sink, Duration::ZERO).await;
    assert!(late <= 6_000, "{late} ms late");
}

/// Offers an element in some queues that fails once, each to one daemon alone. Returns how late the last retry was, in ms.
async fn worst_retry(all: &[Many], sink: &FakeSink, wait: Duration) -> i64 {
    let (before, tried) = (sink.taken().len(), sink.attempts().len());
    let some = 6;
    for n in 0..some {
        let element = (before + n) as u64;
        sink.on_id(id(element), [Step::Fail(failure(Class::Transient, "odd"))]);
        all[0].offer_in(n, Duration::ZERO, element);
        all[n % all.len()].registry.wake(n, |queue| queue.alarm.ring(Wakeup::Published));
    }
    within(SECOND, "the first attempts", || sink.attempts().len() == tried + some).await;
    let began = all[0].server.now_ms();
    while sink.taken().len() < before + some {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    all[0].server.now_ms() - began - wait.as_millis() as i64
}

/// A retry is announced to nobody: the queue stays at work at the daemon that wrote it.
#[tokio::test(start_paused = true)]
async fn a_retry_is_in_time_though_another_daemon_looks_at_its_queue() {
    let kinds: [fn(&mut QueueSpec); 2] = [of_others, topics];
    for change in kinds {
        for wait in [12 * SECOND, 25 * SECOND, 37 * SECOND, 50 * SECOND, 100 * SECOND] {
            let sink = sink();
            let retried = |spec: &mut QueueSpec| {
                change(spec);
                let retry = Arc::make_mut(&mut spec.retry);
                (retry.initial_interval, retry.max_interval, retry.full_jitter) = (wait, wait, false);
            };
            let all = daemons(3, &sink, retried).await;
            for pause in [60 * SECOND, 73 * SECOND] {
                tokio::time::sleep(pause).await;
                let late = worst_retry(&all, &sink, wait).await;
                assert!(late <= 20, "{late} ms late after {wait:?}");
            }
        }
    }
}
