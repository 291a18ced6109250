//! What the environment asks for, and what is told while something takes long.

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

/// Words of the environment, with blanks between them.
pub fn words(name: &str, default: &[&str]) -> Vec<String> {
    match std::env::var(name) {
        Ok(text) => text.split_whitespace().map(str::to_owned).collect(),
        Err(_) => default.iter().map(|&word| word.to_owned()).collect(),
    }
}

/// Tells the person who waits what is under way; standard output is the report's.
pub fn said(what: &str) {
    // Nobody may be listening.
    let _ = writeln!(std::io::stderr(), "... {what}");
}
