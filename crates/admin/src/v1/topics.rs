//! `/v1/topics`: the job queue's topics, where the configuration has one.

use std::sync::Arc;

use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::errors::problem;
use super::limit;
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use delaybridge_jobs_http::call::Call;
use delaybridge_jobs_http::problem::{Problem, ProblemKind};
use delaybridge_jobs_http::reply::Reply;
use delaybridge_ops::jobs::{FoundJobs, Jobs, TOPICS_MOST, TopicPage};
use delaybridge_ops::operation::{ChangeSubject, ChangeTarget};

/// Topics of a page.
pub const PAGE: usize = 50;
/// Jobs that are looked at together.
pub const JOBS: usize = 50;

/// The outcome of a pause of a topic, or of its end.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TopicPause {
    /// The topic.
    topic: String,
    /// Whether nothing of it is handed out.
    paused: bool,
}

/// A page of topics, in alphabetical order.
pub async fn list(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    Reply::json(StatusCode::OK, &*page(&admin, &call).await?)
}

/// The page that a request asks for.
pub async fn page(admin: &Admin, call: &Call<AdminCaller>) -> Result<Arc<TopicPage>, Problem> {
    let after = call.query.text("after").filter(|after| !after.is_empty());
    let limit = limit(call, PAGE, TOPICS_MOST)?;
    admin.topics(after, limit).await
}

/// One topic.
pub async fn one(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let found = admin.jobs()?.detail(call.part("topic")).await.map_err(|error| problem(&error))?;
    Reply::json(StatusCode::OK, &found)
}

/// The first jobs in a state.
pub async fn jobs(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    Reply::json(StatusCode::OK, &found(&admin, &call).await?.1)
}

/// The state that a request asks for, and jobs in it.
pub async fn found<'a>(admin: &Admin, call: &'a Call<AdminCaller>) -> Result<(&'a str, FoundJobs), Problem> {
    let state = call.query.text("state").unwrap_or("ready");
    let limit = limit(call, JOBS, JOBS)?;
    let found = admin.jobs()?.jobs_in(call.part("topic"), state, limit).await;
    Ok((state, found.map_err(|error| problem(&error))?))
}

/// Nothing of it is handed out, by any daemon.
pub async fn pause(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    answer(&admin, &call, true).await
}

/// Hands out jobs of a topic again.
pub async fn resume(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    answer(&admin, &call, false).await
}

async fn answer(admin: &Arc<Admin>, call: &Call<AdminCaller>, paused: bool) -> Result<Reply, Problem> {
    let topic = call.part("topic").to_owned();
    admin.pause_topic(&topic, paused, Asker::of(call)).await?;
    Reply::json(StatusCode::OK, &TopicPause { topic, paused })
}

impl Admin {
    /// The job queue.
    ///
    /// # Errors
    /// The configuration has none.
    pub fn jobs(&self) -> Result<Jobs, Problem> {
        let none = "look at the job queue: the configuration has no `jobs`";
        self.session().jobs().ok_or_else(|| Problem::new(ProblemKind::NotFound, none))
    }

    /// Pauses a topic, or ends its pause.
    ///
    /// # Errors
    /// There is no such topic, or Redis does not answer.
    pub async fn pause_topic(self: &Arc<Self>, topic: &str, paused: bool, asker: Asker) -> Result<(), Problem> {
        let (jobs, name) = (self.jobs()?, topic.to_owned());
        // A misspelt one does not come into being.
        jobs.detail(topic).await.map_err(|error| problem(&error))?;
        let what = if paused { "pause" } else { "resume" };
        let subject = ChangeSubject::whole(what, ChangeTarget::Topic(topic.to_owned()));
        let work = async move { jobs.set_paused(&name, paused).await };
        self.change(subject, asker, work, move |_| format!("{what}d")).await
    }
}
