//! Reserving jobs, and settling them.

use std::time::Duration;

use bytes::Bytes;

use super::error::JobError;
use super::job::{Aged, JobOperation, Reserved, Settled};
use super::name::{JobId, LocalId, Token, Topic};
use super::queue::{JobQueue, millis, number, or_empty, text};
use super::record::Record;
use super::settings::{MAX_DELAY, check_ttr};
use delaybridge_link::{BadReply, Fields};

/// Maximum number of jobs in one call.
pub const MAX_POP: usize = 100;
/// Maximum size of the bodies in a reply, in bytes; a single larger job is returned alone.
const MAX_POP_BYTES: usize = 4 << 20;
/// Maximum number of consecutive looks that find only unreadable jobs. A waiting consumer looks further.
const PASSED: usize = 20;
/// Number of arguments of release.lua for each job.
const RELEASE_ARGUMENTS: usize = 5;
/// Maximum length of a consumer's reason, in bytes.
const MAX_REASON: usize = 256;

/// The result of one look at a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Popped {
    /// The reserved jobs, the longest due first.
    pub jobs: Vec<Reserved>,
    /// The estimated time at which the next job is ready; a time in the past means now. `None` if none waits and none
    /// is reserved.
    pub next_ms: Option<i64>,
    /// Whether the topic is paused, and hands out nothing.
    pub paused: bool,
    /// The other jobs that a time limit has changed meanwhile.
    pub aged: Aged,
}

/// The way in which a consumer gives a job back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The attempt counts: after the last one the job is dead.
    Counted,
    /// The attempt does not count.
    Uncounted,
}

impl JobQueue {
    /// Reserves at most `count` ready jobs without waiting. `ttr` replaces the jobs' own time to run.
    ///
    /// If it is repeated after an unknown outcome, it reserves other jobs. Those of the first call come back when their
    /// time to run ends, or by [`recover`](JobQueue::recover).
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn pop_now(&self, topic: &Topic, count: usize, ttr: Option<Duration>) -> Result<Popped, JobError> {
        self.pop_as(topic, Token::random(), count, ttr).await
    }

    /// Returns the latest time at which a pop that is sent now may run, in ms by Redis's clock.
    pub(super) fn not_after(&self) -> i64 {
        let timeout = i64::try_from(self.command_timeout().as_millis()).unwrap_or(i64::MAX);
        self.now_ms().saturating_add(timeout)
    }

    /// Reserves jobs as [`pop_now`](JobQueue::pop_now) does, under this token, which no other call may have.
    pub async fn pop_as(
        &self,
        topic: &Topic,
        token: Token,
        count: usize,
        ttr: Option<Duration>,
    ) -> Result<Popped, JobError> {
        if let Some(ttr) = ttr {
            check_ttr(ttr)?;
        }
        let settings = self.settings().of(topic);
        let mut late = 0;
        let mut passed = 0;
        // After that time it does not run: see `recover`. The first reply corrects a wrong calendar of this machine.
        while late < 2 {
            let args = [
                number(self.not_after()),
                text(token.as_str()),
                number(count.clamp(1, MAX_POP) as u64),
                number(MAX_POP_BYTES as u64),
                or_empty(ttr.map(millis)),
                or_empty(settings.dead_max_len.map(number)),
                millis(settings.backoff),
                millis(settings.backoff_max),
            ];
            let reply = self.run_on_waiting(&self.shared.scripts.pop, topic, &args).await?;
            let mut fields = Fields::of("jobs_pop", reply)?;
            let word = fields.text()?;
            self.observe(&mut fields)?;
            if word != "late" {
                let popped = popped(topic, token, &mut fields)?;
                self.observed(topic, &popped.aged);
                self.counted(topic, JobOperation::Taken, popped.jobs.len() as u64);
                // All checked jobs may be unreadable. Then nothing is reserved under this token.
                let hidden = popped.jobs.is_empty() && popped.aged.set_aside > 0;
                if hidden && passed < PASSED && popped.next_ms.is_some_and(|next| next <= self.now_ms()) {
                    passed += 1;
                    continue;
                }
                return Ok(popped);
            }
            late += 1;
        }
        Err(JobError::Invalid("the script ran too late, twice: is Redis's clock being set?".to_owned()))
    }

    /// Finishes a job, which is removed. Returns [`JobError::NotFound`] if it is gone already, and so does a second
    /// call.
    ///
    /// # Errors
    ///
    /// Returns [`JobError::Conflict`] if the job is no longer reserved under this token.
    pub async fn finish(&self, id: &JobId, token: Token) -> Result<(), JobError> {
        let queue = self.clone();
        let topic = id.topic.clone();
        let send = move |jobs: Vec<_>| async move { queue.finish_all(&topic, &jobs).await };
        self.shared.finishes.call(&id.topic, (id.local.clone(), token), id.local.as_str().len(), send).await
    }

    /// Finishes several jobs of a topic; returns a result for each, in order.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn finish_all(
        &self,
        topic: &Topic,
        jobs: &[(LocalId, Token)],
    ) -> Result<Vec<Result<(), JobError>>, JobError> {
        let mut args = vec![or_empty(self.settings().of(topic).remember.map(millis))];
        args.extend(jobs.iter().flat_map(|(id, token)| [text(id.as_str()), text(token.as_str())]));
        let reply = self.run(&self.shared.scripts.finish, topic, &args).await?;
        let mut fields = Fields::of("jobs_finish", reply)?;
        self.observe(&mut fields)?;
        let letters = fields.bytes()?;
        if letters.len() != jobs.len() {
            return Err(BadReply { script: "jobs_finish", expected: "a letter for each job" }.into());
        }
        let answers: Vec<_> = letters.iter().map(|letter| settled("jobs_finish", *letter).map(drop)).collect();
        self.counted(topic, JobOperation::Finished, done(&answers));
        Ok(answers)
    }

    /// Releases a job, which is ready again after `delay`, or without one after the topic's back-off, if the attempt
    /// counts; or it is dead or gone, see [`Settled`]. Returns the new due time as well. A second call returns [`JobError::Conflict`].
    ///
    /// # Errors
    ///
    /// Returns [`JobError::Conflict`] or [`JobError::NotFound`]; or [`JobError::Invalid`] if its time to live ends before the
    /// delay is over: it stays reserved.
    pub async fn release(
        &self,
        id: &JobId,
        token: Token,
        delay: impl Into<Option<Duration>>,
        how: Release,
        reason: &str,
    ) -> Result<(Settled, i64), JobError> {
        let reason = if reason.is_empty() { "released" } else { reason };
        self.give_back(id, token, how.word(), delay.into(), reason).await
    }

    /// Makes a job dead, whatever tries it has left. A second call returns [`JobError::Conflict`].
    ///
    /// # Errors
    ///
    /// Returns [`JobError::Conflict`] or [`JobError::NotFound`].
    pub async fn bury(&self, id: &JobId, token: Token, reason: &str) -> Result<(), JobError> {
        let reason = if reason.is_empty() { "buried" } else { reason };
        self.give_back(id, token, "b", None, reason).await.map(drop)
    }

    async fn give_back(
        &self,
        id: &JobId,
        token: Token,
        how: &str,
        delay: Option<Duration>,
        reason: &str,
    ) -> Result<(Settled, i64), JobError> {
        let job = release_arguments((&id.local, token), how, delay, reason)?;
        let operation = if how == "b" { JobOperation::Buried } else { JobOperation::Released };
        let mut answers = self.release_with(&id.topic, operation, job.into()).await?;
        answers.pop().unwrap_or(Err(JobError::NotFound))
    }

    /// Releases several jobs of a topic; returns for each, in order, the result of [`release`](JobQueue::release).
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn release_all(
        &self,
        topic: &Topic,
        jobs: &[(LocalId, Token)],
        delay: impl Into<Option<Duration>>,
        how: Release,
        reason: &str,
    ) -> Result<Vec<Result<(Settled, i64), JobError>>, JobError> {
        let delay = delay.into();
        let reason = if reason.is_empty() { "released" } else { reason };
        let args = jobs.iter().map(|(id, token)| release_arguments((id, *token), how.word(), delay, reason));
        self.release_with(topic, JobOperation::Released, args.collect::<Result<Vec<_>, _>>()?.concat()).await
    }

    /// Releases jobs at once without counting the attempt, because no client received them.
    pub(super) async fn give_back_unseen(&self, topic: &Topic, jobs: &[(LocalId, Token)]) -> Result<(), JobError> {
        let one = |(id, token): &(LocalId, Token)| {
            [text(id.as_str()), text(token.as_str()), text("u"), number(0), text("no client received it")]
        };
        self.release_with(topic, JobOperation::Released, jobs.iter().flat_map(one).collect()).await.map(drop)
    }

    async fn release_with(
        &self,
        topic: &Topic,
        operation: JobOperation,
        jobs: Vec<Bytes>,
    ) -> Result<Vec<Result<(Settled, i64), JobError>>, JobError> {
        let count = jobs.len() / RELEASE_ARGUMENTS;
        let settings = self.settings().of(topic);
        let mut args = vec![or_empty(settings.dead_max_len.map(number)), text(topic.as_str())];
        args.extend([millis(settings.backoff), millis(settings.backoff_max)]);
        args.extend(jobs);
        let reply = self.run_on_waiting(&self.shared.scripts.release, topic, &args).await?;
        let mut fields = Fields::of("jobs_release", reply)?;
        self.observe(&mut fields)?;
        let answers = timed("jobs_release", count, &mut fields)?;
        self.counted(topic, operation, done(&answers));
        Ok(answers)
    }

    /// Restarts the time to run, which `ttr` replaces. Returns its new end. A second call restarts it once more.
    ///
    /// # Errors
    ///
    /// Returns [`JobError::Conflict`] or [`JobError::NotFound`].
    pub async fn touch(&self, id: &JobId, token: Token, ttr: Option<Duration>) -> Result<i64, JobError> {
        let mut answers = self.touch_all(&id.topic, &[(id.local.clone(), token)], ttr).await?;
        answers.pop().unwrap_or(Err(JobError::NotFound))
    }

    /// Restarts the times to run of several jobs of a topic; returns for each, in order, the result of
    /// [`touch`](JobQueue::touch).
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn touch_all(
        &self,
        topic: &Topic,
        jobs: &[(LocalId, Token)],
        ttr: Option<Duration>,
    ) -> Result<Vec<Result<i64, JobError>>, JobError> {
        ttr.map_or(Ok(()), check_ttr)?;
        let one = |(id, token): &(LocalId, Token)| [text(id.as_str()), text(token.as_str()), or_empty(ttr.map(millis))];
        let args: Vec<_> = jobs.iter().flat_map(one).collect();
        let reply = self.run(&self.shared.scripts.touch, topic, &args).await?;
        let mut fields = Fields::of("jobs_touch", reply)?;
        self.observe(&mut fields)?;
        let answers = timed("jobs_touch", jobs.len(), &mut fields)?;
        Ok(answers.into_iter().map(|answer| answer.map(|(_, end)| end)).collect())
    }

    /// Releases the jobs that a pop with a lost reply has reserved; returns their number. Call it only after that pop
    /// can run no more, which is one `command_timeout` after it was sent.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection. It may be repeated.
    pub async fn recover(&self, topic: &Topic, token: Token) -> Result<u64, JobError> {
        const PAGE: i64 = 500;
        let mut found = 0;
        let mut from = 0_i64;
        // Pages and their number are bounded; other jobs come back when their time to run ends.
        for _ in 0..200 {
            let args = [text(token.as_str()), number(from), number(PAGE), text(topic.as_str())];
            let reply = self.run_on_waiting(&self.shared.scripts.recover, topic, &args).await?;
            let mut fields = Fields::of("jobs_recover", reply)?;
            self.observe(&mut fields)?;
            found += u64::try_from(fields.int()?).unwrap_or(0);
            from = fields.int()?;
            if from < 0 {
                break;
            }
        }
        Ok(found)
    }
}

impl Release {
    /// Returns the word of release.lua.
    fn word(self) -> &'static str {
        match self {
            Release::Counted => "r",
            Release::Uncounted => "u",
        }
    }
}

fn release_arguments(
    (id, token): (&LocalId, Token),
    how: &str,
    delay: Option<Duration>,
    reason: &str,
) -> Result<[Bytes; RELEASE_ARGUMENTS], JobError> {
    if delay.is_some_and(|delay| delay > MAX_DELAY) {
        return Err(JobError::Invalid("the delay is above ten years".to_owned()));
    }
    let end = (0..=reason.len().min(MAX_REASON)).rev().find(|end| reason.is_char_boundary(*end)).unwrap_or(0);
    Ok([text(id.as_str()), text(token.as_str()), text(how), or_empty(delay.map(millis)), text(&reason[..end])])
}

/// The outcome of one job of several, with its time in ms.
type TimedOutcome = Result<(Settled, i64), JobError>;

/// Reads a letter and a time for each job.
fn timed(script: &'static str, jobs: usize, fields: &mut Fields) -> Result<Vec<TimedOutcome>, JobError> {
    let letters = fields.bytes()?;
    let mut times = fields.array()?;
    if letters.len() != jobs {
        return Err(BadReply { script, expected: "a letter for each job" }.into());
    }
    let mut answers = Vec::with_capacity(letters.len());
    for letter in letters {
        let time = times.int()?;
        answers.push(settled(script, letter).map(|settled| (settled, time)));
    }
    Ok(answers)
}

/// Returns the number of jobs that the operation was done with.
fn done<T>(answers: &[Result<T, JobError>]) -> u64 {
    answers.iter().filter(|answer| answer.is_ok()).count() as u64
}

fn settled(script: &'static str, letter: u8) -> Result<Settled, JobError> {
    match letter {
        b'y' => Ok(Settled::Done),
        b'd' => Ok(Settled::Dead),
        b'x' => Ok(Settled::Expired),
        b'c' => Err(JobError::Conflict),
        b'n' => Err(JobError::NotFound),
        b's' => Err(JobError::Invalid(
            "its time to live ends before the delay is over: give a shorter one, or bury it".into(),
        )),
        _ => Err(BadReply { script, expected: "y, d, x, c, n or s" }.into()),
    }
}

fn popped(topic: &Topic, token: Token, fields: &mut Fields) -> Result<Popped, BadReply> {
    let mut jobs = fields.array()?;
    let mut popped = Popped::default();
    while !jobs.is_empty() {
        let bad = BadReply { script: "jobs_pop", expected: "the id of a job" };
        let local: LocalId = jobs.text()?.parse().map_err(|_| bad)?;
        let unread = BadReply { script: "jobs_pop", expected: "a job's record of version 1" };
        let record = Record::read(&jobs.bytes()?).ok_or(unread)?;
        let mut count = || Ok::<_, BadReply>(u32::try_from(jobs.int()?).unwrap_or(u32::MAX));
        let attempt = count()?;
        let tries = count()?;
        let ttr_ms = count()?;
        let deadline_ms = jobs.int()?;
        let expires_ms = jobs.int()?;
        popped.jobs.push(Reserved {
            id: JobId { topic: topic.clone(), local },
            token,
            priority: record.priority,
            body: record.body,
            content_type: record.content_type,
            attempt,
            tries_left: tries.saturating_sub(attempt),
            ttr: Duration::from_millis(ttr_ms.into()),
            deadline_ms,
            added_ms: record.added_ms,
            expires_ms: Some(expires_ms).filter(|ms| *ms > 0),
        });
    }
    let due = fields.time_ms()?;
    let over = fields.time_ms()?;
    popped.aged = Aged::of(&mut fields.array()?)?;
    popped.paused = fields.int()? == 1;
    // A paused topic has no next job until it is resumed.
    popped.next_ms = due.into_iter().chain(over).min().filter(|_| !popped.paused);
    Ok(popped)
}
