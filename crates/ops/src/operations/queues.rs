//! The numbers of queues and of sinks, as a daemon answers them: `queues` and `top` put them together.

use std::sync::Arc;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::within;
use crate::error::Error;
use crate::horizon::{Horizon, horizon};
use crate::operation::{Operation, Route, Scene, route};
use crate::overview::{MOST, Overview, QueueRow, SinkList, overview_of, row_of};
use crate::queue_order::{QueueFilter, QueueOrder};
use crate::session::find;
use delaybridge_model::{Config, QueueSpec};

/// Queues of a page unless the request says otherwise.
const PAGE: usize = 50;
/// Most queues that are read in a row.
const QUEUES: usize = 100_000;

fn page() -> usize {
    PAGE
}

/// The queues of a configuration, page by page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListQueues {
    /// The `next` of the page before
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Maximum number of queues
    #[arg(skip = QUEUES)]
    #[serde(default = "page")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: usize,
    /// Only queues with this in their name, in small or capital letters
    #[arg(skip)]
    #[serde(default)]
    pub like: String,
    /// The order
    #[arg(skip)]
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = QueueOrder::ALL.map(QueueOrder::as_str)))]
    pub sort: QueueOrder,
    /// Only these queues
    #[arg(skip)]
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = QueueFilter::ALL.map(QueueFilter::as_str)))]
    pub show: QueueFilter,
}

impl ListQueues {
    /// Returns all queues, in the order of the configuration.
    pub fn all() -> ListQueues {
        ListQueues { limit: QUEUES, ..ListQueues::default() }
    }

    /// Returns the queues with such a name, in the order of the configuration.
    pub fn named<'a>(&self, queues: &'a [Arc<QueueSpec>]) -> impl Iterator<Item = &'a Arc<QueueSpec>> + use<'a> {
        let like = self.like.trim().to_lowercase();
        queues.iter().filter(move |spec| like.is_empty() || spec.id.to_lowercase().contains(&like))
    }
}

impl Operation for ListQueues {
    type Answer = Overview;

    const NAME: &'static str = "queues";
    const ROUTES: &'static [Route] = &[route!(GET "/v1/queues" queues ToLook,
        "List queues with their numbers, in the order of the configuration" => "A page of queues",
        "`next` is there if there are more: ask for those after it. What is answered may be a second old. `sort` is trouble, \
         name, due, overdue, dead or rate; `show` is trouble, paused, overdue or dead. Both go by what this daemon last saw of each \
         queue.")];

    fn check(&self, config: &Config) -> Result<(), Error> {
        let after = self.after.as_deref().map(|after| find(config, after));
        after.transpose().map(drop).map_err(|error| Error::invalid(format!("read `after`: {}", error.message)))
    }

    async fn run(&self, scene: &Scene) -> Result<Overview, Error> {
        within(self.limit, MOST)?;
        match scene.live() {
            Some(live) => live.queues(self).await,
            // Redis knows no order and no filter.
            None => {
                let queues = self.named(&scene.config().queues).cloned().collect();
                Ok(overview_of(scene.session().await?, queues, self.after.as_deref(), self.limit).await)
            }
        }
    }

    fn portion(&self) -> ListQueues {
        ListQueues { limit: self.limit.min(MOST), ..self.clone() }
    }

    fn rest(&self, found: &Overview) -> Option<ListQueues> {
        let limit = self.limit.saturating_sub(found.queues.len() + found.errors.len());
        let after = found.next.clone().filter(|_| limit > 0)?;
        Some(ListQueues { limit, after: Some(after), ..self.clone() })
    }

    fn add_rest(all: &mut Overview, rest: Overview) {
        all.queues.extend(rest.queues);
        all.errors.extend(rest.errors);
        (all.clocks, all.inputs, all.next) = (rest.clocks, rest.inputs, rest.next);
    }
}

/// One queue.
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowQueue {
    /// The queue's id in the configuration
    #[schemars(skip)]
    pub queue: String,
}

/// The numbers, the schedule and the settings of one queue.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Queue", extend("additionalProperties" = true))]
pub struct QueueDetail {
    /// The numbers.
    #[serde(flatten)]
    pub row: QueueRow,
    /// The schedule.
    pub schedule: Horizon,
    /// The settings in effect; none where no daemon was asked.
    #[schemars(with = "Map<String, Value>")]
    pub settings: Value,
}

impl<'de> Deserialize<'de> for QueueDetail {
    /// Reads field by field: numbers of any precision do not survive the buffer of a flattened field.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<QueueDetail, D::Error> {
        let answer = Value::deserialize(deserializer)?;
        let failed = serde::de::Error::custom;
        let row = QueueRow::deserialize(&answer).map_err(failed)?;
        let schedule = Horizon::deserialize(&answer["schedule"]).map_err(failed)?;
        Ok(QueueDetail { row, schedule, settings: answer["settings"].clone() })
    }
}

impl Operation for ShowQueue {
    type Answer = QueueDetail;

    const NAME: &'static str = "queue";
    const ROUTES: &'static [Route] = &[route!(GET "/v1/queues/{queue}" queue ToLook,
        "Look at a queue: numbers, schedule, settings" => "The queue")];

    fn queue(&self) -> Option<&str> {
        Some(&self.queue)
    }

    async fn run(&self, scene: &Scene) -> Result<QueueDetail, Error> {
        let queue = scene.queue(&self.queue).await?;
        let (row, schedule) = tokio::join!(row_of(&queue), horizon(&queue));
        let mut row = row?;
        let schedule = schedule?;
        let mut settings = Value::Null;
        if let Some(live) = scene.live() {
            row.add(live.here(queue.id()));
            settings = live.settings(&queue);
        }
        Ok(QueueDetail { row, schedule, settings })
    }
}

/// The sinks.
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListSinks {}

impl Operation for ListSinks {
    type Answer = SinkList;

    const NAME: &'static str = "sinks";
    const ROUTES: &'static [Route] = &[route!(GET "/v1/sinks" sinks ToLook,
        "List the sinks with their state, as this daemon sees them" => "The sinks")];

    async fn run(&self, scene: &Scene) -> Result<SinkList, Error> {
        let unknown = || Error::invalid("list the sinks: they are known to daemons alone");
        scene.live().map(|live| live.sink_list()).ok_or_else(unknown)
    }
}
