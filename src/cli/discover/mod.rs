//! `discover`: the delayed queues of a Redis, as a configuration that can be run.

mod guess;
mod write;

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use clap::Args;

use self::guess::Guess;
use super::session::{attempted, explained, first, link};
use super::{Failed, Global, Output, load};
use crate::config::{self, ListCleanup, RedisEndpoint};
use crate::link::Conn;
use crate::source::redisson::layout::Layout;
use crate::source::redisson::{Found, Hints, Place, Redisson, Shape, Show, Stats, discover, redisson_clients};

/// Find Redisson's delayed queues and print a configuration for them.
///
/// Scans the database in small steps and changes nothing. What is found of each queue, and what is guessed, stands beside
/// it as a comment. The queues are in `mode: shadow`, which only looks on, until you change that. A queue with nothing
/// scheduled has no key and is not found.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct DiscoverArgs {
    /// The Redis to look at, in place of the configuration's; its password is not printed
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// A file whose first line is the password for --url
    #[arg(long, value_name = "FILE", requires = "url")]
    pub password_file: Option<String>,
}

const AFTER: &str = "\
Examples:
  delaybridge discover --url redis://127.0.0.1:6379/0 > delaybridge.yaml
  delaybridge discover --url rediss://redis.internal:6380 --password-file /run/secrets/redis
  delaybridge discover --config delaybridge.yaml --output json

Exit codes: 0 done, 1 no queue was found, or it failed, 2 wrong arguments or configuration";

/// Elements of each queue that are looked at.
const SAMPLES: usize = 50;
/// Bytes of each that are read: a larger payload is no sample for the codec.
const SAMPLE_BYTES: usize = 64 << 10;

/// What was learned of one queue.
struct Queue {
    found: Found,
    stats: Stats,
    /// Elements sampled in the old and the new layout, and of none.
    layouts: [usize; 3],
    codec: Guess,
    /// Redisson clients that listen; `None` where that may not be asked.
    clients: Option<u64>,
}

pub(super) async fn run(global: &Global, args: &DiscoverArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let endpoint = match &args.url {
        Some(url) => endpoint(url, args.password_file.as_deref(), "--url")?,
        None => load(global)?.config.redis,
    };
    let link = link(&endpoint);
    let conn = first(&link).await.map_err(|error| Failed::runtime(error.to_string()))?;
    let what = format!("look for delayed queues in Redis {}", endpoint.address());
    let (found, strange) = discover(&conn).await.map_err(attempted(&what))?;
    let (mut queues, mut refused) = (Vec::new(), Vec::new());
    for found in found {
        match look(&conn, found.clone()).await {
            Ok(queue) => queues.push(queue),
            Err(error) => refused.push(format!("queue {:?}: {}", found.name, explained(&error))),
        }
    }
    if queues.is_empty() && refused.is_empty() {
        return Err(Failed::runtime(format!(
            "{what}: there is none with anything scheduled; an empty queue has no keys: look again when something has been \
             offered, or write its name under `queues:` yourself"
        )));
    }
    if !queues.is_empty() {
        match global.output {
            Output::Json => writeln!(out, "{:#}", write::json(&queues))?,
            Output::Text => write!(out, "{}", write::yaml(&endpoint, args.password_file.as_deref(), &queues))?,
        }
    }
    if strange > 0 {
        refused.push(format!(
            "keys with the prefix of Redisson's delayed queues and a name that it never gives: {strange}"
        ));
    }
    if refused.is_empty() { Ok(0) } else { Err(Failed::runtime(format!("{what}: {}", refused.join("; ")))) }
}

/// The settings behind a URL, read by the rules of the configuration.
pub(super) fn endpoint(url: &str, password_file: Option<&str>, option: &str) -> Result<Arc<RedisEndpoint>, Failed> {
    let text = |text: &str| serde_json::Value::from(text.replace("${", "$${")).to_string();
    let file = password_file.map(|file| format!(", password_file: {}", text(file))).unwrap_or_default();
    // The queue is never looked at; a configuration has one.
    let yaml = format!(
        "http: none\nredis: {{ url: {}{file} }}\nqueues: {{ q: {{ source: {{ redisson: {{ name: q }} }}, mode: rescue }} }}\n",
        text(url)
    );
    match config::load_str(&yaml, option, &|_| None) {
        Ok(loaded) => Ok(loaded.config.redis),
        Err(errors) => {
            let words = errors.problems.iter().map(|problem| {
                problem.help.iter().fold(problem.message.clone(), |words, help| format!("{words}; {help}"))
            });
            Err(Failed::usage(format!("read {option}: {}", words.collect::<Vec<_>>().join("; "))))
        }
    }
}

async fn look(conn: &Conn, found: Found) -> Result<Queue, crate::source::redisson::SourceError> {
    let redisson = Redisson::new(&found.name, [0; 8], true, true, ListCleanup::Auto);
    let stats = redisson.stats(conn, &mut Hints::default()).await?;
    let page = redisson.peek(conn, Place::Scheduled, 0, SAMPLES, Show::Start(SAMPLE_BYTES)).await?;
    let mut layouts = [0; 3];
    for seen in &page.seen {
        match seen.shape {
            Shape::Packed(Layout::Old) => layouts[0] += 1,
            Shape::Packed(Layout::New) => layouts[1] += 1,
            Shape::Bare | Shape::Junk | Shape::Unknown => layouts[2] += 1,
        }
    }
    let samples = page.seen.iter().filter(|seen| matches!(seen.shape, Shape::Packed(_)) && seen.is_complete());
    let samples: Vec<Bytes> = samples.map(|seen| seen.payload.clone()).collect();
    let clients = redisson_clients(conn, &redisson).await.ok();
    Ok(Queue { found, stats, layouts, codec: guess::codec(&samples), clients })
}
