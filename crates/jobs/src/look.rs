//! Read-only views of jobs and topics.

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::JobError;
use super::job::JobState;
use super::name::{JobId, LocalId, Topic};
use super::queue::{JobQueue, number, text};
use super::record::{Record, State, Unreadable};
use delaybridge_link::{BadReply, Fields};

/// Maximum number of jobs in a page.
pub const MAX_PAGE: usize = 100;
/// Maximum size of the bodies in a page, in bytes; a single larger job is returned alone.
const MAX_PAGE_BYTES: u32 = 4 << 20;
/// Number of jobs that one script checks for unreadable ones.
const LOOKED: u32 = 1_000;
/// Minimum number of members that one read of the index asks for, so that invalid names do not cost a round trip each.
const MIN_PAGE: usize = 100;
/// Reasons shown for unreadable jobs.
const ID_UNREADABLE: &str = "another program wrote it: its id is none of the job queue";
const RECORD_UNREADABLE: &str = "its record was cut off, or is of another version: the body shown is the whole record";
const STATE_UNREADABLE: &str = "its state was cut off, or is of another version; a redrive begins a new one";

/// All information about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobInfo {
    /// The id of the job.
    pub id: JobId,
    /// The state of the job.
    pub state: JobState,
    /// The due time; of a reserved job, the end of its time to run; of a dead one, the time of its death; of one that a
    /// queue delivers, now. In ms.
    pub time_ms: i64,
    /// The time at which it was added, in ms.
    pub added_ms: i64,
    /// The end of its time to live, in ms.
    pub expires_ms: Option<i64>,
    /// The time at which it was last handed out, in ms.
    pub reserved_ms: Option<i64>,
    /// The priority.
    pub priority: u8,
    /// Number of times that it was handed out.
    pub attempts: u32,
    /// Number of times that it is handed out before it is dead.
    pub tries: u32,
    /// The time to run, in ms.
    pub ttr_ms: u32,
    /// The reason why its last reservation ended: `ttr`, or the consumer's text. Empty if none has ended.
    pub reason: String,
    /// Whether the client chose the id.
    pub own_id: bool,
    /// The media type that the client declared.
    pub content_type: String,
    /// The body; of an unreadable job, all bytes of its record.
    pub body: Bytes,
    /// Whether this version can read the job. If not, only id, state, time, reason and bytes are known.
    pub readable: bool,
}

/// A page of the jobs of one state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobsPage {
    /// The jobs, in the order of their times.
    pub jobs: Vec<JobInfo>,
    /// The number of jobs before the next page; `None` after the last.
    pub next: Option<u64>,
}

/// A page of the index of topics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopicsPage {
    /// The topics in alphabetical order.
    pub topics: Vec<Topic>,
    /// Number of members among them that are not topic names; another program wrote them.
    pub unreadable: u64,
    /// The cursor of the next page; `None` after the last.
    pub next: Option<Bytes>,
}

/// The sizes of a topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sizes {
    /// Number of jobs that wait for their due time.
    pub delay: u64,
    /// Number of due jobs.
    pub ready: u64,
    /// Number of reserved jobs.
    pub reserved: u64,
    /// Number of reserved jobs whose time to run has ended.
    #[serde(skip)]
    pub overdue: u64,
    /// Number of dead jobs.
    pub dead: u64,
    /// Time since the first ready job became ready, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_ready_ms: Option<i64>,
    /// The due time of the next job that is not ready, in ms since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_due_ms: Option<i64>,
    /// The time at which the oldest dead job died, in ms since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_dead_ms: Option<i64>,
    /// Whether the topic is paused.
    pub paused: bool,
    /// Whether the topic exists: something was added since it was created or last destroyed.
    #[serde(skip)]
    pub exists: bool,
}

impl JobQueue {
    /// Reads one job with its body; `None` if there is no job with this id.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn get(&self, id: &JobId) -> Result<Option<JobInfo>, JobError> {
        let reply = self.run(&self.shared.scripts.get, &id.topic, &[text(id.local.as_str())]).await?;
        let mut fields = Fields::of("jobs_get", reply)?;
        let now = self.observe(&mut fields)?;
        match fields.text()?.as_str() {
            "?" | "g" => Ok(None),
            letter => Ok(Some(info("jobs_get", id.topic.clone(), id.local.clone(), now, letter, &mut fields)?)),
        }
    }

    /// Returns whether there is a job with this id.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn has(&self, id: &JobId) -> Result<bool, JobError> {
        let records = self.keys(&id.topic).records().clone();
        let mut command = redis::cmd("HEXISTS");
        command.arg(&records[..]).arg(id.local.as_str());
        Ok(self.conn(&records).await?.query(&command).await?)
    }

    /// Lists jobs of one state in the order of their times: at most `count`, after the first `skip`. Large jobs make the page
    /// shorter.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn peek(&self, topic: &Topic, state: JobState, skip: u64, count: usize) -> Result<JobsPage, JobError> {
        let count = count.clamp(1, MAX_PAGE) as u64;
        let args = [text(state.as_str()), number(skip), number(count), number(MAX_PAGE_BYTES)];
        let reply = self.run(&self.shared.scripts.peek, topic, &args).await?;
        let mut fields = Fields::of("jobs_peek", reply)?;
        let now = self.observe(&mut fields)?;
        let mut rows = fields.array()?;
        let mut jobs = Vec::new();
        while !rows.is_empty() {
            let id = rows.bytes()?;
            let letter = rows.text()?;
            let local = LocalId::shown(&id);
            let own = local.as_str().as_bytes() == &id[..];
            let job = info("jobs_peek", topic.clone(), local, now, &letter, &mut rows)?;
            jobs.push(if own { job } else { JobInfo { readable: false, reason: ID_UNREADABLE.to_owned(), ..job } });
        }
        let next = (fields.int()? == 1).then(|| skip.saturating_add(jobs.len() as u64));
        Ok(JobsPage { jobs, next })
    }

    /// Checks jobs of one state after the first `skip`: returns the number of checked jobs, which is zero at the end,
    /// and the ids of those that this version cannot read.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn unreadable(&self, topic: &Topic, state: JobState, skip: u64) -> Result<(u64, Vec<LocalId>), JobError> {
        let args = [text(state.as_str()), number(skip), number(LOOKED), number(MAX_PAGE_BYTES)];
        let reply = self.run(&self.shared.scripts.unreadable, topic, &args).await?;
        let mut fields = Fields::of("jobs_unreadable", reply)?;
        self.observe(&mut fields)?;
        let looked = u64::try_from(fields.int()?).unwrap_or(0);
        Ok((looked, fields.all_bytes()?.iter().map(|id| LocalId::shown(id)).collect()))
    }

    /// Counts the jobs of a topic by state.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn sizes(&self, topic: &Topic) -> Result<Sizes, JobError> {
        let reply = self.run(&self.shared.scripts.stats, topic, &[] as &[Bytes]).await?;
        let mut fields = Fields::of("jobs_stats", reply)?;
        let now = self.observe(&mut fields)?;
        let mut count = || Ok::<_, BadReply>(u64::try_from(fields.int()?).unwrap_or(0));
        let delay = count()?;
        let ready = count()?;
        let reserved = count()?;
        let overdue = count()?;
        let dead = count()?;
        let head = fields.time_ms()?;
        let oldest_dead_ms = fields.time_ms()?;
        Ok(Sizes {
            delay,
            ready,
            reserved,
            overdue,
            dead,
            oldest_ready_ms: head.filter(|head| *head <= now).map(|head| now.saturating_sub(head)),
            next_due_ms: head.filter(|head| *head > now),
            oldest_dead_ms,
            paused: fields.int()? == 1,
            exists: fields.int()? == 1,
        })
    }

    /// Lists topics in alphabetical order, at most `count`, after this one. Fewer than `count` are all that exist:
    /// invalid names in the index do not hide any.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn topics(&self, after: Option<&Topic>, count: usize) -> Result<Vec<Topic>, JobError> {
        let mut from = after.map(|topic| text(topic.as_str()));
        let mut topics = Vec::new();
        loop {
            let page = self.topics_page(from.as_ref(), count.max(MIN_PAGE)).await?;
            topics.extend(page.topics);
            from = page.next;
            if topics.len() >= count || from.is_none() {
                break;
            }
        }
        topics.truncate(count);
        Ok(topics)
    }

    /// Counts the members of the index of topics.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn index_size(&self) -> Result<u64, JobError> {
        let mut command = redis::cmd("ZCARD");
        command.arg(self.index());
        Ok(self.conn(self.index()).await?.query(&command).await?)
    }

    /// Reads the topics among `count` members of the index, after this member.
    ///
    /// # Errors
    ///
    /// Returns an error of the connection.
    pub async fn topics_page(&self, after: Option<&Bytes>, count: usize) -> Result<TopicsPage, JobError> {
        let from = after.map_or_else(|| Bytes::from_static(b"-"), |after| [b"(", &after[..]].concat().into());
        let mut command = redis::cmd("ZRANGE");
        command.arg(self.index()).arg(&from[..]).arg("+").arg("BYLEX").arg("LIMIT").arg(0).arg(count);
        let members: Vec<Vec<u8>> = self.conn(self.index()).await?.query(&command).await?;
        let read = members.len();
        let next = members.last().filter(|_| read == count).cloned().map(Bytes::from);
        let name = |member: Vec<u8>| String::from_utf8(member).ok()?.parse().ok();
        let topics: Vec<Topic> = members.into_iter().filter_map(name).collect();
        Ok(TopicsPage { unreadable: (read - topics.len()) as u64, topics, next })
    }
}

fn info(
    script: &'static str,
    topic: Topic,
    local: LocalId,
    now: i64,
    letter: &str,
    fields: &mut Fields,
) -> Result<JobInfo, BadReply> {
    let time_ms = fields.time_ms()?;
    if time_ms.is_none() && letter != "f" {
        return Err(BadReply { script, expected: "a time" });
    }
    let time_ms = time_ms.unwrap_or(now);
    let state = match letter {
        "w" if time_ms > now => JobState::Delay,
        "w" => JobState::Ready,
        "r" => JobState::Reserved,
        "d" => JobState::Dead,
        "f" => JobState::Forwarding,
        _ => return Err(BadReply { script, expected: "w, r, d or f" }),
    };
    let bytes = fields.bytes()?;
    let changed = fields.bytes()?;
    let id = JobId { topic, local };
    let (record, changed) = match (Record::read(&bytes), State::read(&changed)) {
        (Some(record), Ok(changed)) => (record, changed),
        (None, _) => return Ok(unreadable(id, state, time_ms, RECORD_UNREADABLE, bytes)),
        (Some(record), Err(Unreadable)) => {
            return Ok(unreadable(id, state, time_ms, STATE_UNREADABLE, record.body));
        }
    };
    let (expires_ms, ttr_ms, tries) = match &changed {
        Some(state) => (state.expires_ms, state.ttr_ms, state.tries),
        None => (record.expires_ms, record.ttr_ms, record.tries),
    };
    Ok(JobInfo {
        id,
        state,
        time_ms,
        added_ms: record.added_ms,
        expires_ms,
        reserved_ms: changed.as_ref().map(|state| state.reserved_ms),
        priority: record.priority,
        attempts: changed.as_ref().map_or(0, |state| state.attempts),
        tries,
        ttr_ms,
        reason: changed.map(|state| state.reason).unwrap_or_default(),
        own_id: record.own_id,
        content_type: record.content_type,
        body: record.body,
        readable: true,
    })
}

/// Builds the information about an unreadable job: its id, state, time and bytes.
fn unreadable(id: JobId, state: JobState, time_ms: i64, reason: &str, body: Bytes) -> JobInfo {
    JobInfo {
        id,
        state,
        time_ms,
        added_ms: 0,
        expires_ms: None,
        reserved_ms: None,
        priority: 0,
        attempts: 0,
        tries: 0,
        ttr_ms: 0,
        reason: reason.to_owned(),
        own_id: false,
        content_type: String::new(),
        body,
        readable: false,
    }
}
