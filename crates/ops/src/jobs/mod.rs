//! The job queue as an operator, or a consumer without a library, uses it: one call each, and results that are plain.

mod by_name;
mod copies;
mod export;
mod moving;
mod pools;
mod recurring;
pub mod text;

use std::time::Duration;

use redisson_codecs::Codec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

pub use self::by_name::{read_topic, topic_named};
pub use self::copies::ImportedElements;
pub use self::export::{ExportTarget, ExportedJobs, export};
pub use self::moving::import;
pub use self::recurring::{RecurringDetail, RecurringDetails};
use super::content::{Content, with_content};
use super::error::Error;
use super::session::{Session, connected, redis};
use delaybridge_jobs::{
    self, Added, Allowed, ChangeOutcome, Dispenser, Due, JobChange, JobError, JobId, JobInfo, JobQueue, JobSettings,
    Limits, LocalId, PopRequest, Reserved, SCRIPTS, Sizes, Topic, Which, wake,
};
pub use delaybridge_jobs::{JobState, NewJob};
use delaybridge_link::{LinkError, Redis, Subscriber};
use delaybridge_model::Config;

/// The job queue of a configuration, over a connection of its own.
pub struct Jobs {
    /// The operations.
    pub queue: JobQueue,
    redis: Redis,
}

/// A job.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct JobDetail {
    /// `TOPIC~ID`.
    pub id: String,
    /// The job's topic.
    pub topic: String,
    /// The state.
    pub state: String,
    /// The time at which it becomes, or became, ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_ms: Option<i64>,
    /// The end of its time to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
    /// The time at which it died.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub died_ms: Option<i64>,
    /// The time at which it was added.
    pub added_ms: i64,
    /// The time at which it is dropped if it is not finished.
    pub expires_ms: Option<i64>,
    /// The token that settles it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The priority.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: u8,
    /// Attempts so far.
    pub attempts: u32,
    /// Attempts that are left if this one fails.
    pub tries_left: u32,
    /// The time to run.
    pub ttr_ms: u64,
    /// Why its last reservation ended.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The content type that its client gave.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub content_type: String,
    /// Bytes of its body.
    pub size: usize,
    /// The body.
    #[serde(flatten, skip_deserializing)]
    pub content: Content,
}

with_content!(JobDetail);

/// Returns whether a priority is that of a job without one.
fn is_zero(priority: &u8) -> bool {
    *priority == 0
}

/// Some jobs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Jobs")]
pub struct FoundJobs {
    /// Redis time.
    pub now_ms: i64,
    /// The jobs.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub jobs: Vec<JobDetail>,
    /// Whether there are more behind them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// Jobs that were added.
#[derive(Debug, Clone, Serialize)]
pub struct AddedJobs {
    /// In the order in which they were given.
    pub jobs: Vec<AddedJob>,
}

/// A job that was added, or was there.
#[derive(Debug, Clone, Serialize)]
pub struct AddedJob {
    /// `TOPIC~ID`.
    pub id: String,
    /// False if a job with this id was there, or was finished lately, or if another job holds its unique key.
    pub created: bool,
    /// The id of the job that holds its unique key, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing: Option<String>,
    /// A job of this id is there with another body; of this one nothing is kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub conflict: bool,
    /// The time at which it becomes ready, if it was created.
    pub due_ms: Option<i64>,
}

/// The numbers of one topic.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TopicState {
    /// The topic's name.
    pub topic: String,
    /// The numbers of jobs by state.
    #[serde(flatten)]
    pub sizes: Sizes,
}

/// The limits of a topic, with its name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TopicLimits {
    /// The topic.
    pub topic: String,
    /// The limits.
    #[serde(flatten)]
    pub limits: Allowed,
}

impl JobDetail {
    fn reserved(job: Reserved) -> JobDetail {
        JobDetail {
            id: job.id.to_string(),
            topic: job.id.topic.to_string(),
            state: JobState::Reserved.as_str().to_owned(),
            deadline_ms: Some(job.deadline_ms),
            added_ms: job.added_ms,
            expires_ms: job.expires_ms,
            token: Some(job.token.to_string()),
            attempts: job.attempt,
            priority: job.priority,
            tries_left: job.tries_left,
            ttr_ms: u64::try_from(job.ttr.as_millis()).unwrap_or(u64::MAX),
            content_type: job.content_type,
            size: job.body.len(),
            content: Content::new(Codec::Raw, job.body, true),
            ..JobDetail::default()
        }
    }

    fn seen(job: JobInfo) -> JobDetail {
        let at = |states: &[JobState]| states.contains(&job.state).then_some(job.time_ms);
        JobDetail {
            id: job.id.to_string(),
            topic: job.id.topic.to_string(),
            state: job.state.as_str().to_owned(),
            due_ms: at(&[JobState::Delay, JobState::Ready]),
            deadline_ms: at(&[JobState::Reserved]),
            died_ms: at(&[JobState::Dead]),
            added_ms: job.added_ms,
            expires_ms: job.expires_ms,
            attempts: job.attempts,
            priority: job.priority,
            tries_left: job.tries.saturating_sub(job.attempts),
            ttr_ms: job.ttr_ms.into(),
            reason: job.reason,
            content_type: job.content_type,
            size: job.body.len(),
            content: Content::new(Codec::Raw, job.body, true),
            ..JobDetail::default()
        }
    }
}

impl AddedJobs {
    /// Returns the jobs that are not there, because their ids belong to jobs with other bodies.
    pub fn conflicts(&self) -> Option<String> {
        let job = self.jobs.iter().find(|job| job.conflict)?;
        let (topic, _) = job.id.split_once('~').unwrap_or_default();
        let n = self.jobs.iter().filter(|job| job.conflict).count();
        Some(format!(
            "add to topic {topic}: {n} of the ids belong to jobs with other bodies, and nothing was added for them: use other ids, or \
             delete those jobs"
        ))
    }
}

impl From<Added> for AddedJob {
    fn from(added: Added) -> Self {
        AddedJob {
            id: added.id.to_string(),
            created: added.created,
            existing: added.held.then(|| added.id.to_string()),
            conflict: added.differs,
            due_ms: added.due_ms,
        }
    }
}

/// Puts what was attempted in front of an error of the job queue, and behind it what to do.
pub fn failed(what: &str, error: &JobError) -> Error {
    let help = match error {
        JobError::Unavailable(LinkError::Unknown { .. }) => "; it may have happened all the same",
        JobError::Unavailable(LinkError::Server { code: "NOPERM", .. }) => {
            "; `check --live` lists the rights that are missing"
        }
        JobError::NotFound => ": it was never added, or it is finished, deleted or past its time to live",
        JobError::NotWaiting { .. } => ", and only a job that waits can be changed: try again if it waits again",
        JobError::UnknownTopic { .. } => ": use a listed topic, or list this one under `jobs.topics`",
        JobError::InUse { .. } => ": wait until these are finished, or remove them too with --force",
        JobError::OtherDue { .. } => ": look at the job, and give the due time that it has now",
        JobError::Conflict => "; its time to run was over, and it was given back or handed to another consumer",
        _ => "",
    };
    let message = format!("{what}: {error}{help}");
    match error {
        JobError::NotFound | JobError::NoRecurring => Error::not_found(message),
        JobError::InUse { .. } => Error::conflict(message),
        JobError::Conflict | JobError::NotWaiting { .. } | JobError::OtherDue { .. } | JobError::Fixed(_) => {
            Error::conflict(message)
        }
        JobError::Invalid(_) | JobError::Name(_) | JobError::TooLarge { .. } | JobError::UnknownTopic { .. } => {
            Error::invalid(message)
        }
        _ => Error::failed(message),
    }
}

impl Session {
    /// Returns the job queue, if the configuration has one.
    pub fn jobs(&self) -> Option<Jobs> {
        let redis = self.redis(&self.config.jobs_redis).clone();
        Some(Jobs::over(redis, self.config.jobs.clone()?))
    }
}

/// Returns the error where the configuration has no job queue.
pub fn no_jobs() -> Error {
    Error::unknown("use the job queue: the configuration has no `jobs`; write `jobs: {}`")
}

impl Jobs {
    /// Connects; one attempt, because a person waits for it.
    ///
    /// # Errors
    ///
    /// When the configuration has no job queue, and when the connection cannot be made.
    pub async fn open(config: &Config) -> Result<Jobs, Error> {
        let Some(settings) = config.jobs.clone() else {
            return Err(no_jobs());
        };
        let redis = redis(config.redis_of_jobs());
        connected(&redis).await?;
        Ok(Jobs::over(redis, settings))
    }

    pub(super) fn over(redis: Redis, settings: JobSettings) -> Jobs {
        Jobs { queue: JobQueue::new(&redis, settings, &SCRIPTS), redis }
    }

    /// Adds jobs: all of them, or none.
    pub async fn add(&self, topic: &Topic, jobs: Vec<NewJob>) -> Result<AddedJobs, Error> {
        let what = format!("add to topic {topic}");
        jobs.iter().try_for_each(|job| self.check_due(&what, job.due))?;
        let added = self.queue.add(topic, jobs).await.map_err(|error| failed(&what, &error))?;
        Ok(AddedJobs { jobs: added.into_iter().map(AddedJob::from).collect() })
    }

    /// Takes jobs, and waits for them if asked to.
    pub async fn pop(&self, request: PopRequest) -> Result<FoundJobs, Error> {
        let what = "take jobs";
        let (dispenser, dispensing) = Dispenser::new(self.queue.clone());
        let (_subscriber, heard) =
            Subscriber::start(self.redis.locator(), vec![wake(&self.redis.space().prefix).into()]);
        let stop = CancellationToken::new();
        let take = async {
            let taken = dispenser.take(request).await;
            stop.cancel();
            taken
        };
        let (taken, ()) = tokio::join!(take, dispensing.run(heard, stop.clone()));
        let jobs = taken.map_err(|error| failed(what, &error))?.into_iter().map(JobDetail::reserved).collect();
        Ok(FoundJobs { now_ms: self.queue.now_ms(), jobs, more: false })
    }

    /// Returns one job with its body.
    ///
    /// # Errors
    ///
    /// When there is none of this id.
    pub async fn get(&self, id: &JobId) -> Result<FoundJobs, Error> {
        let what = format!("look at job {id}");
        let found = self.queue.get(id).await.map_err(|error| failed(&what, &error))?;
        let job = found.ok_or_else(|| failed(&what, &JobError::NotFound))?;
        Ok(FoundJobs { now_ms: self.queue.now_ms(), jobs: vec![JobDetail::seen(job)], more: false })
    }

    /// Changes a job that waits.
    pub async fn change(&self, id: &JobId, change: &JobChange) -> Result<ChangeOutcome, Error> {
        let what = format!("change job {id}");
        change.due.map_or(Ok(()), |due| self.check_due(&what, due))?;
        self.queue.change(id, change).await.map_err(|error| failed(&what, &error))
    }

    /// Checks a due time that a person has written.
    fn check_due(&self, what: &str, due: Due) -> Result<(), Error> {
        let Due::At(at_ms) = due else { return Ok(()) };
        let said = Due::said(at_ms, self.queue.now_ms());
        said.map(drop).map_err(|problem| failed(what, &JobError::Invalid(format!("the due time {problem}"))))
    }

    /// Returns whether a topic has come into being.
    pub async fn has(&self, topic: &Topic) -> Result<bool, Error> {
        let sizes = self.queue.sizes(topic).await;
        Ok(sizes.map_err(|error| failed(&format!("look at topic {topic}"), &error))?.exists)
    }

    /// Jobs of one state, at most `limit`.
    pub async fn peek(&self, topic: &Topic, state: JobState, limit: usize) -> Result<FoundJobs, Error> {
        let what = format!("look at topic {topic}");
        let mut jobs = Vec::new();
        let mut more = true;
        while more && jobs.len() < limit {
            let most = (limit - jobs.len()).min(delaybridge_jobs::MAX_PAGE);
            let page = self.queue.peek(topic, state, jobs.len() as u64, most).await;
            let page = page.map_err(|error| failed(&what, &error))?;
            more = page.next.is_some();
            jobs.extend(page.jobs.into_iter().map(JobDetail::seen));
        }
        Ok(FoundJobs { now_ms: self.queue.now_ms(), jobs, more })
    }

    /// Returns the numbers of these topics.
    pub async fn topics(&self, names: &[Topic]) -> Result<Vec<TopicState>, Error> {
        let mut topics = Vec::new();
        for name in names {
            let sizes =
                self.queue.sizes(name).await.map_err(|error| failed(&format!("look at topic {name}"), &error))?;
            topics.push(TopicState { topic: name.to_string(), sizes });
        }
        Ok(topics)
    }

    /// The limits of a topic, after these were set if there are some.
    pub async fn limits(&self, topic: &Topic, set: Option<Limits>) -> Result<TopicLimits, Error> {
        if let Some(limits) = set {
            let done = self.queue.set_limits(topic, &limits).await;
            done.map_err(|error| failed(&format!("set the limits of topic {topic}"), &error))?;
        }
        let set = self.queue.limits(topic).await;
        let set = set.map_err(|error| failed(&format!("read the limits of topic {topic}"), &error))?;
        Ok(TopicLimits { topic: topic.to_string(), limits: set.shown(self.queue.settings().of(topic)) })
    }

    /// Most bytes of a body of the topic.
    pub(super) async fn max_body(&self, topic: &Topic) -> Result<u64, Error> {
        let allowed = self.queue.allowed(topic).await;
        Ok(allowed.map_err(|error| failed(&format!("read the limits of topic {topic}"), &error))?.max_body)
    }

    /// Redrives or purges dead jobs: those that are named, or all that are dead now. Answers how many.
    ///
    /// # Errors
    ///
    /// Those of the queue; the message says how many were done before.
    pub async fn sweep(&self, topic: &Topic, ids: &[LocalId], purge: bool) -> Result<u64, Error> {
        let verb = if purge { "purge" } else { "redrive" };
        let mut done = 0;
        let attempt = |done: u64, error: JobError| {
            failed(&format!("{verb} dead jobs of topic {topic} ({done} done before it)"), &error)
        };
        // What dies meanwhile is not meant: it would keep the command busy.
        let mut left = match ids {
            [] => self.queue.sizes(topic).await.map_err(|error| attempt(0, error))?.dead,
            ids => ids.len() as u64,
        };
        let mut named = ids.chunks(delaybridge_jobs::MAX_SWEEP);
        while left > 0 {
            let which = match named.next() {
                Some(some) => Which::Ids(some),
                None if !ids.is_empty() => break,
                None => Which::Oldest(usize::try_from(left).unwrap_or(usize::MAX)),
            };
            let moved =
                if purge { self.queue.purge(topic, which).await } else { self.queue.redrive(topic, which, None).await };
            let moved = moved.map_err(|error| attempt(done, error))?;
            done += moved;
            match which {
                Which::Ids(some) => left -= some.len() as u64,
                Which::Oldest(_) if moved == 0 => break,
                Which::Oldest(_) => left = left.saturating_sub(moved),
            }
        }
        Ok(done)
    }
}

/// The longest wait of a pop that a person may ask for.
pub const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);
