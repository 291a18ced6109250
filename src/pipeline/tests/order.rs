//! Queues in order: nothing overtakes, through retries, outages, deaths of processes and changes of the daemon that delivers.

use super::*;
use crate::config::Ordered;
use crate::source::memory::element;
use crate::template::Template;

const ACTIVE: &str = "delaybridge_queue_active{queue=\"q\"}";

/// A queue in order.
fn in_order(sinks: &[(&str, Arc<FakeSink>)], order: Ordered) -> QueueSpec {
    QueueSpec { order: Some(Box::new(order)), codec: Codec::String.into(), ..spec(sinks) }
}

fn world() -> World {
    let world = World::new();
    world.server.in_order("q");
    world
}

/// Elements that fall due one after the other, all in the past, with these keys as their payloads.
fn offer_keys(world: &World, from: u64, keys: &[&str]) {
    for (n, key) in (from..).zip(keys) {
        world.store.offer_at(element(id(n), key.as_bytes()), world.server.now_ms() - 1_000 + i64::try_from(n).unwrap());
    }
}

/// The order in which elements were taken for the first time, of those that this chooses.
fn first_taken(sink: &FakeSink, chosen: impl Fn(&Outbound) -> bool) -> Vec<u64> {
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
    let (world, sink) = (world(), sink());
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

#[tokio::test(start_paused = true)]
async fn a_dead_letter_lets_the_next_one_go() {
    let (world, sink) = (world(), sink());
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
    let (world, sink) = (world(), sink());
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

#[tokio::test(start_paused = true)]
async fn an_outage_changes_nothing_in_the_order_and_makes_no_dead_letters() {
    for order in [Ordered::Queue, Ordered::Key(Some(Box::new(Template::compile("${payload}").unwrap())))] {
        let (world, sink) = (world(), sink());
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
    let (world, sink) = (world(), sink());
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
    let (world, sink) = (world(), sink());
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
    let (world, sink) = (world(), sink());
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
