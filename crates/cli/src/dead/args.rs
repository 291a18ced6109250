//! Arguments of `dead`: which letters are meant, and how fast they are worked through.

use std::io::BufRead;

use clap::Args;

use crate::failed::Failed;
use crate::input::standard_input;
use crate::remote::DaemonArgs;
use delaybridge_ops::dead::{Filter, Letters, Pace};

/// The longest line of standard input that can be an id.
const LONGEST: usize = 1_024;
/// Ids that are taken from standard input at once: so many are in memory.
pub const IDS_AT_ONCE: usize = 1_000;

/// The letters of a queue that are meant: by name, by filter, or all.
#[derive(Debug, Args)]
#[group(skip)]
pub struct LettersArgs {
    /// The queue's id in the configuration
    #[arg(value_name = "QUEUE")]
    pub queue: String,
    /// Stream ids (1795251632252-0) or element ids (as `peek` shows it); `-` for those on standard input, one a line
    #[arg(value_name = "ID", conflicts_with = "all")]
    pub ids: Vec<String>,
    /// All current dead letters
    #[arg(long)]
    pub all: bool,
    /// The filter of the letters.
    #[command(flatten)]
    pub filter: Filter,
    /// The daemon to ask.
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

impl LettersArgs {
    /// Whether the ids come from standard input.
    pub fn reads_stdin(&self) -> bool {
        self.ids.iter().any(|id| id == "-")
    }

    /// The ids among the arguments.
    pub fn names(&self) -> &[String] {
        if self.reads_stdin() { &[] } else { &self.ids }
    }

    /// The letters that are meant.
    ///
    /// # Errors
    ///
    /// Where none are named in any way.
    pub fn which(&self, verb: &str) -> Result<Letters, Failed> {
        let which = Letters { ids: self.ids.clone(), all: self.all, filter: self.filter.clone(), ..Letters::default() };
        if self.reads_stdin() && self.ids.len() > 1 {
            return Err(Failed::usage(format!("{verb} dead letters: write ids, or `-` for those on standard input")));
        }
        match which.ids.is_empty() && !which.all && which.filter.is_empty() {
            true => Err(Failed::usage(format!(
                "{verb} dead letters of `{}`: name them by id, by a filter (--reason, --code, --field, ...), or write --all",
                self.queue
            ))),
            false => Ok(which),
        }
    }
}

/// The pace at which letters are worked through.
#[derive(Debug, Args)]
pub struct PaceArgs {
    /// Only count them; nothing is changed
    #[arg(long)]
    pub dry_run: bool,
    /// At most so many a second: 50, or 50/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<f64>,
}

impl PaceArgs {
    pub fn pace(&self) -> Pace {
        Pace { dry_run: self.dry_run, rate: self.rate }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text).trim();
    let rate = number.parse::<f64>().ok().filter(|rate| rate.is_finite() && (0.001..=1_000_000.0).contains(rate));
    rate.ok_or_else(|| "write 50 or 50/s: at least 0.001, at most 1000000".to_owned())
}

/// The next ids on standard input, at most [`IDS_AT_ONCE`]; empty at its end.
pub fn ids_of_stdin(read: &mut u64) -> Result<Vec<String>, Failed> {
    let (mut ids, mut input) = (Vec::new(), standard_input("ids")?.lock());
    let mut line = Vec::new();
    while ids.len() < IDS_AT_ONCE {
        line.clear();
        let number = *read + 1;
        let failed = |why: &str| Failed::usage(format!("read ids from standard input, line {number}: {why}"));
        let length = std::io::Read::take(&mut input, LONGEST as u64 + 1)
            .read_until(b'\n', &mut line)
            .map_err(|error| failed(&error.to_string()))?;
        if length == 0 {
            break;
        }
        if length > LONGEST {
            return Err(failed("the line is longer than an id"));
        }
        *read += 1;
        let id = std::str::from_utf8(&line).map_err(|_| failed("not UTF-8"))?.trim();
        if !id.is_empty() {
            ids.push(id.to_owned());
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_so_many_a_second() {
        assert_eq!((rate("50"), rate("50/s"), rate("0.5/s")), (Ok(50.0), Ok(50.0), Ok(0.5)));
        for bad in ["0", "-1", "fast", "1/m", "inf", ""] {
            assert!(rate(bad).unwrap_err().contains("50/s"), "{bad}");
        }
    }
}
