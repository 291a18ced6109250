//! Tests of the events: one call, and the log, the counter and the board agree.

use std::io::Write;
use std::sync::Mutex;

use tracing_subscriber::fmt::MakeWriter;

use super::*;
use crate::labels::DeadReason;
use delaybridge_core::message::Class;
use delaybridge_core::metric::testing::TERMS;

/// The captured log lines of one test.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Lines;
    fn make_writer(&self) -> Lines {
        self.clone()
    }
}

/// Runs `act` and returns what it logged at info and above.
fn logged(act: impl FnOnce(&Events)) -> (Events, Vec<String>) {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false).finish();
    let events = Events::default();
    tracing::subscriber::with_default(subscriber, || act(&events));
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    (events, text.lines().map(String::from).collect())
}

fn has(events: &Events, line: &str) {
    let text = events.metrics().render().unwrap();
    assert!(text.lines().any(|found| found == line), "{line} is missing in:\n{text}");
}

#[test]
fn a_hold_is_one_line_one_gauge_and_one_reason() {
    let (events, lines) = logged(|events| {
        let queue = events.queue(&"orders".into());
        (0..3).for_each(|_| queue.wrong_type("order:timeout", "list", "hash"));
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("order:timeout must hold a list"), "{lines:?}");
    has(&events, r#"delaybridge_queue_held{queue="orders"} 1"#);
    assert!(events.status().ready().body["queues"]["reasons"]["orders"]["reason"].is_string());
}

#[test]
fn a_hold_and_its_end_are_reported_once_each() {
    let (events, lines) = logged(|events| {
        let queue = events.queue(&"orders".into());
        queue.resumed();
        queue.on_hold(Some("events"), "WRONGTYPE", "topic a", "the first probe");
        queue.on_hold(Some("events"), "WRONGTYPE", "topic a", "the second probe");
        queue.resumed();
        queue.resumed();
    });
    assert_eq!(lines.len(), 2, "{lines:?}");
    has(&events, r#"delaybridge_queue_held{queue="orders"} 0"#);
}

#[test]
fn a_thousand_dead_letters_are_counted_and_logged_once() {
    let (events, lines) = logged(|events| {
        let queue = events.queue(&"orders".into());
        let failure = Failure::new(Class::MessagePermanent, "too_large", "send to list x: refused");
        (0..1000).for_each(|_| {
            queue.dead_lettered(
                &delaybridge_core::message::MessageId([7; 8]).into(),
                DeadReason::MessagePermanent,
                Some(&failure),
            );
        });
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("0707070707070707") && lines[0].contains("too_large"), "{lines:?}");
    has(&events, r#"delaybridge_dead_lettered_messages_total{queue="orders",reason="message_permanent"} 1000"#);
}

#[test]
fn a_hundred_thousand_dead_letters_are_one_line_and_their_sum() {
    let (events, lines) = logged(|events| {
        let queue = events.queue(&"orders".into());
        let id = delaybridge_core::message::MessageId([7; 8]).into();
        for n in 0..100_000 {
            let reason = if n % 10 == 9 { DeadReason::Junk } else { DeadReason::MaxAttempts };
            queue.dead_lettered(&id, reason, None);
            queue.stale_acks(3);
            queue.sum_up(false);
        }
        queue.sum_up(true);
        queue.sum_up(true);
    });
    assert_eq!(lines.len(), 4, "{lines:?}");
    let sum = |text: &str, words: &[&str]| {
        let line = lines.iter().find(|line| line.contains(text)).unwrap_or_else(|| panic!("{text}: {lines:?}"));
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
    };
    sum("dead letter stored: sum of the lines left out", &["elements=99999", "max_attempts: 89999, junk: 10000"]);
    sum("verdicts refused: sum of the lines left out", &["elements=299997"]);
    has(&events, r#"delaybridge_dead_lettered_messages_total{queue="orders",reason="junk"} 10000"#);
}

#[test]
fn a_hold_whose_reason_changes_says_so() {
    let (_, lines) = logged(|events| {
        let queue = events.queue(&"orders".into());
        queue.on_hold(Some("events"), "UNKNOWN_TOPIC", "topic a", "topic a does not exist");
        queue.on_hold(Some("events"), "UNKNOWN_TOPIC", "topic a", "topic a does not exist, as ever");
        queue.on_hold(Some("events"), "TOPIC_AUTHORIZATION_FAILED", "topic a", "no right to write to topic a");
        queue.resumed();
    });
    assert_eq!(lines.len(), 3, "{lines:?}");
    let line = &lines[1];
    assert!(
        line.contains("queue on hold until this is fixed, now for another reason")
            && line.contains("no right to write"),
        "{line}"
    );
    assert!(line.contains("topic a does not exist, as ever"), "what it was before: {line}");
}

fn pause(sink: Option<&str>) -> Option<Paused> {
    let by = "ann".to_owned();
    let why = "an upgrade".to_owned();
    Some(Paused { sink: sink.map(str::to_owned), by, why, since_ms: 0, until_ms: Some(1_795_251_632_252) })
}

#[test]
fn a_pause_is_one_line_at_its_begin_and_one_at_its_end() {
    let (events, lines) = logged(|events| {
        events.status().add_queues(1);
        let queue = events.queue(&"orders".into());
        queue.paused(pause(None));
        assert!(events.status().headline().contains("queues paused: 1 of 1 (orders by ann, an upgrade)"));
        assert_eq!(events.status().ready().body["paused"]["reasons"]["orders"]["why"], "an upgrade");
        queue.paused(None);
    });
    assert_eq!(lines.len(), 2, "{lines:?}");
    let first = &lines[0];
    assert!(
        first.contains("queue paused") && first.contains("ann") && first.contains("2026-11-21T09:00:32Z"),
        "{first}"
    );
    assert!(lines[1].contains("queue no longer paused"), "{}", lines[1]);
    has(&events, r#"delaybridge_queue_paused{queue="orders"} 0"#);
    assert_eq!(events.status().ready().body["paused"]["paused"], 0);
}

#[test]
fn the_pause_of_a_sink_is_one_line_for_all_of_its_queues() {
    let (events, lines) = logged(|events| {
        let queues = ["a", "b", "c"].map(|name| events.queue(&name.into()));
        queues.iter().for_each(|queue| queue.paused(pause(Some("kafka"))));
        queues.iter().for_each(|queue| queue.paused(None));
        // From the sink to the queue and back: one pause ends, another begins.
        queues[0].paused(pause(Some("kafka")));
        queues[0].paused(pause(None));
        queues[0].paused(pause(Some("kafka")));
    });
    let words: Vec<_> = ["sink paused", "sink no longer", "sink paused", "sink no longer", "queue paused"].into();
    let words: Vec<_> = words.into_iter().chain(["queue no longer", "sink paused"]).collect();
    assert_eq!(lines.len(), words.len(), "{lines:?}");
    assert!(lines.iter().zip(words).all(|(line, word)| line.contains(word)), "{lines:?}");
    has(&events, r#"delaybridge_queue_paused{queue="a"} 1"#);
}

#[test]
fn nothing_is_reported_of_nothing() {
    let (_, lines) = logged(|events| {
        let queue = events.queue(&"orders".into());
        queue.stale_acks(0);
        queue.stale_drops(0);
        queue.leases_lost(0);
        queue.orphans(&TERMS, 0);
        queue.unknown_entries(0);
        queue.swept(10, 1, Duration::ZERO);
    });
    assert!(lines.is_empty(), "{lines:?}");
}

#[test]
fn orphans_are_logged_when_there_are_more_than_before() {
    let (events, lines) = logged(|events| {
        let queue = events.queue(&"orders".into());
        for n in [0, 3, 3, 3, 4, 0, 0, 1] {
            queue.orphans(&TERMS, n);
        }
    });
    assert_eq!(lines.len(), 3, "{lines:?}");
    for (line, entries) in lines.iter().zip(["entries=3", "entries=4", "entries=1"]) {
        assert!(line.contains(entries), "{line}");
    }
    has(&events, r#"delaybridge_test_orphans{queue="orders"} 1"#);
}

#[test]
fn whatever_a_sink_changes_to_there_is_one_line_in_a_while_and_the_last_state_is_told() {
    let (events, lines) = logged(|events| {
        let sink = events.sink(&"events".into());
        let refused = Failure::new(Class::Transient, "connect", "connect to 10.0.0.1:6379: refused");
        let full = Failure::new(Class::Backpressure, "OOM", "push to list x: out of memory");
        sink.up();
        for _ in 0..100 {
            sink.down(&refused);
            sink.blocked(&full);
            sink.up();
        }
        events.sum_up(false);
        events.sum_up(true);
        events.sum_up(true);
    });
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("sink down") && lines[0].contains("connect to 10.0.0.1:6379: refused"), "{lines:?}");
    assert!(lines[1].contains("sink up") && lines[1].contains("left_out=298"), "{lines:?}");
    has(&events, r#"delaybridge_sink_up{sink="events"} 1"#);
    has(&events, r#"delaybridge_sink_blocked{sink="events"} 0"#);
}

/// Half of the elements of an outage may have arrived, and those in front of it fail with another code.
#[test]
fn a_sink_that_is_down_for_several_reasons_in_turn_is_one_line() {
    let (_, lines) = logged(|events| {
        let sink = events.sink(&"events".into());
        let failure = |class, code| Failure::new(class, code, "send to topic t: no answer");
        for _ in 0..100 {
            sink.down(&failure(Class::Transient, "all_brokers_down"));
            sink.down(&failure(Class::Ambiguous, "all_brokers_down"));
        }
        for _ in 0..100 {
            sink.down(&failure(Class::Ambiguous, "timeout"));
            sink.down(&failure(Class::Transient, "all_brokers_down"));
        }
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[test]
fn losing_redis_and_finding_it_again_is_two_lines_however_often_it_is_tried() {
    let (events, lines) = logged(|events| {
        events.redis_up(&"default".into(), "h:1/0", "7.0.15");
        (0..5).for_each(|n| events.redis_lost(&"default".into(), "h:1/0", &format!("try {n}")));
        events.redis_up(&"default".into(), "h:1/0", "7.0.15");
    });
    assert_eq!(lines.len(), 3, "{lines:?}");
    has(&events, "delaybridge_redis_up{redis=\"default\"} 1");
}

#[test]
fn ten_thousand_queues_on_hold_are_a_line_and_a_sum_for_each_cause() {
    let began = delaybridge_core::clock::Instant::now();
    let (_, lines) = logged(|events| {
        let queues: Vec<_> = (0..10_000).map(|n| events.queue(&format!("q{n}").into())).collect();
        queues.iter().for_each(|queue| queue.on_hold(Some("out"), "NOPERM", "topic a", "no right"));
        queues.iter().for_each(|queue| queue.on_hold(Some("out"), "NOPERM", "topic a", "still no right"));
        events.sum_up(true);
        queues.iter().for_each(QueueEvents::resumed);
        events.sum_up(true);
        events.sum_up(true);
    });
    // Every second of the test's duration adds a line.
    let most = 5 + began.elapsed().as_secs() as usize;
    assert!((4..=most).contains(&lines.len()), "{} lines: {:?}", lines.len(), &lines[..6]);
    let sum = lines.iter().find(|line| line.contains("queue on hold: sum of the lines left out")).expect("the sum");
    assert!(sum.contains("out NOPERM") && sum.contains("q1, q2") && sum.contains("more"), "{sum}");
    assert!(lines.iter().any(|line| line.contains("queue resumed: sum of the lines left out")), "{lines:?}");
}

#[test]
fn a_hold_that_moves_to_another_topic_with_the_same_code_says_so() {
    let (_, lines) = logged(|events| {
        let queue = events.queue(&"orders".into());
        queue.on_hold(Some("events"), "UNKNOWN_TOPIC", "send to topic a", "topic a does not exist");
        queue.on_hold(Some("events"), "UNKNOWN_TOPIC", "send to topic b", "topic b does not exist");
    });
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[1].contains("now for another reason") && lines[1].contains("topic b"), "{lines:?}");
}

#[test]
fn a_clock_that_differs_much_is_one_line_until_it_agrees() {
    let (events, lines) = logged(|events| {
        for ahead in [0.2, 29.0, 3_600.4, 3_601.0, 20.0] {
            events.clock_skew("default", Some(ahead));
        }
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("WARN") && lines[0].contains("ahead_seconds=3600"), "{lines:?}");
    has(&events, r#"delaybridge_clock_skew_seconds{redis="default"} 20"#);
    assert_eq!(
        events.status.look().clocks,
        [("default".into(), 20.0)],
        "20 s are not enough to agree again, and no news"
    );
    let (events, lines) = logged(|events| {
        for ahead in [Some(-40.0), None, Some(-40.0), Some(1.0)] {
            events.clock_skew("default", ahead);
        }
    });
    assert_eq!(lines.len(), 2, "an outage is no news: {lines:?}");
    assert!(lines[0].contains("ahead_seconds=-40") && lines[1].contains("agree again"), "{lines:?}");
    assert!(events.status.look().clocks.is_empty());
}
