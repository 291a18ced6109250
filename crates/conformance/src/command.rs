//! The command `conformance`: its arguments, which `delaybridge` shows too, and a run by them.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use crate::options::Options;
use crate::statements::STATEMENTS;

/// Check a producer against the specification of delayed queues.
///
/// Starts COMMAND with the producer under test, which reads one JSON object a line: to offer, cancel and move elements
/// of queues with made-up names. Compares Redis with the numbered statements of the specification: each passes, fails
/// with what was seen, or is not offered by this producer.
///
/// It removes its keys and touches no others. Use a Redis for tests all the same: it writes payloads of 10 MB, and runs
/// MONITOR and SCAN.
///
/// operations -> COMMAND -> Redis -> read again -> pass or FAIL, by statement
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct ConformanceArgs {
    /// Print the statements, and run nothing
    #[arg(long)]
    pub list: bool,
    /// Check a failover too, on servers that the kit starts itself (needs `redis-server`)
    #[arg(long)]
    pub failover: bool,
    /// Look at this statement alone; may be repeated
    #[arg(long, value_name = "STATEMENT", value_parser = statement)]
    pub only: Vec<String>,
    /// Time for each answer of COMMAND
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
    /// Repeat the random values of another run
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
    /// The program with the producer, and its arguments
    #[arg(value_name = "COMMAND", last = true, required_unless_present = "list", num_args = 1..)]
    pub command: Vec<OsString>,
}

const AFTER: &str = "\
Runs `delaybridge-tools`, which the packages and archives install beside `delaybridge`.

Examples:
  delaybridge conformance --redis-url redis://127.0.0.1:6379 -- python3 adapter.py
  delaybridge conformance --redis-url redis://127.0.0.1:6379 --failover --output json -- ./adapter
  delaybridge conformance --list

Exit codes: 0 no statement failed, 1 one failed or the run could not be made, 2 wrong arguments";

fn statement(text: &str) -> Result<String, String> {
    let known = STATEMENTS.iter().find(|statement| statement.number.eq_ignore_ascii_case(text));
    known.map(|statement| statement.number.to_owned()).ok_or_else(|| "`--list` prints the statements".to_owned())
}

/// Bytes of the largest payload.
const LARGE: usize = 10 << 20;

impl ConformanceArgs {
    /// Returns the options of a run on this Redis.
    pub fn options(&self, redis_url: String) -> Options {
        Options {
            command: self.command.clone(),
            redis_url,
            limit: self.timeout,
            seed: self.seed,
            large: LARGE,
            only: self.only.clone(),
            failover: self.failover,
        }
    }
}
