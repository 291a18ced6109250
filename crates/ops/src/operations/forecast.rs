//! `forecast`: what will fall due in a queue, and how late it will be.

use std::time::Duration;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::forecast::{Forecast, ForecastStep, Rate, forecast};
use crate::operation::{AskDaemon, Explain, Operation, Route, Scene, route};
use crate::session::find;
use crate::table::TextTable;
use crate::time::Length;
use crate::{plural, show};
use delaybridge_model::Config;

/// The forecast of a queue.
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MakeForecast {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    #[schemars(skip)]
    pub queue: String,
    /// The time to look ahead, as 24h
    #[arg(long, value_name = "DURATION", default_value_t = DAY)]
    #[serde(default = "day")]
    pub until: Length,
    /// The length of a step, as 15m; at most 1,000 of them
    #[arg(long, value_name = "DURATION", default_value_t = STEP)]
    #[serde(default = "step")]
    pub step: Length,
    /// Elements per second that will be delivered
    #[arg(long, value_name = "NUMBER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
}

/// The end of a forecast, unless a request says otherwise.
pub const DAY: Length = Length(Duration::from_secs(86_400));
/// A step of it.
const STEP: Length = Length(Duration::from_secs(900));

/// Most steps of a forecast.
const STEPS: u128 = 1_000;
const SHORTEST: Duration = Duration::from_secs(1);
/// Longest time that is looked ahead.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

fn day() -> Length {
    DAY
}

fn step() -> Length {
    STEP
}

impl MakeForecast {
    fn step(&self) -> Duration {
        self.step.0.min(self.until.0)
    }

    /// Returns the same of a queue, in one step.
    pub(crate) fn whole(&self, queue: &str) -> MakeForecast {
        MakeForecast { queue: queue.to_owned(), step: self.until, ..self.clone() }
    }

    /// Refuses times and a rate that are out of bounds.
    ///
    /// # Errors
    ///
    /// The bounds.
    pub fn bounds(&self) -> Result<(), Error> {
        let until = self.until.0;
        let bad = |why: String| Err(Error::invalid(format!("make a forecast: {why}")));
        if until > LONGEST || self.step() < SHORTEST {
            return bad("it reaches from 1s to 366d, in steps of 1s at least".to_owned());
        }
        if until.as_millis().div_ceil(self.step().as_millis()) > STEPS {
            return bad(format!("it has at most {STEPS} steps; make them longer, or the time shorter"));
        }
        if self.rate.is_some_and(|rate| !(rate.is_finite() && (1e-6..=1e9).contains(&rate))) {
            return bad("the rate is a number of elements per second above 0, as 55 or 0.5".to_owned());
        }
        Ok(())
    }
}

impl Operation for MakeForecast {
    type Answer = Forecast;

    const NAME: &'static str = "forecast";
    const ROUTES: &'static [Route] = &[route!(GET "/v1/queues/{queue}/forecast" forecast ToLook,
        "Tell what will fall due in a queue, and how late it will be" => "The forecast",
        "`until` (24h) and `step` (15m) are durations, with 1,000 steps at most. `rate` is in elements per second; without it the \
         highest rate counts that this daemon has delivered the queue with in the last day while it could not keep up, and \
         `max_rate` if that is less. Where no rate is known, only numbers of elements are answered.")];
    const DAEMON: AskDaemon = AskDaemon::Always;

    fn queue(&self) -> Option<&str> {
        Some(&self.queue)
    }

    fn check(&self, config: &Config) -> Result<(), Error> {
        self.bounds()?;
        find(config, &self.queue).map(drop)
    }

    async fn run(&self, scene: &Scene) -> Result<Forecast, Error> {
        let queue = scene.queue(&self.queue).await?;
        let rate = scene.live().map_or_else(Rate::unknown, |live| live.rate(&queue));
        forecast(&queue, self.until.0, self.step(), rate.or_given(self.rate)).await
    }

    fn text(&self, found: &Forecast, _: Explain) -> String {
        words(found)
    }
}

fn words(found: &Forecast) -> String {
    let known = found.rate.is_some();
    let mut table = TextTable::new(if known { "FROM|UNTIL|>DUE|>WAITING|LATEST BY" } else { "FROM|UNTIL|>DUE" });
    let holds = |step: &&ForecastStep| step.due > 0 || step.waiting.is_some_and(|waiting| waiting > 0);
    let some: Vec<_> = found.steps.iter().filter(holds).collect();
    for step in &some {
        let mut row = vec![show::absolute(step.from_ms), show::absolute(step.until_ms), step.due.to_string()];
        if let (Some(waiting), Some(late)) = (step.waiting, step.lateness_ms) {
            row.extend([waiting.to_string(), late_by(late)]);
        }
        table.row(row);
    }
    let steps = if some.is_empty() { String::new() } else { format!("\n{}", table.render()) };
    format!("{}{}\n{steps}", found.summary, last(found))
}

/// Notes on what is beyond the end, and on what is hardly meant.
fn last(found: &Forecast) -> String {
    let mut text = String::new();
    let later = found.scheduled.saturating_sub(found.due);
    if let Some(last_ms) = found.last_due_ms.filter(|_| later > 0) {
        text =
            format!("\n{} later, the last {}.", plural::count(later, "element"), show::relative(last_ms, found.now_ms));
    }
    if found.absurd_due > 0 {
        let what = plural::count(found.absurd_due, "element");
        text.push_str(&format!(
            "\n{what} with due times that are hardly meant: before 2001, or more than a year ahead."
        ));
    }
    if let Some(error) = found.exact_to_ms.filter(|error| *error > 1_000) {
        text.push_str(&format!("\nExact to {}, because much falls due at many times.", plural::duration(error)));
    }
    text
}

/// Returns a lateness; none below a second.
pub fn late_by(ms: u64) -> String {
    if ms < 1_000 { "-".to_owned() } else { plural::duration(ms) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_forecast_is_bounded() {
        let ask =
            |until, step, rate| MakeForecast { queue: String::new(), until: Length(until), step: Length(step), rate };
        let check = |until, step, rate, fits: bool| {
            let asked = ask(until, step, rate);
            assert_eq!(asked.bounds().is_ok(), fits, "{asked:?}");
        };
        let day = MINUTE * 1_440;
        check(day, 15 * MINUTE, None, true);
        check(1_000 * MINUTE, MINUTE, Some(55.5), true);
        check(1_001 * MINUTE, MINUTE, None, false);
        check(1_000 * MINUTE + Duration::from_millis(1), MINUTE, None, false);
        check(MINUTE, MINUTE * 2, None, true);
        check(MINUTE, Duration::from_millis(999), None, false);
        check(367 * day, day, None, false);
        check(Duration::ZERO, Duration::ZERO, None, false);
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            check(day, day, Some(rate), false);
        }
        let request = ask(day, 90 * MINUTE, Some(0.5)).whole("q");
        assert_eq!((request.until.0, request.step.0, request.rate), (day, day, Some(0.5)));
    }
}
