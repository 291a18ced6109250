//! Destinations of one sink that fail, each way that there is, beside others that are well: what a failure concerns, and what it
//! does not.

use super::rest::Many;
use super::*;
use delaybridge_telemetry::labels::Wakeup;
use delaybridge_testing::memory::element;

/// As many as there are lists, of which the last two are well.
const LISTS: u64 = 8;
const WELL: std::ops::Range<u64> = 6..8;

/// A failure of one destination, in the words of the HTTP sink.
fn fails(class: Class, code: &'static str, about: About) -> Failure {
    failure(class, code).about(about)
}

/// Each way in which a URL fails.
fn ways() -> Vec<(&'static str, Step)> {
    let at_once = |class, code, about| (code, Step::Fail(fails(class, code, about)));
    vec![
        at_once(Class::Backpressure, "http_503", About::Target),
        at_once(Class::Ambiguous, "connection_lost", About::Target),
        ("timeout", Step::FailAfter(10 * SECOND, fails(Class::Ambiguous, "timeout", About::Target))),
        at_once(Class::TargetPermanent, "http_401", About::Account),
        at_once(Class::TargetPermanent, "http_404", About::Target),
        at_once(Class::Ambiguous, "http_500", About::Target),
        at_once(Class::Unknown, "http_4xx", About::Target),
    ]
}

fn templated(text: &str) -> Arc<dyn delaybridge_sink::Target> {
    let list = delaybridge_core::template::Template::compile(text).unwrap();
    Arc::new(delaybridge_sink_redis::KeyTarget::list(list, delaybridge_link::Side::Right, false))
}

/// All lists but the well ones do this.
fn most_fail(sink: &FakeSink, step: Step) {
    let well: Vec<String> = WELL.map(|n| format!("list {n}")).collect();
    sink.otherwise(move |message| {
        if well.contains(&message.destination.to_string()) {
            Step::ConfirmAfter(Duration::from_millis(5))
        } else {
            step.clone()
        }
    });
}

/// The lateness of what was sent to the well ones, of which there must be so many: 99 of 100 are not later.
fn late(sink: &FakeSink, count: u64) -> Duration {
    let well: Vec<String> = WELL.map(|n| format!("list {n}")).collect();
    let taken = sink.taken();
    let of_well = taken.iter().filter(|message| well.contains(&message.destination.to_string()));
    let mut late: Vec<i64> = of_well.map(|message| message.now_ms - message.due_ms.unwrap()).collect();
    late.sort();
    assert_eq!(late.len() as u64, count, "all for them arrived, each once");
    Duration::from_millis(late[late.len() * 99 / 100].unsigned_abs())
}

#[tokio::test(start_paused = true)]
async fn urls_of_one_queue_that_fail_in_any_way_do_not_hold_up_those_that_are_well() {
    for (way, step) in ways() {
        let world = World::new();
        let sink = sink();
        let sinks = [("s", sink.clone())];
        let mut spec = QueueSpec { codec: Codec::String.into(), ..spec(&sinks) };
        spec.to[0].target = templated("${payload}");
        let bridge = world.bridge_with(1, &sinks, spec);
        most_fail(&sink, step);
        // From the first element on: nothing has worked before.
        for n in 0..1_200 {
            for list in 0..LISTS {
                world.store.offer(element(id(n * LISTS + list), list.to_string().as_bytes()), Duration::ZERO);
            }
            bridge.queue.alarm.ring(Wakeup::Published);
            tokio::time::sleep(SECOND / 10).await;
        }
        let late = late(&sink, 1_200 * 2);
        assert!(late < Duration::from_millis(50), "{way}: {late:?}");
        most_fail(&sink, Step::Confirm);
        world.until_empty().await;
        let is_counted = way == "http_4xx";
        assert!(is_counted || world.store.dead().is_empty(), "{way}: {}", world.store.dead().len());
    }
}

#[tokio::test(start_paused = true)]
async fn queues_whose_url_fails_in_any_way_do_not_hold_up_others_of_the_same_sink() {
    for (way, step) in ways() {
        let sink = sink();
        let many = Many::start(LISTS as usize, &sink, |spec| {
            spec.to[0].target = templated(spec.id.trim_start_matches('q'));
        });
        most_fail(&sink, step);
        for n in 0..1_200 {
            for list in 0..LISTS {
                many.offer_in(list as usize, Duration::ZERO, n * LISTS + list);
                many.registry.announce(list as usize, many.server.now_ms());
            }
            tokio::time::sleep(SECOND / 10).await;
        }
        let late = late(&sink, 1_200 * 2);
        assert!(late < Duration::from_millis(50), "{way}: {late:?}");
        many.stop().await;
    }
}

/// When the server is back, what is due first is for URLs that fail.
#[tokio::test(start_paused = true)]
async fn a_server_that_restarts_with_few_urls_that_are_well_delivers_to_those_at_once() {
    // The ways that may pass. Whether URLs have worked a short time before the server ended: then nothing of one URL is about the
    // sink.
    for (way, step, has_worked) in
        ways().into_iter().take(3).flat_map(|(way, step)| [(way, step.clone(), false), (way, step, true)])
    {
        let world = World::new();
        let sink = sink();
        let sinks = [("s", sink.clone())];
        let mut spec = QueueSpec { codec: Codec::String.into(), ..spec(&sinks) };
        spec.to[0].target = templated("${payload}");
        let bridge = world.bridge_with(1, &sinks, spec);
        let offer = |n: u64, list: u64| {
            world.store.offer(element(id(n * LISTS + list), list.to_string().as_bytes()), Duration::ZERO);
            bridge.queue.alarm.ring(Wakeup::Published);
        };
        if has_worked {
            (0..LISTS).for_each(|list| offer(0, list));
            world.until_empty().await;
        }
        sink.otherwise(|_| Step::Fail(Failure::new(Class::Transient, Failure::NOT_CONNECTED, "")));
        for n in 1..300 {
            offer(n, n % WELL.start);
            tokio::time::sleep(SECOND / 10).await;
        }
        bridge.metric_is(SINK_UP, 0.0).await;
        most_fail(&sink, step);
        let before = sink.taken().len();
        // Until the next probe, and until what has waited for it is on its way.
        tokio::time::sleep(40 * SECOND).await;
        for n in 300..600 {
            WELL.for_each(|list| offer(n, list));
            tokio::time::sleep(SECOND / 10).await;
        }
        let well: Vec<String> = WELL.map(|n| format!("list {n}")).collect();
        let taken = sink.taken().split_off(before);
        let of_well = taken.iter().filter(|message| well.contains(&message.destination.to_string()));
        let late: Vec<i64> = of_well.map(|message| message.now_ms - message.due_ms.unwrap()).collect();
        let in_time = late.iter().filter(|late| **late < 50).count();
        assert!(late.len() == 600 && in_time >= 594, "{way}, {has_worked}: {in_time} of {}", late.len());
        most_fail(&sink, Step::Confirm);
        world.until_empty().await;
    }
}

/// Nothing of the host works: then a new URL is not tried just because it is new.
#[tokio::test(start_paused = true)]
async fn a_host_with_very_many_urls_that_are_all_busy_is_asked_in_a_pace() {
    const URLS: u64 = 20_000;
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let mut spec = QueueSpec { codec: Codec::String.into(), ..spec(&sinks) };
    spec.to[0].target = templated("${payload}");
    let bridge = world.bridge_with(1, &sinks, spec);
    sink.otherwise(|_| Step::Fail(fails(Class::Backpressure, "http_503", About::Target)));
    for n in 0..URLS {
        world.store.offer(element(id(n), n.to_string().as_bytes()), Duration::ZERO);
    }
    bridge.queue.alarm.ring(Wakeup::Published);
    let begun = Instant::now();
    tokio::time::sleep(2 * MINUTE).await;
    let asked = sink.attempts().len() as u64;
    // The first ones are on their way before the first answer: as many as the queue may have in flight.
    let allowed = 100 + 60 * begun.elapsed().as_secs();
    assert!(asked <= allowed && asked > 1_000, "{asked} requests in {:?}", begun.elapsed());
    bridge.metric_is("delaybridge_sink_blocked{sink=\"s\"}", 1.0).await;
    // One that works shows that the host does: then each is asked for itself.
    sink.otherwise(|_| Step::Confirm);
    world.until_empty().await;
    assert!(begun.elapsed() < 2 * MINUTE + 6 * MINUTE, "{:?}", begun.elapsed());
    assert_eq!(sink.taken().len() as u64, URLS);
    assert!(sink.taken().iter().all(|message| message.attempt == 1), "no attempt counted");
    assert_eq!(bridge.metric(SINK_UP), 1.0);
}

/// The login of all is wrong: no element of theirs is lost to that, whatever chose the URL.
#[tokio::test(start_paused = true)]
async fn a_login_that_is_refused_everywhere_holds_the_queue_and_makes_no_dead_letters() {
    let world = World::new();
    let sink = sink();
    let sinks = [("s", sink.clone())];
    let mut spec = QueueSpec { codec: Codec::String.into(), ..spec(&sinks) };
    spec.to[0].target = templated("${payload}");
    let bridge = world.bridge_with(1, &sinks, spec);
    sink.otherwise(|_| Step::Fail(fails(Class::TargetPermanent, "http_401", About::Account)));
    for n in 0..1_000 {
        world.store.offer(element(id(n), n.to_string().as_bytes()), Duration::ZERO);
    }
    bridge.queue.alarm.ring(Wakeup::Published);
    bridge.metric_is(HELD, 1.0).await;
    tokio::time::sleep(30 * MINUTE).await;
    assert!(sink.attempts().len() < 300, "{} requests", sink.attempts().len());
    assert!(world.store.dead().is_empty());
    sink.otherwise(|_| Step::Confirm);
    world.until_empty().await;
    assert_eq!(sink.taken().len(), 1_000);
}

/// A sink that does not ask a URL, because of others of its host: nothing is known of the URL, for however long.
#[tokio::test(start_paused = true)]
async fn an_element_whose_url_is_not_asked_waits_by_itself_and_uncounted() {
    let not_asked = Failure::new(Class::Backpressure, Failure::NOT_SENT, "").about(About::Message);
    let not_asked = Step::Fail(not_asked.after(Some(30 * SECOND)));
    let world = World::new();
    let sink = sink();
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    // It was sent once, three hours before.
    let first = Step::Fail(fails(Class::Ambiguous, "timeout", About::Target));
    sink.on_id(id(1), std::iter::once(first).chain((0..360).map(|_| not_asked.clone())));
    bridge.offer([1]);
    for n in 10..3_000 {
        bridge.offer([n]);
        tokio::time::sleep(4 * SECOND).await;
    }
    world.until_empty().await;
    let taken = sink.taken();
    let late = |message: &&Outbound| message.now_ms - message.due_ms.unwrap() > 50;
    assert_eq!(taken.iter().filter(|message| number(message) >= 10).filter(late).count(), 0);
    let last = taken.iter().find(|message| number(message) == 1).expect("it was delivered");
    assert!(last.now_ms - last.due_ms.unwrap() > 2 * 3_600_000, "{last:?}");
    // Only the time-out is an attempt, if that.
    assert!(last.attempt <= 2 && world.store.dead().is_empty(), "{}", last.attempt);
    assert_eq!(bridge.metric("delaybridge_sink_destinations_in_trouble{sink=\"s\"}"), 0.0);
}

/// The receiver still works on an earlier copy of an element: that one waits, uncounted, and nothing else does.
#[tokio::test(start_paused = true)]
async fn an_element_that_its_receiver_still_works_on_waits_by_itself_and_uncounted() {
    let in_work =
        |wait: Option<Duration>| Step::Fail(fails(Class::Backpressure, "http_409", About::Message).after(wait));
    let world = World::new();
    let sink = sink();
    let bridge = world.bridge(1, &[("s", sink.clone())]);
    let first = Step::Fail(fails(Class::Ambiguous, "timeout", About::Target));
    sink.on_id(id(1), [first.clone(), in_work(Some(20 * SECOND)), in_work(Some(20 * SECOND)), Step::Confirm]);
    sink.on_id(id(2), std::iter::once(first.clone()).chain((0..12).map(|_| in_work(None))));
    bridge.offer([1, 2]);
    for n in 10..310 {
        bridge.offer([n]);
        tokio::time::sleep(SECOND / 10).await;
    }
    let late = |message: &&Outbound| message.now_ms - message.due_ms.unwrap() > 50;
    assert_eq!(sink.taken().iter().filter(|message| number(message) >= 10).filter(late).count(), 0);
    world.until_empty().await;
    let times = |n: u64| -> Vec<i64> {
        sink.attempts().iter().filter(|message| number(message) == n).map(|message| message.now_ms).collect()
    };
    assert_eq!(times(1).len(), 4);
    assert!(times(1)[1..].windows(2).all(|pair| (20_000..25_000).contains(&(pair[1] - pair[0]))), "{:?}", times(1));
    // More often than there are attempts, and less and less often.
    let waits: Vec<i64> = times(2).windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.len() == 13 && waits[12] > 2 * waits[5] && waits[5] >= 1_000, "{waits:?}");
    assert!(world.store.dead().is_empty());
    assert_eq!(bridge.metric(SINK_UP), 1.0);
    // A receiver that says it for ever means something else.
    sink.on_id(id(3), std::iter::once(first).chain((0..1_000).map(|_| in_work(None))));
    bridge.offer([3]);
    within(2 * HOUR, "the dead letter", || world.store.dead().len() == 1).await;
    assert!(times(3).last() >= Some(&(times(3)[0] + 3_600_000)), "not before an hour");
}
