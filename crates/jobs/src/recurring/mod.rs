//! Recurring jobs: a topic has definitions with a cron expression each, and a daemon adds a job at each firing.
//!
//! One script adds the job and sets the next firing, on the condition that the definition and its next firing are those that
//! were read. So several daemons, a lost reply and a crash fire it once. The id of the job is the name and the time of the
//! firing.

mod calls;
mod cron;
mod fire;
mod plan;
mod record;

use std::time::Duration;

use bytes::Bytes;

use super::name::RecurringName;
use delaybridge_settings::words::words;

pub use calls::{RecurringPage, SetRecurring};
pub use cron::CronSchedule;
pub use fire::{DueRecurring, Fired, PlannedFiring};
pub use plan::MAX_MADE_UP;

/// Maximum number of recurring jobs of a topic.
pub const MAX_RECURRING: usize = 1_000;
/// Maximum size of the body of a recurring job, in bytes.
pub const MAX_RECURRING_BODY: usize = 64 << 10;

words! {
    /// The treatment of firings that no daemon was there for.
    pub enum MissedFirings {
        /// None is made up for.
        Skip = "skip",
        /// One job is added for all of them.
        Once = "once",
        /// A job is added for each, at most 100.
        All = "all",
    }
}

/// The definition of a recurring job. Values that are `None` come from the topic's settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Recurring {
    /// The times at which it fires.
    pub schedule: CronSchedule,
    /// The treatment of missed firings.
    pub missed: MissedFirings,
    /// The time to run of its jobs.
    pub ttr: Option<Duration>,
    /// The number of tries.
    pub tries: Option<u32>,
    /// The time to live from each firing on; zero is unlimited.
    pub ttl: Option<Duration>,
    /// The priority of its jobs.
    pub priority: u8,
    /// The media type of the body, at most 255 bytes.
    pub content_type: String,
}

/// A recurring job of a topic.
#[derive(Debug, Clone, PartialEq)]
pub struct RecurringState {
    /// The name.
    pub name: RecurringName,
    /// The definition; `None` if this version cannot read it.
    pub definition: Option<Recurring>,
    /// The next firing, in ms since 1970; `None` while it is paused.
    pub next_ms: Option<i64>,
    /// Whether it is paused.
    pub paused: bool,
    /// The size of the body, in bytes.
    pub size: u64,
    /// The body, if it was asked for.
    pub body: Option<Bytes>,
    /// The random number of the definition: another one means that it was changed.
    revision: u64,
}
