//! `discover`: the delayed queues of a Redis, as a configuration that can be run.

mod yaml;

use std::io::Write;

use clap::Args;

use super::answer::answer;
use super::endpoint::{endpoint, only};
use super::failed::Failed;
use super::global::Global;
use super::load::load_queues;
use delaybridge_ops::redisson::discover::discover;

/// Find Redisson's delayed queues and print a configuration for them.
///
/// Scans the database in small steps and changes nothing. Facts and guesses about a queue are comments. The queues are
/// in `mode: shadow`, which writes nothing. A queue with nothing scheduled is not found.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct DiscoverArgs {
    /// The Redis to scan, instead of the configuration's; its password is not printed
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
}

const AFTER: &str = "\
Examples:
  delaybridge discover --url redis://127.0.0.1:6379/0 > delaybridge.yaml
  delaybridge discover --url rediss://redis.internal:6380 --password-file /run/secrets/redis
  delaybridge discover --config delaybridge.yaml --output json

Exit codes: 0 done, 1 no queue was found, or it failed, 2 wrong arguments or configuration";

pub(super) async fn run(global: &Global, args: &DiscoverArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    let url = args.url.as_ref().map(|url| (url, "--url"));
    let endpoint = match url.or(global.redis.redis_url.as_ref().map(|url| (url, "--redis-url"))) {
        Some((url, flag)) => endpoint(url, global.redis.password_file().as_deref(), flag)?
            .with_login(global.redis.username.as_deref(), None),
        None => only(load_queues(global)?, "--url")?,
    };
    let found = discover(&endpoint).await?;
    answer(global, out, &found, |found| match found.queues.as_slice() {
        [] => String::new(),
        queues => yaml::yaml(&endpoint, global.redis.password_file().as_deref(), queues),
    })?;
    let mut refused: Vec<_> =
        found.errors.iter().map(|error| format!("queue {:?}: {}", error.queue, error.message)).collect();
    if found.unknown_keys > 0 {
        refused.push(format!(
            "keys with the prefix of Redisson's delayed queues and a name that Redisson never uses: {}",
            found.unknown_keys
        ));
    }
    if refused.is_empty() {
        return Ok(0);
    }
    let what = format!("find delayed queues in Redis {}", endpoint.address());
    Err(Failed::runtime(format!("{what}: {}", refused.join("; "))))
}
