//! What falls due in a queue, and how late it will be at a rate of deliveries. Counts by the index, and reads no element.

mod answer;
mod summary;

use std::time::Duration;

pub use self::answer::{Forecast, ForecastStep, ForecastWave, RateFrom};
use super::error::{Attempted, Error};
use super::overview::with_in_flight;
use super::pause::paused_of;
use super::queue_state::backlog;
use super::session::Queue;
use delaybridge_core::forecast::{DueSpan, Schedule};
use delaybridge_ledger::{StoreError, millis};
use delaybridge_model::{Config, Mode, QueueSpec};

/// Counts that a forecast may take beside one for each step.
const COUNTS: usize = 2_000;

/// The rate of a queue, and its origin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    per_second: Option<f64>,
    from: RateFrom,
    /// Whether a daemon answers, that could have measured it.
    by_daemon: bool,
    /// Time since the oldest element was due that this daemon has in flight, in ms; 0 if none is.
    in_flight_oldest_ms: u64,
}

impl Rate {
    /// Returns the rate where only Redis is asked.
    pub fn unknown() -> Rate {
        Rate { per_second: None, from: RateFrom::None, by_daemon: false, in_flight_oldest_ms: 0 }
    }

    /// Returns the rate that a daemon has measured, if it has; `max_rate` of the queue and of its sinks is its bound.
    /// With the age of what that daemon has in flight, which nobody else knows.
    pub fn measured(config: &Config, spec: &QueueSpec, measured: Option<f64>, in_flight_oldest_ms: u64) -> Rate {
        let of_sink = |to: &delaybridge_model::RouteSpec| {
            config.sinks.iter().find(|sink| sink.name == to.sink).and_then(|sink| sink.max_rate)
        };
        let bound = spec.to.iter().filter_map(of_sink).chain(spec.max_rate.as_deref().copied()).reduce(f64::min);
        let (per_second, from) = match (measured, bound) {
            (None, None) => (None, RateFrom::None),
            // Nothing was behind so far, and it is never faster than this.
            (None, Some(bound)) => (Some(bound), RateFrom::MaxRate),
            (Some(rate), Some(bound)) if bound < rate => (Some(bound), RateFrom::MaxRate),
            (Some(rate), _) => (Some(rate), RateFrom::Measured),
        };
        Rate { per_second, from, by_daemon: true, in_flight_oldest_ms }
    }

    /// Returns the rate that was given, if one was.
    pub(super) fn or_given(self, given: Option<f64>) -> Rate {
        match given {
            Some(rate) => Rate { per_second: Some(rate), from: RateFrom::Given, ..self },
            None => self,
        }
    }
}

/// Makes a forecast until then: one count for each step, and where the rate is known more until it is exact to a second, as far as their
/// number is bounded.
pub async fn forecast(queue: &Queue, until: Duration, step: Duration, rate: Rate) -> Result<Forecast, Error> {
    let what = format!("make a forecast of `{}`", queue.id());
    let stats = queue.ledger.stats(&queue.conn).await.attempt(&what)?;
    let backlog = backlog(&queue.spec, &stats);
    let steps = counted(queue, stats.now_ms, until, step).await.attempt(&what)?;
    let mut found = Forecast {
        queue: queue.id().to_owned(),
        now_ms: stats.now_ms,
        until_ms: stats.now_ms.saturating_add(millis(until)),
        summary: String::new(),
        rate: rate.per_second.map(|rate| (rate * 100.0).round() / 100.0),
        rate_from: rate.from,
        backlog,
        oldest_overdue_ms: with_in_flight(stats.oldest_overdue_ms(), rate.in_flight_oldest_ms),
        scheduled: count(stats.source.scheduled - stats.source.due),
        due: steps.iter().map(|step| step.count).sum(),
        last_due_ms: stats.source.ahead.last_ms,
        absurd_due: count(stats.source.ahead.absurd),
        through_ms: None,
        lateness_ms: None,
        exact_to_ms: None,
        worst: None,
        steps: steps.iter().map(ForecastStep::of).collect(),
    };
    if let Some(per_second) = rate.per_second {
        let mut schedule = Schedule::new(backlog, steps, per_second, COUNTS);
        loop {
            let unknown = schedule.unknown();
            if unknown.is_empty() {
                break;
            }
            schedule.learn(&queue.ledger.due_between(&queue.conn, &unknown).await.attempt(&what)?);
        }
        found.learn(schedule.spans(), &schedule.outcome());
        found.exact_to_ms = Some(schedule.exact_to_ms());
    }
    let pauses = paused_of(queue, &what).await?;
    found.summary = summary::summary(&found, rate.by_daemon, queue.spec.mode == Mode::Deliver);
    for pause in pauses {
        found.summary.push_str(&format!(" It is {}.", pause.line(stats.now_ms)));
    }
    Ok(found)
}

fn count(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// The counts of the steps until then.
pub(super) async fn counted(
    queue: &Queue,
    now_ms: i64,
    until: Duration,
    step: Duration,
) -> Result<Vec<DueSpan>, StoreError> {
    let end = millis(until);
    let step = millis(step).max(1);
    let times = (0..end).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    let bounds: Vec<_> = times.map(|from| (now_ms + from, now_ms + end.min(from.saturating_add(step)))).collect();
    let counts = queue.ledger.due_between(&queue.conn, &bounds).await?;
    let span = |((from_ms, until_ms), count)| DueSpan { from_ms, until_ms, count };
    Ok(bounds.into_iter().zip(counts).map(span).collect())
}

/// Counts of what falls due within the next hour, day and week, by minutes, half hours and quarters of a day.
pub async fn charts(queue: &Queue, now_ms: i64) -> Result<[Vec<ForecastStep>; 3], Error> {
    let what = format!("count what falls due in `{}`", queue.id());
    let mut charts = [const { Vec::new() }; 3];
    for (chart, (until, step)) in charts.iter_mut().zip([(60, 1), (1_440, 30), (10_080, 360)]) {
        let [until, step] = [until, step].map(|minutes| Duration::from_secs(60 * minutes));
        *chart = counted(queue, now_ms, until, step).await.attempt(&what)?.iter().map(ForecastStep::of).collect();
    }
    Ok(charts)
}

#[cfg(test)]
mod tests;
