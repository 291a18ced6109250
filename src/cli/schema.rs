//! `schema`: the JSON Schema of the configuration, for editors.

use std::io::{self, Write};

use clap::Args;

/// Print the JSON Schema of the configuration.
///
/// Editors complete and check YAML with it. It knows the keys of this version only; what it lets pass, `check` checks
/// again.
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
    writeln!(out, "{:#}", crate::config::schema())
}
