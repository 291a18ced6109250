//! `POST /v1/jobs/finish`, `release` and `touch`: what a consumer says of several jobs that it has. Each job has an outcome of its
//! own; jobs of one topic are one call on the queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::errors::problem;
use super::settle::{DELAY, TTR};
use crate::Api;
use crate::access::Right;
use crate::job_call::{JobCall, NamedInPath as _};
use delaybridge_http_server::fields::JsonFields;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_jobs::{JobError, JobId, JobQueue, LocalId, MAX_POP, Release, Settled, Token, Topic};

/// The outcomes, in the order of the request.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SettledJobs {
    /// The jobs.
    jobs: Vec<SettledJob>,
}

/// The outcome of one job.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SettledJob {
    /// The job's id.
    id: String,
    /// The outcome, or the kind of a problem: then nothing was done. After `outcome-unknown` it may have been done.
    #[schemars(extend("enum" = ["finished", "released", "dead", "expired", "touched", "no-such-job", "not-yours", "bad-request",
        "unexpected", "refused", "unavailable", "outcome-unknown"]))]
    outcome: &'static str,
    /// The new end of the time to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<i64>,
    /// The time at which the job becomes ready again.
    #[serde(skip_serializing_if = "Option::is_none")]
    due_ms: Option<i64>,
}

/// Weight of a call about jobs of one topic, beside that of its jobs.
const OF_A_TOPIC: usize = 4;

/// The verdict on a job, with its time.
type Done = (&'static str, Option<i64>);

type JobsOfTopic = Vec<(LocalId, Token)>;
/// The outcomes of the jobs of one topic.
type DoneInTopic = Result<Vec<Result<Done, JobError>>, JobError>;

/// Finishes jobs.
pub async fn finish(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let said = said(&mut call, &[]).await?;
    said.settle(&api, &call, "finish the jobs", |queue, _, topic, jobs| async move {
        let done = queue.finish_all(&topic, &jobs).await?;
        Ok(done.into_iter().map(|done| done.map(|()| ("finished", None))).collect())
    })
    .await
}

/// Gives jobs back, for later.
pub async fn release(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let said = said(&mut call, &["delay", "count_attempt", "reason"]).await?;
    said.settle(&api, &call, "release the jobs", |queue, said, topic, jobs| async move {
        let how = if said.count_attempt { Release::Counted } else { Release::Uncounted };
        let done = queue.release_all(&topic, &jobs, said.delay, how, &said.reason).await?;
        let outcome = |(settled, due_ms)| match settled {
            Settled::Done => ("released", Some(due_ms)),
            Settled::Dead => ("dead", None),
            Settled::Expired => ("expired", None),
        };
        Ok(done.into_iter().map(|done| done.map(outcome)).collect())
    })
    .await
}

/// Extends the times to run of jobs.
pub async fn touch(api: Arc<Api>, mut call: JobCall) -> Result<Reply, Problem> {
    let said = said(&mut call, &["ttr"]).await?;
    said.settle(&api, &call, "touch the jobs", |queue, said, topic, jobs| async move {
        let done = queue.touch_all(&topic, &jobs, said.ttr).await?;
        Ok(done.into_iter().map(|done| done.map(|end| ("touched", Some(end)))).collect())
    })
    .await
}

/// Jobs that a consumer has, and what it says of all of them.
struct SaidOfJobs {
    jobs: Vec<(JobId, Token)>,
    delay: Option<Duration>,
    ttr: Option<Duration>,
    count_attempt: bool,
    reason: String,
}

impl SaidOfJobs {
    /// Makes a call for the jobs of each topic, when it is the caller's turn, and answers.
    async fn settle<R>(
        self,
        api: &Api,
        call: &JobCall,
        what: &'static str,
        each: impl Fn(JobQueue, Arc<SaidOfJobs>, Topic, JobsOfTopic) -> R + Send + 'static,
    ) -> Result<Reply, Problem>
    where
        R: Future<Output = DoneInTopic> + Send,
    {
        let said = Arc::new(self);
        let queue = api.queue.clone();
        let by_topic = said.by_topic();
        let weight = said.jobs.len() + by_topic.len() * OF_A_TOPIC;
        let work = {
            let said = said.clone();
            async move {
                let calls = by_topic.into_iter().map(|(topic, places)| {
                    let jobs = places.iter().map(|place| (said.jobs[*place].0.local.clone(), said.jobs[*place].1));
                    let call = each(queue.clone(), said.clone(), topic, jobs.collect());
                    async move { (places, call.await) }
                });
                Ok(join_all(calls).await)
            }
        };
        let mut done: Vec<_> = said.jobs.iter().map(|_| Err(JobError::NotFound)).collect();
        for (places, answers) in api.in_turn(call, (weight, what), work).await? {
            match answers {
                Ok(answers) => places.into_iter().zip(answers).for_each(|(place, answer)| done[place] = answer),
                Err(error) => places.into_iter().for_each(|place| done[place] = Err(error.clone())),
            }
        }
        said.answer(what, done)
    }

    /// Returns the places of the jobs of each topic.
    fn by_topic(&self) -> BTreeMap<Topic, Vec<usize>> {
        let mut by_topic: BTreeMap<Topic, Vec<usize>> = BTreeMap::new();
        for (place, (id, _)) in self.jobs.iter().enumerate() {
            by_topic.entry(id.topic.clone()).or_default().push(place);
        }
        by_topic
    }

    /// Builds the answer. A problem that all jobs share is the problem of the request.
    fn answer(&self, what: &str, done: Vec<Result<Done, JobError>>) -> Result<Reply, Problem> {
        let of_the_job = |error: &JobError| matches!(error, JobError::NotFound | JobError::Conflict);
        if let Some(Err(error)) = done.first()
            && done.iter().all(|done| matches!(done, Err(error) if !of_the_job(error)))
        {
            return Err(problem(what, error.clone()));
        }
        let jobs = self.jobs.iter().zip(done).map(|((id, _), done)| {
            let (outcome, time_ms) = match done {
                Ok(done) => done,
                Err(error) => (problem(what, error).kind.as_str(), None),
            };
            let of = |word| time_ms.filter(|_| outcome == word);
            SettledJob { id: id.to_string(), outcome, deadline_ms: of("touched"), due_ms: of("released") }
        });
        Reply::json(StatusCode::OK, &SettledJobs { jobs: jobs.collect() })
    }
}

/// Reads the request. Every token is checked here, every right on a topic too, before anything is done.
async fn said(call: &mut JobCall, names: &[&str]) -> Result<SaidOfJobs, Problem> {
    let mut fields = call.read(JsonFields::parse).await?;
    let items = fields.list("jobs", MAX_POP)?;
    let items = items.ok_or_else(|| fields.problem("`jobs` is missing: a list of jobs, each with `id` and `token`"))?;
    let has = |name| names.contains(&name);
    let delay = if has("delay") { fields.time(DELAY)? } else { None };
    let ttr = if has("ttr") { fields.time(TTR)? } else { None };
    let count_attempt = if has("count_attempt") { fields.flag("count_attempt")? } else { None }.unwrap_or(true);
    let reason = if has("reason") { fields.text("reason")? } else { None }.unwrap_or_default();
    fields.finish()?;
    let mut jobs = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let mut fields = JsonFields::of(format!("jobs[{at}]."), item)?;
        let (Some(id), Some(token)) = (fields.text("id")?, fields.text("token")?) else {
            return Err(fields.problem("`id` or `token` is missing: those that `pop` answered"));
        };
        let token = token.parse().map_err(|error| fields.problem(&format!("`token`: {error}")))?;
        jobs.push((call.job_named(Right::Pop, &id)?, token));
        fields.finish()?;
    }
    Ok(SaidOfJobs { jobs, delay, ttr, count_attempt, reason })
}
