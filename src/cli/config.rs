//! `config show`: what the configuration means, with every default, and whether that is what runs.

use std::io::Write;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;

use super::{Failed, Global, answer, load};
use crate::config;
use crate::operate::daemon;

/// Show the settings in effect.
#[derive(Debug, Subcommand)]
#[command(after_help = AFTER)]
pub enum ConfigCommand {
    Show(ShowArgs),
}

const AFTER: &str = "\
Examples:
  delaybridge config show
  delaybridge config show --output json";

/// Show what the file means, with all defaults and without secrets.
///
/// Where the daemon's HTTP server (`http.listen`) answers on this machine, it also says whether the daemon runs with these
/// settings. If not, `reload` or a restart applies them. The contents of password files are not compared.
#[derive(Debug, Args)]
#[command(after_help = AFTER_SHOW)]
pub struct ShowArgs {}

const AFTER_SHOW: &str = "\
Examples:
  delaybridge config show
  delaybridge config show --output json

Exit codes: 0 shown, 2 the configuration is wrong";

/// The settings of the file.
#[derive(Debug, Serialize)]
struct Shown {
    /// Defaults filled in, secrets hidden.
    settings: Value,
    /// A hash of them.
    hash: String,
    /// The hash of the settings that the daemon runs with; none where no daemon answers.
    running: Option<String>,
}

pub(super) async fn run(global: &Global, command: &ConfigCommand, out: &mut dyn Write) -> Result<u8, Failed> {
    let ConfigCommand::Show(_) = command;
    let config = load(global)?.config;
    let running = match config.http_listen {
        Some(listen) => daemon::running_hash(listen).await,
        None => None,
    };
    let shown = Shown { settings: config::describe_json(&config), hash: config::summary(&config), running };
    answer(global, out, &shown, |shown| {
        let state = match &shown.running {
            Some(running) if *running == shown.hash => "The daemon on this machine runs with these settings.",
            Some(_) => "The daemon on this machine runs with other settings. `delaybridge reload` applies these.",
            None => "No daemon answers at `http.listen` on this machine.",
        };
        format!("{}\n{state}\n", config::describe(&config))
    })?;
    Ok(0)
}
