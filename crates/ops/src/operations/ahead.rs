//! What falls due over all queues, half hour by half hour: the question before a night.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures_util::future::join_all;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, QueueError};
use crate::forecast::counted;
use crate::operation::{Explain, Operation, Route, Scene, route};
use crate::plural;
use crate::session::Session;
use crate::show;
use crate::table::TextTable;
use delaybridge_ledger::redis_now_ms;
use delaybridge_model::{Config, QueueSpec};

/// Steps of the schedule.
const STEPS: u64 = 48;
/// Queues that are counted, at most: each takes a call with a command for each step.
const QUEUES: usize = 500;
/// Queues that are counted at the same time.
const SIDE_BY_SIDE: usize = 16;
/// Queues that a step names.
const NAMED: usize = 3;
/// The hours of a week.
const WEEK: u16 = 168;

fn day() -> u16 {
    24
}

/// Count what falls due over all queues.
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountAhead {
    /// Hours to look ahead, a week at most
    #[arg(long, value_name = "COUNT", default_value_t = day())]
    #[serde(default = "day")]
    #[schemars(range(min = 1, max = 168))]
    pub hours: u16,
    /// Only queues with this in their name
    #[arg(long, value_name = "TEXT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
}

/// The elements that fall due over several queues.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DueSchedule {
    /// Redis time.
    pub now_ms: i64,
    /// Queues that were counted, 500 at most.
    pub queues: usize,
    /// Queues in all.
    pub of: usize,
    /// 48 steps, the next first; none if no queue was counted. What is due already is in none.
    pub steps: Vec<DueStep>,
    /// Queues that could not be counted.
    pub errors: Vec<QueueError>,
}

/// A step of a schedule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DueStep {
    /// The time before it.
    pub from_ms: i64,
    /// The end.
    pub until_ms: i64,
    /// Elements that fall due in it.
    pub due: u64,
    /// The queues with the most of them, three at most.
    pub most: Vec<QueueDue>,
}

/// The elements of one queue in a step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueDue {
    /// The queue.
    pub queue: String,
    /// Elements that fall due.
    pub due: u64,
}

impl DueStep {
    /// Adds a queue; the ones with the most stay named, the first of those with as many.
    fn add(&mut self, queue: &str, due: u64) {
        if due == 0 {
            return;
        }
        self.due += due;
        let at = self.most.iter().position(|other| other.due < due).unwrap_or(self.most.len());
        self.most.insert(at, QueueDue { queue: queue.to_owned(), due });
        self.most.truncate(NAMED);
    }
}

impl Operation for CountAhead {
    type Answer = DueSchedule;

    const NAME: &'static str = "ahead";
    const ROUTES: &'static [Route] = &[route!(GET "/v1/ahead" ahead ToLook,
        "Count what falls due over all queues, in 48 steps" => "The schedule",
        "Of the first 500 queues of the configuration, or of those with `like` in their name.")];

    const SEARCHES: bool = true;

    fn check(&self, _: &Config) -> Result<(), Error> {
        if (1..=WEEK).contains(&self.hours) {
            Ok(())
        } else {
            Err(Error::invalid(format!("read `hours`: it is 1 to {WEEK}")))
        }
    }

    async fn run(&self, scene: &Scene) -> Result<DueSchedule, Error> {
        let like = self.like.as_deref().unwrap_or_default();
        let meant: Vec<_> = scene.config().queues.iter().filter(|spec| spec.id.contains(like)).cloned().collect();
        let wanted = &meant[..meant.len().min(QUEUES)];
        let session = scene.session().await?;
        let mut found = DueSchedule { queues: wanted.len(), of: meant.len(), ..DueSchedule::default() };
        // One time for all: the servers of several Redis agree within less than a step.
        let mut known = None;
        for spec in wanted {
            known = now(session, spec).await.ok();
            if known.is_some() {
                break;
            }
        }
        let Some(now_ms) = known else {
            let message = "read the time of Redis: no server of these queues answers".to_owned();
            return if wanted.is_empty() { Ok(found) } else { Err(Error::failed(message)) };
        };
        let step_ms = i64::from(self.hours) * 3_600_000 / STEPS as i64;
        let step = |at: i64| {
            let from_ms = now_ms + at * step_ms;
            (at, DueStep { from_ms, until_ms: from_ms + step_ms, ..DueStep::default() })
        };
        let mut steps: BTreeMap<i64, DueStep> = (0..STEPS as i64).map(step).collect();
        found.now_ms = now_ms;
        let until = Duration::from_secs(3_600 * u64::from(self.hours));
        let step = Duration::from_millis(step_ms as u64);
        for some in wanted.chunks(SIDE_BY_SIDE) {
            let counts = join_all(some.iter().map(async |spec| {
                let queue = session.queue(spec.clone()).await?;
                counted(&queue, now_ms, until, step).await.map_err(|error| Error::failed(error.to_string()))
            }));
            for (spec, spans) in some.iter().zip(counts.await) {
                match spans {
                    Ok(spans) => {
                        for (at, span) in (0..).zip(spans) {
                            steps.entry(at).or_default().add(&spec.id, span.count);
                        }
                    }
                    Err(error) => {
                        found.errors.push(QueueError { queue: spec.id.to_string(), message: error.message });
                    }
                }
            }
        }
        found.steps = steps.into_values().collect();
        Ok(found)
    }

    fn text(&self, found: &DueSchedule, _: Explain) -> String {
        let mut table = TextTable::new("UNTIL|>DUE|MOST");
        for step in found.steps.iter().filter(|step| step.due > 0) {
            let most: Vec<_> = step.most.iter().map(|queue| format!("{} {}", queue.queue, queue.due)).collect();
            table.row([show::absolute(step.until_ms), step.due.to_string(), most.join(", ")]);
        }
        format!("{}{} counted\n", table.render(), plural::count(found.queues, "queue"))
    }
}

async fn now(session: &Session, spec: &Arc<QueueSpec>) -> Result<i64, Error> {
    let queue = session.queue(spec.clone()).await?;
    redis_now_ms(&queue.conn).await.map_err(|error| Error::failed(format!("read the time of Redis: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_names_the_queues_with_the_most() {
        let mut step = DueStep::default();
        for (queue, due) in [("a", 2), ("b", 0), ("c", 5), ("d", 2), ("e", 9)] {
            step.add(queue, due);
        }
        let most: Vec<_> = step.most.iter().map(|queue| (queue.queue.as_str(), queue.due)).collect();
        assert_eq!((step.due, most), (18, vec![("e", 9), ("c", 5), ("a", 2)]));
    }
}
