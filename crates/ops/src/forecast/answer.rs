//! A forecast of a queue as values, and what a simulation adds to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use delaybridge_core::forecast::{DueSpan, Outcome, Wave};

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

impl Forecast {
    /// Adds what the simulation of these spans found; each span is in one step.
    pub(super) fn learn(&mut self, spans: &[DueSpan], outcome: &Outcome) {
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
    /// Returns a step of which only the elements are known.
    pub(super) fn of(span: &DueSpan) -> ForecastStep {
        ForecastStep { from_ms: span.from_ms, until_ms: span.until_ms, due: span.count, ..ForecastStep::default() }
    }
}

impl ForecastWave {
    fn of(wave: Wave) -> ForecastWave {
        let Wave { from_ms, latest_ms, count, backlog, through_ms, late_ms } = wave;
        ForecastWave { from_ms, latest_ms, due: count, backlog, through_ms, lateness_ms: late_ms }
    }
}
