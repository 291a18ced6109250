//! A look before what a sink may have is sent again.

use super::*;

const AVOIDED: &str = "delaybridge_duplicates_avoided_total{sink=\"s\"}";

fn looks(result: &str) -> String {
    format!("delaybridge_lookups_total{{result=\"{result}\",sink=\"s\"}}")
}

/// A queue whose destinations have `duplicates: look`.
fn looking(sinks: &[(&str, Arc<FakeSink>)]) -> QueueSpec {
    let mut spec = spec(sinks);
    spec.to.iter_mut().for_each(|route| route.rules = RouteRules::of(None, Duplicates::Look, None));
    sinks.iter().for_each(|(_, sink)| sink.look(None));
    spec
}

fn ambiguous() -> Failure {
    failure(Class::Ambiguous, "timeout")
}

#[tokio::test(start_paused = true)]
async fn what_an_ambiguous_attempt_has_left_is_confirmed_and_what_it_has_not_is_sent_again() {
    let world = World::new();
    let sink = sink();
    sink.on_id(id(3), [Step::FailAfterTaking(ambiguous())]);
    sink.on_id(id(4), [Step::Fail(ambiguous())]);
    sink.on_id(id(5), [Step::Fail(failure(Class::Transient, "refused"))]);
    let sinks = [("s", sink.clone())];
    let bridge = world.bridge_with(1, &sinks, looking(&sinks));
    bridge.offer(0..10);
    world.until_empty().await;
    assert_eq!(arrived(&sink), (0..10).collect::<Vec<_>>());
    assert_eq!((times(&sink, 3..6), sink.looked()), (vec![1, 2, 2], 2), "only what is suspect is looked for");
    bridge.metric_is(DELIVERED, 10.0).await;
    bridge.metric_is(AVOIDED, 1.0).await;
    bridge.metric_is(&looks("there"), 1.0).await;
    bridge.metric_is(&looks("absent"), 1.0).await;
    bridge.metric_is(DUPLICATES, 2.0).await;
}

#[tokio::test(start_paused = true)]
async fn a_look_that_cannot_work_sends_again() {
    let world = World::new();
    let sink = sink();
    sink.on_id(id(3), [Step::FailAfterTaking(ambiguous())]);
    let sinks = [("s", sink.clone())];
    let spec = looking(&sinks);
    sink.look(Some(failure(Class::TargetPermanent, "no_right")));
    let bridge = world.bridge_with(1, &sinks, spec);
    bridge.offer(0..5);
    world.until_empty().await;
    assert_eq!((times(&sink, 3..4), arrived(&sink)), (vec![2], vec![0, 1, 2, 3, 3, 4]));
    bridge.metric_is(&looks("failed"), 1.0).await;
    assert_eq!(bridge.metric(AVOIDED), 0.0);
}

#[tokio::test(start_paused = true)]
async fn while_the_destination_cannot_be_asked_the_element_waits_and_others_go_on() {
    let world = World::new();
    let sink = sink();
    sink.on_id(id(3), [Step::FailAfterTaking(ambiguous())]);
    let sinks = [("s", sink.clone())];
    let spec = looking(&sinks);
    sink.look(Some(failure(Class::Transient, "look")));
    let bridge = world.bridge_with(1, &sinks, spec);
    bridge.offer(0..5);
    eventually("several looks", || sink.looked() > 3).await;
    bridge.offer(5..9);
    eventually("the others to be delivered", || arrived(&sink).len() == 9).await;
    assert_eq!(times(&sink, 3..4), [1], "it is not sent meanwhile");
    sink.look(None);
    world.until_empty().await;
    assert_eq!(arrived(&sink), (0..9).collect::<Vec<_>>());
    bridge.metric_is(AVOIDED, 1.0).await;
    assert!(bridge.metric(&looks("held")) > 3.0);
    assert_eq!(bridge.metric(DUPLICATES), 1.0, "a wait makes no duplicate");
}

#[tokio::test(start_paused = true)]
async fn after_five_minutes_without_an_answer_it_is_sent_again() {
    let world = World::new();
    let sink = sink();
    sink.on_id(id(3), [Step::FailAfterTaking(ambiguous())]);
    let sinks = [("s", sink.clone())];
    let spec = looking(&sinks);
    sink.look(Some(failure(Class::Transient, "look")));
    let bridge = world.bridge_with(1, &sinks, spec);
    bridge.offer(0..5);
    within(Duration::from_secs(400), "all to be delivered", || world.store.is_empty()).await;
    assert_eq!(times(&sink, 3..4), [2]);
    bridge.metric_is(&looks("failed"), 1.0).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_process_has_sent_is_looked_for_by_the_one_that_takes_it_over() {
    let world = World::new();
    let sink = sink();
    sink.on_id(id(1), [Step::Hang]);
    sink.stall(false);
    let sinks = [("s", sink.clone())];
    let spec = looking(&sinks);
    let first = world.bridge_with(1, &sinks, spec.clone());
    first.offer(0..3);
    eventually("the element to be at the sink", || sink.taken().len() == 3).await;
    drop(first);
    let second = world.bridge_with(2, &sinks, spec);
    within(3 * LEASE, "all to be delivered", || world.store.is_empty()).await;
    assert_eq!((arrived(&sink), times(&sink, 1..2)), (vec![0, 1, 2], vec![1]));
    // The confirmations of the others were not written.
    second.metric_is(AVOIDED, 3.0).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_process_has_sent_is_still_looked_for_after_looks_that_failed() {
    let world = World::new();
    let sink = sink();
    sink.on_id(id(1), [Step::Hang]);
    let sinks = [("s", sink.clone())];
    let spec = looking(&sinks);
    let first = world.bridge_with(1, &sinks, spec.clone());
    first.offer(0..3);
    eventually("the element to be at the sink", || sink.taken().len() == 3).await;
    drop(first);
    sink.look(Some(failure(Class::Transient, "look")));
    let second = world.bridge_with(2, &sinks, spec);
    within(3 * LEASE, "looks that fail", || sink.looked() > 9).await;
    sink.look(None);
    world.until_empty().await;
    assert_eq!((arrived(&sink), times(&sink, 0..3)), (vec![0, 1, 2], vec![1, 1, 1]));
    second.metric_is(AVOIDED, 3.0).await;
    let since = sink.marks().into_iter().map(|mark| mark.since_ms).collect::<std::collections::HashSet<_>>();
    assert_eq!(since.len(), 1, "each look begins where the first one did: {since:?}");
}

#[tokio::test(start_paused = true)]
async fn the_copy_for_another_sink_is_none() {
    let world = World::new();
    let a = sink();
    let b = sink();
    b.on_id(id(1), [Step::Fail(ambiguous())]);
    let sinks = [("a", a.clone()), ("b", b.clone())];
    let _bridge = world.bridge_with(1, &sinks, looking(&sinks));
    world.offer(0..3);
    world.until_empty().await;
    assert_eq!((arrived(&a), arrived(&b)), (vec![0, 1, 2], vec![0, 1, 2]));
    let mark = |sink: &FakeSink| sink.taken()[0].mark.as_ref().map(|mark| mark.element);
    assert!(mark(&a).is_some() && mark(&a) != mark(&b));
}

#[tokio::test(start_paused = true)]
async fn without_it_nothing_is_marked_and_nothing_looked_for() {
    let world = World::new();
    let sink = sink();
    sink.look(None);
    sink.on_id(id(3), [Step::FailAfterTaking(ambiguous())]);
    let _bridge = world.bridge(1, &[("s", sink.clone())]);
    world.offer(0..5);
    world.until_empty().await;
    assert_eq!((times(&sink, 3..4), sink.looked()), (vec![2], 0));
    assert!(sink.taken().iter().all(|message| message.mark.is_none()));
}
