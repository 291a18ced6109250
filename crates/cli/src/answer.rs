//! The results of commands, as text or JSON.

use std::io::{self, Write};

use serde::Serialize;

use super::failed::Failed;
use super::global::{Global, Output};

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
