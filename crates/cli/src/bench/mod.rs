//! `bench`: what this Redis can do, on a queue of the command's own.

mod progress;

use std::io::Write;
use std::sync::atomic::Ordering;

use clap::Args;

use self::progress::Progress;
use super::answer::answer;
use super::endpoint::{endpoint, only};
use super::failed::Failed;
use super::global::Global;
use super::interrupt::stop_on_signals;
use super::load::load_queues;
use super::table::TextTable;
use delaybridge_ops::bench::{Figures, Options, Quantiles, measure};

/// Measure claim and settle on your Redis.
///
/// Fills a temporary queue, claims and settles part of it, measures the lateness of a short run, and deletes the queue,
/// also after Ctrl-C. It refuses to start if keys exist. Figures are beside those of a bare command on the same Redis.
/// Sinks are not measured.
///
/// It loads Redis fully: avoid peak hours of a shared server. The user needs rights on keys of the queue's name, which
/// the daemon's user from `delaybridge acl` lacks.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct BenchArgs {
    /// The Redis to measure, instead of the configuration's
    #[arg(long, value_name = "URL")]
    pub redis: Option<String>,
    /// The queue's name in Redis, with `delaybridge-bench` in it
    #[arg(long, value_name = "NAME", default_value = OWN, value_parser = own_name)]
    pub name: String,
    /// Pending elements during the measurement
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=50_000_000))]
    pub depth: u32,
    /// Elements to claim and settle
    #[arg(long, value_name = "COUNT", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub drain: u32,
    /// Bytes of each payload
    #[arg(long, value_name = "BYTES", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub payload_bytes: u32,
    /// Elements per second in the lateness run
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rate: u32,
    /// Duration of the lateness run
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub seconds: u32,
}

const AFTER: &str = "\
Examples:
  delaybridge bench --config delaybridge.yaml
  delaybridge bench --redis redis://127.0.0.1:6379/0 --depth 1000000
  delaybridge bench --redis rediss://redis.internal:6380 --password-file /run/secrets/redis --output json

Exit codes: 0 done, 1 failed, 2 wrong arguments, 130 stopped by Ctrl-C; the message says whether keys are left in Redis";

/// The text that the name of the queue must contain.
const OWN: &str = "delaybridge-bench";

/// A queue of an application may be empty now and not when its keys are removed: what is offered meanwhile would be lost.
/// So its name is never taken.
fn own_name(text: &str) -> Result<String, String> {
    if text.contains(OWN) {
        Ok(text.to_owned())
    } else {
        Err(format!("the name of a temporary queue must contain `{OWN}`"))
    }
}

pub(super) async fn run(global: &Global, args: &BenchArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let endpoint = match &args.redis {
        Some(url) => endpoint(url, global.redis.password_file().as_deref(), "--redis")?
            .with_login(global.redis.username.as_deref(), None),
        None => only(load_queues(global)?, "--redis")?,
    };
    let BenchArgs { depth, drain, payload_bytes, rate, seconds, .. } = *args;
    let options = Options { name: args.name.clone(), depth, drain, payload_bytes, rate, seconds };
    let stopped = stop_on_signals().map_err(|error| Failed::runtime(format!("catch signals: {error}")))?;
    let progress = Progress::start();
    let watch = |part: &'static str, done, of| {
        progress.show(part, done, of);
        !stopped.load(Ordering::Relaxed)
    };
    let measured = measure(&endpoint, &options, &watch).await;
    progress.clear();
    let (figures, removed) = measured?;
    answer(global, out, &figures, text)?;
    removed?;
    Ok(0)
}

fn text(found: &Figures) -> String {
    let times =
        |times: &Quantiles| format!("p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms", times.p50, times.p99, times.max);
    let beside_ping = |times: &Quantiles| format!("{:.0} round trips", times.p50 / found.ping_ms.p50.max(0.001));
    let share = found.claim_and_settle_per_second / found.zadd_per_second * 100.0;
    let mut table = TextTable::new("MEASURED|FOUND|BESIDE ITS LIMIT");
    let mut row = |measured: &str, found: String, limit: String| table.row([measured.to_owned(), found, limit]);
    row("round trip (PING)", times(&found.ping_ms), "the limit".to_owned());
    row("ZADD alone, 500 a command", format!("{:.0}/s", found.zadd_per_second), "the limit".to_owned());
    let both = format!("{:.0}/s", found.claim_and_settle_per_second);
    row("claim and settle", both, format!("{share:.0} % of ZADD alone"));
    row("  claim of up to 500", times(&found.claim_ms), beside_ping(&found.claim_ms));
    row("  settle of up to 500", times(&found.settle_ms), beside_ping(&found.settle_ms));
    row(&format!("lateness at {}/s", found.late_per_second), times(&found.late_ms), beside_ping(&found.late_ms));
    format!(
        "Redis {} {}: {} pending of {} B, due times in another order than the offers; {} claimed and settled, {} more one by \
         one at their due times, nothing delivered\n\n{}",
        found.redis_version,
        found.redis,
        found.pending,
        found.payload_bytes,
        found.claimed_and_settled,
        found.late,
        table.render()
    )
}
