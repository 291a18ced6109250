//! The results of commands, as text or JSON.

use std::io::{self, Write};

use serde::Serialize;

use super::failed::Failed;
use super::global::{Global, Output};
use delaybridge_ops::content::escaped;

/// Prints a result: as JSON, or as the text that `text` makes of it.
pub(crate) fn answer<T: Serialize>(
    global: &Global,
    out: &mut dyn Write,
    result: &T,
    text: impl FnOnce(&T) -> String,
) -> Result<(), Failed> {
    match global.output {
        Output::Text => out.write_all(text(result).as_bytes())?,
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, result).map_err(io::Error::from)?;
            writeln!(out)?;
        }
    }
    Ok(())
}

/// A result, with the reason why the daemon of the configuration added nothing to it.
#[derive(Serialize)]
struct WithoutDaemon<'a, T> {
    without_daemon: &'a str,
    #[serde(flatten)]
    result: &'a T,
}

/// Prints what an operator answered. Where the daemon of the configuration added nothing to it, the reason comes first.
pub(crate) fn answer_of<T: Serialize>(
    global: &Global,
    out: &mut dyn Write,
    without_daemon: Option<String>,
    result: &T,
    text: impl FnOnce(&T) -> String,
) -> Result<(), Failed> {
    let Some(problem) = without_daemon else { return answer(global, out, result, text) };
    let with_reason = WithoutDaemon { without_daemon: &problem, result };
    answer(global, out, &with_reason, |with| format!("Redis alone: {}\n{}", escaped(&problem), text(with.result)))
}
