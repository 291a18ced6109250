//! `schema`: the JSON Schema of the configuration, for editors.

use std::io::{self, Write};

use clap::Args;

/// Print the JSON Schema of the configuration.
///
/// For editors. `check` finds more mistakes.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct SchemaArgs {}

const AFTER: &str = "\
Example:
  delaybridge schema > delaybridge.schema.json
  # first line of the YAML:  # yaml-language-server: $schema=delaybridge.schema.json";

/// Writes the schema to `out`.
///
/// # Errors
/// When `out` cannot be written to.
pub fn schema(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{:#}", delaybridge_config::schema())
}
