//! Tests of the judge: every row of the table of outcomes, then random rounds.

use super::*;

const POLICY: RetryPolicy = RetryPolicy {
    max_attempts: 3,
    initial_interval: Duration::from_millis(500),
    max_interval: Duration::from_secs(60),
    multiplier: 2.0,
    full_jitter: false,
};

fn fail(class: Class) -> Outcome {
    Err(Failure::new(class, "CODE", "push to list x: refused"))
}

fn answer(sink: usize, outcome: Outcome, moved: bool) -> SinkAnswer {
    SinkAnswer { sink, outcome, moved, stop: Stop::Queue }
}

fn round(answers: &[SinkAnswer], counted: u32) -> JudgedRound<'_> {
    JudgedRound {
        confirmed: vec![false],
        passed_over: &[],
        answers,
        counted,
        probe: false,
        panicked: false,
        stopping: false,
        held: None,
        abandoned: false,
    }
}

/// Judges one answer of the only sink.
fn one(outcome: Outcome, moved: bool, counted: u32) -> Verdict {
    judge(round(&[answer(0, outcome, moved)], counted), &POLICY, 1.0).verdict
}

fn again(after_ms: u64, counted: bool, class: Class) -> Verdict {
    Verdict::Retry { after: Duration::from_millis(after_ms), counted, class, code: "CODE" }
}

fn dead_of(reason: DeadReason, class: Class) -> Verdict {
    Verdict::Dead(Death { reason, sink: Some(0), destination: None, failure: fail(class).err(), shown: None })
}

#[test]
fn each_class_has_its_verdict() {
    let check = |class: Class, moved, counted, expected: Verdict| {
        assert_eq!(one(fail(class), moved, counted), expected, "{class:?}, moved {moved}, counted {counted}");
    };
    let hold = ReleaseCause::Hold { sink: Some(0), failure: fail(Class::TargetPermanent).unwrap_err() };
    assert_eq!(one(Ok(()), true, 2), Verdict::Confirm);
    for moved in [true, false] {
        check(Class::Backpressure, moved, 2, Verdict::Release { why: ReleaseCause::Backpressure { sink: 0 } });
        check(Class::TargetPermanent, moved, 2, Verdict::Release { why: hold.clone() });
        check(Class::MessagePermanent, moved, 0, dead_of(DeadReason::MessagePermanent, Class::MessagePermanent));
        check(Class::Unknown, moved, 0, again(500, true, Class::Unknown));
        check(Class::Unknown, moved, 2, dead_of(DeadReason::MaxAttempts, Class::Unknown));
    }
    for class in [Class::Transient, Class::Ambiguous] {
        check(class, true, 0, again(500, true, class));
        check(class, true, 1, again(1000, true, class));
        check(class, true, 2, dead_of(DeadReason::MaxAttempts, class));
        check(class, false, 0, again(500, false, class));
        check(class, false, 2, again(1000, false, class));
        check(class, false, 1_000, again(60_000, false, class));
    }
}

#[test]
fn what_never_left_the_process_does_not_count() {
    for code in [Failure::NOT_SENT, Failure::NOT_CONNECTED] {
        let unsent = Err(Failure::new(Class::Transient, code, "push to list x: not sent within 1s"));
        let verdict = one(unsent, true, 2);
        assert!(matches!(verdict, Verdict::Retry { counted: false, .. }), "{code:?}: {verdict:?}");
    }
}

#[test]
fn what_waited_behind_another_does_not_count_and_may_come_twice() {
    let behind = [answer(0, Err(Failure::new(Class::Ambiguous, Failure::BEHIND, "no confirmation")), true)];
    let judged = judge(round(&behind, 2), &POLICY, 1.0);
    assert!(matches!(judged.verdict, Verdict::Retry { counted: false, .. }), "{judged:?}");
    assert!(judged.possible_duplicate);
}

#[test]
fn a_probe_never_counts_but_a_panic_always_does() {
    for class in [Class::Transient, Class::Ambiguous, Class::Unknown] {
        let answers = [answer(0, fail(class), true)];
        let verdict = judge(JudgedRound { probe: true, ..round(&answers, 2) }, &POLICY, 1.0).verdict;
        assert_eq!(verdict, again(1000, false, class));
    }
    for probe in [true, false] {
        let panicked =
            |counted| judge(JudgedRound { probe, panicked: true, ..round(&[], counted) }, &POLICY, 1.0).verdict;
        assert!(matches!(panicked(0), Verdict::Retry { counted: true, code: PANIC, .. }));
        assert!(matches!(panicked(2), Verdict::Dead(Death { reason: DeadReason::MaxAttempts, .. })));
    }
}

#[test]
fn a_sink_that_is_not_meant_for_an_element_is_not_waited_for() {
    let check = |confirmed: [bool; 3], passed_over: &[usize], answered: &[usize], expected: Verdict| {
        let answers: Vec<_> = answered.iter().map(|sink| answer(*sink, Ok(()), false)).collect();
        let round = JudgedRound { confirmed: confirmed.to_vec(), passed_over, ..round(&answers, 0) };
        assert_eq!(judge(round, &POLICY, 1.0).verdict, expected, "{confirmed:?} {passed_over:?} {answered:?}");
    };
    let waits_for = |sink| Verdict::Release { why: ReleaseCause::Backpressure { sink } };
    check([false; 3], &[1, 2], &[0], Verdict::Confirm);
    check([false; 3], &[1], &[0], waits_for(2));
    check([false, true, false], &[0], &[2], Verdict::Confirm);
    check([false, true, false], &[0], &[], waits_for(2));
    // Confirmed before, and all that is left is not meant for it by a new configuration.
    check([false, true, false], &[0, 2], &[], Verdict::Confirm);
    // That nobody wants an element is never a success.
    check([false; 3], &[0, 1, 2], &[], Verdict::Release { why: ReleaseCause::Shutdown });
}

#[test]
fn the_gravest_answer_of_a_fan_out_decides() {
    let order = [
        Class::MessagePermanent,
        Class::TargetPermanent,
        Class::Backpressure,
        Class::Unknown,
        Class::Ambiguous,
        Class::Transient,
    ];
    for (rank, &grave) in order.iter().enumerate() {
        for &light in &order[rank..] {
            for answers in [
                [answer(0, fail(grave), false), answer(1, fail(light), false)],
                [answer(0, fail(light), false), answer(1, fail(grave), false)],
            ] {
                let round = JudgedRound { confirmed: vec![false, false], ..round(&answers, 0) };
                let verdict = judge(round, &POLICY, 1.0).verdict;
                let found = match verdict {
                    Verdict::Dead(Death { reason: DeadReason::MessagePermanent, .. }) => Class::MessagePermanent,
                    Verdict::Release { why: ReleaseCause::Hold { .. } } => Class::TargetPermanent,
                    Verdict::Release { why: ReleaseCause::Backpressure { .. } } => Class::Backpressure,
                    Verdict::Retry { class, .. } => class,
                    other => panic!("{grave:?} and {light:?}: {other:?}"),
                };
                assert_eq!(found, grave, "{grave:?} and {light:?}");
            }
        }
    }
}

#[test]
fn a_sink_that_confirmed_stays_confirmed_whatever_the_others_said() {
    for class in Class::ALL {
        let answers = [answer(0, Ok(()), true), answer(1, fail(class), true)];
        let judged = judge(JudgedRound { confirmed: vec![false, false], ..round(&answers, 0) }, &POLICY, 1.0);
        assert_eq!(judged.confirmed, [true, false], "{class:?}");
        assert_ne!(judged.verdict, Verdict::Confirm, "{class:?}");
    }
    // The next round asks only the sink that is missing.
    let answers = [answer(1, Ok(()), true)];
    let judged = judge(JudgedRound { confirmed: vec![true, false], ..round(&answers, 0) }, &POLICY, 1.0);
    assert_eq!((judged.verdict, judged.confirmed), (Verdict::Confirm, vec![true, true]));
}

#[test]
fn a_sink_that_was_not_asked_is_no_success() {
    let answers = [answer(0, Ok(()), true)];
    let judged = |stopping| {
        judge(JudgedRound { confirmed: vec![false, false], stopping, ..round(&answers, 0) }, &POLICY, 1.0).verdict
    };
    assert_eq!(judged(false), Verdict::Release { why: ReleaseCause::Backpressure { sink: 1 } });
    assert_eq!(judged(true), Verdict::Release { why: ReleaseCause::Shutdown });
    let none = judge(JudgedRound { confirmed: vec![], ..round(&[], 0) }, &POLICY, 1.0).verdict;
    assert_ne!(none, Verdict::Confirm);
}

#[test]
fn what_one_destination_refuses_holds_no_other() {
    let wait = Duration::from_secs(7);
    let refused = |class, unroutable| {
        let stop = Stop::Destination { wait, unroutable };
        judge(round(&[SinkAnswer { stop, ..answer(0, fail(class), true) }], 2), &POLICY, 1.0).verdict
    };
    let back = Verdict::Release { why: ReleaseCause::Destination { after: wait } };
    assert_eq!(refused(Class::TargetPermanent, false), back);
    assert_eq!(refused(Class::Backpressure, false), back);
    assert_eq!(refused(Class::TargetPermanent, true), dead_of(DeadReason::Unroutable, Class::TargetPermanent));
    let not_asked = judge(JudgedRound { held: Some(wait), ..round(&[], 2) }, &POLICY, 1.0).verdict;
    assert_eq!(not_asked, back);
    let stopping = judge(JudgedRound { held: Some(wait), stopping: true, ..round(&[], 2) }, &POLICY, 1.0).verdict;
    assert_eq!(stopping, Verdict::Release { why: ReleaseCause::Shutdown });
}

#[test]
fn a_destination_that_payloads_chose_is_given_up_after_its_time_if_it_never_worked() {
    use delaybridge_model::{OnUnroutable, Unroutable};
    let check = |after: Option<u64>, action, lasted, worked, expected| {
        let policy = Unroutable { after: after.map(Duration::from_secs), action };
        assert_eq!(
            is_unroutable(policy, Duration::from_secs(lasted), worked),
            expected,
            "{policy:?} {lasted} {worked}"
        );
    };
    check(Some(600), OnUnroutable::DeadLetter, 599, false, false);
    check(Some(600), OnUnroutable::DeadLetter, 600, false, true);
    check(Some(600), OnUnroutable::DeadLetter, 6_000, true, false);
    check(Some(0), OnUnroutable::DeadLetter, 0, true, true);
    check(None, OnUnroutable::DeadLetter, 6_000, false, false);
    check(Some(0), OnUnroutable::Hold, 6_000, false, false);
}

#[test]
fn a_duplicate_is_announced_if_a_sink_may_have_it_and_it_can_be_sent_again() {
    let check = |answers: &[SinkAnswer], counted, expected| {
        let round = JudgedRound { confirmed: vec![false, false], ..round(answers, counted) };
        assert_eq!(judge(round, &POLICY, 1.0).possible_duplicate, expected, "{answers:?} after {counted}");
    };
    let ambiguous = answer(0, fail(Class::Ambiguous), true);
    check(&[ambiguous.clone(), answer(1, Ok(()), true)], 0, true);
    check(&[ambiguous.clone(), answer(1, fail(Class::Backpressure), true)], 0, true);
    // The last attempt: a dead letter can be redriven.
    check(&[ambiguous, answer(1, Ok(()), true)], 2, true);
    check(&[answer(0, fail(Class::Transient), true)], 0, false);
    let given_up = JudgedRound { stopping: true, abandoned: true, ..round(&[], 2) };
    let judged = judge(given_up, &POLICY, 1.0);
    assert_eq!(judged.verdict, Verdict::Release { why: ReleaseCause::Shutdown });
    assert!(judged.possible_duplicate);
}

#[test]
fn waits_grow_to_the_upper_bound_and_never_overflow() {
    let check = |attempt, draw, jitter, expected_ms: u64| {
        let policy = RetryPolicy { full_jitter: jitter, ..POLICY };
        let found = backoff(&policy, attempt, draw);
        assert_eq!(found, Duration::from_millis(expected_ms), "attempt {attempt}, draw {draw}, jitter {jitter}");
    };
    check(0, 0.0, false, 500);
    check(1, 0.0, false, 500);
    check(2, 0.0, false, 1_000);
    check(7, 0.0, false, 32_000);
    check(8, 0.0, false, 60_000);
    check(u32::MAX, 0.0, false, 60_000);
    check(2, 0.0, true, 0);
    check(2, 0.5, true, 500);
    check(2, 1.0, true, 1_000);
    check(u32::MAX, 1.0, true, 60_000);
    check(2, 7.0, true, 1_000);
    check(2, -1.0, true, 0);
    check(2, f64::NAN, true, 1_000);
}

#[test]
fn a_first_interval_above_the_upper_bound_is_cut_to_it() {
    let policy = RetryPolicy { initial_interval: Duration::MAX, ..POLICY };
    assert_eq!(backoff(&policy, 5, 1.0), POLICY.max_interval);
}

#[test]
fn random_rounds_keep_the_promises() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..50_000 {
        let sinks = random.usize(1..5);
        let before: Vec<bool> = (0..sinks).map(|_| random.bool()).collect();
        let passed_over: Vec<usize> = (0..sinks).filter(|&sink| !before[sink] && random.u8(..10) < 3).collect();
        let is_asked = |&sink: &usize| !before[sink] && !passed_over.contains(&sink) && random.u8(..10) > 0;
        let asked: Vec<usize> = (0..sinks).filter(is_asked).collect();
        let answers: Vec<SinkAnswer> = asked
            .into_iter()
            .map(|sink| {
                let outcome = if random.bool() { Ok(()) } else { fail(Class::ALL[random.usize(..Class::ALL.len())]) };
                answer(sink, outcome, random.bool())
            })
            .collect();
        let counted = random.u32(..5);
        let probe = random.bool();
        let panicked = random.u8(..10) == 0;
        let stopping = random.bool();
        let abandoned = stopping && random.bool();
        let round = JudgedRound {
            confirmed: before.clone(),
            passed_over: &passed_over,
            answers: &answers,
            counted,
            probe,
            panicked,
            stopping,
            held: None,
            abandoned,
        };
        let judged = judge(round, &POLICY, random.f64());

        let has = |sink: usize| before[sink] || answers.iter().any(|a| a.sink == sink && a.outcome.is_ok());
        let all = (0..sinks).all(|sink| has(sink) || passed_over.contains(&sink)) && (0..sinks).any(has);
        let context = format!(
            "seed {seed}: {before:?} but {passed_over:?} {answers:?} counted {counted} probe {probe} {judged:?}"
        );
        // R1, and nothing confirmed is forgotten.
        assert_eq!(judged.verdict == Verdict::Confirm, all, "{context}");
        assert_eq!(judged.confirmed, (0..sinks).map(has).collect::<Vec<_>>(), "{context}");
        let classes: Vec<Class> = answers.iter().filter_map(|a| Some(a.outcome.as_ref().err()?.class)).collect();
        match judged.verdict {
            Verdict::Dead(Death { reason: DeadReason::MaxAttempts, .. }) => {
                assert!(counted + 1 >= POLICY.max_attempts, "{context}");
                assert!(panicked || !probe, "{context}");
                let moved = answers.iter().any(|a| a.outcome.is_err() && a.moved);
                assert!(panicked || moved || classes.contains(&Class::Unknown), "an outage killed: {context}");
            }
            Verdict::Dead(Death { reason, .. }) => {
                assert_eq!(reason, DeadReason::MessagePermanent, "{context}");
                assert!(classes.contains(&Class::MessagePermanent), "{context}");
            }
            Verdict::Retry { counted, after, .. } => {
                assert!(!counted || panicked || !probe, "{context}");
                assert!(after <= POLICY.max_interval, "{context}");
            }
            Verdict::Confirm | Verdict::Release { .. } => {}
            Verdict::Push { .. } | Verdict::Gone | Verdict::Skipped | Verdict::Return { .. } => panic!("{context}"),
        }
    }
}
