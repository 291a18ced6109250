//! Queues in order: nothing overtakes, through retries, outages, deaths of processes and changes of the daemon that delivers.

use super::*;
use delaybridge_core::template::Template;
use delaybridge_ledger::claims::{ClaimName, ClaimRequest, Extended, TakeOverReply, TakeOverRequest};
use delaybridge_ledger::store::Claims;
use delaybridge_model::Ordered;
use delaybridge_testing::memory::element;

const ACTIVE: &str = "delaybridge_queue_active{queue=\"q\"}";

/// A queue in order.
pub(super) fn in_order(sinks: &[(&str, Arc<FakeSink>)], order: Ordered) -> QueueSpec {
    QueueSpec { order: Some(Box::new(order)), codec: Codec::String.into(), ..spec(sinks) }
}

pub(super) fn world() -> World {
    let world = World::new();
    world.server.in_order("q");
    world
}

/// Elements that fall due one after the other, all in the past, with these keys as their payloads.
pub(super) fn offer_keys(world: &World, from: u64, keys: &[&str]) {
    for (n, key) in (from..).zip(keys) {
        world.store.offer_at(element(id(n), key.as_bytes()), world.server.now_ms() - 1_000 + i64::try_from(n).unwrap());
    }
}

/// The order in which elements were taken for the first time, of those that this chooses.
pub(super) fn first_taken(sink: &FakeSink, chosen: impl Fn(&Outbound) -> bool) -> Vec<u64> {
    let mut seen = Vec::new();
    for n in sink.taken().iter().filter(|message| chosen(message)).map(number) {
        if !seen.contains(&n) {
            seen.push(n);
        }
    }
    seen
}

fn transient() -> Step {
    Step::Fail(failure(Class::Transient, "again"))
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_not_overtaken() {
    let world = world();
    let sink = sink();
    sink.on_id(id(3), [transient(), transient()]);
    sink.on_id(id(40), [Step::Panic]);
    offer_keys(&world, 0, &["a"; 60]);
    let sinks = [("s", sink.clone())];
    let bridge = world.bridge_with(1, &sinks, in_order(&sinks, Ordered::Queue));
    world.until_empty().await;
    assert_eq!(sink.taken().iter().map(number).collect::<Vec<_>>(), (0..60).collect::<Vec<_>>());
    assert_eq!((times(&sink, [3, 40, 41]), sink.most_at_once()), (vec![3, 2, 1], 1));
    assert_eq!(bridge.metric(ACTIVE), 1.0);
}

/// Leaves claims of these elements behind, as a process does that dies. They were offered just before each claim.
pub(super) async fn left_behind(world: &World, claims: &[&[u64]]) {
    let dead = world.server.store("q", [7; 8]);
    for (number, ids) in (1..).zip(claims) {
        ids.iter().for_each(|n| offer_keys(world, *n, &["a"]));
        let request = ClaimRequest {
            name: ClaimName::new([7; 8], number),
            not_after_ms: i64::MAX,
            lease: LEASE,
            ahead: Duration::ZERO,
            most: ids.len(),
            bytes: 1 << 20,
            rotation: 0,
            hints: Default::default(),
            back_before_ms: None,
        };
        dead.claim(&request).await.unwrap();
    }
    offer_keys(world, 20, &["a"; 3]);
}

/// The claims of a dead process: what falls due first may be in any of them.
#[tokio::test(start_paused = true)]
async fn what_several_claims_left_is_delivered_in_its_order() {
    let world = world();
    let sink = sink();
    left_behind(&world, &[&[3, 5, 9], &[1, 7, 8], &[2, 4, 6]]).await;
    let sinks = [("s", sink.clone())];
    let spec = QueueSpec { max_in_flight: MaxInFlight::Fixed(4), ..in_order(&sinks, Ordered::Queue) };
    let _bridge = world.bridge_with(1, &sinks, spec);
    world.until_empty().await;
    assert_eq!(first_taken(&sink, |_| true), [1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21, 22]);
}

/// The same, and the sink is down when they are taken over: what went back is not overtaken by what is taken over next.
#[tokio::test(start_paused = true)]
async fn what_several_claims_left_goes_back_and_keeps_its_order() {
    for seconds in [1, 5, 40] {
        let world = world();
        let sink = sink();
        sink.outage(Some(failure(Class::Transient, "down")));
        left_behind(&world, &[&[3, 5, 9], &[1, 7, 8], &[2, 4, 6]]).await;
        let sinks = [("s", sink.clone())];
        let spec = QueueSpec { max_in_flight: MaxInFlight::Fixed(4), ..in_order(&sinks, Ordered::Queue) };
        let _bridge = world.bridge_with(1, &sinks, spec);
        within(2 * LEASE, "an attempt", || !sink.attempts().is_empty()).await;
        tokio::time::sleep(seconds * SECOND).await;
        sink.outage(None);
        world.until_empty().await;
        assert_eq!(first_taken(&sink, |_| true), [1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21, 22], "after {seconds} s");
    }
}

/// While claims are taken over nothing begins, so what is in hand cannot end; an element that has no room for its body goes
/// back, and everything in hand with it.
#[tokio::test(start_paused = true)]
async fn what_is_taken_over_without_its_body_holds_nothing_up() {
    for unread in 1..=9 {
        let world = world();
        let sink = sink();
        left_behind(&world, &[&[3, 5, 9], &[1, 7, 8], &[2, 4, 6]]).await;
        let sinks = [("s", sink.clone())];
        let spec = QueueSpec { max_in_flight: MaxInFlight::Fixed(4), ..in_order(&sinks, Ordered::Queue) };
        let bridge = world.bridge_with(1, &sinks, spec);
        bridge.wire.leave_unread(element(id(unread), b"a"));
        within(3 * LEASE, &format!("all to arrive without the body of {unread}"), || arrived(&sink).len() == 12).await;
        assert_eq!(first_taken(&sink, |_| true), [1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21, 22], "without that of {unread}");
    }
}

/// What may have killed three processes is taken over one element at a time; what comes behind it waits for all of them.
#[tokio::test(start_paused = true)]
async fn what_may_kill_the_process_is_not_overtaken() {
    let world = world();
    let sink = sink();
    left_behind(&world, &[&[1, 2, 3], &[4, 5, 6]]).await;
    let mut old = ClaimName::new([7; 8], 1);
    for owner in 8..10 {
        tokio::time::sleep(2 * LEASE).await;
        let new = old.taken_over_by([owner; 8], 1);
        let dead = world.server.store("q", [owner; 8]);
        let request =
            TakeOverRequest { old, new, not_after_ms: i64::MAX, lease: LEASE, most: 3, bytes: 1 << 20, largest: 0 };
        assert!(matches!(dead.take_over(&request).await, Ok(TakeOverReply::Taken { .. })));
        old = new;
    }
    let sinks = [("s", sink.clone())];
    let _bridge = world.bridge_with(1, &sinks, in_order(&sinks, Ordered::Queue));
    world.until_empty().await;
    assert_eq!(first_taken(&sink, |_| true), [1, 2, 3, 4, 5, 6, 20, 21, 22]);
}

/// A replica takes over that does not know of the return: the elements are in their claim again.
#[tokio::test(start_paused = true)]
async fn what_had_gone_back_before_a_failover_is_not_overtaken() {
    let world = world();
    let sink = sink();
    sink.outage(Some(failure(Class::Transient, "down")));
    offer_keys(&world, 0, &["a"; 3]);
    let later_ms = world.server.now_ms() + 10_000;
    (10..13).for_each(|n| world.store.offer_at(element(id(n), b"a"), later_ms + n as i64));
    let sinks = [("s", sink.clone())];
    let bridge = world.bridge_with(1, &sinks, in_order(&sinks, Ordered::Queue));
    eventually("a claim", || world.store.in_flight().len() == 3).await;
    world.server.cut_replica();
    eventually("everything to go back", || world.store.in_flight().is_empty()).await;
    bridge.wire.connect(false);
    world.server.promote_replica();
    assert_eq!(world.store.in_flight().len(), 3, "they are under the former lease");
    sink.outage(None);
    bridge.wire.connect(true);
    within(LEASE / 2, "all to arrive", || arrived(&sink).len() == 6).await;
    assert_eq!(first_taken(&sink, |_| true), [0, 1, 2, 10, 11, 12]);
    world.until_empty().await;
}

/// Its key is in its body.
#[tokio::test(start_paused = true)]
async fn an_element_whose_body_is_not_read_is_not_overtaken() {
    let world = world();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let key = Ordered::Key(Some(Box::new(Template::compile("${payload}").unwrap())));
    let bridge = world.bridge_with(1, &sinks, in_order(&sinks, key));
    bridge.wire.leave_unread(element(id(2), b"a"));
    offer_keys(&world, 0, &["a", "b", "a", "b", "a", "b", "a"]);
    world.until_empty().await;
    let of = |key: &'static str| first_taken(&sink, |message| message.body == key);
    assert_eq!((of("a"), of("b")), (vec![0, 2, 4, 6], vec![1, 3, 5]));
}

/// Leases could not be extended, so that elements had their turn when too little of them was left.
#[tokio::test(start_paused = true)]
async fn what_is_not_sent_for_want_of_lease_is_not_overtaken() {
    let world = world();
    let sink = sink();
    sink.otherwise(|_| Step::ConfirmAfter(LEASE.mul_f64(0.3)));
    offer_keys(&world, 0, &["a"; 5]);
    let sinks = [("s", sink.clone())];
    let bridge = world.bridge_with(1, &sinks, in_order(&sinks, Ordered::Queue));
    eventually("a claim", || world.store.in_flight().len() == 5).await;
    world.server.set_up(false);
    let dropped = "delaybridge_stale_drops_total{queue=\"q\"}";
    within(LEASE, "one to be late for its lease", || bridge.metric(dropped) >= 1.0).await;
    sink.otherwise(|_| Step::Confirm);
    world.server.set_up(true);
    offer_keys(&world, 10, &["a"; 5]);
    world.until_empty().await;
    let taken = first_taken(&sink, |_| true);
    assert_eq!(taken, [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_lets_the_next_one_go() {
    let world = world();
    let sink = sink();
    sink.on_id(id(1), [Step::Fail(failure(Class::MessagePermanent, "no"))]);
    offer_keys(&world, 0, &["a"; 5]);
    let sinks = [("s", sink.clone())];
    let _bridge = world.bridge_with(1, &sinks, in_order(&sinks, Ordered::Queue));
    world.until_empty().await;
    assert_eq!(sink.taken().iter().map(number).collect::<Vec<_>>(), [0, 2, 3, 4]);
    assert_eq!(world.store.dead().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_retry_holds_up_its_key_and_no_other() {
    let world = world();
    let sink = sink();
    sink.on_id(id(0), std::iter::repeat_n(transient(), 2));
    offer_keys(&world, 0, &["a", "b", "a", "b", "c", "a", "c"]);
    let sinks = [("s", sink.clone())];
    let key = Ordered::Key(Some(Box::new(Template::compile("${payload}").unwrap())));
    let _bridge = world.bridge_with(1, &sinks, in_order(&sinks, key));
    world.until_empty().await;
    let of = |key: &'static str| first_taken(&sink, |message| message.body == key);
    assert_eq!((of("a"), of("b"), of("c")), (vec![0, 2, 5], vec![1, 3], vec![4, 6]));
    let all = sink.taken().iter().map(number).collect::<Vec<_>>();
    let place = |n: u64| all.iter().position(|taken| *taken == n).unwrap();
    assert!(place(3) < place(0) && place(6) < place(0), "other keys go on: {all:?}");
}

/// The payload that the key was read from is delivered. What waits is decoded again in its turn.
#[tokio::test(start_paused = true)]
async fn the_first_element_of_a_key_is_decoded_once() {
    use crate::deliver::outbound::DECODED;
    let key = || Ordered::Key(Some(Box::new(Template::compile("${payload}").unwrap())));
    for (order, keys, decoded) in [
        (key(), ["a", "b", "c", "d", "e", "f"], 6),
        (key(), ["a", "b", "a", "a", "b", "c"], 9),
        (Ordered::Queue, ["a", "b", "a", "a", "b", "c"], 6),
    ] {
        let world = world();
        let sink = sink();
        sink.otherwise(|_| Step::ConfirmAfter(SECOND));
        offer_keys(&world, 0, &keys);
        let sinks = [("s", sink.clone())];
        let before = DECODED.get();
        let _bridge = world.bridge_with(1, &sinks, in_order(&sinks, order.clone()));
        world.until_empty().await;
        assert_eq!(DECODED.get() - before, decoded, "{order:?} {keys:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_changes_nothing_in_the_order_and_makes_no_dead_letters() {
    for order in [Ordered::Queue, Ordered::Key(Some(Box::new(Template::compile("${payload}").unwrap())))] {
        let world = world();
        let sink = sink();
        sink.outage(Some(failure(Class::Transient, "down")));
        offer_keys(&world, 0, &["a", "b", "c", "a", "b", "c", "a", "a", "a", "b"]);
        let sinks = [("s", sink.clone())];
        let bridge = world.bridge_with(1, &sinks, in_order(&sinks, order.clone()));
        eventually("the breaker to open", || !bridge.queue.is_open()).await;
        eventually("everything to go back", || world.store.in_flight().is_empty()).await;
        offer_keys(&world, 10, &["a", "b", "c"]);
        tokio::time::sleep(10 * MINUTE).await;
        sink.outage(None);
        world.until_empty().await;
        assert_eq!(world.store.dead().len(), 0);
        for key in ["a", "b", "c"] {
            let taken = first_taken(&sink, |message| message.body == key);
            assert!(taken.is_sorted(), "{order:?} {key}: {taken:?}");
        }
        assert_eq!(arrived(&sink), (0..13).collect::<Vec<_>>());
        if matches!(order, Ordered::Queue) {
            assert!(first_taken(&sink, |_| true).is_sorted());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn at_the_limit_of_what_waits_nothing_is_claimed() {
    let world = world();
    let sink = sink();
    sink.stall(true);
    offer_keys(&world, 0, &["a"; 50]);
    let sinks = [("s", sink.clone())];
    let spec = QueueSpec { max_in_flight: MaxInFlight::Fixed(5), ..in_order(&sinks, Ordered::Queue) };
    let _bridge = world.bridge_with(1, &sinks, spec);
    eventually("the limit", || world.store.in_flight().len() == 5).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!((world.store.in_flight().len(), sink.attempts().len()), (5, 1));
    sink.stall(false);
    world.until_empty().await;
    assert!(first_taken(&sink, |_| true).is_sorted());
}

/// The first process is cut off in the middle; the second stands by, takes over after the lease, and goes on in order.
#[tokio::test(start_paused = true)]
async fn one_process_delivers_and_another_one_goes_on_after_its_lease() {
    let world = world();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    // The first ones are confirmed, one is at the sink when the process dies.
    sink.on_id(id(7), [Step::Hang]);
    offer_keys(&world, 0, &["a"; 30]);
    let first = world.bridge_with(1, &sinks, in_order(&sinks, Ordered::Queue));
    eventually("the seventh", || sink.attempts().iter().any(|message| number(message) == 7)).await;
    let second = world.bridge_with(2, &sinks, in_order(&sinks, Ordered::Queue));
    second.offer([]);
    offer_keys(&world, 30, &["a"; 10]);
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(
        (sink.taken().len(), second.metric(ACTIVE)),
        (8, 0.0),
        "the second one delivers nothing while the first one has the order"
    );
    let killed = Instant::now();
    drop(first);
    world.until_empty().await;
    assert!(killed.elapsed() < 2 * LEASE, "{:?}", killed.elapsed());
    assert_eq!(first_taken(&sink, |_| true), (0..40).collect::<Vec<_>>());
    assert_eq!(second.metric(ACTIVE), 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stops_hands_the_order_over_at_once() {
    let world = world();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    offer_keys(&world, 0, &["a"; 10]);
    let first = world.bridge_with(1, &sinks, in_order(&sinks, Ordered::Queue));
    eventually("all of it", || sink.taken().len() == 10).await;
    assert!(first.stop(10 * SECOND).await);
    let started = Instant::now();
    offer_keys(&world, 10, &["a"; 10]);
    let _second = world.bridge_with(2, &sinks, in_order(&sinks, Ordered::Queue));
    eventually("the rest", || sink.taken().len() == 20).await;
    assert!(started.elapsed() < 5 * SECOND, "it waited for a lease: {:?}", started.elapsed());
    assert!(first_taken(&sink, |_| true).is_sorted());
}

/// The keeper sends an extension while the last element is settled, and the clock is a little behind.
#[tokio::test(start_paused = true)]
async fn an_extension_that_runs_before_the_leave_of_the_order_does_not_keep_it() {
    let world = world();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    offer_keys(&world, 0, &["a"; 10]);
    let first = world.bridge_with(1, &sinks, in_order(&sinks, Ordered::Queue));
    eventually("all of it", || sink.taken().len() == 10).await;
    let queue = first.queue.clone();
    let store = world.server.store("q", [1; 8]);
    first.wire.before_leave(async move {
        tokio::time::sleep(SECOND / 10).await;
        let names = [ClaimName::new([1; 8], 1)];
        let Extended::Done { now_ms, .. } = store.extend(LEASE, i64::MAX, &names).await.unwrap() else {
            panic!("late")
        };
        queue.renewed(now_ms);
    });
    assert!(first.stop(10 * SECOND).await);
    let stopped = Instant::now();
    offer_keys(&world, 10, &["a"; 10]);
    let _second = world.bridge_with(2, &sinks, in_order(&sinks, Ordered::Queue));
    eventually("the rest", || sink.taken().len() == 20).await;
    assert!(stopped.elapsed() < 5 * SECOND, "it waited for a lease: {:?}", stopped.elapsed());
}

/// Its last element is with a sink when a replica takes over, which has claims that have gone back since.
#[tokio::test(start_paused = true)]
async fn what_a_failover_brings_back_while_a_process_stops_is_not_overtaken() {
    let world = world();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let by_key = || in_order(&sinks, Ordered::Key(Some(Box::new(Template::compile("${payload}").unwrap()))));
    sink.on_id(id(0), [Step::ConfirmAfter(5 * SECOND)]);
    sink.on_id(id(1), [Step::ConfirmAfter(SECOND)]);
    offer_keys(&world, 0, &["a", "b", "b"]);
    let first = world.bridge_with(1, &sinks, by_key());
    eventually("both keys", || sink.attempts().len() == 2).await;
    world.server.cut_replica();
    let wire = first.wire.clone();
    let fails_over = async {
        eventually("the third to go back", || world.store.in_flight().len() == 1).await;
        wire.connect(false);
        world.server.promote_replica();
        assert_eq!(world.store.in_flight().len(), 3, "they are under the former lease");
        wire.connect(true);
    };
    tokio::join!(first.stop(30 * SECOND), fails_over);
    offer_keys(&world, 3, &["b", "b", "b"]);
    let _second = world.bridge_with(2, &sinks, by_key());
    world.until_empty().await;
    assert_eq!(first_taken(&sink, |message| message.body == "b"), [1, 2, 3, 4, 5]);
}

/// What is taken over fills the room, and comes to its keys in another task than the claimer's: the next claim, which ends the
/// takeover, must not wait for that room.
#[tokio::test(start_paused = true)]
async fn what_is_taken_over_and_fills_the_room_is_delivered() {
    for (many, suspect) in [(20, false), (19, false), (20, true)] {
        let world = world();
        let sink = sink();
        let mut all: Vec<u64> = (0..many).collect();
        left_behind(&world, &[&all]).await;
        if suspect {
            super::order_suspects::dies_twice(&world, 1).await;
        }
        let sinks = [("s", sink.clone())];
        let spec = QueueSpec { max_in_flight: MaxInFlight::Fixed(19), ..in_order(&sinks, Ordered::Queue) };
        let _bridge = world.bridge_with(1, &sinks, spec);
        let what = format!("{many} to arrive, suspect: {suspect}");
        let count = all.len() + 3;
        within(5 * LEASE, &what, || first_taken(&sink, |_| true).len() == count).await;
        all.extend([20, 21, 22]);
        assert_eq!(first_taken(&sink, |_| true), all, "of {many}, suspect: {suspect}");
    }
}
