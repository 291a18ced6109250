//! `reload`: tells the daemon on this machine to read its configuration again, and shows what comes of it.

use std::io::Write;
use std::time::Duration;

use clap::Args;

use super::answer::answer;
use super::failed::Failed;
use super::global::Global;
use super::load::load;
use delaybridge_ops::daemon::{self, Reloaded};

/// Tell the daemon on this machine to read its configuration again.
///
/// The file is checked first; then its daemon gets SIGHUP, applies what differs, and answers. After a mistake, or for a
/// key that needs a restart, nothing changes. Unchanged queues and sinks are not interrupted.
///
/// check -> SIGHUP -> drain what differs -> the new settings
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct ReloadArgs {
    /// The daemon's process [default: the one that runs with this file]
    #[arg(long, value_name = "NUMBER")]
    pub pid: Option<u32>,
    /// Maximum time to wait for the end of the reload
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = time)]
    pub wait: Duration,
}

const AFTER: &str = "\
Examples:
  delaybridge reload --config delaybridge.yaml
  delaybridge reload --pid 4711 --output json

Exit codes: 0 the file is what runs, 1 no daemon or no answer, 2 the file is wrong or the reload was refused";

fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write 500ms, 5s or 10m"))
}

pub(super) async fn run(global: &Global, args: &ReloadArgs, out: &mut dyn Write) -> Result<u8, Failed> {
    // A mistake is reported here, with its place, before the daemon logs it.
    let listen = load(global)?.config.http_listen;
    let reloaded = daemon::reload(&global.config, args.pid, listen, args.wait).await?;
    answer(global, out, &reloaded, text)?;
    Ok(if reloaded.successful == Some(false) { 2 } else { 0 })
}

fn text(reloaded: &Reloaded) -> String {
    let Reloaded { pid, successful, problems, seconds } = reloaded;
    match successful {
        Some(true) => format!("Process {pid} runs what the file says, after {seconds:.1} s.\n"),
        Some(false) => {
            let word = |problem: &serde_json::Value, name: &str| problem[name].as_str().unwrap_or_default().to_owned();
            let line = |problem| {
                format!("{}: {}\n  {}\n", word(problem, "path"), word(problem, "message"), word(problem, "help"))
            };
            let lines: String = problems.iter().map(line).collect();
            format!("{lines}\nProcess {pid} has refused the reload. The configuration before runs on.\n")
        }
        None => {
            format!(
                "Process {pid} has the signal. It has no HTTP server (`http: none`): its log says whether the reload worked.\n"
            )
        }
    }
}
