//! What a daemon says of a sink that nothing was delivered to, and of one that has gone quiet.

use super::*;
use crate::deliver::probes::EVERY;
use delaybridge_telemetry::status::Answer;

const ABSENT: f64 = -1.0;

/// The gauge of the sink; [`ABSENT`] if it is not there.
fn sink_up(bridge: &Bridge) -> f64 {
    let text = bridge.process.events.metrics().render().unwrap();
    text.lines().find_map(|line| line.strip_prefix(SINK_UP)?.trim().parse().ok()).unwrap_or(ABSENT)
}

/// What is said of the sink, in `/readyz`.
fn state(bridge: &Bridge) -> String {
    let Answer { body, .. } = bridge.process.events.status().ready();
    match body["sinks"]["reasons"]["s"]["state"].as_str() {
        Some(word) => word.to_owned(),
        None => body["sinks"]["up"]["s"].as_object().map_or("gone".to_owned(), |_| "up".to_owned()),
    }
}

fn refused() -> Failure {
    failure(Class::Transient, "refused")
}

#[tokio::test(start_paused = true)]
async fn a_sink_is_unknown_until_it_answers_and_the_daemon_is_not_ready_before() {
    let world = World::new();
    let sink = sink();
    sink.outage(Some(refused()));
    let mut bridge = world.bridge(1, &[("s", sink.clone())]);
    assert_eq!((state(&bridge).as_str(), sink_up(&bridge)), ("unknown", ABSENT));
    bridge.probe();
    eventually("the sink to be down", || state(&bridge) == "down").await;
    assert_eq!(sink_up(&bridge), 0.0);
    sink.outage(None);
    eventually("the sink to be up", || state(&bridge) == "up").await;
    assert_eq!(sink_up(&bridge), 1.0);
    assert!(sink.attempts().is_empty(), "no element was needed");
}

#[tokio::test(start_paused = true)]
async fn an_idle_sink_that_goes_away_is_down_and_up_again_without_an_element() {
    let world = World::new();
    let sink = sink();
    let mut bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.probe();
    bridge.metric_is(SINK_UP, 1.0).await;
    sink.outage(Some(refused()));
    within(EVERY * 2, "the sink to be down", || state(&bridge) == "down").await;
    assert!(bridge.queue.is_open(), "a probe alone holds nothing up");
    sink.outage(None);
    within(EVERY * 2, "the sink to be up", || state(&bridge) == "up").await;
}

#[tokio::test(start_paused = true)]
async fn an_element_that_is_confirmed_says_more_than_a_probe_that_failed() {
    let world = World::new();
    let sink = sink();
    sink.outage(Some(refused()));
    let mut bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.probe();
    eventually("the sink to be down", || state(&bridge) == "down").await;
    // What refuses questions may well take elements.
    sink.on_call([Step::Confirm]);
    bridge.offer([1]);
    bridge.metric_is(DELIVERED, 1.0).await;
    assert_eq!((state(&bridge).as_str(), sink_up(&bridge)), ("up", 1.0));
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_delivers_is_not_probed() {
    let world = World::new();
    let sink = sink();
    let mut bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.probe();
    bridge.metric_is(SINK_UP, 1.0).await;
    let probes = sink.probes();
    for n in 0..60 {
        bridge.offer([n]);
        tokio::time::sleep(10 * SECOND).await;
    }
    assert!(sink.probes() <= probes + 2, "{} probes in ten minutes", sink.probes() - probes);
    // Idle, it costs one every now and then.
    let probes = sink.probes();
    tokio::time::sleep(10 * MINUTE).await;
    assert!((30..=50).contains(&(sink.probes() - probes)), "{} probes in ten minutes", sink.probes() - probes);
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_nothing_is_due_for_closes_when_the_sink_answers_again() {
    let world = World::new();
    let sink = sink();
    let mut bridge = world.bridge(1, &[("s", sink.clone())]);
    bridge.probe();
    sink.outage(Some(refused()));
    bridge.offer(0..5);
    eventually("the breaker to open", || !bridge.queue.is_open()).await;
    // A person takes the elements away.
    world.store.clear();
    sink.outage(None);
    within(10 * MINUTE, "the sink to be up", || state(&bridge) == "up").await;
    assert!(bridge.queue.is_open());
    bridge.offer([9]);
    bridge.metric_is(DELIVERED, 1.0).await;
}
