//! `run`: the arguments of the daemon. Its work is in `main.rs` and `app/`.

use clap::{Args, ValueEnum};

use super::alike::{alike, first_few};
use delaybridge_settings::problem::Problem;
use delaybridge_telemetry::logging::Format;

/// Run the daemon: deliver due elements until SIGTERM.
///
/// SIGTERM or Ctrl-C stops it cleanly within `shutdown_timeout`; a second one, more than two seconds later, at once,
/// and elements in flight come back by their leases. SIGHUP reloads the configuration. SIGUSR1 and SIGUSR2 are ignored.
///
/// claim (lease) -> decode -> route -> deliver -> settle: gone | retry | dead letter
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct RunArgs {
    /// Log filter: error, warn, info, debug, trace or off, and target=level pairs; overrides DELAYBRIDGE_LOG [default: info]
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
    /// Log format; auto is text on a terminal, JSON otherwise
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Auto)]
    pub log_format: LogFormat,
}

const AFTER: &str = "\
Examples:
  delaybridge run --config delaybridge.yaml
  delaybridge run --log info,delaybridge::link=debug --log-format json

Exit codes: 0 drained, 1 failed, 2 wrong configuration, 3 drained with leftovers (their leases bring
them back), 75 a file that the configuration names was not there within 30 s";

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// Text.
    Text,
    /// One JSON object a line.
    Json,
}

impl From<LogFormat> for Format {
    fn from(format: LogFormat) -> Self {
        match format {
            LogFormat::Auto => Format::Auto,
            LogFormat::Text => Format::Text,
            LogFormat::Json => Format::Json,
        }
    }
}

/// Logs the files that the start waits for.
pub(super) fn log_absent(problems: &[Problem]) {
    for problem in problems {
        tracing::warn!(path = %problem.path, "waiting for a file: {}", problem.message);
    }
}

/// Logs what is doubtful in the configuration; `check` shows the same. What many queues have is one line.
pub fn log_warnings(warnings: &[Problem]) {
    let all: Vec<_> = warnings.iter().collect();
    for group in alike(&all, |warning| (&warning.message, &warning.help)) {
        let Some((warning, others)) = group.split_first() else { continue };
        let paths: Vec<_> = others.iter().map(|other| &*other.path).collect();
        tracing::warn!(
            file = %warning.file,
            line = warning.position.map(|position| position.line),
            path = %warning.path,
            same_at = (!paths.is_empty()).then(|| first_few(&paths)),
            help = warning.help.as_deref().unwrap_or_default(),
            "configuration: {}", warning.message
        );
    }
}
