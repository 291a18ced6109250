//! Leases that are kept, lost or run out, and verdicts whose reply is lost.

use super::*;
use crate::tests::world::Trouble;
use delaybridge_testing::memory::{Fault, Op};

const LATE_ACKS: &str = "delaybridge_late_acks_total{queue=\"q\"}";

/// A sink that may take as long as a test likes.
fn slow_sink(answers_after: Duration) -> Arc<FakeSink> {
    let sink = Arc::new(FakeSink::new(answers_after + MINUTE));
    sink.otherwise(move |_| Step::ConfirmAfter(answers_after));
    sink
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_kept_for_an_hour_although_half_of_its_extensions_are_lost() {
    let world = World::new();
    let sink = slow_sink(HOUR);
    let sinks = [("s", sink.clone())];
    let faults = [Fault::ReplyLost, Fault::RequestLost];
    world.server.fail(Op::Extend, std::iter::repeat_n(faults, 50).flatten());
    let bridge = world.bridge(1, &sinks);
    bridge.offer(0..10);
    eventually("the sink to be asked", || sink.attempts().len() == 10).await;
    let other = world.bridge(2, &sinks);
    within(2 * HOUR, "all to be delivered", || bridge.metric(DELIVERED) == 10.0).await;
    assert_eq!(arrived(&sink), (0..10).collect::<Vec<_>>());
    for bridge in [&bridge, &other] {
        assert_eq!((bridge.metric(DUPLICATES), bridge.metric(STALE_ACKS), bridge.metric(LATE_ACKS)), (0.0, 0.0, 0.0));
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_silent_process_holds_is_taken_over_and_its_verdicts_are_refused_and_counted() {
    let world = World::new();
    let silent = Arc::new(FakeSink::new(HOUR));
    let well = sink();
    let sinks = [("s", silent.clone())];
    let first = world.without_keeper(1, &sinks, spec(&sinks));
    silent.stall(true);
    first.offer(0..10);
    eventually("the sink to be asked", || silent.attempts().len() == 10).await;
    let second = world.bridge(2, &[("s", well.clone())]);
    tokio::time::sleep(55 * SECOND).await;
    assert!(well.attempts().is_empty(), "the lease is not over");
    second.metric_is(DELIVERED, 10.0).await;
    assert!(well.taken().iter().all(|message| message.attempt == 2), "the first may have sent them");
    silent.stall(false);
    first.metric_is(STALE_ACKS, 10.0).await;
    assert_eq!((first.metric(DELIVERED), second.metric(STALE_ACKS)), (0.0, 0.0));
    assert_eq!(second.metric(DUPLICATES), 10.0, "the first may have delivered all of them");
    assert!(first.queue.leases.is_empty());
    assert_eq!(first.queue.budget.used().count, 0);
}

/// Another process might take over while the name is removed, with what it has claimed under it.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_lease_is_nearly_over_is_confirmed_element_by_element() {
    let world = World::new();
    for (round, left, calls) in [(1, 30 * SECOND, [1, 0]), (2, SECOND, [1, 1])] {
        let sink = slow_sink(LEASE.saturating_sub(left));
        let sinks = [("s", sink.clone())];
        let bridge = world.without_keeper(round, &sinks, spec(&sinks));
        bridge.offer(0..10);
        bridge.metric_is(DELIVERED, 10.0).await;
        assert_eq!([Op::Confirm, Op::Settle].map(|op| world.server.calls(op)), calls, "{left:?} are left");
        assert_eq!(bridge.metric(DUPLICATES), 0.0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_cannot_reach_the_server_loses_its_leases_and_touches_nothing_afterwards() {
    let world = World::new();
    let silent = Arc::new(FakeSink::new(HOUR));
    let well = slow_sink(20 * MINUTE);
    let first = world.bridge(1, &[("s", silent.clone())]);
    silent.stall(true);
    first.offer(0..10);
    eventually("the sink to be asked", || silent.attempts().len() == 10).await;
    first.wire.connect(false);
    let second = world.bridge(2, &[("s", well.clone())]);
    eventually("another process to take over", || well.attempts().len() == 10).await;
    first.wire.connect(true);
    tokio::time::sleep(5 * MINUTE).await;
    let owners: Vec<[u8; 8]> = world.store.in_flight().iter().map(|(name, _)| name.owner).collect();
    assert_eq!(owners, [[2; 8]; 10]);
    silent.stall(false);
    first.metric_is(STALE_ACKS, 10.0).await;
    within(HOUR, "all to be delivered", || second.metric(DELIVERED) == 10.0).await;
    assert_eq!(second.metric(DUPLICATES), 10.0);
    assert_eq!(first.metric(DELIVERED), 0.0);
}

/// Its sender has given up, and is gone. The lease ends as if it had not been sent.
#[tokio::test(start_paused = true)]
async fn an_extension_that_was_held_up_keeps_nothing_from_others() {
    let world = World::new();
    let silent = Arc::new(FakeSink::new(HOUR));
    let well = sink();
    let first = world.bridge(1, &[("s", silent.clone())]);
    silent.stall(true);
    first.wire.hold_up_an_extension(25 * SECOND);
    first.offer(0..10);
    eventually("the sink to be asked", || silent.attempts().len() == 10).await;
    let asked = Instant::now();
    within(LEASE, "an extension", || !first.wire.is_to_hold_up()).await;
    first.wire.cut();
    let _second = world.bridge(2, &[("s", well.clone())]);
    within(LEASE + SECOND, "another process to deliver", || well.taken().len() == 10).await;
    assert!(asked.elapsed() < LEASE + 2 * SECOND, "{:?}", asked.elapsed());
}

/// Redis looks up only so many names at once. One call that comes late does not take the answers of the others.
#[tokio::test(start_paused = true)]
async fn thousands_of_leases_are_extended_with_several_calls() {
    use crate::claim::record::ClaimContents;
    use crate::leases::keeper;
    use crate::limits::reserved::RoomReserved;
    use delaybridge_ledger::claims::{ClaimName, EXTENDED};
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let bridge = world.without_keeper(1, &sinks, spec(&sinks));
    let queue = &bridge.queue;
    let now = delaybridge_core::clock::Instant::now();
    for number in 0..EXTENDED as u64 + 500 {
        let name = ClaimName::new([1; 8], 1_000 + number);
        world.store.add_lease(&name.to_string(), world.server.now_ms() + 10_000);
        let contents = ClaimContents {
            name,
            not_after_ms: 0,
            may_repeat: false,
            elements: Vec::new(),
            complete: true,
            deadline: now.after(10 * SECOND),
            history: None,
        };
        let _claim = queue.leases.take_up(contents, RoomReserved::none(&queue.budget, &queue.process.budget));
    }
    let due = || queue.leases.due(now, LEASE / 2).len();
    world.server.fail(Op::Extend, [Fault::ReplyLost]);
    assert!(!keeper::extend(&queue.leases).await);
    assert_eq!((world.server.calls(Op::Extend), due()), (1, EXTENDED + 500), "no answer, no extension");
    assert!(keeper::extend(&queue.leases).await);
    assert_eq!((world.server.calls(Op::Extend), due()), (3, 0));
}

/// After a failover to a server whose clock is ahead, the first extension is late. Its answer corrects the clock.
#[tokio::test(start_paused = true)]
async fn an_extension_that_is_late_by_a_wrong_clock_is_sent_again_at_once() {
    use crate::leases::keeper;
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let bridge = world.without_keeper(1, &sinks, spec(&sinks));
    sink.stall(true);
    bridge.offer(0..10);
    eventually("the sink to be asked", || sink.attempts().len() == 10).await;
    tokio::time::sleep(SECOND).await;
    bridge.queue.home().observe(world.server.now_ms() - 60_000);
    let extensions = world.server.calls(Op::Extend);
    assert!(keeper::extend_all(&bridge.queue.leases, LEASE).await);
    assert_eq!(world.server.calls(Op::Extend) - extensions, 2);
    let due = bridge.queue.leases.due(delaybridge_core::clock::Instant::now(), LEASE);
    assert!(due.is_empty(), "{due:?} are not extended");
    sink.stall(false);
    bridge.metric_is(DELIVERED, 10.0).await;
}

#[tokio::test(start_paused = true)]
async fn verdicts_whose_reply_is_lost_are_sent_again_and_count_once() {
    let world = World::new();
    let sink = sink();
    sink.on_id(id(1), [Step::Fail(failure(Class::MessagePermanent, "too_large"))]);
    sink.on_id(id(2), [Step::Fail(failure(Class::Transient, "odd"))]);
    sink.on_id(id(3), [Step::Fail(failure(Class::Backpressure, "OOM"))]);
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    let faults = [Fault::ReplyLost, Fault::RequestLost, Fault::ReplyLost, Fault::ReplyLost];
    world.server.fail(Op::Confirm, std::iter::repeat_n(faults, 10).flatten());
    for n in 0..20 {
        bridge.offer([n]);
        tokio::time::sleep(SECOND).await;
    }
    world.until_empty().await;
    assert_eq!(arrived(&sink), (0..20).filter(|n| *n != 1).collect::<Vec<_>>());
    let dead = world.store.dead();
    assert_eq!(dead.iter().map(|letter| letter.text("id").to_owned()).collect::<Vec<_>>(), [id(1).to_string()]);
    assert_eq!(bridge.metric(DELIVERED), 19.0);
    let dead = "delaybridge_dead_lettered_messages_total{queue=\"q\",reason=\"message_permanent\"}";
    assert_eq!(bridge.metric(dead), 1.0);
    assert_eq!((bridge.metric(DUPLICATES), bridge.metric(STALE_ACKS)), (0.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn a_verdict_that_is_sent_again_after_its_lease_is_not_counted_as_written() {
    let unknown = "delaybridge_unknown_acks_total{queue=\"q\"}";
    // Whether the sending without an answer has run; then nothing is left to be taken over.
    for (has_run, of_first, of_second) in [(false, 0.0, 1.0), (true, 0.0, 0.0)] {
        // Of whole claims, and of verdicts on single elements.
        for (op, answers) in
            [(Op::Confirm, Step::Confirm), (Op::Settle, Step::Fail(failure(Class::MessagePermanent, "odd")))]
        {
            let world = World::new();
            let sink = Arc::new(FakeSink::new(HOUR));
            sink.otherwise(move |_| answers.clone());
            let first = world.bridge(1, &[("s", sink.clone())]);
            sink.stall(true);
            first.offer([0]);
            eventually("the sink to be asked", || sink.attempts().len() == 1).await;
            if has_run {
                // The connection ends between the run and its answer.
                first.wire.trouble(Trouble { slow: 10 * SECOND, lost: 0.0 })
            } else {
                first.wire.freeze(true)
            }
            sink.stall(false);
            if has_run {
                eventually("the verdict to run", || world.server.calls(op) == 1).await;
                first.wire.connect(false);
                first.wire.trouble(Trouble::default());
            }
            tokio::time::sleep(2 * LEASE).await;
            let second = world.bridge(2, &[("s", sink.clone())]);
            world.until_empty().await;
            first.wire.freeze(false);
            first.metric_is(unknown, 1.0).await;
            let counted = |bridge: &Bridge| {
                let dead = "delaybridge_dead_lettered_messages_total{queue=\"q\",reason=\"message_permanent\"}";
                bridge.metric(DELIVERED) + bridge.metric(dead)
            };
            assert_eq!((counted(&first), counted(&second)), (of_first, of_second), "{op:?}, it has run: {has_run}");
            assert_eq!(first.metric(STALE_ACKS), 0.0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn verdicts_that_the_server_refuses_are_sent_until_it_accepts_them() {
    let world = World::new();
    let sink = sink();
    world.server.fail(Op::Confirm, vec![Fault::Refused("NOPERM"); 600]);
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.offer(0..10);
    bridge.metric_is(HELD, 1.0).await;
    let started = Instant::now();
    // 600 times half a second: several leases.
    within(HOUR, "all to be delivered", || bridge.metric(DELIVERED) == 10.0).await;
    assert!((290 * SECOND..310 * SECOND).contains(&started.elapsed()), "{:?}", started.elapsed());
    bridge.metric_is(HELD, 0.0).await;
    assert_eq!(times(&sink, 0..10), [1; 10]);
    assert_eq!(bridge.metric(DUPLICATES), 0.0);
}

#[tokio::test(start_paused = true)]
async fn progress_whose_reply_is_lost_is_written_once_and_holds_after_a_crash() {
    let world = World::new();
    let a = sink();
    let b = sink();
    b.stall(true);
    let sinks = [("a", a.clone()), ("b", b.clone())];
    world.server.fail(Op::Settle, [Fault::ReplyLost, Fault::RequestLost]);
    let first = world.bridge(1, &sinks);
    first.offer(0..5);
    eventually("the progress", || {
        let entries: Vec<_> = world.store.in_flight().into_iter().map(|(_, entry)| entry).collect();
        entries.len() == 5 && entries.iter().all(|entry| entry.header().confirmed.len() == 1)
    })
    .await;
    tokio::time::sleep(2 * SECOND).await;
    drop(first);
    b.stall(false);
    let _second = world.bridge(2, &sinks);
    world.until_empty().await;
    assert_eq!(times(&a, 0..5), [1; 5]);
    assert_eq!(arrived(&b), (0..5).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn an_element_that_kills_its_process_is_alone_after_three_times_and_dead_after_ten() {
    let world = World::new();
    let sink = sink();
    sink.otherwise(|message| match number(message) {
        0 => Step::Hang,
        _ => Step::ConfirmAfter(3 * SECOND),
    });
    world.offer([0]);
    for round in 1..=10 {
        world.offer(u64::from(round) * 10..u64::from(round) * 10 + 5);
        let bridge = world.bridge(round, &[("s", sink.clone())]);
        eventually("the element to be at the sink", || times(&sink, [0]) == [usize::from(round)]).await;
        if round > 3 {
            let own = world.store.in_flight().into_iter().filter(|(name, _)| name.owner == [round; 8]).count();
            assert_eq!(own, 1, "something is in flight beside it in round {round}");
        }
        assert!(world.store.dead().is_empty());
        drop(bridge);
        // Whatever it had taken comes back.
        tokio::time::sleep(61 * SECOND).await;
    }
    let last = world.bridge(11, &[("s", sink.clone())]);
    world.until_empty().await;
    assert_eq!(times(&sink, [0]), [10], "it is not delivered once more");
    let dead = world.store.dead();
    assert_eq!(dead.len(), 1);
    assert_eq!((dead[0].text("id"), dead[0].text("reason")), (&*id(0).to_string(), "lease_expired"));
    assert_eq!(last.metric("delaybridge_dead_lettered_messages_total{queue=\"q\",reason=\"lease_expired\"}"), 1.0);
    let mut neighbours = arrived(&sink);
    neighbours.retain(|n| *n != 0);
    neighbours.dedup();
    assert_eq!(neighbours.len(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_verdict_resets_the_leases_that_ran_out() {
    let world = World::new();
    let sink = sink();
    sink.on_id(id(0), vec![Step::Hang; 2]);
    world.offer([0]);
    for round in 1..=2 {
        let bridge = world.bridge(round, &[("s", sink.clone())]);
        eventually("the element to be at the sink", || times(&sink, [0]) == [usize::from(round)]).await;
        drop(bridge);
        tokio::time::sleep(61 * SECOND).await;
    }
    sink.on_id(id(0), [Step::Fail(failure(Class::Transient, "odd")), Step::Hang]);
    let _bridge = world.bridge(3, &[("s", sink.clone())]);
    eventually("the element to be at the sink again", || times(&sink, [0]) == [4]).await;
    let entries = world.store.in_flight();
    assert_eq!(entries.iter().map(|(name, _)| name.expiries).collect::<Vec<_>>(), [0]);
}
