//! `/v1/topics/{topic}/dead`: jobs whose tries are used up, or that were buried.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;

use super::shapes::Count;
use super::topics;
use crate::Api;
use crate::access::Right;
use crate::job_call::{JobCall, NamedInPath as _};
use delaybridge_http_server::fields::JsonFields;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_jobs::{JobState, LocalId, MAX_SWEEP, Topic, Which};

/// Answers with a page of dead jobs, the oldest first.
pub async fn list(api: Arc<Api>, call: JobCall) -> Result<Reply, Problem> {
    let name = call.topic(Right::Admin)?;
    topics::jobs(&api, &name, JobState::Dead, &call).await
}

/// Makes dead jobs wait again: those with these ids, or the oldest.
pub async fn redrive(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let (name, meant, ttl) = meant(&mut call, true).await?;
    let queue = api.queue.clone();
    let turn = (meant.weight(), "redrive dead jobs");
    let count = api.in_turn(&call, turn, async move { queue.redrive(&name, meant.which(), ttl).await }).await?;
    Reply::json(StatusCode::OK, &Count { count })
}

/// Removes dead jobs for good: those with these ids, or the oldest.
pub async fn purge(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let (name, meant, _) = meant(&mut call, false).await?;
    let queue = api.queue.clone();
    let turn = (meant.weight(), "purge dead jobs");
    let count = api.in_turn(&call, turn, async move { queue.purge(&name, meant.which()).await }).await?;
    Reply::json(StatusCode::OK, &Count { count })
}

/// Dead jobs that a request means.
enum Meant {
    Ids(Vec<LocalId>),
    Oldest(usize),
}

impl Meant {
    /// Returns the weight of a call about them: Redis looks for each.
    fn weight(&self) -> usize {
        match self {
            Meant::Ids(ids) => ids.len(),
            Meant::Oldest(most) => *most,
        }
    }

    fn which(&self) -> Which<'_> {
        match self {
            Meant::Ids(ids) => Which::Ids(ids),
            Meant::Oldest(most) => Which::Oldest(*most),
        }
    }
}

/// Reads the topic, the jobs, and their new time to live. Nothing is meant by nothing: a purge has to say how many.
async fn meant(call: &mut JobCall, with_ttl: bool) -> Result<(Topic, Meant, Option<Duration>), Problem> {
    let name = call.topic(Right::Admin)?;
    let mut fields = call.read(JsonFields::parse).await?;
    let ids = fields.list("ids", MAX_SWEEP)?;
    let limit = fields.number("limit")?;
    let ttl = if with_ttl { fields.number("ttl_ms")?.map(Duration::from_millis) } else { None };
    let meant = match (ids, limit) {
        (Some(_), Some(_)) => return Err(fields.problem("there are both `ids` and `limit`; send one of them")),
        (None, None) => {
            return Err(fields.problem("`ids` or `limit` is missing: which jobs, or how many of the oldest"));
        }
        (Some(ids), None) => {
            let ids = ids.iter().map(|id| {
                let id = id.text().unwrap_or_default();
                let job = call.job_named(Right::Admin, &String::from_utf8_lossy(&id))?;
                if job.topic == name { Ok(job.local) } else { Err(fields.problem("`ids`: a job is of another topic")) }
            });
            Meant::Ids(ids.collect::<Result<_, _>>()?)
        }
        (None, Some(limit)) => match usize::try_from(limit) {
            Ok(limit) if (1..=MAX_SWEEP).contains(&limit) => Meant::Oldest(limit),
            _ => return Err(fields.problem(&format!("`limit` is 1 to {MAX_SWEEP}"))),
        },
    };
    fields.finish()?;
    Ok((name, meant, ttl))
}
