//! Topics of the job queue: what this version cannot read of them, and their order of priorities. What cannot be read is not
//! repaired: a newer version may read it.

use std::collections::BTreeSet;

use serde::Serialize;

use super::fault_text::explanation;
use super::findings::{FaultCount, NAMED, Thing};
use crate::error::{Error, QueueError};
use crate::jobs::{Jobs, failed};
use crate::session::{Queue, Session};
use delaybridge_jobs::{JobState, OrderHalf, Topic};
use delaybridge_ledger::fsck::Fault;

/// The findings in the index of topics, or in one topic.
#[derive(Debug, Clone, Serialize)]
pub struct CheckedTopic {
    /// The topic's name; none for the index.
    pub topic: Option<String>,
    /// Jobs, or names, that were looked at.
    pub looked_at: u64,
    /// The faults.
    pub findings: Vec<FaultCount>,
}

/// Looks at this topic, or at all and at their index. Of topics that a queue delivers, priorities do not count.
pub(super) async fn check(
    jobs: &Jobs,
    only: Option<Topic>,
    delivered: &BTreeSet<Topic>,
    repair: bool,
    progress: &mut (dyn FnMut(&str, u64) + Send),
) -> (Vec<CheckedTopic>, Vec<QueueError>) {
    let mut checked = Vec::new();
    let mut errors = Vec::new();
    let topics = match only {
        Some(topic) => BTreeSet::from([topic]),
        None => match index(jobs).await {
            Ok((topics, index)) => {
                checked.push(index);
                topics
            }
            Err(error) => {
                errors.push(QueueError { queue: "topics".to_owned(), message: error.message });
                jobs.queue.settings().topics.keys().cloned().collect()
            }
        },
    };
    for topic in topics {
        let halves: &[_] =
            if delivered.contains(&topic) { &[OrderHalf::Members] } else { &[OrderHalf::Members, OrderHalf::Jobs] };
        match look(jobs, &topic, progress).await {
            Ok(mut found) => {
                for half in halves {
                    match order(jobs, &topic, *half, repair).await {
                        Ok(finding) => found.findings.extend(finding),
                        Err(error) => {
                            errors.push(QueueError { queue: format!("topic {topic}"), message: error.message });
                        }
                    }
                }
                checked.push(found);
            }
            Err(error) => errors.push(QueueError { queue: format!("topic {topic}"), message: error.message }),
        }
    }
    (checked, errors)
}

/// Returns the topics that there are, and what of their index cannot be read.
async fn index(jobs: &Jobs) -> Result<(BTreeSet<Topic>, CheckedTopic), Error> {
    let mut topics: BTreeSet<_> = jobs.queue.settings().topics.keys().cloned().collect();
    let mut after = None;
    let mut looked_at = 0;
    let mut unreadable = 0;
    loop {
        let page = jobs.queue.topics_page(after.as_ref(), 1_000).await;
        let page = page.map_err(|error| failed("check the topics", &error))?;
        looked_at += page.topics.len() as u64 + page.unreadable;
        unreadable += page.unreadable;
        topics.extend(page.topics);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let findings = finding(Fault::UnreadableTopic, usize::try_from(unreadable).unwrap_or(usize::MAX), Vec::new());
    Ok((topics, CheckedTopic { topic: None, looked_at, findings: findings.into_iter().collect() }))
}

async fn look(jobs: &Jobs, topic: &Topic, progress: &mut (dyn FnMut(&str, u64) + Send)) -> Result<CheckedTopic, Error> {
    let what = format!("check topic {topic}");
    let mut looked_at = 0;
    let mut count = 0;
    let mut named = Vec::new();
    for state in [JobState::Ready, JobState::Reserved, JobState::Dead] {
        let mut skip = 0;
        loop {
            let page = jobs.queue.unreadable(topic, state, skip).await;
            let (looked, ids) = page.map_err(|error| failed(&what, &error))?;
            if looked == 0 {
                break;
            }
            (skip, looked_at, count) = (skip + looked, looked_at + looked, count + ids.len());
            let state = if state == JobState::Ready { "waits" } else { state.as_str() };
            let names = ids.iter().map(|id| format!("job {topic}~{id} ({state})"));
            named.extend(names.take(NAMED - named.len()));
            progress(topic.as_str(), looked_at);
        }
    }
    let limits = jobs.queue.unreadable_limits(topic).await.map_err(|error| failed(&what, &error))?;
    let limits: Vec<_> = limits.into_iter().map(|name| format!("field {name}")).collect();
    let findings = [finding(Fault::UnreadableJob, count, named), finding(Fault::UnreadableLimit, limits.len(), limits)];
    let findings = findings.into_iter().flatten().collect();
    Ok(CheckedTopic { topic: Some(topic.to_string()), looked_at, findings })
}

/// Gives the waiting jobs of the topic that this queue delivers their places in the order of priorities, after they were put
/// back into it. It can be repeated.
pub async fn keep_priorities(session: &Session, queue: &Queue) -> Result<(), Error> {
    let topic = queue.spec.source.jobs().and_then(|spec| spec.topic.parse().ok());
    let Some((topic, jobs)) = topic.zip(session.jobs()) else { return Ok(()) };
    order(&jobs, &topic, OrderHalf::Jobs, true).await.map(drop)
}

/// Compares the order of priorities with the jobs, and repairs it.
async fn order(jobs: &Jobs, topic: &Topic, half: OrderHalf, repair: bool) -> Result<Option<FaultCount>, Error> {
    let what = format!("compare the order of topic {topic}");
    let mut skip = 0;
    let mut count = 0;
    let mut things = Vec::new();
    loop {
        let page = jobs.queue.compare_order(topic, half, skip, repair).await;
        let page = page.map_err(|error| failed(&what, &error))?;
        if page.looked_at == 0 {
            break;
        }
        (skip, count) = (page.next, count + page.wrong.len());
        let named = page.wrong.into_iter().take(NAMED - things.len());
        things.extend(named.map(|id| Thing { name: format!("job {topic}~{id}"), kept: None, repaired: repair }));
    }
    let fault = match half {
        OrderHalf::Members => Fault::StrayPriority,
        OrderHalf::Jobs => Fault::MisplacedPriority,
    };
    let explanation = explanation(fault);
    let repaired = if repair { count } else { 0 };
    Ok((count > 0).then_some(FaultCount { explanation, count, more: 0, repaired, things }))
}

fn finding(fault: Fault, count: usize, names: Vec<String>) -> Option<FaultCount> {
    let explanation = explanation(fault);
    let thing = |name| Thing { name, kept: Some("another version or program wrote it"), repaired: false };
    let things = names.into_iter().map(thing).collect();
    (count > 0).then_some(FaultCount { explanation, count, more: 0, repaired: 0, things })
}
