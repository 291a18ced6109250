//! `forecast`: what will fall due, and how late it will be.

use std::io::Write;
use std::time::Duration;

use clap::Args;

use super::answer::answer_of;
use super::failed::Failed;
use super::global::{Global, Output};
use super::remote::{DaemonArgs, carry_out_at};
use super::show;
use super::table::TextTable;
use delaybridge_ops::forecast::RateFrom;
use delaybridge_ops::forecasts::{Forecasts, forecasts};
use delaybridge_ops::operations::{MakeForecast, late_by};
use delaybridge_ops::time::{Length, length};

/// Tell what will fall due in a queue, and how late it will be.
///
/// Counts what is scheduled, and simulates its delivery at a rate, exact to about a second. The rate is --rate, or the
/// highest of the last day while the daemon (that of --daemon or http.admin) could not keep up; without one only
/// numbers are shown. New elements are not foreseen, and a pause is taken to end now. Without QUEUE every queue that
/// holds anything is a line.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct ForecastArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: Option<String>,
    /// The time to look ahead
    #[arg(long, value_name = "DURATION", value_parser = length, default_value = "24h")]
    pub until: Duration,
    /// Length of a step; at most 1,000 steps
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

In JSON `rate_from` is given, measured, max_rate (below what was measured) or none. Steps in which
nothing falls due or waits are in JSON only.";

pub(super) async fn run(global: &Global, args: &ForecastArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let output = if args.json { Output::Json } else { global.output };
    let global = &Global { output, ..global.clone() };
    let queue = args.queue.clone().unwrap_or_default();
    let request = MakeForecast { queue, until: Length(args.until), step: Length(args.step), rate: args.rate };
    request.bounds()?;
    if args.queue.is_none() {
        let place = args.daemon.place(global)?;
        let found = forecasts(&place, &request).await?;
        answer_of(global, out, place.without_daemon(), &found, all)?;
        let failed: Vec<_> =
            found.errors.iter().map(|error| format!("read queue `{}`: {}", error.queue, error.message)).collect();
        return if failed.is_empty() { Ok(0) } else { Err(Failed::runtime(failed.join("\n"))) };
    }
    carry_out_at(global, &args.daemon.place(global)?, &request, out).await
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
