//! `schema`: the JSON Schema of the configuration, for editors.

use std::io::{self, Write};

use clap::Args;

/// Print the JSON Schema of the configuration.
///
/// Editors complete and check YAML with it. It has the keys of this version only. `check` finds more mistakes
/// than the schema.
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
