//! Elements claimed before they are due: held, never early, and released unchanged.

use super::*;
use delaybridge_ledger::Hints;
use delaybridge_ledger::claims::{ClaimName, ClaimRequest};
use delaybridge_ledger::store::Claims;

fn ahead(sinks: &[(&str, Arc<FakeSink>)]) -> QueueSpec {
    QueueSpec { claim_ahead: LEASE / 2, lease: LEASE, ..spec(sinks) }
}

#[tokio::test(start_paused = true)]
async fn it_is_held_until_it_is_due() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let bridge = world.bridge_with(1, &sinks, ahead(&sinks));
    bridge.offer_in(Duration::from_secs(3), 0..50);
    eventually("all to be claimed", || world.store.in_flight().len() == 50).await;
    assert!(sink.attempts().is_empty(), "claimed, not sent");
    world.until_empty().await;
    let taken = sink.taken();
    assert_eq!(taken.len(), 50);
    assert!(taken.iter().all(|message| message.now_ms > message.due_ms.unwrap()), "sent early");
    assert_eq!(bridge.metric(DUPLICATES), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_stop_gives_it_back_for_its_due_time() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let bridge = world.bridge_with(1, &sinks, ahead(&sinks));
    bridge.offer_in(Duration::from_secs(20), 0..50);
    eventually("all to be held", || bridge.queue.leases.len() == 50).await;
    bridge.process.stopping.cancel();
    bridge.process.tasks.close();
    bridge.process.tasks.wait().await;

    let released = world.store.waiting();
    assert_eq!(released.len(), 50);
    assert!(released.iter().all(|(_, entry)| entry.attempts() == 0));
    assert!(released.iter().all(|(at_ms, entry)| Some(*at_ms) == entry.due_ms()), "for its due time");
    assert!(sink.attempts().is_empty());
    assert_eq!(bridge.metric("delaybridge_released_messages_total{queue=\"q\",reason=\"shutdown\"}"), 50.0);
    assert_eq!(bridge.metric(DUPLICATES), 0.0);
}

#[tokio::test(start_paused = true)]
async fn while_the_queue_is_on_hold_it_is_released_unsent() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let bridge = world.bridge_with(1, &sinks, ahead(&sinks));
    sink.outage(Some(failure(Class::TargetPermanent, "NOPERM")));
    bridge.offer_in(Duration::from_secs(3), 0..50);
    eventually("all to be claimed", || world.store.in_flight().len() == 50).await;
    bridge.offer([100]);
    eventually("the hold", || bridge.queue.hold().why().is_some()).await;
    eventually("all to be released", || world.store.waiting().len() >= 50).await;
    assert!(sink.attempts().len() <= 10, "{} sent into the hold: more than its probes", sink.attempts().len());
    sink.outage(None);
    world.until_empty().await;
    assert_eq!(sink.taken().len(), 51);
}

/// Room first, the guard last. Elements that are held ahead have all the room, and need the guard to be sent; an element that
/// may kill the process needs room, and the guard for itself.
#[tokio::test(start_paused = true)]
async fn an_element_that_must_be_alone_does_not_wait_for_those_that_wait_for_it() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    // The lease of a claim that expired twice is over: the next to take it over delivers it alone.
    world.offer([100]);
    let dead = world.server.store("q", [7; 8]);
    let name = ClaimName { owner: [7; 8], number: 1, expiries: 2 };
    let request = ClaimRequest {
        name,
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

    let spec = QueueSpec { max_in_flight: MaxInFlight::Fixed(10), ..ahead(&sinks) };
    world.offer_in(Duration::from_secs(20), 0..10);
    let bridge = world.bridge_with(1, &sinks, spec);
    eventually("all to be held", || bridge.queue.leases.len() == 10).await;
    world.until_empty().await;
    let mut expected: Vec<u64> = (0..10).collect();
    expected.push(100);
    assert_eq!(arrived(&sink), expected);
}
