//! Settings from the environment, and progress messages.

use std::io::Write as _;
use std::str::FromStr;

use anyhow::{Context, Result};

/// A number of the environment.
pub fn number<T: FromStr>(name: &str, default: T) -> Result<T> {
    match std::env::var(name) {
        Ok(text) => text.replace(['_', ','], "").parse().ok().with_context(|| format!("read {name}={text}: no number")),
        Err(_) => Ok(default),
    }
}

/// Numbers of the environment, with blanks between them.
pub fn numbers(name: &str, default: &[usize]) -> Result<Vec<usize>> {
    match std::env::var(name) {
        Ok(text) => {
            let each = text.split_whitespace().map(|word| word.replace(['_', ','], "").parse().ok());
            each.collect::<Option<_>>().with_context(|| format!("read {name}={text}: numbers with blanks between them"))
        }
        Err(_) => Ok(default.to_vec()),
    }
}

/// How often each thing is measured of which the median is shown: `ROUNDS`, else three times.
pub fn rounds() -> Result<usize> {
    Ok(number("ROUNDS", 3)?.max(1))
}

/// Words of the environment, with blanks between them.
pub fn words(name: &str, default: &[&str]) -> Vec<String> {
    match std::env::var(name) {
        Ok(text) => text.split_whitespace().map(str::to_owned).collect(),
        Err(_) => default.iter().map(|&word| word.to_owned()).collect(),
    }
}

/// Reports progress to the user; standard output is for the report.
pub fn said(what: &str) {
    // Standard error may be closed.
    let _ = writeln!(std::io::stderr(), "... {what}");
}
