//! `audit`: who did what when.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::messages;
use crate::audit::{AuditTrail, MOST, audit_of};
use crate::content::escaped;
use crate::error::Error;
use crate::operation::{Explain, Operation, Route, Scene, route};
use crate::session::find;
use crate::show;
use crate::table::TextTable;
use delaybridge_model::Config;

/// Changes that are answered unless the request says otherwise.
const PAGE: u16 = 50;

fn page() -> u16 {
    PAGE
}

/// Show who changed what, the latest first.
///
/// Every pause, resume, run-now, reschedule, cancel, kill, redrive, purge and import, and each attempt at one, is kept in a stream
/// beside its queue: by whom, from where, and the result, whether it was done by the command line over Redis, by a daemon's API or on
/// its page. The last 1,000 of each queue are kept. A reload of the configuration, and commands on jobs, are in the log only.
///
/// Whoever may write to the queue's keys may also write there: it shows what operators did, and is no proof against them.
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[command(after_help = AUDIT)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    /// The queue's id in the configuration; all queues if it is left out
    #[arg(value_name = "QUEUE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Changes to show, at most
    #[arg(long, value_name = "COUNT", default_value_t = PAGE, value_parser = clap::value_parser!(u16).range(1..=MOST as i64))]
    #[serde(default = "page")]
    #[schemars(range(min = 1, max = 1_000))]
    pub limit: u16,
}

const AUDIT: &str = "\
Examples:
  delaybridge audit
  delaybridge audit order_timeout --limit 5
  delaybridge audit --daemon http://127.0.0.1:9465 --token-file /run/secrets/admin --output json

Exit codes: 0 done, 1 failed, 2 wrong arguments or configuration";

impl Operation for Audit {
    type Answer = AuditTrail;

    const NAME: &'static str = "audit";
    const ROUTES: &'static [Route] = &[route!(GET "/v1/audit" audit ToSearchOwn,
        "List the changes of operators, the latest first" => "The changes",
        "By the command line over Redis, by this API and by the page; the last 1,000 of each queue are kept. \
         Without `queue`, those of every queue that the caller may view.")];

    fn queue(&self) -> Option<&str> {
        self.queue.as_deref()
    }

    fn check(&self, config: &Config) -> Result<(), Error> {
        if !(1..=MOST).contains(&usize::from(self.limit)) {
            return Err(Error::invalid(format!("read `limit`: it is 1 to {MOST}")));
        }
        self.queue.as_deref().map_or(Ok(()), |queue| find(config, queue).map(drop))
    }

    async fn run(&self, scene: &Scene) -> Result<AuditTrail, Error> {
        let is_meant = |id: &str| self.queue.as_deref().is_none_or(|queue| queue == id) && scene.views(id);
        let wanted: Vec<_> = scene.config().queues.iter().filter(|spec| is_meant(&spec.id)).cloned().collect();
        Ok(audit_of(scene.session().await?, &wanted, self.limit.into()).await)
    }

    fn text(&self, found: &AuditTrail, _: Explain) -> String {
        words(found)
    }

    fn failed(found: &AuditTrail) -> Option<String> {
        messages(&found.errors)
    }
}

fn words(found: &AuditTrail) -> String {
    let mut table = TextTable::new("TIME|QUEUE|WHAT|WHICH|BY|FROM|RESULT");
    for change in &found.changes {
        let result = match &change.problem {
            Some(problem) => format!("failed: {}", escaped(problem)),
            None => escaped(change.result.as_deref().unwrap_or_default()),
        };
        table.row([
            show::absolute(change.at_ms),
            change.queue.clone(),
            escaped(&change.what),
            escaped(&change.which),
            escaped(&change.by),
            escaped(&change.from),
            result,
        ]);
    }
    table.render()
}
