//! The job queue: jobs with a due time, handed to consumers for a time to run, each in exactly one state.
//!
//! ```text
//! add -> delay -> ready -> reserved -> gone         finished, deleted, or past its time to live
//!          ^        ^         |
//!          +--------+---------+--> dead             its tries are used up, or it was buried
//! ```
//!
//! [`JobQueue`] has one call for each operation on jobs, and each call is one script: see `scripts/`. The ready jobs
//! are the due part of a sorted set, so that a job need not be moved when it becomes due. A reservation has a unique
//! [`Token`], so that a consumer that lost the job can no longer settle it (R3).
//!
//! It does not depend on HTTP, the pipeline or sinks.
//!
//! R2, R3 and R8 hold for jobs as for elements. A `pop` is never sent again: `not_after` says when it can run no more, then
//! `recover` returns the jobs that it reserved, by its token. The record is what `add` was given, which only `change` replaces;
//! what a consumer changes (attempts, token, times, reason) is stored beside it.

mod add;
mod change;
pub mod config;
mod control;
mod dispenser;
mod durable;
mod error;
mod index;
mod job;
mod keys;
mod limits;
mod look;
mod name;
mod order;
mod queue;
mod record;
mod recurring;
mod reserve;
mod rights;
mod scripts;
mod settings;
#[cfg(test)]
mod tests;
mod together;
mod tokens;
mod unique;

pub use add::{MAX_BATCH, MAX_PRIORITY};
pub use change::{ChangeOutcome, JobChange};
pub use control::{Counts, Emptied, MAX_SWEEP, Tick, Which};
pub use dispenser::{Dispenser, Dispensing, MAX_TOPICS, MAX_WAITING, PopRequest};
pub use error::JobError;
pub use job::{Added, Aged, Due, JobAlias, JobOperation, JobState, NewJob, Reserved, Settled};
pub use keys::{KINDS, Keys, topics, wake};
pub use limits::{Allowed, Limits};
pub use look::{JobInfo, JobsPage, MAX_PAGE, Sizes, TopicsPage};
pub use name::{InvalidName, JobId, LocalId, RecurringName, Token, Topic};
pub use order::{OrderHalf, OrderPage};
pub use queue::{JobQueue, Stirred};
pub use record::Record;
pub use recurring::{
    CronSchedule, DueRecurring, Fired, MAX_MADE_UP, MAX_RECURRING, MAX_RECURRING_BODY, MissedFirings, PlannedFiring,
    Recurring, RecurringPage, RecurringState, SetRecurring,
};
pub use reserve::{MAX_POP, Popped, Release};
pub use rights::rights;
pub use scripts::{Patch, SCRIPTS, Scripts};
pub use settings::{JobSettings, MAX_DELAY, MAX_TRIES, MAX_TTR, TopicSettings, UnknownTopics};
pub use tokens::{MadeToken, TokenLimits};
pub use unique::{Unique, UniqueKey, UniqueUntil};
