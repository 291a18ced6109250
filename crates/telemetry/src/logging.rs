//! The output of log lines: text for people, JSON for machines, always on standard error.
//!
//! Standard output belongs to the sink stdout. It does not depend on what is logged.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;
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
        "read the log filter {filter:?}: {problem}; write a level (error, warn, info, debug, trace) or \
         target=level pairs with commas between them, in {FILTER_VARIABLE} or on the command line"
    )]
    Filter {
        /// The given filter.
        filter: String,
        /// The parser's message.
        problem: String,
    },
    /// Logging was started before in this process.
    #[error("start logging: it has been started before in this process")]
    Twice,
}

/// Starts logging for the whole process. `filter` has priority over [`FILTER_VARIABLE`]; the default is `info`.
pub fn init(format: Format, filter: Option<&str>) -> Result<(), LoggingError> {
    let from_env = std::env::var(FILTER_VARIABLE).ok();
    let filter = parse(filter.or(from_env.as_deref()).unwrap_or_default())?;
    let terminal = std::io::stderr().is_terminal();
    let base = tracing_subscriber::registry().with(filter);
    let started = if json(format, terminal) {
        // Fields at the top level, where log collectors index them by default.
        base.with(fmt::layer().json().flatten_event(true).with_writer(std::io::stderr)).try_init()
    } else {
        base.with(fmt::layer().with_ansi(terminal).with_writer(std::io::stderr)).try_init()
    };
    started.map_err(|_| LoggingError::Twice)
}

fn json(format: Format, terminal: bool) -> bool {
    match format {
        Format::Auto => !terminal,
        Format::Text => false,
        Format::Json => true,
    }
}

/// The directive for the logs of client libraries, which are off: every failure is returned as an error and logged
/// once, where it is judged. The filter `lapin=debug` turns them on.
const QUIET: &str = "lapin=off";
/// The directives for logs with payloads of returned messages or whole frames; they are off whatever the filter says.
const NEVER: [&str; 3] = ["lapin::returned_messages=off", "lapin::channels=off", "lapin::frames=off"];

fn parse(filter: &str) -> Result<EnvFilter, LoggingError> {
    let text = if filter.trim().is_empty() { "info" } else { filter };
    let wrong =
        |error: &dyn std::fmt::Display| LoggingError::Filter { filter: text.to_owned(), problem: error.to_string() };
    let mut filter = EnvFilter::try_new(text).map_err(|error| wrong(&error))?;
    let quiet = [QUIET].into_iter().filter(|_| !text.contains("lapin"));
    for directive in quiet.chain(NEVER) {
        filter = filter.add_directive(directive.parse().map_err(|error| wrong(&error))?);
    }
    Ok(filter)
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

    #[test]
    fn an_empty_filter_means_info_and_a_wrong_one_is_explained() {
        // The order of the directives is up to the library.
        let shown = |filter: &str| {
            let mut parts: Vec<_> = parse(filter).unwrap().to_string().split(',').map(str::to_owned).collect();
            parts.retain(|part| !NEVER.contains(&part.as_str()));
            parts
        };
        assert_eq!(shown(""), ["lapin=off", "info"]);
        assert_eq!(shown("warn,delaybridge=debug"), ["delaybridge=debug", "lapin=off", "warn"]);
        // Every directive against payloads is still there, and none that turns them on again.
        for asked in ["", "trace", "lapin=trace", "lapin::returned_messages=warn", "lapin::frames=trace"] {
            let filter = parse(asked).unwrap().to_string();
            assert!(NEVER.iter().all(|never| filter.contains(never)), "{asked}: {filter}");
            assert!(!filter.contains("frames=trace") && !filter.contains("messages=warn"), "{asked}: {filter}");
        }
        let error = parse("delaybridge=loud").unwrap_err().to_string();
        assert!(error.contains("delaybridge=loud") && error.contains("DELAYBRIDGE_LOG"), "{error}");
    }
}
