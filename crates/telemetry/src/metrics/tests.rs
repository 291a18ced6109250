//! Tests of the handles: used metrics are exposed, unused ones are not.

use std::collections::BTreeSet;

use super::super::catalogue::all;
use super::shares::OWN;
use super::*;
use crate::jobs::{JobEvents, JobSizes};
use crate::labels::{DeadReason, JobAction, JobEnd, LeftOutReason, LookResult, OperatorAction};
use delaybridge_core::message::{Class, Failure};
use delaybridge_core::metric::testing::TERMS;

fn exposed(metrics: &Metrics) -> BTreeSet<String> {
    let text = metrics.render().unwrap();
    text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next().map(String::from)).collect()
}

/// Calls every method that counts something.
fn use_everything(metrics: &Metrics) {
    metrics.count_descriptors();
    metrics.file_seen("jobs.tls", Duration::from_secs(1));
    let queue = metrics.queue(&"orders".into());
    ClaimLabel::ALL.iter().for_each(|&from| queue.claimed(from, 2));
    ReleaseReason::ALL.iter().for_each(|&reason| queue.released(reason, 1));
    Wakeup::ALL.iter().for_each(|&reason| queue.woke(reason));
    queue.recovered(1);
    queue.returned(1);
    queue.missing(1);
    queue.delivered(1);
    queue.possible_duplicates(1);
    queue.unknown_acks(1);
    queue.late_acks(1);
    queue.dead_letters_trimmed(1);
    OperatorAction::ALL.into_iter().for_each(|action| queue.operated(action, 1));
    queue.skipped();
    LeftOutReason::ALL.into_iter().for_each(|reason| queue.headers_left_out("events", reason, 1));
    queue.audited("delivered");
    queue.without_body(1);
    queue.put_back(1);
    queue.id_by_hash();
    queue.dead_letter_forwarded("events", &Ok(()));
    queue.expired_delivery();
    queue.decode_error("json");
    let oldest = [1500, 2500, 500].map(Duration::from_millis);
    let lateness = Some(Duration::from_millis(220_500));
    let ahead = QueueAhead { within: [1, 2, 3, 4, 5], absurd: 6, last_due_ms: Some(1_700_000_900_500), lateness };
    let next_due_ms = Some(1_700_000_000_250);
    let expires_ms = Some(90_500);
    queue.sizes(&QueueSizes { messages: [7; 5], oldest, next_due_ms, expires_ms, ahead });
    queue.leftovers(&TERMS, 3, Duration::from_secs(4));
    queue.offered_overdue(Duration::from_millis(30));
    queue.dead_lettered("junk");
    queue.stale_acks(1);
    queue.stale_drops(1);
    queue.panicked();
    queue.held(true);
    queue.slot_migrates();
    queue.paused(true);
    queue.active(true);
    queue.orphans(&TERMS, 5);
    queue.unknown_entries(6);
    queue.unknown_claims(8);
    queue.shadowed(Fate::Deliver);
    queue.rescued(&TERMS, 1, 1);
    let delivery = queue.to(&"events".into());
    delivery.attempt(&Ok(()));
    Class::ALL.iter().for_each(|&class| delivery.attempt(&Err(Failure::new(class, "X", "x"))));
    delivery.late(Duration::from_millis(3));
    delivery.throttled(Duration::from_millis(500));
    queue.throttled(Duration::from_millis(250));
    let sink = metrics.sink(&"events".into());
    sink.duplicates_avoided(1);
    LookResult::ALL.into_iter().for_each(|result| sink.looked(result));
    sink.answered(&Err(Failure::new(Class::Transient, "LOADING", "x")), Duration::from_millis(2));
    sink.up(true);
    sink.blocked(false);
    sink.destinations_in_trouble(2);
    metrics.script("claim").took(Duration::from_millis(1));
    metrics.stalled("orders", Stage::Room);
    metrics.redis_up("default", true);
    let input = crate::events::Events::new(metrics.clone(), crate::status::Status::new()).input(&"late".into());
    input.lags(&[crate::events::inputs::PartitionLag { topic: "in".to_owned(), partition: 0, records: 3 }]);
    metrics.clock_skew("default", -0.5);
    let jobs = JobEvents::new(metrics.clone());
    jobs.sizes("orders", &JobSizes { jobs: [1, 2, 3, 4], oldest_ready: Duration::from_millis(1500) });
    jobs.ended("orders", JobEnd::TimedOut, 2);
    JobAction::ALL.iter().for_each(|&action| jobs.did("orders", action, 1));
    jobs.fired("orders", "nightly", 1, 1);
    jobs.index_read(Ok(1));
    let api = metrics.api();
    api.answered("add", 201, Duration::from_millis(2));
    let _ = api.connected();
    metrics.reloaded(true);
    metrics.spans().sent(5);
}

#[test]
fn nothing_is_exposed_of_a_queue_or_a_sink_that_is_gone() {
    let metrics = Metrics::new();
    use_everything(&metrics);
    let other = metrics.queue(&"other".into());
    other.delivered(3);
    let of = |label: &str| metrics.render().unwrap().lines().filter(|line| line.contains(label)).count();
    assert!(of("queue=\"orders\"") > 50 && of("sink=\"events\"") > 10);
    metrics.forget("queue", &["orders".into(), "unheard of".into()]);
    assert_eq!(of("queue=\"orders\""), 0);
    assert_eq!(of("queue=\"other\""), AT_ZERO.len() + DeadReason::ALL.len());
    assert!(of("sink=\"events\"") > 10, "the sink goes on");
    metrics.forget("sink", &["events".into()]);
    assert_eq!(of("sink=\"events\""), 0);
}

#[test]
fn of_topics_that_clients_make_only_some_have_series() {
    let metrics = Metrics::new();
    let jobs = JobEvents::new(metrics.clone());
    let sizes = JobSizes { jobs: [1, 0, 0, 0], ..JobSizes::default() };
    for n in 0..300 {
        jobs.sizes(&format!("topic-{n}"), &sizes);
        jobs.ended(&format!("topic-{n}"), JobEnd::Died, 1);
    }
    let series = |text: &str, start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    let text = metrics.render().unwrap();
    assert_eq!((series(&text, "delaybridge_jobs{"), series(&text, "delaybridge_jobs_ended_total{")), (800, 201));
    jobs.keep(&["topic-7".into()].into());
    assert_eq!(series(&metrics.render().unwrap(), "delaybridge_jobs{"), 4, "topics that are gone have no gauges");
}

#[test]
fn of_thousands_of_queues_a_thousand_have_series_and_the_rest_counts_together() {
    let metrics = Metrics::new();
    let queues: Vec<_> = (0..OWN + 200).map(|n| metrics.queue(&format!("queue-{n}").into())).collect();
    let use_all = || {
        for (n, queue) in (0_u64..).zip(&queues) {
            queue.delivered(2);
            queue.to(&"events".into()).late(Duration::from_millis(3));
            let oldest = [n, 0, 0].map(Duration::from_secs);
            let next_due_ms = Some(5_000_000 - i64::try_from(n).unwrap());
            let ahead = QueueAhead { within: [0, 0, 2, 2, 2], last_due_ms: next_due_ms, ..QueueAhead::default() };
            queue.sizes(&QueueSizes { messages: [1, 0, 0, 0, 3], oldest, next_due_ms, expires_ms: None, ahead });
            queue.leftovers(&TERMS, 4, Duration::from_secs(n));
            queue.held(n == 1_100);
        }
    };
    use_all();
    let text = metrics.render().unwrap();
    let series = |text: &str, start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(series(&text, "delaybridge_delivered_messages_total{"), OWN + 1);
    assert_eq!(series(&text, "delaybridge_delivery_lateness_seconds_count{"), OWN + 1);
    assert_eq!(series(&text, "delaybridge_queue_messages{"), 5 * (OWN + 1));
    let own = r#"delaybridge_delivered_messages_total{queue="queue-999"} 2"#;
    let together = [
        r#"delaybridge_delivered_messages_total{queue="other queues"} 400"#,
        r#"delaybridge_delivery_lateness_seconds_count{queue="other queues",sink="events"} 200"#,
        r#"delaybridge_queue_messages{queue="other queues",state="scheduled"} 200"#,
        r#"delaybridge_queue_messages{queue="other queues",state="dead"} 600"#,
        r#"delaybridge_queue_oldest_due_age_seconds{queue="other queues"} 1199"#,
        r#"delaybridge_queue_next_due_timestamp_seconds{queue="other queues"} 4998.801"#,
        r#"delaybridge_queue_due_within{horizon="1h",queue="other queues"} 400"#,
        r#"delaybridge_queue_last_due_timestamp_seconds{queue="other queues"} 4999"#,
        r#"delaybridge_test_leftovers{queue="other queues"} 800"#,
        r#"delaybridge_test_oldest_leftover_age_seconds{queue="other queues"} 1199"#,
        r#"delaybridge_queue_held{queue="other queues"} 1"#,
    ];
    for line in std::iter::once(own).chain(together) {
        assert!(text.lines().any(|found| found == line), "{line} is missing");
    }
    let size = text.len();
    use_all();
    assert!(metrics.render().unwrap().len() < size + size / 20, "more use makes no more series");
    assert_eq!(metrics.tallies().len(), OWN + 200, "the pages show every queue");

    queues[OWN..].iter().for_each(|queue| queue.clear_gauges(Some(&TERMS)));
    let text = metrics.render().unwrap();
    assert!(!text.contains(r#"messages{queue="other queues""#), "Redis is away");
    assert!(text.contains(r#"delivered_messages_total{queue="other queues"} 800"#), "counters stay");
    metrics.forget("queue", &["queue-7".into(), "queue-1100".into()]);
    metrics.queue(&"new".into()).delivered(1);
    let text = metrics.render().unwrap();
    assert!(text.contains(r#"delivered_messages_total{queue="new"} 1"#), "its place is free");
    assert!(!text.contains(r#"queue_held{queue="other queues"} 1"#) && !text.contains("queue-7\""));

    // One that comes instead of those that went has none of their values.
    metrics.queue(&"newer".into()).sizes(&QueueSizes { messages: [0, 0, 0, 0, 9], ..QueueSizes::default() });
    let text = metrics.render().unwrap();
    assert!(text.contains(r#"delaybridge_queue_messages{queue="other queues",state="dead"} 9"#), "{text}");
    assert!(!text.contains(r#"queue_held{queue="other queues"} 1"#));
}

#[test]
fn every_metric_of_the_catalogue_is_exposed_after_use() {
    let metrics = Metrics::new();
    use_everything(&metrics);
    let exposed = exposed(&metrics);
    let text = metrics.render().unwrap();
    for metric in all(&[&TERMS]) {
        assert!(exposed.contains(metric.name), "{} is in the catalogue, but nothing counts it", metric.name);
        let help = format!("# HELP {} {}", metric.name, metric.help);
        assert!(text.lines().any(|line| line == help), "{help} is missing");
    }
    assert!(exposed.contains("process_resident_memory_bytes"));
}

#[test]
fn values_arrive_under_their_labels() {
    let metrics = Metrics::new();
    use_everything(&metrics);
    let text = metrics.render().unwrap();
    for line in [
        r#"delaybridge_claimed_messages_total{from="expired",queue="orders"} 2"#,
        r#"delaybridge_leases_expired_total{queue="orders"} 2"#,
        r#"delaybridge_delivery_attempts_total{class="ok",queue="orders",sink="events"} 1"#,
        r#"delaybridge_delivery_attempts_total{class="unknown",queue="orders",sink="events"} 1"#,
        r#"delaybridge_sink_errors_total{class="transient",code="LOADING",sink="events"} 1"#,
        r#"delaybridge_delivery_lateness_seconds_bucket{queue="orders",sink="events",le="0.005"} 1"#,
        r#"delaybridge_queue_next_due_timestamp_seconds{queue="orders"} 1700000000.25"#,
        r#"delaybridge_queue_due_within{horizon="10m",queue="orders"} 2"#,
        r#"delaybridge_queue_last_due_timestamp_seconds{queue="orders"} 1700000900.5"#,
        r#"delaybridge_queue_absurd_due{queue="orders"} 6"#,
        r#"delaybridge_queue_expires_seconds{queue="orders"} 90.5"#,
        r#"delaybridge_queue_forecast_lateness_seconds{queue="orders"} 220.5"#,
        r#"delaybridge_throttled_seconds_total{queue="orders",sink=""} 0.25"#,
        r#"delaybridge_queue_messages{queue="orders",state="in_flight"} 7"#,
        r#"delaybridge_queue_oldest_due_age_seconds{queue="orders"} 2.5"#,
        r#"delaybridge_queue_oldest_due_age_by_state_seconds{queue="orders",state="retry"} 0.5"#,
        r#"delaybridge_redis_up{redis="default"} 1"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in:\n{text}");
    }
}

#[test]
fn a_queue_that_was_never_touched_exposes_nothing() {
    let metrics = Metrics::new();
    let before = metrics.render().unwrap().lines().count();
    let handles: Vec<_> = (0..10_000).map(|n| metrics.queue(&format!("queue-{n}").into())).collect();
    handles.iter().for_each(|queue| queue.claimed(ClaimLabel::Delayed, 0));
    assert_eq!(metrics.render().unwrap().lines().count(), before);
    assert!(size_of::<QueueInner>() <= 512, "{} bytes a queue", size_of::<QueueInner>());
}

#[test]
fn two_handles_of_one_queue_count_together() {
    let metrics = Metrics::new();
    metrics.queue(&"q".into()).delivered(2);
    metrics.queue(&"q".into()).delivered(3);
    assert!(metrics.render().unwrap().contains(r#"delaybridge_delivered_messages_total{queue="q"} 5"#));
}

#[test]
fn what_redis_said_goes_when_redis_is_away_and_comes_back_with_it() {
    let metrics = Metrics::new();
    let queue = metrics.queue(&"q".into());
    let ahead = QueueAhead { absurd: 1, lateness: Some(Duration::ZERO), ..QueueAhead::default() };
    let sizes = QueueSizes { messages: [1, 2, 3, 4, 5], ahead, ..QueueSizes::default() };
    let of_queue = |metrics: &Metrics| {
        let text = metrics.render().unwrap();
        let series = text
            .lines()
            .filter(|line| line.contains("queue=\"q\"") || line.starts_with("delaybridge_clock_skew_seconds"));
        series.map(String::from).collect::<Vec<_>>()
    };
    queue.clear_gauges(Some(&TERMS));
    queue.sizes(&sizes);
    queue.leftovers(&TERMS, 3, Duration::from_secs(4));
    queue.orphans(&TERMS, 5);
    queue.delivered(7);
    metrics.clock_skew("default", 0.25);
    let before = of_queue(&metrics);
    let counters = AT_ZERO.len() + DeadReason::ALL.len();
    assert_eq!(before.len(), 5 + 1 + 3 + 1 + 5 + 3 + 3 + 1 + counters, "{before:#?}");
    queue.clear_gauges(Some(&TERMS));
    metrics.clear_clock_skew("default");
    let left = of_queue(&metrics);
    assert_eq!(left.len(), counters, "{left:#?}");
    assert!(left.contains(&r#"delaybridge_delivered_messages_total{queue="q"} 7"#.to_owned()), "counters stay");
    queue.sizes(&sizes);
    queue.leftovers(&TERMS, 3, Duration::from_secs(4));
    queue.orphans(&TERMS, 5);
    metrics.clock_skew("default", 0.25);
    assert_eq!(of_queue(&metrics), before);
}

#[test]
fn what_is_not_known_or_never_was_is_not_shown() {
    let metrics = Metrics::new();
    let queue = metrics.queue(&"q".into());
    let show = |absurd, lateness| {
        queue.sizes(&QueueSizes {
            ahead: QueueAhead { absurd, lateness, ..QueueAhead::default() },
            ..QueueSizes::default()
        });
        let text = metrics.render().unwrap();
        (text.contains("queue_absurd_due{"), text.contains("queue_forecast_lateness_seconds{"))
    };
    assert_eq!(show(0, None), (false, false));
    assert_eq!(show(2, Some(Duration::ZERO)), (true, true));
    assert_eq!(show(0, None), (true, false), "an alert sees that it is over");
    assert_eq!((metrics.busy_rate("q"), metrics.busy_rate("unheard of")), (None, None));
}

#[test]
fn cpu_time_is_exact_also_when_two_ask_at_once() {
    let metrics = Metrics::new();
    let shown = || {
        let text = metrics.render().unwrap();
        text.lines().find_map(|line| line.strip_prefix("process_cpu_seconds_total ")?.parse::<f64>().ok()).unwrap()
    };
    let before = delaybridge_core::clock::cpu_time().as_secs_f64();
    let first = shown();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..50).map(|_| shown()).fold(0.0, f64::max));
        }
    });
    let last = shown();
    let after = delaybridge_core::clock::cpu_time().as_secs_f64();
    assert!(before <= first && first < last && last <= after, "{before} {first} {last} {after}");
}

/// The counters of a queue that begin at zero, besides those of dead letters by their reason.
const AT_ZERO: [&str; 5] = [
    "delaybridge_delivered_messages_total",
    "delaybridge_possible_duplicates_total",
    "delaybridge_leases_expired_total",
    "delaybridge_dead_letters_trimmed_total",
    "delaybridge_panics_total",
];

fn ids(numbers: std::ops::Range<usize>) -> Vec<Arc<str>> {
    numbers.map(|n| format!("queue-{n}").into()).collect()
}

#[test]
fn counters_of_configured_queues_begin_at_zero() {
    let metrics = Metrics::new();
    metrics.begin(&ids(0..OWN));
    metrics.begin(&ids(0..OWN));
    let text = metrics.render().unwrap();
    for n in [0, OWN - 1] {
        for name in AT_ZERO {
            let line = format!("{name}{{queue=\"queue-{n}\"}} 0");
            assert!(text.lines().any(|found| found == line), "{line}");
        }
        for reason in DeadReason::ALL {
            let reason = reason.as_str();
            let line = format!("delaybridge_dead_lettered_messages_total{{queue=\"queue-{n}\",reason=\"{reason}\"}} 0");
            assert!(text.lines().any(|found| found == line), "{line}");
        }
    }
    assert!(!text.contains(OTHERS));
    // A queue that a reload removes has none left, and one that it adds begins as well.
    metrics.forget("queue", &ids(0..1));
    metrics.begin(&ids(1..OWN + 1));
    let text = metrics.render().unwrap();
    assert!(!text.contains("queue=\"queue-0\""));
    assert!(text.contains(&format!("delaybridge_panics_total{{queue=\"queue-{OWN}\"}} 0")));
}

#[test]
fn of_more_queues_than_have_series_those_begin_that_are_used() {
    let metrics = Metrics::new();
    let before = metrics.render().unwrap().lines().count();
    metrics.begin(&ids(0..OWN + 1));
    assert_eq!(metrics.render().unwrap().lines().count(), before);
    let lines = |what: &str| metrics.render().unwrap().lines().filter(|line| line.contains(what)).count();
    metrics.queue(&"queue-7".into()).claimed(ClaimLabel::Delayed, 1);
    assert_eq!(lines("queue=\"queue-7\""), 1 + AT_ZERO.len() + DeadReason::ALL.len());
    assert_eq!(lines("reason=\"undecodable\"} 0"), 1);
    // The label of those that share it begins with the first of them.
    for id in ids(0..OWN + 2) {
        metrics.queue(&id).claimed(ClaimLabel::Delayed, 1);
    }
    assert_eq!(lines(&format!("queue=\"{OTHERS}\"")), 1 + AT_ZERO.len() + DeadReason::ALL.len());
}
