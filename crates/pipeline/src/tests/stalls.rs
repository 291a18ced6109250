//! The watchdog: it sees a queue that nothing moves, and nothing else.

use super::world::{STALLED_AFTER, Trouble};
use super::*;
use crate::limits::budget::Room;

const STALLS: &str = "delaybridge_queue_stalls_total";

fn stalls(bridge: &Bridge) -> f64 {
    let text = bridge.process.events.metrics().render().unwrap();
    let of = |line: &str| line.strip_prefix(STALLS)?.rsplit_once(' ')?.1.parse::<f64>().ok();
    text.lines().filter_map(of).sum()
}

fn is_live(bridge: &Bridge) -> bool {
    bridge.process.events.status().live().ok
}

/// A queue that is watched, and its sink.
fn watched(world: &World) -> (Bridge, Arc<FakeSink>) {
    let sink = sink();
    let mut bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.watch();
    (bridge, sink)
}

/// Waits until the stall is seen; what the claimer waits for.
async fn stalled(bridge: &Bridge) -> String {
    within(3 * STALLED_AFTER, "the stall to be seen", || !is_live(bridge)).await;
    let answer = bridge.process.events.status().live();
    assert_eq!(answer.body["stalled"][0]["queue"], "q");
    answer.body["stalled"][0]["waits_for"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_claimer_that_waits_for_ever_beside_due_elements_is_seen() {
    let world = World::new();
    let (bridge, _) = watched(&world);
    // A guard that is never given back: whatever holds it waits for something that this queue has.
    let alone = bridge.process.isolation.clone().write_owned().await;
    bridge.offer(0..10);
    assert_eq!(stalled(&bridge).await, "isolation");
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!((is_live(&bridge), stalls(&bridge)), (false, 1.0), "one stall, however long");
    drop(alone);
    bridge.metric_is(DELIVERED, 10.0).await;
    eventually("the daemon to be live", || is_live(&bridge)).await;
    assert_eq!(stalls(&bridge), 1.0);
}

#[tokio::test(start_paused = true)]
async fn room_that_is_never_given_back_is_seen() {
    let world = World::new();
    let (bridge, _) = watched(&world);
    let _own = bridge.queue.budget.reserve(Room { count: 100, bytes: 1 }).await;
    bridge.offer([1]);
    assert_eq!(stalled(&bridge).await, "room");
    drop(bridge);
    let (bridge, _) = watched(&world);
    let _all = bridge.process.budget.reserve(Room { count: 1000, bytes: 1 }).await;
    assert_eq!(stalled(&bridge).await, "process_room");
}

#[tokio::test(start_paused = true)]
async fn whatever_else_takes_long_is_no_stall() {
    let world = World::new();
    let (bridge, sink) = watched(&world);
    // Nothing due.
    bridge.offer_in(HOUR, [1]);
    tokio::time::sleep(30 * MINUTE).await;
    // A sink that is down, one that is full, a queue on hold.
    for class in [Class::Transient, Class::Backpressure, Class::TargetPermanent] {
        sink.outage(Some(failure(class, "x")));
        bridge.offer(10..20);
        tokio::time::sleep(30 * MINUTE).await;
        assert!(!bridge.queue.is_open(), "{class:?}");
        sink.outage(None);
        world.until_empty().await;
    }
    // Redis is away, slow, or answers nothing.
    bridge.offer(20..30);
    world.server.set_up(false);
    tokio::time::sleep(30 * MINUTE).await;
    world.server.set_up(true);
    bridge.wire.trouble(Trouble { slow: SECOND, lost: 0.3 });
    bridge.offer(30..60);
    world.until_empty().await;
    bridge.wire.trouble(Trouble::default());
    bridge.wire.freeze(true);
    bridge.offer(60..70);
    tokio::time::sleep(30 * MINUTE).await;
    bridge.wire.freeze(false);
    world.until_empty().await;
    // A sink that takes its time with as much as may be in flight.
    sink.otherwise(|_| Step::ConfirmAfter(15 * SECOND));
    bridge.offer(100..1_000);
    world.until_empty().await;
    assert_eq!((is_live(&bridge), stalls(&bridge)), (true, 0.0));
}

#[tokio::test(start_paused = true)]
async fn a_slow_rate_is_no_stall() {
    let world = World::new();
    let sink = sink();
    let sinks: [(&str, Arc<FakeSink>); 1] = [("s", sink.clone())];
    let slow = QueueSpec { max_rate: Some(Box::new(1.0 / 600.0)), ..spec(&sinks) };
    let mut bridge = world.bridge_with(1, &sinks, slow);
    bridge.watch();
    bridge.offer(0..5);
    within(HOUR, "all deliveries", || sink.taken().len() == 5).await;
    assert_eq!((is_live(&bridge), stalls(&bridge)), (true, 0.0));
}
