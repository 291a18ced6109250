//! The way out of the job queue: jobs of a topic become members of a plain sorted set, or jobs of a pool.
//!
//! Each job is copied first and removed then. The copy has the job's id, or is its body, so that a second run after an
//! interruption copies nothing twice, and goes on.

use serde::Serialize;

use super::{Jobs, failed};
use crate::error::{Attempted, Error};
use crate::progress::{Progress, ProgressWatch, ended};
use crate::session::Queue;
use delaybridge_jobs::{JobInfo, JobState, Topic};
use delaybridge_ledger::score::Unit;
use delaybridge_source::SourceConfig;
use delaybridge_source::job_pool::{JobPool, Leaving};

/// Jobs that are read at once.
const PAGE: usize = 100;

/// The destination of an export.
pub enum ExportTarget<'a> {
    /// A plain sorted set with scores of this unit.
    Set(&'a str, Unit),
    /// A pool of jobs, as the program of its preset would write them.
    Pool(&'a Queue, Box<JobPool>),
}

/// The outcome of an export.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ExportedJobs {
    /// The topic that the jobs came from.
    pub topic: String,
    /// The sorted set that the members went to, or the first bucket of the pool.
    pub key: String,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// Jobs that are there now, or would be.
    pub moved: u64,
    /// Jobs that stay: their body is a member of the set already, where equal members collapse, or the pool has another job with
    /// their id, or its program could not have written such a job.
    pub left: u64,
    /// Jobs that are reserved, dead, or delivered by a queue; they stay where they are.
    pub elsewhere: u64,
}

impl<'a> ExportTarget<'a> {
    /// Returns a sorted set with scores in whole seconds, or in milliseconds.
    pub fn set(key: &'a str, seconds: bool) -> ExportTarget<'a> {
        ExportTarget::Set(key, if seconds { Unit::Seconds } else { Unit::Millis })
    }

    /// Returns the place that a queue of the configuration delivers from.
    ///
    /// # Errors
    ///
    /// When nothing can be exported there.
    pub fn of(queue: &'a Queue) -> Result<ExportTarget<'a>, Error> {
        let refused = |why: &str| Err(Error::invalid(format!("export to queue `{}`: {why}", queue.id())));
        match &*queue.spec.source {
            SourceConfig::Zset(set) => Ok(ExportTarget::Set(&set.key, set.score)),
            SourceConfig::JobPool(pool) => match pool.why_not_written() {
                None => Ok(ExportTarget::Pool(queue, Box::new(JobPool::of(pool)))),
                Some(why) => refused(&format!("{why}; export to a sorted set with --key")),
            },
            SourceConfig::Jobs(_) => refused("it is a topic of the job queue already"),
            SourceConfig::Redisson(_) => {
                refused("offer to a queue of Redisson with `delaybridge offer`, or by a client")
            }
        }
    }

    fn key(&self) -> &str {
        match self {
            ExportTarget::Set(key, _) => key,
            ExportTarget::Pool(queue, _) => queue.spec.source.name(),
        }
    }
}

/// Moves the jobs of a topic that wait.
///
/// # Errors
///
/// When the topic is not paused, or Redis cannot be asked; what was moved before is moved.
pub async fn export(
    jobs: &Jobs,
    topic: &Topic,
    target: &ExportTarget<'_>,
    dry_run: bool,
    watch: &mut dyn ProgressWatch,
) -> Result<ExportedJobs, Error> {
    let what = format!("export topic {topic} to `{}`", target.key());
    let mut done =
        ExportedJobs { topic: topic.to_string(), key: target.key().to_owned(), dry_run, ..ExportedJobs::default() };
    let sizes = jobs.queue.sizes(topic).await.map_err(|error| failed(&what, &error))?;
    if !sizes.paused && !dry_run {
        let text = "consumers would take jobs meanwhile: run `delaybridge jobs pause` first";
        return Err(Error::conflict(format!("{what}: the topic is not paused, and {text}")));
    }
    if !dry_run {
        jobs.queue.open_export(topic).await.map_err(|error| failed(&what, &error))?;
    }
    let of = Some(sizes.ready + sizes.delay);
    for state in [JobState::Ready, JobState::Delay] {
        let mut skip = 0;
        loop {
            let again = || format!("{what} ({} moved before; run it again to go on)", done.moved);
            let page = jobs.queue.peek(topic, state, skip, PAGE).await.map_err(|error| failed(&again(), &error))?.jobs;
            if page.is_empty() {
                break;
            }
            for job in page {
                let again = || format!("{what} ({} moved before; run it again to go on)", done.moved);
                let goes = copy(jobs, target, &job, dry_run, &again).await?;
                (done.moved, done.left) = (done.moved + u64::from(goes), done.left + u64::from(!goes));
                // What is there after it is passed over.
                skip += u64::from(dry_run || !goes);
            }
            watch.at(Progress { done: done.moved + done.left, of, acted: done.moved });
            if watch.is_stopped() {
                return Err(ended(&what, done.moved));
            }
        }
    }
    if !dry_run {
        jobs.queue.close_export(topic).await.map_err(|error| failed(&what, &error))?;
    }
    let sizes = jobs.queue.sizes(topic).await.map_err(|error| failed(&what, &error))?;
    done.elsewhere = sizes.reserved + sizes.dead;
    Ok(done)
}

/// Copies a job and removes it; whether it went, or would go.
async fn copy(
    jobs: &Jobs,
    target: &ExportTarget<'_>,
    job: &JobInfo,
    dry_run: bool,
    what: &(dyn Fn() -> String + Sync),
) -> Result<bool, Error> {
    // What another program or version wrote stays: its bytes are no body.
    if !job.readable {
        return Ok(false);
    }
    match target {
        ExportTarget::Set(..) if dry_run => Ok(true),
        ExportTarget::Set(key, unit) => {
            let moved = jobs.queue.export_member(key, unit.at(job.time_ms), &job.id, &job.body).await;
            moved.map_err(|error| failed(&what(), &error))
        }
        ExportTarget::Pool(queue, pool) => {
            let leaving = Leaving {
                id: job.id.local.as_str(),
                topic: job.id.topic.as_str(),
                body: &job.body,
                added_ms: job.added_ms,
                due_ms: job.time_ms,
                ttr_ms: job.ttr_ms,
                retries: job.tries.saturating_sub(job.attempts).saturating_sub(1),
            };
            let Ok(written) = pool.write(&leaving) else { return Ok(false) };
            if dry_run {
                return Ok(true);
            }
            let now_ms = jobs.queue.now_ms();
            if !pool.put(&queue.conn, &written, now_ms).await.attempt(&what())? {
                return Ok(false);
            }
            jobs.queue.end_export(&job.id).await.map_err(|error| failed(&what(), &error))?;
            Ok(true)
        }
    }
}
