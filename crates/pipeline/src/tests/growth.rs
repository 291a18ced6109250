//! Elements that become many times as large as they came: what is in flight is bounded by what is in memory (R4).

use super::world::{STALLED_AFTER, Wire};
use super::*;
use crate::active::ActiveQueue;
use crate::claim::{claimer, safety_poll};
use crate::leases::keeper;
use crate::registry::QueueRegistry;
use delaybridge_ledger::Hints;
use delaybridge_ledger::claims::{ClaimName, ClaimRequest};
use delaybridge_ledger::store::Claims;
use delaybridge_testing::memory::element;

/// What an element of [`offer`] becomes.
const SIZE: usize = 1_000_000;
/// What takes a turn to build.
const LARGE: usize = 3 * SIZE;
const RELEASED: &str = "delaybridge_released_messages_total";

/// A few bytes that unpack to so many: Zstandard's blocks of one repeated byte, as `ZStdCodec` writes them.
fn payload(size: usize) -> Vec<u8> {
    const BLOCK: usize = 100_000;
    let mut packed = u32::try_from(size).unwrap().to_be_bytes().to_vec();
    packed.extend([0x28, 0xb5, 0x2f, 0xfd, 0xa0]);
    packed.extend(u32::try_from(size).unwrap().to_le_bytes());
    for at in (0..size).step_by(BLOCK) {
        let last = usize::from(at + BLOCK == size);
        packed.extend(&u32::try_from(BLOCK << 3 | 1 << 1 | last).unwrap().to_le_bytes()[..3]);
        packed.push(b'a');
    }
    assert!(packed.len() * 1_000 < size, "{} bytes", packed.len());
    packed
}

fn offer(world: &World, queue: &str, ids: impl IntoIterator<Item = u64>) {
    let store = world.server.store(queue, [0; 8]);
    for n in ids {
        store.offer(element(id(n), &payload(SIZE)), Duration::ZERO);
    }
}

/// A queue that delivers what its elements unpack to, with so many bytes in flight.
fn unpacking(sinks: &[(&str, Arc<FakeSink>)], bytes: u64) -> QueueSpec {
    let mut spec = QueueSpec { codec: "zstd+string".parse().unwrap(), max_in_flight_bytes: bytes, ..spec(sinks) };
    for route in &mut spec.to {
        route.message.envelope = Envelope::Decoded;
    }
    spec
}

fn released(bridge: &Bridge) -> f64 {
    let text = bridge.process.events.metrics().render().unwrap();
    let of = |line: &str| line.strip_prefix(RELEASED)?.rsplit_once(' ')?.1.parse::<f64>().ok();
    text.lines().filter_map(of).sum()
}

#[tokio::test(start_paused = true)]
async fn elements_that_grow_a_thousandfold_stay_within_the_bound_while_the_sink_stalls() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let limit = 4 << 20;
    offer(&world, "q", 0..40);
    sink.stall(true);
    let bridge = world.bridge_with(1, &sinks, unpacking(&sinks, limit));
    eventually("the room to be used", || sink.attempts().len() == 4).await;
    let claims = bridge.wire.claims().len();
    tokio::time::sleep(15 * SECOND).await;
    assert_eq!(sink.attempts().len(), 4, "no more than there is room for");
    assert!(bridge.queue.budget.used().bytes <= limit + SIZE as u64);
    assert!(bridge.wire.claims().len() <= claims + 1, "it claims again and again");
    sink.stall(false);
    world.until_empty().await;
    assert_eq!(arrived(&sink), (0..40).collect::<Vec<_>>(), "each once");
    assert!(sink.taken().iter().all(|message| message.body.len() == SIZE));
    assert!(sink.most_bytes() as u64 <= limit + SIZE as u64, "{} bytes at the sink", sink.most_bytes());
    assert_eq!((released(&bridge), bridge.metric(DUPLICATES)), (0.0, 0.0));
    eventually("the room to be free", || bridge.queue.budget.used().bytes == 0).await;
    assert_eq!(bridge.process.budget.used().bytes, 0);
}

/// Beside what is in flight there is one large value that is being built, however many threads there are.
#[tokio::test(start_paused = true)]
async fn a_large_value_waits_until_no_other_is_being_built() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let bridge = world.bridge_with(1, &sinks, unpacking(&sinks, 64 << 20));
    let store = world.server.store("q", [0; 8]);
    let process = bridge.process.clone();
    let seen = sink.clone();
    let (holds, held) = tokio::sync::oneshot::channel();
    // It stops this runtime, whose only thread waits for the turn.
    let other = std::thread::spawn(move || {
        let turn = process.large.turn();
        holds.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        let attempts = seen.attempts().len();
        drop(turn);
        attempts
    });
    held.await.unwrap();
    store.offer(element(id(1), &payload(LARGE)), Duration::ZERO);
    world.until_empty().await;
    assert_eq!(other.join().unwrap(), 0, "it was built beside another one");
    assert_eq!((arrived(&sink), sink.most_bytes()), (vec![1], LARGE));
}

#[tokio::test(start_paused = true)]
async fn what_is_larger_than_the_bound_goes_alone() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    sink.otherwise(|_| Step::ConfirmAfter(SECOND));
    offer(&world, "q", 0..20);
    let mut bridge = world.bridge_with(1, &sinks, unpacking(&sinks, 64 << 10));
    bridge.watch();
    world.until_empty().await;
    assert_eq!(arrived(&sink), (0..20).collect::<Vec<_>>());
    assert_eq!(sink.most_bytes(), SIZE);
    assert!(bridge.process.events.status().live().ok, "it moves");
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_fails_and_a_lease_that_is_long_lose_no_room() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let mut n = 0;
    sink.otherwise(move |_| {
        n += 1;
        match n % 5 {
            0 => Step::Panic,
            1 => Step::FailAfter(SECOND, failure(Class::Transient, "x")),
            2 => Step::Hang,
            _ => Step::ConfirmAfter(SECOND),
        }
    });
    offer(&world, "q", 0..20);
    let patient = RetryPolicy { max_attempts: 1_000, ..*spec(&sinks).retry };
    let bridge = world.bridge_with(1, &sinks, QueueSpec { retry: patient.into(), ..unpacking(&sinks, 4 << 20) });
    within(HOUR, "the queue to be empty", || world.store.is_empty()).await;
    let mut all = arrived(&sink);
    all.dedup();
    assert_eq!(all.len() + world.store.dead().len(), 20);
    assert!(sink.most_bytes() as u64 <= 5 << 20);
    eventually("the room to be free", || bridge.process.budget.used().bytes == 0).await;
}

#[tokio::test(start_paused = true)]
async fn with_two_sinks_the_bodies_of_both_count() {
    let world = World::new();
    let a = sink();
    let b = sink();
    let sinks = [("a", a.clone()), ("b", b.clone())];
    a.otherwise(|_| Step::ConfirmAfter(SECOND));
    b.otherwise(|_| Step::ConfirmAfter(SECOND));
    offer(&world, "q", 0..40);
    let bridge = world.bridge_with(1, &sinks, unpacking(&sinks, 8 << 20));
    world.until_empty().await;
    for sink in [a, b] {
        assert_eq!(arrived(&sink), (0..40).collect::<Vec<_>>());
        assert!(sink.most_bytes() <= 5 * SIZE, "{} bytes at the sink", sink.most_bytes());
    }
    assert_eq!((released(&bridge), bridge.process.budget.used().bytes), (0.0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_room_at_a_stop_goes_back_uncounted() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    sink.otherwise(|_| Step::ConfirmAfter(2 * SECOND));
    offer(&world, "q", 0..40);
    let bridge = world.bridge_with(1, &sinks, unpacking(&sinks, 4 << 20));
    eventually("the room to be used", || sink.attempts().len() == 4).await;
    assert!(bridge.stop(10 * SECOND).await, "nothing is left in flight");
    let waiting = world.store.waiting();
    assert_eq!((waiting.len(), sink.taken().len()), (36, 4));
    assert!(waiting.iter().all(|(_, entry)| entry.attempts() == 0));
}

/// A second queue of a process, with everything that a test of room needs.
pub(super) fn second_queue(world: &World, bridge: &Bridge, spec: QueueSpec) -> Arc<ActiveQueue> {
    let wire = Wire::new(world.server.clone(), world.server.store("q2", bridge.process.owner), 2);
    let handle = bridge.queue.routes[0].handle.clone();
    let spec = Arc::new(QueueSpec { id: "q2".into(), ..spec });
    let queue = ActiveQueue::new(spec, bridge.process.clone(), Arc::new(wire.clone()), |_| Some(handle.clone()));
    let registry = QueueRegistry::of(Arc::new(wire), vec![queue.clone()]);
    let beat = |task: &str| bridge.process.events.status().heartbeat(task, MINUTE);
    tokio::spawn(claimer::run(queue.clone(), beat("claimer of q2")));
    tokio::spawn(keeper::run(registry.clone(), beat("keeper of q2")));
    tokio::spawn(safety_poll::run(registry, beat("poll of q2")));
    queue
}

/// Both have claimed, and want more than the process has. One of them holds an element that must be alone, which has room and
/// waits for the guard.
#[tokio::test(start_paused = true)]
async fn queues_that_wait_for_each_others_room_go_on() {
    let mut world = World::new();
    let sink = sink();
    world.in_flight_bytes = 3 << 19;
    let sinks = [("s", sink.clone())];
    sink.otherwise(|_| Step::ConfirmAfter(SECOND));
    offer(&world, "q2", [1_000]);
    let dead = world.server.store("q2", [7; 8]);
    let request = ClaimRequest {
        name: ClaimName { owner: [7; 8], number: 1, expiries: 2 },
        not_after_ms: i64::MAX,
        lease: SECOND,
        ahead: Duration::ZERO,
        most: 1,
        bytes: 1 << 20,
        rotation: 0,
        hints: Hints::default(),
        back_before_ms: None,
    };
    dead.claim(&request).await.unwrap();
    tokio::time::sleep(2 * SECOND).await;
    offer(&world, "q", 0..20);
    offer(&world, "q2", 100..120);
    let mut bridge = world.bridge_with(1, &sinks, unpacking(&sinks, 3 << 19));
    let second = second_queue(&world, &bridge, unpacking(&sinks, 3 << 19));
    bridge.watch();
    let other = world.server.store("q2", [0; 8]);
    within(5 * MINUTE, "both to be empty", || world.store.is_empty() && other.is_empty()).await;
    let expected: Vec<u64> = (0..20).chain(100..120).chain([1_000]).collect();
    assert_eq!(arrived(&sink), expected, "each once");
    // The bound of the process, the element that goes all the same, and the one that is alone.
    assert!(sink.most_bytes() <= (3 << 19) + 2 * SIZE, "{} bytes at the sink", sink.most_bytes());
    assert!(STALLED_AFTER > MINUTE && bridge.process.events.status().live().ok);
    let used = || [&bridge.process.budget, &bridge.queue.budget, &second.budget].map(|budget| budget.used().bytes);
    eventually("the room to be free", || used() == [0; 3]).await;
}
