//! Settings from the environment, and progress messages.

use std::io::Write as _;
use std::str::FromStr;

use anyhow::{Context, Result};

/// Reads a number from the environment.
pub fn number<T: FromStr>(name: &str, default: T) -> Result<T> {
    match std::env::var(name) {
        Ok(text) => text.replace(['_', ','], "").parse().ok().with_context(|| format!("read {name}={text}: no number")),
        Err(_) => Ok(default),
    }
}

/// Reads numbers separated by blanks from the environment.
pub fn numbers(name: &str, default: &[usize]) -> Result<Vec<usize>> {
    match std::env::var(name) {
        Ok(text) => {
            let each = text.split_whitespace().map(|word| word.replace(['_', ','], "").parse().ok());
            each.collect::<Option<_>>().with_context(|| format!("read {name}={text}: numbers with blanks between them"))
        }
        Err(_) => Ok(default.to_vec()),
    }
}

/// The number of measurements for each median: `ROUNDS`, else 3.
pub fn rounds() -> Result<usize> {
    Ok(number("ROUNDS", 3)?.max(1))
}

/// Reads words separated by blanks from the environment.
pub fn words(name: &str, default: &[&str]) -> Vec<String> {
    match std::env::var(name) {
        Ok(text) => text.split_whitespace().map(str::to_owned).collect(),
        Err(_) => default.iter().map(|&word| word.to_owned()).collect(),
    }
}

/// Reports progress to the user on standard error; standard output is for the report.
pub fn said(what: &str) {
    // Standard error may be closed.
    let _ = writeln!(std::io::stderr(), "... {what}");
}
