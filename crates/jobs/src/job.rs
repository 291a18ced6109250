//! The jobs of callers: to be added, added, reserved, settled.

use std::time::Duration;

use bytes::Bytes;

use super::name::{JobId, LocalId, Token};
use super::unique::Unique;
use delaybridge_core::message::LATEST_MS;
use delaybridge_link::{BadReply, Fields};

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// Waiting for its due time.
    Delay,
    /// Due.
    Ready,
    /// Reserved by a consumer.
    Reserved,
    /// Out of tries, or buried.
    Dead,
    /// Claimed by a queue of the configuration, which delivers it to its destinations.
    Forwarding,
}

impl JobState {
    /// The states that can be listed, in the order of a job's life.
    pub const ALL: [JobState; 4] = [JobState::Delay, JobState::Ready, JobState::Reserved, JobState::Dead];

    /// Returns the name of the state.
    pub fn as_str(self) -> &'static str {
        match self {
            JobState::Delay => "delay",
            JobState::Ready => "ready",
            JobState::Reserved => "reserved",
            JobState::Dead => "dead",
            JobState::Forwarding => "forwarding",
        }
    }
}

/// The due time of a new job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// This long after it is added, by Redis's clock.
    After(Duration),
    /// This time, in ms since 1970; a time in the past means at once.
    At(i64),
}

/// The end of the year 9999, in ms since 1970: the last time that RFC 3339 can write.
const LAST_WRITTEN_MS: i64 = 253_402_300_799_999;

impl Due {
    /// Reads a due time as a client says it, in ms since 1970. Zero, like any time of the last ten years, means at
    /// once.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with a time that is longer ago, or after the year 9999: it is probably in seconds, or in
    /// microseconds.
    pub fn said(at_ms: i64, now_ms: i64) -> Result<Due, &'static str> {
        match at_ms {
            at_ms if at_ms > LAST_WRITTEN_MS => Err("is after the year 9999: it counts in milliseconds since 1970"),
            ..=-1 => Err("is before 1970: it counts in milliseconds since then"),
            1.. if at_ms < now_ms.saturating_sub(LATEST_MS) => {
                Err("is more than ten years ago: it counts in milliseconds since 1970")
            }
            _ => Ok(Due::At(at_ms)),
        }
    }
}

/// A job to add. Values that are `None` come from the topic's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// The client's own id. Adding it again is harmless: the existing job is not changed.
    pub id: Option<LocalId>,
    /// The due time.
    pub due: Due,
    /// The time to run.
    pub ttr: Option<Duration>,
    /// The number of tries.
    pub tries: Option<u32>,
    /// The time to live from now on; zero is unlimited.
    pub ttl: Option<Duration>,
    /// The priority, 0 to [`MAX_PRIORITY`](crate::MAX_PRIORITY): of the ready jobs, one with a higher priority is handed out first.
    pub priority: u8,
    /// The media type of the body as the client declares it, at most 255 bytes; returned with the job.
    pub content_type: String,
    /// The body.
    pub body: Bytes,
    /// A key of the client's: while another job holds it, this one is not added.
    pub unique: Option<Unique>,
    /// A second id, of a job with an id of its own and without a unique key.
    pub alias: Option<JobAlias>,
    /// Whether the job, a message of an input with an id of its own, may have been added before. It is not added again then if it was
    /// deleted.
    pub is_repeated: bool,
}

/// A second id of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobAlias {
    /// The id under which earlier versions add the same message. A job with this id and the same body is this job, unless the
    /// message was written after that job was added. For two minutes these versions do not add it either.
    Former {
        /// The id.
        id: LocalId,
        /// The time at which the message was written, in ms since 1970.
        written_ms: i64,
    },
    /// An id made of the job's own id and its body, under which the job may have been added before. The contents are remembered
    /// about as long as the job's own id, unless the job is deleted.
    Contents(LocalId),
    /// The id that the job's own is made of, with the body. The job is not added if one with that id and this body was finished.
    ContentsOf(LocalId),
}

impl NewJob {
    /// Creates a job that is ready at once, with all other values from the topic's settings.
    pub fn new(body: impl Into<Bytes>) -> NewJob {
        NewJob {
            id: None,
            due: Due::After(Duration::ZERO),
            ttr: None,
            tries: None,
            ttl: None,
            priority: 0,
            content_type: String::new(),
            body: body.into(),
            unique: None,
            alias: None,
            is_repeated: false,
        }
    }
}

/// The outcome of adding a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// The id of the job; that of the holder if another job holds its unique key.
    pub id: JobId,
    /// Whether it was added; false if a job with the client's own id exists or was finished recently, or another job holds
    /// its unique key, and nothing was changed.
    pub created: bool,
    /// Whether another job holds its unique key.
    pub held: bool,
    /// Whether the existing job has another body; this body is not kept anywhere.
    pub differs: bool,
    /// Whether a job with this id was finished recently. Its body is not known any more.
    pub finished: bool,
    /// The due time, in ms since 1970; `None` if it was not added.
    pub due_ms: Option<i64>,
    /// The state of the job; `None` if it was not added.
    pub state: Option<JobState>,
}

/// A job that was handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    /// The id of the job.
    pub id: JobId,
    /// The token of the reservation, which is needed to settle the job.
    pub token: Token,
    /// The body.
    pub body: Bytes,
    /// The media type that the client declared; empty if none.
    pub content_type: String,
    /// The number of this attempt, starting at 1.
    pub attempt: u32,
    /// The priority.
    pub priority: u8,
    /// The number of further attempts if this one fails.
    pub tries_left: u32,
    /// The time to run of this reservation.
    pub ttr: Duration,
    /// The end of this reservation, in ms since 1970 by Redis's clock.
    pub deadline_ms: i64,
    /// The time at which it was added, in ms since 1970.
    pub added_ms: i64,
    /// The end of its time to live, in ms since 1970; `None` if it has none.
    pub expires_ms: Option<i64>,
}

/// The outcome of settling a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// The requested outcome.
    Done,
    /// The job was released after its last try, and is dead.
    Dead,
    /// The job was past its time to live, and is gone.
    Expired,
}

/// An operation on jobs that this process has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobOperation {
    /// Jobs were added, by clients or by the firings of recurring jobs.
    Added,
    /// Jobs were handed out.
    Taken,
    /// Jobs were finished.
    Finished,
    /// Jobs were released; those whose tries were used up or whose time to live had ended too.
    Released,
    /// Jobs were buried.
    Buried,
    /// Jobs were deleted, alone or with others of their topic.
    Deleted,
}

/// Numbers of jobs whose time limits have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Aged {
    /// Jobs whose time to run ended, and that are ready again.
    pub came_back: u64,
    /// Jobs whose time to run ended after the last try.
    pub died: u64,
    /// Jobs past their time to live.
    pub expired: u64,
    /// Dead jobs that were removed because they were too many or too old.
    pub trimmed: u64,
    /// Jobs that this version cannot read: they are dead, with all of their bytes.
    pub set_aside: u64,
}

impl Aged {
    /// Reads the counts at the front of a reply's array.
    pub(super) fn of(fields: &mut Fields) -> Result<Aged, BadReply> {
        let mut count = || Ok(u64::try_from(fields.int()?).unwrap_or(0));
        Ok(Aged { came_back: count()?, died: count()?, expired: count()?, trimmed: count()?, set_aside: count()? })
    }
}
