//! `bench`: what this Redis can do, on a queue of the command's own.

mod clean;
mod deep;
mod late;
mod limits;
mod progress;
mod report;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;

use self::progress::Progress;
use super::discover::endpoint;
use super::session::{first, link};
use super::{Failed, Global, load};
use crate::config::ListCleanup;
use crate::link::{Conn, LinkError};
use crate::source::redisson::{Redisson, SourceError, memory_left};

/// Measure claim and settling against your Redis.
///
/// Fills a queue of its own, claims and settles part of it, measures how late a short run is, and takes all of it away
/// again, also after Ctrl-C. Keys that are there already are not touched: the command refuses to begin. Every figure stands
/// beside what the same Redis does with the barest command. Nothing is delivered anywhere: sinks are not measured.
///
/// While it runs it takes as much of Redis's time as it gets: not for the peak hours of a server that others need. It needs
/// a user with rights on keys of the queue's name; the daemon's user, as `delaybridge acl` makes it, has none.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct BenchArgs {
    /// The Redis to measure, in place of the configuration's
    #[arg(long, value_name = "URL")]
    pub redis: Option<String>,
    /// A file whose first line is the password for --redis
    #[arg(long, value_name = "FILE", requires = "redis")]
    pub password_file: Option<String>,
    /// The queue's name in Redis, with `delaybridge-bench` in it; nothing may be there
    #[arg(long, value_name = "NAME", default_value = OWN, value_parser = own_name)]
    pub name: String,
    /// Elements pending while it measures
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=50_000_000))]
    pub depth: u32,
    /// How many of them are claimed and settled
    #[arg(long, value_name = "COUNT", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub drain: u32,
    /// Bytes of each payload
    #[arg(long, value_name = "BYTES", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub payload_bytes: u32,
    /// Elements a second of the run that measures lateness
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rate: u32,
    /// How long that run is
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub seconds: u32,
}

const AFTER: &str = "\
Examples:
  delaybridge bench --config delaybridge.yaml
  delaybridge bench --redis redis://127.0.0.1:6379/0 --depth 1000000
  delaybridge bench --redis rediss://redis.internal:6380 --password-file /run/secrets/redis --output json

Exit codes: 0 done, 1 it failed or was stopped (the message says whether anything is left in Redis), 2 wrong arguments";

/// What the name of the queue must hold.
const OWN: &str = "delaybridge-bench";
/// Elements of one command while the queue is filled: small enough that other clients come in between.
const PIECE: usize = 500;
/// If this process is killed, what it left is gone after so long.
const AT_LATEST: Duration = Duration::from_secs(3_600);
/// Bytes of Redis for an element beside its payload, which is stored twice: 210 of 10,000, more while a table grows.
const OVERHEAD: u64 = 300;

/// A queue of an application may be empty now and not when its keys are taken away: what is offered meanwhile would be lost.
/// So its name is never taken.
fn own_name(text: &str) -> Result<String, String> {
    match text.contains(OWN) {
        true => Ok(text.to_owned()),
        false => Err(format!("the name of a queue that is taken away again must have `{OWN}` in it")),
    }
}

/// What all parts of the measurement work on.
struct Trial<'a> {
    args: &'a BenchArgs,
    conn: Conn,
    queue: Redisson,
    /// Somebody pressed Ctrl-C.
    stopped: Arc<AtomicBool>,
    progress: Progress,
}

/// Why a part of the measurement did not come to its end.
enum Ended {
    /// Ctrl-C.
    Stopped,
    /// What was attempted, and what happened.
    Failed(String),
}

impl From<SourceError> for Ended {
    fn from(error: SourceError) -> Self {
        Ended::Failed(super::session::explained(&error))
    }
}

impl From<LinkError> for Ended {
    fn from(error: LinkError) -> Self {
        SourceError::from(error).into()
    }
}

impl Trial<'_> {
    /// Asked before each step; a step takes milliseconds.
    fn go_on(&self) -> Result<(), Ended> {
        if self.stopped.load(Ordering::Relaxed) { Err(Ended::Stopped) } else { Ok(()) }
    }
}

pub(super) async fn run(global: &Global, args: &BenchArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let endpoint = match &args.redis {
        Some(url) => endpoint(url, args.password_file.as_deref(), "--redis")?,
        None => load(global)?.config.redis,
    };
    let link = link(&endpoint);
    let conn = first(&link).await.map_err(|error| Failed::runtime(error.to_string()))?;
    let mut owner = [0; 8];
    getrandom::fill(&mut owner).map_err(|error| Failed::runtime(format!("draw a random number: {error}")))?;
    let queue = Redisson::new(&args.name, owner, true, true, ListCleanup::Auto);
    let what = format!("measure Redis {}", endpoint.address());
    refuse_what_is_not_ours(&conn, &queue, args).await.map_err(|why| Failed::runtime(format!("{what}: {why}")))?;

    let stopped = clean::stop_on_signals().map_err(|error| Failed::runtime(format!("catch signals: {error}")))?;
    let trial = Trial { args, conn, queue, stopped, progress: Progress::start() };
    let ended = measure(&trial).await;
    // Whatever happened: nothing of it stays.
    let cleaned = clean::clean(&link, &trial.queue).await;
    trial.progress.clear();
    let left = cleaned.as_ref().err().map_or("nothing is left in Redis", String::as_str);
    let found = match ended {
        Ok(found) => found,
        Err(Ended::Stopped) => return Err(Failed::runtime(format!("{what}: stopped; {left}"))),
        Err(Ended::Failed(why)) => return Err(Failed::runtime(format!("{what}: {why}; {left}"))),
    };
    report::write(global.output, &trial, &found, out)?;
    cleaned.map(|()| 0).map_err(|why| Failed::runtime(format!("{what}: measured, but {why}")))
}

/// What was found, in the order in which it was measured.
struct Found {
    round_trip: limits::Times,
    filled: limits::Filled,
    deep: deep::Drained,
    late: late::Late,
}

async fn measure(trial: &Trial<'_>) -> Result<Found, Ended> {
    let round_trip = limits::round_trip(trial).await?;
    let filled = limits::fill(trial).await?;
    let deep = deep::drain(trial).await?;
    let late = late::run(trial).await?;
    Ok(Found { round_trip, filled, deep, late })
}

async fn refuse_what_is_not_ours(conn: &Conn, queue: &Redisson, args: &BenchArgs) -> Result<(), String> {
    let there = queue.keys_there(conn).await.map_err(|error| super::session::explained(&error.into()))?;
    if !there.is_empty() {
        return Err(format!(
            "there is something under the name `{}` already: {}; it was left as it is. If an earlier run of this command was \
             killed, it goes by itself within an hour; else choose another --name",
            args.name,
            there.join(", ")
        ));
    }
    let needed = u64::from(args.depth) * (2 * u64::from(args.payload_bytes) + OVERHEAD);
    match memory_left(conn).await.map_err(|error| super::session::explained(&error.into()))? {
        Some(left) if needed > left / 2 => Err(format!(
            "{} elements need about {} MB, which is more than half of the {} MB that are left below its maxmemory; choose a \
             smaller --depth",
            args.depth,
            needed / 1_000_000,
            left / 1_000_000
        )),
        _ => Ok(()),
    }
}
