//! The job queue: jobs with a due time, handed to consumers for a time to run, each in exactly one state.
//!
//! ```text
//! add -> delay -> ready -> reserved -> gone         finished, deleted, or past its time to live
//!          ^        ^         |
//!          +--------+---------+--> dead             its tries are used up, or it was buried
//! ```
//!
//! [`JobQueue`] has one call for each thing that can be done with jobs, and each call is one script: see `scripts/`. What
//! is ready is the part of a sorted set that is due, so that nothing has to move a job when its time comes. A reservation
//! has a [`Token`] that no other one ever has: whoever lost the job can no longer settle it (R3).
//!
//! Knows nothing of HTTP, of the pipeline or of sinks.

mod add;
pub(crate) mod config;
mod control;
mod dispenser;
mod error;
mod index;
mod job;
mod keys;
mod limits;
mod look;
mod name;
mod queue;
mod record;
mod reserve;
mod rights;
mod scripts;
mod settings;
#[cfg(test)]
mod tests;
mod together;
mod tokens;

pub use add::MAX_BATCH;
pub use control::{MAX_SWEEP, Tick, Which};
pub use dispenser::{Dispenser, Dispensing, MAX_TOPICS, MAX_WAITING, PopRequest};
pub use error::JobError;
pub use job::{Added, Due, NewJob, Reserved, Settled};
pub use keys::{KINDS, Keys, PREFIX, TOPICS, WAKE};
pub use limits::{Allowed, Limits};
pub use look::{JobInfo, JobState, MAX_PAGE, Sizes, TopicsPage};
pub use name::{InvalidName, JobId, LocalId, Token, Topic};
pub use queue::JobQueue;
pub use record::Record;
pub use reserve::{Aged, MAX_POP, Popped, Release};
pub use rights::rights;
pub use scripts::{Patch, SCRIPTS, Scripts};
pub use settings::{JobSettings, MAX_DELAY, MAX_TRIES, MAX_TTR, TopicSettings};
pub use tokens::{MadeToken, TokenLimits};
