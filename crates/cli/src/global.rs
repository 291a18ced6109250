//! The options of every command.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::access::AccessArgs;

/// The path of the configuration unless the command line or the environment says otherwise.
pub(crate) const DEFAULT_CONFIG: &str = "/etc/delaybridge/delaybridge.yaml";

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// The configuration; - is standard input
    #[arg(
        long,
        global = true,
        env = "DELAYBRIDGE_CONFIG",
        value_name = "FILE",
        default_value = DEFAULT_CONFIG
    )]
    pub config: PathBuf,
    /// Format of results: text, or json (one object)
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t = Output::Text, hide_possible_values = true)]
    pub output: Output,
    /// The connection to Redis.
    #[command(flatten)]
    pub redis: AccessArgs,
}

/// The format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For a person.
    Text,
    /// For a program: one JSON document.
    Json,
}
