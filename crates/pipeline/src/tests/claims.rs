//! Claims whose reply is lost, that are refused, or that find no server: nothing is lost, and nothing is claimed twice.

use super::*;
use crate::tests::world::Trouble;
use delaybridge_ledger::claims::ClaimRequest;
use delaybridge_ledger::store::Claims;
use delaybridge_telemetry::labels::Wakeup;
use delaybridge_testing::memory::{Fault, Op};

const RECOVERED: &str = "delaybridge_recovered_messages_total{queue=\"q\"}";
const EXPIRED: &str = "delaybridge_claimed_messages_total{from=\"expired\",queue=\"q\"}";

#[tokio::test(start_paused = true)]
async fn what_a_claim_took_whose_reply_is_lost_is_found_and_delivered_once() {
    let world = World::new();
    let sink = sink();
    world.server.fail(Op::Claim, [Fault::ReplyLost]);
    world.offer(0..50);
    let started = Instant::now();
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.metric_is(DELIVERED, 50.0).await;
    assert!(started.elapsed() < 2 * SECOND, "it waited for its lease: {:?}", started.elapsed());
    world.until_empty().await;
    assert_eq!(arrived(&sink), (0..50).collect::<Vec<_>>());
    assert_eq!(bridge.metric(DUPLICATES), 0.0);
    assert_eq!(bridge.metric(RECOVERED), 50.0);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_never_arrived_is_looked_for_and_made_again() {
    let world = World::new();
    let sink = sink();
    world.server.fail(Op::Claim, [Fault::RequestLost, Fault::RequestLost]);
    world.offer(0..10);
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    world.until_empty().await;
    assert_eq!(arrived(&sink), (0..10).collect::<Vec<_>>());
    assert_eq!((bridge.metric(RECOVERED), bridge.metric(DUPLICATES)), (0.0, 0.0));
}

/// After a failover to a server whose clock is behind, or before the first answer of a server.
#[tokio::test(start_paused = true)]
async fn a_lost_claim_is_not_waited_for_until_a_clock_that_is_behind_has_caught_up() {
    for (fault, what) in [(Fault::ReplyLost, "reply"), (Fault::RequestLost, "request")] {
        let world = World::new();
        let sink = sink();
        world.server.fail(Op::Claim, [fault]);
        world.offer(0..10);
        let started = Instant::now();
        let bridge = world.bridge(1, &[("s", sink.clone())]);
        bridge.queue.home().observe(world.server.now_ms() + 60_000);
        bridge.metric_is(DELIVERED, 10.0).await;
        assert!(started.elapsed() < 3 * SECOND, "{what}: {:?}", started.elapsed());
        world.until_empty().await;
        assert_eq!(arrived(&sink), (0..10).collect::<Vec<_>>());
        assert_eq!(bridge.metric(DUPLICATES), 0.0);
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_to_the_extension_of_its_leases_a_process_claims_nothing_more() {
    let world = World::new();
    let sink = Arc::new(FakeSink::new(HOUR));
    let sinks = [("s", sink.clone())];
    let bridge = world.without_keeper(1, &sinks, spec(&sinks));
    sink.otherwise(|_| Step::Hang);
    bridge.offer(0..10);
    eventually("the sink to be asked", || sink.attempts().len() == 10).await;
    tokio::time::sleep(LEASE * 2 / 3).await;
    let claims = bridge.wire.claims().len();
    let extensions = world.server.calls(Op::Extend);
    world.server.fail(Op::Extend, [Fault::RequestLost, Fault::RequestLost, Fault::RequestLost]);
    bridge.offer([10]);
    let offered = Instant::now();
    eventually("a claim", || bridge.wire.claims().len() > claims).await;
    assert_eq!(world.server.calls(Op::Extend) - extensions, 1, "it claimed before its leases were extended");
    assert!(offered.elapsed() >= 3 * SECOND / 2, "{:?}: three questions without an answer", offered.elapsed());
    eventually("the sink to be asked for it", || sink.attempts().len() == 11).await;
}

#[tokio::test(start_paused = true)]
async fn a_search_whose_reply_is_lost_is_made_again() {
    let world = World::new();
    let sink = sink();
    world.server.fail(Op::Claim, [Fault::ReplyLost]);
    world.server.fail(Op::Contents, [Fault::ReplyLost, Fault::RequestLost, Fault::ReplyLost]);
    world.offer(0..50);
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    world.until_empty().await;
    assert_eq!(arrived(&sink), (0..50).collect::<Vec<_>>());
    assert_eq!((bridge.metric(RECOVERED), bridge.metric(DUPLICATES)), (50.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn what_a_lost_claim_took_from_a_process_that_died_is_announced_all_the_same() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let first = world.bridge(1, &sinks);
    sink.otherwise(|_| Step::Hang);
    first.offer(0..10);
    eventually("the sink to have taken all", || arrived(&sink).len() == 10).await;
    drop(first);
    tokio::time::sleep(LEASE).await;
    sink.otherwise(|_| Step::Confirm);
    world.server.fail(Op::TakeOver, [Fault::ReplyLost]);
    let second = world.bridge(2, &sinks);
    world.until_empty().await;
    assert_eq!(times(&sink, 0..10), [2; 10]);
    assert_eq!((second.metric(RECOVERED), second.metric(DUPLICATES)), (10.0, 10.0));
}

#[tokio::test(start_paused = true)]
async fn where_every_second_call_of_a_backlog_is_lost_nothing_is_delivered_twice() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let bridge = world.bridge(1, &sinks);
    bridge.wire.trouble(Trouble { slow: SECOND / 5, lost: 0.5 });
    for hundred in 0..20 {
        bridge.offer(hundred * 100..hundred * 100 + 100);
        tokio::time::sleep(3 * SECOND).await;
    }
    bridge.wire.trouble(Trouble::default());
    world.until_empty().await;
    assert_eq!(arrived(&sink), (0..2000).collect::<Vec<_>>());
    assert!(bridge.metric(RECOVERED) > 0.0);
    assert_eq!(bridge.metric(DUPLICATES), 0.0);
}

/// Redis cannot save to its disk, or loads its data: that passes, and nobody has to act.
#[tokio::test(start_paused = true)]
async fn a_refusal_that_passes_is_asked_about_twice_a_second() {
    for code in ["MISCONF", "LOADING", "READONLY"] {
        let world = World::new();
        let sink = sink();
        world.server.fail(Op::Claim, vec![Fault::Refused(code); 20]);
        world.offer(0..10);
        let started = Instant::now();
        let bridge = world.bridge(1, &[("s", sink.clone())]);
        world.until_empty().await;
        assert!(started.elapsed() < 12 * SECOND, "{code}: {:?}", started.elapsed());
        assert_eq!(arrived(&sink), (0..10).collect::<Vec<_>>());
        bridge.metric_is(HELD, 0.0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn refused_claims_back_off_to_half_a_minute_and_resume() {
    let world = World::new();
    let sink = sink();
    world.server.fail(Op::Claim, vec![Fault::Refused("WRONGTYPE"); 20]);
    world.offer(0..10);
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.metric_is(HELD, 1.0).await;
    within(HOUR, "all to be delivered", || bridge.metric(DELIVERED) == 10.0).await;
    bridge.metric_is(HELD, 0.0).await;
    let claims = bridge.wire.claims();
    let waits: Vec<u64> = claims.windows(2).take(20).map(|pair| pair[1].since(pair[0]).as_secs()).collect();
    assert_eq!(waits[..6], [1, 2, 4, 8, 16, 30], "{waits:?}");
    assert!(waits[6..].iter().all(|wait| *wait == 30), "{waits:?}");
    assert_eq!(arrived(&sink), (0..10).collect::<Vec<_>>());
    assert_eq!(bridge.metric(DUPLICATES), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_again_after_half_a_second() {
    let world = World::new();
    let sink = sink();
    world.server.fail(Op::Claim, vec![Fault::Refused("LOADING"); 10]);
    world.offer(0..10);
    let started = Instant::now();
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.metric_is(DELIVERED, 10.0).await;
    assert!((5 * SECOND..6 * SECOND).contains(&started.elapsed()), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_for_minutes_finds_the_elements_where_they_were() {
    let world = World::new();
    let sink = sink();
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    sink.stall(true);
    bridge.offer(0..10);
    eventually("the sink to be asked", || sink.attempts().len() == 10).await;
    world.offer_in(MINUTE, 10..60);
    world.server.set_up(false);
    sink.stall(false);
    tokio::time::sleep(5 * MINUTE).await;
    assert_eq!(world.store.in_flight().len(), 10, "no verdict can be written");
    assert_eq!(sink.attempts().len(), 10, "nothing can be claimed");
    let claims = bridge.wire.claims().len();
    world.server.set_up(true);
    world.until_empty().await;
    assert!(bridge.wire.claims().len() > claims);
    assert_eq!(arrived(&sink), (0..60).collect::<Vec<_>>(), "each once");
    bridge.metric_is(DELIVERED, 60.0).await;
    assert_eq!((bridge.metric(DUPLICATES), bridge.metric(EXPIRED)), (0.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn after_a_server_was_away_leases_are_extended_before_others_can_claim() {
    let world = World::new();
    let sink = Arc::new(FakeSink::new(2 * MINUTE));
    let sinks = [("s", sink.clone())];
    sink.otherwise(|_| Step::ConfirmAfter(90 * SECOND));
    let bridge = world.bridge(1, &sinks);
    bridge.offer(0..10);
    eventually("the sink to be asked", || sink.attempts().len() == 10).await;
    let other = world.bridge(2, &sinks);
    tokio::time::sleep(10 * SECOND).await;
    world.server.set_up(false);
    tokio::time::sleep(45 * SECOND).await;
    world.server.set_up(true);
    world.until_empty().await;
    assert_eq!(arrived(&sink), (0..10).collect::<Vec<_>>());
    assert_eq!((bridge.metric(DUPLICATES), other.metric(EXPIRED)), (0.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn a_push_is_made_exactly_once_however_often_its_reply_is_lost() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let mut spec = spec(&sinks);
    let list = delaybridge_core::template::Template::compile("out").unwrap();
    let push = delaybridge_link::Side::Right;
    spec.to[0].target = Arc::new(delaybridge_sink_redis::KeyTarget::list(list, push, true));
    let bridge = world.bridge_with(1, &sinks, spec);
    world.server.fail(Op::Settle, [Fault::ReplyLost, Fault::RequestLost, Fault::ReplyLost]);
    bridge.offer(0..10);
    world.until_empty().await;
    let mut pushed = world.store.list(b"out");
    pushed.sort();
    let mut expected: Vec<String> = (0..10).map(|n| format!("payload {n}")).collect();
    expected.sort();
    assert_eq!(pushed, expected);
    assert_eq!(bridge.metric(DELIVERED), 10.0);
    assert!(sink.attempts().is_empty(), "the store delivers");
}

#[tokio::test(start_paused = true)]
async fn claims_are_confirmed_as_a_whole_and_their_names_removed() {
    let world = World::new();
    let sink = sink();
    world.offer(0..100);
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    world.until_empty().await;
    bridge.metric_is(DELIVERED, 100.0).await;
    let calls = [Op::Confirm, Op::Settle, Op::Extend].map(|op| world.server.calls(op));
    assert_eq!(calls, [1, 0, 0], "confirm, settle, extend");
    eventually("the names to be gone", || world.store.claims().is_empty()).await;
    assert_eq!(bridge.queue.budget.used().count, 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_confirmed_is_written_while_others_of_its_claim_wait() {
    let world = World::new();
    let sink = sink();
    sink.on_id(id(7), [Step::ConfirmAfter(10 * SECOND)]);
    world.offer(0..100);
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    eventually("the sink to be asked", || times(&sink, [99]) == [1]).await;
    let asked = Instant::now();
    eventually("the others to be written", || world.store.in_flight().len() == 1).await;
    assert!(asked.elapsed() < SECOND / 20, "{:?}", asked.elapsed());
    assert_eq!(bridge.queue.budget.used().count, 1, "the room of what is written is released");
    bridge.metric_is(DELIVERED, 99.0).await;
    world.until_empty().await;
    assert_eq!((arrived(&sink).len(), bridge.metric(DUPLICATES)), (100, 0.0));
}

#[tokio::test(start_paused = true)]
async fn names_of_empty_claims_do_not_hide_what_a_dead_process_left_in_the_others() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let first = world.without_keeper(1, &sinks, spec(&sinks));
    // A claim each, all of them empty, and their names not removed.
    for n in 0..50 {
        first.offer([n]);
        eventually("it to arrive", || times(&sink, [n]) == [1]).await;
        tokio::time::sleep(SECOND / 10).await;
    }
    sink.otherwise(|_| Step::Hang);
    first.offer(100..110);
    eventually("the sink to have taken all", || arrived(&sink).len() == 60).await;
    drop(first);
    assert!(world.store.claims().len() > 50);
    tokio::time::sleep(LEASE + SECOND).await;
    sink.otherwise(|_| Step::Confirm);
    let started = Instant::now();
    let second = world.bridge(2, &sinks);
    world.until_empty().await;
    assert!(started.elapsed() < SECOND, "{:?}", started.elapsed());
    assert_eq!(times(&sink, 100..110), [2; 10]);
    assert_eq!((second.metric(EXPIRED), second.metric(DUPLICATES)), (10.0, 10.0));
    eventually("the names to be gone", || world.store.claims().is_empty()).await;
}

/// A failover to a replica that had not even received the claim: the elements are scheduled, as if they were new.
#[tokio::test(start_paused = true)]
async fn what_was_confirmed_and_is_claimed_again_after_a_failover_is_announced() {
    for (confirmed_first, hangs) in [(true, false), (false, true)] {
        let world = World::new();
        let sink = sink();
        let bridge = world.bridge(1, &[("s", sink.clone())]);
        // The connection was used before.
        bridge.offer([100]);
        bridge.metric_is(DELIVERED, 1.0).await;
        world.offer_in(SECOND, 0..10);
        let replica = world.server.save();
        if hangs {
            sink.otherwise(|_| Step::ConfirmAfter(5 * SECOND));
        }
        eventually("the sink to have them", || sink.attempts().len() == 11).await;
        if confirmed_first {
            bridge.metric_is(DELIVERED, 11.0).await;
        }
        assert_eq!(bridge.metric(DUPLICATES), 0.0);
        world.server.fail_over(replica);
        bridge.queue.alarm.ring(Wakeup::Reconnect);
        eventually("the sink to have them again", || sink.attempts().len() == 21).await;
        bridge.metric_is(DUPLICATES, 10.0).await;
        world.until_empty().await;
        // What is offered after that is new.
        bridge.offer(10..20);
        world.until_empty().await;
        assert_eq!((bridge.metric(DUPLICATES), times(&sink, 10..20)), (10.0, vec![1; 10]));
    }
}

/// A failover to a replica that had not received the removal of a claim.
#[tokio::test(start_paused = true)]
async fn what_was_confirmed_and_comes_back_in_its_claim_is_announced() {
    let world = World::new();
    let sink = sink();
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    sink.otherwise(|_| Step::ConfirmAfter(SECOND));
    bridge.offer(0..10);
    eventually("a claim", || !world.store.in_flight().is_empty()).await;
    let (name, _) = world.store.in_flight()[0].clone();
    world.until_empty().await;
    tokio::time::sleep(LEASE).await;
    assert_eq!(bridge.metric(DUPLICATES), 0.0);
    world.offer(0..10);
    let hints = Default::default();
    let request = ClaimRequest {
        name,
        not_after_ms: i64::MAX,
        lease: SECOND,
        ahead: Duration::ZERO,
        most: 500,
        bytes: 1 << 20,
        rotation: 0,
        hints,
        back_before_ms: None,
    };
    world.server.store("q", name.owner).claim(&request).await.unwrap();
    within(2 * MINUTE, "all to be delivered again", || sink.taken().len() == 20).await;
    bridge.metric_is(DUPLICATES, 10.0).await;
    assert!(sink.attempts()[10..].iter().all(|message| message.attempt == 2), "a second attempt says so");
    world.until_empty().await;
}
