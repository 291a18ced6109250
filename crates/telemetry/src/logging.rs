//! The output of log lines: text for people, JSON for machines, always on standard error. The journal of systemd gets the level of
//! each line too.
//!
//! Standard output belongs to the sink stdout. It does not depend on what is logged.

mod filter;
mod journal;

use std::io::{IsTerminal, Write};

use tracing_subscriber::fmt;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The environment variable with the filter (`info,delaybridge::link=debug`).
pub const FILTER_VARIABLE: &str = "DELAYBRIDGE_LOG";

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text on a terminal, JSON otherwise.
    #[default]
    Auto,
    /// Always text.
    Text,
    /// Always JSON, one object a line.
    Json,
}

/// The reason why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The filter does not parse.
    #[error(
        "read the log filter {filter:?}: {problem}; write a level (error, warn, info, debug, trace, off) or \
         target=level pairs with commas between them, in {FILTER_VARIABLE} or on the command line"
    )]
    Filter {
        /// The given filter.
        filter: String,
        /// The rule that it breaks.
        problem: String,
    },
    /// Logging was started before in this process.
    #[error("start logging: it has been started before in this process")]
    Twice,
}

/// Starts logging for the whole process. `filter` has priority over [`FILTER_VARIABLE`]; the default is `info`.
pub fn init(format: Format, filter: Option<&str>) -> Result<(), LoggingError> {
    let from_env = std::env::var_os(FILTER_VARIABLE).map(|value| value.to_string_lossy().into_owned());
    let text = filter.or(from_env.as_deref()).unwrap_or_default();
    let filter = filter::parse(text).map_err(|problem| LoggingError::Filter { filter: text.to_owned(), problem })?;
    let terminal = std::io::stderr().is_terminal();
    let writer =
        if journal::is_stderr() { BoxMakeWriter::new(journal::Journal) } else { BoxMakeWriter::new(std::io::stderr) };
    let base = tracing_subscriber::registry().with(filter);
    let started = if json(format, terminal) {
        // Fields at the top level, where log collectors index them by default.
        base.with(fmt::layer().json().flatten_event(true).with_writer(writer)).try_init()
    } else {
        base.with(fmt::layer().with_ansi(terminal).with_writer(writer)).try_init()
    };
    started.map_err(|_| LoggingError::Twice)
}

/// Writes the reason why the process ends to standard error, where there may be no logger: with its level in front of each line if
/// that is the journal.
pub fn write_error(message: &str) {
    let front = if journal::is_stderr() { journal::priority(tracing::Level::ERROR) } else { "" };
    let text: String = format!("error: {message}").lines().map(|line| format!("{front}{line}\n")).collect();
    // Ignore the error: standard error is closed, and there is no other output.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

fn json(format: Format, terminal: bool) -> bool {
    match format {
        Format::Auto => !terminal,
        Format::Text => false,
        Format::Json => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_text_and_a_pipe_gets_json() {
        let check = |format, terminal, expected| assert_eq!(json(format, terminal), expected, "{format:?} {terminal}");
        check(Format::Auto, true, false);
        check(Format::Auto, false, true);
        check(Format::Text, false, false);
        check(Format::Json, true, true);
    }
}
