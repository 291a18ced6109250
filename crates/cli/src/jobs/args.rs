//! The arguments of `jobs`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};

use delaybridge_jobs::{
    JobId, Limits, LocalId, MAX_DELAY, MAX_PRIORITY, MAX_TTR, Token, Topic, Unique, UniqueKey, UniqueUntil,
};
use delaybridge_ops::jobs::LONGEST_WAIT;
pub(super) use delaybridge_ops::time::point as time;

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write 500ms, 5s, 10m or 1h 30m"))
}

fn at_most(text: &str, most: Duration) -> Result<Duration, String> {
    match duration(text)? {
        value if value > most => Err(format!("at most {}", humantime::format_duration(most))),
        value => Ok(value),
    }
}

pub(super) fn delay(text: &str) -> Result<Duration, String> {
    at_most(text, MAX_DELAY)
}

pub(super) fn ttr(text: &str) -> Result<Duration, String> {
    at_most(text, MAX_TTR)
}

fn wait(text: &str) -> Result<Duration, String> {
    at_most(text, LONGEST_WAIT)
}

/// A job that its consumer holds.
#[derive(Debug, Args)]
pub struct HeldJob {
    /// The job's id, as `pop` answered it
    #[arg(value_name = "ID")]
    pub id: JobId,
    /// The token, as `pop` answered it
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    pub token: Token,
}

/// A job.
#[derive(Debug, Args)]
pub struct NamedJob {
    /// The job's id: TOPIC~ID
    #[arg(value_name = "ID")]
    pub id: JobId,
}

/// A topic.
#[derive(Debug, Args)]
pub struct OfTopic {
    /// The topic
    #[arg(value_name = "TOPIC")]
    pub topic: Topic,
}

/// Add a job, or one for each line of a text.
///
/// What is left out comes from the topic's settings. With an id of your own, or a unique key, the command may be run again: the
/// job that is there stays as it is.
#[derive(Debug, Args)]
#[command(after_help = ADD)]
#[command(group(ArgGroup::new("what").required(true).args(["body", "file", "stdin"])))]
pub struct AddArgs {
    /// The topic
    #[arg(value_name = "TOPIC")]
    pub topic: Topic,
    /// The delay until it is ready, by Redis's clock (5s, 10m)
    #[arg(long, value_name = "DURATION", value_parser = delay, conflicts_with = "at")]
    pub delay: Option<Duration>,
    /// Time at which it is ready (2027-01-31T09:00:00Z, or milliseconds since 1970)
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub at: Option<i64>,
    /// Time to run: how long a consumer may have it
    #[arg(long, value_name = "DURATION", value_parser = ttr)]
    pub ttr: Option<Duration>,
    /// Times that it is handed out
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub tries: Option<u32>,
    /// Time to live: it is dropped if it is not finished by then (0s is for ever)
    #[arg(long, value_name = "DURATION", value_parser = delay)]
    pub ttl: Option<Duration>,
    /// Priority, 0 to 9: of the ready jobs, one with a higher priority is handed out first
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=MAX_PRIORITY.into()))]
    pub priority: u8,
    /// An id of your own: letters, digits, `_`, `.`, `:`, `~`, `-`
    #[arg(long, value_name = "ID", conflicts_with = "lines")]
    pub id: Option<LocalId>,
    /// A key of your own: while another job of the topic holds it, this one is not added
    #[arg(long, value_name = "KEY", requires = "unique_for", conflicts_with = "lines")]
    pub unique: Option<UniqueKey>,
    /// The time for which it holds the key
    #[arg(long, value_name = "DURATION", value_parser = delay, requires = "unique")]
    pub unique_for: Option<Duration>,
    /// The end of the key, if it comes before the end of that time
    #[arg(long, value_enum, value_name = "END", default_value_t = UniqueUntilArg::Finished, requires = "unique")]
    pub unique_until: UniqueUntilArg,
    /// Content type of the body, for its consumer
    #[arg(long, value_name = "TYPE", default_value = "")]
    pub content_type: String,
    /// The body
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub body: Option<String>,
    /// A file with the body
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Read the body from standard input
    #[arg(value_name = "-", value_parser = ["-"], allow_hyphen_values = true)]
    pub stdin: Option<String>,
    /// Add a job for each line of the file or of standard input
    #[arg(long, conflicts_with = "body")]
    pub lines: bool,
}

/// The end of a unique key as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UniqueUntilArg {
    /// The job is gone: finished, deleted, purged, or past its time to live.
    Finished,
    /// The key is held for all of its time.
    Expired,
}

impl AddArgs {
    /// The unique key, if there is one.
    pub(super) fn unique(&self) -> Option<Unique> {
        let until = match self.unique_until {
            UniqueUntilArg::Finished => UniqueUntil::Finished,
            UniqueUntilArg::Expired => UniqueUntil::Expired,
        };
        Some(Unique { key: self.unique.clone()?, lasts: self.unique_for?, until })
    }
}

const ADD: &str = "\
Examples:
  delaybridge jobs add orders --delay 30m --body '{\"orderId\":4711}'
  delaybridge jobs add orders --id 4711 --at 2027-01-31T09:00:00Z --file order.json
  delaybridge jobs add mails --unique 'welcome ada' --unique-for 1h --body Welcome
  delaybridge jobs add mails --priority 9 --body 'Reset your password'
  seq 1000 | delaybridge jobs add numbers --lines -

Exit codes: 0 added or there already, 1 failed or unknown, 2 wrong arguments or a body that is too large";

/// Take jobs that are ready.
///
/// They are reserved: no other consumer gets them for their time to run. Settle each with its token.
#[derive(Debug, Args)]
#[command(after_help = POP)]
pub struct PopArgs {
    /// The topics, the most important first
    #[arg(value_name = "TOPIC", required = true, num_args = 1..)]
    pub topics: Vec<Topic>,
    /// Maximum number of jobs, all of one topic
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = count)]
    pub count: usize,
    /// Time to run, instead of the jobs' own
    #[arg(long, value_name = "DURATION", value_parser = ttr)]
    pub ttr: Option<Duration>,
    /// Maximum time to wait for a job
    #[arg(long, value_name = "DURATION", value_parser = wait, default_value = "0s")]
    pub wait: Duration,
}

fn count(text: &str) -> Result<usize, String> {
    let most = delaybridge_jobs::MAX_POP;
    text.parse()
        .ok()
        .filter(|count| (1..=most).contains(count))
        .ok_or_else(|| format!("write a number from 1 to {most}"))
}

const POP: &str = "\
Examples:
  delaybridge jobs pop orders
  delaybridge jobs pop urgent orders --wait 1m --count 10 --output json

Exit codes: 0 took at least one, 1 failed or unknown, 2 wrong arguments, 4 there was none";

/// Give a job back: it is ready again, after a delay if you like.
///
/// After its last try it is dead, unless the attempt does not count.
#[derive(Debug, Args)]
#[command(after_help = RELEASE)]
pub struct ReleaseArgs {
    /// The job.
    #[command(flatten)]
    pub held: HeldJob,
    /// The delay until it is ready again; without it the back-off of the topic, if the attempt counts
    #[arg(long, value_name = "DURATION", value_parser = delay)]
    pub delay: Option<Duration>,
    /// This attempt does not count
    #[arg(long)]
    pub uncounted: bool,
    /// Why; `jobs get` shows it
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
}

const RELEASE: &str = "\
Example:
  delaybridge jobs release orders~4711 --token mJ0c3Zk1yQ8T_x2a --delay 30s --reason 'stock is locked'";

/// Ask for more time: the time to run starts again.
#[derive(Debug, Args)]
#[command(after_help = TOUCH)]
pub struct TouchArgs {
    /// The job.
    #[command(flatten)]
    pub held: HeldJob,
    /// Another time to run from now on
    #[arg(long, value_name = "DURATION", value_parser = ttr)]
    pub ttr: Option<Duration>,
}

const TOUCH: &str = "\
Example:
  delaybridge jobs touch orders~4711 --token mJ0c3Zk1yQ8T_x2a --ttr 5m";

/// Bury a job: it is dead, whatever tries it had left.
#[derive(Debug, Args)]
#[command(after_help = BURY)]
pub struct BuryArgs {
    /// The job.
    #[command(flatten)]
    pub held: HeldJob,
    /// Why; `jobs get` shows it
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
}

const BURY: &str = "\
Example:
  delaybridge jobs bury orders~4711 --token mJ0c3Zk1yQ8T_x2a --reason 'no such customer'";

/// Show the limits of a topic, or set them.
///
/// Limits that are set replace those that were set before, and hold for all daemons at once. What is left out is as in the
/// configuration.
#[derive(Debug, Args)]
#[command(after_help = LIMITS)]
pub struct LimitsArgs {
    /// The topic
    #[arg(value_name = "TOPIC")]
    pub topic: Topic,
    /// Time to run of jobs that have none of their own
    #[arg(long, value_name = "DURATION", value_parser = ttr)]
    pub ttr: Option<Duration>,
    /// Times that jobs are handed out that do not say
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub tries: Option<u32>,
    /// Time to live of jobs that have none of their own (0s is for ever)
    #[arg(long, value_name = "DURATION", value_parser = delay)]
    pub ttl: Option<Duration>,
    /// Maximum number of jobs that are not dead (0 is no limit)
    #[arg(long, value_name = "COUNT")]
    pub max_jobs: Option<u64>,
    /// Maximum size of a body, in bytes
    #[arg(long, value_name = "BYTES")]
    pub max_body: Option<u64>,
    /// Maximum number of dead jobs (0 is no limit)
    #[arg(long, value_name = "COUNT")]
    pub dead_max_len: Option<u64>,
    /// Time that a dead job is kept (0s is for ever)
    #[arg(long, value_name = "DURATION", value_parser = delay)]
    pub dead_ttl: Option<Duration>,
    /// Wait after a first attempt that ran out, or was released without a delay; it doubles with each further one
    #[arg(long, value_name = "DURATION", value_parser = delay)]
    pub backoff: Option<Duration>,
    /// The longest such wait
    #[arg(long, value_name = "DURATION", value_parser = delay)]
    pub backoff_max: Option<Duration>,
    /// Set nothing: all limits are as in the configuration again
    #[arg(long, conflicts_with_all = ["ttr", "tries", "ttl", "max_jobs", "max_body", "dead_max_len", "dead_ttl", "backoff", "backoff_max"])]
    pub reset: bool,
}

impl LimitsArgs {
    /// The limits to set; `None` only shows them.
    pub(super) fn limits(&self) -> Option<Limits> {
        let time = |time: Duration| Some(time).filter(|time| !time.is_zero());
        let count = |count: u64| Some(count).filter(|count| *count > 0);
        let limits = Limits {
            ttr: self.ttr,
            tries: self.tries,
            ttl: self.ttl.map(time),
            max_jobs: self.max_jobs.map(count),
            max_body: self.max_body,
            dead_max_len: self.dead_max_len.map(count),
            dead_ttl: self.dead_ttl.map(time),
            backoff: self.backoff,
            backoff_max: self.backoff_max,
        };
        (self.reset || limits != Limits::default()).then_some(limits)
    }
}

const LIMITS: &str = "\
Examples:
  delaybridge jobs limits orders
  delaybridge jobs limits orders --max-jobs 100000 --dead-ttl 7d
  delaybridge jobs limits orders --backoff 5s --backoff-max 10m
  delaybridge jobs limits orders --reset";

/// Move what waits in a queue to a topic.
///
/// Scheduled elements and those that wait for a retry become jobs with the same due time and payload. Each is copied first
/// and removed then. After an interruption run it again: nothing is copied twice. Elements in flight and on a ready list
/// stay where they are. No daemon may deliver from the queue meanwhile. A job whose id another job of the topic has stays too. Jobs of a
/// pool are claimed for a minute while they are copied, so after an interruption wait for a minute.
///
/// scheduled | retry -> job: delay | ready
#[derive(Debug, Args)]
#[command(after_help = IMPORT)]
pub struct ImportJobsArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// The topic
    #[arg(value_name = "TOPIC")]
    pub topic: Topic,
    /// Report what would be moved, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

const IMPORT: &str = "\
Examples:
  delaybridge jobs import order_timeout orders --dry-run
  delaybridge jobs import order_timeout orders";

/// Move the jobs of a topic that wait to a plain sorted set, or to a job pool.
///
/// Each is copied first and removed then. After an interruption run it again. The topic must be paused. In a sorted set a body
/// becomes a member, its due time the score. Equal members collapse there, so a job whose body is there already stays a job. In
/// a pool a job becomes what the program of the preset would have written, with the same id. One whose id another job of
/// the pool has stays too.
///
/// job: delay | ready -> member | job of the pool
#[derive(Debug, Args)]
#[command(after_help = EXPORT)]
#[command(group(ArgGroup::new("where").required(true).args(["key", "queue"])))]
pub struct ExportJobsArgs {
    /// The topic
    #[arg(value_name = "TOPIC")]
    pub topic: Topic,
    /// The key of the sorted set
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// A queue of the configuration with a source `zset` or `job_pool`: the place that it delivers from
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// With --key: scores are whole seconds; else milliseconds
    #[arg(long, conflicts_with = "queue")]
    pub seconds: bool,
    /// Report what would be moved, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

const EXPORT: &str = "\
Examples:
  delaybridge jobs pause orders
  delaybridge jobs export orders --key queues:default:delayed --seconds
  delaybridge jobs export orders --queue order_pool --dry-run";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_rfc_3339_or_in_milliseconds() {
        assert_eq!(time("1795251632252"), Ok(1_795_251_632_252));
        assert_eq!(time("2026-11-21T09:00:32.252Z"), Ok(1_795_251_632_252));
        assert_eq!(time("2026-11-21T17:00:32.252+08:00"), Ok(1_795_251_632_252));
        assert!(time("tomorrow").is_err() && time("1960-01-01T00:00:00Z").is_err());
    }
}
