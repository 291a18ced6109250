//! `config show`: what the configuration means, with every default, and whether that is what runs.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;

use super::answer::answer;
use super::failed::Failed;
use super::global::Global;
use super::load::read;
use delaybridge_ops::differences::{Differing, MOST, differences};
use delaybridge_ops::operation::Place;
use delaybridge_ops::operations::ShowSettings;
use delaybridge_ops::remote::Daemon;
use delaybridge_ops::{Error, NamedDaemon, daemon};

/// Show the settings in effect.
#[derive(Debug, Subcommand)]
#[command(after_help = AFTER)]
pub enum ConfigCommand {
    Show(ConfigShowArgs),
}

const AFTER: &str = "\
Examples:
  delaybridge config show
  delaybridge config show --output json";

/// Show what the file means, with all defaults and without secrets.
///
/// If the daemon (`http.listen`) answers on this machine, it also says whether it runs with these settings; the
/// contents of password files are not compared.
///
/// The admin API of --daemon, or of `http.admin.listen` if it needs no token, lists each key that differs.
#[derive(Debug, Args)]
#[command(after_help = AFTER_SHOW)]
pub struct ConfigShowArgs {
    /// The daemon to compare with
    #[arg(long = "daemon", value_name = "URL", env = "DELAYBRIDGE_DAEMON")]
    pub url: Option<String>,
    /// File with the token for it
    #[arg(long, value_name = "FILE", env = "DELAYBRIDGE_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
}

const AFTER_SHOW: &str = "\
Examples:
  delaybridge config show
  delaybridge config show --output json
  delaybridge config show --daemon http://127.0.0.1:9465 --token-file /run/secrets/admin

Exit codes: 0 shown, 1 the daemon of --daemon does not answer, 2 the configuration is wrong";

/// The settings of the file.
#[derive(Debug, Serialize)]
struct ShownSettings {
    /// Defaults filled in, secrets hidden.
    settings: Value,
    /// A hash of them.
    hash: String,
    /// The hash of the settings that the daemon runs with; none where no daemon answers.
    running: Option<String>,
    /// The keys that differ; none where the settings that run could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    differences: Option<Vec<Differing>>,
}

pub(super) async fn run(global: &Global, command: &ConfigCommand, out: &mut dyn Write) -> Result<u8, Failed> {
    let ConfigCommand::Show(args) = command;
    // Of the file alone: the daemon does not run with the connection that this command was given.
    let config = read(global).map_err(|errors| Failed::usage(errors.to_string()))?.config;
    let settings = delaybridge_config::describe_json(&config);
    let hash = delaybridge_config::summary(&config);
    let running = match config.http_listen {
        Some(listen) => daemon::running_hash(&global.config, listen).await,
        None => None,
    };
    let differs = running.as_ref().is_some_and(|running| *running != hash);
    let token_file = args.token_file.as_deref();
    let found = match &args.url {
        Some(url) => Some(ask(Daemon::at(url, token_file)?).await?),
        None if differs => match NamedDaemon::of(&config, token_file).ok().and_then(NamedDaemon::into_daemon) {
            Some(named) => ask(named).await.ok(),
            None => None,
        },
        None => None,
    };
    let differences = found.map(|found| differences(&found, &settings));
    let shown = ShownSettings { settings, hash, running, differences };
    answer(global, out, &shown, |shown| format!("{}\n{}", delaybridge_config::describe(&config), state(shown)))?;
    Ok(0)
}

/// Reads the settings that a daemon runs with.
async fn ask(daemon: Daemon) -> Result<Value, Error> {
    Place::Daemon(daemon).call(&ShowSettings {}).await.map(Value::Object)
}

/// Returns the comparison of the file with the daemon, in words.
fn state(shown: &ShownSettings) -> String {
    let differences = match (&shown.differences, &shown.running) {
        (Some(differences), _) if differences.is_empty() => {
            return "The daemon runs with these settings.\n".to_owned();
        }
        (Some(differences), _) => differences,
        (None, Some(running)) if *running == shown.hash => {
            return "The daemon on this machine runs with these settings.\n".to_owned();
        }
        (None, Some(_)) => {
            return "The daemon on this machine runs with other settings. `delaybridge reload` applies these. --daemon shows which keys \
                    differ.\n"
                .to_owned();
        }
        (None, None) => return "No daemon answers at `http.listen` on this machine.\n".to_owned(),
    };
    let value = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), Value::to_string);
    let line =
        |one: &Differing| format!("  {}: {} runs, {} in the file\n", one.path, value(&one.running), value(&one.file));
    let lines: String = differences.iter().take(MOST).map(line).collect();
    let more = differences.len().saturating_sub(MOST);
    let more = if more > 0 { format!("  and {more} more\n") } else { String::new() };
    format!("The daemon runs with other settings. `delaybridge reload` applies these.\n{lines}{more}")
}
