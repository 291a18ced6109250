//! What falls due in a queue, and how late it will be at a rate of deliveries. Counts by the index, and reads no element.

mod summary;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{Attempted, Error};
use super::overview::with_in_flight;
use super::pause::paused_of;
use super::queue_state::backlog;
use super::session::Queue;
use delaybridge_core::forecast::{DueSpan, Outcome, Schedule, Wave};
use delaybridge_model::{Config, Mode, QueueSpec};
use delaybridge_source::{StoreError, millis};

/// Counts that a forecast may take beside one for each step.
const COUNTS: usize = 2_000;

/// The origin of the rate of a forecast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateFrom {
    /// The request.
    Given,
    /// The daemon: the highest rate within the last day while the queue was behind.
    Measured,
    /// The configuration: `max_rate`, which is below what was measured, or nothing was measured.
    MaxRate,
    /// Nowhere: it is not known.
    None,
}

/// A forecast of a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forecast {
    /// The queue.
    pub queue: String,
    /// Redis time.
    pub now_ms: i64,
    /// End of the forecast.
    pub until_ms: i64,
    /// The forecast in a sentence or two.
    pub summary: String,
    /// Elements per second; none where it is not known.
    pub rate: Option<f64>,
    /// Origin of the rate.
    pub rate_from: RateFrom,
    /// Elements that are due already: unclaimed, in flight, or waiting for a retry.
    pub backlog: u64,
    /// Time since the due time of the oldest of them.
    pub oldest_overdue_ms: Option<u64>,
    /// Elements that are not due yet, also those beyond the end of the forecast.
    pub scheduled: u64,
    /// Elements that fall due until then.
    pub due: u64,
    /// Due time of the last element of all, to a second or a thousandth of the time until then.
    pub last_due_ms: Option<i64>,
    /// Elements with due times that are hardly meant: before 2001, or more than a year ahead.
    pub absurd_due: u64,
    /// Time at which everything that falls due until then is delivered; none where the rate is not known, and where nothing is due.
    pub through_ms: Option<i64>,
    /// Greatest lateness of what falls due until then; none where the rate is not known.
    pub lateness_ms: Option<u64>,
    /// Error that a lateness may have, because not everything was counted by the second.
    pub exact_to_ms: Option<u64>,
    /// The time without a pause that has the greatest lateness; none where nothing has to wait.
    pub worst: Option<ForecastWave>,
    /// The steps, the next first.
    pub steps: Vec<ForecastStep>,
}

/// A time in which elements have to wait for those before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForecastWave {
    /// The begin.
    pub from_ms: i64,
    /// Due time of the latest element.
    pub latest_ms: i64,
    /// Elements that fall due in it.
    pub due: u64,
    /// Elements that were due when it began.
    pub backlog: u64,
    /// Time at which all of them are delivered.
    pub through_ms: i64,
    /// Lateness of the latest.
    pub lateness_ms: u64,
}

/// A step of a forecast.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForecastStep {
    /// The time before it.
    pub from_ms: i64,
    /// The end.
    pub until_ms: i64,
    /// Elements that fall due in it.
    pub due: u64,
    /// Elements that are due and not delivered at its end.
    pub waiting: Option<u64>,
    /// Lateness of the latest element that falls due in it.
    pub lateness_ms: Option<u64>,
}

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

impl Forecast {
    /// Adds what the simulation of these spans found; each span is in one step.
    fn learn(&mut self, spans: &[DueSpan], outcome: &Outcome) {
        let mut rest = spans.iter().zip(&outcome.ends).peekable();
        for step in &mut self.steps {
            let mut waiting = 0;
            let mut late_ms = 0;
            while let Some((_, end)) = rest.next_if(|(span, _)| span.until_ms <= step.until_ms) {
                (waiting, late_ms) = (end.waiting, late_ms.max(end.late_ms));
            }
            (step.waiting, step.lateness_ms) = (Some(waiting), Some(late_ms));
        }
        self.through_ms = outcome.through_ms.map(|through| match self.last_due_ms {
            // Nothing waits after the last span: what is in it need not be due at its end.
            Some(last) if outcome.ends.last().is_none_or(|end| end.waiting == 0) => through.min(last.max(self.now_ms)),
            _ => through,
        });
        if let Some(wave) = outcome.worst {
            self.through_ms = self.through_ms.max(Some(wave.through_ms));
        }
        self.lateness_ms = Some(outcome.worst.map_or(0, |wave| wave.late_ms));
        self.worst = outcome.worst.map(ForecastWave::of);
    }
}

impl ForecastStep {
    fn of(span: &DueSpan) -> ForecastStep {
        ForecastStep { from_ms: span.from_ms, until_ms: span.until_ms, due: span.count, ..ForecastStep::default() }
    }
}

impl ForecastWave {
    fn of(wave: Wave) -> ForecastWave {
        let Wave { from_ms, latest_ms, count, backlog, through_ms, late_ms } = wave;
        ForecastWave { from_ms, latest_ms, due: count, backlog, through_ms, lateness_ms: late_ms }
    }
}

#[cfg(test)]
mod tests;
