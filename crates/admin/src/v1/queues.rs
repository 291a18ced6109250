//! `/v1/queues`: the numbers of all queues, page by page, and everything about one.

use std::sync::Arc;

use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::errors::problem;
use super::limit;
use crate::Admin;
use crate::access::AdminCaller;
use crate::queue_list::chosen;
use delaybridge_config::describe_queue;
use delaybridge_jobs_http::call::Call;
use delaybridge_jobs_http::problem::{Problem, ProblemKind};
use delaybridge_jobs_http::reply::Reply;
use delaybridge_ops::Queue;
use delaybridge_ops::horizon::{Horizon, horizon};
use delaybridge_ops::overview::{MOST, QueuePage, QueueRow};
use delaybridge_ops::queue_order::{QueueFilter, QueueOrder};

/// Queues of a page.
pub const PAGE: usize = 50;

/// The numbers, the schedule and the settings of one queue.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Queue", extend("additionalProperties" = true))]
pub struct QueueShape {
    /// The numbers.
    #[serde(flatten)]
    pub row: QueueRow,
    /// Connected daemons that deliver from the queue; none where the right to ask is missing.
    pub daemons: Option<u64>,
    /// The schedule.
    pub schedule: Horizon,
    /// The settings in effect.
    #[schemars(with = "Map<String, Value>")]
    pub settings: Value,
}

/// A page of queues, in the order of the configuration unless the request has another.
pub async fn list(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    Reply::json(StatusCode::OK, &*admin.overview(which(&call, QueueOrder::File)?).await.map_err(no_such_page)?)
}

/// A page that begins after a queue that is not there.
fn no_such_page(problem: Problem) -> Problem {
    match problem.kind {
        ProblemKind::BadRequest => Problem::bad(format!("read `after` in the query: {}", problem.detail)),
        _ => problem,
    }
}

/// The page of queues that a request asks for, in this order unless it says otherwise.
pub fn which(call: &Call<AdminCaller>, usual: QueueOrder) -> Result<QueuePage, Problem> {
    let text = |name: &str| call.query.text(name).filter(|text| !text.is_empty());
    let bad = |name: &str, why: &str| Problem::bad(format!("read `{name}` in the query: {why}"));
    let order = text("sort").map(|word| chosen(word, &QueueOrder::ALL, QueueOrder::as_str)).transpose();
    let only = text("show").map(|word| chosen(word, &QueueFilter::ALL, QueueFilter::as_str)).transpose();
    Ok(QueuePage {
        after: text("after").map(str::to_owned),
        like: text("like").unwrap_or_default().trim().to_owned(),
        limit: limit(call, PAGE, MOST)?,
        order: order.map_err(|why| bad("sort", &why))?.unwrap_or(usual),
        only: only.map_err(|why| bad("show", &why))?.unwrap_or_default(),
    })
}

/// One queue.
pub async fn one(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let queue = admin.queue(&call).await?;
    Reply::json(StatusCode::OK, &whole(&admin, &queue).await?)
}

/// Everything about one queue.
pub async fn whole(admin: &Arc<Admin>, queue: &Queue) -> Result<QueueShape, Problem> {
    let (row, schedule, daemons) = tokio::join!(admin.row(queue), horizon(queue), queue.daemons());
    Ok(QueueShape {
        row: row?,
        daemons,
        schedule: schedule.map_err(|error| problem(&error))?,
        settings: describe_queue(&admin.session().config, &queue.spec),
    })
}
