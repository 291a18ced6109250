//! Bounds and shapes of forecasts.

use super::*;

#[test]
fn a_step_has_the_worst_of_its_spans_and_what_waits_at_its_end() {
    let span = |from_ms, until_ms, count| DueSpan { from_ms, until_ms, count };
    let spans = [span(0, 500, 40), span(500, 1_000, 0), span(1_000, 2_000, 0), span(2_000, 60_000, 7)];
    let steps = [span(0, 2_000, 40), span(2_000, 60_000, 7)];
    let mut schedule = Schedule::new(0, spans.to_vec(), 10.0, 0);
    assert!(schedule.unknown().is_empty());
    let mut found = Forecast {
        queue: "q".to_owned(),
        now_ms: 0,
        until_ms: 60_000,
        summary: String::new(),
        rate: Some(10.0),
        rate_from: RateFrom::Given,
        backlog: 0,
        oldest_overdue_ms: None,
        scheduled: 47,
        due: 47,
        last_due_ms: Some(31_000),
        absurd_due: 0,
        through_ms: None,
        lateness_ms: None,
        exact_to_ms: None,
        worst: None,
        steps: steps.iter().map(ForecastStep::of).collect(),
    };
    found.learn(&spans, &schedule.outcome());
    let of = |step: &ForecastStep| (step.due, step.waiting, step.lateness_ms);
    assert_eq!(
        found.steps.iter().map(of).collect::<Vec<_>>(),
        [(40, Some(20), Some(3_500)), (7, Some(0), Some(2_000))]
    );
    assert_eq!((found.through_ms, found.lateness_ms), (Some(31_000), Some(3_500)));
}

#[test]
fn an_answer_is_read_as_it_was() {
    let answer = r#"{"queue":"q","now_ms":1,"until_ms":2,"summary":"","rate":null,"rate_from":"none","backlog":0,
        "oldest_overdue_ms":null,"scheduled":1,"due":1,"last_due_ms":2,"absurd_due":0,"through_ms":null,"lateness_ms":null,
        "exact_to_ms":null,"worst":null,"steps":[{"from_ms":1,"until_ms":2,"due":1,"waiting":null,"lateness_ms":null}],"new":1}"#;
    let found: Forecast = serde_json::from_str(answer).unwrap();
    assert_eq!((found.rate_from, found.steps[0].due), (RateFrom::None, 1));
}

#[test]
fn a_queue_is_never_faster_than_its_max_rate_measured_or_not() {
    let config = |max_rate: &str, of_sink: &str| {
        let text = format!(
            "redis: {{ url: 'redis://h' }}\nsinks: {{ out: {{ stdout: {{ {of_sink} }} }} }}\n\
             queues: {{ q: {{ source: {{ redisson: {{ name: n }} }}, to: [{{ sink: out }}]{max_rate} }} }}\n"
        );
        delaybridge_config::load_str(&text, "c.yaml", &|_| None).unwrap().config
    };
    for (max_rate, of_sink, measured, expected) in [
        ("", "", None, (None, RateFrom::None)),
        ("", "", Some(70.0), (Some(70.0), RateFrom::Measured)),
        (", max_rate: 50/s", "", Some(70.0), (Some(50.0), RateFrom::MaxRate)),
        (", max_rate: 50/s", "", Some(30.0), (Some(30.0), RateFrom::Measured)),
        (", max_rate: 50/s", "", None, (Some(50.0), RateFrom::MaxRate)),
        (", max_rate: 50/s", "max_rate: 20/s", None, (Some(20.0), RateFrom::MaxRate)),
    ] {
        let config = config(max_rate, of_sink);
        let rate = Rate::measured(&config, &config.queues[0], measured, 0);
        assert_eq!((rate.per_second, rate.from), expected, "{max_rate} {of_sink} {measured:?}");
    }
}
