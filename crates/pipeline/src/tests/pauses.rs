//! Queues and sinks that a person has paused: nothing is claimed, what is in flight is finished, and it lasts.

use super::*;
use delaybridge_ledger::{Pause, Subject};
use delaybridge_testing::memory::{Fault, Op};

const PAUSED: &str = "delaybridge_queue_paused{queue=\"q\"}";

/// Pauses for so long; nobody is told.
fn pause(world: &World, subject: Subject<'_>, time: Option<Duration>) {
    let since_ms = world.server.now_ms();
    let until_ms = time.map(|time| since_ms + i64::try_from(time.as_millis()).unwrap());
    let pause = Pause { by: "ann".to_owned(), why: "a test".to_owned(), since_ms, until_ms };
    world.store.set_pause(subject, Some(pause));
}

/// How many claims were sent.
fn claims(bridge: &Bridge) -> usize {
    bridge.wire.claims().len()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_claimed_while_a_queue_is_paused_and_everything_afterwards() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let mut bridge = world.bridge(1, &sinks);
    bridge.watch();
    bridge.offer(0..10);
    bridge.metric_is(DELIVERED, 10.0).await;
    pause(&world, Subject::Queue, None);
    bridge.queue.see_pauses();
    bridge.metric_is(PAUSED, 1.0).await;
    let before = claims(&bridge);
    bridge.offer(10..20);
    bridge.offer_in(MINUTE, 20..30);
    tokio::time::sleep(HOUR).await;
    assert_eq!((claims(&bridge), sink.attempts().len()), (before, 10));
    let ready = bridge.process.events.status().ready();
    assert_eq!(ready.body["paused"]["reasons"]["q"]["by"], "ann", "{}", ready.body);
    assert_eq!(ready.body["queues"]["held"], 0, "a pause is no hold");
    assert!(bridge.process.events.status().live().ok, "a paused queue is not stalled");
    // A daemon that starts meanwhile asks first.
    let second = world.bridge(2, &sinks);
    second.metric_is(PAUSED, 1.0).await;
    tokio::time::sleep(MINUTE).await;
    assert_eq!(claims(&second), 0);
    world.store.set_pause(Subject::Queue, None);
    bridge.queue.see_pauses();
    within(SECOND, "everything to arrive", || arrived(&sink) == (0..30).collect::<Vec<_>>()).await;
    // It was not told, and looks by itself.
    within(10 * SECOND, "the other one to see it", || second.metric(PAUSED) == 0.0).await;
    assert_eq!((bridge.metric(PAUSED), bridge.metric(DUPLICATES)), (0.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn a_pause_ends_by_itself_at_its_time_by_the_clock_of_the_server() {
    let world = World::new();
    let sink = sink();
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    pause(&world, Subject::Queue, Some(10 * MINUTE));
    bridge.offer(0..10);
    let began = Instant::now();
    within(HOUR, "everything to arrive", || arrived(&sink) == (0..10).collect::<Vec<_>>()).await;
    let took = began.elapsed();
    assert!((10 * MINUTE..10 * MINUTE + SECOND).contains(&took), "{took:?}");
    assert_eq!(bridge.metric(PAUSED), 0.0);
}

#[tokio::test(start_paused = true)]
async fn what_is_in_flight_at_a_pause_is_finished_and_what_failed_waits() {
    let world = World::new();
    let sink = sink();
    sink.otherwise(|_| Step::ConfirmAfter(5 * SECOND));
    sink.on_id(id(3), [Step::Fail(failure(Class::Transient, "odd")), Step::Confirm]);
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.offer(0..10);
    eventually("the sink to be asked", || sink.attempts().len() == 10).await;
    pause(&world, Subject::Queue, None);
    bridge.queue.see_pauses();
    bridge.metric_is(DELIVERED, 9.0).await;
    tokio::time::sleep(HOUR).await;
    assert_eq!(times(&sink, 3..4), [1], "its retry waits");
    assert!(bridge.queue.leases.is_empty());
    world.store.set_pause(Subject::Queue, None);
    bridge.queue.see_pauses();
    bridge.metric_is(DELIVERED, 10.0).await;
    assert_eq!((bridge.metric(DUPLICATES), times(&sink, 0..10)), (0.0, vec![1, 1, 1, 2, 1, 1, 1, 1, 1, 1]));
}

#[tokio::test(start_paused = true)]
async fn a_paused_sink_holds_the_queues_that_deliver_to_it_and_its_dead_letters() {
    let world = World::new();
    let main = sink();
    let letters = sink();
    main.outage(Some(failure(Class::MessagePermanent, "too_large")));
    let mut spec = spec(&[("main", main.clone())]);
    spec.dead_letter_to = Some(Box::new(route("letters")));
    pause(&world, Subject::Sink("letters"), None);
    let sinks = [("main", main.clone()), ("letters", letters.clone())];
    let bridge = world.bridge_with(1, &sinks, spec);
    bridge.offer(0..5);
    eventually("all to be dead", || world.store.dead().len() == 5).await;
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!((letters.attempts().len(), bridge.metric(PAUSED)), (0, 0.0), "elements do not go to that sink");
    // The queue is paused, and its letters go on.
    pause(&world, Subject::Queue, None);
    world.store.set_pause(Subject::Sink("letters"), None);
    bridge.queue.see_pauses();
    eventually("the letters to be forwarded", || world.store.dead().is_empty()).await;
    assert_eq!(letters.taken().len(), 5);
    world.store.set_pause(Subject::Queue, None);
    pause(&world, Subject::Sink("main"), None);
    bridge.queue.see_pauses();
    bridge.offer(5..10);
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!((main.attempts().len(), bridge.metric(PAUSED)), (5, 1.0));
    world.store.set_pause(Subject::Sink("main"), None);
    eventually("it to look by itself", || main.attempts().len() == 10).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_claimed_before_redis_has_said_what_is_paused() {
    let world = World::new();
    let sink = sink();
    let faults = [Fault::ReplyLost, Fault::RequestLost, Fault::Refused("NOPERM"), Fault::Refused("WRONGTYPE")];
    world.server.fail(Op::Pauses, faults);
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.offer(0..10);
    bridge.metric_is(HELD, 1.0).await;
    assert_eq!((claims(&bridge), world.server.calls(Op::Pauses)), (0, 1), "only one of these calls has run");
    bridge.metric_is(DELIVERED, 10.0).await;
    assert_eq!(bridge.metric(HELD), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_not_paused_pays_no_call_for_it() {
    let world = World::new();
    let sink = sink();
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    for n in 0..50 {
        bridge.offer([n]);
        tokio::time::sleep(SECOND).await;
    }
    bridge.metric_is(DELIVERED, 50.0).await;
    assert_eq!(world.server.calls(Op::Pauses), 1, "one at the start, and one a minute");
}
