//! Two sinks: what one has confirmed, it never sees again because of the other.

use super::*;

const ELEMENTS: u64 = 5;

/// The first process ends without a word while sink B is in trouble, the second one finishes.
async fn check(trouble: Option<Failure>) {
    let world = World::new();
    let (a, b) = (sink(), sink());
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
