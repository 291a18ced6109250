//! The simulation against a delivery one by one, on random schedules.

use super::*;

const MINUTE: i64 = 60_000;

/// Counts like those who count in Redis, with at most `room` counts.
fn refined(due: &[i64], backlog: u64, spans: Vec<DueSpan>, rate: f64, room: usize) -> Vec<DueSpan> {
    let mut schedule = Schedule::new(backlog, spans, rate, room);
    loop {
        let unknown = schedule.unknown();
        if unknown.is_empty() {
            return schedule.spans;
        }
        let counts: Vec<u64> = unknown.iter().map(|(from, until)| count(due, *from, *until)).collect();
        schedule.learn(&counts);
    }
}

fn count(due: &[i64], from_ms: i64, until_ms: i64) -> u64 {
    let until = |ms: i64| due.partition_point(|due| *due <= ms) as u64;
    until(until_ms) - until(from_ms)
}

fn steps(due: &[i64], step: i64, n: i64) -> Vec<DueSpan> {
    let span = |at: i64| (at * step, (at + 1) * step);
    (0..n)
        .map(span)
        .map(|(from_ms, until_ms)| DueSpan { from_ms, until_ms, count: count(due, from_ms, until_ms) })
        .collect()
}

/// Delivers element by element: when each one leaves, beside when it was due.
fn one_by_one(backlog: u64, due: &[i64], rate: f64) -> Vec<(i64, f64)> {
    let each = 1_000.0 / rate;
    let mut free = backlog as f64 * each;
    let mut deliver = |due: &i64| {
        free = free.max(*due as f64) + each;
        (*due, free)
    };
    due.iter().map(&mut deliver).collect()
}

/// The end of the wave of what falls due at this time: not before the latest element of then, and not after the first pause that
/// must be one.
fn wave_ends(delivered: &[(i64, f64)], due_ms: i64, slack: f64, each: f64) -> (f64, f64) {
    let near = |at: &usize| (delivered[*at].0 - due_ms).abs() as f64 <= slack;
    let late = |at: &usize| delivered[*at].1 - delivered[*at].0 as f64;
    let latest = (0..delivered.len()).filter(near).max_by(|a, b| late(a).total_cmp(&late(b)));
    let begin = latest.expect("something falls due then");
    let is_pause = |at: &usize| delivered[at + 1].1 - each - delivered[*at].1 > slack;
    let end = (begin..delivered.len() - 1).find(is_pause).unwrap_or(delivered.len() - 1);
    (delivered[begin].1, delivered[end].1)
}

/// A schedule of bursts and of steady streams.
fn schedule(random: &mut fastrand::Rng, until: i64) -> Vec<i64> {
    let mut due = Vec::new();
    for _ in 0..random.usize(0..4) {
        let at = random.i64(1..until);
        let n = random.usize(1..4_000);
        let width = random.choice([1, 10, 700, 30_000]).unwrap();
        due.extend((0..n).map(|_| (at + random.i64(0..width)).min(until)));
    }
    let from = random.i64(1..until);
    let n = random.usize(0..3_000);
    due.extend((0..n).map(|_| random.i64(from..=until)));
    due.sort_unstable();
    due
}

#[test]
fn the_outcome_is_that_of_a_delivery_one_by_one() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let step = random.choice([10_000, MINUTE, 5 * MINUTE]).unwrap();
        let n = random.i64(1..30);
        let due = schedule(&mut random, step * n);
        let backlog = random.u64(0..3) * random.u64(0..2_000);
        let rate = random.choice([2.0, 17.0, 55.5, 900.0]).unwrap();
        let spans = refined(&due, backlog, steps(&due, step, n), rate, usize::MAX);
        let found = simulate(backlog, &spans, rate);
        let expected = one_by_one(backlog, &due, rate);
        let slack = 1_000.0 + 2.0 * 1_000.0 / rate + 2.0;
        let near = |found: f64, expected: f64, what: &str| {
            assert!((found - expected).abs() <= slack, "seed {seed}: {what}: found {found}, expected {expected}");
        };
        let late = |delivered: &(i64, f64)| delivered.1 - delivered.0 as f64;
        let worst = expected.iter().map(late).fold(0.0, f64::max);
        near(found.worst.map_or(0.0, |wave| wave.late_ms as f64), worst, "worst lateness");
        for (span, end) in spans.iter().zip(&found.ends).filter(|(span, _)| span.count > 0) {
            let before = |ms: i64| expected.partition_point(|(due, _)| *due <= ms);
            let of = &expected[before(span.from_ms)..before(span.until_ms)];
            near(end.late_ms as f64, of.iter().map(late).fold(0.0, f64::max), "lateness in a span");
        }
        if let (Some(through), Some((_, last))) = (found.through_ms, expected.last())
            && found.ends.last().unwrap().waiting > 0
        {
            near(through as f64, *last, "all through");
        }
        if let Some(wave) = found.worst.filter(|wave| wave.late_ms > 3_000) {
            let (early, latest) = wave_ends(&expected, wave.latest_ms, slack, 1_000.0 / rate);
            let through = wave.through_ms as f64;
            assert!(
                early - slack <= through && through <= latest + slack,
                "seed {seed}: {wave:?}, {early} to {latest}"
            );
        }
        assert_eq!(exact_to_ms(backlog, &spans, rate), 1_000, "seed {seed}");
    }
}

#[test]
fn a_burst_is_not_smeared_over_its_step() {
    let due = vec![7 * MINUTE; 13_000];
    let whole = steps(&due, 15 * MINUTE, 2);
    let coarse = simulate(0, &whole, 55.0);
    assert_eq!(coarse.worst, None, "thirteen thousand of a quarter of an hour are less than the rate");
    assert_eq!(exact_to_ms(0, &whole, 55.0), 236_363);
    let spans = refined(&due, 0, whole, 55.0, 100);
    assert!(spans.len() < 15, "one burst takes one count for each halving: {}", spans.len());
    let wave = simulate(0, &spans, 55.0).worst.unwrap();
    assert_eq!((wave.count, wave.backlog), (13_000, 0));
    assert!(wave.late_ms.abs_diff(236_363) <= 1_000, "{wave:?}");
    assert!((wave.through_ms - wave.latest_ms).abs_diff(236_363) <= 1_000, "{wave:?}");
    assert!(wave.latest_ms.abs_diff(7 * MINUTE) <= 1_000, "{wave:?}");
}

#[test]
fn a_backlog_delays_what_falls_due_behind_it() {
    let spans =
        [DueSpan { from_ms: 0, until_ms: 1_000, count: 10 }, DueSpan { from_ms: 1_000, until_ms: 9_000, count: 0 }];
    let found = simulate(50, &spans, 10.0);
    assert_eq!(found.ends, [SpanEnd { waiting: 50, late_ms: 5_000 }, SpanEnd { waiting: 0, late_ms: 0 }]);
    assert_eq!(found.through_ms, Some(6_000));
    let wave = found.worst.unwrap();
    assert_eq!((wave.backlog, wave.count, wave.through_ms, wave.late_ms), (50, 10, 6_000, 5_000));
    let slowly = simulate(50, &[DueSpan { from_ms: 0, until_ms: 20_000, count: 100 }], 10.0);
    assert_eq!(slowly.worst.unwrap().through_ms, 10_000, "half of the rate is for what falls due meanwhile");
    let nothing = simulate(0, &[DueSpan { from_ms: 0, until_ms: 9, count: 0 }], 1.0);
    assert_eq!((nothing.through_ms, nothing.worst), (None, None));
}

#[test]
fn the_counts_are_bounded_and_go_where_the_most_is() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut due: Vec<i64> = (0..20_000).map(|_| random.i64(1..=600 * MINUTE)).collect();
    due.extend([100 * MINUTE + 1; 5_000]);
    due.sort_unstable();
    let spans = refined(&due, 0, steps(&due, 60 * MINUTE, 10), 1.0, 60);
    assert_eq!(spans.len(), 70, "sixty counts, and no more");
    assert_eq!(spans.iter().map(|span| span.count).sum::<u64>(), 25_000);
    assert!(spans.windows(2).all(|two| two[0].until_ms == two[1].from_ms));
    let wave = simulate(0, &spans, 1.0).worst.unwrap();
    let worst = one_by_one(0, &due, 1.0).iter().map(|(due, at)| at - *due as f64).fold(0.0, f64::max);
    let exact = exact_to_ms(0, &spans, 1.0);
    assert!(exact > 1_000 && (wave.late_ms as f64 - worst).abs() <= exact as f64, "{wave:?} {worst} {exact}");
}
