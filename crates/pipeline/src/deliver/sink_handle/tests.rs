//! Tests of the probes of a sink and of its destinations, where two queues ask for them at once.

use super::*;
use crate::deliver::blame::FailedAt;
use delaybridge_core::clock::follow_tokio;
use delaybridge_telemetry::events::Events;
use delaybridge_testing::fake::FakeSink;
use delaybridge_testing::sink::anywhere;

const SECOND: Duration = Duration::from_secs(1);

/// A sink that has failed as a whole, with two of its destinations; all three may be probed.
async fn broken() -> (SinkHandle, DestinationKey, DestinationKey) {
    let (name, events): (Arc<str>, _) = ("s".into(), Events::default());
    let sink = Arc::new(FakeSink::new(SECOND));
    let handle = SinkHandle::new(name.clone(), sink, None, events.sink(&name), watch::Sender::new(0));
    let [a, b] = [1, 2].map(|part| DestinationKey::of(&anywhere(), Some(part)));
    for lane in [a, b].repeat(5) {
        handle.breaker().failed(FailedAt::Seen(lane), Class::Ambiguous);
        handle.destinations().failed(lane, Class::Ambiguous, false, Instant::now(), 1.0);
    }
    tokio::time::advance(SECOND).await;
    assert_eq!([None, Some(a), Some(b)].map(|only| handle.allows(only)), [Allow::Probe; 3]);
    (handle, a, b)
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_comes_second_takes_no_part_of_a_probe() {
    let _clock = follow_tokio();
    let (handle, a, b) = broken().await;
    let first = handle.start_probe(Some(a));
    assert!(first.is_some_and(|started| started.sink && started.lane == Some(a)));
    // It was allowed to when it asked, at the same moment.
    assert!(handle.start_probe(Some(b)).is_none());
    handle.confirmed_at(Some(a), 1);
    assert_eq!((handle.allows(Some(a)), handle.allows(Some(b))), (Allow::Free, Allow::Probe));
    assert!(handle.start_probe(Some(b)).is_some_and(|started| !started.sink && started.lane == Some(b)));
}

#[tokio::test(start_paused = true)]
async fn the_probe_of_the_sink_is_not_taken_for_a_destination_that_waits() {
    let _clock = follow_tokio();
    let (handle, a, b) = broken().await;
    // An element of a queue with several destinations finds out about this one.
    assert!(handle.destinations().start_probe(b, Instant::now()));
    assert!(handle.start_probe(Some(b)).is_none());
    assert!(handle.start_probe(Some(a)).is_some_and(|started| started.sink));
}

#[tokio::test(start_paused = true)]
async fn every_end_of_a_probe_is_a_change_that_claimers_see() {
    let _clock = follow_tokio();
    let (handle, a, b) = broken().await;
    let mut changes = handle.gates.subscribe();
    let mut news = || std::mem::replace(&mut changes, handle.gates.subscribe()).has_changed().unwrap();
    assert!(handle.start_probe(Some(a)).is_some());
    handle.confirmed_at(Some(a), 1);
    assert!(news(), "the sink works");
    assert!(handle.start_probe(Some(b)).is_some());
    assert_eq!(handle.allows(Some(b)), Allow::No { retry_at: None });
    handle.confirmed_at(Some(b), 2);
    assert_eq!(handle.allows(Some(b)), Allow::Free);
    assert!(news(), "the sink worked before, and this destination works as well");
    handle.left(b, 1, true);
    assert!(news(), "it ended without an answer");
}

/// Threads that note a failure and a confirmation at once; the last word is a confirmation.
#[test]
fn what_is_shown_of_a_destination_is_its_last_state() {
    use delaybridge_core::message::About;
    let (name, events): (Arc<str>, _) = ("s".into(), Events::default());
    let handle =
        SinkHandle::new(name.clone(), Arc::new(FakeSink::new(SECOND)), None, events.sink(&name), watch::Sender::new(0));
    let list = delaybridge_core::template::Template::compile("${payload}").unwrap();
    let target = delaybridge_sink_redis::KeyTarget::list(list, delaybridge_link::Side::Right, false);
    let destination = anywhere();
    let failure = Failure::new(Class::TargetPermanent, "NO_ROUTE", "no route").about(About::Route);
    let lane = handle.lane(&destination);
    for round in 0..20_000 {
        std::thread::scope(|threads| {
            threads.spawn(|| handle.failed(&destination, &target, &failure));
            handle.confirmed_at(Some(lane), 1);
        });
        handle.confirmed_at(Some(lane), 1);
        assert_eq!(events.status().ready().body["destinations"]["in_trouble"], 0, "in round {round}");
    }
}
