//! `fleet`: every daemon.

use std::io::Write;

use clap::Args;

use super::answer::answer;
use super::failed::Failed;
use super::global::Global;
use super::remote::DaemonArgs;
use super::show;
use super::table::TextTable;
use delaybridge_ops::content::escaped;
use delaybridge_ops::fleet::Fleet;
use delaybridge_ops::plural::{count, duration};

/// Show every daemon: version, configuration, and what it has in flight.
///
/// Each daemon with an admin listener tells the others of itself every 10 seconds, in the first Redis of its configuration. One that
/// has not for 30 seconds is gone: it ended, or is cut off from Redis. Also shows which daemon delivers each queue in order.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct FleetArgs {
    /// The daemon to ask.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

const AFTER: &str = "\
Examples:
  delaybridge fleet
  delaybridge fleet --daemon http://127.0.0.1:9465 --output json

Exit codes: 0 done, 1 failed, 2 wrong arguments or configuration";

pub(super) async fn run(global: &Global, args: &FleetArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let found = args.daemon.operator(global)?.fleet().await?;
    answer(global, out, &found, text)?;
    let failed: Vec<_> = found.errors.iter().map(|error| error.message.clone()).collect();
    if failed.is_empty() { Ok(0) } else { Err(Failed::runtime(failed.join("\n"))) }
}

fn text(found: &Fleet) -> String {
    let columns = "HOST|>PID|DAEMON|STATE|VERSION|CONFIGURATION|>READ|>QUEUES|>HELD|>IN FLIGHT|>RATE/s|>LATE p99|>UP";
    let mut table = TextTable::new(columns);
    for member in &found.daemons {
        let state = match (member.gone, member.ready) {
            (true, _) => format!("gone, last report {}", show::relative(member.at_ms, found.now_ms)),
            (false, true) => "ready".to_owned(),
            (false, false) => "not ready".to_owned(),
        };
        table.row([
            escaped(&member.host),
            member.pid.to_string(),
            escaped(&member.daemon),
            state,
            escaped(&member.version),
            escaped(&member.configuration),
            member.configured_seconds.map_or_else(|| "-".to_owned(), |seconds| duration(seconds.saturating_mul(1_000))),
            member.queues.to_string(),
            member.held.to_string(),
            member.in_flight.to_string(),
            format!("{:.1}", member.delivered_per_second),
            member.lateness_p99_ms.map_or_else(|| "-".to_owned(), |ms| duration(ms as u64)),
            duration(member.up_seconds.saturating_mul(1_000)),
        ]);
    }
    let mut text = table.render();
    text.push_str(&format!("\n{}\n", found.sums().words()));
    if found.configurations.len() > 1 {
        let each = found.configurations.iter().map(|(hash, n)| format!("{} by {}", escaped(hash), count(*n, "daemon")));
        text.push_str(&format!(
            "\n{} configurations run: {}\n",
            found.configurations.len(),
            each.collect::<Vec<_>>().join(", ")
        ));
    }
    if !found.orders.is_empty() {
        let mut orders = TextTable::new("QUEUE IN ORDER|DAEMON|LEASE ENDS");
        for order in &found.orders {
            let until = show::relative(order.until_ms, found.now_ms);
            orders.row([order.queue.clone(), escaped(&order.daemon), until]);
        }
        text.push_str(&format!("\n{}", orders.render()));
    }
    text
}
