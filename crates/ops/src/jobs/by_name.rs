//! Topics as the admin API and its page ask for them: by the texts of a request, page by page.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{FoundJobs, JobDetail, Jobs, RecurringDetail, TopicLimits, TopicState, failed};
use crate::{Error, ErrorKind};
use delaybridge_jobs::{JobError, JobState, Topic};
use delaybridge_model::Config;

/// Most topics of a page.
pub const TOPICS_MOST: usize = 100;

/// A page of topics.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[schemars(rename = "Topics")]
pub struct TopicPage {
    /// Redis time.
    pub now_ms: i64,
    /// The topics, in alphabetical order.
    pub topics: Vec<TopicState>,
    /// The topic after which the next page begins; none if these were the last.
    pub next: Option<String>,
}

/// One topic.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Topic")]
pub struct TopicDetail {
    /// Redis time.
    pub now_ms: i64,
    /// The numbers.
    #[serde(flatten)]
    pub state: TopicState,
    /// The limits.
    #[schemars(with = "Map<String, Value>")]
    pub limits: TopicLimits,
    /// The recurring jobs, without their bodies.
    pub recurring: Vec<RecurringDetail>,
}

/// Every state that a job of a topic can be looked at in.
pub fn states() -> impl Iterator<Item = &'static str> {
    JobState::ALL.into_iter().map(JobState::as_str)
}

/// The job queue and the topic with this name, if it is that of a topic and of no queue.
///
/// # Errors
///
/// When the job queue cannot be asked.
pub async fn topic_named(config: &Config, name: &str) -> Result<Option<(Jobs, Topic)>, Error> {
    let (Some(settings), Ok(topic)) = (&config.jobs, name.parse::<Topic>()) else { return Ok(None) };
    if config.queues.iter().any(|spec| *spec.id == *name) {
        return Ok(None);
    }
    let jobs = Jobs::open(config).await?;
    let known = settings.topics.contains_key(&topic) || jobs.has(&topic).await?;
    Ok(known.then_some((jobs, topic)))
}

fn topic(name: &str) -> Result<Topic, Error> {
    name.parse().map_err(|error| Error::invalid(format!("read the topic: {error}")))
}

impl Jobs {
    /// Topics that have come into being, and those of the configuration.
    ///
    /// # Errors
    ///
    /// Those of the queue.
    pub async fn page(&self, after: Option<&str>, limit: usize) -> Result<TopicPage, Error> {
        let after = after.map(topic).transpose()?;
        let limit = limit.clamp(1, TOPICS_MOST);
        let found = self.queue.topics(after.as_ref(), limit).await;
        let mut names = found.map_err(|error| failed("list the topics", &error))?;
        // Behind the last of a whole page nothing of the configuration belongs yet.
        let last = names.last().filter(|_| names.len() == limit).cloned();
        let configured = self.queue.settings().topics.keys();
        names.extend(
            configured
                .filter(|name| after.as_ref() < Some(*name) && last.as_ref().is_none_or(|last| *name < last))
                .cloned(),
        );
        names.sort();
        names.dedup();
        let more = last.is_some() || names.len() > limit;
        names.truncate(limit);
        let next = names.last().filter(|_| more).map(Topic::to_string);
        if names.is_empty() {
            return Ok(TopicPage { now_ms: self.queue.now_ms(), ..TopicPage::default() });
        }
        let found = self.topics(&names).await?;
        Ok(TopicPage { now_ms: found.now_ms, topics: found.topics, next })
    }

    /// One topic; it need not have come into being.
    ///
    /// # Errors
    ///
    /// It is no name of a topic, or those of the queue.
    pub async fn detail(&self, name: &str) -> Result<TopicDetail, Error> {
        let name = topic(name)?;
        let limits = self.limits(&name, None).await?;
        let mut found = self.topics(std::slice::from_ref(&name)).await?;
        let state = found.topics.pop().ok_or_else(|| failed("look at the topic", &JobError::NotFound))?;
        if !state.sizes.exists && !self.queue.settings().topics.contains_key(&name) {
            return Err(Error::not_found(format!("look at topic {name}: no job was ever added to it")));
        }
        let recurring = self.all_recurring(&name).await?.recurring;
        Ok(TopicDetail { now_ms: found.now_ms, state, limits, recurring })
    }

    /// Jobs of a state, the first in time first.
    ///
    /// # Errors
    ///
    /// It is no topic or no state, or those of the queue.
    pub async fn jobs_in(&self, name: &str, state: &str, limit: usize) -> Result<FoundJobs, Error> {
        let known = JobState::ALL.into_iter().find(|known| known.as_str() == state);
        let known = known.ok_or_else(|| {
            Error::invalid(format!("read the state: it is {}", states().collect::<Vec<_>>().join(", ")))
        })?;
        self.peek(&topic(name)?, known, limit).await
    }

    /// The job with this id, `TOPIC~ID`; none if no job can be called so, or there is none.
    ///
    /// # Errors
    ///
    /// Those of the queue.
    pub async fn job(&self, id: &str) -> Result<Option<(JobDetail, i64)>, Error> {
        let Ok(id) = id.parse() else { return Ok(None) };
        match self.get(&id).await {
            Ok(mut found) => Ok(found.jobs.pop().map(|job| (job, found.now_ms))),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands out nothing of a topic from now on, or again.
    ///
    /// # Errors
    ///
    /// Those of the queue. It may be repeated.
    pub async fn set_paused(&self, name: &str, paused: bool) -> Result<(), Error> {
        let name = topic(name)?;
        let (verb, done) = match paused {
            true => ("pause", self.queue.pause(&name).await),
            false => ("resume", self.queue.resume(&name).await),
        };
        done.map_err(|error| failed(&format!("{verb} topic {name}"), &error))
    }
}
