//! The operations of operators on jobs and topics.

use std::time::Duration;

use bytes::Bytes;

use super::error::JobError;
use super::job::{Aged, JobOperation};
use super::keys::wake;
use super::name::{JobId, LocalId, Topic};
use super::queue::{JobQueue, millis, number, or_empty, text};
use delaybridge_core::carried::CONTENT_TYPE;
use delaybridge_link::{BadReply, Fields, Score};

/// Maximum number of jobs that one call redrives or purges.
pub const MAX_SWEEP: usize = 1_000;

/// Maximum number of unreadable dead jobs that one call skips.
const MAX_UNREADABLE: u64 = 100_000;

/// A selection of dead jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which<'a> {
    /// The oldest ones, at most this many.
    Oldest(usize),
    /// The jobs with these ids.
    Ids(&'a [LocalId]),
}

/// The result of emptying a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Emptied {
    /// Number of removed jobs.
    pub removed: u64,
    /// Number of jobs that still wait.
    pub left: u64,
}

/// The result of a tick: what it changed, and the sizes of the topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tick {
    /// The jobs that a time limit has changed.
    pub aged: Aged,
    /// Number of jobs that wait for their due time.
    pub delay: u64,
    /// Number of due jobs.
    pub ready: u64,
    /// Number of reserved jobs.
    pub reserved: u64,
    /// Number of dead jobs.
    pub dead: u64,
    /// Time since the first ready job became ready, in ms.
    pub oldest_ready_ms: Option<i64>,
    /// Whether there is more to do than one call does.
    pub more: bool,
    /// Whether the topic is paused.
    pub paused: bool,
    /// Time until the next firing of a recurring job; zero if one is due.
    pub next_firing: Option<Duration>,
    /// Time until a job falls due or a time limit is reached, whichever is first; zero if that has happened. `None` if
    /// nothing changes by itself.
    pub next_change: Option<Duration>,
}

impl JobQueue {
    /// Removes a job for good, whatever its state. Its consumer learns of it when it settles the job. A second call
    /// returns [`JobError::NotFound`].
    ///
    /// # Errors
    ///
    /// Returns [`JobError::NotFound`] if there is no such job.
    pub async fn delete(&self, id: &JobId) -> Result<(), JobError> {
        let remember = or_empty(self.settings().of(&id.topic).remember.map(millis));
        let args = [remember, text(CONTENT_TYPE), text(id.local.as_str())];
        let reply = self.run_on_waiting(&self.shared.scripts.delete, &id.topic, &args).await?;
        let mut fields = Fields::of("jobs_delete", reply)?;
        self.observe(&mut fields)?;
        match &fields.bytes()?[..] {
            b"w" | b"r" | b"d" | b"f" => {
                self.counted(&id.topic, JobOperation::Deleted, 1);
                Ok(())
            }
            b"n" => Err(JobError::NotFound),
            _ => Err(BadReply { script: "jobs_delete", expected: "w, r, d, f or n" }.into()),
        }
    }

    /// Makes dead jobs ready again with all of their tries, and with `ttl` from now on, or the same time to live as
    /// before. Returns their number, at most [`MAX_SWEEP`] a call. Unreadable jobs stay dead, and do not hide others.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection; with large jobs some may have been made ready. With ids it may be repeated.
    pub async fn redrive(&self, topic: &Topic, which: Which<'_>, ttl: Option<Duration>) -> Result<u64, JobError> {
        let (most, mut ids) = which.arguments()?;
        let named = !ids.is_empty();
        let mut left = most.max(ids.len() as u64);
        let mut moved = 0;
        let mut stay = 0;
        // A script reads at most 512 KiB of records; each continues after the last. Not after the end: a call that is refused there
        // would not say what was moved before it.
        while left > 0 && stay < MAX_UNREADABLE {
            let mut args = vec![text(topic.as_str()), or_empty(ttl.map(millis)), number(left), number(stay)];
            args.extend(ids.iter().cloned());
            let reply = self.run_on_waiting(&self.shared.scripts.redrive, topic, &args).await?;
            let mut fields = Fields::of("jobs_redrive", reply)?;
            self.observe(&mut fields)?;
            let letters = fields.bytes()?;
            let looked = letters.len() as u64;
            let is_all = fields.int()? == 0 && (named || looked < left);
            let of = |letter: u8| letters.iter().filter(|known| **known == letter).count() as u64;
            moved += of(b'y');
            stay += if named { 0 } else { of(b'u') };
            left = left.saturating_sub(looked - if named { 0 } else { of(b'u') });
            if is_all {
                break;
            }
            if named {
                ids.drain(..letters.len().min(ids.len()));
            }
        }
        Ok(moved)
    }

    /// Removes dead jobs for good; returns their number, at most [`MAX_SWEEP`] a call.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection. With ids it may be repeated.
    pub async fn purge(&self, topic: &Topic, which: Which<'_>) -> Result<u64, JobError> {
        let (most, ids) = which.arguments()?;
        let mut args = vec![Bytes::new(), number(most)];
        args.extend(ids);
        let reply = self.run(&self.shared.scripts.purge, topic, &args).await?;
        let mut fields = Fields::of("jobs_purge", reply)?;
        self.observe(&mut fields)?;
        Ok(u64::try_from(fields.int()?).unwrap_or(0))
    }

    /// Pauses a topic: it hands out nothing. Reserved jobs may still be finished, and jobs may be added.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection. It may be repeated.
    pub async fn pause(&self, topic: &Topic) -> Result<(), JobError> {
        self.enter(topic, false).await?;
        let mut command = redis::cmd("HSET");
        command.arg(&self.keys(topic).topic()[..]).arg("paused").arg(1);
        self.conn(self.keys(topic).topic()).await?.query::<()>(&command).await?;
        // Every daemon looks at the topic.
        self.announce(topic).await
    }

    /// Ends a [`pause`](JobQueue::pause).
    ///
    /// # Errors
    ///
    /// Returns an error of the connection. It may be repeated.
    pub async fn resume(&self, topic: &Topic) -> Result<(), JobError> {
        let mut command = redis::cmd("HDEL");
        command.arg(&self.keys(topic).topic()[..]).arg("paused");
        self.conn(self.keys(topic).topic()).await?.query::<()>(&command).await?;
        self.announce(topic).await
    }

    /// Removes waiting jobs for good, at most `most`, and none that is added meanwhile as long as others wait. Ids are not
    /// remembered.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection; some of the jobs may be gone. It may be repeated.
    pub async fn empty(&self, topic: &Topic, most: u64) -> Result<Emptied, JobError> {
        let mut emptied = Emptied { removed: 0, left: 0 };
        let mut left = most;
        loop {
            let args = [number(left.min(MAX_SWEEP as u64))];
            let reply = self.run_on_waiting(&self.shared.scripts.empty, topic, &args).await?;
            let mut fields = Fields::of("jobs_empty", reply)?;
            self.observe(&mut fields)?;
            let removed = u64::try_from(fields.int()?).unwrap_or(0);
            self.counted(topic, JobOperation::Deleted, removed);
            let first = emptied.removed == 0 && left == most;
            emptied.removed += removed;
            emptied.left = u64::try_from(fields.int()?).unwrap_or(0);
            // As many as waited when it began.
            left = if first { most.min(removed + emptied.left) } else { left } - removed.min(left);
            if left == 0 || emptied.left == 0 {
                return Ok(emptied);
            }
        }
    }

    /// Removes a topic with all of its jobs at once; returns their number. Their consumers learn of it when they settle.
    /// Unless `force`, a topic with reserved jobs, or with jobs that a queue delivers, stays as it is. A second call
    /// returns 0.
    ///
    /// # Errors
    ///
    /// Returns [`JobError::InUse`], or an error of the connection.
    pub async fn destroy(&self, topic: &Topic, force: bool) -> Result<u64, JobError> {
        let args = [text(if force { "1" } else { "" })];
        let reply = self.run_on_all(&self.shared.scripts.destroy, topic, &args).await?;
        let mut fields = Fields::of("jobs_destroy", reply)?;
        let word = fields.text()?;
        self.observe(&mut fields)?;
        let mut count = || Ok::<_, BadReply>(u64::try_from(fields.int()?).unwrap_or(0));
        match word.as_str() {
            "y" => {
                let removed = count()?;
                self.counted(topic, JobOperation::Deleted, removed);
                self.leave(topic).await?;
                Ok(removed)
            }
            "b" => Err(JobError::InUse { topic: topic.clone(), reserved: count()?, forwarding: count()? }),
            _ => Err(BadReply { script: "jobs_destroy", expected: "y or b" }.into()),
        }
    }

    /// Records that an export of this topic begins: no job is changed until it has ended. It may be repeated.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn open_export(&self, topic: &Topic) -> Result<(), JobError> {
        let mut command = redis::cmd("HSETNX");
        command.arg(&self.keys(topic).topic()[..]).arg("exporting").arg("");
        Ok(self.conn(self.keys(topic).topic()).await?.query::<()>(&command).await?)
    }

    /// Records that the export of this topic has ended. It may be repeated.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn close_export(&self, topic: &Topic) -> Result<(), JobError> {
        let mut command = redis::cmd("HDEL");
        command.arg(&self.keys(topic).topic()[..]).arg("exporting");
        Ok(self.conn(self.keys(topic).topic()).await?.query::<()>(&command).await?)
    }

    /// Records that this job is being exported; returns whether it was recorded before. Use it only while the topic is
    /// paused. It may be repeated.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn begin_export(&self, topic: &Topic, id: &LocalId) -> Result<bool, JobError> {
        let conn = self.conn(self.keys(topic).topic()).await?;
        let hash = self.keys(topic).topic().clone();
        let mut last = redis::cmd("HGET");
        last.arg(&hash[..]).arg("exporting");
        let interrupted = conn.query::<Option<String>>(&last).await?.as_deref() == Some(id.as_str());
        let mut note = redis::cmd("HSET");
        note.arg(&hash[..]).arg("exporting").arg(id.as_str());
        conn.query::<()>(&note).await?;
        Ok(interrupted)
    }

    /// Exports a waiting job to a plain sorted set: copies it as a member, then removes it. Returns `false` if such a
    /// member exists and is not this job's copy. Use it only while the topic is paused. It may be repeated, because the
    /// topic remembers which job is being exported.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn export_member(&self, key: &str, score: Score, id: &JobId, body: &Bytes) -> Result<bool, JobError> {
        let interrupted = self.begin_export(&id.topic, &id.local).await?;
        let mut copy = redis::cmd("ZADD");
        copy.arg(key).arg("NX").arg(score).arg(&body[..]);
        let copied = self.conn(key).await?.query::<u64>(&copy).await? == 1;
        if !copied && !interrupted {
            return Ok(false);
        }
        self.end_export(id).await?;
        Ok(true)
    }

    /// Removes a job whose copy has arrived. It may be repeated.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn end_export(&self, id: &JobId) -> Result<(), JobError> {
        match self.delete(id).await {
            Ok(()) | Err(JobError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Wakes the consumers of this topic in all daemons.
    pub(super) async fn announce(&self, topic: &Topic) -> Result<(), JobError> {
        let mut command = redis::cmd("PUBLISH");
        command.arg(wake(self.prefix())).arg(topic.as_str());
        Ok(self.conn(self.keys(topic).topic()).await?.query::<()>(&command).await?)
    }

    /// Applies the time limits of a topic's jobs, at most `most` of each kind. Every daemon does it where a limit may have been
    /// reached; without a tick and a `pop`, a topic changes nothing and loses nothing.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection. It may be repeated.
    pub async fn tick(&self, topic: &Topic, most: usize) -> Result<Tick, JobError> {
        let settings = self.settings().of(topic);
        let args = [
            number(most as u64),
            or_empty(settings.dead_max_len.map(number)),
            or_empty(settings.dead_ttl.map(millis)),
            text(topic.as_str()),
            millis(settings.backoff),
            millis(settings.backoff_max),
        ];
        let reply = self.run_on_all(&self.shared.scripts.tick, topic, &args).await?;
        let mut fields = Fields::of("jobs_tick", reply)?;
        let now = self.observe(&mut fields)?;
        let aged = Aged::of(&mut fields.array()?)?;
        self.observed(topic, &aged);
        let mut count = || Ok::<_, BadReply>(u64::try_from(fields.int()?).unwrap_or(0));
        let delay = count()?;
        let ready = count()?;
        let reserved = count()?;
        let dead = count()?;
        let head = fields.time_ms()?;
        let oldest_ready_ms = head.filter(|head| *head <= now).map(|head| now.saturating_sub(head));
        let more = fields.int()? == 1;
        let paused = fields.int()? == 1;
        let until = |at: i64| Duration::from_millis(u64::try_from(at.saturating_sub(now)).unwrap_or(0));
        let next_firing = fields.time_ms()?.map(until);
        let next_change = fields.time_ms()?.into_iter().chain(head.filter(|head| *head > now)).min().map(until);
        Ok(Tick { aged, delay, ready, reserved, dead, oldest_ready_ms, more, paused, next_firing, next_change })
    }
}

/// Maximum number of topics in a call of [`counts`](JobQueue::counts): its script takes less than a millisecond.
const COUNTED_AT_ONCE: usize = 250;

/// The numbers of a topic's jobs that are waiting, reserved and dead; -1 where a key has another type.
pub type Counts = [i64; 3];

impl JobQueue {
    /// Counts the jobs of these topics, in the order of the topics: many topics in one call, where one server has all of them.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn counts(&self, topics: &[Topic]) -> Result<Vec<Counts>, JobError> {
        // The topics of a cluster are in different slots.
        let at_once = if self.shared.redis.is_cluster() { 1 } else { COUNTED_AT_ONCE };
        let mut counts = Vec::with_capacity(topics.len());
        for some in topics.chunks(at_once) {
            let keys: Vec<_> = some.iter().map(|topic| self.keys(topic)).collect();
            let keys: Vec<_> = keys.iter().flat_map(|keys| [keys.due(), keys.reserved(), keys.dead()]).collect();
            let Some(first) = keys.first() else { continue };
            let reply = self.conn(first).await?.script(&self.shared.scripts.counts, &keys, &[] as &[Bytes]).await?;
            let mut fields = Fields::of("jobs_counts", reply)?;
            for _ in some {
                counts.push([fields.int()?, fields.int()?, fields.int()?]);
            }
        }
        Ok(counts)
    }
}

impl Which<'_> {
    fn arguments(self) -> Result<(u64, Vec<Bytes>), JobError> {
        match self {
            Which::Oldest(most) => Ok((most.clamp(1, MAX_SWEEP) as u64, Vec::new())),
            // Without ids the script would take the oldest jobs.
            Which::Ids([]) => Err(JobError::Invalid("no ids are given".to_owned())),
            Which::Ids(ids) if ids.len() > MAX_SWEEP => {
                Err(JobError::Invalid(format!("{} ids at once: at most {MAX_SWEEP}", ids.len())))
            }
            Which::Ids(ids) => Ok((0, ids.iter().map(|id| text(id.as_str())).collect())),
        }
    }
}
