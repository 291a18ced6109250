//! What people see who watch.

use super::*;
use delaybridge_telemetry::tail::{ElementEvent, Fate};

#[tokio::test(start_paused = true)]
async fn a_watcher_sees_what_becomes_of_each_element() {
    let world = World::new();
    let sink = sink();
    sink.on_id(id(6), [Step::Fail(failure(Class::Transient, "odd"))]);
    sink.on_id(id(7), [Step::Fail(failure(Class::MessagePermanent, "too_large"))]);
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    let tail = bridge.process.events.tail();
    bridge.offer(0..3);
    world.until_empty().await;
    assert_eq!(tail.look().len(), 0, "what was before is not recorded");

    bridge.offer(5..8);
    world.until_empty().await;
    let events = tail.look();
    let of = |n: u64, fate: Fate| -> &ElementEvent {
        let found = events.iter().find(|event| event.id.id == id(n) && event.fate == fate);
        found.unwrap_or_else(|| panic!("{n} {fate:?}: {events:?}"))
    };
    for (n, attempt) in [(5, 1), (6, 2)] {
        let event = of(n, Fate::Delivered);
        assert_eq!((event.sink.as_deref(), event.failure, event.attempt), (Some("s"), None, attempt), "{n}");
        assert!(event.payload.is_some() && event.due_ms.is_some());
    }
    let retry = of(6, Fate::Retry);
    assert_eq!((retry.sink.as_deref(), retry.failure), (Some("s"), Some(("transient", "odd"))));
    assert!(retry.next_ms > Some(retry.at_ms));
    let dead = of(7, Fate::Dead);
    assert_eq!((dead.sink.as_deref(), dead.failure), (Some("s"), Some(("message_permanent", "too_large"))));
    assert_eq!(events.len(), 4, "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn an_element_with_two_sinks_is_one_delivery() {
    let world = World::new();
    let one = sink();
    let other = sink();
    let bridge = world.bridge(1, &[("a", one.clone()), ("b", other.clone())]);
    let _ = bridge.process.events.tail().look();
    bridge.offer(0..2);
    world.until_empty().await;
    let events = bridge.process.events.tail().look();
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events.iter().all(|event| event.sink.as_deref() == Some("a, b") && event.fate == Fate::Delivered));
}
