//! Adding jobs.

use std::time::Duration;

use bytes::Bytes;

use super::error::JobError;
use super::job::{Added, Due, JobAlias, JobOperation, JobState, NewJob};
use super::name::{JobId, LocalId, Topic};
use super::queue::{JobQueue, millis, number, or_empty, text};
use super::settings::{MAX_DELAY, MAX_TRIES, check_ttr};
use super::unique::{Unique, UniqueUntil};
use delaybridge_link::{BadReply, Fields};

/// Maximum number of jobs in one call.
pub const MAX_BATCH: usize = 1_000;
/// The highest priority of a job.
pub const MAX_PRIORITY: u8 = 9;
/// The last due time, in ms since 1970: scores are exact up to here.
const LAST_DUE_MS: i64 = 1 << 52;
/// Maximum number of jobs past their time to live that one sweep removes before jobs are added.
const SWEPT_AT_ONCE: usize = 1_000;
/// Maximum number of such sweeps for one call.
const MAX_SWEEPS: usize = 100;
/// Number of arguments of a job; the last is its unique key, or its alias.
const PER_JOB: usize = 11;
/// Time for which earlier versions do not add a job again that has a former id. A record of Kafka whose offset is not committed comes
/// to another daemon within that time.
const FORMER: Duration = Duration::from_secs(120);
/// Time for which contents are remembered longer than the id, because a job is finished after it is due.
const CONTENTS: Duration = Duration::from_secs(60);
/// The place of the priority among them.
const PRIORITY: usize = 7;

impl JobQueue {
    /// Adds jobs: all of them, or none.
    ///
    /// If it is repeated after an unknown outcome, jobs with ids of their own are added once, because a finished one is
    /// remembered for `remember`, and so are jobs with unique keys, while these are held. Other jobs without an id are added
    /// twice.
    ///
    /// # Errors
    ///
    /// [`JobError::Full`], [`JobError::TooManyKeys`], [`JobError::TooLarge`] and [`JobError::Invalid`] add nothing, and neither does a call that
    /// was not sent.
    pub async fn add(&self, topic: &Topic, jobs: Vec<NewJob>) -> Result<Vec<Added>, JobError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        if jobs.len() > MAX_BATCH {
            return Err(JobError::Invalid(format!("{} jobs at once: at most {MAX_BATCH}", jobs.len())));
        }
        let mut ids = Vec::with_capacity(jobs.len());
        let mut args = Vec::with_capacity(7 + PER_JOB * jobs.len());
        for job in jobs {
            let own = job.id.is_some();
            let id = job.id.clone().unwrap_or_else(|| self.new_id());
            arguments(&id, own, job, self.settings().of(topic).remember, &mut args)?;
            ids.push(id);
        }
        self.enter(topic, false).await?;
        match <[LocalId; 1]>::try_from(ids) {
            Ok([id]) if self.durable.is_some() => self.add_all(topic, vec![id], args).await,
            Ok([id]) => {
                let queue = self.clone();
                let name = topic.clone();
                let bytes = args.iter().map(Bytes::len).sum();
                let send = move |jobs: Vec<_>| async move { Ok(queue.add_each(&name, jobs).await) };
                Ok(vec![self.shared.adds.call(topic, (id, args), bytes, send).await?])
            }
            Err(ids) => self.add_all(topic, ids, args).await,
        }
    }

    /// Adds jobs of several clients: together, or one by one if one of them would keep the others out.
    async fn add_each(&self, topic: &Topic, jobs: Vec<(LocalId, Vec<Bytes>)>) -> Vec<Result<Added, JobError>> {
        let (ids, args): (Vec<_>, Vec<_>) = jobs.iter().cloned().unzip();
        match self.add_all(topic, ids, args.concat()).await {
            Ok(added) => added.into_iter().map(Ok).collect(),
            Err(
                JobError::Full { .. } | JobError::TooManyKeys { .. } | JobError::TooLarge { .. } | JobError::Invalid(_),
            ) if jobs.len() > 1 => {
                let mut answers = Vec::with_capacity(jobs.len());
                for (id, args) in jobs {
                    let added = self.add_all(topic, vec![id], args).await;
                    answers.push(added.and_then(|added| {
                        let none = BadReply { script: "jobs_add", expected: "a letter for each job" };
                        added.into_iter().next().ok_or(none.into())
                    }));
                }
                answers
            }
            Err(error) => jobs.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// Runs the script that adds jobs. Where jobs past their time to live are in the way, the sweep removes and counts them first.
    pub(super) async fn add_script(
        &self,
        topic: &Topic,
        keys: &[Bytes],
        args: &[Bytes],
    ) -> Result<(String, i64, Fields), JobError> {
        for _ in 0..MAX_SWEEPS {
            let reply = self.run_add(&self.shared.scripts.add, topic, keys, args).await?;
            let mut fields = Fields::of("jobs_add", reply)?;
            let word = fields.text()?;
            let now = self.observe(&mut fields)?;
            if word != "over" {
                return Ok((word, now, fields));
            }
            self.tick(topic, SWEPT_AT_ONCE).await?;
        }
        Err(JobError::Fixed("many jobs are past their time to live, and are being removed: try again"))
    }

    /// Adds jobs by one call of the script: all of them, or none.
    async fn add_all(&self, topic: &Topic, ids: Vec<LocalId>, jobs: Vec<Bytes>) -> Result<Vec<Added>, JobError> {
        let settings = self.settings().of(topic);
        let mut args = vec![or_empty(settings.max_jobs.map(number)), text(topic.as_str()), number(settings.max_body)];
        args.extend([millis(settings.ttr), number(settings.tries), millis(settings.ttl.unwrap_or_default())]);
        let each = |of_job: usize| jobs.iter().skip(of_job).step_by(PER_JOB);
        let unique = each(PER_JOB - 1).any(|given| matches!(given.first(), Some(b'e' | b'f')));
        let urgent = each(PRIORITY).any(|given| !given.is_empty());
        args.push(text(if self.durable.is_some() { "1" } else { "0" }));
        args.extend(jobs);
        let keys = self.keys(topic);
        let keys = match (unique, urgent) {
            (true, _) => keys.all(),
            (false, true) => keys.of_waiting(),
            (false, false) => keys.of_jobs(),
        };
        let (word, now, mut fields) = self.add_script(topic, keys, &args).await?;
        if word == "full" {
            return Err(JobError::Full { topic: topic.clone(), limit: u64::try_from(fields.int()?).unwrap_or(0) });
        }
        if word == "keys" {
            return Err(JobError::TooManyKeys {
                topic: topic.clone(),
                limit: u64::try_from(fields.int()?).unwrap_or(0),
            });
        }
        if word == "large" {
            let limit = u64::try_from(fields.int()?).unwrap_or(0);
            let size = usize::try_from(fields.int()?).unwrap_or(0);
            return Err(JobError::TooLarge { topic: topic.clone(), size, limit });
        }
        if word == "short" {
            return Err(JobError::Invalid("a time to live ends before its job is due".to_owned()));
        }
        let letters = fields.bytes()?;
        let mut dues = fields.array()?;
        let is_new = fields.int()? == 1;
        let mut holders = fields.array()?;
        if letters.len() != ids.len() {
            return Err(BadReply { script: "jobs_add", expected: "a letter for each job" }.into());
        }
        let mut added = Vec::with_capacity(ids.len());
        for (local, letter) in ids.into_iter().zip(letters) {
            let due_ms = if dues.is_empty() { None } else { Some(dues.int()?) };
            let (created, differs, held) = match letter {
                b'y' => (true, false, false),
                b'o' | b'g' | b'x' => (false, false, false),
                b'b' => (false, true, false),
                b'u' => (false, false, true),
                _ => return Err(BadReply { script: "jobs_add", expected: "y, o, b, g, x or u" }.into()),
            };
            let local = if held { LocalId::shown(&holders.bytes()?) } else { local };
            let id = JobId { topic: topic.clone(), local };
            let due_ms = due_ms.filter(|_| created);
            let state = due_ms.map(|due| if due > now { JobState::Delay } else { JobState::Ready });
            added.push(Added { id, created, held, differs, finished: letter == b'g', due_ms, state });
        }
        let created = added.iter().filter(|added| added.created).count() as u64;
        if created > 0 {
            self.counted(topic, JobOperation::Added, created);
            self.tell(topic);
        }
        if is_new {
            // The topic may have been removed from the index after this process entered it.
            self.enter(topic, true).await?;
        }
        Ok(added)
    }

    /// Asks whether a job could be added to the topic now. It writes what is there already, on the same connections as
    /// [`add`](JobQueue::add), because a server that is full, or a replica, answers reads. It may be repeated. Another client may
    /// take the room before a job comes.
    ///
    /// # Errors
    ///
    /// Returns the error that `add` would return.
    pub async fn can_add(&self, topic: &Topic) -> Result<(), JobError> {
        self.enter(topic, false).await?;
        let settings = self.allowed(topic).await?;
        let mut args = vec![Bytes::new(), text(topic.as_str()), number(settings.max_body), millis(settings.ttr)];
        // The last argument makes the script write although there are no jobs.
        args.extend([number(settings.tries), millis(settings.ttl.unwrap_or_default()), text("1")]);
        self.add_script(topic, self.keys(topic).of_jobs(), &args).await?;
        let Some(limit) = settings.max_jobs else { return Ok(()) };
        let records = self.keys(topic).records().clone();
        let mut held = redis::cmd("HLEN");
        held.arg(&records[..]);
        let held: u64 = self.conn(&records).await?.query(&held).await?;
        let dead = self.sizes(topic).await?.dead;
        if held.saturating_sub(dead) < limit { Ok(()) } else { Err(JobError::Full { topic: topic.clone(), limit }) }
    }
}

/// Appends the arguments of one job; returns an error if the job is invalid.
fn arguments(
    id: &LocalId,
    own: bool,
    job: NewJob,
    remember: Option<Duration>,
    args: &mut Vec<Bytes>,
) -> Result<(), JobError> {
    let invalid = |problem: &str| Err(JobError::Invalid(problem.to_owned()));
    check_content_type(&job.content_type)?;
    job.ttr.map_or(Ok(()), check_ttr)?;
    if job.tries.is_some_and(|tries| !(1..=MAX_TRIES).contains(&tries)) {
        return invalid("tries must be 1 to 1000000");
    }
    if job.ttl.is_some_and(|ttl| ttl > MAX_DELAY) {
        return invalid("the time to live is above ten years; 0 is for ever");
    }
    let priority = Some(check_priority(job.priority)?).filter(|priority| *priority > 0).map(number);
    let (word, due) = due_arguments(job.due)?;
    let ttr = job.ttr.map(millis);
    let tries = job.tries.map(number);
    let ttl = job.ttl.map(millis);
    let chosen = match (own, job.is_repeated) {
        (false, _) => "0",
        (true, false) => "1",
        (true, true) => "2",
    };
    args.extend([text(id.as_str()), text(chosen), text(word), due]);
    let last = match (&job.unique, job.alias) {
        (Some(_), Some(_)) => return invalid("a job with a unique key has no second id"),
        (Some(unique), None) => Some(unique_argument(unique)?),
        (None, alias) => alias.and_then(|alias| alias_argument(alias, &job.body, remember)),
    };
    args.extend([or_empty(ttr), or_empty(tries), or_empty(ttl), or_empty(priority)]);
    args.extend([text(&job.content_type), job.body, or_empty(last)]);
    Ok(())
}

/// Builds the argument of the script for a unique key; returns an error if its time is out of bounds.
fn unique_argument(unique: &Unique) -> Result<Bytes, JobError> {
    let Unique { key, lasts, until } = unique;
    if !(Duration::from_millis(1)..=MAX_DELAY).contains(lasts) {
        return Err(JobError::Invalid("the time of a unique key must be 1 ms to ten years".to_owned()));
    }
    let mode = match until {
        UniqueUntil::Finished => 'f',
        UniqueUntil::Expired => 'e',
    };
    Ok(Bytes::from(format!("{mode}{} {key}", lasts.as_millis())))
}

/// Returns an alias as an argument of the script; `None` if there is nothing to say about it.
fn alias_argument(alias: JobAlias, body: &Bytes, remember: Option<Duration>) -> Option<Bytes> {
    let hash = || sha1_smol::Sha1::from(&body[..]).digest();
    let text = match alias {
        JobAlias::Former { id, written_ms } => {
            let lasts = remember.unwrap_or_default().min(FORMER).as_millis();
            format!("p{lasts} {written_ms} {id}")
        }
        JobAlias::Contents(id) => format!("c{} {} {id}", (remember? + CONTENTS).as_millis(), hash()),
        JobAlias::ContentsOf(id) => format!("d{} {id}", hash()),
    };
    Some(Bytes::from(text))
}

pub(super) fn check_priority(priority: u8) -> Result<u8, JobError> {
    match priority {
        ..=MAX_PRIORITY => Ok(priority),
        _ => Err(JobError::Invalid(format!("the priority must be 0 to {MAX_PRIORITY}"))),
    }
}

pub(super) fn check_content_type(content_type: &str) -> Result<(), JobError> {
    match content_type.len() {
        ..=255 => Ok(()),
        _ => Err(JobError::Invalid("the content type has more than 255 bytes".to_owned())),
    }
}

/// Builds the arguments of a script for a due time; returns an error if it is beyond all times.
pub(super) fn due_arguments(due: Due) -> Result<(&'static str, Bytes), JobError> {
    let invalid = |problem: &str| Err(JobError::Invalid(problem.to_owned()));
    match due {
        Due::After(delay) if delay > MAX_DELAY => invalid("the delay is above ten years"),
        Due::After(delay) => Ok(("a", millis(delay))),
        Due::At(at) if !(0..=LAST_DUE_MS).contains(&at) => {
            invalid("the due time is no time in milliseconds since 1970")
        }
        Due::At(at) => Ok(("t", number(at))),
    }
}
