//! Two sinks: what one has confirmed, it never sees again because of the other.

use super::*;
use crate::tests::world::Trouble;

const ELEMENTS: u64 = 5;

/// The first process ends without a word while sink B is in trouble, the second one finishes.
async fn check(trouble: Option<Failure>) {
    let world = World::new();
    let a = sink();
    let b = sink();
    let stalls = trouble.is_none();
    b.outage(trouble.clone());
    b.stall(stalls);
    let sinks = [("a", a.clone()), ("b", b.clone())];
    world.offer(0..ELEMENTS);
    let first = world.bridge(1, &sinks);
    eventually("A to have everything", || a.taken().len() as u64 == ELEMENTS).await;
    // B answered: the verdict says that A has confirmed. B is silent: after a second a progress does.
    eventually("it to be written that A has confirmed", || {
        let retries = world.store.waiting().into_iter().map(|(_, entry)| entry);
        let entries: Vec<_> = world.store.in_flight().into_iter().map(|(_, entry)| entry).chain(retries).collect();
        entries.len() as u64 == ELEMENTS && entries.iter().all(|entry| entry.header().confirmed.len() == 1)
    })
    .await;
    let asked = b.attempts().len();
    if !stalls {
        eventually("B to be asked again", || b.attempts().len() > asked).await;
    }
    drop(first);
    b.outage(None);
    b.stall(false);
    let second = world.bridge(2, &sinks);
    world.until_empty().await;
    assert_eq!(times(&a, 0..ELEMENTS), [1; 5], "A was asked again: {trouble:?}");
    let mut taken: Vec<MessageId> = b.taken().iter().map(|message| message.id.id).collect();
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len() as u64, ELEMENTS);
    assert_eq!(world.store.dead().len(), 0);
    second.metric_is(DELIVERED, ELEMENTS as f64).await;
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_confirmed_is_not_asked_again_while_the_other_is_down() {
    check(Some(failure(Class::Transient, "down"))).await;
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_confirmed_is_not_asked_again_while_the_queue_is_held_for_the_other() {
    check(Some(failure(Class::TargetPermanent, "NOPERM"))).await;
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_confirmed_is_not_asked_again_while_the_other_is_full() {
    check(Some(failure(Class::Backpressure, "OOM"))).await;
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_confirmed_is_not_asked_again_when_the_process_dies_while_the_other_is_silent() {
    check(None).await;
}

/// While it is being written that A has confirmed, B does too. Which key of the claim has the element is not known then, so the claim
/// does not end by its name.
#[tokio::test(start_paused = true)]
async fn a_sink_that_confirms_while_the_other_is_noted_ends_the_element() {
    for after_ms in (1_000..2_000).step_by(50) {
        let world = World::new();
        let a = sink();
        let b = sink();
        b.otherwise(move |_| Step::ConfirmAfter(Duration::from_millis(after_ms)));
        let sinks = [("a", a.clone()), ("b", b.clone())];
        world.offer(0..ELEMENTS);
        let bridge = world.bridge(1, &sinks);
        bridge.wire.trouble(Trouble { slow: SECOND, lost: 0.0 });
        within(LEASE / 2, &format!("all to be gone if B needs {after_ms} ms"), || {
            b.taken().len() as u64 == ELEMENTS && world.store.in_flight().is_empty()
        })
        .await;
        world.until_empty().await;
        let once = vec![1; ELEMENTS as usize];
        assert_eq!(
            (times(&a, 0..ELEMENTS), times(&b, 0..ELEMENTS), bridge.metric(STALE_ACKS)),
            (once.clone(), once, 0.0)
        );
        bridge.metric_is(DELIVERED, ELEMENTS as f64).await;
    }
}
