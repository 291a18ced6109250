//! `fleet`: every daemon.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::messages;
use crate::content::escaped;
use crate::error::Error;
use crate::fleet::{Fleet, fleet};
use crate::operation::{Explain, Operation, Route, Scene, route};
use crate::plural::{count, duration};
use crate::show;
use crate::table::TextTable;

/// Show every daemon: version, configuration, and what it has in flight.
///
/// Each daemon with an admin listener tells the others of itself every 10 seconds, in the first Redis of its configuration. One that
/// has not for 30 seconds is gone: it ended, or is cut off from Redis. Also shows which daemon delivers each queue in order.
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[command(after_help = FLEET)]
#[serde(deny_unknown_fields)]
pub struct ListFleet {}

const FLEET: &str = "\
Examples:
  delaybridge fleet
  delaybridge fleet --daemon http://127.0.0.1:9465 --output json

Exit codes: 0 done, 1 failed, 2 wrong arguments or configuration";

impl Operation for ListFleet {
    type Answer = Fleet;

    const NAME: &'static str = "fleet";
    const ROUTES: &'static [Route] = &[route!(GET "/v1/fleet" fleet ToLook,
        "List every daemon with its version, its configuration and its work" => "The daemons",
        "The daemons with an admin listener and the same first Redis. Each reports every 10 seconds; `gone` are those \
         that have not for 30 seconds. With the daemon that delivers each queue in order.")];

    async fn run(&self, scene: &Scene) -> Result<Fleet, Error> {
        fleet(scene.session().await?).await
    }

    fn text(&self, found: &Fleet, _: Explain) -> String {
        words(found)
    }

    fn failed(found: &Fleet) -> Option<String> {
        messages(&found.errors)
    }
}

fn words(found: &Fleet) -> String {
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
