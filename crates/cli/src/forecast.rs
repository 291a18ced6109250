//! `forecast`: what will fall due, and how late it will be.

use std::io::Write;
use std::time::Duration;

use clap::Args;

use super::answer::answer_of;
use super::failed::Failed;
use super::global::{Global, Output};
use super::remote::DaemonArgs;
use super::show;
use super::table::TextTable;
use delaybridge_ops::forecast::{Forecast, ForecastAsk, ForecastStep, RateFrom};
use delaybridge_ops::forecasts::{Forecasts, forecasts};
use delaybridge_ops::pause::length;
use delaybridge_ops::plural;

/// Tell what will fall due in a queue, and how late it will be.
///
/// Counts what is scheduled, and simulates its delivery at a rate, exact to about a second also for a burst within a step. The rate
/// is --rate, or the highest that the daemon has delivered the queue with in the last day while it could not keep up: the daemon that
/// the configuration names (http.admin), or that of --daemon.
/// Without a rate only numbers of elements are shown. What will be added meanwhile is not known, and a pause is taken to end now.
/// Without QUEUE every queue that holds anything is shown in a line.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct ForecastArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: Option<String>,
    /// The time to look ahead
    #[arg(long, value_name = "DURATION", value_parser = length, default_value = "24h")]
    pub until: Duration,
    /// The length of a step; at most 1,000 of them
    #[arg(long, value_name = "DURATION", value_parser = length, default_value = "15m")]
    pub step: Duration,
    /// Elements per second that will be delivered
    #[arg(long, value_name = "NUMBER")]
    pub rate: Option<f64>,
    /// Print JSON, as --output json does
    #[arg(long)]
    pub json: bool,
    /// The daemon to ask.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

const AFTER: &str = "\
Examples:
  delaybridge forecast order_timeout --daemon http://127.0.0.1:9465
  delaybridge forecast order_timeout --rate 55
  delaybridge forecast order_timeout --until 2h --step 1m --json
  delaybridge forecast

In JSON `rate_from` says where the rate is from: given, measured, max_rate (of the configuration, below what was measured),
or none. Steps in which nothing falls due or waits are in JSON only.";

pub(super) async fn run(global: &Global, args: &ForecastArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let output = if args.json { Output::Json } else { global.output };
    let global = &Global { output, ..global.clone() };
    let ask = ForecastAsk::new(args.until, args.step, args.rate)?;
    let operator = args.daemon.operator(global)?;
    match &args.queue {
        Some(queue) => {
            let found = operator.forecast(queue, &ask).await?;
            answer_of(global, out, &*operator, &found, one)?;
        }
        None => {
            let found = forecasts(&*operator, &ask).await?;
            answer_of(global, out, &*operator, &found, all)?;
            let failed: Vec<_> =
                found.errors.iter().map(|error| format!("read queue `{}`: {}", error.queue, error.message)).collect();
            if !failed.is_empty() {
                return Err(Failed::runtime(failed.join("\n")));
            }
        }
    }
    Ok(0)
}

fn one(found: &Forecast) -> String {
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

fn late_by(ms: u64) -> String {
    if ms < 1_000 { "-".to_owned() } else { plural::duration(ms) }
}

fn all(found: &Forecasts) -> String {
    let mut table = TextTable::new("QUEUE|>DUE NOW|>DUE UNTIL THEN|>LATER|LATEST BY|AT|THROUGH|>RATE|FROM");
    for queue in &found.queues {
        let none = || "-".to_owned();
        let relative = |ms: i64| show::relative(ms, queue.now_ms);
        let from = match queue.rate_from {
            RateFrom::Given => "given",
            RateFrom::Measured => "measured",
            RateFrom::MaxRate => "max_rate",
            RateFrom::None => "not known",
        };
        table.row([
            queue.queue.clone(),
            queue.backlog.to_string(),
            queue.due.to_string(),
            queue.scheduled.saturating_sub(queue.due).to_string(),
            queue.lateness_ms.map_or("?".to_owned(), late_by),
            queue.worst.map_or_else(none, |wave| relative(wave.latest_ms)),
            queue.through_ms.map_or_else(none, relative),
            queue.rate.map_or_else(none, |rate| rate.to_string()),
            from.to_owned(),
        ]);
    }
    for error in &found.errors {
        table.row([error.queue.clone(), "?".to_owned()]);
    }
    table.render()
}
