//! Dead letters forwarded to a sink: they leave the stream when it has confirmed them, and not before.

use super::*;
use delaybridge_ledger::Forwarder;
use delaybridge_ledger::store::Store;

/// A bridge: its sink `main` refuses everything permanently, and its dead letters are forwarded to `target`.
fn bridge(world: &World, owner: u8, target: &Arc<FakeSink>) -> Bridge {
    let main = sink();
    main.outage(Some(failure(Class::MessagePermanent, "too_large")));
    let mut spec = spec(&[("main", main.clone())]);
    spec.dead_letter_to = Some(Box::new(route("target")));
    let sinks = [("main", main), ("target", target.clone())];
    world.without_keeper(owner, &sinks, spec)
}

#[tokio::test(start_paused = true)]
async fn it_stays_until_the_sink_has_confirmed_it() {
    let world = World::new();
    let target = sink();
    target.outage(Some(failure(Class::Transient, "unreachable")));
    let bridge = bridge(&world, 1, &target);
    bridge.offer(0..3);
    eventually("the sink to be asked", || !target.attempts().is_empty()).await;
    eventually("all letters to be there", || world.store.dead().len() == 3).await;
    // The process dies; the next one finds the letters.
    drop(bridge);
    assert_eq!(world.store.dead().len(), 3);
    target.outage(None);
    let _second = self::bridge(&world, 2, &target);
    // Once the lease of the one that died is over.
    eventually("the stream to be empty", || world.store.dead().is_empty()).await;
    let mut ids: Vec<MessageId> = target.taken().iter().map(|message| message.id.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_the_sink_refuses_stays_and_blocks_no_other() {
    let world = World::new();
    let target = sink();
    target.on_id(id(1), [Step::Fail(failure(Class::MessagePermanent, "too_large"))]);
    let bridge = bridge(&world, 1, &target);
    bridge.offer(0..3);
    eventually("all to be tried, and the neighbours to have left", || {
        times(&target, 0..3) == [1, 1, 1] && world.store.dead().len() == 1
    })
    .await;
    assert_eq!(world.store.dead()[0].text("id"), id(1).to_string());
    bridge.offer(3..4);
    eventually("a later one to be forwarded", || times(&target, 3..4) == [1]).await;
    assert_eq!(times(&target, 1..2), [1], "it is not tried again and again");
}

#[tokio::test(start_paused = true)]
async fn another_daemon_leaves_the_letters_to_the_one_that_has_the_lease() {
    let world = World::new();
    let target = sink();
    let bridge = bridge(&world, 1, &target);
    let other = world.server.store("q", [9; 8]);
    assert_eq!(other.forwarded(MINUTE, &[]).await.unwrap(), Forwarder::Own);
    assert_eq!(other.forwarded(MINUTE, &[]).await.unwrap(), Forwarder::Own, "sent twice it is the same");
    assert_eq!(bridge.queue.store.forwarded(MINUTE, &[]).await.unwrap(), Forwarder::Another);
    bridge.offer(0..1);
    bridge.metric_is("delaybridge_dead_lettered_messages_total{queue=\"q\",reason=\"message_permanent\"}", 1.0).await;
    assert_eq!(other.forwarded(Duration::ZERO, &[]).await.unwrap(), Forwarder::Own);
    bridge.queue.dead_letters.notify_one();
    eventually("it to be forwarded once the lease is released", || target.taken().len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_fails_does_not_block_those_behind_it() {
    let world = World::new();
    let target = sink();
    target.on_id(id(0), vec![Step::Fail(failure(Class::Unknown, "odd")); 50]);
    let bridge = bridge(&world, 1, &target);
    bridge.offer(0..20);
    eventually("the others to be forwarded", || world.store.dead().len() == 1).await;
    assert_eq!(world.store.dead()[0].text("id"), id(0).to_string());
}

#[tokio::test(start_paused = true)]
async fn what_a_daemon_that_died_had_at_the_sink_is_announced() {
    let world = World::new();
    let target = sink();
    target.stall(true);
    let first = bridge(&world, 1, &target);
    first.offer(0..1);
    eventually("the letter to be at the sink", || target.attempts().len() == 1).await;
    drop(first);
    target.stall(false);
    // It waits for the lease of the one that died.
    let second = bridge(&world, 2, &target);
    second.metric_is("delaybridge_dead_letters_forwarded_total{class=\"ok\",queue=\"q\",sink=\"target\"}", 1.0).await;
    second.metric_is(DUPLICATES, 1.0).await;
}
