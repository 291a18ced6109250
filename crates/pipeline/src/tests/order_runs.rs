//! Queues in order at a sink that takes runs: what goes together, and what follows when one of a run fails.

use super::order::{first_taken, in_order, offer_keys, world};
use super::*;
use delaybridge_core::template::Template;
use delaybridge_model::Ordered;

/// A sink that keeps the order of runs.
pub(super) fn sink_of_runs() -> Arc<FakeSink> {
    Arc::new(FakeSink::new(Duration::from_secs(20)).in_runs())
}

/// A sink where the keys of a run would wait for each other.
pub(super) fn sink_of_keys() -> Arc<FakeSink> {
    Arc::new(FakeSink::new(Duration::from_secs(20)).of_keys())
}

fn by_payload() -> Ordered {
    Ordered::Key(Some(Box::new(Template::compile("${payload}").unwrap())))
}

fn taken(sink: &FakeSink) -> Vec<u64> {
    sink.taken().iter().map(number).collect()
}

fn fails(class: Class) -> Step {
    Step::Fail(failure(class, "no"))
}

#[tokio::test(start_paused = true)]
async fn the_elements_of_a_claim_go_together_and_the_next_claim_waits_for_them() {
    let world = world();
    let sink = sink_of_runs();
    offer_keys(&world, 0, &["a"; 60]);
    let sinks = [("s", sink.clone())];
    let spec = QueueSpec { max_in_flight: MaxInFlight::Fixed(20), ..in_order(&sinks, Ordered::Queue) };
    let _bridge = world.bridge_with(1, &sinks, spec);
    world.until_empty().await;
    assert_eq!(taken(&sink), (0..60).collect::<Vec<_>>());
    let runs = sink.run_lengths();
    assert_eq!((runs.iter().sum::<usize>(), runs.len() <= 12), (60, true), "{runs:?}");
}

/// Before there is anything to deliver. What goes in no run needs nothing that is made for runs.
#[tokio::test(start_paused = true)]
async fn a_sink_is_prepared_for_runs_if_they_will_come() {
    for (sink, order, expected) in [
        (sink_of_runs(), Some(Ordered::Queue), true),
        (sink_of_runs(), Some(by_payload()), true),
        (sink_of_keys(), Some(by_payload()), false),
        (sink_of_runs(), None, false),
    ] {
        let world = world();
        let sinks = [("s", sink.clone())];
        let spec = QueueSpec { order: order.map(Box::new), ..in_order(&sinks, Ordered::Queue) };
        let bridge = world.bridge_with(1, &sinks, spec);
        bridge.stop(SECOND).await;
        assert_eq!(sink.is_prepared(), expected);
    }
}

/// The one that fails is tried in its place; those behind it were not sent before, and go when it is through.
#[tokio::test(start_paused = true)]
async fn what_fails_in_a_run_is_not_overtaken() {
    let world = world();
    let sink = sink_of_runs();
    sink.on_id(id(3), [fails(Class::Transient), fails(Class::Transient)]);
    offer_keys(&world, 0, &["a"; 10]);
    let sinks = [("s", sink.clone())];
    let bridge = world.bridge_with(1, &sinks, in_order(&sinks, Ordered::Queue));
    world.until_empty().await;
    assert_eq!(taken(&sink), (0..10).collect::<Vec<_>>());
    assert_eq!(times(&sink, [3, 4, 9]), [3, 1, 1], "what is behind one that failed was not tried");
    assert_eq!(bridge.metric("delaybridge_possible_duplicates_total{queue=\"q\"}"), 0.0);
}

/// Without an answer all that was behind it may have arrived too: it comes again, and says so.
#[tokio::test(start_paused = true)]
async fn a_run_without_an_answer_is_sent_again_in_its_order() {
    let world = world();
    let sink = sink_of_runs();
    sink.on_id(id(3), [Step::FailAfterTaking(failure(Class::Ambiguous, "lost"))]);
    offer_keys(&world, 0, &["a"; 8]);
    let sinks = [("s", sink.clone())];
    let bridge = world.bridge_with(1, &sinks, in_order(&sinks, Ordered::Queue));
    world.until_empty().await;
    assert_eq!(taken(&sink), [0, 1, 2, 3, 4, 5, 6, 7, 3, 4, 5, 6, 7]);
    let again = sink.taken().split_off(8);
    assert!(again.iter().all(|message| message.attempt > 1), "{again:?}");
    assert_eq!(bridge.metric("delaybridge_possible_duplicates_total{queue=\"q\"}"), 5.0);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_in_a_run_lets_those_behind_it_go() {
    let world = world();
    let sink = sink_of_runs();
    sink.on_id(id(3), [fails(Class::MessagePermanent)]);
    offer_keys(&world, 0, &["a"; 8]);
    let sinks = [("s", sink.clone())];
    let _bridge = world.bridge_with(1, &sinks, in_order(&sinks, Ordered::Queue));
    world.until_empty().await;
    assert_eq!((taken(&sink), world.store.dead().len()), (vec![0, 1, 2, 4, 5, 6, 7], 1));
}

#[tokio::test(start_paused = true)]
async fn a_failure_in_a_run_of_several_keys_holds_up_its_key() {
    let world = world();
    let sink = sink_of_runs();
    sink.on_id(id(2), [fails(Class::Transient)]);
    offer_keys(&world, 0, &["a", "b", "a", "b", "c", "a", "c"]);
    let sinks = [("s", sink.clone())];
    let _bridge = world.bridge_with(1, &sinks, in_order(&sinks, by_payload()));
    world.until_empty().await;
    assert_eq!(sink.run_lengths(), [7], "all keys go together");
    let of = |key: &'static str| first_taken(&sink, |message| message.body == key);
    assert_eq!((of("a"), of("b"), of("c")), (vec![0, 2, 5], vec![1, 3], vec![4, 6]));
}

/// A panic of the sink leaves open what it has sent.
#[tokio::test(start_paused = true)]
async fn a_panic_in_a_run_is_the_failure_of_its_first_element_without_an_answer() {
    let world = world();
    let sink = sink_of_runs();
    sink.on_id(id(3), [Step::Panic]);
    offer_keys(&world, 0, &["a"; 6]);
    let sinks = [("s", sink.clone())];
    let _bridge = world.bridge_with(1, &sinks, in_order(&sinks, Ordered::Queue));
    world.until_empty().await;
    assert_eq!(taken(&sink), [0, 1, 2, 3, 4, 5]);
    assert_eq!(times(&sink, [2, 3, 4]), [1, 2, 1]);
}

/// Two sinks have to confirm each element, so nothing goes together.
#[tokio::test(start_paused = true)]
async fn with_two_sinks_elements_go_one_at_a_time() {
    let world = world();
    let one = sink_of_runs();
    let two = sink_of_runs();
    offer_keys(&world, 0, &["a"; 8]);
    let sinks = [("s", one.clone()), ("t", two.clone())];
    let _bridge = world.bridge_with(1, &sinks, in_order(&sinks, Ordered::Queue));
    world.until_empty().await;
    assert_eq!((one.run_lengths(), two.run_lengths()), (vec![], vec![]));
    assert_eq!((taken(&one), one.most_at_once()), ((0..8).collect(), 1));
}

/// What was decoded for its key is delivered, also behind another one with its key.
#[tokio::test(start_paused = true)]
async fn the_elements_of_a_run_are_decoded_once() {
    use crate::deliver::outbound::DECODED;
    let world = world();
    let sink = sink_of_runs();
    offer_keys(&world, 0, &["a", "b", "a", "a", "b", "c"]);
    let sinks = [("s", sink.clone())];
    let before = DECODED.get();
    let _bridge = world.bridge_with(1, &sinks, in_order(&sinks, by_payload()));
    world.until_empty().await;
    assert_eq!((DECODED.get() - before, sink.run_lengths()), (6, vec![6]));
}

/// The next of each key go together, when the one before it has its verdict.
#[tokio::test(start_paused = true)]
async fn the_first_of_each_key_go_together_where_keys_would_wait_for_each_other() {
    let world = world();
    let sink = sink_of_keys();
    sink.otherwise(|_| Step::ConfirmAfter(SECOND));
    offer_keys(&world, 0, &["a", "b", "c", "a", "b", "c", "a"]);
    let sinks = [("s", sink.clone())];
    let _bridge = world.bridge_with(1, &sinks, in_order(&sinks, by_payload()));
    eventually("the first to be on their way", || sink.attempts().len() == 3).await;
    assert_eq!(sink.most_at_once(), 3);
    world.until_empty().await;
    let tried: Vec<u64> = sink.attempts().iter().map(number).collect();
    assert_eq!((tried, sink.run_lengths()), (vec![0, 1, 2, 3, 4, 5, 6], vec![]));
    let late = sink.attempts().iter().map(|message| message.now_ms).collect::<Vec<_>>();
    assert!(late.windows(4).all(|few| few[3] - few[0] >= 1_000), "each waits for the one before it: {late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_key_without_an_answer_holds_up_no_other_key_of_its_batch() {
    let world = world();
    let sink = sink_of_keys();
    sink.on_id(id(1), [Step::Hang]);
    sink.on_id(id(3), [fails(Class::Transient)]);
    offer_keys(&world, 0, &["a", "b", "c", "a", "b", "c", "a"]);
    let sinks = [("s", sink.clone())];
    let _bridge = world.bridge_with(1, &sinks, in_order(&sinks, by_payload()));
    within(19 * SECOND, "the others to arrive", || sink.taken().len() == 6).await;
    let of = |key: &'static str| first_taken(&sink, |message| message.body == key);
    assert_eq!((of("a"), of("b"), of("c")), (vec![0, 3, 6], vec![1], vec![2, 5]));
    world.until_empty().await;
    assert_eq!(of("b"), [1, 4]);
}
