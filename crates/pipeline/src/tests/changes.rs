//! Queues that come, go and change while others work: nothing is lost, nothing comes twice unannounced, and the others do
//! not notice.

use std::sync::atomic::Ordering;

use super::rest::Many;
use super::*;
use crate::leases::Forgotten;
use crate::retire;
use crate::tests::world::Trouble;
use delaybridge_ledger::claims::ClaimName;
use delaybridge_ledger::store::Claims;
use delaybridge_model::Ordered;
use delaybridge_testing::memory::{Fault, Op};

/// Announced: deliveries of elements that may have arrived before.
const REPEATS: &str = "delaybridge_possible_duplicates_total{queue=\"q0\"}";

impl Many {
    /// Changes the queue at this place as a reload does; how many elements were left to their leases.
    async fn change(&self, place: usize, within: Duration, change: impl FnOnce(&mut QueueSpec)) -> usize {
        let mut spec = (*self.registry.spec(place)).clone();
        change(&mut spec);
        let left = match self.registry.close(place) {
            Some(queue) => retire::drain(&queue, within).await,
            None => 0,
        };
        self.registry.open(place, Arc::new(spec));
        left
    }

    /// Ten elements are confirmed after Redis went away.
    async fn deliver_without_redis(&self, sink: &FakeSink) {
        sink.stall(true);
        (0..10).for_each(|n| self.offer_in(0, Duration::ZERO, n));
        eventually("them to be at the sink", || sink.attempts().len() == 10).await;
        self.server.set_up(false);
        sink.stall(false);
        eventually("the confirmations", || sink.taken().len() == 10).await;
    }

    fn in_flight(&self) -> (u64, u64) {
        let room = self.registry.process().budget.used();
        (room.count, room.bytes)
    }
}

/// How often each of these arrived.
fn counts(sink: &FakeSink, ids: std::ops::Range<u64>) -> Vec<usize> {
    let taken = arrived(sink);
    ids.map(|n| taken.iter().filter(|id| **id == n).count()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_queue_under_load_is_changed_again_and_again_and_its_neighbours_keep_their_tasks() {
    let sink = sink();
    sink.otherwise(|_| Step::ConfirmAfter(Duration::from_millis(fastrand::u64(0..40))));
    let many = Many::start(3, &sink, |_| ());
    let ids = 3_000;
    for n in 0..ids {
        many.offer_in((n % 3) as usize, Duration::from_millis(n * 7), n);
    }
    eventually("all to be at work", || many.at_work() == 3).await;
    let first = many.registry.get(1).unwrap();
    let second = many.registry.get(2).unwrap();
    for turn in 1..=20_u32 {
        tokio::time::sleep(SECOND).await;
        let before = many.registry.get(0).unwrap();
        let left = many.change(0, MINUTE, |spec| spec.max_in_flight = MaxInFlight::Fixed(10 + turn)).await;
        assert_eq!(left, 0);
        let now = many.registry.get(0).unwrap();
        assert!(!Arc::ptr_eq(&before, &now) && now.spec.max_in_flight == MaxInFlight::Fixed(10 + turn));
        assert!(before.leases.is_empty() && before.tasks.is_empty(), "nothing of it is left");
        assert_eq!(before.budget.used().count, 0);
    }
    // Identity: the same queues, and so the same claimers, leases and counters.
    assert!(
        Arc::ptr_eq(&first, &many.registry.get(1).unwrap()) && Arc::ptr_eq(&second, &many.registry.get(2).unwrap())
    );
    assert!(!first.stopping.is_cancelled());
    eventually("all to arrive", || sink.taken().len() as u64 >= ids).await;
    eventually("all to be settled", || many.in_flight() == (0, 0)).await;
    assert!(counts(&sink, 0..ids).iter().all(|times| *times == 1), "{:?}", counts(&sink, 0..ids));
    assert_eq!(many.metric(REPEATS), 0.0);
    assert_eq!(many.metric("delaybridge_delivered_messages_total{queue=\"q0\"}"), 1000.0, "counters go on");
    assert_eq!(many.registry.counts().settled, ids);
    many.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_does_not_answer_holds_a_change_up_for_a_time_and_no_longer() {
    let sink = sink();
    let many = Many::start(2, &sink, |_| ());
    sink.stall(true);
    (0..10).for_each(|n| many.offer_in(0, Duration::ZERO, n));
    eventually("them to be at the sink", || sink.attempts().len() == 10).await;
    let began = Instant::now();
    assert_eq!(many.change(0, 10 * SECOND, |spec| spec.lease = 2 * MINUTE).await, 0);
    let took = began.elapsed();
    assert!((6 * SECOND..8 * SECOND).contains(&took), "released after 70 % of the time: {took:?}");
    assert_eq!(many.metric(REPEATS), 10.0, "they may have arrived");
    sink.stall(false);
    eventually("them to arrive", || counts(&sink, 0..10).iter().all(|times| *times >= 1)).await;
    eventually("all to be settled", || many.in_flight() == (0, 0)).await;
    many.stop().await;
}

/// A process that was frozen finds that the time of a change is over, and a signal: the queue that follows does not begin.
#[tokio::test(start_paused = true)]
async fn what_a_change_left_to_its_leases_is_left_over_at_a_stop_that_comes_at_once() {
    let sink = sink();
    let many = Many::start(1, &sink, |_| ());
    many.deliver_without_redis(&sink).await;
    let queue = many.registry.close(0).unwrap();
    assert_eq!(retire::drain(&queue, 10 * SECOND).await, 10);
    let registry = many.registry.clone();
    registry.process().stopping.cancel();
    registry.process().abandon.cancel();
    registry.open(0, registry.spec(0));
    many.stop().await;
    assert_eq!(registry.process().not_found.load(Ordering::Relaxed), 0, "nobody looked for it");
    assert!(registry.left_over() > 0, "the exit code says that something was left");
}

/// In order, the queue that follows waits for the leases of the one before, and one that is removed has none that follows.
#[tokio::test(start_paused = true)]
async fn what_no_queue_looks_for_is_left_over_until_its_lease_ends() {
    for is_removed in [false, true] {
        let sink = sink();
        let many = Many::start(1, &sink, |spec| spec.order = Some(Box::new(Ordered::Queue)));
        many.server.in_order("q0");
        sink.stall(true);
        (0..10).for_each(|n| many.offer_in(0, Duration::from_millis(n), n));
        eventually("the first to be at the sink", || sink.attempts().len() == 1 && many.in_flight().0 == 10).await;
        many.server.set_up(false);
        let left = &many.registry.process().left;
        let queue = many.registry.close(0).unwrap();
        assert_eq!(retire::drain(&queue, 10 * SECOND).await, 10);
        assert_eq!(left.count(), 0, "the queue that follows may find it");
        if is_removed {
            many.registry.clear(0);
        } else {
            many.registry.open(0, many.registry.spec(0));
        }
        let claims = left.count();
        assert!(claims > 0, "a stop says that something is left");
        queue.leases.leave([Forgotten {
            name: ClaimName::new([7; 8], 7),
            not_after_ms: 0,
            lease: LEASE,
            may_repeat: false,
        }]);
        assert_eq!((queue.leases.forgotten(), left.count()), (0, claims + 1), "what comes late is left as well");
        many.server.set_up(true);
        sink.stall(false);
        tokio::time::sleep(2 * LEASE).await;
        assert_eq!((left.count(), sink.taken().len()), (0, if is_removed { 0 } else { 10 }));
        many.stop().await;
    }
}

/// An extension is on its way when a queue ends, and runs in time for its sender: the lease begins when it runs.
#[tokio::test(start_paused = true)]
async fn what_is_left_counts_until_an_extension_without_an_answer_cannot_keep_it_any_more() {
    for is_inherited in [false, true] {
        left_beside_an_extension(is_inherited).await;
    }
}

/// `is_inherited`: by a queue that does not look for it, because its process has another owner.
async fn left_beside_an_extension(is_inherited: bool) {
    let world = World::new();
    let sink = Arc::new(FakeSink::new(HOUR));
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    sink.stall(true);
    let timeout = bridge.queue.home().call_timeout();
    bridge.wire.hold_up_an_extension(timeout.mul_f64(0.9));
    bridge.offer(0..10);
    eventually("them to be at the sink", || sink.attempts().len() == 10).await;
    within(LEASE, "an extension", || !bridge.wire.is_to_hold_up()).await;
    bridge.wire.connect(false);
    assert_eq!(retire::drain(&bridge.queue, SECOND / 100).await, 10);
    if is_inherited {
        world.idle_queue().leases.inherit(&bridge.queue.leases)
    } else {
        bridge.queue.leases.give_up()
    }
    let left = &bridge.process.left;
    let began = Instant::now();
    while began.elapsed() < LEASE + timeout.mul_f64(0.8) {
        assert!(left.count() > 0, "after {:?}", began.elapsed());
        tokio::time::sleep(SECOND / 10).await;
    }
    let expired = async || world.store.expired(world.server.now_ms(), 100).await.unwrap().0.len();
    assert_eq!(expired().await, 0, "the extension has run");
    tokio::time::sleep(timeout / 2).await;
    assert_eq!((left.count(), expired().await > 0), (0, true));
}

/// It was claimed ahead, and its lease could not be extended: it is left to its lease.
#[tokio::test(start_paused = true)]
async fn an_element_that_was_dropped_counts_as_left_until_its_lease_is_over() {
    let world = World::new();
    let sink = Arc::new(FakeSink::new(HOUR));
    world.offer_in(LEASE.mul_f64(0.85), 0..1);
    let sinks = [("s", sink.clone())];
    let spec = QueueSpec { claim_ahead: LEASE.mul_f64(0.9), ..spec(&sinks) };
    let bridge = world.bridge_with(1, &sinks, spec);
    eventually("a claim", || world.store.in_flight().len() == 1).await;
    bridge.wire.connect(false);
    bridge.metric_is("delaybridge_stale_drops_total{queue=\"q\"}", 1.0).await;
    assert_eq!(bridge.process.left.count(), 1);
    let expired = async || !world.store.expired(world.server.now_ms(), 100).await.unwrap().0.is_empty();
    tokio::time::sleep(LEASE).await;
    assert_eq!((bridge.process.left.count(), expired().await, sink.attempts().len()), (0, true, 0));
}

/// The queue that counts what is left may have a shorter lease than the one that claimed it.
#[tokio::test(start_paused = true)]
async fn what_is_left_counts_for_the_lease_that_it_was_given() {
    let world = World::new();
    let queue = world.idle_queue();
    queue.leases.give_up();
    let name = ClaimName::new([7; 8], 7);
    queue.leases.leave([Forgotten { name, not_after_ms: 0, lease: 3 * LEASE, may_repeat: false }]);
    tokio::time::sleep(2 * LEASE + LEASE / 2).await;
    assert_eq!(queue.process.left.count(), 1);
    tokio::time::sleep(LEASE).await;
    assert_eq!(queue.process.left.count(), 0);
}

/// While Redis is away nothing can be written: what is in flight is left to its leases, and found by the queue that follows.
#[tokio::test(start_paused = true)]
async fn verdicts_that_cannot_be_written_are_left_to_the_leases_and_announced() {
    let sink = sink();
    let many = Many::start(1, &sink, |_| ());
    many.deliver_without_redis(&sink).await;
    let began = Instant::now();
    let left = many.change(0, 10 * SECOND, |spec| spec.max_rate = Some(Box::new(100.0))).await;
    assert!(began.elapsed() <= 11 * SECOND, "{:?}", began.elapsed());
    assert_eq!(left, 10);
    assert_eq!(many.in_flight(), (0, 0), "they take no room meanwhile");
    many.server.set_up(true);
    within(LEASE / 4, "them to arrive again, before their leases are over", || sink.taken().len() == 20).await;
    eventually("all to be settled", || many.in_flight() == (0, 0) && many.server.store("q0", [0; 8]).is_empty()).await;
    assert_eq!(many.metric(REPEATS), 10.0);
    let attempts: Vec<u32> = sink.attempts().iter().map(|message| message.attempt).collect();
    assert_eq!(attempts, [[1; 10], [2; 10]].concat(), "who has them twice is to know");
    many.stop().await;
}

/// The same, and no replica has the claim that finds them: they go back first.
#[tokio::test(start_paused = true)]
async fn what_was_sent_and_goes_back_for_want_of_a_replica_is_announced() {
    let sink = sink();
    let many = Many::start(1, &sink, |_| ());
    many.server.await_replica();
    many.deliver_without_redis(&sink).await;
    assert_eq!(many.change(0, 10 * SECOND, |spec| spec.max_rate = Some(Box::new(100.0))).await, 10);
    many.server.cut_replica();
    many.server.set_up(true);
    let gone_back = "delaybridge_released_messages_total{queue=\"q0\",reason=\"not_durable\"}";
    within(10 * MINUTE, "them to go back", || many.metric(gone_back) == 10.0).await;
    many.server.reach_replica();
    within(10 * MINUTE, "them to arrive again", || sink.taken().len() == 20).await;
    assert!(sink.attempts()[10..].iter().all(|message| message.attempt == 2), "who has them twice is to know");
    many.stop().await;
}

/// In order, what follows waits for what a change has left to its lease, although the process is the same.
#[tokio::test(start_paused = true)]
async fn what_a_change_leaves_to_its_lease_is_not_overtaken_in_order() {
    let sink = sink();
    let many = Many::start(1, &sink, |spec| spec.order = Some(Box::new(Ordered::Queue)));
    many.server.in_order("q0");
    sink.stall(true);
    (0..10).for_each(|n| many.offer_in(0, Duration::from_millis(n), n));
    eventually("the first to be at the sink", || sink.attempts().len() == 1 && many.in_flight().0 == 10).await;
    many.server.set_up(false);
    assert_eq!(many.change(0, 10 * SECOND, |spec| spec.max_rate = Some(Box::new(1_000.0))).await, 10);
    many.server.set_up(true);
    sink.stall(false);
    (10..20).for_each(|n| many.offer_in(0, Duration::from_millis(n), n));
    let changed = Instant::now();
    eventually("them to arrive", || sink.taken().len() >= 20).await;
    assert!(changed.elapsed() < 2 * LEASE, "{:?}", changed.elapsed());
    assert_eq!(sink.taken().iter().map(number).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    eventually("all to be settled", || many.in_flight() == (0, 0) && many.server.store("q0", [0; 8]).is_empty()).await;

    // A change that leaves nothing holds up nothing.
    assert_eq!(many.change(0, 10 * SECOND, |spec| spec.max_rate = None).await, 0);
    many.offer_in(0, Duration::ZERO, 20);
    let changed = Instant::now();
    eventually("another one", || sink.taken().len() == 21).await;
    assert!(changed.elapsed() < 2 * SECOND, "{:?}", changed.elapsed());
    many.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_queue_leaves_its_elements_and_comes_back_to_them() {
    let sink = sink();
    let many = Many::start(2, &sink, |spec| spec.claim_ahead = 20 * SECOND);
    (0..5).for_each(|n| many.offer_in(0, 15 * SECOND, n));
    eventually("them to be held ahead", || many.in_flight().0 == 5).await;
    let spec = many.registry.spec(0);
    let queue = many.registry.close(0).unwrap();
    assert_eq!(retire::drain(&queue, 10 * SECOND).await, 0);
    retire::bury(&queue).await;
    many.registry.clear(0);
    many.events.queues_removed(std::slice::from_ref(&spec.id));
    let store = many.server.store("q0", [0; 8]);
    assert!(store.in_flight().is_empty() && queue.leases.is_forgotten());
    let series =
        |many: &Many| many.events.metrics().render().unwrap().lines().filter(|line| line.contains("\"q0\"")).count();
    tokio::time::sleep(MINUTE).await;
    assert_eq!((sink.taken().len(), series(&many), many.registry.places()), (0, 0, vec![1]));
    many.registry.announce(0, many.server.now_ms());
    many.registry.wake(0, |_| panic!("nothing is put to work"));
    assert!(many.registry.get(0).is_none());

    assert_eq!(many.registry.add(spec), 0, "a place that is free");
    eventually("them to arrive", || arrived(&sink) == [0, 1, 2, 3, 4]).await;
    eventually("all to be settled", || store.is_empty()).await;
    assert_eq!(many.metric(REPEATS), 0.0);
    assert!(series(&many) > 0);
    many.stop().await;
}

/// The reply to a claim was lost when the change begins: its elements are looked for first.
#[tokio::test(start_paused = true)]
async fn a_claim_with_a_lost_reply_is_found_before_a_queue_goes() {
    let sink = sink();
    let many = Many::one_at_rest(&sink).await;
    many.server.fail(Op::Claim, [Fault::ReplyLost]);
    (0..5).for_each(|n| many.offer_in(0, Duration::ZERO, n));
    eventually("the claim", || many.server.calls(Op::Claim) > 1).await;
    let queue = many.registry.close(0).unwrap();
    assert_eq!(retire::drain(&queue, MINUTE).await, 0);
    many.registry.open(0, many.registry.spec(0));
    eventually("them to arrive", || arrived(&sink) == [0, 1, 2, 3, 4]).await;
    assert_eq!(many.registry.process().not_found.load(Ordering::Relaxed), 0);
    assert_eq!(many.metric(REPEATS), 0.0);
    many.stop().await;
}

/// The reply to a claim is lost, and Redis is away until the change has no more time: the queue that follows looks for it.
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_not_found_in_time_is_left_to_the_queue_that_follows() {
    let sink = sink();
    let many = Many::one_at_rest(&sink).await;
    let before = many.server.calls(Op::Claim);
    many.server.fail(Op::Claim, [Fault::ReplyLost]);
    (0..5).for_each(|n| many.offer_in(0, Duration::ZERO, n));
    eventually("the claim", || many.server.calls(Op::Claim) > before).await;
    many.server.set_up(false);
    assert_eq!(
        many.change(0, 10 * SECOND, |spec| spec.max_rate = Some(Box::new(1_000.0))).await,
        0,
        "none is known of"
    );
    many.server.set_up(true);
    within(LEASE / 4, "them to arrive, before their lease is over", || arrived(&sink) == [0, 1, 2, 3, 4]).await;
    assert!(sink.attempts().iter().all(|message| message.attempt == 1), "none was sent before");
    assert_eq!(many.metric(REPEATS), 0.0);
    eventually("all to be settled", || many.in_flight() == (0, 0) && many.server.store("q0", [0; 8]).is_empty()).await;
    many.stop().await;
}

/// Redis is silent for longer than a change has time: the answer to a claim comes when the queue has ended.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_comes_after_a_change_is_left_to_the_queue_that_follows() {
    for seed in 0..8 {
        let world = World::seeded(seed);
        let sink = sink();
        let bridge = world.bridge(1, &[("s", sink.clone())]);
        bridge.offer([100]);
        world.until_empty().await;
        bridge.wire.trouble(Trouble { slow: 2 * SECOND, lost: 0.0 });
        bridge.offer(0..5);
        within(MINUTE, "the claim", || world.store.in_flight().len() == 5).await;
        let began = Instant::now();
        assert_eq!(retire::drain(&bridge.queue, SECOND / 50).await, 0, "none is known of");
        assert!(began.elapsed() <= SECOND / 20, "{:?}", began.elapsed());
        within(SECOND / 50, "it to be left", || bridge.queue.leases.forgotten() == 1).await;
        let left = bridge.queue.leases.take_forgotten();
        assert!(left.iter().all(|claim| !claim.may_repeat), "seed {seed}: {left:?}");
        tokio::time::sleep(2 * MINUTE).await;
        assert_eq!(sink.taken().len(), 1, "nothing is sent by a queue that has ended");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_in_the_middle_of_a_change_drains_that_queue_too() {
    let sink = sink();
    let many = Many::start(2, &sink, |_| ());
    sink.stall(true);
    (0..10).for_each(|n| many.offer_in(0, Duration::ZERO, n));
    eventually("them to be at the sink", || sink.attempts().len() == 10).await;
    let queue = many.registry.close(0).unwrap();
    let process = many.registry.process().clone();
    {
        let mut change = std::pin::pin!(retire::drain(&queue, MINUTE));
        let _ = tokio::time::timeout(SECOND, &mut change).await;
        // The reload is left as it is.
        process.stopping.cancel();
    }
    assert_eq!(many.registry.at_work().len(), 1, "the drain of the process sees it");
    process.abandon.cancel();
    eventually("all to be released", || many.in_flight() == (0, 0) && queue.leases.is_empty()).await;
    assert_eq!(many.metric(REPEATS), 10.0);
    assert!(many.server.store("q0", [0; 8]).in_flight().is_empty());
    many.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_lost_its_name_says_nothing_of_its_state_any_more() {
    let sink = sink();
    let many = Many::start(1, &sink, |_| ());
    many.offer_in(0, Duration::ZERO, 1);
    eventually("it to be up", || many.metric(SINK_UP) == 1.0).await;
    many.registry.sink("s").unwrap().retire();
    sink.outage(Some(failure(Class::Transient, "T")));
    (2..20).for_each(|n| many.offer_in(0, Duration::ZERO, n));
    eventually("attempts", || sink.attempts().len() > 5).await;
    tokio::time::sleep(MINUTE).await;
    assert_eq!(many.metric(SINK_UP), 1.0, "the board is its successor's");
    assert!(many.events.status().ready().body["sinks"]["up"]["s"].is_object());
    many.stop().await;
}
