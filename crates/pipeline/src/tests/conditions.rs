//! Destinations that are meant for some elements only.

use super::*;
use delaybridge_core::condition::Condition;
use delaybridge_core::template::Template;
use delaybridge_link::Side;
use delaybridge_model::Ordered;
use delaybridge_sink_redis::KeyTarget;

const SKIPPED: &str = "delaybridge_skipped_messages_total{queue=\"q\"}";

/// Elements from this number on have a payload that is greater.
const FROM_5: &str = "payload >= 'payload 5'";

fn when(text: &str) -> Option<Arc<RouteRules>> {
    RouteRules::of(Some(Condition::compile(text).expect("a condition")), Duplicates::Allow, None)
}

/// A queue whose sinks have these conditions.
fn choosing(sinks: &[(&str, Arc<FakeSink>)], conditions: &[&str]) -> QueueSpec {
    let mut spec = QueueSpec { codec: Codec::String.into(), ..spec(sinks) };
    for (route, text) in spec.to.iter_mut().zip(conditions) {
        route.rules = when(text);
    }
    spec
}

#[tokio::test(start_paused = true)]
async fn what_no_destination_is_meant_for_is_a_dead_letter_and_counted() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let bridge = world.bridge_with(1, &sinks, choosing(&sinks, &[FROM_5]));
    bridge.offer(0..10);
    world.until_empty().await;
    assert_eq!(arrived(&sink), [5, 6, 7, 8, 9]);
    let dead = world.store.dead();
    assert_eq!(dead.len(), 5);
    for (field, expected) in [("reason", "skipped"), ("code", "skipped"), ("attempts", "0")] {
        assert_eq!(dead[0].text(field), expected, "{field}");
    }
    bridge.metric_is(SKIPPED, 5.0).await;
    bridge.metric_is(DELIVERED, 5.0).await;
    bridge.metric_is("delaybridge_dead_lettered_messages_total{queue=\"q\",reason=\"skipped\"}", 5.0).await;
}

#[tokio::test(start_paused = true)]
async fn what_no_destination_is_meant_for_leaves_if_the_configuration_says_so() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let spec = QueueSpec { on_skipped: OnSkipped::Drop, ..choosing(&sinks, &[FROM_5]) };
    let bridge = world.bridge_with(1, &sinks, spec);
    bridge.offer(0..10);
    world.until_empty().await;
    assert_eq!((arrived(&sink), world.store.dead().len()), (vec![5, 6, 7, 8, 9], 0));
    bridge.metric_is(SKIPPED, 5.0).await;
    bridge.metric_is(DELIVERED, 5.0).await;
}

#[tokio::test(start_paused = true)]
async fn an_element_goes_to_the_sinks_that_are_meant_for_it_through_outages_and_a_crash() {
    let world = World::new();
    let a = sink();
    let b = sink();
    b.outage(Some(failure(Class::Transient, "down")));
    let sinks = [("a", a.clone()), ("b", b.clone())];
    let spec = choosing(&sinks, &[FROM_5, "payload < 'payload 8'"]);
    world.offer(0..10);
    let first = world.bridge_with(1, &sinks, spec.clone());
    // 8 and 9 are for A alone: they do not wait for B.
    first.metric_is(DELIVERED, 2.0).await;
    eventually("A to have its own", || a.taken().len() == 5).await;
    eventually("it to be written that A has confirmed", || {
        world.store.waiting().iter().filter(|(_, entry)| entry.header().confirmed.len() == 1).count() == 3
    })
    .await;
    drop(first);
    b.outage(None);
    let second = world.bridge_with(2, &sinks, spec);
    world.until_empty().await;
    assert_eq!((arrived(&a), arrived(&b)), ((5..10).collect(), (0..8).collect()));
    assert_eq!(world.store.dead().len(), 0);
    second.metric_is(DELIVERED, 8.0).await;
    assert_eq!(second.metric(SKIPPED), 0.0);
}

/// A payload that cannot be read has no fields, so that no condition on them holds.
#[tokio::test(start_paused = true)]
async fn what_is_forwarded_unread_is_for_the_destinations_that_ask_for_no_field() {
    let world = World::new();
    let a = sink();
    let b = sink();
    let sinks = [("a", a.clone()), ("b", b.clone())];
    let spec = QueueSpec {
        codec: Codec::Json.into(),
        on_decode_error: OnDecodeError::ForwardRaw,
        ..choosing(&sinks, &["payload != 'x'", "not payload == 'x'"])
    };
    let _bridge = world.bridge_with(1, &sinks, spec);
    world.offer(0..3);
    world.until_empty().await;
    assert_eq!((arrived(&a), arrived(&b)), (vec![], vec![0, 1, 2]));
}

/// After a new configuration, a sink that has confirmed may be meant for the element no more.
#[tokio::test(start_paused = true)]
async fn an_element_that_a_sink_has_confirmed_is_not_skipped_by_a_new_condition() {
    let world = World::new();
    let a = sink();
    let b = sink();
    b.outage(Some(failure(Class::Transient, "down")));
    let sinks = [("a", a.clone()), ("b", b.clone())];
    world.offer(0..3);
    let first = world.bridge(1, &sinks);
    eventually("it to be written that A has confirmed", || {
        world.store.waiting().iter().filter(|(_, entry)| entry.header().confirmed.len() == 1).count() == 3
    })
    .await;
    drop(first);
    let second = world.bridge_with(2, &sinks, choosing(&sinks, &["payload == 'x'", "payload == 'x'"]));
    world.until_empty().await;
    assert_eq!((times(&a, 0..3), b.taken().len(), world.store.dead().len()), (vec![1; 3], 0, 0));
    second.metric_is(DELIVERED, 3.0).await;
}

#[tokio::test(start_paused = true)]
async fn in_order_a_skipped_element_blocks_nothing_and_nothing_overtakes() {
    for on_skipped in [OnSkipped::DeadLetter, OnSkipped::Drop] {
        let world = World::new();
        let sink = sink();
        world.server.in_order("q");
        sink.on_id(id(6), [Step::Fail(failure(Class::Transient, "again")), Step::Panic]);
        let sinks = [("s", sink.clone())];
        let order = Some(Box::new(Ordered::Queue));
        let spec = QueueSpec {
            on_skipped,
            order,
            ..choosing(&sinks, &["payload in ['payload 1', 'payload 6', 'payload 8']"])
        };
        for n in 0..10 {
            world.offer_in(Duration::from_millis(n), n..n + 1);
        }
        let bridge = world.bridge_with(1, &sinks, spec);
        world.until_empty().await;
        assert_eq!(sink.taken().iter().map(number).collect::<Vec<_>>(), [1, 6, 8]);
        bridge.metric_is(SKIPPED, 7.0).await;
    }
}

/// A destination in the sink `s`.
fn list(key: &str, when: Option<&str>) -> RouteSpec {
    let target = KeyTarget::list(Template::compile(key).expect("a template"), Side::Right, false);
    RouteSpec { target: Arc::new(target), rules: when.and_then(super::conditions::when), ..route("s") }
}

#[tokio::test(start_paused = true)]
async fn of_several_destinations_in_one_sink_the_first_that_is_meant_gets_the_element() {
    let world = World::new();
    let s = sink();
    let b = sink();
    let sinks = [("s", s.clone()), ("b", b.clone())];
    s.on_id(id(6), [Step::Fail(failure(Class::Transient, "again"))]);
    b.on_id(id(9), [Step::Fail(failure(Class::Transient, "again"))]);
    let large = list("large", Some("payload >= 'payload 8'"));
    let middle = list("middle", Some(FROM_5));
    let other = RouteSpec { rules: when("payload == 'payload 9'"), ..route("b") };
    let to = [large, other, middle, list("rest", None)];
    let spec = QueueSpec { codec: Codec::String.into(), to: to.into(), ..spec(&sinks) };
    let bridge = world.bridge_with(1, &sinks, spec);
    bridge.offer(0..10);
    world.until_empty().await;
    let mut taken: Vec<_> =
        s.taken().iter().map(|message| (number(message), message.destination.to_string())).collect();
    taken.sort();
    let expected = |n| match n {
        8.. => "list large",
        5.. => "list middle",
        _ => "list rest",
    };
    assert_eq!(taken, (0..10).map(|n| (n, expected(n).to_owned())).collect::<Vec<_>>());
    assert_eq!((arrived(&b), world.store.dead().len()), (vec![9], 0));
    bridge.metric_is(DELIVERED, 10.0).await;
    assert_eq!(bridge.metric(SKIPPED), 0.0);
}
