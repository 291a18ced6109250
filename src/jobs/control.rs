//! What an operator does with jobs and topics.

use std::time::Duration;

use bytes::Bytes;

use super::error::JobError;
use super::keys::Keys;
use super::name::{JobId, LocalId, Topic};
use super::queue::{JobQueue, millis, number, or_empty, text};
use super::reserve::Aged;
use crate::link::{BadReply, Fields, Score};

/// Most jobs that one call redrives or purges.
pub const MAX_SWEEP: usize = 1_000;

/// Dead jobs that cannot be read, and that one call passes over.
const MAX_UNREADABLE: u64 = 100_000;

/// Dead jobs that are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which<'a> {
    /// The oldest ones, at most so many.
    Oldest(usize),
    /// These.
    Ids(&'a [LocalId]),
}

/// What a tick did, and what it saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tick {
    /// What time did to jobs.
    pub aged: Aged,
    /// Waiting for their due time.
    pub delay: u64,
    /// Due.
    pub ready: u64,
    /// Reserved.
    pub reserved: u64,
    /// Dead.
    pub dead: u64,
    /// How long the first ready job has been ready, milliseconds.
    pub oldest_ready_ms: Option<i64>,
    /// Whether there is more to do than one call does.
    pub more: bool,
    /// Whether nothing is handed out.
    pub paused: bool,
}

impl JobQueue {
    /// Removes a job for good, whatever its state. A consumer that has it learns it when it settles. A second call answers
    /// [`JobError::NotFound`].
    ///
    /// # Errors
    ///
    /// [`JobError::NotFound`].
    pub async fn delete(&self, id: &JobId) -> Result<(), JobError> {
        let reply = self.run(&self.shared.scripts.delete, &id.topic, &[text(id.local.as_str())]).await?;
        let mut fields = Fields::of("jobs_delete", reply)?;
        self.observe(&mut fields)?;
        match &fields.bytes()?[..] {
            b"w" | b"r" | b"d" | b"f" => Ok(()),
            b"n" => Err(JobError::NotFound),
            _ => Err(BadReply { script: "jobs_delete", expected: "w, r, d, f or n" }.into()),
        }
    }

    /// Dead jobs wait again, with all of their tries and, if they had one, the same time to live from now on, or this one.
    /// Answers how many. At most [`MAX_SWEEP`] a call. Jobs that cannot be read stay dead, and hide no others.
    ///
    /// # Errors
    ///
    /// Those of the connection. With ids it may be sent again.
    pub async fn redrive(&self, topic: &Topic, which: Which<'_>, ttl: Option<Duration>) -> Result<u64, JobError> {
        let (most, mut ids) = which.arguments()?;
        let (named, mut left, mut moved, mut stay) = (!ids.is_empty(), most.max(ids.len() as u64), 0, 0);
        // A script reads no more than 512 KiB of records; each goes on behind the last.
        while left > 0 && stay < MAX_UNREADABLE {
            let mut args = vec![text(topic.as_str()), or_empty(ttl.map(millis)), number(left), number(stay)];
            args.extend(ids.iter().cloned());
            let reply = self.run(&self.shared.scripts.redrive, topic, &args).await?;
            let mut fields = Fields::of("jobs_redrive", reply)?;
            self.observe(&mut fields)?;
            let letters = fields.bytes()?;
            let of = |letter: u8| letters.iter().filter(|known| **known == letter).count() as u64;
            moved += of(b'y');
            stay += if named { 0 } else { of(b'u') };
            left = left.saturating_sub(letters.len() as u64 - if named { 0 } else { of(b'u') });
            if letters.is_empty() {
                break;
            }
            if named {
                ids.drain(..letters.len().min(ids.len()));
            }
        }
        Ok(moved)
    }

    /// Removes dead jobs for good; answers how many there were. At most [`MAX_SWEEP`] a call.
    ///
    /// # Errors
    ///
    /// Those of the connection. With ids it may be sent again.
    pub async fn purge(&self, topic: &Topic, which: Which<'_>) -> Result<u64, JobError> {
        let (most, ids) = which.arguments()?;
        let mut args = vec![Bytes::new(), number(most)];
        args.extend(ids);
        let reply = self.run(&self.shared.scripts.purge, topic, &args).await?;
        let mut fields = Fields::of("jobs_purge", reply)?;
        self.observe(&mut fields)?;
        Ok(u64::try_from(fields.int()?).unwrap_or(0))
    }

    /// From now on nothing of the topic is handed out. What is reserved may be finished, jobs may be added.
    ///
    /// # Errors
    ///
    /// Those of the connection. It may be sent again.
    pub async fn pause(&self, topic: &Topic) -> Result<(), JobError> {
        self.enter(topic, false).await?;
        let mut command = redis::cmd("HSET");
        command.arg(&Keys::of(topic).topic()[..]).arg("paused").arg(1);
        self.conn(Keys::of(topic).topic()).await?.query::<()>(&command).await?;
        // Every daemon looks at the topic.
        self.announce(topic).await
    }

    /// The opposite of [`pause`](JobQueue::pause).
    ///
    /// # Errors
    ///
    /// Those of the connection. It may be sent again.
    pub async fn resume(&self, topic: &Topic) -> Result<(), JobError> {
        let mut command = redis::cmd("HDEL");
        command.arg(&Keys::of(topic).topic()[..]).arg("paused");
        self.conn(Keys::of(topic).topic()).await?.query::<()>(&command).await?;
        self.announce(topic).await
    }

    /// Removes a topic with all of its jobs, at once. Consumers that have some learn it when they settle.
    ///
    /// # Errors
    ///
    /// Those of the connection. It may be sent again.
    pub async fn destroy(&self, topic: &Topic) -> Result<(), JobError> {
        let mut command = redis::cmd("UNLINK");
        Keys::of(topic).all().iter().for_each(|key| {
            command.arg(&key[..]);
        });
        self.conn(Keys::of(topic).topic()).await?.query::<()>(&command).await?;
        self.leave(topic).await
    }

    /// Notes that a copy of this job is on its way to where it is exported to; whether that was noted before. Only while the topic
    /// is paused. It may be sent again.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn begin_export(&self, topic: &Topic, id: &LocalId) -> Result<bool, JobError> {
        let conn = self.conn(Keys::of(topic).topic()).await?;
        let hash = Keys::of(topic).topic().clone();
        let mut last = redis::cmd("HGET");
        last.arg(&hash[..]).arg("exporting");
        let interrupted = conn.query::<Option<String>>(&last).await?.as_deref() == Some(id.as_str());
        let mut note = redis::cmd("HSET");
        note.arg(&hash[..]).arg("exporting").arg(id.as_str());
        conn.query::<()>(&note).await?;
        Ok(interrupted)
    }

    /// Makes a job that waits a member of a plain sorted set, which is copied first; `false` if such a member is there
    /// already and is not this job's copy. Only while the topic is paused. It may be sent again: the topic remembers
    /// whose copy is on its way.
    ///
    /// # Errors
    ///
    /// Those of the connection.
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

    /// Removes a job whose copy is where it is exported to. It may be sent again.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn end_export(&self, id: &JobId) -> Result<(), JobError> {
        match self.delete(id).await {
            Ok(()) | Err(JobError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Wakes the consumers of this topic, in all daemons.
    pub(super) async fn announce(&self, topic: &Topic) -> Result<(), JobError> {
        let mut command = redis::cmd("PUBLISH");
        command.arg(super::keys::WAKE).arg(topic.as_str());
        Ok(self.conn(Keys::of(topic).topic()).await?.query::<()>(&command).await?)
    }

    /// What time does to the jobs of a topic, at most `most` of each kind. Every daemon does it once a second; without
    /// a tick and a `pop`, a topic changes nothing and loses nothing.
    ///
    /// # Errors
    ///
    /// Those of the connection. It may be sent again.
    pub async fn tick(&self, topic: &Topic, most: usize) -> Result<Tick, JobError> {
        let settings = self.settings().of(topic);
        let args = [
            number(most as u64),
            or_empty(settings.dead_max_len.map(number)),
            or_empty(settings.dead_ttl.map(millis)),
            text(topic.as_str()),
        ];
        let reply = self.run(&self.shared.scripts.tick, topic, &args).await?;
        let mut fields = Fields::of("jobs_tick", reply)?;
        let now = self.observe(&mut fields)?;
        let aged = Aged::of(&mut fields.array()?)?;
        self.observed(topic, &aged);
        let mut count = || Ok::<_, BadReply>(u64::try_from(fields.int()?).unwrap_or(0));
        let (delay, ready, reserved, dead) = (count()?, count()?, count()?, count()?);
        let oldest_ready_ms = fields.time_ms()?.filter(|head| *head <= now).map(|head| now.saturating_sub(head));
        let (more, paused) = (fields.int()? == 1, fields.int()? == 1);
        Ok(Tick { aged, delay, ready, reserved, dead, oldest_ready_ms, more, paused })
    }
}

impl Which<'_> {
    fn arguments(self) -> Result<(u64, Vec<Bytes>), JobError> {
        match self {
            Which::Oldest(most) => Ok((most.clamp(1, MAX_SWEEP) as u64, Vec::new())),
            // No ids would mean the oldest ones to the script.
            Which::Ids([]) => Err(JobError::Invalid("no ids are given".to_owned())),
            Which::Ids(ids) if ids.len() > MAX_SWEEP => {
                Err(JobError::Invalid(format!("{} ids at once: at most {MAX_SWEEP}", ids.len())))
            }
            Which::Ids(ids) => Ok((0, ids.iter().map(|id| text(id.as_str())).collect())),
        }
    }
}
