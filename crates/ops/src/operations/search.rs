//! `search`: elements and jobs by their id or a part of their payload, in all queues and topics, as far as that goes in some seconds.

use std::time::Duration;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::{ListTopics, SHOWN, find, known_element, one_line};
use crate::element::{self, Wanted};
use crate::error::{Error, ErrorKind, QueueError};
use crate::jobs::{FoundJobs, JobDetail, Jobs, text};
use crate::operation::{Explain, Operation, Route, Scene, route};
use crate::peek::PeekedElement;
use crate::plural;
use crate::progress::{Progress, Until, Unwatched};
use crate::search::{Hits, Search, search};
use crate::session::Queue;
use delaybridge_core::clock::Instant;
use delaybridge_jobs::{JobState, Topic};
use delaybridge_model::Config;

/// The time for the queues of a request.
const TIME: Duration = Duration::from_secs(5);
/// The time for the topics of a request.
const TOPICS_TIME: Duration = Duration::from_secs(2);
/// Elements of a queue to look at.
const OF_A_QUEUE: u64 = 1_000;
/// Elements of all queues to look at, after which a request ends.
const LOOKED_AT: u64 = 20_000;
/// Topics to look at.
const TOPICS: usize = 50;
/// Elements of a queue, or jobs of a topic in a state, that are answered.
const OF_A_QUEUE_SHOWN: usize = 5;
/// Elements, or jobs, after which a request ends.
const MATCHES: usize = 50;
/// Jobs of a topic and a state to look at.
const JOBS: usize = 50;

/// Find elements in all queues, and jobs, by their id or a part of their payload.
///
/// Looks for the id, then reads the payloads of the first 1,000 elements of each queue and of the first 50 jobs of each topic in each
/// state, and shows five of a queue, with the beginning of their payloads. `find QUEUE --text` looks at more of one. Nothing is changed. An element that moves meanwhile can
/// be missed.
#[derive(Debug, Clone, Args, Serialize, Deserialize, JsonSchema)]
#[command(after_help = SEARCH)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SearchAll")]
pub struct SearchAll {
    /// An id, a part of a payload, or a field and its text: orderId=7
    #[arg(value_name = "TEXT")]
    pub text: String,
    /// The `next` of the request before
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

const SEARCH: &str = "\
Examples:
  delaybridge search 52414e444f4d3842
  delaybridge search orderId=7
  delaybridge search 'Ann Meyer' --daemon http://127.0.0.1:9465 --output json

Exit codes: 0 done, also if there is none, 1 failed for a queue, 2 wrong arguments or configuration";

/// The elements and jobs that fit, of several queues.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub struct FoundEverywhere {
    /// Queues that the caller may view.
    pub of: usize,
    /// Queues of them that were searched, here and by the requests before.
    pub searched: usize,
    /// Elements whose payloads were read.
    pub examined: u64,
    /// The elements that fit, of each queue that has some, or has more than were looked at.
    pub queues: Vec<Hits>,
    /// The jobs that fit, of the topics whose payloads the caller may see.
    pub jobs: FoundJobs,
    /// Queues that could not be searched.
    pub errors: Vec<QueueError>,
    /// The queue after which the next request begins; none at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl FoundEverywhere {
    /// Returns the number of elements and jobs that fit.
    pub fn hits(&self) -> usize {
        self.elements() + self.jobs.jobs.len()
    }

    fn elements(&self) -> usize {
        self.queues.iter().map(|hits| hits.elements.len()).sum()
    }

    fn is_full(&self) -> bool {
        self.elements() >= MATCHES || self.examined >= LOOKED_AT
    }
}

impl Operation for SearchAll {
    type Answer = FoundEverywhere;

    const NAME: &'static str = "search";
    const ROUTES: &'static [Route] = &[route!(POST "/v1/search" search_all ToSearchOwn,
        "Find elements and jobs by id or by a part of their payload, in all queues" => "What fits",
        "Of the queues that the caller may view: the element with this id, and with the right to see payloads up to five of the first \
         1,000 elements whose payload has the text. `next` is there if not all queues were searched within five seconds, and in a queue \
         if some of its elements were not looked at. Topics are searched by the request without `after`. Nothing is changed.")];
    const SEARCHES: bool = true;

    fn check(&self, _: &Config) -> Result<(), Error> {
        one_line("search the queues: `text`", &self.text)
    }

    async fn run(&self, scene: &Scene) -> Result<FoundEverywhere, Error> {
        let end = Instant::now().after(TIME);
        let mut names: Vec<_> = scene.config().queues.iter().map(|spec| &*spec.id).collect();
        names.retain(|name| scene.views(name));
        names.sort_unstable();
        let before = names.partition_point(|name| self.after.as_deref().is_some_and(|after| *name <= after));
        let jobs = FoundJobs { now_ms: 0, jobs: Vec::new(), more: false };
        let mut found = FoundEverywhere {
            of: names.len(),
            searched: before,
            examined: 0,
            queues: Vec::new(),
            jobs,
            errors: Vec::new(),
            next: None,
        };
        for name in &names[before..] {
            // One queue at least, or the next request would be this one.
            let behind = names[..found.searched].last().filter(|_| found.searched > before);
            if behind.is_some() && (found.is_full() || Instant::now() >= end) {
                found.next = behind.map(|name| (*name).to_owned());
                break;
            }
            let result = self.in_queue(scene, name, end).await;
            let is_cut = Instant::now() >= end && result.as_ref().map_or(true, |hits| hits.next.is_some());
            if is_cut && behind.is_some() {
                // It had what was left of the time: it begins the next request.
                found.next = behind.map(|name| (*name).to_owned());
                break;
            }
            found.searched += 1;
            match result {
                Ok(hits) => {
                    found.examined += hits.examined;
                    found.queues.extend(Some(hits).filter(|hits| !hits.elements.is_empty() || hits.next.is_some()));
                }
                Err(error) => found.errors.push(QueueError { queue: (*name).to_owned(), message: error.message }),
            }
        }
        // Behind the queues: a slow job queue keeps none of them from being searched.
        if self.after.is_none() && scene.config().jobs.is_some() {
            match timeout(TOPICS_TIME, self.in_topics(scene, &mut found)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => found.errors.push(QueueError { queue: "jobs".to_owned(), message: error.message }),
                Err(_) => found.jobs.more = true,
            }
            for job in &mut found.jobs.jobs {
                job.content = std::mem::take(&mut job.content).shortened(SHOWN);
            }
        }
        Ok(found)
    }

    fn text(&self, found: &FoundEverywhere, _: Explain) -> String {
        words(found)
    }

    fn failed(found: &FoundEverywhere) -> Option<String> {
        super::messages(&found.errors)
    }

    fn rest(&self, found: &FoundEverywhere) -> Option<SearchAll> {
        Some(SearchAll { after: Some(found.next.clone()?), ..self.clone() })
    }

    fn add_rest(all: &mut FoundEverywhere, rest: FoundEverywhere) {
        all.searched = rest.searched;
        all.examined += rest.examined;
        all.queues.extend(rest.queues);
        all.errors.extend(rest.errors);
        all.next = rest.next;
    }

    fn progress(&self, found: &FoundEverywhere) -> Progress {
        Progress { done: found.searched as u64, of: Some(found.of as u64), acted: found.hits() as u64 }
    }
}

impl SearchAll {
    /// Finds the element with this id, then those with this in their payload.
    async fn in_queue(&self, scene: &Scene, name: &str, end: Instant) -> Result<Hits, Error> {
        let queue = scene.queue(name).await?;
        let reads = scene.reads(name);
        let by_id = match known_element(scene.config(), name, &self.text) {
            Ok(()) => self.by_id(&queue, end).await?,
            Err(_) => None,
        };
        let mut hits = Hits { queue: name.to_owned(), ..Hits::default() };
        if reads {
            let ask = Search::of(&self.text, OF_A_QUEUE, OF_A_QUEUE_SHOWN, None);
            hits = search(&queue, &ask, &mut Until::at(end)).await?;
        }
        if let Some((element, now_ms)) = by_id {
            hits.now_ms = now_ms;
            hits.elements.retain(|other| other.id.is_none() || other.id != element.id);
            hits.elements.insert(0, element);
        }
        for element in &mut hits.elements {
            let content = std::mem::take(&mut element.content);
            element.content = content.shortened(if reads { SHOWN } else { 0 });
        }
        Ok(hits)
    }

    /// Returns the element with this id, and Redis time.
    async fn by_id(&self, queue: &Queue, end: Instant) -> Result<Option<(PeekedElement, i64)>, Error> {
        let wanted = Wanted { id: &self.text, due_ms: None };
        match timeout(end.since(Instant::now()), element::find(queue, wanted, &mut Unwatched)).await {
            Ok(Ok(found)) => {
                let [element] = found.elements;
                Ok(Some((element.into(), found.now_ms)))
            }
            Ok(Err(error)) if error.kind == ErrorKind::NotFound => Ok(None),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                let (seconds, queue) = (TIME.as_secs(), queue.id());
                Err(Error::failed(format!(
                    "look for the id in `{queue}`: not done in {seconds} s; `delaybridge find {queue} --id ID` searches all of it"
                )))
            }
        }
    }

    /// Adds the first jobs of the topics that the caller may read: by id, or by a part of their body.
    async fn in_topics(&self, scene: &Scene, found: &mut FoundEverywhere) -> Result<(), Error> {
        let jobs = scene.jobs().await?;
        if let Ok(id) = self.text.parse() {
            match jobs.get(&id).await {
                Ok(by_id) if by_id.jobs.iter().all(|job| scene.reads(&job.topic)) => {
                    found.jobs = by_id;
                    return Ok(());
                }
                Err(error) if error.kind != ErrorKind::NotFound => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        let (names, next) = ListTopics::first(TOPICS).names(&jobs).await?;
        found.jobs.now_ms = jobs.queue.now_ms();
        found.jobs.more = next.is_some();
        for topic in names.iter().filter(|topic| scene.reads(topic.as_str())) {
            if found.jobs.jobs.len() >= MATCHES {
                found.jobs.more = true;
                break;
            }
            if let Err(error) = self.in_topic(&jobs, topic, &mut found.jobs).await {
                found.errors.push(QueueError { queue: topic.to_string(), message: error.message });
            }
        }
        Ok(())
    }

    async fn in_topic(&self, jobs: &Jobs, topic: &Topic, found: &mut FoundJobs) -> Result<(), Error> {
        for state in JobState::ALL {
            let page = jobs.peek(topic, state, JOBS).await?;
            let fits = |job: &JobDetail| job.id.ends_with(&self.text) || job.content.holds(&self.text);
            let mut some: Vec<_> = page.jobs.into_iter().filter(fits).collect();
            found.more |= page.more || some.len() > OF_A_QUEUE_SHOWN;
            some.truncate(OF_A_QUEUE_SHOWN);
            found.jobs.extend(some);
        }
        Ok(())
    }
}

fn words(found: &FoundEverywhere) -> String {
    let mut text = String::new();
    for hits in &found.queues {
        if !hits.elements.is_empty() {
            text.push_str(&format!("{}\n{}\n", hits.queue, find::table(hits).render()));
        }
        if hits.next.is_some() {
            let (examined, total) = (hits.examined, plural::count(hits.total, "element"));
            text.push_str(&format!(
                "{examined} of {total} of {} were looked at; `delaybridge find {} --text TEXT` looks at more\n\n",
                hits.queue, hits.queue
            ));
        }
    }
    if !found.jobs.jobs.is_empty() {
        text.push_str(&format!("jobs\n{}\n", text::list(&FoundJobs { more: false, ..found.jobs.clone() })));
    }
    if found.jobs.more {
        text.push_str("not all jobs were looked at; `delaybridge jobs peek TOPIC` lists those of a topic\n\n");
    }
    let of = plural::count(found.of, "queue");
    let hits = plural::count(found.hits(), "hit");
    let examined = plural::count(found.examined, "element");
    text + &format!("{hits} in {} of {of}; the payloads of {examined} were read\n", found.searched)
}
