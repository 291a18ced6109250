//! Tests of the circuit: the table of classes, the waits, the number of probes.

use super::*;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// Milliseconds until it may be tried again, with the whole bound drawn.
fn wait(circuit: &Circuit, now: Instant) -> u128 {
    match circuit.allows(now) {
        Allow::No { retry_at: Some(at) } => at.since(now).as_millis(),
        other => panic!("{other:?}"),
    }
}

/// A breaker that has just opened.
fn broken(now: Instant) -> Circuit {
    let mut circuit = Circuit::breaker();
    for _ in 1..THRESHOLD {
        assert_eq!(circuit.on_failure(Class::Transient, now, 1.0), None);
    }
    assert_eq!(circuit.on_failure(Class::Ambiguous, now, 1.0), Some(Transition::Opened(OpenReason::Failing)));
    circuit
}

#[test]
fn a_breaker_opens_after_five_failures_in_a_row_only() {
    let now = Instant::now();
    let mut circuit = Circuit::breaker();
    for _ in 0..10 {
        for _ in 1..THRESHOLD {
            assert_eq!(circuit.on_failure(Class::Unknown, now, 1.0), None);
        }
        assert_eq!(circuit.on_success(), None);
    }
    assert_eq!(circuit.allows(now), Allow::Free);
    assert_eq!(wait(&broken(now), now), 200);
}

#[test]
fn each_class_moves_each_circuit_as_the_table_says() {
    let check = |mut circuit: Circuit, class, expected, why| {
        assert_eq!(circuit.on_failure(class, Instant::now(), 1.0), expected, "{class:?} on {circuit:?}");
        assert_eq!(circuit.why(), why, "{class:?} on {circuit:?}");
    };
    let blocked = Some(Transition::Opened(OpenReason::Blocked));
    let target = Some(Transition::Opened(OpenReason::Target));
    for class in [Class::Transient, Class::Ambiguous, Class::Unknown, Class::MessagePermanent] {
        check(Circuit::breaker(), class, None, None);
        check(Circuit::hold(), class, None, None);
    }
    check(Circuit::breaker(), Class::Backpressure, blocked, Some(OpenReason::Blocked));
    check(Circuit::hold(), Class::Backpressure, None, None);
    check(Circuit::breaker(), Class::TargetPermanent, None, None);
    check(Circuit::hold(), Class::TargetPermanent, target, Some(OpenReason::Target));
    let open = || broken(Instant::now());
    check(open(), Class::Backpressure, blocked, Some(OpenReason::Blocked));
    check(open(), Class::Transient, None, Some(OpenReason::Failing));
    check(open(), Class::MessagePermanent, None, Some(OpenReason::Failing));
    check(open(), Class::TargetPermanent, Some(Transition::Closed), None);
}

#[test]
fn one_probe_at_a_time_and_each_failed_one_doubles_the_wait() {
    let mut now = Instant::now();
    let mut circuit = broken(now);
    for expected in [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000] {
        assert_eq!(wait(&circuit, now), expected);
        now = now.after(MS(expected as u64));
        assert_eq!(circuit.allows(now), Allow::Probe);
        circuit.probe_started();
        assert_eq!(circuit.allows(now), Allow::No { retry_at: None });
        assert_eq!(circuit.on_failure(Class::Transient, now, 1.0), None);
    }
    circuit.probe_started();
    assert_eq!(circuit.on_success(), Some(Transition::Closed));
    assert_eq!(circuit.allows(now), Allow::Free);
}

#[test]
fn what_was_sent_before_it_opened_does_not_lengthen_the_wait() {
    let now = Instant::now();
    let mut circuit = broken(now);
    for _ in 0..100 {
        assert_eq!(circuit.on_failure(Class::Transient, now.after(MS(100)), 1.0), None);
    }
    assert_eq!(wait(&circuit, now), 200);
}

#[test]
fn a_probe_that_proves_nothing_waits_as_long_again() {
    let now = Instant::now();
    let mut hold = Circuit::hold();
    hold.on_failure(Class::TargetPermanent, now, 1.0);
    for class in [Class::Transient, Class::MessagePermanent, Class::Backpressure] {
        hold.probe_started();
        assert_eq!(hold.on_failure(class, now, 1.0), None);
        assert_eq!((wait(&hold, now), hold.why()), (1_000, Some(OpenReason::Target)));
    }
    hold.probe_started();
    hold.probe_abandoned(now);
    assert_eq!(hold.allows(now), Allow::Probe);
}

#[test]
fn a_probe_is_not_abandoned_twice_and_not_begun_while_closed() {
    let now = Instant::now();
    let mut circuit = Circuit::breaker();
    circuit.probe_started();
    circuit.probe_abandoned(now);
    assert_eq!(circuit.allows(now), Allow::Free);
}

#[test]
fn at_the_ceiling_there_are_at_most_25_probes_in_ten_minutes() {
    let check = |mut circuit: Circuit, class, draw: f64| {
        let mut now = Instant::now();
        let mut probes = Vec::new();
        while probes.len() < 100 {
            match circuit.allows(now) {
                Allow::Free => {}
                Allow::Probe => {
                    circuit.probe_started();
                    probes.push(now);
                }
                Allow::No { retry_at } => {
                    now = retry_at.unwrap();
                    continue;
                }
            }
            circuit.on_failure(class, now, draw);
        }
        let ten_minutes = Duration::from_secs(600);
        for (n, start) in probes.iter().enumerate().skip(10) {
            let inside = probes[n..].iter().take_while(|probe| probe.since(*start) < ten_minutes).count();
            assert!(inside <= 25, "{inside} probes with draw {draw}");
        }
    };
    for draw in [0.0, 0.3, 1.0, f64::NAN] {
        check(Circuit::breaker(), Class::Transient, draw);
        check(Circuit::breaker(), Class::Backpressure, draw);
        check(Circuit::hold(), Class::TargetPermanent, draw);
    }
}
