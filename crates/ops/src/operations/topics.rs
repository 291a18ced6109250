//! `jobs topics`, `jobs peek`, `jobs pause` and `jobs resume`: the topics of the job queue, and their jobs.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::within;
use crate::error::Error;
use crate::jobs::{FoundJobs, Jobs, RecurringDetail, TopicLimits, TopicState, failed, read_topic, text};
use crate::operation::{ChangeSubject, ChangeTarget, Explain, Operation, Route, Scene, route};
use delaybridge_jobs::{JobError, JobState, Topic};
use delaybridge_model::Config;

/// Topics of a page unless the request says otherwise.
const PAGE: usize = 50;
/// Most topics of a page.
const MOST: usize = 100;
/// Jobs that a daemon answers, at most.
pub const JOBS: usize = 50;

fn page() -> usize {
    PAGE
}

fn jobs() -> usize {
    JOBS
}

fn ready() -> String {
    JobState::Ready.as_str().to_owned()
}

/// List the topics, with the number of jobs in each state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Args, Serialize, Deserialize, JsonSchema)]
#[command(after_help = TOPICS)]
#[serde(deny_unknown_fields)]
pub struct ListTopics {
    /// Only these topics
    #[arg(value_name = "TOPIC")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<String>,
    /// The `next` of the page before
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Maximum number of topics
    #[arg(skip = usize::MAX)]
    #[serde(default = "page")]
    #[schemars(range(min = 1, max = 100))]
    pub limit: usize,
}

const TOPICS: &str = "\
Examples:
  delaybridge jobs topics
  delaybridge jobs topics orders --output json";

/// A page of topics.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Topics")]
pub struct TopicPage {
    /// Redis time.
    pub now_ms: i64,
    /// The topics, in alphabetical order.
    pub topics: Vec<TopicState>,
    /// The topic after which the next page begins; none if these were the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl ListTopics {
    /// Returns the first topics.
    pub fn first(limit: usize) -> ListTopics {
        ListTopics { limit, ..ListTopics::default() }
    }

    /// Reads the page: of topics that have come into being, and of those of the configuration.
    pub async fn read(&self, jobs: &Jobs) -> Result<TopicPage, Error> {
        let (names, next) = self.names(jobs).await?;
        let topics = jobs.topics(&names).await?;
        Ok(TopicPage { now_ms: jobs.queue.now_ms(), topics, next })
    }

    /// Reads the names of the page, and the name behind which the next one begins.
    pub(super) async fn names(&self, jobs: &Jobs) -> Result<(Vec<Topic>, Option<String>), Error> {
        let mut names = self.topics.iter().map(|name| read_topic(name)).collect::<Result<Vec<_>, _>>()?;
        let mut next = None;
        if names.is_empty() {
            let after = self.after.as_deref().map(read_topic).transpose()?;
            let found = jobs.queue.topics(after.as_ref(), self.limit).await;
            names = found.map_err(|error| failed("list the topics", &error))?;
            // Behind the last of a whole page nothing of the configuration belongs yet.
            let last = names.last().filter(|_| names.len() == self.limit).cloned();
            let belongs = |name: &&Topic| after.as_ref() < Some(*name) && last.as_ref().is_none_or(|last| *name < last);
            names.extend(jobs.queue.settings().topics.keys().filter(belongs).cloned());
            names.sort();
            names.dedup();
            let more = last.is_some() || names.len() > self.limit;
            names.truncate(self.limit);
            next = names.last().filter(|_| more).map(Topic::to_string);
        }
        Ok((names, next))
    }
}

impl Operation for ListTopics {
    type Answer = TopicPage;

    const NAME: &'static str = "jobs topics";
    const ROUTES: &'static [Route] = &[route!(GET "/v1/topics" topics ToLook,
        "List topics of the job queue with their numbers, in alphabetical order" => "A page of topics",
        "`next` is there if there are more: ask for those after it.")];

    fn check(&self, _: &Config) -> Result<(), Error> {
        self.topics.iter().chain(&self.after).try_for_each(|name| read_topic(name).map(drop))
    }

    async fn run(&self, scene: &Scene) -> Result<TopicPage, Error> {
        within(self.limit, MOST)?;
        match scene.live() {
            Some(_) if self.topics.len() > MOST => {
                Err(Error::invalid(format!("read `topics`: more than {MOST}; ask for some at a time")))
            }
            Some(live) => live.topics(self).await,
            None => self.read(&scene.jobs().await?).await,
        }
    }

    fn text(&self, found: &TopicPage, _: Explain) -> String {
        text::topics(&found.topics, found.now_ms)
    }

    fn portion(&self) -> ListTopics {
        ListTopics { limit: self.limit.min(MOST), ..self.clone() }
    }

    fn rest(&self, found: &TopicPage) -> Option<ListTopics> {
        let limit = self.limit.saturating_sub(found.topics.len());
        let after = found.next.clone().filter(|_| limit > 0)?;
        Some(ListTopics { limit, after: Some(after), ..self.clone() })
    }

    fn add_rest(all: &mut TopicPage, rest: TopicPage) {
        all.topics.extend(rest.topics);
        all.next = rest.next;
    }
}

/// One topic.
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowTopic {
    /// The topic
    #[arg(value_name = "TOPIC")]
    #[schemars(skip)]
    pub topic: String,
}

/// Everything about a topic.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
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

impl Operation for ShowTopic {
    type Answer = TopicDetail;

    const NAME: &'static str = "jobs topic";
    const ROUTES: &'static [Route] = &[route!(GET "/v1/topics/{topic}" topic ToLook,
        "Look at a topic: numbers and limits" => "The topic")];

    fn check(&self, _: &Config) -> Result<(), Error> {
        read_topic(&self.topic).map(drop)
    }

    async fn run(&self, scene: &Scene) -> Result<TopicDetail, Error> {
        let jobs = scene.jobs().await?;
        let name = read_topic(&self.topic)?;
        let limits = jobs.limits(&name, None).await?;
        let state = known(&jobs, &name).await?;
        let recurring = jobs.all_recurring(&name).await?.recurring;
        Ok(TopicDetail { now_ms: jobs.queue.now_ms(), state, limits, recurring })
    }
}

/// Returns the numbers of a topic that is there, or in the configuration.
async fn known(jobs: &Jobs, name: &Topic) -> Result<TopicState, Error> {
    let state = jobs.topics(std::slice::from_ref(name)).await?.pop();
    let state = state.ok_or_else(|| failed("look at the topic", &JobError::NotFound))?;
    if !state.sizes.exists && !jobs.queue.settings().topics.contains_key(name) {
        return Err(Error::not_found(format!("look at topic {name}: no job was ever added to it")));
    }
    Ok(state)
}

/// Show jobs of a topic without taking them.
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[command(after_help = PEEK)]
#[serde(deny_unknown_fields)]
pub struct PeekJobs {
    /// The topic
    #[arg(value_name = "TOPIC")]
    #[schemars(skip)]
    pub topic: String,
    /// The state of the jobs: `delay` waits for its due time, `ready` is due, `reserved` is with a consumer, `dead` is out of tries or buried
    #[arg(long, value_name = "STATE", default_value = "ready", value_parser = JobState::ALL.map(JobState::as_str))]
    #[serde(default = "ready")]
    #[schemars(extend("enum" = JobState::ALL.map(JobState::as_str)))]
    pub state: String,
    /// Maximum number of jobs; a daemon answers 50
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    #[serde(default = "jobs")]
    #[schemars(range(min = 1, max = 50))]
    pub limit: usize,
}

const PEEK: &str = "\
Examples:
  delaybridge jobs peek orders
  delaybridge jobs peek orders --state delay --limit 5";

impl PeekJobs {
    fn state(&self) -> Result<JobState, Error> {
        let known = JobState::ALL.into_iter().find(|state| state.as_str() == self.state);
        let words = JobState::ALL.map(JobState::as_str).join(", ");
        known.ok_or_else(|| Error::invalid(format!("read the state: it is {words}")))
    }
}

impl Operation for PeekJobs {
    type Answer = FoundJobs;

    const NAME: &'static str = "jobs peek";
    const ROUTES: &'static [Route] = &[route!(GET "/v1/topics/{topic}/jobs" topic_jobs ToSee,
        "Look at the first jobs of a topic in a state" => "The jobs")];

    fn check(&self, _: &Config) -> Result<(), Error> {
        self.state()?;
        read_topic(&self.topic).map(drop)
    }

    async fn run(&self, scene: &Scene) -> Result<FoundJobs, Error> {
        if scene.live().is_some() {
            within(self.limit, JOBS)?;
        }
        scene.jobs().await?.peek(&read_topic(&self.topic)?, self.state()?, self.limit).await
    }

    fn text(&self, found: &FoundJobs, _: Explain) -> String {
        text::list(found)
    }
}

/// Hand out no more jobs of a topic.
///
/// What is reserved may be finished, and jobs may be added.
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[command(after_help = PAUSE)]
#[serde(deny_unknown_fields)]
pub struct PauseTopic {
    /// The topic
    #[arg(value_name = "TOPIC")]
    #[schemars(skip)]
    pub topic: String,
}

/// Hand out jobs of a topic again.
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[command(after_help = RESUME)]
#[serde(deny_unknown_fields)]
pub struct ResumeTopic {
    /// The topic
    #[arg(value_name = "TOPIC")]
    #[schemars(skip)]
    pub topic: String,
}

const PAUSE: &str = "\
Example:
  delaybridge jobs pause orders";
const RESUME: &str = "\
Example:
  delaybridge jobs resume orders";

/// The outcome of a pause of a topic, or of its end.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TopicPause {
    /// The topic.
    topic: String,
    /// Whether nothing of it is handed out.
    paused: bool,
    /// The topic, as the other commands on jobs name what they change.
    id: String,
    /// The change: `paused` or `resumed`.
    done: String,
}

/// Hands out nothing of a topic from now on, or again. It may be repeated.
async fn set_paused(scene: &Scene, topic: &str, paused: bool) -> Result<TopicPause, Error> {
    let jobs = scene.jobs().await?;
    let name = read_topic(topic)?;
    // On the page a misspelt one does not come into being.
    if scene.live().is_some() {
        known(&jobs, &name).await?;
    }
    let (verb, done) =
        if paused { ("pause", jobs.queue.pause(&name).await) } else { ("resume", jobs.queue.resume(&name).await) };
    done.map_err(|error| failed(&format!("{verb} topic {name}"), &error))?;
    Ok(TopicPause { topic: name.to_string(), paused, id: name.to_string(), done: format!("{verb}d") })
}

/// Implements what both have in common.
macro_rules! pauses_a_topic {
    ($what:literal) => {
        type Answer = TopicPause;

        fn check(&self, _: &Config) -> Result<(), Error> {
            read_topic(&self.topic).map(drop)
        }

        fn text(&self, done: &TopicPause, _: Explain) -> String {
            format!("{} {}\n", done.id, done.done)
        }

        fn change(&self) -> Option<ChangeSubject> {
            Some(ChangeSubject::whole($what, ChangeTarget::Topic(self.topic.clone())))
        }

        fn result(done: &TopicPause) -> String {
            done.done.clone()
        }
    };
}

impl Operation for PauseTopic {
    pauses_a_topic!("pause");

    const NAME: &'static str = "jobs pause";
    const ROUTES: &'static [Route] = &[route!(POST "/v1/topics/{topic}/pause" pause_topic ToOperate,
        "Hand out no jobs of the topic, by any daemon" => "It is paused",
        "Jobs may be added, and what is reserved may be finished.")];

    async fn run(&self, scene: &Scene) -> Result<TopicPause, Error> {
        set_paused(scene, &self.topic, true).await
    }
}

impl Operation for ResumeTopic {
    pauses_a_topic!("resume");

    const NAME: &'static str = "jobs resume";
    const ROUTES: &'static [Route] = &[route!(POST "/v1/topics/{topic}/resume" resume_topic ToOperate,
        "Hand out jobs of the topic again" => "It is not paused")];

    async fn run(&self, scene: &Scene) -> Result<TopicPause, Error> {
        set_paused(scene, &self.topic, false).await
    }
}
