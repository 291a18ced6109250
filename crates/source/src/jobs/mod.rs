//! The source `jobs`: a topic of the job queue. Its due jobs go to the sinks of a queue, beside or instead of consumers.
//!
//! A job is an id in the topic's due set, and a record in its hash. A claim takes the id; from then on the job is an element
//! of the ledger, like any other: leases, retries and dead letters are those of the queue. Its record stays in the hash until
//! the element is settled. So the job queue still refuses a second job with the same id, and its clock still ends the time to
//! live of a job that waits for a retry.

pub(crate) mod config;
mod rights;
mod scripts;
mod source;
#[cfg(test)]
mod tests;

pub use self::config::JobsSpec;
pub(crate) use self::config::KIND;
pub use self::scripts::{SCRIPTS, SCRIPTS_ON_TEST_CLOCK};
pub use self::source::JobsSource;
